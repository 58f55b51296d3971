//! Same key, same request; same key, another request; another key, principal or operation.

use super::script::Turn;
use super::*;

// rule: worked-example-of-i4
#[tokio::test(start_paused = true)]
async fn the_same_charge_twice_is_one_charge_and_another_amount_is_refused() {
    let world = World::new().await;
    let first = world.send(charge(50)).await;
    let second = world.send(charge(50)).await;
    assert_eq!(first.told(), (201, Some("false"), None));
    assert_eq!(second.told(), (201, Some("true"), None));
    assert_eq!(first.bytes(), second.bytes());
    let other = world.send(charge(60)).await;
    other.is_problem(422, "key-reused", "none", false);
    assert_eq!(
        other.json()["operation_id"],
        world.row().await.id.to_string()
    );
    assert_eq!(world.script.effects(), 1);
}

async fn forty_at_once(world: World) {
    let asks: Vec<_> = (0..40).map(|_| world.spawn(charge(50))).collect();
    let mut replayed = 0;
    for ask in asks {
        let seen = end(ask).await;
        assert_eq!(seen.status, 201);
        assert_eq!(seen.bytes(), b"{\"effect\":1}");
        replayed += usize::from(seen.header("idempotent-replayed") == Some("true"));
    }
    assert_eq!(replayed, 39, "one is the executing answer");
    assert_eq!(world.script.effects(), 1);
}

// rule: identical-requests-at-once-have-one-effect
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_simultaneous_identical_requests_have_one_effect_and_forty_equal_answers() {
    for unconnected in [false, true] {
        let world = World::new().await;
        if unconnected {
            world.script.unconnected();
        }
        forty_at_once(world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn forty_identical_requests_meet_one_that_is_at_work() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let asks: Vec<_> = (0..40).map(|_| world.spawn(charge(50))).collect();
    idle().await;
    gate.open();
    for ask in asks {
        assert_eq!(end(ask).await.bytes(), b"{\"effect\":1}");
    }
    assert_eq!(world.script.effects(), 1);
}

// rule: different-bodies-at-once-have-one-effect
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_different_bodies_under_one_key_are_one_201_and_nine_422() {
    let world = World::new().await;
    let asks: Vec<_> = (1..=10).map(|n| world.spawn(charge(n))).collect();
    let mut statuses = Vec::new();
    for ask in asks {
        statuses.push(end(ask).await.status.as_u16());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [&[201][..], &[422; 9]].concat());
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_request_is_refused_while_the_first_is_at_work_and_once_it_is_unknown() {
    let world = World::new().await;
    let gate = world
        .script
        .gated(Turn::Fails(steadfast::core::attempt::Failure::Reset));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    let seen = world.send(charge(60)).await;
    assert_eq!(seen.problem(), (422, "key-reused".to_owned()));
    gate.open();
    end(first).await;
    let seen = world.send(charge(60)).await;
    assert_eq!(seen.problem(), (422, "key-reused".to_owned()));
    assert_eq!(world.script.effects(), 1);
}

// rule: tenants-never-meet
#[tokio::test(start_paused = true)]
async fn two_principals_with_one_key_never_meet() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let alice = world.spawn(charge(50));
    world.script.reached(1).await;
    // Bob is neither blocked, nor told of a mismatch, nor given anything of Alice's.
    let bob = world.send(charge(70).of("Bearer bob")).await;
    assert_eq!(bob.told(), (201, Some("false"), None));
    assert_eq!(bob.bytes(), b"{\"effect\":2}");
    gate.open();
    assert_eq!(end(alice).await.bytes(), b"{\"effect\":1}");
    let again = world.send(charge(70).of("Bearer bob")).await;
    assert_eq!(again.bytes(), b"{\"effect\":2}");
    let rows = world.rows().await;
    assert_ne!(rows[0].tenant, rows[1].tenant);
    assert_eq!(world.script.effects(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_key_on_two_operations_is_two_records() {
    let world = World::new().await;
    world.send(charge(50)).await;
    let mut other = charge(50);
    other.target = "/v1/refunds".to_owned();
    assert_eq!(world.send(other.clone()).await.bytes(), b"{\"effect\":2}");
    other.method = Method::PATCH;
    assert_eq!(world.send(other).await.bytes(), b"{\"effect\":3}");
    assert_eq!(world.rows().await.len(), 3);
}

// rule: the-key-goes-upstream-in-one-spelling
#[tokio::test(start_paused = true)]
async fn the_key_goes_upstream_in_one_spelling_and_the_answer_uncoded() {
    const QUOTED: &str = "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"; v=1";
    let world = World::new().await;
    let quoted = charge(50)
        .under(QUOTED)
        .with("idempotency-key", QUOTED)
        .with("accept-encoding", "gzip")
        .with("accept-encoding", "br");
    world.send(quoted).await;
    let bare = world.send(charge(50)).await;
    assert_eq!(bare.header("idempotent-replayed"), Some("true"));
    let reached = &world.script.ledger()[0];
    let lines = |name| reached.headers.get_all(name).iter().collect::<Vec<_>>();
    assert_eq!(lines("idempotency-key"), [KEY]);
    assert_eq!(lines("accept-encoding"), ["identity"]);
    assert_eq!(reached.body, "{\"amount\":50}");
}

// rule: the-fence-only-grows
#[tokio::test(start_paused = true)]
async fn the_fence_grows_with_every_attempt_across_deletion_and_a_caller_s_own_never_passes() {
    let world = World::repeating().await;
    let spoofed = || charge(50).with("idempotency-fence", "9007199254740991");
    world.script.then(Turn::Answer(503)).then(Turn::Answer(500));
    for _ in 0..3 {
        world.send(spoofed()).await;
    }
    pass(25 * 3600 * SECOND).await;
    steadfast::server::sweep(&world.server).await.unwrap();
    assert!(
        world.rows().await.is_empty(),
        "the completed record is gone"
    );
    world.send(spoofed()).await;
    world.send(spoofed().under(OTHER_KEY)).await;
    let fences: Vec<u64> = world
        .script
        .ledger()
        .iter()
        .filter_map(|r| r.fence)
        .collect();
    assert_eq!(fences.len(), 5);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    assert!(fences[0] > 1_800_000_000_000_000 && fences[4] < 1 << 53);
}

// rule: falsy-answers-replay
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_empty_or_falsy_is_an_answer() {
    for (status, body) in [
        (200, ""),
        (204, ""),
        (200, "0"),
        (200, "false"),
        (200, "null"),
        (200, "{}"),
        (404, ""),
    ] {
        let world = World::new().await;
        let head: Vec<(&str, &[u8])> = vec![("content-type", b"application/json")];
        world.script.then(Turn::Whole(status, head, body.into()));
        let first = world.send(charge(50)).await;
        let second = world.send(charge(50)).await;
        assert_eq!(first.told(), (status, Some("false"), None));
        assert_eq!(second.told(), (status, Some("true"), None));
        assert_eq!(second.bytes(), body.as_bytes());
        assert_eq!(world.script.effects(), 1);
    }
}

// rule: a-replay-is-exact
#[tokio::test(start_paused = true)]
async fn a_replay_has_the_bytes_and_the_headers_less_those_of_the_first_exchange() {
    let world = World::new().await;
    let body = Bytes::from_static(b"\xff\x00\xfe{not text}\r\n");
    let head: Vec<(&str, &[u8])> = vec![
        ("content-type", b"application/octet-stream"),
        ("link", b"</a>; rel=a"),
        ("link", b"</b>; rel=b"),
        ("link", b"</a>; rel=a"),
        ("x-raw", b"caf\xe9"),
        ("location", b"/v1/charges/1"),
        ("set-cookie", b"session=secret"),
        ("date", b"Mon, 30 Nov 2026 00:00:00 GMT"),
        ("x-request-id", b"7"),
        ("www-authenticate", b"Basic"),
        ("connection", b"x-hop"),
        ("x-hop", b"1"),
        ("idempotent-replayed", b"true"),
        ("steadfast-attempts", b"9"),
    ];
    world.script.then(Turn::Whole(201, head, body.clone()));
    let first = world.send(charge(50)).await;
    assert_eq!(first.header("set-cookie"), Some("session=secret"));
    assert_eq!(first.header("steadfast-attempts"), Some("1"));
    assert!(!first.headers.contains_key("x-hop"));
    let second = world.send(charge(50)).await;
    assert_eq!(second.bytes(), body);
    let links: Vec<_> = second.headers.get_all("link").iter().collect();
    assert_eq!(links, ["</a>; rel=a", "</b>; rel=b", "</a>; rel=a"]);
    assert_eq!(second.headers["x-raw"].as_bytes(), b"caf\xe9");
    assert_eq!(second.header("location"), Some("/v1/charges/1"));
    let mut names: Vec<_> = second.headers.keys().map(|n| n.as_str()).collect();
    names.sort_unstable();
    let left = [
        "content-type",
        "idempotent-replayed",
        "link",
        "location",
        "x-raw",
    ];
    assert_eq!(names, left);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_means_the_same_is_the_same_request() {
    let world = World::new().await;
    world.send(charge(50)).await;
    let mut same = charge(50);
    same.body = Bytes::from_static(b" { \"amount\" : 5.0e1 } ");
    assert_eq!(
        world.send(same).await.header("idempotent-replayed"),
        Some("true")
    );
}
