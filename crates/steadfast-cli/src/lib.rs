//! The command line and the gateway: assembles what `steadfast` and `steadfast-core` decide and do.

pub mod args;
mod commands;
pub mod gateway;
pub mod log;
mod run;
pub mod settings;
pub mod stores;

pub use run::run;
