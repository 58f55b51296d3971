//! The queue, with processes and sockets: nothing is sent twice, and nothing is lost.

use std::net::SocketAddr;

use serde_json::Value;

use crate::stage::{Answer, Caller, Folder, Gateway, Request, until};

mod commands;
mod crashes;
mod many;
mod one;

/// A key that nobody guesses, as callers make them.
const KEY: &str = "5d1e8b52-90c4-4f37-b6a1-7f2c03d9e846";

/// A gateway's configuration whose queue is quick, in front of `to`.
fn config(to: SocketAddr, idempotency: &str, more: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nstore = \"sqlite:records.db\"\n\
         [[route]]\npath = \"/{{*rest}}\"\nto = \"http://{to}\"\n\
         breaker = {{ open_for = \"100ms\" }}\n\
         deferral = {{ base = \"20ms\", cap = \"100ms\" }}\n\
         idempotency = {{ {idempotency} }}\n{more}\n"
    )
}

fn folder(to: SocketAddr, idempotency: &str, more: &str) -> Folder {
    let folder = Folder::new();
    folder.write("s.toml", config(to, idempotency, more));
    folder
}

fn key(number: usize) -> String {
    format!("5d1e8b52-90c4-4f37-b6a1-7f2c03{number:06}")
}

/// Sends the request and reads its answer on `caller`, which stays open.
fn ask(caller: &mut Caller, request: Request<'_>) -> Answer {
    caller.send(&request.kept());
    caller.answer().expect("a whole answer")
}

/// What a 202 says: the address of its operation.
fn accepted(answer: &Answer) -> String {
    assert_eq!(answer.status, 202, "{answer:?}");
    let address = answer.field("location").expect("an address").to_owned();
    let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(body["state"], "deferred", "{body}");
    address
}

/// The operation's state.
fn state(caller: &mut Caller, address: &str) -> String {
    let answer = ask(caller, Request::get(address));
    assert_eq!(answer.status, 200, "{answer:?}");
    let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
    body["state"].as_str().expect("a state").to_owned()
}

/// Waits until each operation is at rest, and gives their states.
fn at_rest(gateway: &Gateway, addresses: &[String]) -> Vec<String> {
    in_states(gateway, addresses, &["completed", "unknown"])
}

/// Waits until each operation is in one of these states, and gives them.
fn in_states(gateway: &Gateway, addresses: &[String], rest: &[&str]) -> Vec<String> {
    let mut caller = Caller::to(gateway.data).expect("a connection");
    let mut states = Vec::new();
    for address in addresses {
        states.push(until("an operation at rest", || {
            let state = state(&mut caller, address);
            rest.contains(&state.as_str()).then_some(state)
        }));
    }
    states
}
