//! Reports about fields that a service takes for others.

use crate::gateway::caller::{KEY, charge, keyed_charge};
use crate::gateway::running::{Gateway, config};
use crate::gateway::upstream::Upstream;

/// With `_` for `-`: what a service of the CGI kind (WSGI, PHP) takes for the field with `-`.
const SPELT: [(&str, &str); 8] = [
    ("Idempotency_Fence", "9007199254740991"),
    ("Idempotency_Key", "another"),
    ("Steadfast_Attempt", "7"),
    ("X_Tenant", "acme"),
    ("X_Forwarded_For", "10.0.0.1"),
    ("X-Forwarded_Proto", "https"),
    ("X_Real_IP", "10.0.0.1"),
    ("If_Match", "\"1\""),
];

// benoitc/gunicorn#2799, CVE-2015-0219 (Django): a field with underscores was taken for the one
// with dashes that the proxy had checked or written.
// CVE-2025-64484 (oauth2-proxy): the proxy took its own fields off, and not their look-alikes.
// caddyserver/caddy#7808: taking off every name with an underscore broke services that use some.
#[tokio::test]
async fn a_field_that_a_service_would_take_for_a_guarded_one_does_not_pass() {
    let upstream = Upstream::charging().await;
    let to = upstream.addr;
    let open = config(to, "");
    let (top, all) = open.split_at(open.find("[[route]]").expect("a route"));
    let text = format!(
        "trusted_peers = [\"10.0.0.0/8\"]\n{top}[[route]]\npath = \"/t/{{*rest}}\"\n\
         to = \"http://{to}\"\nprincipal = \"header:X-Tenant\"\n{all}"
    );
    let gateway = Gateway::start(&text).await;
    for base in [charge(), keyed_charge()] {
        let spelt = |call: crate::gateway::caller::Call, (name, value): &(&str, &str)| {
            call.with(name, value)
        };
        let call = SPELT.iter().fold(base, spelt).with("X_Other", "kept");
        assert_eq!(gateway.send(&call).await.status, 201);
        let seen = upstream.seen().pop().expect("one");
        for (name, _) in SPELT {
            assert!(seen.values(name).is_empty(), "{name}: {seen:?}");
        }
        assert_eq!(seen.one("x_other"), "kept");
        assert_eq!(seen.one("x-forwarded-for"), "127.0.0.1");
    }
    assert_eq!(upstream.seen()[1].one("idempotency-key"), KEY);
}
