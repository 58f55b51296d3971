//! The gateway: assembles routes, principals, stores, the server layer and the upstream pool.

pub mod admin;
pub mod framing;
pub mod incoming;
pub mod listen;
pub mod proxy;
pub mod route;
pub mod run;
pub mod service;
pub mod upstream;
