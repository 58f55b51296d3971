//! What the crate promises, by feature, in one binary.

mod client;
mod database;
mod examples;
mod pool;
mod reports;
mod second_process;
mod server;
mod store_memory;
mod store_postgres;
mod store_property;
mod store_sqlite;
