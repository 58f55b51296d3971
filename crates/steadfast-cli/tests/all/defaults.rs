//! Every default in the code stands in `docs/defaults.md` with its value, and nothing else does.
//! The tests that its tables name exist, and are about more than the number's being there.

use std::collections::BTreeMap;

use serde_json::Value;
use steadfast::client::pool::{
    MAX_INFORMATIONAL, MAX_RESPONSE_FIELDS, MAX_RESPONSE_HEAD_BYTES, MAX_STREAMS,
    NEXT_ADDRESS_AFTER,
};
use steadfast::server;
use steadfast_cli::gateway::{framing, listen};
use steadfast_cli::settings::environment::Environment;
use steadfast_cli::settings::value::{show_length, show_size};
use steadfast_cli::settings::{for_upstream, show, top::Flags};
use steadfast_core::{fingerprint, lookup, record};

use crate::tidy::files;

const PAGE: &str = "docs/defaults.md";

/// What only the operator knows, or what is a label: no defaults.
const NO_DEFAULT: [&str; 3] = ["name", "path", "to"];

/// Tests that compare numbers with numbers, and show none of them at work.
const ONLY_COMPARE: [&str; 4] = [
    "every_default_in_the_code_stands_here_with_its_value",
    "the_sample_without_these_says_what_is_built_in",
    "the_two_sources_of_a_listeners_drain_agree",
    "what_is_shown_is_a_configuration_that_means_the_same",
];

/// Defaults that may name one of these all the same, each with the reason.
const NOT_AT_WORK: [(&str, &str); 0] = [];

struct Row<'a> {
    name: &'a str,
    value: &'a str,
    test: &'a str,
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, value, _, test, ""] = cells[..] else {
            return None;
        };
        // The heads of the tables, and the lines below them, are no rows.
        value.starts_with('`').then_some(Row {
            name: name.trim_matches('`'),
            value: value.trim_matches('`'),
            test: test.trim_matches('`'),
        })
    });
    rows.collect()
}

/// Every setting of a gateway that was told nothing but where its service is.
fn settings() -> BTreeMap<String, String> {
    let nothing = Environment::from_iter([]);
    let settings = for_upstream("http://127.0.0.1:1", &Flags::default(), &nothing)
        .unwrap_or_else(|faults| panic!("{faults}"));
    let shown = show::top(&settings.top).into_iter();
    let shown = shown.chain(settings.routes.iter().flat_map(show::route));
    let plain = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    shown
        .filter(|shown| !NO_DEFAULT.contains(&shown.name))
        .map(|shown| (shown.name.to_owned(), plain(&shown.value)))
        .collect()
}

/// The bounds that nobody sets.
fn bounds() -> BTreeMap<String, String> {
    let (front, server) = (listen::Limits::default(), server::Limits::default());
    let http2 = front.http2.expect("HTTP/2 is spoken");
    let window = usize::try_from(http2.window).expect("a size");
    let linger = usize::try_from(front.linger_bytes).expect("a size");
    let table = [
        ("request head", show_size(front.head.bytes)),
        ("request header fields", front.head.fields.to_string()),
        ("time for a request head", show_length(front.head_time)),
        ("idle connection of a caller", show_length(front.idle)),
        (
            "caller takes no byte of an answer",
            show_length(front.write_stall),
        ),
        ("bytes read after an early refusal", show_size(linger)),
        ("time they are read", show_length(front.linger_time)),
        ("callers' connections", front.connections.to_string()),
        ("HTTP/2 streams at once", http2.streams.to_string()),
        ("HTTP/2 streams given up", http2.resets.to_string()),
        ("HTTP/2 malformed streams", http2.malformed.to_string()),
        ("HTTP/2 unread bytes of a body", show_size(window)),
        (
            "HTTP/2 silence before a ping",
            show_length(http2.ping_every),
        ),
        ("HTTP/2 time for its answer", show_length(http2.ping_answer)),
        ("chunk size line", show_size(framing::MAX_SIZE_LINE)),
        (
            "chunk extensions of one body",
            show_size(framing::MAX_EXTENSIONS),
        ),
        ("trailers of one body", show_size(framing::MAX_TRAILERS)),
        ("trailer fields", framing::MAX_TRAILER_FIELDS.to_string()),
        (
            "wait before the next address of a name",
            show_length(NEXT_ADDRESS_AFTER),
        ),
        (
            "HTTP/2 streams on one connection to a service",
            MAX_STREAMS.to_string(),
        ),
        ("response head", show_size(MAX_RESPONSE_HEAD_BYTES)),
        ("response header fields", MAX_RESPONSE_FIELDS.to_string()),
        (
            "informational responses before one answer",
            MAX_INFORMATIONAL.to_string(),
        ),
        (
            "keyed requests at work in a process",
            server.tasks.to_string(),
        ),
        (
            "waiting duplicates in a process",
            server.waiters.to_string(),
        ),
        (
            "lines of one record's history",
            record::HISTORY_MAX.to_string(),
        ),
        (
            "settle of a look-up or a compensation",
            show_length(lookup::SETTLE),
        ),
        (
            "longest pause between two look-ups",
            show_length(lookup::LONGEST_PAUSE),
        ),
        (
            "value that a look-up takes from a body",
            show_size(lookup::LONGEST_VALUE),
        ),
        (
            "path or body of a look-up or a compensation",
            show_size(lookup::LONGEST_TEMPLATE),
        ),
        (
            "pointers in `fingerprint_ignore`",
            fingerprint::MAX_IGNORED.to_string(),
        ),
    ];
    table.map(|(name, value)| (name.to_owned(), value)).into()
}

fn page() -> String {
    let page = files().into_iter().find(|file| file.path == PAGE);
    page.expect("docs/defaults.md is there").text
}

#[test]
fn every_default_in_the_code_stands_here_with_its_value() {
    let page = page();
    let documented: BTreeMap<&str, &str> = rows(&page).iter().map(|r| (r.name, r.value)).collect();
    let mut wrong = Vec::new();
    let (mut code, bounds) = (settings(), bounds());
    code.extend(bounds);
    for (name, value) in &code {
        // A cell of a table cannot end in a backtick of its own name.
        let name = name.trim_matches('`');
        match documented.get(name) {
            Some(written) if written == value => {}
            Some(written) => wrong.push(format!("{name} is {value}, {PAGE} says {written}")),
            None => wrong.push(format!("{name} = {value} is missing in {PAGE}")),
        }
    }
    for name in documented.keys() {
        let known = code.keys().any(|own| own.trim_matches('`') == *name);
        if !known {
            wrong.push(format!("{PAGE} has {name}, which is no default: remove it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(documented.len(), rows(&page).len(), "a row stands twice");
}

#[test]
fn the_two_sources_of_a_listeners_drain_agree() {
    let settings = settings();
    let drain = show_length(listen::Limits::default().drain);
    assert_eq!(settings.get("drain"), Some(&drain));
    let lease = show_length(server::Limits::default().lease);
    assert_eq!(settings.get("idempotency.lease"), Some(&lease));
}

#[test]
fn every_default_names_a_test_that_shows_it_at_work() {
    let (page, files) = (page(), files());
    let rows = rows(&page);
    assert!(rows.len() > 50, "the tables were not read");
    let sources: Vec<&str> = files
        .iter()
        .filter(|f| f.is_rust())
        .map(|f| &*f.text)
        .collect();
    let missing: Vec<&str> = rows
        .iter()
        .map(|row| row.test)
        .filter(|test| !sources.iter().any(|source| has_test(source, test)))
        .collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
    let compared: Vec<&str> = rows
        .iter()
        .filter(|row| ONLY_COMPARE.contains(&row.test))
        .map(|row| row.name)
        .collect();
    let excused = NOT_AT_WORK.map(|(name, _)| name);
    assert_eq!(compared, excused, "name a test in which the number decides");
}

/// Whether `source` has a function of this name that is run as a test.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    source.match_indices(&head).any(|(at, _)| {
        let start = source[..at].rfind('\n').map_or(0, |end| end + 1);
        let is_code = !source[start..at].contains("//");
        let before = source[..start].lines().rev();
        let mut attributes = before.take_while(|line| is_code && !line.trim().is_empty());
        attributes.any(|line| {
            let line = line.trim();
            line == "#[test]" || line.starts_with("#[tokio::test")
        })
    })
}

#[test]
fn only_a_function_that_runs_counts_as_a_test() {
    let source = "#[test]\nfn a() {}\n\nfn b() {}\n\n    #[tokio::test(start_paused = true)]\n    \
                  async fn c() {}\n\n#[test]\n// fn d() {}\n";
    let found: Vec<&str> = ["a", "b", "c", "d"]
        .into_iter()
        .filter(|name| has_test(source, name))
        .collect();
    assert_eq!(found, ["a", "c"]);
}
