//! The operator's address: what it shows, what it settles, whom it refuses.

use serde_json::Value;

use super::caller::{Call, Caller, KEY, OTHER_KEY, call, charge, get, keyed_charge};
use super::running::{Gateway, config};
use super::upstream::{Upstream, answer};

/// A gateway with one operation unknown without answer, and its id.
async fn with_unknown() -> (Gateway, Upstream, String) {
    let upstream = Upstream::start(|exchange| async move {
        match exchange.number {
            1 => exchange.reply_and_close("").await,
            _ => exchange.reply(answer("201 Created", "", "made")).await,
        }
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    let id = gateway.send(&keyed_charge()).await.operation_id();
    (gateway, upstream, id)
}

fn act(id: &str, act: &str, body: &str) -> Call {
    call("POST", &format!("/api/records/{id}/{act}")).body(body)
}

#[tokio::test]
async fn it_says_alive_and_ready_and_nothing_else_without_being_asked() {
    let gateway = Gateway::to(Upstream::nowhere().await).await;
    for path in ["/livez", "/readyz"] {
        assert_eq!(gateway.operate(get(path)).await.status, 200);
        assert_eq!(gateway.operate(call("HEAD", path)).await.status, 200);
        // Probes come under any name.
        let mut probe = Caller::connect(gateway.admin).await;
        assert_eq!(probe.ask(&get(path)).await.status, 200);
    }
    for (method, path, status) in [
        ("GET", "/nothing", 404),
        ("POST", "/livez", 404),
        ("GET", "/api/recordsx", 404),
        ("GET", "/api/records/short", 404),
        ("GET", "/api/records/0123456789abcdef0123456789abcdef", 404),
        ("POST", "/metrics", 405),
        ("GET", "/metrics/", 404),
        ("DELETE", "/api/records", 405),
        ("PUT", "/api/records/0123456789abcdef0123456789abcdef", 405),
        (
            "GET",
            "/api/records/0123456789abcdef0123456789abcdef/resolve",
            405,
        ),
        (
            "POST",
            "/api/records/0123456789abcdef0123456789abcdef/release",
            404,
        ),
        (
            "POST",
            "/api/records/0123456789abcdef0123456789abcdef/other",
            404,
        ),
    ] {
        let answer = gateway.operate(call(method, path)).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(answer.field("allow").is_some(), status == 405);
        let told = answer.json();
        assert_eq!(told["status"], status);
        assert!(
            told["detail"]
                .as_str()
                .is_some_and(|detail| detail.ends_with('.')),
            "{told}"
        );
    }
}

// rule: records-are-listed-by-state-and-age
#[tokio::test]
async fn records_are_listed_by_state_age_and_number() {
    let (gateway, _upstream, unknown) = with_unknown().await;
    assert_eq!(gateway.send(&charge().key(OTHER_KEY)).await.status, 201);
    let list = async |query: &str| {
        let answer = gateway.operate(get(&format!("/api/records?{query}"))).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        let Value::Array(records) = answer.json() else {
            panic!("no array: {answer:?}");
        };
        records
    };
    let found = list("state=unknown").await;
    assert_eq!(
        (found.len(), &found[0]["id"]),
        (1, &Value::from(unknown.as_str()))
    );
    let names = [
        "id",
        "tenant",
        "operation",
        "state",
        "effect",
        "fence",
        "owner",
        "attempts",
        "status",
        "created_at",
        "updated_at",
        "locked_until",
        "expires_at",
    ];
    let members = found[0].as_object().expect("an object");
    assert_eq!(members.len(), names.len(), "{members:?}");
    assert!(
        names.iter().all(|name| members.contains_key(*name)),
        "{members:?}"
    );
    assert_eq!(found[0]["operation"], "POST /v1/charges");
    for (query, number) in [
        ("", 2),
        ("state=completed", 1),
        ("state=deferred", 0),
        ("limit=1", 1),
        ("limit=1000", 2),
        ("older_than=1h", 0),
        ("older_than=0s&state=completed&limit=5", 1),
        ("older_than=1%68", 0),
        // Its milliseconds are 2⁶⁴ and a few.
        ("older_than=18446744073709552s", 0),
    ] {
        assert_eq!(list(query).await.len(), number, "{query}");
    }
    for query in [
        "state=lost",
        "state=",
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=x",
        "older_than=5",
        "older_than=soon",
        "key=x",
        "State=unknown",
    ] {
        let answer = gateway.operate(get(&format!("/api/records?{query}"))).await;
        assert_eq!(answer.status, 400, "{query}");
    }
}

#[tokio::test]
async fn a_record_is_shown_with_its_history_and_without_key_or_body() {
    let (gateway, _upstream, id) = with_unknown().await;
    let answer = gateway.operate(get(&format!("/api/records/{id}"))).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    let history = answer.json()["history"].clone();
    let events = history.as_array().expect("a history");
    assert!(events.len() >= 2, "{history}");
    for event in events {
        assert!(
            ["at", "event", "by", "detail"]
                .iter()
                .all(|name| event[name].is_string())
        );
    }
    assert!(!answer.text().contains(KEY) && !answer.text().contains("amount"));
}

// rule: an-operator-s-answer-is-given-to-later-callers
#[tokio::test]
async fn a_resolved_record_gives_the_operator_s_answer_and_cannot_be_settled_again() {
    let (gateway, upstream, id) = with_unknown().await;
    let body = r#"{"status":201,"headers":{"Location":"/charges/9","X-Many":["a","b"]},
                   "body":{"charge":9}}"#;
    let done = gateway.operate(act(&id, "resolve", body)).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(done.json()["state"], "completed");
    let last = done.json()["history"]
        .as_array()
        .expect("a history")
        .last()
        .cloned();
    assert_eq!(last.expect("an event")["by"], "operator (admin)");
    let later = gateway.send(&keyed_charge()).await;
    assert_eq!((later.status, later.replayed()), (201, Some("true")));
    assert_eq!(later.text(), r#"{"charge":9}"#);
    assert_eq!(later.field("location"), Some("/charges/9"));
    assert_eq!(later.field("content-type"), Some("application/json"));
    assert_eq!(later.headers.get_all("x-many").iter().count(), 2);
    for again in [act(&id, "resolve", body), act(&id, "release", "")] {
        let refused = gateway.operate(again).await;
        assert_eq!(refused.status, 409, "{refused:?}");
        assert!(refused.text().contains("completed"), "{refused:?}");
    }
    assert_eq!(upstream.count(), 1);
}

// rule: an-operator-s-release-lets-the-same-request-go-again
#[tokio::test]
async fn a_released_record_lets_the_same_request_go_again() {
    let (gateway, upstream, id) = with_unknown().await;
    let done = gateway.operate(act(&id, "release", "")).await;
    assert_eq!(
        (done.status, &done.json()["state"]),
        (200, &Value::from("released"))
    );
    assert_eq!(gateway.operate(act(&id, "release", "")).await.status, 409);
    let other = gateway.send(&keyed_charge().body("{}")).await;
    other.is_problem(422, "key-reused", "none");
    let again = gateway.send(&keyed_charge()).await;
    assert_eq!((again.status, again.replayed()), (201, Some("false")));
    assert_eq!(upstream.count(), 2);
}

#[tokio::test]
async fn a_resolution_that_makes_no_answer_is_refused_and_settles_nothing() {
    let (gateway, _upstream, id) = with_unknown().await;
    for body in [
        "",
        "[]",
        "{}",
        r#"{"status":99}"#,
        r#"{"status":600}"#,
        r#"{"status":"201"}"#,
        r#"{"status":101}"#,
        r#"{"status":200,"body":1,"body_base64":"eA=="}"#,
        r#"{"status":200,"body_base64":"?"}"#,
        r#"{"status":200,"headers":{"a b":"c"}}"#,
        r#"{"status":200,"headers":{"a":"b\r\nc"}}"#,
        r#"{"status":200,"headers":{"a":1}}"#,
        r#"{"status":200,"other":1}"#,
        r#"{"status":204,"body":{"not":"empty"}}"#,
        r#"{"status":304,"body_base64":"eA=="}"#,
    ] {
        let refused = gateway.operate(act(&id, "resolve", body)).await;
        assert_eq!(refused.status, 400, "{body}: {refused:?}");
    }
    let large = format!(
        r#"{{"status":200,"body":"{}"}}"#,
        "x".repeat(5 * 1024 * 1024)
    );
    let refused = gateway.operate(act(&id, "resolve", &large)).await;
    assert_eq!(refused.status, 413);
    assert!(!refused.text().contains("keyed"), "{refused:?}");
    assert_eq!(gateway.record().await["state"], "unknown");
    let nothing = gateway
        .operate(act(&id, "resolve", r#"{"status":204}"#))
        .await;
    assert_eq!(nothing.status, 200, "{nothing:?}");
    let later = gateway.send(&keyed_charge()).await;
    assert_eq!((later.status, later.body.len()), (204, 0));
}

// rule: a-page-in-the-operator-s-browser-cannot-act
#[tokio::test]
async fn foreign_hosts_and_foreign_sites_are_refused() {
    let (gateway, _upstream, id) = with_unknown().await;
    let mut admin = Caller::connect(gateway.admin).await;
    let port = gateway.admin.port();
    for host in [
        "evil.example",
        "evil.example:8081",
        "127.0.0.1.evil.example",
        "localhost.",
        "@",
    ] {
        for call in [
            get("/api/records"),
            get("/metrics"),
            act(&id, "release", ""),
        ] {
            let call = call.without("Host").with("Host", host);
            let refused = Caller::connect(gateway.admin).await.ask(&call).await;
            assert!([400, 403].contains(&refused.status), "{host}: {refused:?}");
        }
    }
    for host in [
        format!("localhost:{port}"),
        format!("LOCALHOST:{port}"),
        format!("[::1]:{port}"),
    ] {
        let call = get("/api/records").without("Host").with("Host", host);
        assert_eq!(admin.ask(&call).await.status, 200);
    }
    let own = format!("http://{}", gateway.admin);
    let other_port = format!("http://127.0.0.1:{}", port.wrapping_add(1));
    for (name, value) in [
        ("Origin", "https://evil.example".as_bytes()),
        ("Origin", b"null"),
        ("Origin", b"http://\xe9"),
        ("Origin", other_port.as_bytes()),
        ("Sec-Fetch-Site", b"cross-site"),
        ("Sec-Fetch-Site", b"same-site"),
    ] {
        let refused = gateway
            .operate(act(&id, "release", "").with(name, value))
            .await;
        assert_eq!(refused.status, 403, "{name}: {}", value.escape_ascii());
    }
    let twice = act(&id, "release", "")
        .with("Origin", &own)
        .with("Origin", "http://other");
    assert_eq!(gateway.operate(twice).await.status, 403);
    assert_eq!(gateway.record().await["state"], "unknown");
    let page = act(&id, "release", "")
        .with("Origin", &own)
        .with("Sec-Fetch-Site", "same-origin");
    assert_eq!(gateway.operate(page).await.status, 200);
}

// rule: with-a-token-the-operator-shows-it
#[tokio::test]
async fn with_a_token_everything_but_the_probes_asks_for_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("token");
    std::fs::write(&file, "of-the-operator-only\n").expect("a file");
    let token = format!("admin_token = {{ file = \"{}\" }}\n", file.display());
    let gateway =
        Gateway::start(&format!("{token}{}", config(Upstream::nowhere().await, ""))).await;
    for path in ["/livez", "/readyz"] {
        assert_eq!(gateway.operate(get(path)).await.status, 200);
    }
    let ask = get("/api/records");
    assert_eq!(gateway.operate(ask.clone()).await.status, 401);
    assert_eq!(gateway.operate(get("/metrics")).await.status, 401);
    for wrong in [
        "Bearer of-the-operator-onl",
        "Bearer of-the-operator-only2",
        "Bearer ",
        "of-the-operator-only",
        "Basic of-the-operator-only",
    ] {
        let refused = gateway
            .operate(ask.clone().with("Authorization", wrong))
            .await;
        assert_eq!(refused.status, 401, "{wrong}");
        assert!(!refused.text().contains("of-the-operator"));
        assert_eq!(refused.field("www-authenticate"), Some("Bearer"));
    }
    let right = ask
        .clone()
        .with("Authorization", "Bearer of-the-operator-only");
    assert_eq!(gateway.operate(right.clone()).await.status, 200);
    // Behind a name of its own, the token is what counts.
    let named = right.without("Host").with("Host", "admin.example");
    assert_eq!(
        Caller::connect(gateway.admin)
            .await
            .ask(&named)
            .await
            .status,
        200
    );
    let twice = named.with("Authorization", "Bearer of-the-operator-only");
    assert_eq!(
        Caller::connect(gateway.admin)
            .await
            .ask(&twice)
            .await
            .status,
        401
    );
}
