//! The queue from the command line: what it keeps, running and dropping it, and an outbox for
//! scripts.

use serde_json::Value;

use super::{KEY, accepted, ask, folder, key};
use crate::stage::{
    Caller, Down, Folder, Gateway, Honours, Ledger, Request, Scripted, Step, until,
};

const STORE: [&str; 2] = ["--store", "sqlite:records.db"];
const OUTBOX: [&str; 2] = ["--store", "sqlite:outbox.db"];

fn with<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [words, more].concat()
}

fn caller(gateway: &Gateway) -> Caller {
    Caller::to(gateway.data).expect("a connection")
}

/// The id in the address of an operation.
fn id(address: &str) -> &str {
    address.rsplit('/').next().expect("an id")
}

// rule: the-queue-is-seen-with-its-next-time-and-last-reason
#[test]
fn what_waits_is_listed_with_its_next_time_and_last_reason_and_dropped_only_before_it_is_sent() {
    let ledger = Ledger::open(Honours::Nothing);
    let folder = folder(ledger.address(), "", "defer = \"always\"");
    ledger.refuse(3600);
    ledger.hold();
    let gateway = folder.gateway();
    let mut caller = caller(&gateway);
    let address = accepted(&ask(&mut caller, Request::order(KEY)));
    let waits = until("a run that came back", || {
        let rows = folder.json(&with(&["deferred", "list", "--json"], &STORE));
        (rows[0]["runs"] == 1 && rows[0]["state"] == "deferred").then(|| rows[0].clone())
    });
    assert_eq!(waits["id"], id(&address));
    assert_eq!(waits["reason"], "503");
    let next = waits["next"].as_str().expect("a date");
    assert!(next > waits["created_at"].as_str().expect("a date"));
    let text = folder.run(&with(&["deferred", "list"], &STORE));
    assert!(
        text.out.contains(next) && text.out.contains("503"),
        "{text:?}"
    );
    let admin = Caller::to(gateway.admin).expect("the admin address");
    let shown = admin
        .ask(&Request::get("/api/deferred"))
        .expect("an answer");
    let shown: Value = serde_json::from_slice(&shown.body).expect("JSON");
    assert_eq!(shown[0]["id"], waits["id"]);
    let show = folder.json(&with(&["deferred", "show", id(&address), "--json"], &STORE));
    assert_eq!(show["history"][0]["event"], "deferred");

    let unasked = folder.run(&with(&["deferred", "drop", id(&address)], &STORE));
    assert_eq!(unasked.code, 1, "{unasked:?}");
    let dropped = folder.run(&with(&["deferred", "drop", id(&address), "--yes"], &STORE));
    assert_eq!(dropped.code, 0, "{dropped:?}");
    let gone = ask(&mut caller, Request::order(KEY));
    assert_eq!(
        (gone.status, gone.problem().as_deref()),
        (410, Some("dropped"))
    );

    let running = accepted(&ask(&mut caller, Request::order(&key(1))));
    until("a run", || (ledger.effects() == 1).then_some(()));
    let refused = folder.run(&with(&["deferred", "drop", id(&running), "--yes"], &STORE));
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("dispatched"), "{refused:?}");
    ledger.answer();
    super::at_rest(&gateway, &[running]);
    assert_eq!(ledger.effects(), 1);
}

// rule: an-outbox-sends-each-once
#[test]
fn a_script_hands_a_request_over_and_a_later_run_sends_it_once_with_a_credential_of_its_own() {
    let down = Down::new();
    let folder = Folder::new();
    let url = format!("http://{}/orders?a=1", down.address());
    let call = with(
        &["call", "POST", &url, "-d", "a=1", "--key", KEY, "--defer"],
        &OUTBOX,
    );
    let call = with(&call, &["-H", "Authorization: Bearer s3cret-of-the-caller"]);
    let handed = folder.run(&call);
    assert_eq!(handed.code, 9, "{handed:?}");
    let id = handed.out.trim().to_owned();
    assert!(handed.err.contains("not kept: authorization"), "{handed:?}");
    let again = folder.run(&call);
    assert_eq!((again.code, again.out.trim()), (9, &*id), "{again:?}");
    let other = with(
        &["call", "POST", &url, "-d", "a=2", "--key", KEY, "--defer"],
        &OUTBOX,
    );
    assert_eq!(folder.run(&other).code, 4, "another request under the key");

    let early = folder.run(&with(&["deferred", "run"], &OUTBOX));
    assert_eq!(early.code, 9, "{early:?}");
    let ledger = down.up(Honours::Nothing);
    let own = [
        "deferred",
        "run",
        &id,
        "-H",
        "Authorization: Bearer of-the-run",
        "--json",
    ];
    let ran = folder.json(&with(&own, &OUTBOX));
    assert_eq!(
        (&ran[0]["state"], &ran[0]["status"]),
        (&"completed".into(), &201.into())
    );
    assert_eq!(ledger.credentials(), ["Bearer of-the-run"]);
    let nothing = folder.run(&with(&["deferred", "run"], &OUTBOX));
    assert_eq!((nothing.code, nothing.out.as_str()), (0, ""), "{nothing:?}");
    let known = folder.run(&call);
    assert_eq!(
        (known.code, known.out.as_str()),
        (0, "{\"id\":1}"),
        "{known:?}"
    );
    assert_eq!(ledger.effects(), 1);
    for name in folder.names() {
        let bytes = folder.read(&name);
        let secret = b"s3cret-of-the-caller";
        assert!(
            !bytes.windows(secret.len()).any(|part| part == secret),
            "{name}"
        );
    }
}

#[test]
fn a_gateway_leaves_an_outbox_alone_and_a_run_by_hand_needs_the_gateway_s_configuration() {
    let down = Down::new();
    let folder = folder(down.address(), "", "defer = \"always\"");
    let url = format!("http://{}/orders", down.address());
    for number in 0..3 {
        let key = key(number);
        let call = with(&["call", "POST", &url, "--key", &key, "--defer"], &STORE);
        assert_eq!(folder.run(&call).code, 9);
    }
    let gateway = folder.gateway();
    let address = accepted(&ask(&mut caller(&gateway), Request::order(KEY)));
    gateway.kill();
    let ledger = down.up(Honours::Nothing);
    let by_hand = with(&["deferred", "run", id(&address)], &STORE);
    let ran = folder.run(&by_hand);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("--config"), "{ran:?}");
    let gateway = folder.gateway();
    super::at_rest(&gateway, &[address]);
    assert_eq!(ledger.effects(), 1, "the gateway's own alone");
    let all = folder.run(&["deferred", "run", "--config", "s.toml"]);
    assert_eq!(all.code, 0, "{all:?}");
    assert_eq!(ledger.effects(), 4);
    assert_eq!(ledger.most_posts_of_a_key(), 1);
}

// rule: a-look-up-after-an-unknown-end
#[test]
fn after_an_unknown_end_a_look_up_tells_done_not_executed_or_nothing() {
    let folder = Folder::new();
    let table = [(200, 0), (404, 6), (500, 7)];
    for (status, code) in table {
        let service = Scripted::open([Step::Resets]);
        let looked = Scripted::open([Step::status(status, "")]);
        let (url, lookup) = (service.url("/orders"), looked.url("/by/{key}"));
        let call = ["call", "POST", &url, "--key", KEY, "--lookup", &lookup];
        let ran = folder.run(&with(&call, &["--max-attempts", "1"]));
        assert_eq!(ran.code, code, "{status}: {ran:?}");
        assert_eq!(ran.out == "{}", code == 0, "{ran:?}");
        let asked = format!("GET /by/{KEY} HTTP/1.1");
        let seen = looked.seen();
        assert!(seen.iter().all(|head| head.starts_with(&asked)), "{seen:?}");
        assert_eq!(
            seen.len(),
            if status == 404 { 2 } else { 1 },
            "absent twice"
        );
    }
}
