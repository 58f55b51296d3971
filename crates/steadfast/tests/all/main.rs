//! What the crate promises, by feature, in one binary.

mod pool;
mod store_memory;
mod store_property;
mod store_sqlite;
