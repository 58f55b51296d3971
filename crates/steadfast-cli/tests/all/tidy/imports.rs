//! Who may import what. The manifests hold most of it; this holds what a manifest cannot say
//! (`std`, folders of one crate) and keeps the manifests themselves from growing the wrong way.

use super::rust::{code, paths};
use super::{File, Finding, assert_none, files, lines};

struct Wall {
    /// Files whose path begins so.
    folder: &'static str,
    /// But not those whose path begins so.
    except: &'static [&'static str],
    /// Paths that may not be named there, with all that lies below them.
    banned: &'static [&'static str],
    why: &'static str,
}

const WALLS: &[Wall] = &[
    Wall {
        folder: "crates/steadfast-core/",
        except: &["crates/steadfast-core/tests/"],
        banned: &[
            "tokio",
            "futures",
            "futures_util",
            "hyper",
            "tower",
            "tracing",
            "log",
            "rand",
            "getrandom",
            "rusqlite",
            "tokio_postgres",
            "socket2",
            "clap",
            "std::net",
            "std::fs",
            "std::thread",
            "std::process",
            "std::env",
            "std::time::Instant",
            "std::time::SystemTime",
        ],
        why: "the core decides over values; take it as an argument, and let a driver act",
    },
    Wall {
        folder: "crates/steadfast-core/",
        except: &[],
        banned: &["steadfast", "steadfast_cli"],
        why: "imports go down only; move what both need into the core",
    },
    Wall {
        folder: "crates/",
        except: &[],
        banned: &["steadfast_benches"],
        why: "what measures the product is no part of it; move it into the crate that needs it",
    },
    Wall {
        folder: "crates/steadfast/",
        except: &[],
        banned: &["clap", "steadfast_cli"],
        why: "the library knows no command line; move it to crates/steadfast-cli",
    },
    Wall {
        folder: "crates/steadfast/src/",
        except: &[
            "crates/steadfast/src/store/",
            "crates/steadfast/src/store.rs",
        ],
        banned: &["rusqlite", "tokio_postgres"],
        why: "a database's words are translated at one door; go through crate::store",
    },
    Wall {
        folder: "crates/steadfast/src/store",
        except: &[],
        banned: &["crate::client", "crate::server"],
        why: "a store keeps rows and knows no HTTP; pass it values",
    },
    Wall {
        folder: "crates/steadfast/src/client",
        except: &[],
        banned: &["crate::server", "crate::store"],
        why: "the way of a request has one direction; put what both need into the core",
    },
    Wall {
        folder: "crates/steadfast/src/server",
        except: &[],
        banned: &["crate::client"],
        why: "the server layer runs over any inner service; take the service as an argument",
    },
];

impl Wall {
    fn holds_for(&self, path: &str) -> bool {
        path.starts_with(self.folder) && !self.except.iter().any(|out| path.starts_with(out))
    }
}

fn check(files: &[File]) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in files {
        let walls: Vec<&Wall> = WALLS
            .iter()
            .filter(|wall| wall.holds_for(&file.path))
            .collect();
        let named = match () {
            _ if walls.is_empty() => continue,
            _ if file.is_rust() => paths(&code(&file.text))
                .into_iter()
                .map(|path| (path.line, path.segments.join("::")))
                .collect(),
            _ if file.path.ends_with("/Cargo.toml") => dependencies(&file.text),
            _ => continue,
        };
        for (line, name) in &named {
            for wall in &walls {
                if wall.banned.iter().any(|banned| is_below(name, banned)) {
                    let message = format!("{name} may not be used here: {}", wall.why);
                    found.push(Finding::new(&file.path, *line, message));
                }
            }
        }
    }
    found
}

fn is_below(name: &str, banned: &str) -> bool {
    name.strip_prefix(banned)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Lines and crate names of `[dependencies]`; development dependencies build no product.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim() == "[dependencies]";
        } else if inside && let Some(end) = line.find(['.', ' ', '=']) {
            found.push((index + 1, line[..end].replace('-', "_")));
        }
    }
    found
}

#[test]
fn imports_go_down_and_stay_inside_their_walls() {
    assert_none(&check(&files()));
}

#[test]
fn a_wrong_import_is_found_however_it_is_written() {
    let table = [
        (
            "crates/steadfast-core/src/a.rs",
            "use std::{\n    fmt,\n    fs::File,\n};",
            vec![3],
        ),
        (
            "crates/steadfast-core/src/a.rs",
            "\nlet x = std::time::Instant::now();",
            vec![2],
        ),
        (
            "crates/steadfast-core/src/a.rs",
            "use std::time::Duration; // std::fs",
            vec![],
        ),
        (
            "crates/steadfast-core/src/a.rs",
            "use steadfast::x;",
            vec![1],
        ),
        (
            "crates/steadfast-core/src/a.rs",
            "use steadfast_core::x;",
            vec![],
        ),
        (
            "crates/steadfast-core/Cargo.toml",
            "[dependencies]\ntokio.workspace = true",
            vec![2],
        ),
        (
            "crates/steadfast-core/Cargo.toml",
            "[dev-dependencies]\ntokio = \"1\"",
            vec![],
        ),
        ("crates/steadfast/src/a.rs", "use clap as c;", vec![1]),
        (
            "crates/steadfast/src/server/a.rs",
            "use rusqlite::Row;",
            vec![1],
        ),
        (
            "crates/steadfast/src/store/sqlite.rs",
            "use rusqlite::Row;",
            vec![],
        ),
        (
            "crates/steadfast/src/store/sqlite.rs",
            "use crate::server::X;",
            vec![1],
        ),
        (
            "crates/steadfast-cli/src/a.rs",
            "use clap::Parser; use steadfast::x;",
            vec![],
        ),
        (
            "crates/steadfast-cli/Cargo.toml",
            "[dependencies]\nsteadfast-benches.workspace = true",
            vec![2],
        ),
    ];
    for (path, text, expected) in table {
        assert_eq!(
            lines(&check(&[File::new(path, text)])),
            expected,
            "{path}: {text}"
        );
    }
}
