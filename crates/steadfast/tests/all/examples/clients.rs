//! `examples/policy_in_ten_lines.rs` and `examples/hyper_client.rs`: safe calls, from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use super::program::{run, run_with};

/// Reads one request, whose body has the length that it says: its head.
fn read(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        let lower = line.to_ascii_lowercase();
        if let Some(digits) = lower.strip_prefix("content-length:") {
            length = digits.trim().parse().expect("a length");
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&lower);
    }
    reader.read_exact(&mut vec![0; length]).expect("a body");
    head
}

/// A service that gives these answers in turn, on a connection each; an empty one is none. It ends
/// with the heads of the requests.
fn service(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "http://{}/orders",
        listener.local_addr().expect("an address")
    );
    let serving = std::thread::spawn(move || {
        let served = answers.iter().map(|answer| {
            let (mut stream, _) = listener.accept().expect("a connection");
            let head = read(&stream);
            stream.write_all(answer.as_bytes()).expect("it reads");
            head
        });
        served.collect()
    });
    (url, serving)
}

const LATER: &str = "HTTP/1.1 503 Later\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const CREATED: &str = "HTTP/1.1 201 Created\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

#[test]
fn a_policy_in_ten_lines_repeats_what_it_may_and_tells_it() {
    let (url, serving) = service(&["", LATER, CREATED]);
    let said = run("policy_in_ten_lines", &url);
    serving.join().expect("no panic");
    let lines: Vec<&str> = said.lines().collect();
    let [first, second, third, last] = lines[..] else {
        panic!("{said}")
    };
    assert!(first.starts_with("attempt 1: reset after "), "{said}");
    assert!(second.starts_with("attempt 2: 503 after "), "{said}");
    assert!(second.contains("retry (safe-method) in "), "{said}");
    assert!(third.starts_with("attempt 3: 201 after "), "{said}");
    assert_eq!(last, "done: 201 Created");
}

#[test]
fn over_another_client_a_lost_answer_is_asked_for_again_under_the_same_key() {
    let (url, serving) = service(&["", CREATED]);
    let said = run("hyper_client", &url);
    assert!(said.ends_with("done: 201 Created\n"), "{said}");
    let heads = serving.join().expect("no panic");
    let keys = heads.iter().map(|head| {
        let mut lines = head.lines();
        lines
            .find(|line| line.starts_with("idempotency-key: "))
            .expect("a key")
    });
    let keys: Vec<&str> = keys.collect();
    assert_eq!(keys[0], keys[1]);
    assert!(
        heads[1].contains("steadfast-attempt: 2\r\n"),
        "{}",
        heads[1]
    );
}

#[test]
fn an_outbox_in_a_service_sends_each_order_once_through_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("outbox.db");
    let (url, serving) = service(&[LATER, CREATED, CREATED, CREATED]);
    let said = run_with("outbox", &[&url, file.to_str().expect("text")]);
    let heads = serving.join().expect("no panic");
    assert!(said.ends_with("the outbox is empty\n"), "{said}");
    let keys = heads.iter().filter_map(|head| {
        let line = head
            .lines()
            .find(|line| line.starts_with("idempotency-key:"));
        line.map(str::to_owned)
    });
    let mut keys: Vec<String> = keys.collect();
    keys.sort();
    assert_eq!(keys.len(), 4, "{heads:?}");
    keys.dedup();
    assert_eq!(keys.len(), 3, "the refused one went again under its key");
}
