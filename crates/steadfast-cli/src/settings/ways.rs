//! The settings below `idempotency.lookup` and `idempotency.compensate`: how an unknown outcome is
//! asked for, and how it is undone.
//!
//! Decides which templates, pointers, statuses and fields are possible, and which contradict one
//! another. What they do is the core's. Source: docs/keyed-requests.md, "Ways out of unknown".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use steadfast_core::fields::is_of_hop_or_protected;
use steadfast_core::fingerprint::JsonPointer;
use steadfast_core::lookup::{Capture, Compensate, Lookup, SETTLE, Template, TemplateError};
use steadfast_core::policy::{Idempotency, OnUnknown};

use super::document::Value;
use super::environment::Environment;
use super::fault::{Kind, Wrong};
use super::keyed::status_list;
use super::layers::Layers;
use super::secret::{self, Secret};
use super::value::{length, text, word, wrong_type};
use crate::gateway::route::PathPattern;

/// Fields of a look-up or a compensation, as they are written: of a secret its place alone.
pub type Fields = BTreeMap<String, Field>;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// What is no secret.
    Plain(String),
    /// A secret.
    Secret(Secret),
}

/// The fields of both, for whoever shows the configuration.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Of the look-up.
    pub lookup: Option<Fields>,
    /// Of the compensation.
    pub compensate: Option<Fields>,
}

/// Most fields that one has.
const MOST_FIELDS: usize = 16;

/// The settings of the look-up.
pub(super) const LOOKUP: [&str; 8] = [
    "idempotency.lookup.method",
    PATH,
    HEADERS,
    "idempotency.lookup.found",
    FOUND_AT,
    ANSWER_AT,
    ABSENT,
    "idempotency.lookup.settle",
];

/// Those of the compensation.
pub(super) const COMPENSATE: [&str; 5] = [
    "idempotency.compensate.method",
    UNDO_PATH,
    "idempotency.compensate.body",
    UNDO_HEADERS,
    "idempotency.compensate.settle",
];

const PATH: &str = "idempotency.lookup.path";
const HEADERS: &str = "idempotency.lookup.headers";
const FOUND_AT: &str = "idempotency.lookup.found_at";
const ANSWER_AT: &str = "idempotency.lookup.answer_at";
const ABSENT: &str = "idempotency.lookup.absent";
const UNDO_PATH: &str = "idempotency.compensate.path";
const UNDO_HEADERS: &str = "idempotency.compensate.headers";

/// Reads both into `rules`.
pub fn read(
    layers: &mut Layers<'_>,
    rules: &mut Idempotency,
    path: Option<&PathPattern>,
    environment: &Environment,
) -> Shown {
    let captures = path.map(PathPattern::places).unwrap_or_default();
    let (lookup, lookup_fields) = lookup(layers, &captures, environment);
    let (undo, undo_fields) = compensate(layers, &captures, environment);
    let asks = LOOKUP.iter().any(|name| layers.written(name).is_some());
    if rules.on_unknown == OnUnknown::Lookup && !asks {
        let reason = "the route has no `idempotency.lookup` to look up by";
        let next = "add idempotency.lookup = { path = \"/v1/charges/by-reference/{key}\" }, or \
                    write \"hold\"";
        let wrong = Wrong::new(Kind::Contradiction, reason, next);
        layers.refuse("idempotency.on_unknown", wrong);
    }
    rules.lookup = lookup.map(Arc::new);
    rules.compensate = undo.map(Arc::new);
    Shown {
        lookup: lookup_fields,
        compensate: undo_fields,
    }
}

fn lookup(
    layers: &mut Layers<'_>,
    captures: &[Capture],
    environment: &Environment,
) -> (Option<Lookup>, Option<Fields>) {
    let methods = [("GET", Some(Method::GET)), ("HEAD", Some(Method::HEAD))];
    let of_path = |value: &Value| template(value, captures, Template::path).map(Some);
    let path = layers.take(PATH, None, of_path);
    let fields = layers.take(HEADERS, None, |v| fields(v, environment).map(Some));
    let ok = vec![StatusCode::OK];
    let gone = vec![StatusCode::NOT_FOUND];
    let found = layers.take("idempotency.lookup.found", ok, some_statuses);
    let found_at = layers.take(FOUND_AT, None, |v| pointer(v).map(Some));
    let answer_at = layers.take(ANSWER_AT, None, |v| pointer(v).map(Some));
    let absent = layers.take(ABSENT, gone, status_list);
    let settle = layers.take("idempotency.lookup.settle", SETTLE, length);
    let method = layers.take("idempotency.lookup.method", Method::GET, |v| {
        word(v, &methods)
    });
    if !LOOKUP.iter().any(|name| layers.written(name).is_some()) {
        return (None, None);
    }
    needs_path(layers, PATH, "\"/v1/charges/by-reference/{key}\"");
    let contradiction = |reason: String, next: &str| Wrong::new(Kind::Contradiction, reason, next);
    if let Some(both) = found.iter().find(|status| absent.contains(status)) {
        let reason = format!("status {} also stands in `found`", both.as_u16());
        layers.refuse(ABSENT, contradiction(reason, "leave it in one of them"));
    }
    if path.as_ref().is_some_and(Template::has_query) && found_at.is_none() {
        let reason = "a search answers 200 whether or not it found anything, and there is no \
                      `found_at`"
            .to_owned();
        let next = "add found_at = \"/data/0\", the place where what was found stands";
        layers.refuse(PATH, contradiction(reason, next));
    }
    let reads = [(FOUND_AT, &found_at), (ANSWER_AT, &answer_at)];
    let read = reads.iter().find(|(_, pointer)| pointer.is_some());
    if let Some((name, _)) = read.filter(|_| method == Method::HEAD) {
        let reason = "the answer to a HEAD has no body".to_owned();
        layers.refuse(name, contradiction(reason, "write method = \"GET\""));
    }
    let headers = fields.as_ref().map(header_map);
    let lookup = path.map(|path| Lookup {
        method,
        path,
        headers,
        found,
        found_at,
        answer_at,
        absent,
        settle,
    });
    (lookup, fields)
}

fn compensate(
    layers: &mut Layers<'_>,
    captures: &[Capture],
    environment: &Environment,
) -> (Option<Compensate>, Option<Fields>) {
    let methods = [
        ("POST", Some(Method::POST)),
        ("PUT", Some(Method::PUT)),
        ("PATCH", Some(Method::PATCH)),
        ("DELETE", Some(Method::DELETE)),
    ];
    let of_path = |value: &Value| template(value, captures, Template::path).map(Some);
    let of_body = |value: &Value| template(value, captures, Template::json).map(Some);
    let path = layers.take(UNDO_PATH, None, of_path);
    let body = layers.take("idempotency.compensate.body", None, of_body);
    let fields = layers.take(UNDO_HEADERS, None, |v| fields(v, environment).map(Some));
    let settle = layers.take("idempotency.compensate.settle", SETTLE, length);
    let method = layers.take("idempotency.compensate.method", Method::POST, |v| {
        word(v, &methods)
    });
    if !COMPENSATE.iter().any(|name| layers.written(name).is_some()) {
        return (None, None);
    }
    needs_path(layers, UNDO_PATH, "\"/v1/charges/{key}/cancel\"");
    let headers = fields.as_ref().map(header_map).unwrap_or_default();
    let undo = path.map(|path| Compensate {
        method,
        path,
        body,
        headers,
        settle,
    });
    (undo, fields)
}

fn needs_path(layers: &mut Layers<'_>, name: &'static str, example: &str) {
    if layers.written(name).is_none() {
        let reason = "it has no `path`";
        let next = format!("add path = {example}");
        layers.refuse(name, Wrong::new(Kind::Missing, reason, next));
    }
}

type Parse = fn(&str, &[Capture]) -> Result<Template, TemplateError>;

fn template(value: &Value, captures: &[Capture], parse: Parse) -> Result<Template, Wrong> {
    let text = text(value, "\"/v1/charges/by-reference/{key}\"")?;
    parse(text, captures).map_err(|error| {
        let next = match error {
            TemplateError::Unknown(_) => {
                let own = captures
                    .iter()
                    .map(|capture| format!("{{{}}}", capture.name));
                let known = ["{key}", "{scoped_key}", "{fence}", "{body:/pointer}"];
                let known = known.into_iter().map(str::to_owned).chain(own);
                format!("write one of {}", known.collect::<Vec<_>>().join(", "))
            }
            _ => "correct it".to_owned(),
        };
        Wrong::invalid(error.to_string(), next)
    })
}

fn pointer(value: &Value) -> Result<String, Wrong> {
    let text = text(value, "\"/data/0\"")?;
    JsonPointer::parse(text).map_err(|_| {
        Wrong::invalid(
            format!("`{text}` is no JSON pointer to a member"),
            "write one such as \"/data/0\"; `~` in a name is written `~0`, and `/` `~1`",
        )
    })?;
    Ok(text.to_owned())
}

fn some_statuses(value: &Value) -> Result<Vec<StatusCode>, Wrong> {
    let statuses = status_list(value)?;
    match statuses.is_empty() {
        true => Err(Wrong::invalid(
            "nothing would say that it is there",
            "write [200]",
        )),
        false => Ok(statuses),
    }
}

/// Words in the names of fields that carry credentials.
const OF_CREDENTIALS: [&str; 5] = ["auth", "cookie", "key", "secret", "token"];

fn fields(value: &Value, environment: &Environment) -> Result<Fields, Wrong> {
    let example = "{ Authorization = { env = \"LOOKUP_TOKEN\" } }";
    let Value::Table(table) = value else {
        return Err(wrong_type(value, "a table of fields", example));
    };
    if table.len() > MOST_FIELDS {
        let reason = format!("it has more than {MOST_FIELDS} fields");
        return Err(Wrong::invalid(reason, "leave some out"));
    }
    let mut found = Fields::new();
    for (name, entry) in table {
        let field: HeaderName = name.parse().map_err(|_| {
            let reason = format!("`{name}` is not the name of a field");
            Wrong::invalid(reason, format!("write {example}"))
        })?;
        let of_body = ["content-length", "host", "accept-encoding"].contains(&field.as_str());
        let ours = field.as_str().starts_with("steadfast-") || field == "idempotency-fence";
        let credential = OF_CREDENTIALS
            .iter()
            .any(|word| field.as_str().contains(word));
        if of_body || ours || !credential && is_of_hop_or_protected(field.as_str()) {
            let reason = format!("the field `{name}` is steadfast's own to write");
            return Err(Wrong::invalid(reason, "remove it"));
        }
        let read = match &entry.value {
            Value::Text(_) if credential => {
                let reason = format!("`{name}` carries a credential, which does not stand here");
                let next = "write { env = \"NAME\" } or { file = \"PATH\" }";
                return Err(Wrong::invalid(reason, next));
            }
            Value::Text(text) if HeaderValue::from_str(text).is_ok() => Field::Plain(text.clone()),
            Value::Text(_) => {
                let reason = format!("`{name}` has a value that no field has");
                return Err(Wrong::invalid(reason, "write visible ASCII"));
            }
            other => Field::Secret(secret::read_field(other, environment)?),
        };
        found.insert(field.as_str().to_owned(), read);
    }
    Ok(found)
}

fn header_map(fields: &Fields) -> HeaderMap {
    let read = |(name, field): (&String, &Field)| {
        let name: HeaderName = name.parse().ok()?;
        let (text, is_secret) = match field {
            Field::Plain(text) => (text.as_str(), false),
            Field::Secret(secret) => (secret.expose(), true),
        };
        let mut value = HeaderValue::from_str(text).ok()?;
        // No `Debug` form shows it (S2).
        value.set_sensitive(is_secret);
        Some((name, value))
    };
    fields.iter().filter_map(read).collect()
}

/// How long a compensation or a look-up settles, by its setting, where there is one.
pub fn settles(rules: &Idempotency) -> impl Iterator<Item = (&'static str, Duration)> {
    let lookup = rules.lookup.as_ref();
    let undo = rules.compensate.as_ref();
    let settles = [
        lookup.map(|lookup| ("idempotency.lookup.settle", lookup.settle)),
        undo.map(|undo| ("idempotency.compensate.settle", undo.settle)),
    ];
    settles.into_iter().flatten()
}
