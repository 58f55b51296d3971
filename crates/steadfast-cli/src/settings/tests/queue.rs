//! The settings of the queue: fields of runs, their secrets, and what contradicts.

use steadfast_core::deferral::Defer;

use super::*;

// rule: the-queue-s-credentials-are-places
#[test]
fn a_run_s_fields_are_laid_over_one_another_and_a_credential_stands_there_as_its_place() {
    let text = r#"
[defaults]
defer = "allowed"
deferral = { base = "2s", headers = { X-Source = "all", X-Kind = "queue" } }
[[route]]
path = "/{*rest}"
to = "http://127.0.0.1:9000"
defer = "always"
deferral.cap = "1m"
deferral.headers = { x-source = "one", Authorization = { env = "QUEUE" } }
"#;
    let variables = environment(&[("QUEUE", "Bearer s3cret of-the-queue")]);
    let settings = parse(text, "s.toml", &Flags::default(), &variables).expect("sound");
    let route = &settings.routes[0];
    let rules = &route.policy.deferral;
    assert_eq!(route.policy.defer, Defer::Always);
    assert_eq!(rules.backoff.base(), Duration::from_secs(2));
    assert_eq!(rules.backoff.cap(), Duration::from_secs(60));
    let fields = [
        ("x-source", "one"),
        ("x-kind", "queue"),
        ("authorization", "Bearer s3cret of-the-queue"),
    ];
    assert_eq!(rules.headers.len(), fields.len());
    for (name, value) in fields {
        assert_eq!(rules.headers[name], value);
    }
    let shown = show::text(&settings);
    assert!(
        shown.contains("authorization = { env = \"QUEUE\" }"),
        "{shown}"
    );
    let all = format!("{settings:?}{shown}{}", show::json(&settings));
    assert!(!all.contains("s3cret"));
    let again = parse(&shown, "s.toml", &Flags::default(), &variables).expect("sound");
    assert_eq!(again.routes[0].policy.deferral.headers, rules.headers);
}

// rule: the-queue-s-settings-are-checked
#[test]
fn what_the_queue_cannot_do_is_refused_with_its_place_and_the_next_step() {
    let table = [
        ("defer = \"never\"", "defer"),
        ("deferral.cap = \"500ms\"", "deferral.cap"),
        ("deferral.base = \"10m\"", "deferral.base"),
        ("deferral.base = \"0s\"", "deferral.base"),
        ("deferral.concurrency = 0", "deferral.concurrency"),
        (
            "deferral.keep_credential = true",
            "deferral.keep_credential",
        ),
        (
            "deferral.headers = { Authorization = \"Bearer x\" }",
            "deferral.headers",
        ),
        (
            "deferral.headers = { X-Api-Key = \"x\" }",
            "deferral.headers",
        ),
        ("deferral.headers = { Host = \"x\" }", "deferral.headers"),
        (
            "deferral.headers = { Idempotency-Fence = \"1\" }",
            "deferral.headers",
        ),
        (
            "deferral.headers = { Authorization = { env = \"NOT_SET\" } }",
            "deferral.headers",
        ),
        ("deferral.headers = [\"x\"]", "deferral.headers"),
    ];
    for (line, setting) in table {
        let found = refused(&format!("{ROUTE_LINES}{line}\n"));
        let expected = vec![(4, format!("route \"/{{*rest}}\": {setting}"))];
        assert_eq!(found, expected, "{line}");
    }
    let faults = read(&format!("{ROUTE_LINES}deferral.keep_credential = true\n"));
    let told = faults.expect_err("nothing is encrypted").to_string();
    assert!(told.contains("encrypt_with"), "{told}");
}
