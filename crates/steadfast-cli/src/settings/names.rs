//! Every setting there is, where it may stand, and whether this build acts on it.
//!
//! Decides what a name means and which values of a setting that is not acted on yet are accepted:
//! those that ask for what the build does anyway. Source: docs/reference.md.

use super::document::Value;

/// Where a setting may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// At the top of the file.
    Top,
    /// In `[defaults]` and in each `[[route]]`.
    Shared,
    /// In each `[[route]]` only.
    Route,
}

/// Whether this build acts on a setting.
#[derive(Clone, Copy, Debug)]
pub enum Support {
    /// It does.
    Acted,
    /// It does not, and refuses the setting, but for values that hold anyway.
    NotYet {
        /// What the build does instead, as a clause: the reason for what is accepted.
        instead: &'static str,
        /// Values that ask for just that.
        accepts: &'static [Accepted],
    },
}

/// A value that is accepted although the setting is not acted on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Accepted {
    /// This string.
    Text(&'static str),
    /// This number, whole or not.
    Number(i64),
    /// This switch.
    Switch(bool),
    /// `{}`.
    EmptyTable,
}

impl Accepted {
    /// Whether `value` is it.
    pub fn is(self, value: &Value) -> bool {
        match (self, value) {
            (Accepted::Text(wanted), Value::Text(text)) => text == wanted,
            (Accepted::Number(wanted), Value::Whole(number)) => *number == wanted,
            (Accepted::Number(wanted), Value::Decimal(number)) => *number == wanted as f64,
            (Accepted::Switch(wanted), Value::Switch(on)) => *on == wanted,
            (Accepted::EmptyTable, Value::Table(table)) => table.is_empty(),
            _ => false,
        }
    }

    /// As it is written in the file.
    pub fn written(self) -> String {
        match self {
            Accepted::Text(text) => format!("\"{text}\""),
            Accepted::Number(number) => number.to_string(),
            Accepted::Switch(on) => on.to_string(),
            Accepted::EmptyTable => "{}".to_owned(),
        }
    }
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its path below its level, e.g. `idempotency.mode`.
    pub name: &'static str,
    /// Where it may stand.
    pub level: Level,
    /// Whether this build acts on it.
    pub support: Support,
}

const fn acted(level: Level, name: &'static str) -> Setting {
    Setting {
        name,
        level,
        support: Support::Acted,
    }
}

const fn not_yet(
    level: Level,
    name: &'static str,
    instead: &'static str,
    accepts: &'static [Accepted],
) -> Setting {
    Setting {
        name,
        level,
        support: Support::NotYet { instead, accepts },
    }
}

const PLAIN_IN: &str = "connections are accepted without TLS";
const NO_TOKENS: &str = "tokens are not verified";
const NO_LIMIT: &str = "callers are not limited";
const NO_DEFERRAL: &str = "nothing is deferred";

/// All settings, in the order in which they are shown.
pub const SETTINGS: &[Setting] = {
    use Accepted::{EmptyTable, Switch, Text};
    use Level::{Route, Shared, Top};
    &[
        acted(Top, "listen"),
        acted(Top, "admin"),
        acted(Top, "store"),
        acted(Top, "drain"),
        acted(Top, "trusted_peers"),
        acted(Top, "admin_token"),
        acted(Top, "secret"),
        acted(Top, "log.format"),
        acted(Top, "log.attempts"),
        acted(Top, "encrypt_with"),
        not_yet(Top, "tls.cert", PLAIN_IN, &[]),
        not_yet(Top, "tls.key", PLAIN_IN, &[]),
        acted(Top, "upstream_tls.ca"),
        acted(Top, "upstream_tls.client_cert"),
        acted(Top, "upstream_tls.client_key"),
        not_yet(Top, "jwt.jwks", NO_TOKENS, &[]),
        not_yet(Top, "jwt.algorithms", NO_TOKENS, &[]),
        not_yet(Top, "jwt.audience", NO_TOKENS, &[]),
        not_yet(Top, "jwt.issuer", NO_TOKENS, &[]),
        not_yet(Top, "telemetry.otlp", "nothing is exported", &[]),
        acted(Route, "name"),
        acted(Route, "path"),
        acted(Route, "methods"),
        acted(Route, "to"),
        acted(Shared, "deadline"),
        acted(Shared, "margin"),
        acted(Shared, "timeouts.resolve"),
        acted(Shared, "timeouts.connect"),
        acted(Shared, "timeouts.tls"),
        acted(Shared, "timeouts.write"),
        acted(Shared, "timeouts.response"),
        acted(Shared, "timeouts.idle"),
        acted(Shared, "timeouts.attempt"),
        acted(Shared, "timeouts.pool"),
        acted(Shared, "timeouts.min_attempt"),
        acted(Shared, "retry.max_attempts"),
        acted(Shared, "retry.backoff"),
        acted(Shared, "retry.base"),
        acted(Shared, "retry.cap"),
        acted(Shared, "retry.jitter"),
        acted(Shared, "retry.on_status"),
        acted(Shared, "retry.unsent_writes"),
        acted(Shared, "retry.methods"),
        acted(Shared, "retry.safe_to_repeat"),
        acted(Shared, "retry.on_error"),
        acted(Shared, "retry.max_wait"),
        acted(Shared, "budget.ratio"),
        acted(Shared, "budget.floor_per_second"),
        acted(Shared, "budget.window"),
        acted(Shared, "breaker.failure_ratio"),
        acted(Shared, "breaker.min_requests"),
        acted(Shared, "breaker.window"),
        acted(Shared, "breaker.open_for"),
        acted(Shared, "breaker.probes"),
        acted(Shared, "honor_attempts"),
        acted(Shared, "pool.idle"),
        acted(Shared, "pool.reuse_unsafe_within"),
        acted(Shared, "pool.max_per_host"),
        acted(Shared, "idempotency.mode"),
        acted(Shared, "idempotency.methods"),
        acted(Shared, "idempotency.header"),
        acted(Shared, "idempotency.key_length"),
        acted(Shared, "idempotency.min_entropy_bits"),
        acted(Shared, "idempotency.scope"),
        acted(Shared, "idempotency.forward_as"),
        acted(Shared, "idempotency.in_flight"),
        acted(Shared, "idempotency.wait_limit"),
        acted(Shared, "idempotency.waiters_per_key"),
        acted(Shared, "idempotency.lease"),
        acted(Shared, "idempotency.retention"),
        acted(Shared, "idempotency.body_retention"),
        acted(Shared, "idempotency.on_unknown"),
        acted(Shared, "idempotency.final"),
        acted(Shared, "idempotency.released"),
        acted(Shared, "idempotency.unknown"),
        acted(Shared, "idempotency.fingerprint"),
        acted(Shared, "idempotency.fingerprint_ignore"),
        acted(Shared, "idempotency.on_store_failure"),
        acted(Shared, "idempotency.store_timeout"),
        not_yet(
            Shared,
            "idempotency.lookup",
            "nothing is looked up at the upstream",
            &[],
        ),
        not_yet(
            Shared,
            "idempotency.compensate",
            "nothing is compensated",
            &[],
        ),
        // No number says "no quota": even a large one is a promise that would not be kept.
        not_yet(
            Shared,
            "idempotency.key_quota",
            "live keys are not counted",
            &[],
        ),
        acted(Shared, "principal"),
        acted(Shared, "body_limit"),
        acted(Shared, "response_limit"),
        acted(Shared, "require"),
        not_yet(Shared, "coalesce", "reads are never joined", &[Text("off")]),
        not_yet(Shared, "coalesce_wait", "reads are never joined", &[]),
        not_yet(Shared, "defer", NO_DEFERRAL, &[Text("off")]),
        not_yet(Shared, "deferral.max_age", NO_DEFERRAL, &[]),
        not_yet(Shared, "deferral.base", NO_DEFERRAL, &[]),
        not_yet(Shared, "deferral.cap", NO_DEFERRAL, &[]),
        not_yet(Shared, "deferral.concurrency", NO_DEFERRAL, &[]),
        not_yet(Shared, "deferral.headers", NO_DEFERRAL, &[EmptyTable]),
        // No request is kept, so no credential is.
        not_yet(
            Shared,
            "deferral.keep_credential",
            NO_DEFERRAL,
            &[Switch(false)],
        ),
        not_yet(Shared, "limit.rate", NO_LIMIT, &[]),
        not_yet(Shared, "limit.burst", NO_LIMIT, &[]),
        not_yet(Shared, "limit.by", NO_LIMIT, &[]),
        not_yet(Shared, "limit.replay_rate", NO_LIMIT, &[]),
        not_yet(
            Shared,
            "require_if_match",
            "writes without If-Match are passed on",
            &[Switch(false)],
        ),
        not_yet(
            Shared,
            "deadline_headers",
            "the names of deadline fields are fixed",
            &[],
        ),
        not_yet(
            Shared,
            "max_in_flight",
            "requests in flight are not limited",
            &[],
        ),
    ]
};

/// The settings that may stand where `level` is read: a `[[route]]` takes shared ones, too.
pub fn allowed_in(level: Level) -> impl Iterator<Item = &'static Setting> {
    let fits = move |setting: &&Setting| {
        setting.level == level || (level == Level::Route && setting.level == Level::Shared)
    };
    SETTINGS.iter().filter(fits)
}

/// The setting called `name` where `level` is read.
pub fn find(level: Level, name: &str) -> Option<&'static Setting> {
    allowed_in(level).find(|setting| setting.name == name)
}

/// Largest edit distance at which another name is still offered: a third of what was written.
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (written.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_stands_once_in_the_table() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            let again = SETTINGS[index + 1..]
                .iter()
                .find(|other| other.name == setting.name);
            assert!(again.is_none(), "{} stands twice", setting.name);
        }
    }

    #[test]
    fn no_setting_is_also_a_table_of_settings() {
        for setting in SETTINGS {
            let below = format!("{}.", setting.name);
            assert!(!SETTINGS.iter().any(|other| other.name.starts_with(&below)));
        }
    }

    /// `docs/reference.md` has one row a setting: `| NAME | … |`, and for what is not acted on
    /// `| NAME | ACCEPTED | INSTEAD |`.
    #[test]
    fn the_reference_has_a_row_for_every_setting() {
        let reference = include_str!("../../../../docs/reference.md");
        let rows = |head: &str| {
            let rows = reference.lines().filter(|line| line.starts_with(head));
            rows.map(str::to_owned).collect::<Vec<_>>()
        };
        for setting in SETTINGS {
            let found = rows(&format!("| `{}` | ", setting.name));
            let Support::NotYet { instead, accepts } = setting.support else {
                assert_eq!(found.len(), 1, "{}", setting.name);
                continue;
            };
            let values = accepts
                .iter()
                .map(|value| format!("`{}` ", value.written()));
            let values: String = values.collect();
            let row = format!("| `{}` | {values}| {instead} |", setting.name);
            assert_eq!(found, [row]);
        }
    }

    #[test]
    fn a_name_that_is_near_is_offered_and_a_far_one_is_not() {
        let names = ["listen", "lease", "idempotency"];
        let table = [
            ("lisen", Some("listen")),
            ("leasse", Some("lease")),
            ("idempotecny", Some("idempotency")),
            ("x", None),
            ("workers", None),
        ];
        for (written, offered) in table {
            assert_eq!(nearest(written, names), offered, "{written}");
        }
    }
}
