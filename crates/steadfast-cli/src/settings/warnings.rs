//! What is sound in a configuration, but may surprise whoever runs it.
//!
//! Decides what start-up and `config check` say beside errors. Sources: docs/keyed-requests.md,
//! "Scope", "Principal" and "Key"; docs/reference.md, "Configuration".

use steadfast_core::policy::KeyMode;

use super::Settings;
use super::address::StoreUrl;
use super::environment::Environment;
use super::fault::{Place, Warning};
use super::layers::{Origin, Origins};
use super::names::nearest;
use super::routes::Route;
use super::value::show_length;
use steadfast_core::principal::PrincipalRule;

/// Bits of a random UUID, the commonest key.
const UUID_BITS: u32 = 122;

/// Settings that the environment can set, as in its variables' names.
const VARIABLES: [&str; 6] = [
    "LISTEN",
    "ADMIN",
    "STORE",
    "DRAIN",
    "LOG_FORMAT",
    "LOG_ATTEMPTS",
];

/// Everything there is to say.
pub fn of(settings: &Settings, environment: &Environment) -> Vec<Warning> {
    let mut found = Vec::new();
    found.extend(misspelt(environment));
    found.extend(of_top(settings));
    let keyed = |route: &&Route| route.policy.idempotency.mode != KeyMode::Off;
    for route in &settings.routes {
        found.extend(cut_limits(route));
    }
    for route in settings.routes.iter().filter(keyed) {
        found.extend(refreshed_token(route));
        found.extend(live_keys(route));
        found.extend(strong_keys(route));
        found.extend(unasked_keys(route));
    }
    found.extend(shadowed(&settings.routes));
    // What [defaults] says is met once per route.
    let mut each = Vec::with_capacity(found.len());
    for warning in found {
        if !each.contains(&warning) {
            each.push(warning);
        }
    }
    each
}

fn warning(
    origins: &Origins,
    setting: &str,
    reason: impl Into<String>,
    next: impl Into<String>,
) -> Warning {
    let place = match origins.of(setting) {
        Origin::At(place) => Some(place),
        Origin::Default => None,
    };
    Warning {
        place,
        setting: setting.to_owned(),
        reason: reason.into(),
        next: next.into(),
    }
}

/// A variable that differs from a setting's by a slip. Others may belong to anybody.
fn misspelt(environment: &Environment) -> Vec<Warning> {
    let known = VARIABLES;
    let near = |name: &str| nearest(name, known).map(|near| (name.to_owned(), near));
    environment
        .own()
        .filter(|name| !known.contains(name))
        .filter_map(near)
        .map(|(name, near)| Warning {
            place: Some(Place::Variable(format!("STEADFAST_{name}"))),
            setting: String::new(),
            reason: "this variable is not a setting".to_owned(),
            next: format!("did you mean STEADFAST_{near}? Correct or remove it"),
        })
        .collect()
}

fn of_top(settings: &Settings) -> Vec<Warning> {
    let top = &settings.top;
    let mut found = Vec::new();
    if top.store == StoreUrl::Memory {
        let reason = "records are gone when the process ends, and their keys run again";
        let next = "write \"sqlite:FILE\" where that matters";
        found.push(warning(&top.origins, "store", reason, next));
    }
    for path in &top.encrypt_with.exposed {
        let reason = format!("everybody on this machine can read the key in `{path}`");
        let next = format!("take the others' permission, as by `chmod o-rwx {path}`");
        found.push(warning(&top.origins, "encrypt_with", reason, next));
    }
    if let Some(all) = top
        .trusted_peers
        .networks()
        .iter()
        .find(|n| n.is_everybody())
    {
        let reason = format!("`{all}` trusts everybody who can connect");
        let next = "name the peers that stand in front of this gateway";
        found.push(warning(&top.origins, "trusted_peers", reason, next));
    }
    found
}

fn cut_limits(route: &Route) -> impl Iterator<Item = Warning> {
    let written = |name: &&&'static str| route.origins.of(name) != Origin::Default;
    route.cut.iter().filter(written).map(|name| {
        let deadline = show_length(route.policy.deadline);
        warning(
            &route.origins,
            name,
            format!(
                "on route \"{}\" this limit is cut to the deadline of {deadline}",
                route.name
            ),
            "shorten it, or lengthen the deadline",
        )
    })
}

fn refreshed_token(route: &Route) -> Option<Warning> {
    (route.principal == PrincipalRule::Authorization).then(|| {
        warning(
            &route.origins,
            "principal",
            "with `authorization` a caller with a refreshed token is another principal, and its \
             repeat of an older request runs again",
            "let callers keep a token until they stop repeating, or name callers by another rule",
        )
    })
}

/// What a key is found by, where the file says it: editing these lines forgets live keys.
fn live_keys(route: &Route) -> impl Iterator<Item = Warning> {
    let names = ["principal", "idempotency.scope", "idempotency.header"];
    let written = |name: &&str| route.origins.of(name) != Origin::Default;
    names.into_iter().filter(written).map(|name| {
        warning(
            &route.origins,
            name,
            "changing this opens a new scope for live keys: a repeat of a request from before \
             the change runs again",
            "change it only when no caller repeats older requests",
        )
    })
}

fn strong_keys(route: &Route) -> Option<Warning> {
    let asked = route.policy.idempotency.key.min_entropy_bits;
    (asked > UUID_BITS).then(|| {
        warning(
            &route.origins,
            "idempotency.min_entropy_bits",
            format!("{asked} bits refuse every UUID, which has {UUID_BITS} at most"),
            format!("write {UUID_BITS} or less, or tell callers how to make keys"),
        )
    })
}

fn unasked_keys(route: &Route) -> Option<Warning> {
    let rules = &route.policy.idempotency;
    let honoured = rules
        .methods
        .iter()
        .any(|method| route.methods.contains(method));
    (rules.mode == KeyMode::Required && !honoured).then(|| {
        warning(
            &route.origins,
            "idempotency.mode",
            format!(
                "route \"{}\" takes no method of `idempotency.methods`, so it asks for no key",
                route.name
            ),
            "add its methods to `idempotency.methods`",
        )
    })
}

fn shadowed(routes: &[Route]) -> Vec<Warning> {
    let covers = |upper: &Route, lower: &Route| {
        upper.path.covers(&lower.path) && upper.methods.covers(&lower.methods)
    };
    let mut found = Vec::new();
    for (index, route) in routes.iter().enumerate() {
        let earlier = routes[..index]
            .iter()
            .find(|earlier| covers(earlier, route));
        if let Some(earlier) = earlier {
            let reason = format!(
                "route \"{}\" never matches: route \"{}\" before it takes all its requests",
                route.name, earlier.name
            );
            let next = "move it up, or remove it";
            found.push(warning(&route.origins, "path", reason, next));
        }
    }
    found
}
