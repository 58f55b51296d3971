//! `examples/axum_orders.rs`: an axum service, its layer and its extractor.

use serde_json::Value;

use super::program::{Answer, Program, Request};
use crate::server::{KEY, OTHER_KEY};

const BOOK: &str = r#"{"item":"book"}"#;

fn start(folder: &tempfile::TempDir) -> Program {
    Program::start("axum_orders", Some(folder.path()))
}

fn orders(program: &Program) -> Vec<Value> {
    let answer = program.ask(&Request::get("/orders"));
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).expect("a list")
}

// rule: an-axum-handler-runs-once-per-key
#[test]
fn an_order_sent_twice_under_one_key_is_one_order_with_one_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = start(&folder);
    let order = Request::post("/orders", KEY, BOOK);
    let (first, second) = (program.ask(&order), program.ask(&order));
    assert_eq!((first.status, first.replayed()), (201, Some("false")));
    assert_eq!((second.status, second.replayed()), (201, Some("true")));
    assert_eq!(first.body, second.body);

    let other = program.ask(&Request::post("/orders", KEY, r#"{"item":"pen"}"#));
    assert_eq!(
        (other.status, other.problem().as_str()),
        (422, "key-reused")
    );
    let keyless = program.ask(&Request { key: None, ..order });
    assert_eq!(keyless.status, 400);
    assert_eq!(keyless.problem(), "key-missing");

    let placed = orders(&program);
    assert_eq!(placed.len(), 1);
    assert_eq!(placed[0]["item"], "book");
    assert!(placed[0]["fence"].as_i64() > Some(0), "{placed:?}");
}

#[test]
fn two_callers_with_one_key_are_two_orders() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = start(&folder);
    let order = Request::post("/orders", KEY, BOOK);
    for caller in ["alice", "bob"] {
        let answer = program.ask(&Request { caller, ..order });
        assert_eq!((answer.status, answer.replayed()), (201, Some("false")));
    }
    let again = Request::post("/orders", OTHER_KEY, BOOK);
    assert_eq!(
        program.ask(&again).status,
        201,
        "another key is another order"
    );
    assert_eq!(orders(&program).len(), 3);
}

#[test]
fn forty_at_once_are_one_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = start(&folder);
    let order = Request::post("/orders", KEY, BOOK);
    let sent: Vec<_> = (0..40).map(|_| program.begin(&order)).collect();
    let answers: Vec<_> = sent.into_iter().map(Answer::read).collect();
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (201, &answers[0].body));
    }
    let executed = answers.iter().filter(|a| a.replayed() == Some("false"));
    assert_eq!(executed.count(), 1);
    assert_eq!(orders(&program).len(), 1);
}

#[test]
fn after_kill_9_and_a_restart_the_order_is_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let order = Request::post("/orders", KEY, BOOK);
    let program = start(&folder);
    let first = program.ask(&order);
    program.kill();
    let program = start(&folder);
    let second = program.ask(&order);
    assert_eq!((second.status, second.replayed()), (201, Some("true")));
    assert_eq!(first.body, second.body);
    assert_eq!(orders(&program).len(), 1);
}

#[test]
fn sigterm_ends_it_drained_with_no_order_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = start(&folder);
    assert_eq!(
        program.ask(&Request::post("/orders", KEY, BOOK)).status,
        201
    );
    program.terminate();
    let (status, said) = program.ended();
    assert!(status.success(), "{status}");
    assert!(
        said.contains("drained; orders stopped with an unknown outcome: 0"),
        "{said}"
    );
}
