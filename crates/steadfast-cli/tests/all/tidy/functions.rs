//! A function fits on a screen: 70 lines from `fn` to its closing brace, signature included.
//!
//! Tests are exempt. So is a table that happens to be written as a function, when the line above it
//! (above its attributes, too) says `// tidy: table, because REASON`.

use super::rust::{block_end, code, is_test_file, test_lines};
use super::{File, Finding, assert_none, files, lines};

/// One screen.
const MOST_LINES: usize = 70;
const EXEMPT: &str = "// tidy: table, because ";

fn check(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .filter(|f| f.is_rust() && !is_test_file(&f.path))
        .flat_map(too_long)
        .collect()
}

fn too_long(file: &File) -> Vec<Finding> {
    let code = code(&file.text);
    let tests = test_lines(&code);
    let raw: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let bounded = code[..at]
            .chars()
            .next_back()
            .is_none_or(char::is_whitespace);
        let Some(end) = block_end(&code, at).filter(|_| bounded) else {
            continue;
        };
        let line = code[..at].matches('\n').count() + 1;
        let length = code[at..end].matches('\n').count() + 1;
        let in_test = tests.iter().any(|(from, to)| (*from..=*to).contains(&line));
        if length > MOST_LINES && !in_test && !is_exempt(&raw[..line - 1]) {
            let message = format!(
                "a function of {length} lines, at most {MOST_LINES}: take a step out under its own \
                 name, or mark a table with `{EXEMPT}REASON`"
            );
            found.push(Finding::new(&file.path, line, message));
        }
    }
    found
}

/// Whether the attributes and comments that end `above` hold the mark, with a reason.
fn is_exempt(above: &[&str]) -> bool {
    above
        .iter()
        .rev()
        .map(|line| line.trim())
        .take_while(|line| line.starts_with("//") || line.starts_with("#["))
        .any(|line| {
            line.strip_prefix(EXEMPT.trim_end())
                .is_some_and(|why| why.trim().len() > 3)
        })
}

#[test]
fn functions_fit_on_a_screen() {
    assert_none(&check(&files()));
}

#[test]
fn a_long_function_is_found_unless_it_is_a_test_or_a_marked_table() {
    let body = |lines: usize| format!("fn f() {{\n{}}}\n", "    x();\n".repeat(lines - 2));
    let (fits, long) = (body(MOST_LINES), body(MOST_LINES + 1));
    let table = [
        ("crates/a/src/a.rs", fits.clone(), vec![]),
        (
            "crates/a/src/a.rs",
            format!("{fits}\n{long}"),
            vec![MOST_LINES + 2],
        ),
        ("crates/a/src/a.rs", format!("pub async {long}"), vec![1]),
        (
            "crates/a/src/a.rs",
            format!("#[cfg(test)]\nmod tests {{\n{long}}}\n"),
            vec![],
        ),
        ("crates/a/src/a/tests.rs", long.clone(), vec![]),
        (
            "crates/a/src/a.rs",
            format!("{EXEMPT}one row a status\n#[inline]\n{long}"),
            vec![],
        ),
        ("crates/a/src/a.rs", format!("{EXEMPT}\n{long}"), vec![2]),
        (
            "crates/a/src/a.rs",
            format!("trait T {{ fn g(a: [u8; 2]); }}\n{long}"),
            vec![2],
        ),
    ];
    for (path, text, expected) in table {
        assert_eq!(
            lines(&check(&[File::new(path, &text)])),
            expected,
            "{path}:\n{text}"
        );
    }
}
