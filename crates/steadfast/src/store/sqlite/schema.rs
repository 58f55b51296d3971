//! The file's shape: whose it is, which version it has, and the way from one version to the next.
//!
//! Refuses to touch a file that is not a steadfast store. Versions only grow; each step is one SQL
//! text, applied in one transaction together with its number.

use rusqlite::{Connection, TransactionBehavior, params};
use steadfast_core::time::WallTime;

use super::open::OpenError;
use crate::clock;
use crate::store::{codec, fence};

/// SQLite's application id of our files: "Sfst".
pub(super) const APPLICATION_ID: i32 = 0x5366_7374;

/// One text for each version, from the first on.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
];

/// The version that this build reads and writes.
pub(super) fn version() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

/// All migrations as SQL, for those who want to read it first.
pub(super) fn sql() -> String {
    let mut out = format!("PRAGMA application_id = {APPLICATION_ID};\n");
    for (at, text) in MIGRATIONS.iter().enumerate() {
        out.push_str(&format!("\n-- version {}\n{text}", at + 1));
    }
    out.push_str(&format!("\nPRAGMA user_version = {};\n", version()));
    out
}

/// Whose an opened file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Nobody's yet: it is empty.
    Empty,
    /// A steadfast store.
    Ours,
    /// Somebody else's.
    Foreign,
}

pub(super) fn whose(conn: &Connection) -> rusqlite::Result<Whose> {
    let id: i32 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let objects: i64 =
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (id, objects) {
        (APPLICATION_ID, 1..) => Whose::Ours,
        (0, 0) => Whose::Empty,
        _ => Whose::Foreign,
    })
}

/// Makes an empty file a store, with its secrets, in one transaction. Does nothing where another
/// process was first.
pub(super) fn prepare(conn: &mut Connection, now: WallTime) -> rusqlite::Result<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    if whose(&tx)? != Whose::Empty {
        return tx.rollback();
    }
    tx.execute_batch(&sql())?;
    tx.execute(
        "INSERT INTO meta (one, fence, last_date, writer) VALUES (1, ?1, 0, 0)",
        [i64::try_from(fence::start(now)).unwrap_or(i64::MAX)],
    )?;
    let secrets = [("scope", "scope"), ("fingerprint", fence::FIRST_SECRET)];
    for (kind, id) in secrets {
        let bytes: [u8; 32] = clock::random();
        tx.execute(
            "INSERT INTO secrets (kind, id, bytes) VALUES (?1, ?2, ?3)",
            params![kind, id, bytes],
        )?;
    }
    tx.commit()
}

/// Brings an older store to this build's version.
pub(super) fn migrate(conn: &mut Connection) -> Result<(), OpenError> {
    migrate_by(conn, MIGRATIONS)
}

fn migrate_by(conn: &mut Connection, steps: &[&str]) -> Result<(), OpenError> {
    let known = i32::try_from(steps.len()).unwrap_or(i32::MAX);
    let version = |conn: &Connection| -> rusqlite::Result<i32> {
        conn.query_row("PRAGMA user_version", [], |row| row.get(0))
    };
    let found = version(conn)?;
    if found > known || found < 1 {
        return Err(OpenError::Version { found, known });
    }
    if found == known {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it in the meantime.
    let from = usize::try_from(version(&tx)?).unwrap_or(usize::MAX);
    for step in steps.iter().skip(from) {
        tx.execute_batch(step)?;
    }
    tx.pragma_update(None, "user_version", known)?;
    tx.commit()?;
    Ok(())
}

/// The secrets of a prepared store.
pub(super) fn secrets(conn: &Connection) -> rusqlite::Result<Option<crate::store::Secrets>> {
    let mut scope = None;
    let mut fingerprints = Vec::new();
    let mut statement = conn.prepare("SELECT kind, id, bytes FROM secrets ORDER BY n")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, id, bytes): (String, String, [u8; 32]) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if kind == "scope" {
            scope = Some(codec::scope_secret(bytes));
        } else {
            match codec::fingerprint_secret(&id, bytes) {
                Some(secret) => fingerprints.push(secret),
                None => return Ok(None),
            }
        }
    }
    let secrets = scope.map(|scope| crate::store::Secrets {
        scope,
        fingerprints,
    });
    Ok(secrets.filter(|secrets| !secrets.fingerprints.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_more(step: &str) -> Vec<&str> {
        let known = MIGRATIONS.iter().copied();
        known.chain([step]).collect()
    }

    #[test]
    fn an_older_store_is_brought_up_once_and_a_newer_one_is_refused() {
        let mut conn = Connection::open_in_memory().expect("a database");
        prepare(&mut conn, WallTime::from_unix_ms(5)).expect("prepared");
        let steps = one_more("ALTER TABLE meta ADD COLUMN later TEXT");
        migrate_by(&mut conn, &steps).expect("migrated");
        migrate_by(&mut conn, &steps).expect("nothing left to do");
        conn.execute("UPDATE meta SET later = 'x'", [])
            .expect("the column is there");
        let refused = migrate_by(&mut conn, MIGRATIONS);
        let Err(OpenError::Version { found, known }) = refused else {
            panic!("a newer store was taken");
        };
        assert_eq!((found, known), (version() + 1, version()));
    }

    #[test]
    fn a_store_of_the_first_version_keeps_an_index_for_its_ids() {
        let mut conn = Connection::open_in_memory().expect("a database");
        conn.execute_batch(MIGRATIONS[0]).expect("version 1");
        conn.pragma_update(None, "user_version", 1).expect("said");
        migrate(&mut conn).expect("migrated");
        let plan: String = conn
            .query_row(
                "EXPLAIN QUERY PLAN SELECT n FROM records WHERE id = ?1 AND length(id) = 16",
                [[0; 16]],
                |row| row.get(3),
            )
            .expect("a plan");
        assert!(plan.contains("records_by_bare_id"), "{plan}");
    }

    #[test]
    fn a_store_of_an_earlier_version_counts_the_records_that_it_has() {
        let mut conn = Connection::open_in_memory().expect("a database");
        conn.execute_batch(MIGRATIONS[0]).expect("version 1");
        conn.pragma_update(None, "user_version", 1).expect("said");
        let insert = |conn: &Connection, n: u8, tenant: &str| {
            let sql = "INSERT INTO records VALUES (?1, ?2, ?2, ?2, ?3, '', '', '', 0, 0, 1, '', \
                       '', 0, 0, 0, '', 0, '', '', NULL, '', '', 0, 0, NULL, NULL, NULL, '')";
            conn.execute(sql, params![n, [n], tenant]).expect("a row");
        };
        for (n, tenant) in [(1, "a"), (2, "b"), (3, "a")] {
            insert(&conn, n, tenant);
        }
        migrate(&mut conn).expect("migrated");
        insert(&conn, 4, "a");
        conn.execute("DELETE FROM records WHERE tenant = 'b'", [])
            .expect("removed");
        let mut counts = conn
            .prepare("SELECT tenant, records FROM tenants")
            .expect("counts");
        let counts = counts.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let counts: Result<Vec<(String, i64)>, _> = counts.expect("counts").collect();
        assert_eq!(counts, Ok(vec![("a".to_owned(), 3)]));
    }

    #[test]
    fn a_step_that_fails_leaves_the_older_version_whole() {
        let mut conn = Connection::open_in_memory().expect("a database");
        prepare(&mut conn, WallTime::from_unix_ms(5)).expect("prepared");
        let steps = one_more("ALTER TABLE meta ADD COLUMN later TEXT; SELECT nothing;");
        assert!(migrate_by(&mut conn, &steps).is_err());
        migrate_by(&mut conn, MIGRATIONS).expect("still the version before");
        assert!(conn.execute("UPDATE meta SET later = 'x'", []).is_err());
    }

    #[test]
    fn a_second_preparation_keeps_the_first_one_s_secrets() {
        let mut conn = Connection::open_in_memory().expect("a database");
        let ids = |conn: &Connection| -> Vec<u8> {
            let sql = "SELECT bytes FROM secrets WHERE kind = 'scope'";
            conn.query_row(sql, [], |row| row.get(0))
                .expect("one scope secret")
        };
        prepare(&mut conn, WallTime::from_unix_ms(5)).expect("prepared");
        let first = ids(&conn);
        prepare(&mut conn, WallTime::from_unix_ms(5)).expect("nothing to do");
        assert_eq!(ids(&conn), first);
    }
}
