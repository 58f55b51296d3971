//! An unknown outcome and its ways out, over sockets and whole processes: what the service says,
//! who asks, and what callers are given.

use serde_json::Value;

use crate::stage::{Answer, CLERK, Caller, Clerk, Folder, Gateway, Look, Post, Request, until};

mod late;
mod undo;

const KEY: &str = "3f9d2c1a-7b64-4e0f-9a58-c2d1e6b70f34";

const LOOKUP: &str = "on_unknown = \"lookup\"\n\
                      lookup = { path = \"/by/{key}\", settle = \"1s\", \
                      headers = { Authorization = { file = \"token\" } } }";

/// Only callers ask: there is no credential but theirs.
const CALLERS: &str = "on_unknown = \"lookup\"\nlookup = { path = \"/by/{key}\", settle = \"1s\" }";

fn set(posts: &[Post], idempotency: &str) -> (Folder, Clerk, Gateway) {
    let (folder, clerk) = (Folder::new(), Clerk::open(posts));
    folder.write("token", CLERK);
    folder.write("s.toml", clerk.config(idempotency));
    let gateway = folder.gateway();
    (folder, clerk, gateway)
}

fn ask(gateway: &Gateway) -> Answer {
    gateway.ask(&Request::order(KEY)).expect("an answer")
}

fn slug(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.problem())
}

fn unknown(status: u16) -> (u16, Option<String>) {
    (status, Some("outcome-unknown".to_owned()))
}

fn record(gateway: &Gateway) -> Value {
    let mut records = gateway.records();
    assert_eq!(records.len(), 1, "{records:?}");
    records.remove(0)
}

fn wait_for(gateway: &Gateway, state: &str) -> Value {
    until(state, || {
        Some(record(gateway)).filter(|row| row["state"] == state)
    })
}

/// The events and details of a record's history.
fn history(folder: &Folder, row: &Value) -> Vec<(String, String, String)> {
    let id = row["id"].as_str().expect("an id");
    let shown = folder.json(&["keys", "show", id, "--json", "--config", "s.toml"]);
    let history = shown["history"].as_array().expect("a history").clone();
    let text = |event: &Value, name: &str| event[name].as_str().expect(name).to_owned();
    let line = |e: &Value| (text(e, "event"), text(e, "by"), text(e, "detail"));
    history.iter().map(line).collect()
}

// rule: each-truth-after-a-time-out-ends-right-under-each-way-out
#[test]
fn each_truth_after_a_lost_answer_ends_right_under_hold_repeat_and_lookup() {
    for (truth, executed) in [(Post::Unread, 0), (Post::Ignored, 0), (Post::Lost, 1)] {
        let (_folder, clerk, gateway) = set(&[truth], "on_unknown = \"hold\"");
        assert_eq!(slug(&ask(&gateway)), unknown(504), "{truth:?}");
        assert_eq!(slug(&ask(&gateway)), unknown(409), "{truth:?}");
        assert_eq!(clerk.effects(), executed, "{truth:?} under hold");
        assert_eq!(record(&gateway)["state"], "unknown");

        let (_folder, clerk, gateway) = set(&[truth], "on_unknown = \"repeat\"");
        clerk.honours_keys();
        assert_eq!(slug(&ask(&gateway)), unknown(504), "{truth:?}");
        let again = ask(&gateway);
        assert_eq!((again.status, again.replayed()), (201, Some("false")));
        assert_eq!(clerk.effects(), 1, "{truth:?} under repeat");

        let (_folder, clerk, gateway) = set(&[truth], LOOKUP);
        let first = ask(&gateway);
        if executed == 1 {
            assert_eq!(first.status, 200, "it was looked up: {first:?}");
            assert_eq!(first.replayed(), Some("true"));
        } else {
            assert_eq!(slug(&first), unknown(504), "{truth:?}: {first:?}");
            wait_for(&gateway, "released");
            let again = ask(&gateway);
            assert_eq!((again.status, again.replayed()), (201, Some("false")));
        }
        assert_eq!(clerk.effects(), 1, "{truth:?} under lookup");
        assert_eq!(wait_for(&gateway, "completed")["effect"], "applied");
    }
}

#[test]
fn the_first_caller_is_given_what_is_found_inside_its_deadline() {
    let rules = "on_unknown = \"lookup\"\n\
                 lookup = { path = \"/by/{key}?x=1\", \
                 found_at = \"/data/0\", answer_at = \"/data/0\" }";
    let (folder, clerk, gateway) = set(&[Post::Lost], rules);
    let first = ask(&gateway);
    let body = "{\"of\":\"Bearer a\"}";
    assert_eq!(first.essence(), (200, Some("application/json"), None, body));
    assert_eq!(first.field("set-cookie"), None);
    assert_eq!(first.replayed(), Some("true"));
    assert_eq!(ask(&gateway).essence(), first.essence());
    assert_eq!(clerk.asked(), [format!("Bearer a /by/{KEY}?x=1")]);
    let told = history(&folder, &record(&gateway));
    let (event, by, detail) = told.last().expect("a line");
    assert_eq!(
        (&**event, &**by, &**detail),
        ("looked-up", "caller", "status 200: found")
    );
    let log = gateway.drained();
    assert!(log.contains("was looked up"), "{log}");
    assert!(!log.contains(KEY) && !log.contains("Bearer"), "{log}");
}

// rule: a-look-up-that-does-not-tell-leaves-the-outcome-unknown
#[test]
fn a_look_up_that_does_not_tell_leaves_the_outcome_unknown() {
    let rules = "on_unknown = \"lookup\"\n\
                 lookup = { path = \"/by/{key}\", found_at = \"/data/0\", settle = \"1m\" }";
    let table = [
        Look::Says(200, "{\"data\":[]}"),
        Look::Says(404, "{}"),
        Look::Says(500, "{}"),
        Look::Says(401, "{}"),
        Look::Says(302, ""),
        Look::Says(200, "{\"data\":[{\"id\""),
        Look::Garbage,
        Look::Silence,
    ];
    let (folder, clerk, gateway) = set(&[Post::Lost], rules);
    for (n, look) in table.into_iter().enumerate() {
        clerk.says(Some(look));
        let answer = ask(&gateway);
        let expected = if n == 0 { unknown(504) } else { unknown(409) };
        assert_eq!(slug(&answer), expected, "{look:?}");
        let body: Value = serde_json::from_slice(&answer.body).expect("a problem");
        assert_eq!(body["retryable"], true, "{look:?}");
        assert_eq!(
            clerk.asked().len(),
            n + 1,
            "one look-up a request: {look:?}"
        );
    }
    let row = record(&gateway);
    assert_eq!(
        (&row["state"], &row["effect"]),
        (&"unknown".into(), &"unknown".into())
    );
    let told = history(&folder, &row);
    let looked = told.iter().filter(|(event, _, _)| event == "looked-up");
    let details: Vec<&str> = looked.map(|(_, _, d)| &**d).collect();
    assert_eq!(
        details[0],
        "status 200, with nothing at found_at: not clear"
    );
    assert_eq!(details[1], "status 404: absent, too early to count");
    assert!(
        details[7].contains("no answer (read-timeout)"),
        "{details:?}"
    );
    clerk.says(None);
    assert_eq!(ask(&gateway).status, 200, "and the next one may tell");
    assert_eq!(clerk.effects(), 1);
}

#[test]
fn an_answer_that_leaves_it_unknown_is_asked_for_and_replayed_where_nothing_is_learnt() {
    let (_folder, clerk, gateway) = set(&[Post::Fails], CALLERS);
    clerk.says(Some(Look::Says(503, "")));
    for n in 0..2 {
        let answer = ask(&gateway);
        assert_eq!(answer.status, 500, "{answer:?}");
        assert_eq!(answer.field("steadfast-effect"), Some("unknown"));
        assert_eq!(
            answer.replayed(),
            Some(if n == 0 { "false" } else { "true" })
        );
    }
    clerk.says(None);
    let found = ask(&gateway);
    assert_eq!((found.status, found.replayed()), (200, Some("true")));
    assert_eq!((clerk.effects(), clerk.asked().len()), (1, 3));
}

// rule: a-look-up-never-gives-another-principal-s-answer
#[test]
fn a_caller_asks_by_its_own_credential_and_never_gets_another_s_order() {
    let (_folder, clerk, gateway) = set(&[Post::Done, Post::Lost], CALLERS);
    assert_eq!(ask(&gateway).status, 201);
    let other = |gateway: &Gateway| {
        let mut caller = Caller::to(gateway.data).expect("a connection");
        caller.say(format!(
            "POST /orders HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer b\r\n\
             idempotency-key: {KEY}\r\ncontent-type: application/json\r\n\
             content-length: 12\r\nconnection: close\r\n\r\n{{\"amount\":1}}"
        ));
        caller.answer().expect("an answer")
    };
    let found = other(&gateway);
    let body = "{\"data\":[{\"of\":\"Bearer b\"}]}";
    assert_eq!(found.essence(), (200, Some("application/json"), None, body));
    assert_eq!(clerk.asked(), [format!("Bearer b /by/{KEY}")]);
}

#[test]
fn duplicates_of_one_that_asks_wait_for_it_and_one_look_up_is_sent() {
    let (_folder, clerk, gateway) = set(&[Post::Lost], CALLERS);
    clerk.hold();
    let post = Request::order(KEY);
    let mut first = Caller::to(gateway.data).expect("a connection");
    first.send(&post);
    until("a look-up", || (!clerk.asked().is_empty()).then_some(()));
    let mut others: Vec<Caller> = (0..5)
        .map(|_| {
            let mut caller = Caller::to(gateway.data).expect("a connection");
            caller.send(&post);
            caller
        })
        .collect();
    until("five that wait", || {
        gateway
            .metrics()
            .contains("steadfast_waiters{kind=\"key\"} 5")
            .then_some(())
    });
    clerk.answer();
    let answer = first.answer().expect("an answer");
    assert_eq!((answer.status, answer.replayed()), (200, Some("true")));
    for other in &mut others {
        let given = other.answer().expect("an answer");
        assert_eq!(given.essence(), answer.essence());
    }
    assert_eq!((clerk.asked().len(), clerk.effects()), (1, 1));
}

#[test]
fn an_operator_who_is_faster_than_a_look_up_has_the_last_word() {
    let (folder, clerk, gateway) = set(&[Post::Lost], CALLERS);
    clerk.hold();
    let mut first = Caller::to(gateway.data).expect("a connection");
    first.send(&Request::order(KEY));
    until("a look-up", || (!clerk.asked().is_empty()).then_some(()));
    let id = record(&gateway)["id"].as_str().expect("an id").to_owned();
    let words = [
        "keys", "resolve", &id, "--status", "422", "--yes", "--config", "s.toml",
    ];
    let ran = folder.run(&words);
    assert_eq!(ran.code, 0, "{ran:?}");
    clerk.answer();
    let answer = first.answer().expect("an answer");
    assert_eq!(
        (answer.status, answer.replayed()),
        (422, Some("true")),
        "{answer:?}"
    );
    assert_eq!(ask(&gateway).status, 422);
    assert_eq!(clerk.effects(), 1);
}

// rule: the-stricter-way-out-holds-over-a-changed-configuration
#[test]
fn the_stricter_way_out_holds_when_the_configuration_changes_under_live_records() {
    let hold = "on_unknown = \"hold\"";
    let (folder, clerk, gateway) = set(&[Post::Lost, Post::Lost], CALLERS);
    clerk.says(Some(Look::Says(500, "")));
    assert_eq!(slug(&ask(&gateway)), unknown(504));
    gateway.kill();
    clerk.says(None);
    folder.write("s.toml", clerk.config(hold));
    let held = folder.gateway();
    assert_eq!(slug(&ask(&held)), unknown(409));
    assert_eq!(clerk.asked().len(), 1, "under hold nobody asks");
    held.kill();
    folder.write("s.toml", clerk.config(LOOKUP));
    let asks = folder.gateway();
    assert_eq!(ask(&asks).status, 200);
    asks.kill();

    let (folder, clerk, gateway) = set(&[Post::Lost], hold);
    assert_eq!(slug(&ask(&gateway)), unknown(504));
    gateway.kill();
    folder.write("s.toml", clerk.config(LOOKUP));
    let gateway = folder.gateway();
    assert_eq!(slug(&ask(&gateway)), unknown(409));
    assert_eq!((clerk.asked().len(), clerk.effects()), (0, 1));
}

#[test]
fn killed_while_it_asks_another_gateway_asks_once_the_turn_is_over() {
    let (folder, clerk, gateway) = set(&[Post::Lost], LOOKUP);
    clerk.hold();
    let mut first = Caller::to(gateway.data).expect("a connection");
    first.send(&Request::order(KEY));
    until("a look-up", || (!clerk.asked().is_empty()).then_some(()));
    gateway.kill();
    clerk.answer();
    let gateway = folder.gateway();
    let row = wait_for(&gateway, "completed");
    assert_eq!(row["effect"], "applied");
    assert_eq!((clerk.asked().len(), clerk.effects()), (2, 1));
    let id = row["id"].as_str().expect("an id");
    let shown = folder.run(&["keys", "show", id, "--config", "s.toml"]).out;
    let line = "looked up by the sweeper: status 200: found";
    assert!(
        shown.contains(line) && shown.contains("ago)") && !shown.contains('{'),
        "{shown}"
    );
}
