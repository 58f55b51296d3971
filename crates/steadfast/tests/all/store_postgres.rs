//! The store in PostgreSQL keeps the contract, against other processes, other servers and none.

use std::time::Duration;

use steadfast::store::conformance;
use steadfast::store::postgres::{Address, Postgres};

use crate::database::shared;

fn address(url: &str) -> Address {
    Address::parse(url).expect("an address")
}

fn open(url: &str) -> Postgres {
    Postgres::open(&address(url)).expect("the store")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_the_store_contract() {
    conformance::exercise(|| open(&shared().database())).await;
}
