//! The store in memory keeps what `Store` promises.

use steadfast::store::conformance;
use steadfast::store::memory::Memory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_keeps_the_store_contract() {
    conformance::exercise(Memory::new).await;
}
