//! The parts of `benches/run` work: each writes what the report needs. No figure is judged here.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Runs one part; the names of what it measured.
fn names(arguments: &[&str]) -> Vec<String> {
    measured(arguments)
        .lines()
        .map(|line| line.split('\t').nth(1).expect("a name").to_owned())
        .collect()
}

fn measured(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_steadfast-bench"))
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_store_and_its_reference_write_what_the_report_compares() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().to_str().expect("a path");
    for (part, name) in [("log", "log.8"), ("store", "store.8")] {
        let found = names(&[part, "--waiters", "8", "--millis", "50", "--dir", dir]);
        for end in ["pairs_per_s", "p50_us", "p99_us"] {
            assert!(found.contains(&format!("{name}.{end}")), "{found:?}");
        }
    }
    let found = names(&["floor", "--millis", "20", "--dir", dir]);
    assert_eq!(found, ["floor.syncs_per_s"]);
}

#[test]
fn a_backlog_expires_beside_writers_and_growth_is_measured() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().to_str().expect("a path");
    let few = ["--dir", dir, "--rounds", "1", "--millis", "20"];
    let found = names(&[&["expiry", "--records", "3000"], &few[..]].concat());
    assert!(
        found.contains(&"expiry.expired_per_s".to_owned()),
        "{found:?}"
    );
    let found = names(&[&["growth", "--records", "100"], &few[..]].concat());
    assert!(
        found.contains(&"growth.large.pairs_per_s".to_owned()),
        "{found:?}"
    );
}

#[test]
fn fingerprints_are_measured_beside_their_references() {
    let found = names(&["fingerprint", "--millis", "60"]);
    assert_eq!(found.len(), 6, "{found:?}");
}

#[test]
fn bodies_have_the_length_that_was_asked_for_and_keys_differ() {
    for bytes in ["200", "1024"] {
        let body = measured(&["body", "--bytes", bytes]);
        assert_eq!(body.len().to_string(), bytes);
        serde_json::from_str::<serde_json::Value>(&body).expect("JSON");
    }
    let keys = measured(&["keys", "--count", "100"]);
    let mut keys: Vec<&str> = keys.lines().collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 100);
}

#[test]
fn a_check_fails_only_beyond_a_quarter() {
    for (ours, code) in [("31", Some(0)), ("29", Some(1))] {
        let mut report = Command::new(env!("CARGO_BIN_EXE_steadfast-bench"))
            .args(["report", "--check"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program runs");
        let mut input = report.stdin.take().expect("its input");
        write!(
            input,
            "1\tstore.64.pairs_per_s\t{ours}\n1\tlog.64.pairs_per_s\t100\n"
        )
        .expect("it reads");
        drop(input);
        assert_eq!(report.wait().expect("it ends").code(), code);
    }
}
