//! Two gateways, as two processes, on one file.

use std::sync::Barrier;

use super::KEY;
use super::killed::set;
use crate::stage::{Answer, Caller, Gateway, Honours, Request, until};

const POST: Request<'_> = Request::order(KEY);

/// What all of `callers`, who start together, are told; every second asks the other gateway.
fn told(gateways: &[Gateway; 2], callers: usize) -> Vec<Answer> {
    let together = Barrier::new(callers);
    let together = &together;
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..callers)
            .map(|caller| {
                let gateway = &gateways[caller % 2];
                scope.spawn(move || {
                    together.wait();
                    gateway.ask(&POST).expect("an answer")
                })
            })
            .collect();
        let answers = asking.into_iter().map(|asking| asking.join());
        answers.map(|answer| answer.expect("a caller")).collect()
    })
}

#[test]
fn forty_equal_requests_to_two_gateways_on_one_file_are_one_effect_and_forty_equal_answers() {
    let (folder, ledger) = set(Honours::Nothing, "", "");
    let gateways = [folder.gateway(), folder.gateway()];
    let answers = told(&gateways, 40);
    assert_eq!(ledger.effects(), 1);
    for answer in &answers {
        assert_eq!(answer.essence(), answers[0].essence());
        assert_eq!(answer.status, 201);
    }
    let replayed = |said| {
        answers
            .iter()
            .filter(|a| a.replayed() == Some(said))
            .count()
    };
    assert_eq!((replayed("false"), replayed("true")), (1, 39));
}

#[test]
fn a_waiter_at_one_gateway_is_woken_by_the_completion_at_the_other() {
    let (folder, ledger) = set(Honours::Nothing, "", "waiters_per_key = 1");
    let [one, other] = [folder.gateway(), folder.gateway()];
    ledger.hold();
    let mut first = Caller::to(one.data).expect("a connection");
    first.send(&POST);
    until("the effect", || (ledger.effects() == 1).then_some(()));
    // Of two duplicates one is refused at once, because the other has the one place.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (tell, other) = (tell.clone(), &other);
            scope.spawn(move || tell.send(other.ask(&POST)));
        }
        let refused = told.recv().expect("an end").expect("an answer");
        assert_eq!(refused.problem().as_deref(), Some("in-progress"));
        ledger.answer();
        let answer = first.answer().expect("an answer");
        assert_eq!(answer.status, 201, "{answer:?}");
        let woken = told.recv().expect("an end").expect("an answer");
        assert_eq!(woken.essence(), answer.essence());
        assert_eq!(woken.replayed(), Some("true"));
    });
    assert_eq!(ledger.effects(), 1);
}

#[test]
fn what_a_killed_gateway_left_is_ended_by_the_other() {
    let (folder, ledger) = set(Honours::Nothing, "", "lease = \"500ms\"");
    let [one, other] = [folder.gateway(), folder.gateway()];
    ledger.hold();
    let mut first = Caller::to(one.data).expect("a connection");
    first.send(&POST);
    until("the effect", || (ledger.effects() == 1).then_some(()));
    one.kill();
    assert!(first.answer().is_err());
    let answer = super::killed::asked_until_unknown(&other, "/orders");
    assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"));
    assert_eq!(ledger.effects(), 1);
}
