//! The command line and the gateway: assembles what `steadfast` and `steadfast-core` decide and do.

pub mod gateway;
pub mod settings;
