//! `kill -9` at every moment: never a second effect, and nothing stays stuck.

mod draining;
pub mod failing;
mod killed;
mod loaded;
mod settling;
mod shared;
mod steps;

/// A key that nobody guesses, as callers make them.
const KEY: &str = "3f9d2c1a-7b64-4e0f-9a58-c2d1e6b70f34";

/// Another.
const OTHER_KEY: &str = "a81b5d7e-02c3-4f96-8d4a-5e9f17c6b2d0";

/// Not a test by itself: the gateway with a failing store, which tests run as a process of its own.
/// Without their variables it has nothing to do.
#[test]
fn child() {
    failing::run_when_asked();
}
