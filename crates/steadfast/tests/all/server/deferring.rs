//! The queue over a store that fails at each of its steps, and around breakers and callers.

use std::sync::Arc;

use steadfast::core::attempt::Failure;
use steadfast::core::deferral::{Defer, Deferral};
use steadfast::core::key::Operation;
use steadfast::event::RouteId;
use steadfast::server::{Routed, Routes, hand_over, queue_on, run_due};
use tokio::task::JoinHandle;

use super::faults::{Act, Fault, unavailable};
use super::script::{Before, Script, Turn};
use super::*;

/// One route for everything.
#[derive(Clone)]
struct One {
    script: Script,
    policy: Arc<RoutePolicy>,
}

impl Routes for One {
    type Execute = Script;

    fn of(&self, _: &Operation) -> Option<Routed<Script>> {
        Some(Routed {
            route: RouteId::default(),
            policy: Arc::clone(&self.policy),
            execute: self.script.clone(),
        })
    }
}

async fn deferring(defer: Defer) -> World {
    let mut world = World::new().await;
    world.policy.defer = defer;
    world
}

impl World {
    fn one(&self) -> One {
        One {
            script: self.script.clone(),
            policy: Arc::new(self.policy.clone()),
        }
    }

    fn queue(&self) -> JoinHandle<()> {
        tokio::spawn(queue_on(self.server.clone(), self.one()))
    }
}

fn name(fault: &Fault) -> &'static str {
    match fault {
        Fault::Fails(_) => "fails",
        Fault::LosesReply => "loses its reply",
        Fault::LandsLater => "lands later",
        Fault::Slow(_) => "slow",
        Fault::Hangs => "hangs",
        Fault::HangsDone => "hangs done",
    }
}

// rule: a-store-that-fails-at-any-step-of-the-queue
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_any_step_of_the_queue_makes_one_effect_and_loses_nothing() {
    let faults = [
        Fault::Fails(unavailable()),
        Fault::LosesReply,
        Fault::LandsLater,
        Fault::Hangs,
        Fault::HangsDone,
    ];
    for act in [Act::Insert, Act::TakeOver, Act::Mark, Act::Settle, Act::Get] {
        for fault in faults.clone() {
            let world = deferring(Defer::Always).await;
            let queue = world.queue();
            world.store.fault(act, fault.clone());
            let first = world.send(charge(50)).await;
            if act == Act::Insert {
                // It may be in the queue, and the same key finds out.
                first.is_problem(503, "store-unavailable", "unknown", true);
                world.store.land_some().await;
            } else {
                assert_eq!(first.status, 202, "{act:?}");
            }
            pass(2 * SECOND).await;
            world.store.land_some().await;
            let again = world.send(charge(50)).await;
            assert!(
                [201, 202].contains(&again.status.as_u16()),
                "{act:?}: {again:?}"
            );
            pass(60 * SECOND).await;
            let state = world.state().await;
            assert_eq!(state, State::Completed, "{act:?} {}", name(&fault));
            assert!(world.store.is_spent(), "{act:?}: the fault was met");
            assert_eq!(world.script.effects(), 1, "{act:?}");
            queue.abort();
        }
    }
}

// rule: deferral-on-the-way-into-a-store-that-fails
#[tokio::test(start_paused = true)]
async fn a_caller_whose_request_may_be_in_the_queue_is_not_told_that_nothing_will_happen() {
    for fault in [Fault::LosesReply, Fault::Hangs, Fault::HangsDone] {
        let mut world = deferring(Defer::Allowed).await;
        world.script.repeating();
        world.script.unconnected();
        for _ in 0..3 {
            world.script.connecting(Before::Fails(Failure::Connect));
        }
        world.store.fault(Act::Settle, fault);
        let seen = world.send(charge(50)).await;
        seen.is_problem(503, "store-unavailable", "unknown", true);
        world.until(State::Deferred).await;
        let queue = world.queue();
        world.until(State::Completed).await;
        assert_eq!(world.script.effects(), 1);
        queue.abort();
    }
}

// rule: a-caller-who-left-is-not-deferred
#[tokio::test(start_paused = true)]
async fn what_a_caller_was_told_is_not_sent_is_not_put_into_the_queue_behind_its_back() {
    let world = deferring(Defer::Allowed).await;
    world.script.unconnected();
    world.script.connecting(Before::Never);
    let seen = world.send(charge(50).within(2 * SECOND)).await;
    pass(60 * SECOND).await;
    match seen.status.as_u16() {
        202 => assert_eq!(world.state().await, State::Deferred),
        _ => {
            seen.is_problem(504, "deadline-exceeded", "none", true);
            assert!(world.rows().await.is_empty());
        }
    }
    assert_eq!(world.script.effects(), 0);
}

// rule: an-open-breaker-puts-off-and-is-no-run
#[tokio::test(start_paused = true)]
async fn an_open_breaker_puts_off_what_waits_and_that_counts_as_no_run() {
    let mut world = deferring(Defer::Always).await;
    world.script.repeating();
    let upstream = steadfast::client::SharedUpstream::new(
        world.policy.budget,
        steadfast::core::breaker::BreakerPolicy {
            min_requests: 1,
            ..world.policy.breaker
        },
    );
    world.script.behind(&upstream);
    world.script.then(Turn::Answer(503));
    assert_eq!(world.send(charge(50)).await.status, 202);
    assert_eq!(world.send(charge(50).under(OTHER_KEY)).await.status, 202);
    let queue = world.queue();
    pass(3 * SECOND).await;
    let steps = |rows: &[Record]| rows.iter().map(|r| r.standing.pending.steps).sum::<u32>();
    assert!(steps(&world.rows().await) <= 2, "the breaker is open");
    pass(60 * SECOND).await;
    let states: Vec<State> = world
        .rows()
        .await
        .iter()
        .map(|r| r.standing.state)
        .collect();
    assert_eq!(states, [State::Completed; 2]);
    queue.abort();
}

#[tokio::test(start_paused = true)]
async fn what_is_handed_over_is_sent_once_by_a_run_and_by_no_other() {
    let world = World::new().await;
    let answer = hand_over(&world.server, world.call(charge(50)), None).await;
    assert_eq!(answer.status(), 202);
    let mut ran = Vec::new();
    let told = run_due(&world.server, world.one(), |end| ran.push(end.clone()));
    told.await.expect("a store that answers");
    assert_eq!(ran.len(), 1);
    assert_eq!((ran[0].state, ran[0].status), (State::Completed, Some(201)));
    run_due(&world.server, world.one(), |_| panic!("nothing is due"))
        .await
        .expect("a store that answers");
    assert_eq!(world.script.effects(), 1);
}

// rule: what-cannot-be-sent-here-starves-nobody
#[tokio::test(start_paused = true)]
async fn what_has_no_route_here_does_not_keep_others_from_being_sent() {
    let world = World::new().await;
    for number in 0..600 {
        let mut call = world.call(charge(50));
        call.key = Key::random(number + (1 << 100));
        let to = Some("http://elsewhere".to_owned());
        assert_eq!(hand_over(&world.server, call, to).await.status(), 202);
    }
    pass(SECOND).await;
    let last = hand_over(&world.server, world.call(charge(50)), None).await;
    assert_eq!(last.status(), 202);
    let queue = world.queue();
    world.script.reached(1).await;
    pass(SECOND).await;
    let rows = world.rows().await;
    let in_state = |state| {
        rows.iter()
            .filter(|row| row.standing.state == state)
            .count()
    };
    assert_eq!(in_state(State::Completed), 1);
    assert_eq!(
        in_state(State::Deferred),
        600,
        "left to whoever put it there"
    );
    queue.abort();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_stops_what_runs_as_unknown_and_leaves_what_waits() {
    let mut world = deferring(Defer::Always).await;
    let one_at_a_time = Deferral {
        concurrency: 1,
        ..Deferral::default()
    };
    world.policy.deferral = Arc::new(one_at_a_time);
    world.script.then(Turn::Never);
    let queue = world.queue();
    assert_eq!(world.send(charge(50)).await.status, 202);
    world.script.reached(1).await;
    assert_eq!(world.send(charge(50).under(OTHER_KEY)).await.status, 202);
    assert_eq!(world.server.drain(SECOND).await, 1);
    end(queue).await;
    let mut rows = world.rows().await;
    rows.sort_by_key(|row| row.created_at);
    let unknown = &rows[0].standing;
    assert_eq!(
        (unknown.state, &*unknown.reason),
        (State::Unknown, "shutdown")
    );
    assert_eq!(rows[1].standing.state, State::Deferred);
    assert_eq!(world.script.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn where_it_is_allowed_a_request_that_meets_an_open_breaker_waits_in_the_queue() {
    let mut world = deferring(Defer::Allowed).await;
    let breaker = steadfast::core::breaker::BreakerPolicy {
        min_requests: 1,
        ..world.policy.breaker
    };
    let upstream = steadfast::client::SharedUpstream::new(world.policy.budget, breaker);
    world.script.behind(&upstream);
    world.script.then(Turn::Answer(500));
    assert_eq!(world.send(charge(50)).await.status, 500);
    let seen = world.send(charge(50).under(OTHER_KEY)).await;
    assert_eq!(seen.status, 202, "{seen:?}");
    let queue = world.queue();
    pass(60 * SECOND).await;
    let again = world.send(charge(50).under(OTHER_KEY)).await;
    assert_eq!(again.status, 201);
    queue.abort();
}
