//! All tests of the program as one binary, so that they are linked once. A new subject is a module.

mod config;
mod crash;
mod defaults;
mod demo;
mod docs;
mod environment;
mod examples;
mod framing;
mod gateway;
mod listen;
mod reports;
mod stage;
mod tidy;
