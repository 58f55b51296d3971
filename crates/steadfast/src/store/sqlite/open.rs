//! Opening the file: making it, knowing it, refusing it.
//!
//! Rule: a file that is not ours is read only, and without locks or side files; a file that is
//! made is readable by its owner alone, whatever the umask; every refusal says what to do next.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use super::checkpoint::LOG_BYTES;
use super::schema::{self, Whose};
use crate::clock;
use crate::store::WallClock;

/// Tries for another process's write lock, [`LOCK_RETRY`] apart. Together some 1.5 s: below the
/// default `store_timeout` of 2 s, so that callers are told why. Counted, so that it ends whatever
/// clocks do.
const LOCK_TRIES: i32 = 1500;

/// Between two tries for the lock. SQLite's own handler waits up to 100 ms, which starves the
/// rarer writer of two.
const LOCK_RETRY: Duration = Duration::from_millis(1);

/// Page cache of the writer, in KiB (negative: SQLite's spelling): the indexes' upper levels and
/// the pages that recent rows stand on.
const WRITER_CACHE: i32 = -16_384;

/// One file is looked at and made at a time in this process: closing a file that SQLite did not
/// open would drop the locks of a store that has it open.
static OPENING: Mutex<()> = Mutex::new(());

/// Why a store's file cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// It is not there, and was not to be made.
    Missing,
    /// Its directory is not there.
    DirectoryMissing,
    /// It is not an SQLite database.
    NotADatabase,
    /// It is another program's database.
    NotOurs,
    /// Its schema is of a version that this build does not know.
    Version {
        /// The file's version.
        found: i32,
        /// The newest version that this build knows.
        known: i32,
    },
    /// The file, or its directory, cannot be written by this user.
    ReadOnly,
    /// Another process holds it in a way that excludes others.
    Locked,
    /// It is damaged.
    Damaged,
    /// There is no room on its disk.
    Full,
    /// Its place does not support the write-ahead log (some network file systems).
    NoWriteAheadLog,
    /// Something else; the text is the system's.
    Other(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            OpenError::Missing => {
                "there is no store; check the path, or start the gateway once to make it"
            }
            OpenError::DirectoryMissing => "its directory does not exist; make it first",
            OpenError::NotADatabase => {
                "the file is not an SQLite database; nothing was changed, choose another path"
            }
            OpenError::NotOurs => {
                "the file is another program's database; nothing was changed, choose another path"
            }
            OpenError::Version { found, known } => {
                return write!(
                    f,
                    "its schema is version {found} and this build knows versions up to {known}; \
                     use the steadfast that wrote it, or a newer one"
                );
            }
            OpenError::ReadOnly => {
                "the file or its directory cannot be written by this user; change the owner or \
                 the mode of both (the log lies next to the file)"
            }
            OpenError::Locked => {
                "another process holds the file for itself alone; end that process"
            }
            OpenError::Damaged => "the file is damaged; restore it from a backup",
            OpenError::Full => "no room is left on its disk; free some and try again",
            OpenError::NoWriteAheadLog => {
                "its file system does not support SQLite's write-ahead log; use a local disk"
            }
            OpenError::Other(why) => {
                return write!(f, "{why}; check the path and the disk it lies on");
            }
        };
        f.write_str(text)
    }
}

impl std::error::Error for OpenError {}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> OpenError {
        match error.sqlite_extended_error_code().map(|code| code & 0xff) {
            Some(ffi::SQLITE_NOTADB) => OpenError::NotADatabase,
            Some(ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED) => OpenError::Locked,
            Some(ffi::SQLITE_READONLY | ffi::SQLITE_PERM) => OpenError::ReadOnly,
            Some(ffi::SQLITE_FULL) => OpenError::Full,
            Some(ffi::SQLITE_CORRUPT) => OpenError::Damaged,
            _ => OpenError::Other(error.to_string()),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        match error.kind() {
            io::ErrorKind::NotFound => OpenError::DirectoryMissing,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::ReadOnly
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::Full,
            _ => OpenError::Other(error.to_string()),
        }
    }
}

/// Opens the file for writing, as a prepared store of this build's version. `create` makes it
/// where it is missing.
pub(super) fn writer(path: &Path, create: bool, wall: &WallClock) -> Result<Connection, OpenError> {
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    make(path, create)?;
    match known(path)? {
        Whose::Foreign => return Err(OpenError::NotOurs),
        Whose::Empty if !create => return Err(OpenError::Missing),
        Whose::Empty | Whose::Ours => {}
    }
    let mut conn = connect(path)?;
    if schema::whose(&conn).map_err(|error| in_directory(path, error))? == Whose::Empty {
        // A file whose preparation was cut short is empty again by now.
        if !create {
            return Err(OpenError::Missing);
        }
        // Also where the file was made, empty, by somebody else: secrets go into it.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        schema::prepare(&mut conn, wall()).map_err(|error| in_directory(path, error))?;
    }
    if schema::whose(&conn)? != Whose::Ours {
        return Err(OpenError::NotOurs);
    }
    log_mode(&conn).map_err(|error| match error {
        OpenError::Other(_) if !may_write_next_to(path) => OpenError::ReadOnly,
        other => other,
    })?;
    schema::migrate(&mut conn)?;
    let _: i64 =
        conn.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |r| r.get(0))?;
    let _: i64 = conn.pragma_update_and_check(None, "wal_autocheckpoint", 0, |r| r.get(0))?;
    conn.pragma_update(None, "cache_size", WRITER_CACHE)?;
    Ok(conn)
}

/// One more connection to a store that is open already.
pub(super) fn connect(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    // Absolute, so that no path can look like one of SQLite's special names.
    let mut conn = Connection::open_with_flags(std::path::absolute(path)?, flags)
        .map_err(|error| in_directory(path, error))?;
    // Before anything is read: reading would leave side files next to it.
    if conn.is_readonly("main")? {
        return Err(OpenError::ReadOnly);
    }
    conn.busy_handler(Some(wait_for_lock))?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    let synchronous: i64 = conn.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
    if synchronous != 2 {
        return Err(OpenError::Other("it does not sync its commits".to_owned()));
    }
    Ok(conn)
}

/// Makes the file, empty and for its owner alone, where it is missing.
fn make(path: &Path, create: bool) -> Result<(), OpenError> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => return Ok(()),
        Ok(_) => return Err(OpenError::NotADatabase),
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(OpenError::Missing),
        Err(error) => return Err(error.into()),
    }
    let mut options = std::fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The smallest file that is a database, in bytes: one page of the smallest size
/// (<https://www.sqlite.org/fileformat2.html>, 1.3.2).
const SMALLEST: u64 = 512;

/// Whose the file is, read without a lock and without side files, so that nothing of it changes.
fn known(path: &Path) -> Result<Whose, OpenError> {
    match std::fs::metadata(path)?.len() {
        0 => return Ok(Whose::Empty),
        // SQLite takes a file that is shorter than its header for an empty one, and would write
        // over somebody's few bytes.
        1..SMALLEST => return Err(OpenError::NotADatabase),
        _ => {}
    }
    let mut uri = String::from("file:");
    for byte in std::path::absolute(path)?.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let conn = Connection::open_with_flags(PathBuf::from(uri), flags)
        .map_err(|error| in_directory(path, error))?;
    match schema::whose(&conn) {
        // A checkpoint, of another process or one that a crash cut, writes the first page before
        // those that it speaks of: they are in the log, which is not read here.
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
            let ours = application_id(path)? == schema::APPLICATION_ID;
            Ok(if ours { Whose::Ours } else { Whose::Foreign })
        }
        whose => Ok(whose?),
    }
}

/// Where a database's header has its application id
/// (<https://www.sqlite.org/fileformat2.html>, 1.3).
const ID_AT: u64 = 68;

/// The application id of a database of which no more can be relied on than its header, which is
/// written in one piece.
fn application_id(path: &Path) -> io::Result<i32> {
    let file = std::fs::File::open(path)?;
    let mut id = [0; 4];
    let read = file.read_exact_at(&mut id, ID_AT);
    // Closing it would drop the locks of a store that this process may have on it.
    std::mem::forget(file);
    read.map(|()| i32::from_be_bytes(id))
}

/// SQLite says "unable to open" for many reasons; the one that a user can act on is found by
/// looking.
fn in_directory(path: &Path, error: rusqlite::Error) -> OpenError {
    if error.sqlite_error_code() != Some(rusqlite::ErrorCode::CannotOpen) {
        return error.into();
    }
    if !parent(path).is_dir() {
        return OpenError::DirectoryMissing;
    }
    if may_open(path) && may_write_next_to(path) {
        error.into()
    } else {
        OpenError::ReadOnly
    }
}

/// Whether this user may open the file: tried. An opened one stays open, since closing it would
/// drop the locks of a store that this process may have on it.
fn may_open(path: &Path) -> bool {
    match std::fs::File::open(path) {
        Ok(file) => {
            std::mem::forget(file);
            true
        }
        Err(error) => error.kind() != io::ErrorKind::PermissionDenied,
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Whether this user may make the log next to the file: tried, since modes do not tell the whole
/// story.
fn may_write_next_to(path: &Path) -> bool {
    let token = u64::from_le_bytes(clock::random());
    let probe = parent(path).join(format!(".steadfast-{token:016x}"));
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&probe);
    let _ = std::fs::remove_file(&probe);
    made.is_ok()
}

fn log_mode(conn: &Connection) -> Result<(), OpenError> {
    let mut tries = 0;
    loop {
        let mode: rusqlite::Result<String> =
            conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => return Err(OpenError::NoWriteAheadLog),
            // The change of mode does not wait for locks by itself.
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && wait_for_lock(tries) =>
            {
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for the next try, if there is one after so many.
fn wait_for_lock(tries: i32) -> bool {
    let patient = tries < LOCK_TRIES;
    if patient {
        clock::pause(LOCK_RETRY);
    }
    patient
}
