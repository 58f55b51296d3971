//! The store in a file keeps the contract, also against other processes, other users and a full
//! disk.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use steadfast::clock;
use steadfast::core::record;
use steadfast::store::conformance::{self, rows};
use steadfast::store::sqlite::{OpenError, SecretError, Sqlite};
use steadfast::store::{Op, OpEnd, Scan, Store, StoreError};

use crate::second_process::{Second, race_inserts};

/// The outer bound of every wait; never what a test is about.
const STUCK: Duration = Duration::from_secs(60);

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

// rule: a-store-file-that-was-moved-takes-no-writes
#[tokio::test]
async fn a_file_that_was_moved_or_replaced_takes_no_writes_until_it_is_back() {
    let dir = dir();
    let (path, away) = (dir.path().join("s.db"), dir.path().join("away.db"));
    let store = Sqlite::open(&path).expect("a store");
    let insert = async |n| store.apply(Op::Insert(Box::new(rows::reserved(n)))).await;
    assert!(insert(1).await.is_ok());
    std::fs::rename(&path, &away).expect("moved");
    assert!(matches!(insert(2).await, Err(StoreError::Unavailable(_))));
    std::fs::write(&path, b"").expect("another file");
    assert!(matches!(insert(2).await, Err(StoreError::Unavailable(_))));
    std::fs::rename(&away, &path).expect("back");
    assert!(insert(2).await.is_ok());
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn refusal(result: Result<Sqlite, OpenError>) -> OpenError {
    match result {
        Ok(_) => panic!("it should be refused"),
        Err(why) => why,
    }
}

async fn insert(store: &Sqlite, n: u64) -> record::Record {
    match store.apply(Op::Insert(Box::new(rows::completed(n)))).await {
        Ok(OpEnd::Done(Some(row))) => *row,
        other => panic!("an insert ended {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_store_contract() {
    let dir = dir();
    let count = std::cell::Cell::new(0);
    conformance::exercise(|| {
        count.set(count.get() + 1);
        Sqlite::open(dir.path().join(format!("{}.db", count.get()))).expect("a new store")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_that_insert_one_key_exactly_one_wins() {
    let dir = dir();
    let path = dir.path().join("store.db");
    let mut second = Second::start(&[], &["race", text(&path)]);
    let store = Sqlite::open(&path).expect("the store");
    assert_eq!(second.said(), "ready");
    second.order("go");
    let here = race_inserts(&store, 1).await;
    let there = second.said();
    let once = here.bytes().zip(there.bytes()).all(|(a, b)| a != b);
    assert!(once && here.len() == there.len(), "{here}\n{there}");

    // Somebody waits here while the other process writes.
    let row = store
        .get(rows::scope(0))
        .await
        .expect("a read")
        .expect("row 0");
    let order = async {
        tokio::task::yield_now().await;
        second.order("renew");
    };
    let waiting = async { tokio::join!(store.changed(row.scope, row.guard()), order).0 };
    let told = clock::within(STUCK, waiting)
        .await
        .expect("it is told")
        .expect("a read");
    let told = told.expect("the row stands");
    assert_eq!(told.version, row.version + 1);
    let scan = store
        .scan(Scan {
            limit: 1000,
            ..Scan::default()
        })
        .await
        .expect("a scan");
    let mut fences: Vec<u64> = scan.rows.iter().map(|row| row.standing.fence).collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(
        fences.len(),
        200,
        "no fence is drawn twice, by whichever process"
    );
    assert_eq!(fences.last(), Some(&told.standing.fence));
    assert_eq!(second.said(), "renewed");
    second.end();
}

#[tokio::test]
async fn what_was_said_to_be_done_survives_a_kill() {
    let dir = dir();
    let path = dir.path().join("store.db");
    let mut second = Second::start(&[], &["insert", text(&path)]);
    let acknowledged: u64 = 40;
    while second.said() != (acknowledged - 1).to_string() {}
    second.kill();
    let store = Sqlite::open_existing(&path).expect("the store");
    for n in 0..acknowledged {
        let row = store
            .get(rows::scope(n))
            .await
            .expect("a read")
            .expect("it is there");
        assert_eq!(row.standing.answer, rows::completed(n).standing.answer);
    }
}

#[tokio::test]
async fn fences_secrets_and_the_date_survive_a_reopening() {
    let dir = dir();
    let path = dir.path().join("store.db");
    let late = || rows::DATE.plus(Duration::from_secs(1_000_000));
    let store = Sqlite::with_clock(&path, std::sync::Arc::new(late)).expect("a new store");
    let mut row = rows::completed(1);
    row.updated_at = late();
    let end = store.apply(Op::Insert(Box::new(row))).await;
    let Ok(OpEnd::Done(Some(row))) = end else {
        panic!("inserted")
    };
    let (scope, guard) = (row.scope, row.guard());
    assert_eq!(
        store.apply(Op::Remove { scope, guard }).await,
        Ok(OpEnd::Done(None))
    );
    drop(store);

    let early = || rows::DATE;
    let store = Sqlite::with_clock(&path, std::sync::Arc::new(early)).expect("the store");
    assert_eq!(
        store.now().await,
        Ok(late()),
        "the clock went back, the date did not"
    );
    assert!(insert(&store, 1).await.standing.fence > row.standing.fence);

    store.register_secret(2026, [7; 32]).expect("a new secret");
    store
        .register_secret(2026, [7; 32])
        .expect("the same again");
    let taken = store.register_secret(2026, [8; 32]);
    assert!(matches!(taken, Err(SecretError::Taken)));
    let secrets = store.secrets().await.expect("secrets");
    assert_eq!(secrets.fingerprints.len(), 2, "the first stays readable");
    assert_eq!(secrets.present().id(), 2026, "the last is the present one");
}

#[test]
fn a_new_file_is_for_its_owner_alone_whatever_the_umask() {
    let dir = dir();
    let path = dir.path().join("store.db");
    let exe = std::env::current_exe().expect("this binary");
    for umask in ["000", "377"] {
        let script = format!("umask {umask}; exec \"$@\"");
        let path = path.with_extension(umask);
        let through = ["sh", "-c", &script, "sh"];
        let mut second = Second::start_as(&exe, &through, &["insert", text(&path)]);
        second.said();
        for end in ["", "-wal", "-shm"] {
            let file = format!("{}{end}", text(&path));
            let mode = std::fs::metadata(&file)
                .expect("a file of the store")
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
        second.kill();
    }
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_as_it_is() {
    let dir = dir();
    let file = |name: &str| dir.path().join(name);
    std::fs::write(
        file("text"),
        "no database at all, but long enough".repeat(50),
    )
    .expect("written");
    let other = |name: &str, sql: &str| {
        let conn = rusqlite::Connection::open(file(name)).expect("a database");
        conn.execute_batch(sql).expect("its content");
        conn.close().expect("closed");
    };
    other("tables", "CREATE TABLE notes (text)");
    other(
        "log",
        "PRAGMA journal_mode = WAL; CREATE TABLE notes (text)",
    );
    other(
        "id",
        "PRAGMA application_id = 77; CREATE TABLE notes (text)",
    );
    for name in ["text", "tables", "log", "id"] {
        let before = std::fs::read(file(name)).expect("read");
        let why = refusal(Sqlite::open(file(name)));
        match name {
            "text" => assert!(matches!(why, OpenError::NotADatabase), "{why:?}"),
            _ => assert!(matches!(why, OpenError::NotOurs), "{name}: {why:?}"),
        }
        assert!(why.to_string().contains("nothing was changed"), "{why}");
        assert_eq!(
            std::fs::read(file(name)).expect("read"),
            before,
            "{name} is as it was"
        );
    }
    let mut left: Vec<_> = std::fs::read_dir(dir.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    left.sort();
    assert_eq!(
        left,
        ["id", "log", "tables", "text"],
        "no file is left beside them"
    );
}

// rule: a-store-file-in-the-midst-of-a-checkpoint-is-no-damaged-one
#[tokio::test]
async fn a_file_whose_checkpoint_was_cut_is_opened_and_not_called_damaged() {
    let dir = dir();
    let (path, cut) = (dir.path().join("s.db"), dir.path().join("cut.db"));
    let store = Sqlite::open(&path).expect("a new store");
    let row = insert(&store, 1).await;
    drop(store);
    let conn = rusqlite::Connection::open(&path).expect("its file");
    let _: i64 = conn
        .pragma_update_and_check(None, "wal_autocheckpoint", 0, |row| row.get(0))
        .expect("no checkpoint yet");
    conn.execute(
        "INSERT INTO answers (n, body) VALUES (0, zeroblob(100000))",
        [],
    )
    .expect("the log grows");
    std::fs::copy(&path, &cut).expect("the file");
    std::fs::copy(dir.path().join("s.db-wal"), dir.path().join("cut.db-wal")).expect("its log");
    // A checkpoint writes the first page first: it speaks of pages that are in the log alone.
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .expect("a whole checkpoint");
    let mut pages = std::fs::read(&cut).expect("the copy");
    let whole = std::fs::read(&path).expect("the file");
    assert!(pages.len() < whole.len(), "the file has grown");
    pages[..4096].copy_from_slice(&whole[..4096]);
    std::fs::write(&cut, pages).expect("a checkpoint that was cut");

    let store = Sqlite::open_existing(&cut).expect("nothing is lost");
    let found = store.get(row.scope).await.expect("a reply");
    assert_eq!(found.map(|row| row.id), Some(row.id));
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let dir = dir();
    let path = dir.path().join("store.db");
    drop(Sqlite::open(&path).expect("a new store"));
    let conn = rusqlite::Connection::open(&path).expect("its file");
    conn.execute_batch("PRAGMA user_version = 9")
        .expect("made newer");
    drop(conn);
    let why = refusal(Sqlite::open(&path));
    assert!(
        matches!(why, OpenError::Version { found: 9, .. }),
        "{why:?}"
    );
}

#[test]
fn what_cannot_be_opened_is_refused_with_the_reason() {
    let dir = dir();
    let path = dir.path().join("store.db");
    assert!(matches!(
        refusal(Sqlite::open_existing(&path)),
        OpenError::Missing
    ));
    assert!(!path.exists(), "a command makes no store");
    let nowhere = dir.path().join("no/where.db");
    assert!(matches!(
        refusal(Sqlite::open(nowhere)),
        OpenError::DirectoryMissing
    ));
    assert!(matches!(
        refusal(Sqlite::open(dir.path())),
        OpenError::NotADatabase
    ));

    drop(Sqlite::open(&path).expect("a new store"));
    let alone = rusqlite::Connection::open(&path).expect("its file");
    let lock =
        "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE meta SET writer = 1; COMMIT";
    alone.execute_batch(lock).expect("held alone");
    assert!(matches!(refusal(Sqlite::open(&path)), OpenError::Locked));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_an_error_and_never_absent() {
    let dir = dir();
    let path = dir.path().join("store.db");
    let store = Sqlite::open(&path).expect("a new store");
    for n in [1, 2, 3] {
        insert(&store, n).await;
    }
    let conn = rusqlite::Connection::open(&path).expect("its file");
    let one = "substr(scope, 25) = x'0000000000000001'";
    conn.execute(
        &format!("UPDATE records SET details = '{{' WHERE {one}"),
        [],
    )
    .expect("spoilt");
    let two = "substr(scope, 25) = x'0000000000000002'";
    let collide = format!("UPDATE records SET scope = zeroblob(32) WHERE {two}");
    conn.execute(&collide, []).expect("spoilt");
    for n in [1, 2] {
        let read = store.get(rows::scope(n)).await;
        assert!(
            matches!(read, Err(StoreError::Unreadable(_))),
            "{n}: {read:?}"
        );
        let write = Op::Insert(Box::new(rows::reserved(n)));
        // Together with a good one: that one goes through.
        let good = store.apply(Op::Insert(Box::new(rows::completed(n + 10))));
        let (bad, good) = tokio::join!(store.apply(write), good);
        assert!(
            matches!(bad, Err(StoreError::Unreadable(_))),
            "{n}: {bad:?}"
        );
        assert!(matches!(good, Ok(OpEnd::Done(_))));
    }
    assert!(matches!(store.get(rows::scope(3)).await, Ok(Some(_))));
}

#[tokio::test]
async fn a_due_row_that_cannot_be_read_is_named_beside_the_others() {
    let dir = dir();
    let path = dir.path().join("store.db");
    let store = Sqlite::open(&path).expect("a new store");
    let mut held = Vec::new();
    for n in [1, 2, 3] {
        let row = rows::reserved(n);
        let written = store.apply(Op::Insert(Box::new(row.clone()))).await;
        assert!(matches!(written, Ok(OpEnd::Done(_))), "{written:?}");
        held.push(row.id.to_string());
    }
    let conn = rusqlite::Connection::open(&path).expect("its file");
    for (spoilt, left) in [(2, 2), (1, 1), (3, 0)] {
        let one = format!("substr(scope, 25) = x'{spoilt:016x}'");
        let spoil = format!("UPDATE records SET details = '{{' WHERE {one}");
        assert_eq!(conn.execute(&spoil, []), Ok(1));
        let page = store.held(10).await.expect("a page");
        assert_eq!((page.rows.len(), page.unreadable.len()), (left, 3 - left));
        let id = &held[spoilt - 1];
        let named = page.unreadable.iter().any(|why| why.contains(id.as_str()));
        assert!(named, "{id} in {:?}", page.unreadable);
    }
}

#[tokio::test]
async fn a_write_that_fails_alone_leaves_the_others_of_its_batch() {
    let dir = dir();
    let store = Sqlite::open(dir.path().join("store.db")).expect("a new store");
    // An id without a place, which only one row may have.
    let first = insert(&store, 3).await;
    assert_eq!(first.id.place(), None);
    // Another scope under an id that is taken: only this one fails, with nothing of it left.
    let mut taken = rows::completed(2);
    taken.id = first.id;
    let (before, bad, after) = tokio::join!(
        store.apply(Op::Insert(Box::new(rows::completed(1)))),
        store.apply(Op::Insert(Box::new(taken))),
        store.apply(Op::Insert(Box::new(rows::completed(4)))),
    );
    assert!(matches!(before, Ok(OpEnd::Done(_))), "{before:?}");
    assert!(bad.is_err(), "{bad:?}");
    assert!(matches!(after, Ok(OpEnd::Done(_))), "{after:?}");
    assert_eq!(store.get(rows::scope(2)).await, Ok(None));
}

/// A copy of this binary that any user may run, in a directory that any user may enter.
fn for_anybody(dir: &Path) -> PathBuf {
    let exe = dir.join("second");
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).expect("opened");
    std::fs::copy(std::env::current_exe().expect("this binary"), &exe).expect("a copy");
    std::fs::set_permissions(&exe, std::fs::Permissions::from_mode(0o755)).expect("runnable");
    exe
}

#[test]
fn a_file_or_directory_that_this_user_cannot_write_is_refused() {
    let dir = dir();
    let exe = for_anybody(dir.path());
    let root = std::fs::metadata("/proc/self").expect("this process").uid() == 0;
    // Root may write anything, so it asks as somebody else.
    let ordinary = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let through: &[&str] = if root { &ordinary } else { &[] };
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let open = |path: &Path| {
        let mut second = Second::start_as(&exe, through, &["open", text(path)]);
        let said = second.said();
        second.end();
        said
    };
    let place = dir.path().join("place");
    std::fs::create_dir(&place).expect("a directory");
    let path = place.join("store.db");
    mode(&place, 0o777);
    assert_eq!(
        open(&path),
        "opened",
        "the ordinary user can use a directory of its own"
    );

    mode(&path, 0o444);
    assert_eq!(open(&path), "ReadOnly", "the file");
    mode(&path, 0o666);
    mode(&place, 0o555);
    assert_eq!(
        open(&path),
        "ReadOnly",
        "its directory, where the log would lie"
    );
    assert_eq!(
        open(&place.join("new.db")),
        "ReadOnly",
        "a directory for a new file"
    );
    mode(&place, 0o777);
    assert_eq!(open(&path), "opened");
}

#[test]
fn a_full_disk_loses_nothing_and_ends_when_there_is_room_again() {
    let dir = dir();
    let place = text(dir.path());
    let small = "mount -t tmpfs -o size=1m none \"$0\" && exec \"$@\"";
    let probe = [
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        small,
        place,
        "true",
    ];
    let mounts = std::process::Command::new("unshare").args(probe).output();
    if !mounts.is_ok_and(|probe| probe.status.success()) {
        eprintln!(
            "no file system of one's own here: a limit on file sizes must do, in the test after"
        );
        return;
    }
    let through = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        small,
        place,
    ];
    let (path, ballast) = (dir.path().join("store.db"), dir.path().join("ballast"));
    let mut second = Second::start(&through, &["fill", text(&path), text(&ballast)]);
    assert_eq!(second.said(), "full");
    second.order("go on");
    second.said();
    second.end();
}

#[tokio::test]
async fn a_limit_on_file_sizes_loses_nothing_and_ends_when_it_is_lifted() {
    let dir = dir();
    let limited = "trap '' XFSZ; exec prlimit --fsize=1000000:unlimited \"$@\"";
    let through = ["sh", "-c", limited, "sh"];
    let (path, ballast) = (dir.path().join("store.db"), dir.path().join("ballast"));
    let mut second = Second::start(&through, &["fill", text(&path), text(&ballast)]);
    assert_eq!(second.said(), "unavailable");
    let lift = ["--pid", &second.id().to_string(), "--fsize=unlimited"];
    let lifted = std::process::Command::new("prlimit").args(lift).status();
    assert!(lifted.is_ok_and(|status| status.success()));
    second.order("go on");
    let last: u64 = second.said().parse().expect("the last row's number");
    second.end();
    let store = Sqlite::open_existing(&path).expect("the store");
    for n in 0..=last {
        assert!(
            matches!(store.get(rows::scope(n)).await, Ok(Some(_))),
            "{n}"
        );
    }
}
