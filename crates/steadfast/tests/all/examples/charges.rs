//! `examples/any_tower_service.rs`: the layer over a service that loses its answers.

use std::net::Shutdown;

use super::program::{Answer, Program, Request, until};
use crate::server::KEY;

fn start() -> Program {
    Program::start("any_tower_service", None)
}

fn charges(program: &Program) -> String {
    program.ask(&Request::get("/")).body
}

#[test]
fn a_charge_sent_twice_under_one_key_is_one_charge() {
    let program = start();
    let charge = Request::post("/charges", KEY, "{}");
    let (first, second) = (program.ask(&charge), program.ask(&charge));
    assert_eq!((first.status, first.replayed()), (200, Some("false")));
    assert_eq!((second.status, second.replayed()), (200, Some("true")));
    assert_eq!(first.body, second.body);
    assert_eq!(charges(&program), "1 charges\n");
}

#[test]
fn a_charge_whose_answer_was_lost_is_unknown_and_never_charged_again() {
    for path in ["/charges/lost", "/charges/panic"] {
        let program = start();
        let charge = Request::post(path, KEY, "{}");
        for status in [504, 409] {
            let answer = program.ask(&charge);
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            assert_eq!(answer.problem(), "outcome-unknown", "{path}");
            assert_eq!(answer.field("steadfast-effect"), Some("unknown"), "{path}");
        }
        assert_eq!(charges(&program), "1 charges\n", "{path}");
    }
}

#[test]
fn the_charge_of_a_caller_who_hung_up_ends_and_is_replayed() {
    let program = start();
    let charge = Request::post("/charges/slow", KEY, "{}");
    let leaving = program.begin(&charge);
    until("the charge", || charges(&program) == "1 charges\n");
    leaving.shutdown(Shutdown::Both).expect("it hangs up");
    let again = program.ask(&charge);
    assert_eq!((again.status, again.replayed()), (200, Some("true")));
    assert!(again.body.starts_with("charge 1, fence "), "{again:?}");
    assert_eq!(charges(&program), "1 charges\n");
}

#[test]
fn a_charge_at_work_ends_before_a_drained_end() {
    let program = start();
    let slow = program.begin(&Request::post("/charges/slow", KEY, "{}"));
    until("the charge", || charges(&program) == "1 charges\n");
    program.terminate();
    let answer = Answer::read(slow);
    assert_eq!((answer.status, answer.replayed()), (200, Some("false")));
    let (status, _) = program.ended();
    assert!(status.success(), "{status}");
}
