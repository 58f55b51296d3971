//! Reports about those who wait for another's work, and about the moment in which it ends.

use std::future::poll_fn;
use std::task::Poll;

use steadfast::clock;
use steadfast::core::policy::OnUnknown;

use crate::server::script::Turn;
use crate::server::{World, charge, end, idle};

// moka-rs/moka#240: who came first was not polled any more, so that nobody behind him got on.
// PureWhiteWu/async_singleflight#12, golang/go#22724: who came first left, and took the work with
// him.
#[tokio::test(start_paused = true)]
async fn a_first_caller_who_is_not_polled_any_more_holds_nobody_up() {
    let world = World::new().await;
    let gate = world.script.gated(Turn::Answer(201));
    let mut first = Box::pin(world.respond(charge(50)));
    while world.script.effects() == 0 {
        let pending = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending()));
        assert!(pending.await);
        idle().await;
    }
    // From here on the first is alive and nobody polls it.
    let waiters: Vec<_> = (0..3).map(|_| world.spawn(charge(50))).collect();
    idle().await;
    gate.open();
    for waiter in waiters {
        assert_eq!(end(waiter).await.told(), (201, Some("true"), None));
    }
    assert_eq!(first.await.status(), 201);
    assert_eq!(world.script.effects(), 1);
}

// varnishcache/varnish-cache#2978: a queue of waiters went out one after the other, as each was
// served.
// nginx/nginx#1189: who had waited looked again only after half a second.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_work_wakes_all_waiters_at_that_moment() {
    for status in [201, 429, 500] {
        let world = World::new().await;
        let gate = world.script.gated(Turn::Answer(status));
        let first = world.spawn(charge(50));
        world.script.reached(1).await;
        let waiters: Vec<_> = (0..200).map(|_| world.spawn(charge(50))).collect();
        idle().await;
        let ended = clock::mono_now();
        gate.open();
        for waiter in waiters.into_iter().chain([first]) {
            assert_eq!(end(waiter).await.status, status);
        }
        // The clock stands still here unless somebody waits for it.
        assert_eq!(clock::mono_now(), ended);
        assert_eq!(world.script.effects(), 1);
    }
}

// huggingface/xet-core#449: who joined just as the result was given out was never woken.
// golang/go#55343: the count of those who joined and the end of the work were not one decision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_joins_in_the_moment_of_the_end_is_given_it_all_the_same() {
    for round in 0..200 {
        let world = World::new().await;
        let gate = world.script.gated(Turn::Answer(201));
        let first = world.spawn(charge(50));
        world.script.reached(1).await;
        let opens = tokio::spawn(async move {
            for _ in 0..round % 16 {
                tokio::task::yield_now().await;
            }
            gate.open();
        });
        let joining: Vec<_> = (0..3).map(|_| world.spawn(charge(50))).collect();
        for ask in joining {
            assert_eq!(end(ask).await.told(), (201, Some("true"), None));
        }
        end(opens).await;
        assert_eq!(end(first).await.told(), (201, Some("false"), None));
        assert_eq!(world.script.effects(), 1);
    }
}

// golang/go#41133, golang/go#52557, moka-rs/moka#59: whoever waited for work that panicked waited
// for ever, and so did the next.
// can1357/oh-my-pi#9392: when the first had failed, all who waited ran at once.
#[tokio::test(start_paused = true)]
async fn a_panic_at_work_is_told_to_all_who_wait_and_at_most_one_goes_again() {
    for way_out in [OnUnknown::Hold, OnUnknown::Repeat] {
        let world = World::with(|rules| rules.on_unknown = way_out).await;
        let gate = world.script.gated(Turn::Panics);
        let first = world.spawn(charge(50));
        world.script.reached(1).await;
        let waiters: Vec<_> = (0..20).map(|_| world.spawn(charge(50))).collect();
        idle().await;
        gate.open();
        assert_eq!(end(first).await.problem().1, "outcome-unknown");
        let mut executing = 0;
        for waiter in waiters {
            let seen = end(waiter).await;
            match way_out {
                OnUnknown::Repeat => assert_eq!(seen.bytes(), b"{\"effect\":2}"),
                _ => seen.is_problem(409, "outcome-unknown", "unknown", false),
            }
            executing += usize::from(seen.header("idempotent-replayed") == Some("false"));
        }
        let again = usize::from(way_out == OnUnknown::Repeat);
        assert_eq!((executing, world.script.effects()), (again, 1 + again));
    }
}

// veryfront/veryfront-code#4188: places of those who had waited and left were never free again.
#[tokio::test(start_paused = true)]
async fn who_leaves_while_waiting_gives_the_place_back() {
    let mut world = World::new().await;
    world.policy.idempotency.waiters_per_key = 2;
    let gate = world.script.gated(Turn::Answer(201));
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    for _ in 0..20 {
        let leaving: Vec<_> = (0..2).map(|_| world.spawn(charge(50))).collect();
        idle().await;
        assert_eq!(world.send(charge(50)).await.problem().1, "in-progress");
        for waiter in leaving {
            waiter.abort();
        }
        idle().await;
    }
    let last = world.spawn(charge(50));
    idle().await;
    gate.open();
    assert_eq!(end(last).await.told(), (201, Some("true"), None));
    assert_eq!(end(first).await.status, 201);
}
