//! The small service (service.py) as a process, and what its ledger says.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::tools;
use crate::stage::{Caller, Request, until};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/clients/service.py");

/// A service that runs until it is dropped.
pub struct Service {
    child: Child,
    pub address: SocketAddr,
}

/// What the ledger has under one key.
#[derive(Debug, PartialEq, Eq)]
pub struct Account {
    /// Requests that came.
    pub asked: u64,
    /// The order and the answer of each effect.
    pub effects: Vec<(String, String)>,
}

impl Service {
    /// A service on a port that the system chooses.
    pub fn start() -> Service {
        Service::at("127.0.0.1:0")
    }

    pub fn at(place: &str) -> Service {
        let mut child = Command::new(tools::python())
            .args([SCRIPT, place])
            // It ends when this pipe does, however this process ends.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the service is started");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        let read = BufReader::new(out).read_line(&mut line);
        read.expect("its first line");
        let address = line.trim().rsplit(' ').next().expect("a word").parse();
        let address = address.unwrap_or_else(|_| panic!("the service did not start: {line:?}"));
        Service { child, address }
    }

    /// What the ledger has under `key` once nothing is at work any more.
    pub fn account(&self, key: &str) -> Account {
        let path = format!("/ledger?key={key}");
        until("a service at rest", || {
            let told = self.ask(&Request::get(&path));
            (told["at_work"] == 0).then(|| Account::new(&told))
        })
    }

    /// Lets slow answers under `key` go.
    pub fn release(&self, key: &str) {
        self.ask(&Request::post(&format!("/release?key={key}"), None));
    }

    fn ask(&self, request: &Request<'_>) -> Value {
        let caller = Caller::to(self.address).expect("a connection");
        let answer = caller.ask(request).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_slice(&answer.body).expect("JSON")
    }
}

impl Account {
    fn new(told: &Value) -> Account {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let effects = told["effects"].as_array().expect("a list").iter();
        Account {
            asked: told["asked"].as_u64().expect("a number"),
            effects: effects
                .map(|effect| (text(&effect["order"]), text(&effect["answer"])))
                .collect(),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
