//! What others' users met, tried on the gateway over real sockets. Each test names the public
//! report it comes from; docs/cases.md lists these and the ones that other tests cover.

mod answers;
mod bodies;
mod connections;
mod pooling;
mod racing;
mod spellings;
mod trailers;

use std::collections::BTreeSet;

use crate::tidy::{File, files};

const PAGE: &str = "docs/cases.md";

/// The tests in the last column of the page's tables.
fn named(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let names = last.flat_map(|cell| cell.split(", "));
    names
        .filter_map(|name| name.strip_prefix('`')?.strip_suffix('`'))
        .collect()
}

/// What a comment names as `owner/repository#number` or `CVE-…`.
fn told(file: &File) -> BTreeSet<&str> {
    let comments = file.text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("// ")
    });
    let words = comments.flat_map(str::split_whitespace);
    let words = words.map(|word| word.trim_matches([',', ':', ';', '.', '(', ')']));
    words
        .filter(|word| word.contains('/') && word.contains('#') || word.starts_with("CVE-"))
        .collect()
}

#[test]
fn every_case_names_a_test_that_exists_and_every_report_in_a_test_is_a_case() {
    let files = files();
    let page = files.iter().find(|file| file.path == PAGE);
    let page = &page.expect("docs/cases.md is there").text;
    let exists = |test: &&str| {
        let head = format!("fn {test}(");
        let mut code = files.iter().filter(|file| file.is_rust());
        code.any(|file| file.text.contains(&head))
    };
    let named = named(page);
    assert!(named.len() > 100, "the tables were not read");
    let missing: Vec<&&str> = named.iter().filter(|test| !exists(test)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
    let of_reports = files.iter().filter(|file| file.path.contains("/reports/"));
    let told: BTreeSet<&str> = of_reports.flat_map(told).collect();
    assert!(told.len() > 40, "the comments were not read");
    let left_out: Vec<&&str> = told
        .iter()
        .filter(|report| !page.contains(**report))
        .collect();
    assert!(left_out.is_empty(), "not in {PAGE}: {left_out:?}");
}
