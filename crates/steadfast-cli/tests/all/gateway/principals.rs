//! Whose request it is, over the wire.

use super::caller::{Call, charge, get, keyed_charge};
use super::running::{Gateway, config};
use super::upstream::Upstream;

fn with_token(token: &str) -> Call {
    keyed_charge().with("Authorization", token)
}

// rule: one-key-of-two-principals-is-two-operations
#[tokio::test]
async fn two_authorizations_with_one_key_are_two_effects_and_neither_sees_the_other_s_answer() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    for (token, made) in [("Bearer a", "1"), ("Bearer b", "2"), ("", "3")] {
        for marker in ["false", "true"] {
            let call = match token {
                "" => keyed_charge(),
                token => with_token(token),
            };
            let answer = gateway.send(&call).await;
            assert_eq!(answer.replayed(), Some(marker), "{token}");
            assert_eq!(answer.text(), format!("{{\"charge\":{made}}}"), "{token}");
        }
    }
    assert_eq!(upstream.count(), 3);
    // Another's request under one's own key blocks nobody.
    let other = gateway.send(&with_token("Bearer c").body("{}")).await;
    assert_eq!(other.status, 201);
}

// rule: a-cookie-alone-is-no-principal
#[tokio::test]
async fn a_cookie_without_authorization_is_400_until_the_route_says_what_it_is() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let call = keyed_charge().with("Cookie", "session=17; theme=dark");
    gateway
        .send(&call)
        .await
        .is_problem(400, "principal-unknown", "none");
    assert_eq!(upstream.count(), 0);
    let unkeyed = charge().with("Cookie", "session=17");
    assert_eq!(
        gateway.send(&unkeyed).await.status,
        201,
        "without a key it does not matter"
    );
    let both = gateway
        .send(&call.clone().with("Authorization", "Basic eA=="))
        .await;
    assert_eq!(both.status, 201);
    for principal in ["anonymous", "cookie:session"] {
        let route = format!("principal = \"{principal}\"");
        let gateway = Gateway::with(upstream.addr, &route).await;
        assert_eq!(gateway.send(&call).await.replayed(), Some("false"));
        let other = keyed_charge().with("Cookie", "session=18");
        let marker = if principal == "anonymous" {
            "true"
        } else {
            "false"
        };
        assert_eq!(gateway.send(&other).await.replayed(), Some(marker));
        let theme = keyed_charge().with("Cookie", "theme=light; session=17");
        assert_eq!(gateway.send(&theme).await.replayed(), Some("true"));
    }
}

#[tokio::test]
async fn an_authorization_that_comes_twice_is_refused() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    let twice = with_token("Bearer a").with("Authorization", "Bearer b");
    gateway
        .send(&twice)
        .await
        .is_problem(400, "bad-request", "none");
    assert_eq!(upstream.count(), 0);
}

/// Keys by tenant below `/t`, by token elsewhere.
fn by_tenant(upstream: &Upstream, trusted: &str) -> String {
    let to = upstream.addr;
    let rest = config(to, "");
    let (top, route) = rest.split_at(rest.find("[[route]]").expect("a route"));
    format!(
        "trusted_peers = [\"{trusted}\"]\n{top}[[route]]\npath = \"/t/{{*rest}}\"\n\
         to = \"http://{to}\"\nprincipal = \"header:X-Tenant\"\n{route}"
    )
}

fn of_tenant(path: &str, tenant: &str) -> Call {
    let call = super::caller::call("POST", path).key(super::caller::KEY);
    call.with("X-Tenant", tenant)
}

// rule: a-principal-field-is-a-trusted-peer-s-to-set
#[tokio::test]
async fn a_principal_field_of_a_stranger_is_403_on_its_route_and_taken_off_elsewhere() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::start(&by_tenant(&upstream, "10.0.0.0/8")).await;
    let answer = gateway.send(&of_tenant("/t/a", "acme")).await;
    answer.is_problem(403, "principal-unknown", "none");
    assert_eq!(upstream.count(), 0);
    for call in [
        of_tenant("/other", "acme"),
        get("/t/a").with("X-Tenant", "acme"),
    ] {
        assert_eq!(gateway.send(&call).await.status, 201);
    }
    for seen in upstream.seen() {
        assert!(seen.values("x-tenant").is_empty(), "{seen:?}");
    }
}

#[tokio::test]
async fn a_principal_field_of_a_trusted_peer_is_the_principal() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::start(&by_tenant(&upstream, "127.0.0.1")).await;
    for (tenant, marker) in [("acme", "false"), ("acme", "true"), ("other", "false")] {
        let call = of_tenant("/t/a", tenant).with("Authorization", "changes");
        assert_eq!(
            gateway.send(&call).await.replayed(),
            Some(marker),
            "{tenant}"
        );
    }
    let seen = upstream.seen();
    assert_eq!(seen[0].one("x-tenant"), "acme");
    for call in [
        of_tenant("/t/a", ""),
        of_tenant("/t/a", "a").without("X-Tenant"),
    ] {
        gateway
            .send(&call)
            .await
            .is_problem(400, "principal-unknown", "none");
    }
    let twice = of_tenant("/t/a", "a").with("X-Tenant", "b");
    gateway
        .send(&twice)
        .await
        .is_problem(400, "bad-request", "none");
    let nominated = of_tenant("/t/a", "acme").with("Connection", "x-tenant");
    let refused = gateway.send(&nominated).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!(upstream.count(), 2);
}

#[tokio::test]
async fn the_status_address_asks_for_the_principal_by_the_record_s_own_rule() {
    let upstream = Upstream::saying("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n").await;
    let gateway = Gateway::start(&by_tenant(&upstream, "127.0.0.1")).await;
    assert_eq!(gateway.send(&of_tenant("/t/a", "acme")).await.status, 500);
    let id = gateway.record().await["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let ask = get(&format!("/.steadfast/operations/{id}"));
    assert_eq!(
        gateway
            .send(&ask.clone().with("X-Tenant", "acme"))
            .await
            .status,
        200
    );
    for other in [
        ask.clone().with("X-Tenant", "other"),
        ask.clone(),
        ask.with("Authorization", "acme"),
    ] {
        gateway
            .send(&other)
            .await
            .is_problem(404, "operation-not-found", "none");
    }
}
