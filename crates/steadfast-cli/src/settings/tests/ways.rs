//! How an unknown outcome is asked for and undone: what can be configured, and what is refused.

use super::*;

fn with(idempotency: &str) -> String {
    format!(
        "[[route]]\npath = \"/v1/{{shop}}/charges\"\nto = \"http://127.0.0.1:9000\"\n\
         [route.idempotency]\n{idempotency}\n"
    )
}

fn faults(idempotency: &str) -> Vec<String> {
    let faults = read(&with(idempotency)).expect_err(idempotency);
    let line = |fault: &Fault| format!("{}: {}; {}", fault.setting, fault.reason, fault.next);
    faults.list().iter().map(line).collect()
}

#[test]
fn a_look_up_has_its_defaults_and_may_take_places_of_its_route() {
    let text = with(
        "on_unknown = \"lookup\"\n\
         lookup.path = \"/v1/{shop}/by/{key}?order={body:/order/id}\"\n\
         lookup.found_at = \"/data/0\"",
    );
    let settings = accepted(&text);
    let rules = &settings.routes[0].policy.idempotency;
    let lookup = rules.lookup.as_ref().expect("a look-up");
    assert_eq!(rules.on_unknown, OnUnknown::Lookup);
    assert_eq!(lookup.found, [http::StatusCode::OK]);
    assert_eq!(lookup.absent, [http::StatusCode::NOT_FOUND]);
    assert_eq!(lookup.settle, Duration::from_secs(60));
    assert!(lookup.headers.is_none(), "without its own credential");
    let pointers: Vec<&str> = lookup.path.pointers().collect();
    assert_eq!(pointers, ["/order/id"]);
}

#[test]
fn what_contradicts_itself_is_refused_with_its_reason() {
    let table = [
        ("on_unknown = \"lookup\"", "has no `idempotency.lookup`"),
        ("lookup.settle = \"1s\"", "it has no `path`"),
        ("lookup.path = \"/by?key={key}\"", "there is no `found_at`"),
        ("lookup.path = \"/by/{kee}\"", "`{kee}` is no place"),
        ("lookup.path = \"/by/{order}\"", "{shop}"),
        ("lookup.path = \"/by/{body:id}\"", "no JSON pointer"),
        ("lookup.path = \"/by/{key\"", "a brace"),
        ("lookup.path = \"by/{key}\"", "it is no path"),
        ("lookup.path = \"/a/../{key}\"", "it is no path"),
        (
            "lookup = { path = \"/{key}\", found_at = \"data\" }",
            "no JSON pointer",
        ),
        (
            "lookup = { path = \"/{key}\", answer_at = \"/a~2\" }",
            "no JSON pointer",
        ),
        (
            "lookup = { path = \"/{key}\", found = [] }",
            "nothing would say",
        ),
        (
            "lookup = { path = \"/{key}\", absent = [200] }",
            "also stands in `found`",
        ),
        (
            "lookup = { path = \"/{key}\", method = \"HEAD\", found_at = \"/a\" }",
            "no body",
        ),
        (
            "lookup = { path = \"/{key}\", method = \"POST\" }",
            "not one of its words",
        ),
        (
            "lookup = { path = \"/{key}\", headers = { Authorization = \"x\" } }",
            "a credential",
        ),
        (
            "lookup = { path = \"/{key}\", headers = { Host = \"x\" } }",
            "own to write",
        ),
        (
            "lookup = { path = \"/{key}\", headers = { Steadfast-Attempt = \"1\" } }",
            "own",
        ),
        (
            "lookup = { path = \"/{key}\", headers = { A = { env = \"NO\" } } }",
            "not set",
        ),
        ("compensate.settle = \"1s\"", "it has no `path`"),
        (
            "compensate = { path = \"/{key}\", body = \"{\" }",
            "no JSON",
        ),
        (
            "compensate = { path = \"/{key}\", body = '{ \"a\": {b} }' }",
            "`{b}` is no place",
        ),
    ];
    for (written, says) in table {
        let found = faults(written);
        assert!(
            found.iter().any(|line| line.contains(says)),
            "{written}: {found:?}"
        );
    }
}

#[test]
fn a_secret_among_its_fields_is_used_and_never_shown() {
    let text = with(
        "on_unknown = \"lookup\"\n\
         lookup.path = \"/by/{scoped_key}\"\n\
         lookup.headers = { Authorization = { env = \"LOOKUP_TOKEN\" }, accept = \"text/plain\" }",
    );
    let variables = environment(&[("LOOKUP_TOKEN", "Bearer s3cr3t-of-the-look-up")]);
    let settings = parse(&text, "s.toml", &Flags::default(), &variables).expect("a look-up");
    let lookup = settings.routes[0].policy.idempotency.lookup.clone();
    let headers = lookup.and_then(|l| l.headers.clone()).expect("fields");
    assert_eq!(headers["authorization"], "Bearer s3cr3t-of-the-look-up");
    for shown in [
        format!("{settings:?}"),
        show::text(&settings),
        show::json(&settings).to_string(),
    ] {
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
    let shown = show::text(&settings);
    assert!(
        shown.contains("authorization = { env = \"LOOKUP_TOKEN\" }"),
        "{shown}"
    );
    let again = parse(&shown, "s.toml", &Flags::default(), &variables).expect(&shown);
    assert_eq!(
        show::route(&again.routes[0]).len(),
        show::route(&settings.routes[0]).len()
    );
}

#[test]
fn what_may_surprise_of_a_way_out_is_said() {
    let said = |idempotency: &str| -> Vec<String> {
        let text = with(idempotency);
        let variables = environment(&[("T", "Bearer abc")]);
        let settings = parse(&text, "s.toml", &Flags::default(), &variables).expect(&text);
        let own = |w: &&Warning| w.setting.starts_with("idempotency.");
        let found = settings.warnings.iter().filter(own);
        found
            .map(|w| format!("{}: {}", w.setting, w.reason))
            .collect()
    };
    let lookup = "on_unknown = \"lookup\"\nlookup.path = \"/by/{key}\"\n";
    assert_eq!(said(lookup), [""; 0], "the plain form surprises nobody");
    let table = [
        (
            format!("{lookup}lookup.settle = \"29s\""),
            "shorter than the lease",
        ),
        (
            format!("{lookup}lookup.headers = {{ Authorization = {{ env = \"T\" }} }}"),
            "asks by {key} alone",
        ),
        (
            "lookup.path = \"/by/{key}\"".to_owned(),
            "nothing is looked up",
        ),
        (
            "on_unknown = \"repeat\"\ncompensate.path = \"/{key}\"".to_owned(),
            "nothing is undone",
        ),
        (
            "compensate = { path = \"/{key}\", settle = \"1s\" }".to_owned(),
            "shorter than the lease",
        ),
    ];
    for (written, says) in table {
        let found = said(&written);
        assert!(
            found.len() == 1 && found[0].contains(says),
            "{written}: {found:?}"
        );
    }
}
