//! All tests of the program as one binary, so that they are linked once. A new subject is a module.

mod call;
mod clients;
mod config;
mod crash;
#[path = "../../../steadfast/tests/all/database.rs"]
mod database;
mod decide;
mod defaults;
mod demo;
mod docs;
mod environment;
mod examples;
mod framing;
mod gateway;
mod http2;
mod init;
mod listen;
mod logs;
mod metrics;
mod own_database;
mod reports;
mod retries;
mod shell;
mod stage;
mod tidy;
mod upkeep;
mod upstream_tls;
