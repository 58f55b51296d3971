//! A store's file that is somebody else's, of another time, or no file at all.

use crate::stage::{Folder, Ran, finish};

const START: [&str; 7] = [
    "gateway",
    "--to",
    "http://127.0.0.1:1",
    "--listen",
    "127.0.0.1:0",
    "--admin",
    "127.0.0.1:0",
];

/// Starts a gateway on `path` in `folder`.
pub fn start(folder: &Folder, path: &str) -> Ran {
    let store = format!("sqlite:{path}");
    folder.run(&[&START, &["--store", &store][..]].concat())
}

/// That a start on `path` was refused with `why`, before anything listened.
pub fn refused(ran: &Ran, path: &str, why: &str) {
    let message = format!("error: store = \"sqlite:{path}\": {why}");
    assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{ran:?}");
    assert_eq!(ran.err.lines().last(), Some(message.as_str()));
    assert!(!ran.err.contains("steadfast listens"), "{ran:?}");
}

/// Runs SQL on a file by another program's SQLite.
fn sql(folder: &Folder, file: &str, statement: &str) {
    let script = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\n\
                  c.executescript(sys.argv[2])\nc.close()";
    let mut command = folder.command("python3");
    command.args(["-c", script, file, statement]);
    let ran = finish(command);
    assert_eq!(ran.code, 0, "{ran:?}");
}

// rule: a-store-file-that-is-not-ours-stays-as-it-is
#[test]
fn a_file_that_is_not_a_store_of_ours_is_refused_and_stays_byte_for_byte() {
    let text = "the file is not an SQLite database; nothing was changed, choose another path";
    let database =
        "the file is another program's database; nothing was changed, choose another path";
    let newer = "its schema is version 99 and this build knows versions up to 3; use the steadfast \
                 that wrote it, or a newer one";
    let older = "its schema is version 0 and this build knows versions up to 3; use the steadfast \
                 that wrote it, or a newer one";
    type Make = fn(&Folder);
    let table: [(Make, &str); 7] = [
        (|f| f.write("r.db", "orders of today\n"), text),
        (|f| f.write("r.db", [0u8; 4096]), text),
        (
            |f| f.write("r.db", b"SQLite format 3\0 and then nothing"),
            text,
        ),
        (|f| sql(f, "r.db", "CREATE TABLE records (n)"), database),
        (
            |f| sql(f, "r.db", "PRAGMA application_id = 7; CREATE TABLE t (n)"),
            database,
        ),
        (|f| ours(f, "PRAGMA user_version = 99"), newer),
        (|f| ours(f, "PRAGMA user_version = 0"), older),
    ];
    for (make, why) in table {
        let folder = Folder::new();
        make(&folder);
        let (bytes, names) = (folder.read("r.db"), folder.names());
        refused(&start(&folder, "r.db"), "r.db", why);
        assert!(folder.read("r.db") == bytes, "changed: {why}");
        assert_eq!(folder.names(), names, "{why}");
    }
}

/// A store of ours, changed.
fn ours(folder: &Folder, statement: &str) {
    let made = folder.run(&["store", "migrate", "--store", "sqlite:r.db"]);
    assert_eq!(made.code, 0, "{made:?}");
    sql(folder, "r.db", statement);
}

#[test]
fn a_folder_and_a_place_in_no_folder_are_refused() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("d")).expect("a folder");
    let table = [
        (
            "d",
            "the file is not an SQLite database; nothing was changed, choose another path",
        ),
        ("e/r.db", "its directory does not exist; make it first"),
    ];
    for (path, why) in table {
        refused(&start(&folder, path), path, why);
        assert_eq!(folder.names(), ["d"]);
    }
}

#[test]
fn commands_do_not_make_a_store() {
    let folder = Folder::new();
    let why = "error: store = \"sqlite:r.db\": there is no store; check the path, or start the \
               gateway once to make it\n";
    let table: [&[&str]; 4] = [
        &["store", "status"],
        &["keys", "list"],
        &["keys", "show", "0123456789abcdef0123456789abcdef"],
        &["keys", "release", "--state", "unknown", "--yes"],
    ];
    for words in table {
        let ran = folder.run(&[words, &["--store", "sqlite:r.db"]].concat());
        let said = (ran.code, ran.out.as_str(), ran.err.as_str());
        assert_eq!(said, (3, "", why), "{words:?}");
        assert_eq!(folder.names(), [""; 0], "{words:?}");
    }
}
