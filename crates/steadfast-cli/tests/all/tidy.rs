//! The walls of ARCHITECTURE.md, as tests over the repository's own text.
//!
//! Each check is a pure function from files to findings, so that its self-test feeds it a small
//! wrong sample; one test runs it over the tree. A finding names file and line, and its message
//! ends with the next step. What the compiler, the manifests or clippy can hold is not repeated.

mod functions;
mod imports;
mod links;
mod requirements;
mod rust;
mod words;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A text file of the repository.
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// Its whole text.
    pub text: String,
}

impl File {
    /// A sample for a self-test.
    pub fn new(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Something wrong at a place. A line of 0 means the whole file.
#[derive(Debug, PartialEq)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub message: String,
}

impl Finding {
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// The repository's root, two folders above this crate's manifest.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .ancestors()
        .nth(2)
        .expect("the crate lies in crates/NAME")
        .to_owned()
}

/// Every text file that belongs to the repository: no build output (cargo marks its folders with
/// `CACHEDIR.TAG`), no `.git`, nothing that is not UTF-8.
pub fn files() -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository can be read") {
            let entry = entry.expect("an entry of the repository can be read");
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().expect("an entry has a type");
            if kind.is_dir() {
                let built = name == "target" || path.join("CACHEDIR.TAG").exists();
                if !built && name != ".git" {
                    folders.push(path);
                }
            } else if kind.is_file() {
                let relative = path
                    .strip_prefix(&root)
                    .expect("the walk stays below the root");
                if let (Some(relative), Ok(text)) = (relative.to_str(), fs::read_to_string(&path)) {
                    found.push(File::new(relative, &text));
                }
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Fails with every finding, one a line.
pub fn assert_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(
        findings.is_empty(),
        "{} finding(s):\n{}",
        findings.len(),
        lines.join("\n")
    );
}

/// The lines of the findings, for self-tests.
pub fn lines(findings: &[Finding]) -> Vec<usize> {
    findings.iter().map(|finding| finding.line).collect()
}

#[test]
fn the_walk_sees_the_tree_and_no_build_output() {
    let files = files();
    let has = |path: &str| files.iter().any(|file| file.path == path);
    assert!(has("Cargo.toml") && has("crates/steadfast-core/src/lib.rs") && has("README.md"));
    assert!(!files.iter().any(|file| file.path.starts_with("target/")));
}
