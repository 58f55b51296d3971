//! A fault strikes where its plan says, and nowhere else.

use futures_util::FutureExt as _;

use super::*;
use crate::store::conformance::{self, rows};
use crate::store::memory::Memory;

fn faulty(plan: &str) -> Faulty<Memory> {
    Faulty::new(Memory::new(), plan.parse().expect("a plan"))
}

fn insert(n: u64) -> Op {
    Op::Insert(Box::new(rows::reserved(n)))
}

#[test]
fn a_plan_is_read_from_text_and_anything_else_is_refused() {
    let plan: Plan = "crash:before:3,hold:after:dispatched:2+"
        .parse()
        .expect("a plan");
    let faults = [
        Fault {
            action: Action::Crash,
            point: Point::Before,
            kind: Kind::Write,
            calls: Calls::Only(3),
        },
        Fault {
            action: Action::Hold,
            point: Point::After,
            kind: Kind::To(State::Dispatched),
            calls: Calls::From(2),
        },
    ];
    assert_eq!(plan.faults, faults);
    assert_eq!("".parse(), Ok(Plan::default()));
    for wrong in [
        "crash",
        "crash:before",
        "crash:before:0",
        "crash:before:x",
        "crash:amid:1",
        "break:before:1",
        "crash:before:write:1:2",
        "crash:before:drop:1",
        "crash:before:+",
        "crash:before:-1",
    ] {
        assert_eq!(wrong.parse::<Plan>(), Err(PlanError(wrong.to_owned())));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_faults_it_keeps_the_contract() {
    conformance::exercise(|| faulty("")).await;
}

#[tokio::test]
async fn a_failure_before_does_nothing_and_one_after_loses_the_reply() {
    let store = faulty("fail:before:2,full:before:3,fail:after:insert:4");
    let stands = async |n| store.get(rows::scope(n)).await.expect("a read").is_some();
    assert!(store.apply(insert(1)).await.is_ok());
    assert!(matches!(
        store.apply(insert(2)).await,
        Err(StoreError::Unavailable(_))
    ));
    assert!(matches!(
        store.apply(insert(3)).await,
        Err(StoreError::Full(_))
    ));
    assert!(matches!(
        store.apply(insert(4)).await,
        Err(StoreError::Unavailable(_))
    ));
    let found = [
        stands(1).await,
        stands(2).await,
        stands(3).await,
        stands(4).await,
    ];
    assert_eq!(found, [true, false, false, true]);
    store.met(3).await;
}

#[tokio::test]
async fn a_hang_never_ends_and_a_hold_ends_when_it_is_released() {
    let store = faulty("hang:before:1,hold:before:2,fail:before:get:1+");
    assert!(store.apply(insert(1)).now_or_never().is_none());
    let mut held = store.apply(insert(2));
    assert!((&mut held).now_or_never().is_none());
    assert_eq!(store.inner().get(rows::scope(2)).await, Ok(None));
    store.release();
    assert!(held.await.is_ok());
    for _ in 0..3 {
        assert!(store.get(rows::scope(2)).await.is_err());
    }
    store.arm(Plan::default());
    assert!(store.get(rows::scope(2)).await.is_ok());
}

#[tokio::test]
async fn a_crash_calls_what_it_was_given() {
    let crashes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&crashes);
    let crash: Crash = Arc::new(move || {
        counted.fetch_add(1, Ordering::AcqRel);
    });
    let plan = "crash:after:released:1".parse().expect("a plan");
    let store = Faulty::with_crash(Memory::new(), plan, crash);
    assert!(store.apply(insert(1)).await.is_ok());
    let mut row = rows::reserved(2);
    row.standing.state = State::Released;
    assert!(store.apply(Op::Insert(Box::new(row))).await.is_err());
    assert_eq!(crashes.load(Ordering::Acquire), 1);
    assert!(matches!(
        store.inner().get(rows::scope(2)).await,
        Ok(Some(_))
    ));
}
