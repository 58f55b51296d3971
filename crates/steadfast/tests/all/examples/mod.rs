//! The library's examples, run as the processes that a reader would start.

mod charges;
mod clients;
mod hops;
mod orders;
mod page;
mod program;
