//! The reverse proxy: what stands between callers and one HTTP service.

pub mod framing;
pub mod listen;
