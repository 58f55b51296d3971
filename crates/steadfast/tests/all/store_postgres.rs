//! The store in PostgreSQL keeps the contract, also against other processes, behind a pooler, and
//! when its server ends.

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock;
use steadfast::core::record::Record;
use steadfast::store::conformance::{self, rows};
use steadfast::store::postgres::{Address, Postgres};
use steadfast::store::{Guarantee, Op, OpEnd, Scan, SecretError, Store, StoreError};

use crate::database::{Pooler, Server, shared};
use crate::second_process::{Second, race_inserts};

/// The outer bound of every wait; never what a test is about.
const STUCK: Duration = Duration::from_secs(60);

fn address(url: &str) -> Address {
    Address::parse(url).expect("an address")
}

fn open(url: &str) -> Postgres {
    Postgres::open(&address(url)).expect("the store")
}

async fn insert(store: &Postgres, n: u64) -> Record {
    match store.apply(Op::Insert(Box::new(rows::completed(n)))).await {
        Ok(OpEnd::Done(Some(row))) => *row,
        other => panic!("an insert ended {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_the_store_contract() {
    conformance::exercise(|| open(&shared().database())).await;
}

// rule: a-pooler-by-transaction-may-stand-before-the-database
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_the_store_contract_behind_a_pooler_by_transaction() {
    let pooler = Pooler::start(shared());
    conformance::exercise(|| open(&pooler.url(&shared().database()))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_partitions_keeps_the_store_contract() {
    conformance::exercise(|| {
        let url = shared().empty();
        Postgres::migrate(&address(&url), 4).expect("prepared");
        open(&url)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_that_insert_one_key_exactly_one_wins() {
    let url = shared().database();
    let mut second = Second::start(&[], &["race", &url]);
    let store = open(&url);
    assert_eq!(second.said(), "ready");
    second.order("go");
    let here = race_inserts(&store, 1).await;
    let there = second.said();
    let once = here.bytes().zip(there.bytes()).all(|(a, b)| a != b);
    assert!(once && here.len() == there.len(), "{here}\n{there}");

    // Somebody waits here while the other process writes.
    let row = store
        .get(rows::scope(0))
        .await
        .expect("a read")
        .expect("row 0");
    let order = async {
        tokio::task::yield_now().await;
        second.order("renew");
    };
    let waiting = async { tokio::join!(store.changed(row.scope, row.guard()), order).0 };
    let told = clock::within(STUCK, waiting).await.expect("it is told");
    let told = told.expect("a read").expect("the row stands");
    assert_eq!(told.version, row.version + 1);
    let all = Scan {
        limit: 1000,
        ..Scan::default()
    };
    let scan = store.scan(all).await.expect("a scan");
    let mut fences: Vec<u64> = scan.rows.iter().map(|row| row.standing.fence).collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 200, "no fence is drawn twice");
    assert_eq!(fences.last(), Some(&told.standing.fence));
    assert_eq!(second.said(), "renewed");
    second.end();
}

#[tokio::test]
async fn what_was_said_to_be_done_survives_a_kill_of_the_process_and_of_the_server() {
    let mut server = Server::start();
    let url = server.database();
    let mut second = Second::start(&[], &["insert", &url]);
    let acknowledged: u64 = 40;
    while second.said() != (acknowledged - 1).to_string() {}
    server.stop();
    second.kill();
    server.resume();
    let store = open(&url);
    for n in 0..acknowledged {
        let row = store.get(rows::scope(n)).await.expect("a read");
        let row = row.expect("it is there");
        assert_eq!(row.standing.answer, rows::completed(n).standing.answer);
    }
}

#[tokio::test]
async fn fences_secrets_and_the_date_survive_a_reopening_and_a_crash_of_the_server() {
    let mut server = Server::start();
    let url = server.database();
    let late = || rows::DATE.plus(Duration::from_secs(1_000_000));
    let store = Postgres::with_clock(&address(&url), Arc::new(late)).expect("the store");
    let mut row = rows::completed(1);
    row.updated_at = late();
    let end = store.apply(Op::Insert(Box::new(row))).await;
    let Ok(OpEnd::Done(Some(row))) = end else {
        panic!("inserted")
    };
    let (scope, guard) = (row.scope, row.guard());
    let removed = store.apply(Op::Remove { scope, guard }).await;
    assert_eq!(removed, Ok(OpEnd::Done(None)));
    drop(store);
    server.stop();
    server.resume();

    let early = Arc::new(|| rows::DATE);
    let store = Postgres::with_clock(&address(&url), early).expect("the store");
    let now = store.now().await.expect("a date");
    assert!(now >= late(), "the clock went back, the date did not");
    assert!(insert(&store, 1).await.standing.fence > row.standing.fence);

    store
        .register_secret(2026, [7; 32])
        .await
        .expect("a new secret");
    store
        .register_secret(2026, [7; 32])
        .await
        .expect("the same again");
    let taken = store.register_secret(2026, [8; 32]).await;
    assert!(matches!(taken, Err(SecretError::Taken)));
    let secrets = store.secrets().await.expect("secrets");
    assert_eq!(secrets.fingerprints.len(), 2, "the first stays readable");
    assert_eq!(secrets.present().id(), 2026, "the last is the present one");
    let status = store.status().await.expect("a status");
    assert_eq!(status.guarantee, Guarantee::Durable);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_an_error_and_hides_no_other() {
    let url = shared().database();
    let store = open(&url);
    for n in [1, 3] {
        insert(&store, n).await;
    }
    shared().sql(
        &url,
        "UPDATE steadfast.records SET details = '{' \
         WHERE substr(scope, 25) = '\\x0000000000000001'",
    );
    let read = store.get(rows::scope(1)).await;
    assert!(matches!(read, Err(StoreError::Unreadable(_))), "{read:?}");
    let again = Op::Insert(Box::new(rows::reserved(1)));
    let good = store.apply(Op::Insert(Box::new(rows::completed(11))));
    let (bad, good) = tokio::join!(store.apply(again), good);
    assert!(matches!(bad, Err(StoreError::Unreadable(_))), "{bad:?}");
    assert!(matches!(good, Ok(OpEnd::Done(_))));
    let all = Scan {
        limit: 10,
        ..Scan::default()
    };
    let page = store.scan(all).await.expect("a page");
    assert_eq!((page.rows.len(), page.unreadable.len()), (2, 1));
}

#[tokio::test]
async fn a_write_that_fails_alone_leaves_the_others_of_its_statement() {
    let url = shared().database();
    let store = open(&url);
    shared().sql(
        &url,
        "ALTER TABLE steadfast.records ADD CHECK (operation <> 'POST /orders/5')",
    );
    let writes = (1..9).map(|n| store.apply(Op::Insert(Box::new(rows::completed(n)))));
    let ends = futures_util::future::join_all(writes).await;
    for (n, end) in (1..9).zip(ends) {
        assert_eq!(end.is_ok(), n != 5, "{n}: {end:?}");
        let stands = store.get(rows::scope(n)).await.expect("a read");
        assert_eq!(stands.is_some(), n != 5, "{n}");
    }
}

#[tokio::test]
async fn who_waits_for_a_database_that_is_gone_is_told_and_is_served_once_it_is_back() {
    let mut server = Server::start();
    let store = open(&server.database());
    let row = insert(&store, 1).await;
    server.stop();
    let waiting = store.changed(row.scope, row.guard());
    let told = clock::within(STUCK, waiting).await.expect("it is told");
    assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
    let write = store.apply(Op::Insert(Box::new(rows::completed(2)))).await;
    assert!(
        matches!(write, Err(StoreError::Unavailable(_))),
        "{write:?}"
    );
    server.resume();
    insert(&store, 3).await;
    assert_eq!(store.get(row.scope).await, Ok(Some(row)));
}
