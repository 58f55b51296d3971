//! The settings below `idempotency`: the rules of keyed requests on a route.
//!
//! Decides which values are possible and which contradict one another, and translates them into the
//! core's types. The words are those of docs/reference.md; what they do is the core's.

use std::ops::RangeInclusive;

use http::{HeaderName, Method, StatusCode};
use steadfast_core::fields::is_of_hop_or_protected;
use steadfast_core::fingerprint::{BodyMode, FingerprintOptions};
use steadfast_core::key::{ForwardAs, KeyRules, ScopeKind};
use steadfast_core::policy::{Idempotency, InFlight, KeyMode, OnStoreFailure, OnUnknown, Statuses};

use super::document::Value;
use super::fault::{Kind, Wrong};
use super::layers::Layers;
use super::value::{length, word};
use super::value::{list, positive_length, show_length, text, whole, wrong_type};

/// Longest key that can be allowed, in characters: keys are stored, indexed and shown.
pub(super) const LONGEST_KEY: u32 = 1024;

/// Most bits that can be asked of a key: 64 hexadecimal digits have 256, and no key needs more.
pub(super) const MOST_BITS: u32 = 256;

/// Most waiters that one key can have: as many as there may be in all.
pub(super) const MOST_WAITERS: u32 = 10_000;

/// Shortest lease: a third of it must be time enough for a store to take a renewal.
const SHORTEST_LEASE_MS: u64 = 100;

/// Fields that frame a message, route it, prove a principal, or are steadfast's own.
const TAKEN_FIELDS: [&str; 24] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "grpc-timeout",
    "host",
    "idempotency-fence",
    "idempotent-replayed",
    "keep-alive",
    "prefer",
    "proxy-authorization",
    "proxy-connection",
    "request-timeout-ms",
    "steadfast-attempt",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

const BYTES: &str = "bytes";

const BODY_RETENTION: &str = "idempotency.body_retention";

/// Reads everything below `idempotency`. Limits of time are the caller's to compare with the
/// deadline.
pub fn read(layers: &mut Layers<'_>) -> Idempotency {
    let base = Idempotency::default();
    let mode = [
        ("optional", Some(KeyMode::Optional)),
        ("required", Some(KeyMode::Required)),
        ("required-on-retry", Some(KeyMode::RequiredOnRetry)),
        ("off", Some(KeyMode::Off)),
    ];
    let scope = [
        ("operation", Some(ScopeKind::Operation)),
        ("principal", Some(ScopeKind::Principal)),
    ];
    let forward = [
        ("bare", Some(ForwardAs::Bare)),
        ("quoted", Some(ForwardAs::Quoted)),
    ];
    let in_flight = [
        ("wait", Some(InFlight::Wait)),
        ("conflict", Some(InFlight::Conflict)),
        ("accept", Some(InFlight::Accept)),
    ];
    let on_unknown = [
        ("hold", Some(OnUnknown::Hold)),
        ("repeat", Some(OnUnknown::Repeat)),
        ("lookup", None),
    ];
    let on_store_failure = [
        ("refuse", Some(OnStoreFailure::Refuse)),
        ("pass", Some(OnStoreFailure::Pass)),
    ];
    let read = Idempotency {
        mode: layers.take("idempotency.mode", base.mode, |v| word(v, &mode)),
        methods: layers.take("idempotency.methods", base.methods, methods),
        header: layers.take("idempotency.header", base.header, header),
        key: key_rules(layers),
        scope: layers.take("idempotency.scope", base.scope, |v| word(v, &scope)),
        forward_as: layers.take("idempotency.forward_as", base.forward_as, |v| {
            word(v, &forward)
        }),
        in_flight: layers.take("idempotency.in_flight", base.in_flight, |v| {
            word(v, &in_flight)
        }),
        wait_limit: base.wait_limit,
        waiters_per_key: layers.take("idempotency.waiters_per_key", base.waiters_per_key, |v| {
            whole(v, 1..=MOST_WAITERS).map(|waiters| waiters as usize)
        }),
        lease: layers.take("idempotency.lease", base.lease, lease),
        retention: layers.take("idempotency.retention", base.retention, positive_length),
        body_retention: layers.take(BODY_RETENTION, base.body_retention, |v| {
            positive_length(v).map(Some)
        }),
        on_unknown: layers.take("idempotency.on_unknown", base.on_unknown, |v| {
            word(v, &on_unknown)
        }),
        statuses: statuses(layers).into(),
        fingerprint: fingerprint(layers),
        on_store_failure: layers.take("idempotency.on_store_failure", base.on_store_failure, |v| {
            word(v, &on_store_failure)
        }),
        store_timeout: base.store_timeout,
    };
    check_body_retention(layers, &read);
    read
}

/// A list of methods, at least one.
pub fn methods(value: &Value) -> Result<Vec<Method>, Wrong> {
    let example = "a list of methods, such as [\"POST\", \"PATCH\"]";
    let methods = list(value, example, |element| {
        let name = text(element, "\"POST\"")?;
        let upper = name.to_ascii_uppercase();
        let method = Method::from_bytes(name.as_bytes()).ok();
        // Methods are case-sensitive, and none in use has small letters (RFC 9110, 9.1).
        method
            .filter(|_| name == upper && name != "CONNECT")
            .ok_or_else(|| {
                Wrong::invalid(
                    format!("`{name}` is not a method that can be proxied"),
                    "write methods in capitals, such as \"POST\"",
                )
            })
    })?;
    if methods.is_empty() {
        let reason = "an empty list of methods matches nothing";
        return Err(Wrong::invalid(reason, format!("write {example}")));
    }
    Ok(methods)
}

fn header(value: &Value) -> Result<HeaderName, Wrong> {
    let help = "write \"Idempotency-Key\" or another name of its own";
    let name = text(value, "\"Idempotency-Key\"")?;
    let field: HeaderName = name
        .parse()
        .map_err(|_| Wrong::invalid(format!("`{name}` is not the name of a field"), help))?;
    let is_forwarding = field.as_str().starts_with("x-forwarded-");
    let is_taken = TAKEN_FIELDS.contains(&field.as_str())
        || field != Idempotency::default().header && is_of_hop_or_protected(field.as_str());
    if is_taken || is_forwarding {
        let reason = format!("the field `{name}` already means something else");
        return Err(Wrong::invalid(reason, help));
    }
    Ok(field)
}

fn key_rules(layers: &mut Layers<'_>) -> KeyRules {
    let base = KeyRules::default();
    KeyRules {
        length: layers.take("idempotency.key_length", base.length, key_length),
        min_entropy_bits: layers.take("idempotency.min_entropy_bits", base.min_entropy_bits, |v| {
            whole(v, 0..=MOST_BITS)
        }),
    }
}

fn key_length(value: &Value) -> Result<RangeInclusive<usize>, Wrong> {
    let example = "the shortest and the longest length, such as [16, 255]";
    let lengths = list(value, example, |element| whole(element, 1..=LONGEST_KEY))?;
    match lengths[..] {
        [shortest, longest] if shortest <= longest => Ok(shortest as usize..=longest as usize),
        [shortest, longest] => Err(Wrong::invalid(
            format!("no key has at least {shortest} and at most {longest} characters"),
            format!("write [{longest}, {shortest}]"),
        )),
        _ => Err(wrong_type(value, "a list of two numbers", example)),
    }
}

fn lease(value: &Value) -> Result<std::time::Duration, Wrong> {
    let lease = length(value)?;
    if lease.as_millis() < u128::from(SHORTEST_LEASE_MS) {
        return Err(Wrong::invalid(
            format!(
                "a lease of {} cannot be renewed in time",
                show_length(lease)
            ),
            format!("write {SHORTEST_LEASE_MS}ms or more"),
        ));
    }
    Ok(lease)
}

const SETS: [&str; 3] = [
    "idempotency.final",
    "idempotency.released",
    "idempotency.unknown",
];

fn statuses(layers: &mut Layers<'_>) -> Statuses {
    let sets = SETS.map(|name| layers.take(name, Vec::new(), status_list));
    let [finals, released, unknown] = &sets;
    Statuses::new(finals, released, unknown).unwrap_or_else(|contradiction| {
        let status = contradiction.0;
        let holds = |set: &&Vec<StatusCode>| set.iter().any(|s| s.as_u16() == status);
        let held: Vec<&str> = SETS
            .iter()
            .zip(&sets)
            .filter(|(_, set)| holds(set))
            .map(|(name, _)| *name)
            .collect();
        if let [first, .., last] = held[..] {
            let reason = format!("status {status} also stands in `{first}`");
            let next = "leave it in one of them";
            layers.refuse(last, Wrong::new(Kind::Contradiction, reason, next));
        }
        Statuses::default()
    })
}

fn status_list(value: &Value) -> Result<Vec<StatusCode>, Wrong> {
    list(value, "a list of statuses, such as [409, 422]", |element| {
        let status = whole(element, 200..=599)?;
        // 200 to 599 are statuses, all of them.
        StatusCode::from_u16(status as u16)
            .map_err(|_| Wrong::invalid(format!("{status} is not a status"), "write one of HTTP's"))
    })
}

fn fingerprint(layers: &mut Layers<'_>) -> FingerprintOptions {
    let modes = [
        ("meaning", Some(BodyMode::Meaning)),
        (BYTES, Some(BodyMode::Bytes)),
    ];
    let mode = layers.take("idempotency.fingerprint", BodyMode::Meaning, |v| {
        word(v, &modes)
    });
    let name = "idempotency.fingerprint_ignore";
    let ignored = layers.take(name, Vec::new(), |value| {
        let example = "a list of JSON pointers, such as [\"/sent_at\"]";
        let pointer = |element| text(element, "\"/sent_at\"").map(str::to_owned);
        let pointers = list(value, example, pointer)?;
        options(BodyMode::Meaning, &pointers).map(|_| pointers)
    });
    options(mode, &ignored).unwrap_or_else(|wrong| {
        layers.refuse(name, wrong);
        FingerprintOptions::default()
    })
}

fn options(mode: BodyMode, ignored: &[String]) -> Result<FingerprintOptions, Wrong> {
    let pointers = ignored.iter().map(String::as_str);
    FingerprintOptions::new(mode, pointers).map_err(|error| {
        // The core's sentence, in the two halves that a fault has.
        let sentence = error.to_string();
        let sentence = sentence.trim_end_matches('.');
        let halves = sentence.split_once("; ");
        let (reason, next) = halves.unwrap_or((sentence, "correct or remove it"));
        Wrong::invalid(reason, next)
    })
}

/// The word for how bodies are compared.
pub fn fingerprint_word(mode: BodyMode) -> &'static str {
    match mode {
        BodyMode::Meaning => "meaning",
        BodyMode::Bytes => BYTES,
    }
}

/// A body goes with its record at the latest.
fn check_body_retention(layers: &mut Layers<'_>, rules: &Idempotency) {
    let Some(kept) = rules.body_retention.filter(|kept| *kept > rules.retention) else {
        return;
    };
    let (kept, retention) = (show_length(kept), show_length(rules.retention));
    let reason = format!("a body cannot be kept for {kept} in a record that is for {retention}");
    let next = format!("write \"{retention}\" or less, or lengthen `idempotency.retention`");
    layers.refuse(
        BODY_RETENTION,
        Wrong::new(Kind::Contradiction, reason, next),
    );
}
