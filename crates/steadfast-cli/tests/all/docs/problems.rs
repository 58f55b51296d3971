//! The table of problems in the reference is the one in the code.

use std::collections::BTreeMap;

use steadfast_core::problem::{Problem, Slug};

use crate::tidy::files;

#[test]
fn every_problem_is_in_the_reference_with_its_status_and_effect() {
    let page = files()
        .into_iter()
        .find(|file| file.path == "docs/reference.md");
    let page = page.expect("the reference is there").text;
    let (_, table) = page.split_once("\n## Problems\n").expect("its problems");
    let (table, _) = table.split_once("\n### ").expect("their end");
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", slug, status, effect, retryable, _, ""] = cells[..] else {
            return None;
        };
        let slug = slug.strip_prefix('`')?.strip_suffix('`')?;
        Some((slug, (status, effect, retryable)))
    });
    let mut rows: BTreeMap<&str, (&str, &str, &str)> = rows.collect();
    for slug in Slug::all() {
        let (status, effect, retryable) = rows
            .remove(slug.as_str())
            .unwrap_or_else(|| panic!("{slug} has no row"));
        let told = Problem::new(slug, "");
        let word = match told.effect.as_str() {
            _ if slug == Slug::ResponseNotStored => "as recorded",
            word => word,
        };
        assert!(status.contains(told.status.as_str()), "{slug}: {status}");
        assert!(effect.contains(word), "{slug}: {effect}");
        // The one that depends on the route says on what.
        let always = if told.retryable { "yes" } else { "no" };
        let holds = retryable.starts_with(always) || slug == Slug::OutcomeUnknown;
        assert!(holds, "{slug}: {retryable}");
    }
    assert!(rows.is_empty(), "no such problems: {rows:?}");
}
