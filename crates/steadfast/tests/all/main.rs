//! Tests of the crate as its users see it, in one binary.

mod second_process;
mod store_memory;
mod store_property;
mod store_sqlite;
