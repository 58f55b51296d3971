//! No command stands in a document that nothing runs.

use super::{Kind, blocks, is_guide};
use crate::tidy::files;

/// Commands that stand in a document and cannot run in its test, each with the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("./test", "it runs this test"),
    ("./test fast", "the same"),
    (
        "cargo install --locked --path crates/steadfast-cli",
        "it writes to the folder of whoever runs the tests; the binary is here already",
    ),
    (
        "told=$(curl --silent --show-error \\",
        "a line of a script that `clients` runs, as it checks",
    ),
    (
        "--retry 4 --retry-all-errors --retry-delay 1 --retry-max-time 120 \\",
        "the same",
    ),
    ("--connect-timeout 2 --max-time \"$seconds\" \\", "the same"),
    (
        "cargo run -p steadfast --features axum --example axum_orders -- 3000 /tmp/orders",
        "the library's tests run this example",
    ),
    (
        "benches/run                # every part, some six minutes",
        "minutes of load; the benches' own tests run each part for a moment",
    ),
    ("benches/run --quick        # for a look", "the same"),
    (
        "benches/run --only pass    # one part; several may follow",
        "the same",
    ),
    (
        "benches/run --long         # growth and memory as well: half an hour",
        "the same",
    ),
    (
        "benches/run --check        # exit code 1 when a goal is missed by more than a quarter",
        "the same",
    ),
    ("benches/run --markdown     # the tables below", "the same"),
];

/// Line and text of every command of a shell block that does not take part and is neither run by
/// a block that does nor excused.
fn unrun(document: &str) -> Vec<(usize, &str)> {
    let run = blocks(document);
    let is_run = |command: &str| {
        let ran = run.iter().filter(|block| block.kind != Kind::Prints);
        let mut lines = ran.flat_map(|block| block.text.lines());
        lines.any(|line| line.trim() == command)
    };
    let is_excused = |command: &str| NOT_RUN.iter().any(|(excused, _)| *excused == command);
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in document.lines().enumerate() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            fence = fence.is_none().then_some(info);
            continue;
        }
        let mut words = fence.unwrap_or_default().split_whitespace();
        let shell = words
            .next()
            .is_some_and(|word| ["sh", "bash", "shell", "console"].contains(&word));
        let command = line.trim();
        let counts = shell && words.next() != Some("test") && !command.is_empty();
        if counts && !is_run(command) && !is_excused(command) {
            found.push((index + 1, command));
        }
    }
    found
}

#[test]
fn every_command_in_the_documents_is_run_or_says_why_not() {
    let mut missed = Vec::new();
    for file in files().iter().filter(|file| is_guide(file)) {
        for (line, command) in unrun(&file.text) {
            missed.push(format!(
                "{}:{line}: no test runs `{command}`: mark its block `sh test`",
                file.path
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_command_that_nothing_runs_is_found() {
    let document = "```sh\na\nb\n\n./test\n```\n```sh test\nb\n```\n```bash\nc\n```\n\
                    ```toml\nd\n```\n```text test\na\n```\n";
    assert_eq!(unrun(document), [(2, "a"), (11, "c")]);
}
