//! The demonstration, as its reader runs it: the real program, and the numbers that it ends with.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::stage::{Caller, Folder, Ran, Request, finish, until};

const KEY: &str = "3d0c5b1e-6f2a-4e97-8a41-b9d7f0c26e58";

/// The demo, with its temporary folder inside of `folder`.
fn demo(folder: &Folder, flags: &[&str]) -> Command {
    let mut command = folder.program(&["demo"]);
    command.args(flags).env("TMPDIR", folder.path(""));
    // Addresses of a gateway of one's own are none of its business.
    command.env("STEADFAST_LISTEN", "0.0.0.0:1");
    command
}

/// The three numbers of a row.
fn row(table: &str, name: &str) -> Vec<u64> {
    let row = table.lines().find_map(|line| line.strip_prefix(name));
    let row = row.unwrap_or_else(|| panic!("no row {name:?} in\n{table}"));
    row.split_whitespace()
        .map(|number| number.parse().expect("a number"))
        .collect()
}

// rule: the-demo-charges-twice-without-keys-and-once-with
#[test]
fn without_keys_orders_are_charged_more_than_once_and_with_keys_exactly_once() {
    let folder = Folder::new();
    let Ran { code, out, err } = finish(demo(&folder, &[]));
    assert_eq!(code, 0, "{out}{err}");
    let head: Vec<&str> = out.lines().next().expect("a head").split("  ").collect();
    for column in ["asked", "charged without", "charged with"] {
        assert!(head.iter().any(|cell| cell.trim() == column), "{head:?}");
    }
    let all = row(&out, "all ");
    assert_eq!(all, [40, 51, 40]);
    let rows = out.lines().skip(1).filter(|line| !line.starts_with("all "));
    let mut sums = [0; 3];
    for line in rows {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, numbers) = words.split_at(words.len() - 3);
        let numbers: Vec<u64> = numbers
            .iter()
            .map(|n| n.parse().expect("a number"))
            .collect();
        assert_eq!(
            numbers[0], numbers[2],
            "with keys, one charge an order: {line}"
        );
        (0..3).for_each(|column| sums[column] += numbers[column]);
    }
    assert_eq!(sums.to_vec(), all);
    for told in [
        "no       no       unknown",
        "yes      no       unknown",
        "yes      yes      unknown",
        "it never arrived",
        "it arrived and was not executed",
        "it was executed and the answer was lost",
        "the same body: 201, Idempotent-Replayed: true",
        "another amount: 422 key-reused",
        "The service charged it 1 time.",
        "the store has 0 records of receipts and 40 of orders",
    ] {
        assert!(err.contains(told), "{told:?} is missing in\n{err}");
    }
    assert_eq!(
        err.matches("  time-out, 409 outcome-unknown").count(),
        3,
        "{err}"
    );
    assert_eq!(folder.names(), [""; 0], "its folder stays behind");
}

#[test]
fn the_demo_gives_the_same_numbers_each_time_as_json() {
    let folder = Folder::new();
    for _ in 0..2 {
        let Ran { code, out, err } = finish(demo(&folder, &["--json"]));
        assert_eq!(code, 0, "{out}{err}");
        let printed: Value = serde_json::from_str(&out).expect("nothing but JSON");
        let expected = json!({
            "seed": 1681, "orders": 40, "charged_without": 51, "charged_with": 40, "unknown": 17,
        });
        assert_eq!(printed, expected);
        assert!(
            err.contains("Three truths"),
            "the story is still told: {err}"
        );
    }
}

/// A demo that is at work or stays.
struct Staying {
    child: Child,
    told: Arc<Mutex<String>>,
    input: ChildStdin,
}

impl Staying {
    fn start(mut command: Command) -> Staying {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the demo starts");
        let told = Arc::new(Mutex::new(String::new()));
        let (copy, mut lines) = (Arc::clone(&told), child.stderr.take().expect("its story"));
        std::thread::spawn(move || {
            let mut lines = BufReader::new(&mut lines);
            // Prompts end without a line's end, so that each chunk is taken as it comes.
            while let Ok(chunk) = lines.fill_buf()
                && !chunk.is_empty()
            {
                let text = String::from_utf8_lossy(chunk).into_owned();
                let length = chunk.len();
                copy.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&text);
                lines.consume(length);
            }
        });
        let input = child.stdin.take().expect("its input");
        Staying { child, told, input }
    }

    fn told(&self) -> String {
        self.told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn wait_for(&self, text: &str) {
        until(text, || self.told().contains(text).then_some(()));
    }

    /// The address after `text`.
    fn address(&self, text: &str) -> SocketAddr {
        let told = self.told();
        let (_, rest) = told
            .split_once(text)
            .unwrap_or_else(|| panic!("no {text:?}: {told}"));
        let end = rest.find(|c: char| c != ':' && c != '.' && !c.is_ascii_digit());
        let address = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        address.parse().expect("an address")
    }

    /// Sends a signal; the exit code, and what stood on standard output.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let kill = ["-c", "kill -$0 $1", signal, &self.child.id().to_string()].map(str::to_owned);
        let sent = Command::new("sh").args(kill).status();
        assert!(sent.expect("kill runs").success());
        let status = until("the demo's end", || {
            self.child.try_wait().expect("its status")
        });
        let mut out = String::new();
        let read = self
            .child
            .stdout
            .take()
            .expect("a pipe")
            .read_to_string(&mut out);
        read.expect("its output");
        (status.code(), out)
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        // After its end this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Local addresses of the process's TCP sockets, as Linux shows them.
fn local_addresses(process: u32) -> Vec<String> {
    let mut own = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{process}/fd")).expect("its descriptors") {
        let link = std::fs::read_link(entry.expect("a descriptor").path());
        // One that was closed meanwhile is none.
        let Ok(link) = link else { continue };
        let inode = link
            .to_string_lossy()
            .strip_prefix("socket:[")
            .map(str::to_owned);
        own.extend(inode.map(|inode| inode.trim_end_matches(']').to_owned()));
    }
    let mut found = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let path = format!("/proc/{process}/net/{table}");
        let text = std::fs::read_to_string(path).expect("a table of sockets");
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if own.iter().any(|inode| inode == words[9]) {
                found.push(words[1].to_owned());
            }
        }
    }
    found
}

#[test]
fn what_stays_up_answers_on_loopback_until_a_signal_and_leaves_nothing() {
    for signal in ["INT", "TERM"] {
        let folder = Folder::new();
        let staying = Staying::start(demo(&folder, &["--stay", "--json"]));
        staying.wait_for("steadfast keys list --state unknown");
        let service = staying.address("up until Ctrl-C: the service on http://");
        let gateway = staying.address("the gateway on\n   http://");
        let operators = staying.address("for operators on http://");
        let listening = local_addresses(staying.child.id());
        assert!(listening.len() >= 3, "{listening:?}");
        // 127.0.0.1 in the machine's byte order.
        let loopback = format!("{:08X}:", u32::from_ne_bytes([127, 0, 0, 1]));
        assert!(
            listening.iter().all(|at| at.starts_with(&loopback)),
            "{listening:?}"
        );
        let body = "{\"order\":41,\"amount_cents\":5000}";
        let order = Request::post("/charges", Some(KEY)).saying(body);
        for replayed in ["false", "true"] {
            let answer = Caller::to(gateway).and_then(|caller| caller.ask(&order).ok());
            let answer = answer.expect("an answer");
            assert_eq!((answer.status, answer.replayed()), (201, Some(replayed)));
        }
        let ask = |at, path| {
            let answer = Caller::to(at).and_then(|caller| caller.ask(&Request::get(path)).ok());
            let answer = answer.expect("an answer");
            serde_json::from_slice::<Value>(&answer.body).expect("JSON")
        };
        assert_eq!(ask(service, "/charges")["count"], 41);
        let records = ask(operators, "/api/records");
        // Those of orders, the one of before, and the receipt whose key runs anew.
        assert!(
            records.as_array().is_some_and(|rows| rows.len() >= 41),
            "{records}"
        );
        assert_eq!(folder.names().len(), 1);
        let (code, out) = staying.end(signal);
        assert_eq!(code, Some(0), "SIG{signal}");
        let printed: Value = serde_json::from_str(&out).expect("nothing but JSON");
        assert_eq!(printed["charged_with"], 40);
        assert_eq!(folder.names(), [""; 0], "its folder stays behind");
    }
}

#[test]
fn a_pause_waits_for_enter_and_ends_with_the_input() {
    let folder = Folder::new();
    let mut demo = Staying::start(demo(&folder, &["--pause"]));
    demo.wait_for("[Enter]");
    assert!(!demo.told().contains("\n2. "), "{}", demo.told());
    demo.input.write_all(b"\n").expect("it reads");
    demo.wait_for("\n2. ");
    until("the second pause", || {
        (demo.told().matches("[Enter]").count() == 2).then_some(())
    });
    assert!(!demo.told().contains("\n3. "), "{}", demo.told());
    // Interrupted in a pause, while its input is still open.
    let (code, out) = demo.end("INT");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert_eq!(folder.names(), [""; 0], "its folder stays behind");
}

#[test]
fn a_pause_without_input_goes_on_and_says_so() {
    let folder = Folder::new();
    let Ran { code, out, err } = finish(demo(&folder, &["--pause"]));
    assert_eq!(code, 0, "{err}");
    assert_eq!(row(&out, "all "), [40, 51, 40]);
    let told = err
        .matches("Standard input has ended; going on without pauses.")
        .count();
    assert_eq!(told, 1, "{err}");
}
