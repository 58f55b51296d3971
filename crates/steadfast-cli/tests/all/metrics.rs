//! What the gateway counts, over its own process: each metric moves as it says, under its name and
//! labels, and a program that is not ours reads the format.

use std::collections::BTreeMap;
use std::net::TcpListener;

use serde_json::Value;

use crate::stage::{Caller, Config, Folder, Honours, Ledger, Obliging, Request, finish, until};

mod moves;

/// Counters by series.
type Counts = BTreeMap<String, f64>;

/// The series of `text` whose names begin with one of `names`.
fn counts(text: &str, names: &[&str]) -> Counts {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let named = lines.filter(|line| names.iter().any(|name| line.starts_with(name)));
    let series = named.map(|line| {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        (series.to_owned(), value.parse().expect("a number"))
    });
    series.collect()
}

/// One series of `text`; zero where it is not there.
fn count(text: &str, series: &str) -> f64 {
    let all = counts(text, &[series]);
    all.get(series).copied().unwrap_or(0.0)
}

/// A port that nobody listens on.
fn nobody() -> String {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port");
    holder.local_addr().expect("its address").to_string()
}

/// Reads the format, and says of each family its type and the sets of its samples' labels.
const READ: &str = r#"
import json, sys
from prometheus_client.parser import text_string_to_metric_families
families = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.documentation, family.name
    labels = {tuple(sorted(set(sample.labels) - {"le"})) for sample in family.samples}
    names = {sample.name for sample in family.samples}
    families[family.name] = [family.type, sorted(map(list, labels)), sorted(names)]
print(json.dumps(families))
"#;

/// What a program that is not ours reads in `text`.
fn read(folder: &Folder, text: &str) -> Value {
    folder.write("metrics.txt", text);
    let mut command = folder.command("/usr/bin/python3");
    let file = std::fs::File::open(folder.path("metrics.txt")).expect("the file");
    command.args(["-c", READ]).stdin(file);
    let ran = finish(command);
    assert_eq!(ran.code, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).expect("JSON")
}

// rule: metrics-have-their-names-and-labels
#[test]
fn every_metric_has_its_name_type_and_labels_for_a_reader_that_is_not_ours() {
    let (folder, ledger) = (Folder::new(), Ledger::open(Honours::Nothing));
    let config = Config {
        to: &ledger,
        top: "",
        idempotency: "",
    };
    folder.write("s.toml", config.text());
    let gateway = folder.gateway();
    let key = "0b2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c11";
    assert_eq!(gateway.ask(&Request::order(key)).expect("one").status, 201);
    assert_eq!(
        gateway.ask(&Request::order(key)).expect("again").status,
        201
    );
    let caller = Caller::to(gateway.admin).expect("the admin address");
    let answer = caller.ask(&Request::get("/metrics")).expect("an answer");
    let kind = answer.field("content-type");
    assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
    let families = read(&folder, &String::from_utf8_lossy(&answer.body));
    let table: &[(&str, &str, &[&str])] = &[
        ("requests", "counter", &["outcome", "route"]),
        ("attempts", "counter", &["attempt", "result", "route"]),
        ("retries_skipped", "counter", &["reason", "route"]),
        ("keyed", "counter", &["outcome", "route"]),
        ("unprotected", "counter", &["route"]),
        ("records", "gauge", &["state"]),
        ("leases_expired", "counter", &["instance"]),
        ("records_expired", "counter", &[]),
        ("expiry_lag_seconds", "gauge", &[]),
        ("upstream_inflight", "gauge", &["upstream"]),
        ("retry_budget_ratio", "gauge", &["upstream"]),
        ("breaker_state", "gauge", &["state", "upstream"]),
        ("waiters", "gauge", &["kind"]),
        ("wait_seconds", "histogram", &["kind"]),
        ("hold_seconds", "histogram", &["kind"]),
        ("store_seconds", "histogram", &["operation"]),
        ("store_up", "gauge", &[]),
        ("request_seconds", "histogram", &["route"]),
        ("attempt_seconds", "histogram", &["route"]),
        ("malformed", "counter", &[]),
        ("log_lines_dropped", "counter", &[]),
    ];
    let mut families = families.as_object().expect("families").clone();
    for (name, kind, labels) in table {
        let family = families.remove(&format!("steadfast_{name}"));
        if ["retries_skipped", "leases_expired"].contains(name) && family.is_none() {
            // Without a sample there is no family.
            continue;
        }
        let family = family.unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(family[0], *kind, "{name}");
        assert_eq!(family[1], serde_json::json!([labels]), "{name}");
        if *kind == "counter" {
            let sample = format!("steadfast_{name}_total");
            assert_eq!(family[2], serde_json::json!([sample]), "{name}");
        }
    }
    let left: Vec<_> = families.keys().collect();
    assert!(left.is_empty(), "not documented: {left:?}");
}

#[test]
fn every_metric_is_in_the_documents() {
    let (folder, ledger) = (Folder::new(), Ledger::open(Honours::Nothing));
    let config = Config {
        to: &ledger,
        top: "",
        idempotency: "",
    };
    folder.write("s.toml", config.text());
    let page = crate::tidy::files().into_iter();
    let page = page.filter(|file| file.path == "docs/operations.md");
    let page: String = page.map(|file| file.text).collect();
    let text = folder.gateway().metrics();
    let named = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<&str> = named.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() > 15, "{text}");
    for name in names {
        assert!(page.contains(&format!("`{name}")), "{name} has no row");
    }
}
