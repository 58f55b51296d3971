//! Safe-to-repeat HTTP for tower and hyper: stores, the server layer and the upstream pool.
//!
//! Everything here acts; every decision is [`steadfast_core`]'s. Time and chance enter in [`clock`]
//! and nowhere else.

pub mod attempts;
pub mod body;
pub mod client;
pub mod clock;
pub mod event;
pub mod server;
pub mod store;

pub use steadfast_core as core;
