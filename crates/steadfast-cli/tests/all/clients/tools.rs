//! Which programs play the clients: an interpreter that has the library, or curl. A client that is
//! missing fails its test with the command that installs it; it is never left out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Where Debian's node packages lie; a Node of other origin does not look there by itself.
pub const NODE_PATH: &str = "/usr/share/nodejs";

/// Python, for the service.
pub fn python() -> OsString {
    with_python("import sys", "python3")
}

/// Python with requests.
pub fn requests() -> OsString {
    with_python("import requests, urllib3, sys", "python3-requests")
}

/// Python with httpx.
pub fn httpx() -> OsString {
    with_python("import httpx, sys", "python3-httpx")
}

/// Node with fetch.
pub fn node() -> OsString {
    with_node("fetch.name", "nodejs")
}

/// Node with got.
pub fn got() -> OsString {
    with_node("require('got').post.name", "node-got nodejs")
}

/// curl.
pub fn curl() -> OsString {
    found(&["sh", "/bin/sh"], "-c", "command -v curl", "curl")
}

fn with_python(needed: &str, packages: &'static str) -> OsString {
    let probe = format!("{needed}; print(sys.executable)");
    found(&["python3", "/usr/bin/python3"], "-c", &probe, packages)
}

fn with_node(needed: &str, packages: &'static str) -> OsString {
    let probe = format!("{needed}; console.log(process.execPath)");
    found(&["node", "/usr/bin/node"], "-e", &probe, packages)
}

/// The first of `programs` on which `probe` succeeds: what the probe prints, which is where it is.
fn found(programs: &[&str], option: &str, probe: &str, packages: &'static str) -> OsString {
    static FOUND: Mutex<BTreeMap<&str, OsString>> = Mutex::new(BTreeMap::new());
    let mut known = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(packages) {
        return known.clone();
    }
    let told = programs.iter().find_map(|program| {
        let mut command = Command::new(program);
        command.args([option, probe]).env("NODE_PATH", NODE_PATH);
        let told = command.stdin(Stdio::null()).output().ok();
        told.filter(|told| told.status.success())
    });
    let told = told.unwrap_or_else(|| {
        panic!(
            "none of {programs:?} can run this client: \
             `apt-get install --no-install-recommends {packages}`, as ./test does"
        )
    });
    let path = String::from_utf8(told.stdout).expect("a path in UTF-8");
    let path = OsString::from(path.trim());
    known.insert(packages, path.clone());
    path
}
