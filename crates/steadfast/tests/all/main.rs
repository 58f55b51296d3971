//! Tests of the crate as its users see it, in one binary.

mod store_memory;
mod store_property;
mod store_sqlite;
