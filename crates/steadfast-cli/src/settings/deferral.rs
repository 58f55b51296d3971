//! The settings `defer` and below `deferral`: what is sent later, from the queue.
//!
//! Decides which values are possible and which contradict one another, and that no credential
//! stands in the file. The words are those of docs/reference.md; what they do is the core's.

use std::cell::RefCell;
use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use steadfast_core::deferral::{Defer, Deferral, may_be_set, waits};
use steadfast_core::policy::RoutePolicy;

use super::document::Value;
use super::environment::Environment;
use super::fault::{Kind, Wrong};
use super::layers::Layers;
use super::secret::{self, Secret};
use super::value::{positive_length, show_length, switch, whole, word, wrong_type};

/// Most runs at once to one upstream that can be asked for.
pub(super) const MOST_RUNS: u32 = 10_000;

const HEADERS: &str = "deferral.headers";
const KEEP: &str = "deferral.keep_credential";

/// A field of every run, as it was written.
#[derive(Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: HeaderName,
    /// Its value, or where that is.
    pub value: FieldValue,
}

/// The value of a field of every run.
#[derive(Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// It stands in the configuration.
    Plain(HeaderValue),
    /// It is a secret, and its place stands there.
    Secret(Secret),
}

impl fmt::Debug for Field {
    /// The name alone: what stands beside it may be a credential (S2).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Field").field(&self.name).finish()
    }
}

/// Reads `defer` and everything below `deferral` into `policy`; gives the fields of runs as they
/// were written.
pub fn read(
    layers: &mut Layers<'_>,
    environment: &Environment,
    policy: &mut RoutePolicy,
) -> Vec<Field> {
    let words = [
        ("off", Some(Defer::Never)),
        ("allowed", Some(Defer::Allowed)),
        ("always", Some(Defer::Always)),
    ];
    policy.defer = layers.take("defer", Defer::Never, |value| word(value, &words));
    let base = Deferral::default();
    let runs = |value: &Value| whole(value, 1..=MOST_RUNS).map(|runs| runs as usize);
    let max_age = layers.take("deferral.max_age", base.max_age, positive_length);
    let backoff = backoff(layers, &base);
    let concurrency = layers.take("deferral.concurrency", base.concurrency, runs);
    let fields = fields(layers, environment);
    let keep_credential = layers.take(KEEP, base.keep_credential, switch);
    if keep_credential && !is_encrypted() {
        let reason = "a caller's credential is kept only where records are encrypted, and \
                      `encrypt_with` is not set";
        let next = "remove it, and give the queue a credential of its own in `deferral.headers`";
        layers.refuse(KEEP, Wrong::new(Kind::Contradiction, reason, next));
    }
    let headers = fields.iter().filter_map(|field| {
        let mut value = match &field.value {
            FieldValue::Plain(value) => value.clone(),
            FieldValue::Secret(secret) => HeaderValue::from_str(secret.expose()).ok()?,
        };
        value.set_sensitive(true);
        Some((field.name.clone(), value))
    });
    policy.deferral = std::sync::Arc::new(Deferral {
        max_age,
        backoff,
        concurrency,
        headers: headers.collect::<HeaderMap>(),
        keep_credential,
    });
    fields
}

/// Whether stored records are encrypted (`encrypt_with`).
fn is_encrypted() -> bool {
    false
}

fn backoff(layers: &mut Layers<'_>, default: &Deferral) -> steadfast_core::backoff::Backoff {
    let (base, cap) = (default.backoff.base(), default.backoff.cap());
    let base = layers.take("deferral.base", base, positive_length);
    let cap = layers.take("deferral.cap", cap, positive_length);
    waits(base, cap).unwrap_or_else(|| {
        let blamed = match layers.written("deferral.cap") {
            Some(_) => "deferral.cap",
            None => "deferral.base",
        };
        let (base, cap) = (show_length(base), show_length(cap));
        let reason = format!("the cap of {cap} is shorter than the base of {base}");
        let next = "raise the cap or lower the base";
        layers.refuse(blamed, Wrong::new(Kind::Contradiction, reason, next));
        default.backoff
    })
}

/// The fields of all levels together: a route's own win over those of `[defaults]`.
fn fields(layers: &mut Layers<'_>, environment: &Environment) -> Vec<Field> {
    let all = RefCell::new(Vec::<Field>::new());
    layers.take(HEADERS, (), |value| {
        let Value::Table(table) = value else {
            let example = "{ Authorization = { env = \"QUEUE_AUTHORIZATION\" } }";
            return Err(wrong_type(value, "a table of fields", example));
        };
        for (name, entry) in table {
            let field = field(name, &entry.value, environment)?;
            let mut all = all.borrow_mut();
            all.retain(|other| other.name != field.name);
            all.push(field);
        }
        Ok(())
    });
    all.into_inner()
}

fn field(written: &str, value: &Value, environment: &Environment) -> Result<Field, Wrong> {
    let name: HeaderName = written.parse().map_err(|_| {
        let reason = format!("`{written}` is not the name of a field");
        Wrong::invalid(reason, "write a name such as Authorization")
    })?;
    if !may_be_set(&name) {
        let reason = format!("`{written}` is written anew for every attempt, or frames it");
        return Err(Wrong::invalid(reason, "remove it"));
    }
    let value = match value {
        Value::Text(text) if !is_secret(&name) => {
            let value = HeaderValue::from_str(text).map_err(|_| {
                let reason = format!("the value of `{written}` cannot stand in a field");
                Wrong::invalid(reason, "write visible ASCII")
            })?;
            FieldValue::Plain(value)
        }
        other => FieldValue::Secret(secret::read_field(other, environment)?),
    };
    Ok(Field { name, value })
}

/// Whether a field's value is a credential by its name, so that it may not stand in the file.
fn is_secret(name: &HeaderName) -> bool {
    let name = name.as_str();
    let parts = ["auth", "cookie", "key", "secret", "token"];
    parts.iter().any(|part| name.contains(part))
}
