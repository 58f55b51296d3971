//! All tests of the program as one binary, so that they are linked once. A new subject is a module.

mod config;
mod docs;
mod framing;
mod gateway;
mod listen;
mod tidy;
