//! What a file may say: a header, honest names, lines that fit, nothing left undone, no test that
//! is switched off or sleeps, and one canonical test for each rule.

use std::collections::BTreeMap;

use super::rust::{code, paths};
use super::{File, Finding, assert_none, files, lines};

/// Columns of a line of code.
const MOST_COLUMNS: usize = 100;

/// Names that say nothing, so everything ends up in them.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc"];

/// Sources of the product, and of what measures it, open with what they are.
fn headers(files: &[File]) -> Vec<Finding> {
    let is_source = |path: &str| {
        let ours = path.starts_with("crates/") || path.starts_with("benches/");
        ours && path.contains("/src/")
    };
    files
        .iter()
        .filter(|file| file.is_rust() && is_source(&file.path))
        .filter(|file| {
            !file
                .text
                .lines()
                .next()
                .is_some_and(|line| line.len() > 4 && line.starts_with("//! "))
        })
        .map(|file| {
            Finding::new(
                &file.path,
                1,
                "no `//!` header: say first what this file decides or does",
            )
        })
        .collect()
}

fn names(files: &[File]) -> Vec<Finding> {
    let message = |name: &str| format!("`{name}` says nothing: name the subject it is about");
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let parts = file.path.trim_end_matches(".rs").split('/');
        let empty = parts.filter(|part| EMPTY_NAMES.contains(part));
        found.extend(empty.map(|part| Finding::new(&file.path, 0, message(part))));
        for (index, line) in code(&file.text).lines().enumerate() {
            let mut words = line
                .split_whitespace()
                .skip_while(|word| *word != "mod")
                .skip(1);
            let name = words
                .next()
                .unwrap_or_default()
                .trim_end_matches([';', '{']);
            if EMPTY_NAMES.contains(&name) {
                found.push(Finding::new(&file.path, index + 1, message(name)));
            }
        }
    }
    found
}

/// Code and scripts. A line with a URL may be as long as the URL makes it.
fn columns(files: &[File]) -> Vec<Finding> {
    let is_code = |file: &&File| {
        file.is_rust()
            || [".py", ".sh", ".sql"]
                .iter()
                .any(|end| file.path.ends_with(end))
            || file.text.starts_with("#!")
    };
    let mut found = Vec::new();
    for file in files.iter().filter(is_code) {
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            let has_url = line.contains("http://") || line.contains("https://");
            if columns > MOST_COLUMNS && !has_url {
                let message = format!("{columns} columns, at most {MOST_COLUMNS}: break the line");
                found.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    found
}

fn undone(files: &[File]) -> Vec<Finding> {
    let marks = [
        (
            "todo!",
            "finish it, or leave it out and say so in ARCHITECTURE.md",
        ),
        (
            "unimplemented!",
            "finish it, or leave it out and say so in ARCHITECTURE.md",
        ),
        (
            "#[ignore",
            "make the test run in ./test, or move it to ./test clusters",
        ),
    ];
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (index, line) in code(&file.text).lines().enumerate() {
            for (mark, next) in marks.iter().filter(|(mark, _)| line.contains(mark)) {
                found.push(Finding::new(
                    &file.path,
                    index + 1,
                    format!("`{mark}`: {next}"),
                ));
            }
        }
    }
    found
}

/// Clippy denies these too, but an `expect` silences it; here only the clock's own file may.
fn sleeps(files: &[File]) -> Vec<Finding> {
    let sleeping = [
        "thread::sleep",
        "time::sleep",
        "time::sleep_until",
        "thread::sleep_ms",
    ];
    let mut found = Vec::new();
    for file in files
        .iter()
        .filter(|f| f.is_rust() && f.path != "crates/steadfast/src/clock.rs")
    {
        for path in paths(&code(&file.text)) {
            if sleeping.iter().any(|sleep| path.ends_with(sleep)) {
                let message = "a real sleep: wait for the condition itself, or go through clock.rs";
                found.push(Finding::new(&file.path, path.line, message));
            }
        }
    }
    found
}

/// `// rule: NAME` stands above the one canonical test of a rule.
fn rules(files: &[File]) -> Vec<Finding> {
    const MARK: &str = "// rule: ";
    let mut seen: BTreeMap<&str, String> = BTreeMap::new();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let raw: Vec<&str> = file.text.lines().collect();
        for (index, line) in raw.iter().enumerate() {
            let Some(rule) = line.trim_start().strip_prefix(MARK) else {
                continue;
            };
            let place = format!("{}:{}", file.path, index + 1);
            let next = raw[index + 1..].iter().map(|line| line.trim_start());
            let under = next
                .clone()
                .find(|line| !line.starts_with("//"))
                .unwrap_or_default();
            if !under.starts_with("#[") && !under.contains("fn ") {
                let message = format!("rule `{rule}` marks no test: put it right above one");
                found.push(Finding::new(&file.path, index + 1, message));
            }
            if let Some(first) = seen.insert(rule.trim(), place) {
                let message = format!("rule `{rule}` is also at {first}: keep one canonical test");
                found.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    found
}

#[test]
fn sources_open_with_a_header() {
    assert_none(&headers(&files()));
}

#[test]
fn files_and_modules_are_named_after_a_subject() {
    assert_none(&names(&files()));
}

#[test]
fn lines_of_code_fit() {
    assert_none(&columns(&files()));
}

#[test]
fn nothing_is_left_undone_or_switched_off() {
    assert_none(&undone(&files()));
}

#[test]
fn nothing_sleeps_but_the_clock() {
    assert_none(&sleeps(&files()));
}

#[test]
fn a_rule_has_one_canonical_test() {
    assert_none(&rules(&files()));
}

type Check = fn(&[File]) -> Vec<Finding>;

#[test]
fn wrong_words_are_found_where_they_stand() {
    let wide = format!("x\n// {}\n// https://{}\n", "é".repeat(98), "u".repeat(98));
    let table: [(Check, &str, &str, Vec<usize>); 19] = [
        (headers, "crates/a/src/a.rs", "//! A clock.\n", vec![]),
        (headers, "crates/a/src/a.rs", "use a;\n", vec![1]),
        (headers, "crates/a/src/a.rs", "", vec![1]),
        (headers, "crates/a/src/a.rs", "//!\n", vec![1]),
        (headers, "benches/src/a.rs", "use a;\n", vec![1]),
        (names, "crates/a/src/utils.rs", "", vec![0]),
        (names, "crates/a/src/a.rs", "\npub mod helpers {\n", vec![2]),
        (
            names,
            "crates/a/src/futures_util.rs",
            "mod common_law;",
            vec![],
        ),
        (columns, "crates/a/src/a.rs", &wide, vec![2]),
        (columns, "docs/a.md", &wide, vec![]),
        (undone, "a.rs", "f(\"todo!()\");\ntodo!();", vec![2]),
        (
            undone,
            "a.rs",
            "#[ignore = \"slow\"]\nunimplemented!()",
            vec![1, 2],
        ),
        (
            sleeps,
            "a.rs",
            "use std::{thread, time};\nthread::sleep(x);",
            vec![2],
        ),
        (
            sleeps,
            "a.rs",
            "use tokio::time::{interval, sleep};",
            vec![1],
        ),
        (sleeps, "a.rs", "clock.sleep(x);\nclock::sleep(x)", vec![]),
        (
            sleeps,
            "crates/steadfast/src/clock.rs",
            "tokio::time::sleep(x)",
            vec![],
        ),
        (
            rules,
            "a.rs",
            "// rule: a\n#[test]\nfn t() {}\n// rule: b\nfn u() {}",
            vec![],
        ),
        (
            rules,
            "a.rs",
            "// rule: a\n#[test]\nfn t() {}\n// rule: a\n#[test]",
            vec![4],
        ),
        (rules, "a.rs", "// rule: a\n// why\nlet x = 1;", vec![1]),
    ];
    for (check, path, text, expected) in table {
        assert_eq!(
            lines(&check(&[File::new(path, text)])),
            expected,
            "{path}:\n{text}"
        );
    }
}
