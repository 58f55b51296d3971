//! What the crate promises, by feature, in one binary.

mod client;
mod examples;
mod pool;
mod reports;
mod second_process;
mod server;
mod store_memory;
mod store_property;
mod store_sealed;
mod store_sqlite;
