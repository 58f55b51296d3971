//! SQLite's errors as the store's, by their codes: the one door through which they come.

use rusqlite::ffi;

use crate::store::StoreError;

/// What a failed call means for its caller.
pub(super) fn store_error(error: &rusqlite::Error) -> StoreError {
    let Some(code) = error.sqlite_extended_error_code() else {
        // Columns of another type than the schema's, text that is not UTF-8.
        return StoreError::Unreadable(format!(
            "{error}; the row was changed by another program, restore it from a backup"
        ));
    };
    match code & 0xff {
        ffi::SQLITE_FULL => {
            StoreError::Full("no room left on its disk; free some, nothing else is needed".into())
        }
        ffi::SQLITE_READONLY | ffi::SQLITE_PERM => StoreError::ReadOnly(format!(
            "its file or directory cannot be written ({error}); make it writable for this user"
        )),
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => StoreError::Unavailable(
            "another process holds its write lock; end that process or its transaction".into(),
        ),
        ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => StoreError::Unavailable(format!(
            "its file is damaged ({error}); stop all processes and restore it from a backup"
        )),
        _ => StoreError::Unavailable(format!(
            "{error} (code {code}); check its disk, steadfast goes on by itself once that works"
        )),
    }
}

/// The call failed for a reason that lies in its own row or values, so others of its batch may go
/// on.
pub(super) fn is_own(error: &rusqlite::Error) -> bool {
    match error.sqlite_extended_error_code() {
        None => true,
        Some(code) => matches!(
            code & 0xff,
            ffi::SQLITE_CONSTRAINT
                | ffi::SQLITE_TOOBIG
                | ffi::SQLITE_MISMATCH
                | ffi::SQLITE_RANGE
                | ffi::SQLITE_CORRUPT
        ),
    }
}
