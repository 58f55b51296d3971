//! The effective configuration: every value that holds, and where it came from.
//!
//! Decides how values are written. What is shown as text is a configuration again, one that says
//! everything: it can be read back, and means the same. Of a secret its place is shown, never more.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use steadfast_core::Ratio;
use steadfast_core::key::{ForwardAs, ScopeKind};
use steadfast_core::policy::{InFlight, KeyMode, Meaning, OnStoreFailure, RoutePolicy};

use super::Settings;
use super::keyed::fingerprint_word;
use super::layers::{Origin, Origins};
use super::routes::{Require, Route};
use super::secret::{Secret, Source};
use super::top::Top;
use super::value::{show_length, show_size};
use crate::gateway::route::Methods;

/// One effective value.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The setting's path below its level.
    pub name: &'static str,
    /// The value, in the words of the configuration.
    pub value: Value,
    /// `default`, or the place where it was written.
    pub origin: String,
    /// It was longer than the deadline.
    pub is_cut: bool,
}

/// The values of the top level, in the order of the table of settings.
pub fn top(top: &Top) -> Vec<Shown> {
    let secret = |secret: &Option<Secret>| {
        secret.as_ref().map(|secret| match secret.source() {
            Source::Variable(name) => json!({ "env": name }),
            Source::File(path) => json!({ "file": path }),
        })
    };
    let keys = top
        .encrypt_with
        .places
        .iter()
        .map(|(id, source)| match source {
            Source::Variable(name) => json!({ "id": id, "env": name }),
            Source::File(path) => json!({ "id": id, "file": path }),
        });
    let files = &top.upstream_tls;
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| json!(path.display().to_string()));
    let peers = top.trusted_peers.networks().iter().map(ToString::to_string);
    let values = [
        ("listen", Some(json!(top.listen.to_string()))),
        ("admin", Some(json!(top.admin.to_string()))),
        ("store", Some(json!(top.store.to_string()))),
        ("drain", Some(json!(show_length(top.drain)))),
        ("trusted_peers", Some(json!(peers.collect::<Vec<_>>()))),
        ("admin_token", secret(&top.admin_token)),
        ("secret", secret(&top.secret)),
        ("log.format", Some(json!(top.log.format.as_str()))),
        ("log.attempts", Some(json!(top.log.attempts))),
        ("encrypt_with", Some(keys.collect())),
        ("upstream_tls.ca", path(&files.ca)),
        ("upstream_tls.client_cert", path(&files.client_cert)),
        ("upstream_tls.client_key", path(&files.client_key)),
    ];
    let shown = values
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    with_origins(shown, &top.origins, |_| false)
}

/// The values of a route, in the order of the table of settings.
pub fn route(route: &Route) -> Vec<Shown> {
    let mut values = vec![
        ("name", json!(route.name)),
        ("path", json!(route.path.as_str())),
    ];
    if let Methods::Only(methods) = &route.methods {
        values.push(("methods", methods_json(methods)));
    }
    values.push(("to", json!(route.to.to_string())));
    values.extend(limits(&route.policy));
    values.extend(retries(&route.policy));
    let pool = &route.pool;
    values.extend([
        ("pool.idle", json!(show_length(pool.idle))),
        (
            "pool.reuse_unsafe_within",
            json!(show_length(pool.reuse_unsafe_within)),
        ),
        ("pool.max_per_host", json!(pool.max_per_host)),
    ]);
    values.extend(idempotency(&route.policy));
    values.extend([
        ("principal", json!(route.principal.to_string())),
        ("body_limit", json!(show_size(route.policy.body_limit))),
        (
            "response_limit",
            json!(show_size(route.policy.response_limit)),
        ),
    ]);
    if let Some(Require::Durable) = route.require {
        values.push(("require", json!("durable")));
    }
    with_origins(values, &route.origins, |name| route.cut.contains(name))
}

fn limits(policy: &RoutePolicy) -> Vec<(&'static str, Value)> {
    let timeouts = &policy.timeouts;
    let lengths = [
        ("deadline", policy.deadline),
        ("margin", policy.margin),
        ("timeouts.resolve", timeouts.resolve),
        ("timeouts.connect", timeouts.connect),
        ("timeouts.tls", timeouts.tls),
        ("timeouts.write", timeouts.write),
        ("timeouts.response", timeouts.response),
        ("timeouts.idle", timeouts.idle),
        ("timeouts.attempt", timeouts.attempt),
        ("timeouts.pool", timeouts.pool),
        ("timeouts.min_attempt", timeouts.min_attempt),
    ];
    lengths
        .map(|(name, length)| (name, json!(show_length(length))))
        .into()
}

fn retries(policy: &RoutePolicy) -> Vec<(&'static str, Value)> {
    let (retry, budget, breaker) = (&*policy.retry, &policy.budget, &policy.breaker);
    let (backoff, contract) = (&retry.backoff, &retry.contract);
    let share = |ratio: Ratio| json!(f64::from(ratio.millionths()) / f64::from(Ratio::ONE));
    let statuses: Vec<u16> = retry.on_status.iter().collect();
    let errors: Vec<&str> = retry.on_error.words().collect();
    let max_wait = retry.max_wait.map(show_length);
    let values = [
        ("retry.max_attempts", Some(json!(retry.max_attempts))),
        ("retry.backoff", Some(json!(backoff.curve().as_str()))),
        ("retry.base", Some(json!(show_length(backoff.base())))),
        ("retry.cap", Some(json!(show_length(backoff.cap())))),
        ("retry.jitter", Some(json!(backoff.jitter().as_str()))),
        ("retry.on_status", Some(json!(statuses))),
        ("retry.unsent_writes", Some(json!(contract.unsent_writes))),
        ("retry.methods", retry.methods.as_deref().map(methods_json)),
        (
            "retry.safe_to_repeat",
            contract.safe_to_repeat.map(Value::from),
        ),
        ("retry.on_error", Some(json!(errors))),
        ("retry.max_wait", max_wait.map(Value::from)),
        ("budget.ratio", Some(share(budget.ratio))),
        (
            "budget.floor_per_second",
            Some(json!(budget.floor_per_second)),
        ),
        ("budget.window", Some(json!(show_length(budget.window)))),
        ("breaker.failure_ratio", Some(share(breaker.failure_ratio))),
        ("breaker.min_requests", Some(json!(breaker.min_requests))),
        ("breaker.window", Some(json!(show_length(breaker.window)))),
        (
            "breaker.open_for",
            Some(json!(show_length(breaker.open_for))),
        ),
        ("breaker.probes", Some(json!(breaker.probes))),
        ("honor_attempts", Some(json!(policy.honor_attempts))),
    ];
    let shown = values.into_iter();
    shown
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

// tidy: table, because each line is one setting and its value
fn idempotency(policy: &RoutePolicy) -> Vec<(&'static str, Value)> {
    let rules = &policy.idempotency;
    let mode = match rules.mode {
        KeyMode::Optional => "optional",
        KeyMode::Required => "required",
        KeyMode::RequiredOnRetry => "required-on-retry",
        KeyMode::Off => "off",
    };
    let scope = match rules.scope {
        ScopeKind::Operation => "operation",
        ScopeKind::Principal => "principal",
    };
    let forward_as = match rules.forward_as {
        ForwardAs::Bare => "bare",
        ForwardAs::Quoted => "quoted",
    };
    let in_flight = match rules.in_flight {
        InFlight::Wait => "wait",
        InFlight::Conflict => "conflict",
        InFlight::Accept => "accept",
    };
    let on_store_failure = match rules.on_store_failure {
        OnStoreFailure::Refuse => "refuse",
        OnStoreFailure::Pass => "pass",
    };
    let statuses = |wanted: Meaning| -> Vec<u16> {
        let meaning = |status: &u16| {
            let status = http::StatusCode::from_u16(*status).ok()?;
            rules.statuses.get(status)
        };
        (200..=599)
            .filter(|status| meaning(status) == Some(wanted))
            .collect()
    };
    let ignored = rules.fingerprint.ignored().iter();
    let ignored: Vec<&str> = ignored.map(|pointer| pointer.as_str()).collect();
    let length = [rules.key.length.start(), rules.key.length.end()];
    let values = [
        ("mode", json!(mode)),
        ("methods", methods_json(&rules.methods)),
        ("header", json!(rules.header.as_str())),
        ("key_length", json!(length)),
        ("min_entropy_bits", json!(rules.key.min_entropy_bits)),
        ("scope", json!(scope)),
        ("forward_as", json!(forward_as)),
        ("in_flight", json!(in_flight)),
        ("wait_limit", json!(show_length(rules.wait_limit))),
        ("waiters_per_key", json!(rules.waiters_per_key)),
        ("lease", json!(show_length(rules.lease))),
        ("retention", json!(show_length(rules.retention))),
        // Nothing where it is as the retention.
        (
            "body_retention",
            json!(rules.body_retention.map(show_length)),
        ),
        ("on_unknown", json!(rules.on_unknown.as_str())),
        ("final", json!(statuses(Meaning::Final))),
        ("released", json!(statuses(Meaning::Released))),
        ("unknown", json!(statuses(Meaning::Unknown))),
        (
            "fingerprint",
            json!(fingerprint_word(rules.fingerprint.mode())),
        ),
        ("fingerprint_ignore", json!(ignored)),
        ("on_store_failure", json!(on_store_failure)),
        ("store_timeout", json!(show_length(rules.store_timeout))),
    ];
    let path = |name: &'static str| {
        let settings = super::names::SETTINGS.iter().map(|setting| setting.name);
        let mut below =
            settings.filter_map(|path| Some((path, path.strip_prefix("idempotency.")?)));
        below
            .find(|(_, own)| *own == name)
            .map_or(name, |(path, _)| path)
    };
    let set = values.into_iter().filter(|(_, value)| !value.is_null());
    set.map(|(name, value)| (path(name), value)).collect()
}

fn methods_json(methods: &[http::Method]) -> Value {
    methods.iter().map(http::Method::as_str).collect()
}

fn with_origins(
    values: impl IntoIterator<Item = (&'static str, Value)>,
    origins: &Origins,
    is_cut: impl Fn(&str) -> bool,
) -> Vec<Shown> {
    let shown = |(name, value)| Shown {
        name,
        value,
        origin: match origins.of(name) {
            Origin::Default => "default".to_owned(),
            Origin::At(place) => place.to_string(),
        },
        is_cut: is_cut(name),
    };
    values.into_iter().map(shown).collect()
}

/// The configuration as TOML, each line with its origin.
pub fn text(settings: &Settings) -> String {
    let mut text = String::new();
    lines(&mut text, &top(&settings.top));
    for each in &settings.routes {
        text.push_str("\n[[route]]\n");
        lines(&mut text, &route(each));
    }
    text
}

fn lines(text: &mut String, shown: &[Shown]) {
    for shown in shown {
        let cut = if shown.is_cut {
            ", cut to the deadline"
        } else {
            ""
        };
        let (name, value, origin) = (shown.name, toml(&shown.value), &shown.origin);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name} = {value}  # {origin}{cut}");
    }
}

/// JSON strings and numbers are TOML ones, too; tables are not, and so not lists of them.
pub(super) fn toml(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| format!("{name} = {}", toml(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(toml).collect();
            format!("[{}]", elements.join(", "))
        }
        other => other.to_string(),
    }
}

/// `{"settings":{NAME:{"value","origin","cut"}},"routes":[{NAME:{…}}],"warnings":[…]}`.
pub fn json(settings: &Settings) -> Value {
    let level = |shown: Vec<Shown>| -> Value {
        let member = |shown: Shown| {
            let value = json!({
                "value": shown.value, "origin": shown.origin, "cut": shown.is_cut,
            });
            (shown.name.to_owned(), value)
        };
        Value::Object(shown.into_iter().map(member).collect::<Map<_, _>>())
    };
    let routes: Vec<Value> = settings.routes.iter().map(|r| level(route(r))).collect();
    let warnings: Vec<Value> = settings.warnings.iter().map(|w| w.json()).collect();
    json!({ "settings": level(top(&settings.top)), "routes": routes, "warnings": warnings })
}
