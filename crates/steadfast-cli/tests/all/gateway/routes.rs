//! Which route takes a request, and in which order a request is judged.

use super::caller::{KEY, OTHER_KEY, call, charge, get, keyed_charge};
use super::running::{Gateway, TOP, config};
use super::upstream::Upstream;

fn route(path: &str, more: &str, to: &Upstream) -> String {
    format!(
        "[[route]]\npath = \"{path}\"\nto = \"http://{}\"\n{more}\n",
        to.addr
    )
}

// rule: the-first-route-that-matches-wins
#[tokio::test]
async fn the_first_route_whose_path_and_method_match_wins() {
    let (first, second, third) = (
        Upstream::charging().await,
        Upstream::charging().await,
        Upstream::charging().await,
    );
    let text = [
        TOP.to_owned(),
        route("/v1/{id}", "methods = [\"POST\"]", &first),
        route("/v1/charges", "", &second),
        route("/v1/{*rest}", "methods = [\"GET\"]", &third),
    ]
    .concat();
    let gateway = Gateway::start(&text).await;
    for (method, path, taker) in [
        ("POST", "/v1/charges", &first),
        ("GET", "/v1/charges", &second),
        ("DELETE", "/v1/charges", &second),
        ("GET", "/v1/charges/1", &third),
        ("GET", "/v1/", &third),
    ] {
        let before = taker.count();
        assert_eq!(
            gateway.send(&call(method, path)).await.status,
            201,
            "{method} {path}"
        );
        assert_eq!(taker.count(), before + 1, "{method} {path}");
    }
    for (method, path) in [
        ("POST", "/v1/charges/1"),
        ("GET", "/v2"),
        ("HEAD", "/v1/other"),
    ] {
        let answer = gateway.send(&call(method, path)).await;
        assert_eq!(answer.status, 404, "{method} {path}");
        if method != "HEAD" {
            answer.is_problem(404, "no-route", "none");
        }
    }
}

// rule: dot-segments-are-refused
#[tokio::test]
async fn a_path_that_walks_is_refused_in_every_disguise() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    for path in [
        "/a/../b",
        "/a/./b",
        "/..",
        "/%2e%2e/b",
        "/a/%2E/b",
        "/a/..%2fb",
        "/a%5c..%5cb",
        "/a/..;x/b",
        "/.steadfast/../v1",
    ] {
        gateway
            .send(&get(path))
            .await
            .is_problem(400, "bad-request", "none");
    }
    gateway
        .send(&call("OPTIONS", "*"))
        .await
        .is_problem(400, "bad-request", "none");
    assert_eq!(upstream.count(), 0);
    for path in ["/a//b", "/...", "/a%2Fb", "/a;x", "/?..", "/.well-known/x"] {
        assert_eq!(gateway.send(&get(path)).await.status, 201, "{path}");
        assert_eq!(upstream.seen().last().expect("one").target, path);
    }
}

// rule: no-spelling-slips-past-an-earlier-route
#[tokio::test]
async fn a_path_that_some_server_reads_as_an_earlier_route_s_is_refused() {
    let upstream = Upstream::charging().await;
    let text = [
        TOP.to_owned(),
        route(
            "/v1/charges",
            "idempotency = { mode = \"required\" }",
            &upstream,
        ),
        route("/{*rest}", "", &upstream),
    ]
    .concat();
    let gateway = Gateway::start(&text).await;
    for path in [
        "//v1/charges",
        "/v1//charges",
        "/v1/charges;x",
        "/v1%2Fcharges",
        "/v1%zz",
    ] {
        gateway
            .send(&call("POST", path))
            .await
            .is_problem(400, "bad-request", "none");
    }
    assert_eq!(upstream.count(), 0);
    for path in ["/v2//x", "/v2;x", "/v2/a%2Fb"] {
        assert_eq!(
            gateway.send(&call("POST", path)).await.status,
            201,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_known_method_in_lower_case_is_refused_and_others_are_not() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    for method in ["post", "Patch", "gEt"] {
        gateway
            .send(&call(method, "/v1/charges"))
            .await
            .is_problem(400, "bad-request", "none");
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(
        gateway.send(&call("purge", "/v1/charges")).await.status,
        201
    );
}

#[tokio::test]
async fn an_attempt_with_less_than_the_least_left_is_not_started() {
    let upstream = Upstream::charging().await;
    let text = config(upstream.addr, "timeouts = { min_attempt = \"10s\" }");
    let gateway = Gateway::start(&text).await;
    for asked in [call("POST", "/v1/charges"), keyed_charge()] {
        gateway
            .send(&asked.with("Request-Timeout-Ms", "9000"))
            .await
            .is_problem(504, "deadline-exceeded", "none");
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(gateway.send(&keyed_charge()).await.status, 201);
}

// rule: the-gateway-s-own-paths-are-never-passed-on
#[tokio::test]
async fn the_gateway_s_own_paths_are_never_passed_on() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    for path in [
        "/.steadfast",
        "/.steadfast/",
        "/.steadfast/x",
        "/%2esteadfast/x",
        "/%2Es%74eadfast/",
    ] {
        for call in [get(path), call("POST", path).key(KEY)] {
            gateway
                .send(&call)
                .await
                .is_problem(404, "operation-not-found", "none");
        }
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(gateway.send(&get("/.steadfaster/x")).await.status, 201);
}

#[tokio::test]
async fn each_route_has_settings_of_its_own_over_the_defaults() {
    let upstream = Upstream::charging().await;
    let text = [
        TOP.to_owned(),
        "[defaults]\nidempotency = { mode = \"required\", forward_as = \"quoted\" }\n".to_owned(),
        route("/free", "idempotency = { mode = \"optional\" }", &upstream),
        route("/{*rest}", "", &upstream),
    ]
    .concat();
    let gateway = Gateway::start(&text).await;
    assert_eq!(gateway.send(&call("POST", "/free")).await.status, 201);
    gateway
        .send(&charge())
        .await
        .is_problem(400, "key-missing", "none");
    assert_eq!(
        gateway.send(&call("POST", "/free").key(KEY)).await.status,
        201
    );
    assert_eq!(
        upstream.seen()[1].one("idempotency-key"),
        format!("\"{KEY}\"")
    );
}

// rule: adding-a-route-changes-no-live-key-s-scope
#[tokio::test]
async fn a_key_lives_on_when_routes_are_added_or_renamed() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    assert_eq!(
        gateway.send(&keyed_charge()).await.replayed(),
        Some("false")
    );
    let store = std::sync::Arc::clone(&gateway.store);
    gateway.stop().await;
    let renamed = route("/v1/{kind}", "name = \"other\"", &upstream);
    let gateway = Gateway::over(&format!("{TOP}{renamed}"), store).await;
    assert_eq!(gateway.send(&keyed_charge()).await.replayed(), Some("true"));
    assert_eq!(upstream.count(), 1);
}

// rule: nothing-that-refuses-new-work-hides-a-finished-answer
#[tokio::test]
async fn a_finished_answer_is_replayed_while_the_upstream_is_down() {
    let upstream = Upstream::charging().await;
    let gateway = Gateway::to(upstream.addr).await;
    assert_eq!(gateway.send(&keyed_charge()).await.status, 201);
    let store = std::sync::Arc::clone(&gateway.store);
    gateway.stop().await;
    let gateway = Gateway::over(&config(Upstream::nowhere().await, ""), store).await;
    let answer = gateway.send(&keyed_charge()).await;
    assert_eq!((answer.status, answer.replayed()), (201, Some("true")));
    assert_eq!(answer.field("location"), Some("/charges/1"));
    // Another request under the key is told so before anything is dialled.
    let other = gateway.send(&keyed_charge().body("{}")).await;
    other.is_problem(422, "key-reused", "none");
    let new = gateway.send(&charge().key(OTHER_KEY)).await;
    new.is_problem(503, "upstream-unreachable", "none");
}

/// Each call is wrong in every way from its own on, so that the first check shows.
#[tokio::test]
async fn a_request_is_judged_in_the_order_of_checks() {
    let upstream = Upstream::charging().await;
    let text = [
        TOP.to_owned(),
        route("/v1/{*rest}", "body_limit = \"4B\"", &upstream),
    ]
    .concat();
    let gateway = Gateway::start(&text).await;
    let large = || call("POST", "/v1/x").body("too large");
    let cookie = || large().with("Cookie", "a=1");
    let checks = [
        (
            call("POST", "/v1/../x").with("Request-Timeout-Ms", "0"),
            "bad-request",
        ),
        (
            call("POST", "/x")
                .with("Request-Timeout-Ms", "0")
                .key("weak"),
            "no-route",
        ),
        (
            cookie().with("Request-Timeout-Ms", "0").key("weak"),
            "deadline-exceeded",
        ),
        (cookie().key("weak"), "key-invalid"),
        (cookie().key(KEY), "principal-unknown"),
        (large().key(KEY), "body-too-large"),
    ];
    for (call, slug) in checks {
        let answer = gateway.send(&call).await;
        assert_eq!(answer.slug(), slug);
        assert_eq!(answer.effect(), Some("none"));
    }
    assert_eq!(upstream.count(), 0);
}
