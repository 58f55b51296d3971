//! The store in a file keeps what `Store` promises.

use steadfast::store::conformance;
use steadfast::store::sqlite::Sqlite;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_store_contract() {
    let dir = tempfile::tempdir().expect("a directory");
    let count = std::cell::Cell::new(0);
    conformance::exercise(|| {
        count.set(count.get() + 1);
        Sqlite::open(dir.path().join(format!("{}.db", count.get()))).expect("a new store")
    })
    .await;
}
