//! Encryption of stored answers, with the real program: through restarts, rotations and wrong keys,
//! no effect is made twice, and nothing of an answer is in the store's files.

use crate::stage::{Answer, Config, Folder, Gateway, Honours, Ledger, Ran, Request};

const KEY: &str = "7d2f0c1e-64f5-4a0e-9a43-5a1f5b6f2c11";
const OTHER: &str = "0b7b6d3a-3f5e-4f0e-8f1e-0d0f4c9a7e22";
const SECOND: &str = "9c8d7e6f-1a2b-4c3d-8e4f-5a6b7c8d9e0f";

fn folder() -> Folder {
    let folder = Folder::new();
    for (name, byte) in [("k1.key", 0xA1), ("k2.key", 0xB2), ("wrong.key", 0xC3)] {
        folder.write(name, [byte; 32]);
    }
    folder
}

/// A gateway whose keys are these members of `encrypt_with`.
fn gateway(folder: &Folder, ledger: &Ledger, keys: &str) -> Gateway {
    let top = format!("encrypt_with = [{keys}]");
    let config = Config {
        to: ledger,
        top: &top,
        idempotency: "",
    };
    folder.write("s.toml", config.text());
    folder.gateway()
}

fn ask(gateway: &Gateway, key: &str) -> Answer {
    gateway.ask(&Request::order(key)).expect("an answer")
}

/// Status, body, and whether it was a replay.
fn order(gateway: &Gateway, key: &str) -> (u16, String, String) {
    let answer = ask(gateway, key);
    let replayed = answer.replayed().unwrap_or_default();
    let body = String::from_utf8(answer.body.clone()).expect("text");
    (answer.status, body, replayed.to_owned())
}

fn made(number: usize, replayed: bool) -> (u16, String, String) {
    (201, format!("{{\"id\":{number}}}"), replayed.to_string())
}

fn is_on_disk(folder: &Folder, text: &[u8]) -> bool {
    let names = folder.names();
    let mut files = names.iter().filter(|name| name.starts_with("records.db"));
    files.any(|name| folder.read(name).windows(text.len()).any(|w| w == text))
}

const K1: &str = "{ id = \"k1\", file = \"k1.key\" }";
const K2: &str = "{ id = \"k2\", file = \"k2.key\" }";
const WRONG: &str = "{ id = \"k1\", file = \"wrong.key\" }";

fn is_refused(gateway: &Gateway, key: &str) {
    let answer = ask(gateway, key);
    let problem = answer.problem();
    assert_eq!(
        (answer.status, problem.as_deref()),
        (503, Some("store-unavailable"))
    );
}

// rule: a-wrong-key-executes-nothing
#[test]
fn with_keys_answers_are_replayed_and_with_wrong_ones_nothing_is_executed() {
    let (folder, ledger) = (folder(), Ledger::open(Honours::Nothing));
    let first = gateway(&folder, &ledger, K1);
    assert_eq!(order(&first, KEY), made(1, false));
    assert_eq!(order(&first, KEY), made(1, true));
    assert!(!is_on_disk(&folder, b"/orders/1") && !is_on_disk(&folder, b"{\"id\":1}"));
    assert!(first.drained().contains("encrypted with the key `k1`"));

    for (keys, says) in [
        (WRONG, "does not open with the key `k1`"),
        (
            K2,
            "encrypted with the key `k1`, which is not among those given here (k2)",
        ),
        ("", "encrypted with the key `k1`, and no key is given here"),
    ] {
        let wrong = gateway(&folder, &ledger, keys);
        is_refused(&wrong, KEY);
        let log = wrong.drained();
        assert!(log.contains(says), "{keys}: {log}");
        assert!(!log.contains("/orders/1"), "{log}");
        assert_eq!(ledger.effects(), 1, "{keys}");
    }

    let rotated = gateway(&folder, &ledger, &format!("{K2}, {K1}"));
    assert_eq!(order(&rotated, KEY), made(1, true));
    assert_eq!(order(&rotated, OTHER), made(2, false));
    rotated.drained();
    let without_old = gateway(&folder, &ledger, K2);
    assert_eq!(order(&without_old, OTHER), made(2, true));
    is_refused(&without_old, KEY);
    assert_eq!(ledger.effects(), 2);
}

#[test]
fn what_was_kept_before_encryption_was_switched_on_is_replayed() {
    let (folder, ledger) = (folder(), Ledger::open(Honours::Nothing));
    let plain = gateway(&folder, &ledger, "");
    assert_eq!(order(&plain, KEY), made(1, false));
    assert!(!plain.drained().contains("encrypted"));
    assert!(is_on_disk(&folder, b"/orders/1"));
    let sealed = gateway(&folder, &ledger, K1);
    assert_eq!(order(&sealed, KEY), made(1, true));
    assert_eq!(order(&sealed, SECOND), made(2, false));
    assert!(!is_on_disk(&folder, b"/orders/2"));
    assert_eq!(ledger.effects(), 2);
}

#[test]
fn commands_open_with_the_configuration_and_say_without_it_which_key_is_missing() {
    let (folder, ledger) = (folder(), Ledger::open(Honours::Nothing));
    let gateway = gateway(&folder, &ledger, K1);
    assert_eq!(order(&gateway, KEY), made(1, false));
    gateway.drained();
    let with = ["--config", "s.toml"];
    let without = ["--store", "sqlite:records.db"];
    let listed = folder.json(&[&["keys", "list", "--json"], &with[..]].concat());
    let id = listed[0]["id"].as_str().expect("an id").to_owned();
    let run = |words: &[&str], store: [&str; 2]| -> Ran { folder.run(&[words, &store].concat()) };
    assert_eq!(run(&["keys", "show", &id], with).code, 0);
    for (words, code) in [(&["keys", "show", &id][..], 1), (&["keys", "list"], 0)] {
        let ran = run(words, without);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains("the key `k1`"), "{ran:?}");
        assert!(ran.err.contains("--config FILE"), "{ran:?}");
    }
    for words in [["store", "status"], ["keys", "stats"]] {
        let ran = run(&words, without);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    }
}

#[test]
fn a_wrong_key_is_told_at_the_start_with_its_line_and_what_to_do() {
    let (folder, ledger) = (folder(), Ledger::open(Honours::Nothing));
    let config = Config {
        to: &ledger,
        top: "encrypt_with = [{ id = \"k1\", file = \"none.key\" }]",
        idempotency: "",
    };
    folder.write("s.toml", config.text());
    for words in [&["config", "check"][..], &["gateway"], &["keys", "list"]] {
        let ran = folder.run(&[words, &["--config", "s.toml"]].concat());
        assert_eq!(ran.code, 3, "{words:?}: {ran:?}");
        let expected = "s.toml:4: error: encrypt_with: `none.key` cannot be read: ";
        assert!(ran.err.starts_with(expected), "{ran:?}");
        assert!(
            ran.err
                .ends_with("; correct the path or its permissions.\n"),
            "{ran:?}"
        );
    }
}
