//! What each setting that is acted on is about, and which values it takes.
//!
//! For those who write a configuration: `config init` and `config schema` are made of this table,
//! of `names` and of the built-in values. It refuses to judge a value: the readers do, and
//! the tests below hold the two together.

use std::collections::BTreeMap;

use serde_json::Value;

use super::environment::Environment;
use super::names::{SETTINGS, Setting, Support};
use super::top::Flags;
use super::{for_upstream, keyed, retries, routes, show};

/// Which values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An address with a port.
    Address,
    /// A store's URL.
    Store,
    /// A length of time, zero included.
    Length,
    /// A length of time above zero.
    PositiveLength,
    /// A size in bytes.
    Size,
    /// A whole number within these bounds.
    Whole(u32, u32),
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A text of one to so many characters.
    Text(u32),
    /// The path of a file.
    File,
    /// A path, with places.
    Path,
    /// An upstream's URL.
    Upstream,
    /// The name of a field.
    Field,
    /// A rule for whose request it is.
    Principal,
    /// Methods, at least one.
    Methods,
    /// Methods, or none.
    AnyMethods,
    /// Some of these words.
    WordList(&'static [&'static str]),
    /// A share of one; whether it may be zero.
    Share(bool),
    /// Addresses and networks.
    Networks,
    /// Statuses from this one to 599.
    Statuses(u32),
    /// JSON Pointers.
    Pointers,
    /// Shortest and longest, up to so many.
    Range(u32),
    /// A place where a secret is.
    Secret,
}

/// One setting, for a person.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// As in `SETTINGS`.
    pub name: &'static str,
    /// Which values it takes.
    pub shape: Shape,
    /// What it is about, in a line.
    pub about: &'static str,
    /// A value as it is written, where none is built in.
    pub example: Option<&'static str>,
}

const fn row(name: &'static str, shape: Shape, about: &'static str) -> About {
    About {
        name,
        shape,
        about,
        example: None,
    }
}

const fn unset(
    name: &'static str,
    shape: Shape,
    example: &'static str,
    about: &'static str,
) -> About {
    About {
        name,
        shape,
        about,
        example: Some(example),
    }
}

/// All settings that are acted on, in the order of `SETTINGS`.
// tidy: table, because each line is one setting
pub const ABOUT: &[About] = {
    use Shape::*;
    &[
        row(
            "listen",
            Address,
            "where callers connect; also --listen, STEADFAST_LISTEN",
        ),
        row(
            "admin",
            Address,
            "where operators connect; beyond loopback only with admin_token",
        ),
        row(
            "store",
            Store,
            "records: sqlite:FILE, postgres://…, or memory: (gone with the process)",
        ),
        row(
            "drain",
            Length,
            "after SIGTERM running work may go on this long",
        ),
        row(
            "trusted_peers",
            Networks,
            "balancers whose word about a caller counts",
        ),
        unset(
            "admin_token",
            Secret,
            "{ env = \"STEADFAST_ADMIN_TOKEN\" }",
            "asked of operators as Authorization: Bearer; 16 characters or more",
        ),
        unset(
            "secret",
            Secret,
            "{ env = \"STEADFAST_SECRET\" }",
            "keys the fingerprints instead of the store's own; 32 characters or more",
        ),
        row(
            "log.format",
            Words(&["text", "json"]),
            "how lines of the log are written; also STEADFAST_LOG_FORMAT",
        ),
        row(
            "log.attempts",
            Switch,
            "a line for each attempt; also STEADFAST_LOG_ATTEMPTS",
        ),
        unset(
            "upstream_tls.ca",
            File,
            "\"ca.pem\"",
            "certificates in PEM that https: upstreams may show, beside the system's",
        ),
        unset(
            "upstream_tls.client_cert",
            File,
            "\"client.pem\"",
            "our own certificate in PEM, with those between it and its root",
        ),
        unset(
            "upstream_tls.client_key",
            File,
            "\"client.key\"",
            "its key in PEM",
        ),
        unset(
            "name",
            Text(routes::LONGEST_NAME as u32),
            "\"everything\"",
            "a label; the path where there is none",
        ),
        unset(
            "path",
            Path,
            "\"/{*rest}\"",
            "/v1/orders, /v1/{id} or /{*rest}, which also takes /",
        ),
        unset(
            "methods",
            Methods,
            "[\"GET\", \"POST\"]",
            "which methods; all where there are none",
        ),
        unset(
            "to",
            Upstream,
            "\"http://127.0.0.1:3000\"",
            "the service behind the route",
        ),
        row(
            "deadline",
            PositiveLength,
            "ceiling of callers' deadlines, and bound of keyed work",
        ),
        row(
            "margin",
            Length,
            "taken off the deadline that travels upstream",
        ),
        row("timeouts.resolve", PositiveLength, "the resolver's answer"),
        row(
            "timeouts.connect",
            PositiveLength,
            "the connection, for each address",
        ),
        row(
            "timeouts.tls",
            PositiveLength,
            "the handshake of an https: upstream",
        ),
        row(
            "timeouts.write",
            PositiveLength,
            "the whole request written",
        ),
        row(
            "timeouts.response",
            PositiveLength,
            "from the last byte written to the response head",
        ),
        row(
            "timeouts.idle",
            PositiveLength,
            "between two chunks of a response body",
        ),
        row(
            "timeouts.attempt",
            PositiveLength,
            "the whole attempt up to the response head",
        ),
        row(
            "timeouts.pool",
            PositiveLength,
            "a free place among the connections",
        ),
        row(
            "timeouts.min_attempt",
            Length,
            "an attempt with less time left is not started",
        ),
        row(
            "retry.max_attempts",
            Whole(1, retries::MOST_ATTEMPTS),
            "attempts, the first one included",
        ),
        row(
            "retry.backoff",
            Words(&retries::CURVES),
            "how the waits between attempts grow",
        ),
        row("retry.base", Length, "the first wait"),
        row("retry.cap", Length, "the longest wait of our own"),
        row(
            "retry.jitter",
            Words(&retries::JITTERS),
            "how waits are spread, so that not all come back at once",
        ),
        row(
            "retry.on_status",
            Statuses(100),
            "answers after which a request may go again",
        ),
        row(
            "retry.unsent_writes",
            Switch,
            "a write without key goes again where it was never sent",
        ),
        unset(
            "retry.methods",
            AnyMethods,
            "[\"GET\", \"HEAD\"]",
            "the only methods that go again; all where there are none",
        ),
        unset(
            "retry.safe_to_repeat",
            Switch,
            "true",
            "what repeating does here, against what the method says",
        ),
        row(
            "retry.on_error",
            WordList(&retries::ERRORS),
            "failures after which a request may go again",
        ),
        unset(
            "retry.max_wait",
            Length,
            "\"10s\"",
            "a longer Retry-After is not waited for; what fits the deadline",
        ),
        row(
            "budget.ratio",
            Share(true),
            "retries per success, over all callers of an upstream",
        ),
        row(
            "budget.floor_per_second",
            Whole(0, retries::MOST_FLOOR),
            "retries that need no success",
        ),
        row(
            "budget.window",
            PositiveLength,
            "the time over which both are counted",
        ),
        row(
            "breaker.failure_ratio",
            Share(false),
            "an upstream that fails so often is not asked",
        ),
        row(
            "breaker.min_requests",
            Whole(1, retries::MOST_REQUESTS),
            "with fewer in the window it is always asked",
        ),
        row(
            "breaker.window",
            PositiveLength,
            "the time over which both are counted",
        ),
        row(
            "breaker.open_for",
            PositiveLength,
            "how long it is not asked before a probe goes",
        ),
        row(
            "breaker.probes",
            Whole(1, retries::MOST_REQUESTS),
            "probes at once, and successes of them that end it",
        ),
        row(
            "honor_attempts",
            Switch,
            "from a second attempt of a trusted peer's on, only what was never sent goes again",
        ),
        row(
            "pool.idle",
            Length,
            "a connection that rested this long is closed",
        ),
        row(
            "pool.reuse_unsafe_within",
            Length,
            "what may not be repeated takes only a connection that rested for less",
        ),
        row(
            "pool.max_per_host",
            Whole(1, routes::MOST_CONNECTIONS),
            "connections to one upstream; over HTTP/2 requests at once",
        ),
        row(
            "idempotency.mode",
            Words(&["optional", "required", "required-on-retry", "off"]),
            "whether a key must be there",
        ),
        row("idempotency.methods", Methods, "whose keys are honoured"),
        row(
            "idempotency.header",
            Field,
            "the field that carries the key",
        ),
        row(
            "idempotency.key_length",
            Range(keyed::LONGEST_KEY),
            "shortest and longest key, in characters",
        ),
        row(
            "idempotency.min_entropy_bits",
            Whole(0, keyed::MOST_BITS),
            "weaker keys are refused; 0 takes all",
        ),
        row(
            "idempotency.scope",
            Words(&["operation", "principal"]),
            "within what one key is one operation",
        ),
        row(
            "idempotency.forward_as",
            Words(&["bare", "quoted"]),
            "how the key is spelt upstream",
        ),
        row(
            "idempotency.in_flight",
            Words(&["wait", "conflict", "accept"]),
            "what a duplicate of running work gets: the answer, 409 or 202",
        ),
        row(
            "idempotency.wait_limit",
            PositiveLength,
            "longest wait of a duplicate, then 409",
        ),
        row(
            "idempotency.waiters_per_key",
            Whole(1, keyed::MOST_WAITERS),
            "more duplicates get 409 at once",
        ),
        row(
            "idempotency.lease",
            PositiveLength,
            "a holder that is silent this long has lost its record; 100ms or more",
        ),
        row(
            "idempotency.retention",
            PositiveLength,
            "how long a record is kept from its end on",
        ),
        unset(
            "idempotency.body_retention",
            PositiveLength,
            "\"24h\"",
            "as retention; no other value is supported yet",
        ),
        row(
            "idempotency.on_unknown",
            Words(&["hold", "repeat"]),
            "hold: a person settles it; repeat: only where the service honours keys",
        ),
        row(
            "idempotency.final",
            Statuses(200),
            "statuses that are the operation's end, against the built-in table",
        ),
        row(
            "idempotency.released",
            Statuses(200),
            "statuses that mean: not executed",
        ),
        row(
            "idempotency.unknown",
            Statuses(200),
            "statuses that leave it unknown",
        ),
        row(
            "idempotency.fingerprint",
            Words(&["meaning", "bytes"]),
            "how two bodies are compared",
        ),
        row(
            "idempotency.fingerprint_ignore",
            Pointers,
            "JSON Pointers of what may differ, at most 32",
        ),
        row(
            "idempotency.on_store_failure",
            Words(&["refuse", "pass"]),
            "refuse: 503 and nothing is sent; pass: sent unprotected",
        ),
        row(
            "idempotency.store_timeout",
            PositiveLength,
            "how long a keyed request waits for its store",
        ),
        row(
            "principal",
            Principal,
            "whose request it is: authorization, header:NAME, cookie:NAME or anonymous",
        ),
        row(
            "body_limit",
            Size,
            "of a keyed request; a longer one without key is not sent again; at most 512MiB",
        ),
        row(
            "response_limit",
            Size,
            "a longer answer is passed on and not kept",
        ),
        unset(
            "require",
            Words(&["durable"]),
            "\"durable\"",
            "refuses this route on a memory: store",
        ),
    ]
};

/// The settings that are acted on, each with what it is about.
pub fn acted() -> impl Iterator<Item = (&'static Setting, &'static About)> {
    let acted = SETTINGS
        .iter()
        .filter(|setting| matches!(setting.support, Support::Acted));
    acted.filter_map(|setting| {
        let about = ABOUT.iter().find(|about| about.name == setting.name)?;
        Some((setting, about))
    })
}

/// What holds where nothing is set, by name. What only the operator knows, and what is off unless
/// it is set, is not there.
pub fn built_in() -> BTreeMap<&'static str, Value> {
    let (flags, nothing) = (Flags::default(), Environment::default());
    let settings = for_upstream("http://127.0.0.1:3000", &flags, &nothing);
    let settings = settings.ok();
    let shown = settings.iter().flat_map(|settings| {
        let routes = settings.routes.iter().flat_map(show::route);
        show::top(&settings.top).into_iter().chain(routes)
    });
    let values = shown.map(|shown| (shown.name, shown.value));
    let is_set = |name: &str| {
        let about = ABOUT.iter().find(|about| about.name == name);
        about.is_some_and(|about| about.example.is_none())
    };
    values.filter(|(name, _)| is_set(name)).collect()
}

#[cfg(test)]
mod tests;
