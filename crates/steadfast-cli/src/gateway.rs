//! The gateway: assembles routes, principals, stores, the server layer and the upstream pool.

pub mod principal;
pub mod route;
