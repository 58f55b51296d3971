//! The gateway from outside, over real sockets: a scripted upstream behind it, callers before it.

mod admin;
mod again;
mod answers;
mod bodies;
pub mod caller;
mod deadlines;
mod drain;
mod endings;
mod http2;
mod keys;
mod large;
mod once;
mod over_postgres;
mod principals;
mod process;
mod requests;
mod routes;
pub mod running;
mod status;
mod stores;
mod storm;
mod two;
pub mod upstream;

use std::process::{Command, Output};

/// Runs a program of the system off the runtime's threads.
async fn ran(mut command: Command) -> Output {
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    ran.expect("a task").expect("the program is installed")
}

/// What a program printed.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}
