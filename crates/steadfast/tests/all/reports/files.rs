//! Reports about databases in a file, and about callers who leave in the middle of a write.

use std::sync::Arc;
use std::time::Duration;

use steadfast::clock;
use steadfast::store::conformance::rows;
use steadfast::store::sqlite::Sqlite;
use steadfast::store::{Op, OpEnd, Scan, Store};
use tokio::task::yield_now;

/// The outer bound of every wait; never what a test is about.
const STUCK: Duration = Duration::from_secs(60);

/// Writes row `n`, or finds that it stands as it was written before.
async fn inserts(store: &Sqlite, n: u64) {
    let row = rows::completed(n);
    let op = Op::Insert(Box::new(row.clone()));
    let done = clock::within(STUCK, store.apply(op)).await;
    let done = done.expect("nobody holds it").expect("a write");
    let stands = match done {
        OpEnd::Done(Some(stands)) | OpEnd::Stands(Some(stands)) => stands,
        other => panic!("{other:?}"),
    };
    assert_eq!(stands.scope, row.scope);
    assert_eq!(stands.standing.owner, row.standing.owner);
    assert_eq!(stands.standing.answer, row.standing.answer);
}

// transact-rs/sqlx#4385, windmill-labs/windmill#10823: a future that was dropped while its
// transaction began left the connection inside it, and whoever came next could not write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_caller_left_is_whole_or_absent_and_keeps_nobody_out() {
    const LEFT: u64 = 200;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("store.db");
    let store = Arc::new(Sqlite::open(&path).expect("a store"));
    for n in 0..LEFT {
        let leaving = Arc::clone(&store);
        let task = tokio::spawn(async move {
            let op = Op::Insert(Box::new(rows::completed(n)));
            leaving.apply(op).await
        });
        for _ in 0..n % 8 {
            yield_now().await;
        }
        task.abort();
    }
    inserts(&store, LEFT).await;
    let second = Sqlite::open_existing(&path).expect("the same store");
    inserts(&second, LEFT + 1).await;
    let all = Scan {
        limit: 1000,
        ..Scan::default()
    };
    let page = store.scan(all).await.expect("a scan");
    for row in &page.rows {
        let whole = rows::completed(0).standing.answer;
        assert_eq!(row.standing.answer, whole);
    }
    // What is absent can still be written, and what is there stands.
    for n in 0..LEFT {
        inserts(&store, n).await;
    }
    let status = store.status().await.expect("a status");
    let rows: u64 = status.rows.iter().map(|(_, count)| count).sum();
    assert_eq!(rows, LEFT + 2);
}

// sqlite.org, "The WAL-reset bug" (forum and release notes of 3.51.3): versions before it could
// damage a file that two connections wrote to and copied back at once, as the writer and the
// checkpoint do.
#[test]
fn the_bundled_sqlite_is_newer_than_the_fault_that_damaged_files() {
    let (version, fixed) = (rusqlite::version_number(), 3_051_003);
    assert!(version >= fixed, "{}", rusqlite::version());
}
