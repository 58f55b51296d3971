//! The decisions of steadfast, as pure functions over values.
//!
//! Nothing here reads a clock, draws a random number, opens a socket or a file, waits, or logs:
//! time, chance and fences are arguments. That is what lets the gateway, the tower layers, `plan`,
//! `explain` and the tests share one and the same decision. The manifest holds it (no runtime is a
//! dependency) and `clippy.toml` bans the rest.
//!
//! Two functions carry the product: [`record`] decides every transition of a keyed request on the
//! server side, [`retry`] decides what an attempt's end means on the client side.

pub mod attempt;
pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod deadline;
pub mod effect;
pub mod fields;
pub mod fingerprint;
pub mod key;
pub mod look_alikes;
pub mod plan;
pub mod policy;
pub mod prefer;
pub mod principal;
pub mod problem;
pub mod quota;
pub mod record;
pub mod repeat;
pub mod replay;
pub mod retry;
pub mod retry_after;
pub mod time;
pub mod timeouts;
pub mod trace_context;
pub mod trailers;
pub mod upstream;
mod window;

pub use window::{NoRatio, Ratio};
