//! The gateway: assembles routes, principals, stores, the server layer and the upstream pool.

pub mod admin;
pub mod attempts;
pub mod framing;
pub mod incoming;
pub mod listen;
pub mod metrics;
pub mod proxy;
pub mod route;
pub mod run;
pub mod service;
pub mod telling;
pub mod upstream;
pub mod upstreams;
pub mod watch;
