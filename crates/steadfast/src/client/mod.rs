//! The way to an upstream: where it is, and the pool of connections to it.
//!
//! Everything here acts and gives evidence. Whether an operation may be sent again is
//! [`steadfast_core::retry`]'s decision; nothing in this folder repeats a request on its own.

pub mod pool;
mod target;
mod tls;

pub use target::{Scheme, Target, TargetError};
pub use tls::{TlsError, TlsFiles, TlsPart, UpstreamTls};

pub use crate::attempts::{Asked, Attempts, Leave, Rules, SharedUpstream};
