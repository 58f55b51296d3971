//! A gateway as a process of its own, which can be killed at any moment.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{Answer, Caller, Request, until};

/// A gateway that was ready once.
pub struct Gateway {
    child: Child,
    log: Arc<Mutex<String>>,
    /// Where callers connect.
    pub data: SocketAddr,
    /// Where operators connect.
    pub admin: SocketAddr,
}

/// A gateway that ended before it was ready.
pub struct Died {
    /// How it ended.
    pub status: ExitStatus,
    /// What it said.
    pub log: String,
}

impl std::fmt::Debug for Died {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, self.log)
    }
}

impl Gateway {
    /// Starts `command` and waits until the gateway says that it is ready.
    pub fn start(mut command: Command) -> Result<Gateway, Died> {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the gateway is started");
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().expect("its standard error"));
        let copy = Arc::clone(&log);
        // Reading to the end keeps the gateway from ever waiting for its reader.
        let reading = std::thread::spawn(move || {
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                lock(&copy).push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        let ready = until("a gateway that is ready, or ends", || {
            if let Some(status) = child.try_wait().expect("its status") {
                return Some(Err(status));
            }
            let (data, admin) = addresses(&lock(&log))?;
            let answer = Caller::to(admin)?.ask(&Request::get("/readyz")).ok()?;
            (answer.status == 200).then_some(Ok((data, admin)))
        });
        match ready {
            Ok((data, admin)) => Ok(Gateway {
                child,
                log,
                data,
                admin,
            }),
            Err(status) => {
                let _ = reading.join();
                let log = lock(&log).clone();
                Err(Died { status, log })
            }
        }
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(mut self) {
        self.end();
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Another signal, by its name.
    pub fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let words = ["-c", "kill -\"$0\" \"$1\"", name, &id];
        let sent = Command::new("sh").args(words).status();
        assert!(sent.expect("kill runs").success(), "SIG{name} is sent");
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        until("the gateway's end", || {
            self.child.try_wait().expect("its status")
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        lock(&self.log).clone()
    }

    /// Sends `request` on a connection of its own; `None` when no whole answer came.
    pub fn ask(&self, request: &Request<'_>) -> Option<Answer> {
        Caller::to(self.data)?.ask(request).ok()
    }

    /// The records, as the admin address shows them.
    pub fn records(&self) -> Vec<Value> {
        let caller = Caller::to(self.admin).expect("the admin address");
        let answer = caller.ask(&Request::get("/api/records"));
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        let records: Value = serde_json::from_slice(&answer.body).expect("JSON");
        records.as_array().expect("a list").clone()
    }

    /// The same; `None` where it gives no answer any more.
    pub fn seen_records(&self) -> Option<Vec<Value>> {
        let answer = Caller::to(self.admin)?.ask(&Request::get("/api/records"));
        let records: Value = serde_json::from_slice(&answer.ok()?.body).ok()?;
        records.as_array().cloned()
    }

    /// Whether it has ended, by itself or otherwise.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_some()
    }

    /// What it has counted.
    pub fn metrics(&self) -> String {
        let caller = Caller::to(self.admin).expect("the admin address");
        let answer = caller.ask(&Request::get("/metrics")).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        String::from_utf8(answer.body).expect("text")
    }

    /// Stops it, and gives everything that it said.
    pub fn drained(mut self) -> String {
        self.terminate();
        assert_eq!(self.ended().code(), Some(0));
        until("all that it said", || {
            let log = self.log();
            log.contains("drained; ").then_some(log)
        })
    }

    fn end(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(log: &Mutex<String>) -> std::sync::MutexGuard<'_, String> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two addresses that a gateway names when it has bound them.
fn addresses(log: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (_, rest) = log.split_once("steadfast listens on http://")?;
    let (data, rest) = rest.split_once(", for operators on http://")?;
    // The line's end, or that of a message in JSON.
    let (admin, _) = rest.split_once(['\n', '"'])?;
    Some((data.parse().ok()?, admin.parse().ok()?))
}
