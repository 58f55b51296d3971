//! One operation at a time: when it goes into the queue, when it is sent, and with what.

use super::{KEY, accepted, ask, at_rest, config, folder, key, state};
use crate::stage::{Caller, Config, Down, Folder, Gateway, Honours, Ledger, Request, until};

fn caller(gateway: &Gateway) -> Caller {
    Caller::to(gateway.data).expect("a connection")
}

// rule: deferral-accepts-with-an-address
#[test]
fn a_deferred_request_gets_202_with_an_address_a_duplicate_the_same_and_another_body_422() {
    let down = Down::new();
    let folder = folder(down.address(), "", "defer = \"always\"");
    let gateway = folder.gateway();
    let mut caller = caller(&gateway);
    let first = ask(&mut caller, Request::order(KEY));
    let address = accepted(&first);
    let again = ask(&mut caller, Request::order(KEY));
    assert_eq!(
        (again.status, again.field("location")),
        (202, Some(&*address))
    );
    let other = ask(&mut caller, Request::order(KEY).saying("{\"amount\":2}"));
    assert_eq!(other.problem().as_deref(), Some("key-reused"));
    let early = ask(&mut caller, Request::get(&format!("{address}/response")));
    assert_eq!(early.problem().as_deref(), Some("in-progress"));
    let ledger = down.up(Honours::Nothing);
    at_rest(&gateway, std::slice::from_ref(&address));
    let replay = ask(&mut caller, Request::order(KEY));
    assert_eq!((replay.status, replay.replayed()), (201, Some("true")));
    assert_eq!(ledger.effects(), 1);
    let metrics = gateway.metrics();
    assert!(metrics.contains("outcome=\"deferred\"} 2"), "{metrics}");
}

// rule: deferral-allowed-defers-what-does-not-fit
#[test]
fn where_it_is_allowed_an_unreachable_service_and_a_long_retry_after_put_a_request_off() {
    let down = Down::new();
    let more = "defer = \"allowed\"\nretry = { base = \"10ms\" }\ndeadline = \"2s\"";
    let folder = folder(down.address(), "", more);
    let gateway = folder.gateway();
    let mut caller = caller(&gateway);
    let unreachable = accepted(&ask(&mut caller, Request::order(KEY)));
    let ledger = down.up(Honours::Nothing);
    at_rest(&gateway, &[unreachable]);
    assert_eq!(ledger.effects(), 1);
    ledger.refuse(3);
    let began = steadfast::clock::mono_now();
    let refused = accepted(&ask(&mut caller, Request::order(&key(1))));
    at_rest(&gateway, &[refused]);
    let took = steadfast::clock::mono_now().since(began);
    assert!(took.as_secs_f64() >= 3.0, "came back after {took:?}");
    let reached = ask(&mut caller, Request::order(&key(2)));
    assert_eq!(reached.status, 201, "what fits is answered at once");
    assert_eq!(ledger.effects(), 3);
}

#[test]
fn a_caller_who_would_rather_not_wait_is_sent_to_the_status_address_where_it_is_allowed() {
    let ledger = Ledger::open(Honours::Nothing);
    let folder = folder(ledger.address(), "", "defer = \"allowed\"");
    let gateway = folder.gateway();
    let mut caller = caller(&gateway);
    caller.say(format!(
        "POST /orders HTTP/1.1\r\nhost: h\r\nauthorization: Bearer a\r\n\
         prefer: respond-async\r\nidempotency-key: {KEY}\r\ncontent-length: 0\r\n\r\n"
    ));
    let answer = caller.answer().expect("an answer");
    assert_eq!(answer.field("preference-applied"), Some("respond-async"));
    at_rest(&gateway, &[accepted(&answer)]);
    assert_eq!(ledger.effects(), 1);
}

// rule: deferral-obeys-retry-after-in-the-queue
#[test]
fn a_run_that_is_told_to_come_back_later_does_and_a_concurrency_is_kept() {
    let ledger = Ledger::open(Honours::Nothing);
    let folder = Folder::new();
    let text = config(ledger.address(), "", "defer = \"always\"");
    folder.write("s.toml", text.replace("base =", "concurrency = 2, base ="));
    ledger.refuse(2);
    ledger.hold();
    let gateway = folder.gateway();
    let mut caller = caller(&gateway);
    let began = steadfast::clock::mono_now();
    let first = accepted(&ask(&mut caller, Request::order(KEY)));
    until("a run that came back", || {
        let row = gateway.records().remove(0);
        (row["attempts"] == 1 && row["state"] == "deferred").then_some(())
    });
    let mut addresses = vec![first];
    for number in 0..8 {
        addresses.push(accepted(&ask(&mut caller, Request::order(&key(number)))));
    }
    until("as many as may run", || {
        (ledger.most_at_work() == 2).then_some(())
    });
    ledger.answer();
    at_rest(&gateway, &addresses);
    assert_eq!((ledger.effects(), ledger.most_at_work()), (9, 2));
    let took = steadfast::clock::mono_now().since(began);
    assert!(took.as_secs_f64() >= 2.0, "came back after {took:?}");
}

// rule: deferral-expires-into-a-final-answer
#[test]
fn what_was_never_executed_is_given_up_after_max_age_and_every_duplicate_hears_of_it() {
    let down = Down::new();
    let folder = Folder::new();
    let text = config(down.address(), "", "defer = \"always\"");
    folder.write(
        "s.toml",
        text.replace("base =", "max_age = \"300ms\", base ="),
    );
    let gateway = folder.gateway();
    let mut caller = caller(&gateway);
    let address = accepted(&ask(&mut caller, Request::order(KEY)));
    at_rest(&gateway, std::slice::from_ref(&address));
    for request in [
        Request::order(KEY),
        Request::get(&format!("{address}/response")),
    ] {
        let answer = ask(&mut caller, request);
        assert_eq!(answer.status, 504);
        assert_eq!(answer.problem().as_deref(), Some("deferral-expired"));
        assert_eq!(answer.field("steadfast-effect"), Some("none"));
        assert_eq!(answer.replayed(), None, "problems carry no such field");
    }
    let ledger = down.up(Honours::Nothing);
    assert_eq!(state(&mut caller, &address), "completed");
    assert_eq!(ledger.effects(), 0);
}

// rule: deferral-sends-its-own-credential-and-stores-none
#[test]
fn runs_carry_the_queue_s_own_credential_and_no_caller_s_is_in_the_store() {
    let ledger = Ledger::open(Honours::Nothing);
    let folder = Folder::new();
    let text = config(ledger.address(), "", "defer = \"always\"");
    let own = "headers = { Authorization = { file = \"own\" } }, base =";
    folder.write("s.toml", text.replace("base =", own));
    folder.write("own", "Bearer queue-own-credential\n");
    ledger.hold();
    let gateway = folder.gateway();
    let mut caller = caller(&gateway);
    caller.say(format!(
        "POST /orders HTTP/1.1\r\nhost: h\r\nauthorization: Bearer caller-s3cret\r\n\
         cookie: sid=caller-s3cret\r\nidempotency-key: {KEY}\r\ncontent-length: 0\r\n\r\n"
    ));
    assert_eq!(caller.answer().expect("an answer").status, 202);
    until("the run", || (ledger.effects() == 1).then_some(()));
    assert_eq!(ledger.credentials(), ["Bearer queue-own-credential"]);
    for name in folder.names() {
        if name.starts_with("records.db") {
            let bytes = folder.read(&name);
            for secret in [&b"caller-s3cret"[..], b"queue-own-credential"] {
                let found = bytes.windows(secret.len()).any(|part| part == secret);
                assert!(!found, "a credential is in {name}");
            }
        }
    }
    let shown = folder.run(&["config", "show", "--config", "s.toml"]);
    assert!(!shown.out.contains("queue-own-credential"), "{}", shown.out);
    ledger.answer();
}

#[test]
fn a_drain_leaves_what_waits_and_what_ran_at_its_end_is_unknown() {
    let ledger = Ledger::open(Honours::Nothing);
    let folder = Folder::new();
    let text = config(ledger.address(), "", "defer = \"always\"");
    let text = text.replace("base =", "concurrency = 1, base =");
    folder.write("s.toml", format!("drain = \"1s\"\n{text}"));
    ledger.hold();
    let gateway = folder.gateway();
    let mut caller = caller(&gateway);
    for number in 0..3 {
        accepted(&ask(&mut caller, Request::order(&key(number))));
    }
    until("a run", || (ledger.effects() == 1).then_some(()));
    drop(caller);
    gateway.drained();
    ledger.answer();
    let rows = folder.json(&["keys", "list", "--store", "sqlite:records.db", "--json"]);
    let rows = rows.as_array().expect("a list");
    let in_state = |state| rows.iter().filter(|row| row["state"] == state).count();
    assert_eq!(
        (in_state("unknown"), in_state("deferred")),
        (1, 2),
        "{rows:?}"
    );
    assert_eq!(ledger.effects(), 1);
}

#[test]
fn a_gateway_that_defers_nothing_answers_as_ever() {
    let ledger = Ledger::open(Honours::Nothing);
    let folder = Folder::new();
    let config = Config {
        to: &ledger,
        top: "",
        idempotency: "",
    };
    folder.write("s.toml", config.text());
    let gateway = folder.gateway();
    let answer = gateway.ask(&Request::order(KEY)).expect("an answer");
    assert_eq!(answer.status, 201);
}
