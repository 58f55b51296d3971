//! The requirement table of ARCHITECTURE.md: every requirement has one row, and what a row claims
//! exists. A row that is not met says `not yet`; a row may be met in part and say both.

use std::collections::BTreeSet;

use super::rust::code;
use super::{File, Finding, assert_none, files, lines};

const TABLE: &str = "ARCHITECTURE.md";

/// Letter and highest number of each group of requirements.
const GROUPS: &[(&str, usize)] = &[
    ("T", 6),
    ("R", 12),
    ("I", 13),
    ("D", 3),
    ("C", 1),
    ("U", 3),
    ("S", 3),
    ("O", 3),
    ("L", 4),
];

struct Row<'a> {
    line: usize,
    id: &'a str,
    place: &'a str,
    test: &'a str,
}

fn check(files: &[File]) -> Vec<Finding> {
    let Some(table) = files.iter().find(|file| file.path == TABLE) else {
        return vec![Finding::new(
            TABLE,
            0,
            "is missing: write the table id, where, test",
        )];
    };
    let wanted: Vec<String> = GROUPS
        .iter()
        .flat_map(|(letter, last)| (1..=*last).map(move |number| format!("{letter}{number}")))
        .collect();
    let rows: Vec<Row<'_>> = rows(&table.text)
        .into_iter()
        .filter(|row| wanted.iter().any(|id| id == row.id))
        .collect();
    let mut found = Vec::new();
    for id in &wanted {
        let own: Vec<&Row<'_>> = rows.iter().filter(|row| row.id == id).collect();
        if own.is_empty() {
            let message = format!("no row for {id}: add one, with `not yet` if it is not met");
            found.push(Finding::new(TABLE, 0, message));
        }
        for row in own.iter().skip(1) {
            found.push(Finding::new(
                TABLE,
                row.line,
                format!("a second row for {id}: merge them"),
            ));
        }
    }
    let known = Known::new(files);
    for row in &rows {
        found.extend(
            claims(row, &known)
                .into_iter()
                .map(|m| Finding::new(TABLE, row.line, m)),
        );
    }
    found
}

fn rows(text: &str) -> Vec<Row<'_>> {
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let cells: Vec<&str> = line.trim().split('|').map(str::trim).collect();
            let ["", id, place, test, ""] = cells[..] else {
                return None;
            };
            Some(Row {
                line: index + 1,
                id,
                place,
                test,
            })
        })
        .collect()
}

/// What is wrong with a row's claims.
fn claims(row: &Row<'_>, known: &Known<'_>) -> Vec<String> {
    let not_yet = row.test.contains("not yet");
    let tests = quoted(row.test);
    let mut wrong = Vec::new();
    if tests.is_empty() && !not_yet {
        wrong.push(format!(
            "{} names no test: name one in backticks, or say `not yet`",
            row.id
        ));
    }
    for name in tests.iter().filter(|name| !known.has(name)) {
        wrong.push(format!(
            "{}: no test or file `{name}`: correct the name",
            row.id
        ));
    }
    // The place of what is not built yet is a plan; it need not exist.
    for name in quoted(row.place)
        .iter()
        .filter(|name| !not_yet && !known.has(name))
    {
        wrong.push(format!("{}: no place `{name}`: correct the name", row.id));
    }
    wrong
}

fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// What a row may name: a file (from the root, or the end of one's path), or a function.
struct Known<'a> {
    paths: Vec<&'a str>,
    functions: BTreeSet<String>,
}

impl Known<'_> {
    fn new(files: &[File]) -> Known<'_> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut functions = BTreeSet::new();
        for file in files.iter().filter(|file| file.is_rust()) {
            let code = code(&file.text);
            for (index, _) in code.match_indices("fn ") {
                let rest = &code[index + 3..];
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                functions.insert(rest[..end].to_owned());
            }
        }
        Known {
            paths: files.iter().map(|file| file.path.as_str()).collect(),
            functions,
        }
    }

    fn has(&self, name: &str) -> bool {
        let end = format!("/{name}");
        self.functions
            .contains(name.rsplit("::").next().unwrap_or(name))
            || self
                .paths
                .iter()
                .any(|path| *path == name || path.ends_with(&end))
    }
}

#[test]
fn every_requirement_has_one_honest_row() {
    assert_none(&check(&files()));
}

#[test]
fn a_missing_double_or_boasting_row_is_found() {
    let rows: Vec<String> = GROUPS
        .iter()
        .flat_map(|(letter, last)| {
            (1..=*last).map(move |n| format!("| {letter}{n} | x | not yet |"))
        })
        .collect();
    let table = rows.join("\n");
    let source = File::new(
        "crates/a/src/a.rs",
        "//! A.\nfn it_holds() {} // fn it_does_not()",
    );
    let with = |row: &str| {
        let text = table.replace("| T1 | x | not yet |", row);
        check(&[
            File::new(TABLE, &text),
            File::new(&source.path, &source.text),
        ])
    };
    let samples = [
        ("| T1 | `a.rs` | `a::it_holds` |", vec![]),
        ("| T1 | `a.rs` | `it_holds`; not yet: the rest |", vec![]),
        ("| T1 | `planned.rs` | not yet |", vec![]),
        ("| T1 | `planned.rs` | `it_holds` |", vec![1]),
        ("| T1 | `a.rs` | `it_does_not` |", vec![1]),
        ("| T1 | `a.rs` | done |", vec![1]),
        ("| T9 | x | not yet |", vec![0]),
        ("| T2 | x | not yet |", vec![0, 2]),
    ];
    for (row, expected) in samples {
        assert_eq!(lines(&with(row)), expected, "{row}");
    }
    assert_eq!(lines(&check(&[])), [0]);
}
