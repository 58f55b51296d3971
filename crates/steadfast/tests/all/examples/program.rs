//! An example as a process of its own, and a caller that sends what it is told over a socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use steadfast::clock;

/// Longer than anything takes; never what a test asserts.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every example that a test here starts.
const EXAMPLES: [&str; 6] = [
    "axum_orders",
    "any_tower_service",
    "axum_three_hops",
    "hyper_client",
    "outbox",
    "policy_in_ten_lines",
];

/// Runs the example to its end with one argument: what it said.
pub fn run(name: &str, argument: &str) -> String {
    run_with(name, &[argument])
}

/// The same with these arguments.
pub fn run_with(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(built(name))
        .args(arguments)
        .output()
        .expect("the example runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).expect("text")
}

/// Where the example lies, freshly built. With all packages of the workspace at once, as the whole
/// gate builds, so that nothing is compiled a second time with other features.
fn built(name: &str) -> PathBuf {
    static BUILT: OnceLock<Vec<(String, PathBuf)>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let test = std::env::current_exe().expect("this binary");
        // TARGET/debug/deps/all-HASH
        let target = test.ancestors().nth(3).expect("a target folder");
        let output = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--workspace", "--message-format=json"])
            .args(EXAMPLES.map(|name| format!("--example={name}")))
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        let lines = output.stdout.split(|byte| *byte == b'\n');
        let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        let programs = messages.filter_map(|message| {
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, PathBuf::from(message["executable"].as_str()?)))
        });
        programs.collect()
    });
    let found = built.iter().find(|(known, _)| known == name);
    found.expect("an example of this name").1.clone()
}

/// A running example.
pub struct Program {
    child: Child,
    said: BufReader<ChildStdout>,
    pub address: SocketAddr,
}

impl Program {
    /// Starts it on a free port and waits until it says where it listens.
    pub fn start(name: &str, folder: Option<&Path>) -> Program {
        let mut child = Command::new(built(name))
            .arg("0")
            .args(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the example starts");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says something");
        let (_, address) = line.trim_end().split_once("http://").expect("an address");
        let address = address.parse().expect("an address");
        Program {
            child,
            said,
            address,
        }
    }

    /// Sends `request` and does not read.
    pub fn begin(&self, request: &Request<'_>) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("it takes connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.write_all(&request.bytes()).expect("it reads");
        stream
    }

    /// Sends `request` on a connection of its own and reads the answer.
    pub fn ask(&self, request: &Request<'_>) -> Answer {
        Answer::read(self.begin(request))
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ended");
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh")
            .args(["-c", "kill -TERM \"$0\"", &id])
            .status();
        assert!(sent.expect("kill runs").success(), "SIGTERM is sent");
    }

    /// Waits for its end: how it ended, and what it said since its first line.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.said.read_to_string(&mut said).expect("text");
        (self.child.wait().expect("it ended"), said)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request, as it is sent.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub key: Option<&'a str>,
    pub caller: &'a str,
    pub body: &'a str,
}

impl<'a> Request<'a> {
    pub fn get(path: &'a str) -> Request<'a> {
        Request {
            method: "GET",
            path,
            key: None,
            caller: "alice",
            body: "",
        }
    }

    pub fn post(path: &'a str, key: &'a str, body: &'a str) -> Request<'a> {
        Request {
            method: "POST",
            path,
            key: Some(key),
            caller: "alice",
            body,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let Request {
            method,
            path,
            caller,
            body,
            ..
        } = self;
        let key = self.key.map(|key| format!("Idempotency-Key: {key}\r\n"));
        let key = key.unwrap_or_default();
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {caller}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{key}\r\n{body}"
        )
        .into_bytes()
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Answer {
    pub fn read(mut stream: TcpStream) -> Answer {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Answer {
            status: status.expect("a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// The value of a field that comes once.
    pub fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value)
    }

    pub fn replayed(&self) -> Option<&str> {
        self.field("idempotent-replayed")
    }

    /// The last part of a problem's type.
    pub fn problem(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).expect("JSON");
        let kind = body["type"].as_str().expect("a problem");
        kind.rsplit(':').next().unwrap_or_default().to_owned()
    }
}

/// Looks until `look` is true.
pub fn until(what: &str, mut look: impl FnMut() -> bool) {
    let began = clock::mono_now();
    while !look() {
        let waited = clock::mono_now().since(began);
        assert!(waited < PATIENCE, "waited in vain for {what}");
        clock::pause(Duration::from_millis(5));
    }
}
