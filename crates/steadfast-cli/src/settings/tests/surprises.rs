//! What is said of a sound configuration that may surprise.

use super::*;

#[test]
fn warnings_say_what_may_surprise() {
    let text = r#"
store = "memory:"
trusted_peers = ["0.0.0.0/0"]
[defaults]
principal = "authorization"
idempotency.min_entropy_bits = 128
[[route]]
path = "/{*rest}"
methods = ["GET", "POST"]
to = "http://h"
[[route]]
path = "/v1"
methods = ["POST"]
to = "http://h"
[[route]]
path = "/v2"
to = "http://h"
idempotency.mode = "off"
"#;
    let variables = [("STEADFAST_STROE", "x"), ("STEADFAST_SERVICE_PORT", "1")];
    let settings = parse(text, "s.toml", &Flags::default(), &environment(&variables));
    let warnings = settings.expect("sound").warnings;
    let found: Vec<String> = warnings
        .iter()
        .map(|w| {
            let place = w.place.as_ref().map(ToString::to_string);
            let reason: Vec<&str> = w.reason.split(' ').take(4).collect();
            format!(
                "{} {} {}",
                place.unwrap_or_default(),
                w.setting,
                reason.join(" ")
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "STEADFAST_STROE  this variable is not",
            "s.toml:2 store records are gone when",
            "s.toml:3 trusted_peers `0.0.0.0/0` trusts everybody who",
            "s.toml:5 principal with `authorization` a caller",
            "s.toml:5 principal changing this opens a",
            "s.toml:6 idempotency.min_entropy_bits 128 bits refuse every",
            "s.toml:12 path route \"/v1\" never matches:",
        ]
    );
}

// rule: a-required-key-that-no-method-asks-for-is-said
#[test]
fn a_required_key_is_warned_of_where_no_method_of_the_route_asks_for_one() {
    let table = [
        ("methods = [\"GET\"]", "mode = \"required\"", true),
        (
            "methods = [\"PUT\", \"DELETE\"]",
            "mode = \"required\"",
            true,
        ),
        (
            "methods = [\"PUT\"]",
            "mode = \"required\", methods = [\"PUT\"]",
            false,
        ),
        (
            "methods = [\"GET\", \"POST\"]",
            "mode = \"required\"",
            false,
        ),
        ("", "mode = \"required\"", false),
        ("methods = [\"GET\"]", "mode = \"optional\"", false),
        ("methods = [\"GET\"]", "mode = \"off\"", false),
    ];
    for (methods, rules, expected) in table {
        let text = format!("{ROUTE_LINES}{methods}\nidempotency = {{ {rules} }}\n");
        let warnings = accepted(&text).warnings;
        let found: Vec<_> = warnings
            .iter()
            .filter(|warning| warning.setting == "idempotency.mode")
            .collect();
        assert_eq!(found.len(), usize::from(expected), "{text}");
        for warning in found {
            let place = warning.place.as_ref().map(ToString::to_string);
            assert_eq!(place.as_deref(), Some("s.toml:5"));
            assert!(
                warning.reason.contains("asks for no key"),
                "{}",
                warning.reason
            );
        }
    }
}
