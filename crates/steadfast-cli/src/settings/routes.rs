//! One route: where it leads, and everything that it decides.
//!
//! Decides how limits and the deadline fit together, and which settings of a route contradict one
//! another or the top level. Sources: docs/reference.md, "Configuration"; docs/keyed-requests.md,
//! "Scope" and "Principal".

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use steadfast::client::Target;
use steadfast::client::pool::PoolSettings;
use steadfast_core::policy::RoutePolicy;

use super::address::{StoreUrl, upstream};
use super::deferral::Field;
use super::document::Value;
use super::environment::Environment;
use super::fault::{Fault, Kind, Place, Wrong};
use super::layers::{Layers, Origins};
use super::level::Written;
use super::top::Top;
use super::value::{length, positive_length, show_length, size, switch, text, whole, word};
use super::{deferral, keyed, retries};
use crate::gateway::route::{Methods, PathPattern};
use steadfast_core::principal::{PrincipalRule, RuleError};

/// Largest body that can be kept, in bytes: it stands in memory, and in one row of a store.
const LARGEST_BODY: usize = 512 << 20;

/// Most connections to one host: an address has so many ports.
pub(super) const MOST_CONNECTIONS: u32 = 65_535;

/// Longest name of a route, in characters: it is a label of metrics.
pub(super) const LONGEST_NAME: usize = 64;

/// A route, checked.
#[derive(Clone, Debug)]
pub struct Route {
    /// The label in metrics and messages.
    pub name: String,
    /// The paths it takes.
    pub path: PathPattern,
    /// The methods it takes.
    pub methods: Methods,
    /// Where it leads.
    pub to: Target,
    /// What it decides.
    pub policy: RoutePolicy,
    /// Whose requests they are.
    pub principal: PrincipalRule,
    /// Its connections.
    pub pool: PoolSettings,
    /// What it asks of the store.
    pub require: Option<Require>,
    /// Fields of the queue's runs, as they were written.
    pub run_fields: Vec<Field>,
    /// Where each value came from.
    pub origins: Origins,
    /// Limits that were longer than the deadline.
    pub cut: BTreeSet<&'static str>,
}

/// What a route asks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Require {
    /// Records survive a crash of the machine.
    Durable,
}

/// What a route is read from.
pub struct Sources<'a> {
    /// The route's heading, or the flag that stands for one.
    pub whole: Place,
    /// `[defaults]`.
    pub defaults: &'a Written,
    /// The route's own table.
    pub own: &'a Written,
    /// The top level.
    pub top: &'a Top,
    /// Where secrets may be.
    pub environment: &'a Environment,
}

type Limit = (&'static str, fn(&mut RoutePolicy) -> &mut Duration);

/// Limits of time that a deadline cuts.
const LIMITS: [Limit; 10] = [
    ("timeouts.resolve", |p| &mut p.timeouts.resolve),
    ("timeouts.connect", |p| &mut p.timeouts.connect),
    ("timeouts.tls", |p| &mut p.timeouts.tls),
    ("timeouts.write", |p| &mut p.timeouts.write),
    ("timeouts.response", |p| &mut p.timeouts.response),
    ("timeouts.idle", |p| &mut p.timeouts.idle),
    ("timeouts.attempt", |p| &mut p.timeouts.attempt),
    ("timeouts.pool", |p| &mut p.timeouts.pool),
    ("idempotency.wait_limit", |p| &mut p.idempotency.wait_limit),
    ("idempotency.store_timeout", |p| {
        &mut p.idempotency.store_timeout
    }),
];

impl Route {
    /// Reads a route. `None` where it has no path or leads nowhere; what is wrong goes to `faults`.
    pub fn read(sources: &Sources<'_>, faults: &mut Vec<Fault>) -> Option<Route> {
        let mut layers = Layers {
            whole: sources.whole.clone(),
            levels: [sources.defaults, sources.own],
            faults,
            origins: Origins::default(),
        };
        let path = required(
            &mut layers,
            "path",
            "\"/v1/{id}\" or \"/{*rest}\"",
            |value| {
                let path = PathPattern::parse(text(value, "\"/v1/{id}\"")?);
                path.map_err(|error| Wrong::invalid(error.to_string(), "correct the path"))
            },
        );
        let to = required(&mut layers, "to", "\"http://127.0.0.1:3000\"", |value| {
            upstream(text(value, "\"http://127.0.0.1:3000\"")?)
        });
        let name = layers.take("name", None, |value| label(value).map(Some));
        let methods = layers.take("methods", Methods::Any, |value| {
            keyed::methods(value).map(Methods::Only)
        });
        let mut policy = policy(&mut layers);
        let run_fields = deferral::read(&mut layers, sources.environment, &mut policy);
        let pool = pool(&mut layers);
        let principal = layers.take("principal", PrincipalRule::default(), principal);
        check_principal(&mut layers, &principal, &policy, sources.top);
        check_loop(&mut layers, to.as_ref(), sources.top);
        let require = require(&mut layers, sources.top);
        let (policy, cut) = cut(&mut layers, policy);
        let (path, to, origins) = (path?, to?, layers.origins);
        Some(Route {
            name: name.unwrap_or_else(|| path.as_str().to_owned()),
            path,
            methods,
            to,
            policy,
            principal,
            pool,
            require,
            run_fields,
            origins,
            cut,
        })
    }
}

fn required<T>(
    layers: &mut Layers<'_>,
    name: &'static str,
    example: &str,
    read: impl Fn(&Value) -> Result<T, Wrong>,
) -> Option<T> {
    if layers.written(name).is_none() {
        let reason = format!("the route has no `{name}`");
        let next = format!("add {name} = {example}");
        layers.refuse(name, Wrong::new(Kind::Missing, reason, next));
    }
    layers.take(name, None, |value| read(value).map(Some))
}

fn label(value: &Value) -> Result<String, Wrong> {
    let name = text(value, "a short name")?;
    let fits = (1..=LONGEST_NAME).contains(&name.chars().count());
    if !fits || name.chars().any(char::is_control) {
        return Err(Wrong::invalid(
            format!("a name has 1 to {LONGEST_NAME} characters, and no control characters"),
            "write a short name, or remove it: the path is the name then",
        ));
    }
    Ok(name.to_owned())
}

fn policy(layers: &mut Layers<'_>) -> RoutePolicy {
    let mut policy = RoutePolicy::default();
    policy.deadline = layers.take("deadline", policy.deadline, positive_length);
    policy.margin = layers.take("margin", policy.margin, length);
    let min_attempt = policy.timeouts.min_attempt;
    policy.timeouts.min_attempt = layers.take("timeouts.min_attempt", min_attempt, length);
    policy.retry = retries::retry(layers).into();
    policy.budget = retries::budget(layers);
    policy.breaker = retries::breaker(layers);
    policy.honor_attempts = layers.take("honor_attempts", policy.honor_attempts, switch);
    policy.idempotency = keyed::read(layers);
    for (name, limit) in LIMITS {
        let limit = limit(&mut policy);
        *limit = layers.take(name, *limit, positive_length);
    }
    let body = |value: &Value| size(value, 1..=LARGEST_BODY);
    policy.body_limit = layers.take("body_limit", policy.body_limit, body);
    policy.response_limit = layers.take("response_limit", policy.response_limit, body);
    policy
}

fn pool(layers: &mut Layers<'_>) -> PoolSettings {
    let base = PoolSettings::default();
    PoolSettings {
        idle: layers.take("pool.idle", base.idle, length),
        reuse_unsafe_within: layers.take(
            "pool.reuse_unsafe_within",
            base.reuse_unsafe_within,
            length,
        ),
        max_per_host: layers.take("pool.max_per_host", base.max_per_host, |value| {
            let most = whole(value, 1..=MOST_CONNECTIONS)?;
            Ok(NonZeroU32::new(most).unwrap_or(base.max_per_host))
        }),
    }
}

fn principal(value: &Value) -> Result<PrincipalRule, Wrong> {
    let help = "write \"authorization\", \"header:NAME\", \"cookie:NAME\" or \"anonymous\"";
    let rule = text(value, "\"authorization\"")?;
    PrincipalRule::parse(rule).map_err(|error| match error {
        RuleError::Unknown => Wrong::invalid(format!("`{rule}` is not a rule"), help),
        RuleError::Name => Wrong::invalid(
            format!("`{rule}` names no field or cookie that could say it"),
            help,
        ),
        RuleError::NotYetSupported => {
            let reason = format!("`{rule}` is not yet supported");
            Wrong::new(Kind::NotYetSupported, reason, help)
        }
    })
}

fn check_principal(layers: &mut Layers<'_>, rule: &PrincipalRule, policy: &RoutePolicy, top: &Top) {
    let Some(field) = rule.guarded_field() else {
        return;
    };
    let contradiction = |reason: String, next: &str| Wrong::new(Kind::Contradiction, reason, next);
    if top.trusted_peers.networks().is_empty() {
        let reason = format!("anybody could send `{field}`, for there are no `trusted_peers`");
        let next = "set `trusted_peers` at the top to the peers that set this field";
        layers.refuse("principal", contradiction(reason, next));
    }
    if *field == policy.idempotency.header {
        let reason = format!("`{field}` is the field of the key");
        layers.refuse("principal", contradiction(reason, "name another field"));
    }
}

/// A gateway in front of itself would pass each request round until its deadline.
fn check_loop(layers: &mut Layers<'_>, to: Option<&Target>, top: &Top) {
    let is_here = |to: &&Target| {
        let named = to.host().to_string().eq_ignore_ascii_case("localhost");
        let loopback = top.listen.ip().is_loopback() || top.listen.ip().is_unspecified();
        let same = to.address() == Some(top.listen.ip());
        to.port() == top.listen.port() && (same || named && loopback)
    };
    if to.filter(is_here).is_some() {
        let reason = format!("`{}` is where this gateway itself listens", top.listen);
        let next = "name the service behind it, or another address to listen on";
        layers.refuse("to", Wrong::new(Kind::Contradiction, reason, next));
    }
}

fn require(layers: &mut Layers<'_>, top: &Top) -> Option<Require> {
    let words = [("durable", Some(Require::Durable)), ("linearizable", None)];
    let require = layers.take("require", None, |value| word(value, &words).map(Some));
    if require == Some(Require::Durable) && top.store == StoreUrl::Memory {
        let reason = "a store in memory is not durable";
        let next = "set `store = \"sqlite:FILE\"`, or remove it";
        layers.refuse("require", Wrong::new(Kind::Contradiction, reason, next));
    }
    require
}

/// Cuts every limit to the deadline. A limit written beside a shorter deadline is refused: one of
/// the two is a slip.
fn cut(layers: &mut Layers<'_>, policy: RoutePolicy) -> (RoutePolicy, BTreeSet<&'static str>) {
    let (mut policy, mut cut) = (policy, BTreeSet::new());
    let deadline = policy.deadline;
    for (name, limit) in LIMITS {
        refuse_beside(layers, name);
        let limit = limit(&mut policy);
        if *limit > deadline {
            *limit = deadline;
            cut.insert(name);
        }
    }
    let needed = [
        ("margin", policy.margin),
        ("timeouts.min_attempt", policy.timeouts.min_attempt),
    ];
    for (name, needed) in needed {
        if needed >= deadline {
            let blamed = match layers.written(name) {
                Some(_) => name,
                None => "deadline",
            };
            let (needed, deadline) = (show_length(needed), show_length(deadline));
            let reason = format!("`{name}` of {needed} leaves nothing of a deadline of {deadline}");
            let next = format!("write a longer deadline, or a shorter `{name}`");
            layers.refuse(blamed, Wrong::new(Kind::Contradiction, reason, next));
        }
    }
    (policy, cut)
}

fn refuse_beside(layers: &mut Layers<'_>, name: &str) {
    for level in layers.levels {
        let (Some(deadline), Some(entry)) = (level.get("deadline"), level.get(name)) else {
            continue;
        };
        let (Ok(deadline), Ok(limit)) = (length(&deadline.value), length(&entry.value)) else {
            continue;
        };
        if limit > deadline {
            let (limit, deadline) = (show_length(limit), show_length(deadline));
            let reason = format!("{limit} is longer than the deadline of {deadline} beside it");
            let wrong = Wrong::new(
                Kind::Contradiction,
                reason,
                "shorten the limit or lengthen the deadline",
            );
            let place = layers.place(entry);
            layers
                .faults
                .push(wrong.at(place, format!("{}{name}", level.label)));
        }
    }
}
