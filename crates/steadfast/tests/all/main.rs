//! What the crate promises, by feature.

mod pool;
