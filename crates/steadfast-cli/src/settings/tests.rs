//! Settings as a whole: what is accepted, what is refused and where, and which value holds.

use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::policy::{KeyMode, OnUnknown};

use super::layers::Origin;
use super::names::{Accepted, SETTINGS, Support};
use super::*;

mod keys;
mod surprises;

/// Everything that will be settable, in one file; this build refuses some of it.
const SAMPLE: &str = include_str!("tests/sample.toml");

const ROUTE_LINES: &str = "[[route]]\npath = \"/{*rest}\"\nto = \"http://127.0.0.1:9000\"\n";

fn read(text: &str) -> Result<Settings, Faults> {
    parse(text, "s.toml", &Flags::default(), &Environment::default())
}

fn accepted(text: &str) -> Settings {
    read(text).unwrap_or_else(|faults| panic!("{text}\n{faults}"))
}

/// Line and setting of every fault.
fn refused(text: &str) -> Vec<(usize, String)> {
    let faults = read(text).expect_err(text);
    let line = |fault: &Fault| match fault.place {
        Place::File { line, .. } => line.unwrap_or(0),
        _ => 0,
    };
    let found = faults
        .list()
        .iter()
        .map(|fault| (line(fault), fault.setting.clone()));
    found.collect()
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), Some((*value).to_owned()));
    variables.iter().map(own).collect()
}

#[test]
fn the_sample_is_refused_where_this_build_does_not_act_and_nowhere_else() {
    let faults = read(SAMPLE).expect_err("it asks for more than this build does");
    for fault in faults.list() {
        assert_eq!(fault.kind, Kind::NotYetSupported, "{fault}");
    }
    let found = refused(SAMPLE);
    let expected = [
        (24, "route \"charges\": idempotency.lookup".to_owned()),
        (24, "route \"charges\": idempotency.on_unknown".to_owned()),
        (
            30,
            "route \"/v1/profile/{id}\": require_if_match".to_owned(),
        ),
    ];
    assert_eq!(found, expected);
}

/// The sample without what is refused.
fn supported_sample() -> String {
    let lines = SAMPLE
        .lines()
        .filter(|line| !line.starts_with("require_if_match"));
    let lines: Vec<String> = lines
        .map(|line| match line.split_once(", on_unknown = \"lookup\"") {
            Some((before, _)) => format!("{before} }}"),
            None => line.to_owned(),
        })
        .collect();
    lines.join("\n")
}

#[test]
fn the_sample_without_these_says_what_is_built_in() {
    let sampled = accepted(&supported_sample());
    let built_in = for_upstream(
        "http://127.0.0.1:9000",
        &Flags::default(),
        &Environment::default(),
    );
    let built_in = built_in.expect("an upstream");
    let values = |shown: Vec<show::Shown>| -> Vec<(&str, serde_json::Value)> {
        let values = shown.into_iter().map(|shown| (shown.name, shown.value));
        values.filter(|(name, _)| *name != "name").collect()
    };
    assert_eq!(
        values(show::top(&sampled.top)),
        values(show::top(&built_in.top))
    );
    let last = sampled.routes.last().expect("three routes");
    assert_eq!(
        values(show::route(last)),
        values(show::route(&built_in.routes[0]))
    );
    assert_eq!(sampled.routes[0].policy.idempotency.mode, KeyMode::Required);
    assert_eq!(sampled.routes[0].name, "charges");
    assert_eq!(sampled.routes[1].name, "/v1/profile/{id}");
}

#[test]
fn nothing_is_reachable_from_outside_before_it_is_said() {
    let top = accepted(ROUTE_LINES).top;
    assert!(top.listen.ip().is_loopback() && top.admin.ip().is_loopback());
    assert_ne!(
        top.listen, top.admin,
        "operators are not asked at the callers' address"
    );
    assert!(top.admin_token.is_none(), "and need no token there");
    let outside = "admin = \"0.0.0.0:8081\"\n";
    assert_eq!(
        refused(&format!("{outside}{ROUTE_LINES}")),
        [(1, "admin".to_owned())]
    );
}

#[test]
fn every_setting_that_is_not_acted_on_is_refused_but_for_what_holds_anyway() {
    for setting in SETTINGS {
        let Support::NotYet { accepts, .. } = setting.support else {
            continue;
        };
        let with = |value: &str| match setting.level {
            Level::Top => (1, format!("{} = {value}\n{ROUTE_LINES}", setting.name)),
            _ => (4, format!("{ROUTE_LINES}{} = {value}\n", setting.name)),
        };
        for value in ["\"x\"", "7", "[1]", "{ a = 1 }", "true"] {
            let (line, text) = with(value);
            let faults = read(&text).expect_err(&text);
            let fault = &faults.list()[0];
            assert_eq!(fault.kind, Kind::NotYetSupported, "{fault}");
            assert!(fault.setting.ends_with(setting.name), "{fault}");
            assert!(fault.reason.starts_with("not yet supported: "), "{fault}");
            assert_eq!(refused(&text)[0].0, line, "{fault}");
        }
        for value in accepts {
            accepted(&with(&value.written()).1);
        }
        if accepts.contains(&Accepted::Number(0)) {
            accepted(&with("0.0").1);
        }
    }
}

#[test]
fn an_empty_table_of_what_is_not_acted_on_is_refused() {
    assert_eq!(
        refused(&format!("[tls]\n{ROUTE_LINES}")),
        [(1, "tls".to_owned())]
    );
    accepted(&format!("{ROUTE_LINES}retry = {{}}\ntimeouts = {{}}"));
}

#[test]
fn a_body_is_kept_as_long_as_its_record_or_shorter() {
    let with = |defaults: &str, own: &str| format!("[defaults]\n{defaults}\n{ROUTE_LINES}{own}\n");
    accepted(&with("", "idempotency.body_retention = \"24h\""));
    accepted(&with(
        "idempotency.retention = \"2h\"",
        "idempotency.body_retention = \"120m\"",
    ));
    let settings = accepted(&with("", "idempotency.body_retention = \"1h\""));
    let kept = settings.routes[0].policy.idempotency.body_retention;
    assert_eq!(kept, Some(Duration::from_secs(3600)));
    let long = with(
        "idempotency.body_retention = \"3h\"",
        "idempotency.retention = \"2h\"",
    );
    let faults = read(&long).expect_err("longer than the record");
    let fault = &faults.list()[0];
    assert_eq!(fault.kind, Kind::Contradiction);
    let setting = "defaults.idempotency.body_retention".to_owned();
    assert_eq!(refused(&long), [(2, setting)]);
    assert!(
        fault.reason.contains("3h") && fault.next.contains("\"2h\""),
        "{fault}"
    );
}

#[test]
fn a_routes_tables_lie_over_the_defaults_key_by_key() {
    let settings = accepted(
        r#"
[defaults]
deadline = "10s"
timeouts = { connect = "1s", attempt = "5s" }
[defaults.idempotency]
mode = "required"
lease = "6s"
key_length = [20, 40]

[[route]]
path = "/a"
to = "http://h:1"
timeouts.attempt = "7s"
[route.idempotency]
lease = "9s"
on_unknown = "repeat"

[[route]]
path = "/b"
to = "http://h:2"
"#,
    );
    let [a, b] = &settings.routes[..] else {
        panic!("two routes");
    };
    let seconds = Duration::from_secs;
    assert_eq!(a.policy.timeouts.attempt, seconds(7));
    assert_eq!(a.policy.timeouts.connect, seconds(1));
    assert_eq!(a.policy.timeouts.resolve, seconds(2));
    let keyed = &a.policy.idempotency;
    assert_eq!((keyed.mode, keyed.lease), (KeyMode::Required, seconds(9)));
    assert_eq!(
        (keyed.key.length.clone(), keyed.on_unknown),
        (20..=40, OnUnknown::Repeat)
    );
    let keyed = &b.policy.idempotency;
    assert_eq!((keyed.mode, keyed.lease), (KeyMode::Required, seconds(6)));
    assert_eq!(
        (b.policy.timeouts.attempt, keyed.on_unknown),
        (seconds(5), OnUnknown::Hold)
    );
    let at = |line| Origin::At(file("s.toml").line(line));
    assert_eq!(a.origins.of("idempotency.lease"), at(15));
    assert_eq!(b.origins.of("idempotency.lease"), at(7));
    assert_eq!(b.origins.of("timeouts.resolve"), Origin::Default);
}

#[test]
fn a_limit_longer_than_the_deadline_is_cut_unless_it_stands_beside_it() {
    let with = |defaults: &str, own: &str| format!("[defaults]\n{defaults}\n{ROUTE_LINES}{own}\n");
    let attempt = |text: &str| accepted(text).routes[0].policy.timeouts.attempt.as_secs();
    assert_eq!(attempt(&with("deadline = \"5s\"", "")), 5);
    assert_eq!(
        attempt(&with("timeouts.attempt = \"60s\"", "deadline = \"9s\"")),
        9
    );
    assert_eq!(
        attempt(&with("deadline = \"9s\"", "timeouts.attempt = \"60s\"")),
        9
    );
    assert_eq!(attempt(&with("timeouts.attempt = \"60s\"", "")), 30);
    assert_eq!(
        attempt(&with("deadline = \"9s\"\ntimeouts.attempt = \"9s\"", "")),
        9
    );
    let beside = "deadline = \"9s\", timeouts.attempt = \"10s\"".replace(", ", "\n");
    assert_eq!(
        refused(&with(&beside, "")),
        [(3, "defaults.timeouts.attempt".to_owned())]
    );
    assert_eq!(
        refused(&with("", &beside)),
        [(7, "route \"/{*rest}\": timeouts.attempt".to_owned())]
    );
    let wait = "deadline = \"9s\"\nidempotency.wait_limit = \"10s\"";
    assert_eq!(
        refused(&with(wait, "deadline = \"1m\"")),
        [(3, "defaults.idempotency.wait_limit".to_owned())]
    );
    let cut = accepted(&with("timeouts.attempt = \"60s\"", ""));
    let warned = cut.warnings.iter().any(|w| w.setting == "timeouts.attempt");
    assert!(warned && cut.routes[0].cut.contains("timeouts.attempt"));
}

#[test]
fn a_flag_lies_over_the_environment_and_that_over_the_file() {
    let text = format!("listen = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:2\"\n{ROUTE_LINES}");
    let environment = environment(&[
        ("STEADFAST_ADMIN", "127.0.0.1:3"),
        ("STEADFAST_STORE", "memory:"),
        ("STEADFAST_DRAIN", "7s"),
    ]);
    let flags = Flags {
        store: Some("sqlite:flag.db".to_owned()),
        ..Flags::default()
    };
    let top = parse(&text, "s.toml", &flags, &environment)
        .expect("sound")
        .top;
    assert_eq!((top.listen.port(), top.admin.port()), (1, 3));
    assert_eq!(top.store, StoreUrl::Sqlite("flag.db".into()));
    assert_eq!(top.drain, Duration::from_secs(7));
    let origin = |name| match top.origins.of(name) {
        Origin::At(place) => place.to_string(),
        Origin::Default => "default".to_owned(),
    };
    assert_eq!(origin("listen"), "s.toml:1");
    assert_eq!(origin("admin"), "STEADFAST_ADMIN");
    assert_eq!(origin("store"), "--store");
    assert_eq!(origin("secret"), "default");
}

#[test]
fn a_wrong_value_is_refused_also_where_another_covers_it() {
    let text = format!("listen = \"x\"\n[defaults]\ndeadline = \"30\"\n{ROUTE_LINES}");
    let environment = environment(&[("STEADFAST_LISTEN", "127.0.0.1:1")]);
    let text = format!("{text}deadline = \"30s\"\n");
    let faults = parse(&text, "s.toml", &Flags::default(), &environment).expect_err("two");
    let settings: Vec<&str> = faults.list().iter().map(|f| &*f.setting).collect();
    assert_eq!(settings, ["listen", "defaults.deadline"]);
}

#[test]
fn a_wrong_flag_alone_is_wrong_usage() {
    let flags = Flags {
        listen: Some(":80".to_owned()),
        ..Flags::default()
    };
    let none = Environment::default();
    let faults = for_upstream("http://h", &flags, &none).expect_err("a wrong flag");
    assert!(faults.is_usage());
    let faults = for_upstream("h", &Flags::default(), &none).expect_err("no URL");
    assert!(faults.is_usage());
    let faults = parse("x = 1", "s.toml", &flags, &none).expect_err("both");
    assert!(!faults.is_usage());
}

#[test]
fn the_store_is_found_in_a_file_that_is_otherwise_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.toml");
    let text = "store = \"sqlite:a.db\"\nsecret = { env = \"NOT_SET\" }\nx = 1\n";
    std::fs::write(&path, text).expect("the file is written");
    let none = Environment::default();
    let sqlite = |name: &str| Ok(StoreUrl::Sqlite(name.into()));
    assert_eq!(store(Some(&path), None, &none), sqlite("a.db"));
    assert_eq!(store(None, None, &none), sqlite("steadfast.db"));
    assert_eq!(store(None, Some("sqlite:b.db"), &none), sqlite("b.db"));
    let set = environment(&[("STEADFAST_STORE", "memory:")]);
    assert_eq!(store(None, None, &set), Ok(StoreUrl::Memory));
    assert!(store(None, Some("redis://h"), &none).is_err());
}

#[test]
fn a_secret_is_found_in_its_place_and_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    let text = "0123456789abcdef0123456789abcdef";
    std::fs::write(&path, format!("{text}\n")).expect("the file is written");
    let environment = environment(&[("TOKEN", "correct-horse-battery")]);
    let config = format!(
        "secret = {{ file = {path:?} }}\nadmin_token = {{ env = \"TOKEN\" }}\n{ROUTE_LINES}"
    );
    let settings = parse(&config, "s.toml", &Flags::default(), &environment).expect("sound");
    let exposed =
        |secret: &Option<secret::Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
    assert_eq!(exposed(&settings.top.secret).as_deref(), Some(text));
    let token = exposed(&settings.top.admin_token);
    assert_eq!(token.as_deref(), Some("correct-horse-battery"));
    let shown = format!(
        "{settings:?}{}{}",
        show::text(&settings),
        show::json(&settings)
    );
    assert!(!shown.contains(text) && !shown.contains("battery"));
    assert!(shown.contains("{ env = \"TOKEN\" }"));
}

#[test]
fn what_is_shown_is_a_configuration_that_means_the_same() {
    let text = r#"
store = "memory:"
drain = "90s"
trusted_peers = ["10.0.0.0/8", "::1"]
[[route]]
path = "/a/{id}"
methods = ["PUT", "DELETE"]
to = "http://[::1]:9"
deadline = "4s"
body_limit = "3000B"
principal = "header:X-Tenant"
retry = { max_attempts = 1, backoff = "fixed", jitter = "equal", on_error = [], methods = [] }
budget = { ratio = 0.000001, floor_per_second = 0 }
breaker = { failure_ratio = 1, probes = 3 }
honor_attempts = true
[route.idempotency]
mode = "required-on-retry"
methods = ["PUT"]
header = "X-Key"
key_length = [8, 9]
min_entropy_bits = 0
scope = "principal"
forward_as = "quoted"
in_flight = "accept"
waiters_per_key = 1
final = [500]
released = [404, 409]
unknown = [202]
fingerprint_ignore = ["/b", "/a"]
on_store_failure = "pass"
[[route]]
name = "a \"quoted\" name"
path = "/b"
to = "http://h"
idempotency = { mode = "off", fingerprint = "bytes", in_flight = "conflict" }
principal = "cookie:Sid"
retry = { methods = ["PUT"], on_status = [100, 599], safe_to_repeat = false, max_wait = "0s" }
"#;
    let first = accepted(text);
    let second = accepted(&show::text(&first));
    let values = |settings: &Settings| {
        let routes = settings.routes.iter().flat_map(show::route);
        let all = show::top(&settings.top).into_iter().chain(routes);
        all.map(|shown| (shown.name, shown.value))
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&first), values(&second));
    let names: Vec<&str> = values(&first).iter().map(|(name, _)| *name).collect();
    for setting in SETTINGS {
        let optional = [
            "admin_token",
            "secret",
            "require",
            "idempotency.body_retention",
            "upstream_tls.ca",
            "upstream_tls.client_cert",
            "upstream_tls.client_key",
        ];
        if matches!(setting.support, Support::Acted) && !optional.contains(&setting.name) {
            assert!(
                names.contains(&setting.name),
                "{} is not shown",
                setting.name
            );
        }
    }
}

#[test]
fn nesting_without_end_is_refused() {
    for open in ["a = [", "a = {b = "] {
        let text = open.to_owned() + &open[4..].repeat(100_000);
        assert_eq!(
            read(&text).expect_err("no TOML").list()[0].kind,
            Kind::Syntax
        );
    }
    let dotted = format!("{}a = 1", "a.".repeat(100_000));
    assert!(read(&dotted).is_err());
    let tables = format!("[{}a]", "a.".repeat(100_000));
    assert!(read(&tables).is_err());
}

/// Lines of configurations, right and wrong, to be put together at random.
fn some_lines() -> impl Strategy<Value = String> {
    let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    let heads = [
        "[defaults]",
        "[[route]]",
        "[route]",
        "[tls]",
        "defaults = 1",
        "route = [1]",
    ];
    let values = [
        "1",
        "-1",
        "0.0",
        "nan",
        "true",
        "\"\"",
        "\"30s\"",
        "\"1MiB\"",
        "\"off\"",
        "[]",
        "[1]",
        "[\"POST\"]",
        "[9, 1]",
        "{}",
        "{ a = 1 }",
        "{ env = \"A\" }",
        "1979-05-27",
        "[[1]]",
        "\"/{*rest}\"",
        "\"http://h\"",
        "\"header:x\"",
        "[500]",
        "\"0ms\"",
        "\"sqlite:a\"",
    ];
    let setting = (
        prop::sample::select(names),
        prop::sample::select(values.to_vec()),
    )
        .prop_map(|(name, value)| format!("{name} = {value}"));
    let head = prop::sample::select(heads.to_vec()).prop_map(str::to_owned);
    let line = prop_oneof![4 => setting, 1 => head, 1 => ".{0,12}"];
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>(), lines in some_lines()) {
        let _ = read(&text);
        let _ = read(&lines);
        let lines = format!("{lines}\n{ROUTE_LINES}");
        if let Ok(settings) = read(&lines) {
            prop_assert!(read(&show::text(&settings)).is_ok());
        }
    }

    #[test]
    fn every_fault_has_a_place_a_reason_and_a_next_step(lines in some_lines()) {
        if let Err(faults) = read(&lines) {
            for fault in faults.list() {
                let is_placed = fault.place.line(1) == file("s.toml").line(1);
                prop_assert!(is_placed && !fault.reason.is_empty() && !fault.next.is_empty());
            }
        }
    }
}
