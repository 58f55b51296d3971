//! What time alone brings about.

use steadfast::server::sweep;

use super::faults::{Act, Fault, unavailable};
use super::script::{Before, Turn};
use super::secrecy::Log;
use super::*;

fn key(n: usize) -> &'static str {
    Box::leak(format!("8e03978e-40d5-43dd-bc93-{n:012}").into_boxed_str())
}

// rule: expiry-goes-in-small-batches
#[tokio::test(start_paused = true)]
async fn expiry_takes_64_rows_a_commit_at_most_until_all_are_gone() {
    let world = World::new().await;
    for n in 0..150 {
        world.send(charge(50).under(key(n))).await;
    }
    let swept = sweep(&world.server).await.unwrap();
    assert_eq!((swept.expired, swept.more), (0, false));
    pass(24 * 3600 * SECOND).await;
    let commits = world.store.acts(Act::Expire);
    let swept = sweep(&world.server).await.unwrap();
    assert_eq!((swept.expired, swept.more), (150, false));
    assert_eq!(world.store.acts(Act::Expire) - commits, 3, "64, 64, 22");
    assert!(world.rows().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_sweeper_moves_lost_leases_and_never_executes() {
    let mut world = World::new().await;
    world.policy.deadline = 3600 * SECOND;
    world.script.then(Turn::Never);
    let sent = world.spawn(charge(50));
    world.script.reached(1).await;
    world.script.connecting(Before::Never);
    let unsent = world.spawn(charge(50).under(OTHER_KEY));
    world.script.prepared(1).await;
    for _ in 0..1000 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 0);
    pass(30 * SECOND).await;
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 2);
    let row = world.row().await;
    assert_eq!(row.standing.state, State::Unknown, "the sent one");
    assert_eq!(row.history.last().unwrap().event, "lease-over");
    assert_eq!(world.script.effects(), 1);
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 0);
    sent.abort();
    unsent.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_ends_by_the_observer_s_clock_while_the_store_s_stands_still() {
    let mut world = World::new().await;
    world.policy.deadline = 3600 * SECOND;
    world.script.then(Turn::Never);
    // The reservation is dated by a clock far ahead, which then stands still.
    world.jump(3600 * SECOND);
    let first = world.spawn(charge(50));
    world.script.reached(1).await;
    for _ in 0..1000 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    world.wall.ahead_ms.store(0, Ordering::SeqCst);
    sweep(&world.server).await.unwrap();
    pass(29 * SECOND).await;
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 0);
    pass(SECOND).await;
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 1);
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn a_sweep_goes_on_with_the_rest_when_one_change_fails() {
    let mut world = World::new().await;
    world.policy.deadline = 3600 * SECOND;
    world.script.then(Turn::Never).then(Turn::Never);
    let first = world.spawn(charge(50));
    let second = world.spawn(charge(50).under(OTHER_KEY));
    world.script.reached(2).await;
    for _ in 0..1000 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(31 * SECOND).await;
    world.store.fault(Act::Settle, Fault::Fails(unavailable()));
    assert!(
        sweep(&world.server).await.is_err(),
        "and the failure is told"
    );
    let states: Vec<_> = world
        .rows()
        .await
        .iter()
        .map(|row| row.standing.state)
        .collect();
    assert!(states.contains(&State::Unknown), "{states:?}");
    first.abort();
    second.abort();
}

// rule: a-held-record-that-cannot-be-read-is-told-once
#[tokio::test(start_paused = true)]
async fn a_held_row_that_cannot_be_read_is_told_once_and_does_not_hide_the_others() {
    let log = Log::default();
    let guard = tracing::subscriber::set_default(log.clone());
    let mut world = World::new().await;
    world.policy.deadline = 48 * 3600 * SECOND;
    world.script.then(Turn::Never).then(Turn::Never);
    let spoilt = world.spawn(charge(50));
    world.script.reached(1).await;
    let row = world.row().await;
    let other = world.spawn(charge(50).under(OTHER_KEY));
    world.script.reached(2).await;
    for _ in 0..1000 {
        world.store.fault(Act::Renew, Fault::Fails(unavailable()));
    }
    pass(31 * SECOND).await;
    world.store.spoil(row.scope);
    let told = || log.lines("a held record cannot be read");
    assert_eq!(sweep(&world.server).await.unwrap().recovered, 1);
    let lines = told();
    assert!(
        lines.len() == 1 && lines[0].contains(&row.id.to_string()),
        "{lines:?}"
    );
    // While it stays so, it is not told again; nor does it keep the sweeper from expiry.
    world.send(charge(50).of("Bearer bob")).await;
    pass(24 * 3600 * SECOND).await;
    assert_eq!(sweep(&world.server).await.unwrap().expired, 1);
    assert_eq!(told().len(), 1);
    drop(guard);
    spoilt.abort();
    other.abort();
}
