//! Relative links between the documents lead somewhere: to a file that exists, and to a heading
//! that it has.

use super::{File, Finding, assert_none, files, lines};

fn check(files: &[File]) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in links(&file.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if let Some(message) = broken(file, target, files) {
                found.push(Finding::new(&file.path, line, message));
            }
        }
    }
    found
}

/// Line and target of every `[text](target)` outside fenced blocks and code spans.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        for (at, _) in line.match_indices("](") {
            let in_span = line[..at].matches('`').count() % 2 == 1 && line[at..].contains('`');
            let rest = &line[at + 2..];
            if let Some(end) = rest.find(')').filter(|_| !fenced && !in_span) {
                found.push((index + 1, &rest[..end]));
            }
        }
    }
    found
}

fn broken(from: &File, target: &str, files: &[File]) -> Option<String> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let full = if path.is_empty() {
        Some(from.path.clone())
    } else {
        resolved(&from.path, path)
    };
    let Some(full) = full else {
        return Some(format!(
            "`{target}` leaves the repository: link to the web address instead"
        ));
    };
    let folder = format!("{}/", full.trim_end_matches('/'));
    let Some(to) = files.iter().find(|file| file.path == full) else {
        let is_folder = files.iter().any(|file| file.path.starts_with(&folder));
        return (!is_folder).then(|| format!("`{target}` does not exist: correct the link"));
    };
    let known = heading.is_empty()
        || to
            .text
            .lines()
            .filter(|line| line.starts_with('#'))
            .any(|line| slug(line) == heading);
    (!known).then(|| format!("`{target}` has no such heading: correct the part after `#`"))
}

/// `path` as seen from the file `from`; none when it climbs above the root.
fn resolved(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The name that GitHub gives a heading: lower case, blanks to `-`, punctuation gone.
fn slug(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter_map(kept)
        .collect()
}

#[test]
fn relative_links_lead_somewhere() {
    assert_none(&check(&files()));
}

#[test]
fn a_broken_link_is_found_and_a_good_one_is_not() {
    let table = [
        ("[a](docs/a.md)", vec![]),
        ("[a](./docs/) [b](#one-two-three)", vec![]),
        ("[a](docs/a.md#way-out)", vec![]),
        ("[a](https://example.org/x)", vec![]),
        ("`[a](none.md)`\n```\n[a](none.md)\n```", vec![]),
        ("x\n[a](docs/none.md)", vec![2]),
        ("[a](docs/a.md#way-in)", vec![1]),
        ("[a](../x.md)", vec![1]),
    ];
    for (text, expected) in table {
        let text = format!("{text}\n# One `two`: three\n");
        let files = [
            File::new("README.md", &text),
            File::new("docs/a.md", "## Way out\n"),
        ];
        assert_eq!(lines(&check(&files)), expected, "{text}");
    }
    let back = [
        File::new("docs/a.md", "[r](../README.md)"),
        File::new("README.md", ""),
    ];
    assert_eq!(lines(&check(&back)), [0usize; 0]);
}
