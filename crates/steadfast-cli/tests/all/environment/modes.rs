//! Files and folders that an ordinary user may not write. Root ignores modes, so a test that runs
//! as root runs the program as somebody else.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use steadfast_cli::settings::environment::Environment;

use super::files::{refused, start};
use crate::stage::{Folder, Ran, finish};

const READ_ONLY: &str = "the file or its directory cannot be written by this user; change the \
                         owner or the mode of both (the log lies next to the file)";

/// Who runs the program: the named user where this process is root.
fn ordinary_user(folder: &Folder) -> Option<String> {
    let mut id = folder.command("id");
    id.arg("-u");
    let named = Environment::of_process();
    let named = named.get("STEADFAST_TEST_USER").flatten();
    match (finish(id).out.trim(), named) {
        ("0", named) => Some(named.unwrap_or("nobody").to_owned()),
        _ => None,
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("the mode is set");
}

/// Starts a gateway on `path` as an ordinary user.
fn start_as_ordinary(folder: &Folder, path: &str) -> Ran {
    let Some(user) = ordinary_user(folder) else {
        return start(folder, path);
    };
    let mut group = folder.command("id");
    group.args(["-g", &user]);
    let group = finish(group).out.trim().to_owned();
    // The build's own folder may not be one that others can read.
    std::fs::copy(env!("CARGO_BIN_EXE_steadfast"), folder.path("steadfast")).expect("a copy");
    set_mode(&folder.path("steadfast"), 0o755);
    set_mode(&folder.path("."), 0o755);
    let mut command: Command = folder.command("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={group}")]);
    command.args(["--clear-groups", "--", "./steadfast", "gateway"]);
    command.args(["--to", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"]);
    command.args([
        "--admin",
        "127.0.0.1:0",
        "--store",
        &format!("sqlite:{path}"),
    ]);
    finish(command)
}

/// The names in the folder `d`.
fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path("d")).expect("the folder is read");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.into_string().expect("a name in UTF-8"))
        .collect();
    names.sort();
    names
}

// rule: what-may-not-be-written-is-refused-and-stays-as-it-is
#[test]
fn what_this_user_may_not_write_is_refused_and_stays_as_it_is() {
    // The folder's mode, and the file's where there is one.
    let table = [
        (0o555, None),
        (0o555, Some(0o644)),
        (0o777, Some(0o444)),
        (0o777, Some(0o000)),
    ];
    for (of_folder, of_file) in table {
        let folder = Folder::new();
        let (place, file) = (folder.path("d"), folder.path("d/r.db"));
        std::fs::create_dir(&place).expect("a folder");
        if let Some(mode) = of_file {
            let made = folder.run(&["store", "migrate", "--store", "sqlite:d/r.db"]);
            assert_eq!(made.code, 0, "{made:?}");
            set_mode(&file, mode);
        }
        let (before, bytes) = (names(&folder), std::fs::read(&file).ok());
        set_mode(&place, of_folder);
        let ran = start_as_ordinary(&folder, "d/r.db");
        set_mode(&place, 0o755);
        refused(&ran, "d/r.db", READ_ONLY);
        // Nothing is left there that could keep its owner out.
        assert_eq!(names(&folder), before, "{of_folder:o} {of_file:?}");
        assert!(
            std::fs::read(&file).ok() == bytes,
            "{of_folder:o} {of_file:?}"
        );
    }
}
