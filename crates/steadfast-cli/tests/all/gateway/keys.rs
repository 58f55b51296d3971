//! The rules of keys, over the wire.

use super::caller::{Call, KEY, OTHER_KEY, call, charge, get};
use super::running::{Gateway, config};
use super::upstream::Upstream;

// rule: a-malformed-or-weak-key-is-400-and-nothing-is-sent
#[tokio::test]
async fn a_malformed_weak_or_personal_key_is_400_and_nothing_is_sent() {
    let long = "aZ3".repeat(86);
    let list = format!("{KEY}, {OTHER_KEY}");
    let open = format!("\"{KEY}");
    let cases: [(&[u8], &str); 16] = [
        (b"", "key-invalid"),
        (b"\"\"", "key-invalid"),
        (b"short", "key-invalid"),
        (long.as_bytes(), "key-invalid"),
        (list.as_bytes(), "key-invalid"),
        (open.as_bytes(), "key-invalid"),
        (b"a key with spaces in it", "key-invalid"),
        (b"0f8fad5bd9cb469f\xe9165", "key-invalid"),
        (b"jane.doe.1985@shop.example", "key-invalid"),
        (b"4111111111111111", "key-invalid"),
        (b"4111-1111-1111-1111", "key-invalid"),
        (b"11111111111111111111", "key-weak"),
        (b"abcabcabcabcabcabcabc", "key-weak"),
        (b"order-0000000001", "key-weak"),
        (b"00000000-0000-0000-0000-000000000000", "key-weak"),
        (b"\"aaaaaaaaaaaaaaaaaaaaaa\"", "key-weak"),
    ];
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    for (key, slug) in cases {
        let answer = gateway.send(&charge().with("Idempotency-Key", key)).await;
        answer.is_problem(400, slug, "none");
        assert!(!answer.retryable());
        if key.len() > 5 {
            let key = String::from_utf8_lossy(key);
            assert!(
                !answer.text().contains(key.trim_matches('"')),
                "{key} is repeated"
            );
        }
    }
    let twice = charge().key(KEY).key(KEY);
    gateway
        .send(&twice)
        .await
        .is_problem(400, "key-invalid", "none");
    assert_eq!(upstream.count(), 0);
    assert!(gateway.records().await.is_empty());
}

#[tokio::test]
async fn the_bounds_of_a_key_are_settings_and_weakness_can_be_allowed() {
    let upstream = Upstream::charging().await;
    let route = "idempotency = { key_length = [4, 8], min_entropy_bits = 0 }";
    let gateway = Gateway::with(upstream.addr, route).await;
    for (key, status) in [
        ("abc", 400),
        ("aaaa", 201),
        ("12345678", 201),
        ("123456789", 400),
    ] {
        assert_eq!(
            gateway.send(&charge().key(key)).await.status,
            status,
            "{key}"
        );
    }
    // Inside quotes a comma is a character.
    let comma = gateway.send(&charge().key("\"a,b,c\"")).await;
    assert_eq!(comma.replayed(), Some("false"));
}

// rule: a-required-key-that-is-missing-is-400
#[tokio::test]
async fn a_required_key_that_is_missing_is_400_on_the_methods_that_take_keys() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::with(upstream.addr, "idempotency = { mode = \"required\" }").await;
    gateway
        .send(&charge())
        .await
        .is_problem(400, "key-missing", "none");
    gateway
        .send(&call("PATCH", "/1").body(""))
        .await
        .is_problem(400, "key-missing", "none");
    assert_eq!(upstream.count(), 0);
    for call in [charge().key(KEY), get("/"), call("PUT", "/1").body("x")] {
        assert_eq!(gateway.send(&call).await.status, 201);
    }
}

// rule: required-on-retry-refuses-a-keyless-retry
#[tokio::test]
async fn required_on_retry_refuses_a_keyless_retry_that_a_trusted_peer_counts() {
    let upstream = Upstream::charging().await;
    let route = "idempotency = { mode = \"required-on-retry\" }";
    let trusting = format!(
        "trusted_peers = [\"127.0.0.1\"]\n{}",
        config(upstream.addr, route)
    );
    let gateway = Gateway::start(&trusting).await;
    let retry = |call: Call| call.with("Steadfast-Attempt", "2");
    gateway
        .send(&retry(charge()))
        .await
        .is_problem(400, "key-missing", "none");
    let first = gateway.send(&charge().with("Steadfast-Attempt", "1")).await;
    assert_eq!(first.status, 201);
    assert_eq!(gateway.send(&charge()).await.status, 201);
    assert_eq!(gateway.send(&retry(charge().key(KEY))).await.status, 201);
    // A stranger's count is not believed.
    let gateway = Gateway::with(upstream.addr, route).await;
    assert_eq!(gateway.send(&retry(charge())).await.status, 201);
}

// rule: a-key-that-is-not-honoured-passes-untouched
#[tokio::test]
async fn on_other_methods_and_with_mode_off_the_field_passes_untouched() {
    let odd = "\"weak\", x;y";
    for (route, calls) in [
        (
            "",
            vec![get("/"), call("PUT", "/").body("x"), call("DELETE", "/")],
        ),
        ("idempotency = { mode = \"off\" }", vec![charge(), get("/")]),
    ] {
        let upstream = Upstream::charging().await;
        let gateway = Gateway::with(upstream.addr, route).await;
        for call in &calls {
            let answer = gateway.send(&call.clone().key(odd).key("")).await;
            assert_eq!((answer.status, answer.replayed()), (201, None));
        }
        for seen in upstream.seen() {
            assert_eq!(seen.values("idempotency-key"), [odd.as_bytes(), b""]);
            assert!(seen.values("idempotency-fence").is_empty());
        }
        assert_eq!(upstream.count(), calls.len());
        assert!(gateway.records().await.is_empty());
    }
}

#[tokio::test]
async fn methods_that_the_route_lists_are_honoured_also_put_and_delete() {
    let upstream = Upstream::charging().await;
    let route = "idempotency = { methods = [\"PUT\", \"DELETE\"] }";
    let gateway = Gateway::with(upstream.addr, route).await;
    for method in ["PUT", "DELETE"] {
        for marker in ["false", "true"] {
            let answer = gateway.send(&call(method, "/1").key(KEY)).await;
            assert_eq!(answer.replayed(), Some(marker), "{method}");
        }
    }
    assert_eq!(upstream.count(), 2, "the method is part of the operation");
}

// rule: the-key-s-field-can-be-renamed
#[tokio::test]
async fn a_renamed_field_is_the_key_and_the_common_one_is_a_field_like_others() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::with(upstream.addr, "idempotency = { header = \"X-Order-Key\" }").await;
    let call = charge()
        .with("X-Order-Key", format!("\"{KEY}\""))
        .key("anything, at all");
    for marker in ["false", "true"] {
        assert_eq!(gateway.send(&call).await.replayed(), Some(marker));
    }
    let seen = upstream.only();
    assert_eq!(seen.one("x-order-key"), KEY);
    assert_eq!(seen.one("idempotency-key"), "anything, at all");
}

#[tokio::test]
async fn the_path_is_part_of_the_operation_unless_the_scope_is_the_principal() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    for path in ["/v1/charges", "/v1/refunds", "/v1/charges/"] {
        let answer = gateway.send(&call("POST", path).key(KEY)).await;
        assert_eq!(answer.replayed(), Some("false"), "{path}");
    }
    // Two spellings of one path are one operation, and another request.
    let spelt = gateway.send(&call("POST", "/v1/%63harges").key(KEY)).await;
    assert!([201, 422].contains(&spelt.status));
    assert_eq!(upstream.count(), 3);
    let query = gateway
        .send(&call("POST", "/v1/charges?to=mallory").key(KEY))
        .await;
    query.is_problem(422, "key-reused", "none");
    let route = "idempotency = { scope = \"principal\" }";
    let gateway = Gateway::with(upstream.addr, route).await;
    assert_eq!(gateway.send(&call("POST", "/a").key(KEY)).await.status, 201);
    gateway
        .send(&call("POST", "/b").key(KEY))
        .await
        .is_problem(422, "key-reused", "none");
}
