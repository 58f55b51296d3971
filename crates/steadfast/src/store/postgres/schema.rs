//! The tables: whether they are there, which version they have, and how they are made.
//!
//! Rule: only `migrate` makes or changes them; each version is one SQL text that goes in one
//! transaction. Whoever opens a store that is not ready is told what to do.

use steadfast_core::time::WallTime;
use tokio_postgres::types::Type;

use super::error::Fault;
use super::link::{CALL_WITHIN, LISTING_WITHIN, Link, Parameter};
use super::open::OpenError;
use crate::clock;
use crate::store::{Secrets, StoreError, codec, fence};

/// One pair of texts for each version, from the first on: to it, and back from it.
const MIGRATIONS: &[(&str, &str)] = &[(
    include_str!("migrations/0001.up.sql"),
    include_str!("migrations/0001.down.sql"),
)];

/// The most partitions: each is a file and five indexes, and is looked at by every plan.
pub const MOST_PARTITIONS: u32 = 256;

/// Those who migrate at once wait for each other at this number.
const LOCK: i64 = 0x5366_7374;

/// The version that this build reads and writes.
pub(super) fn version() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
}

/// How far the tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// A migration to this version was begun and not ended.
    Half(i32),
    Version(i32),
}

/// The way up, from `version` on, with the records in so many partitions (0: in one table).
pub(super) fn up(from: i32, partitions: u32) -> String {
    let from = usize::try_from(from).unwrap_or(0);
    let steps = MIGRATIONS.iter().enumerate().skip(from);
    let text = steps.map(|(at, (up, _))| match (at, partitions) {
        (0, 1..) => partitioned(up, partitions),
        _ => (*up).to_owned(),
    });
    text.collect::<Vec<_>>().join("\n")
}

/// The way back, to nothing.
pub(super) fn down() -> String {
    let steps = MIGRATIONS.iter().rev().map(|(_, down)| *down);
    steps.collect::<Vec<_>>().join("\n")
}

/// The first version's text, with the records spread over tables by the hash of their scope.
/// Storage settings are those of the parts.
fn partitioned(up: &str, partitions: u32) -> String {
    let mut parts = String::from(") PARTITION BY HASH (scope);\n");
    for part in 0..partitions {
        parts += &format!(
            "CREATE TABLE steadfast.records_{part} PARTITION OF steadfast.records \
             FOR VALUES WITH (MODULUS {partitions}, REMAINDER {part});\n"
        );
    }
    let text = up.replace("); -- end of records\n", &parts);
    let (begin, end) = (
        "ALTER TABLE steadfast.records SET (",
        "); -- end of storage",
    );
    let Some((before, rest)) = text.split_once(begin) else {
        return text;
    };
    let Some((settings, after)) = rest.split_once(end) else {
        return text;
    };
    let each = |part| format!("ALTER TABLE steadfast.records_{part} SET ({settings});\n");
    let all: String = (0..partitions).map(each).collect();
    format!("{before}{all}{after}")
}

async fn found(link: &mut Link) -> Result<Found, Fault> {
    let sql = "SELECT to_regclass('steadfast.meta') IS NOT NULL, \
               to_regclass('steadfast.records') IS NOT NULL";
    let rows = link.query(sql, &[], CALL_WITHIN).await?;
    let there = rows
        .first()
        .map(|row| Ok::<_, Fault>((row.try_get(0)?, row.try_get(1)?)));
    match there.transpose()? {
        Some((true, _)) => {}
        Some((false, true)) => return Ok(Found::Half(1)),
        Some((false, false)) | None => return Ok(Found::Nothing),
    }
    let sql = "SELECT version, moving_to FROM steadfast.meta";
    let rows = link.query(sql, &[], CALL_WITHIN).await?;
    let Some(row) = rows.first() else {
        return Ok(Found::Half(1));
    };
    Ok(match (row.try_get(0)?, row.try_get(1)?) {
        (_, Some(to)) => Found::Half(to),
        (version, None) => Found::Version(version),
    })
}

fn refusal(found: Found) -> Option<OpenError> {
    let known = version();
    match found {
        Found::Nothing => Some(OpenError::Unprepared),
        Found::Half(to) => Some(OpenError::HalfMigrated { to }),
        Found::Version(found) if found > known => Some(OpenError::Newer { found, known }),
        Found::Version(found) if found < known => Some(OpenError::Older { found, known }),
        Found::Version(_) => None,
    }
}

/// The store is ready for this build.
pub(super) async fn check(link: &mut Link) -> Result<(), OpenError> {
    if let Some(refusal) = refusal(found(link).await?) {
        return Err(refusal);
    }
    match secrets(link).await? {
        Some(_) => Ok(()),
        None => Err(OpenError::Unprepared),
    }
}

/// Makes the tables, or brings them to this build's version, and makes the secrets where there are
/// none.
pub(super) async fn migrate(
    link: &mut Link,
    partitions: u32,
    now: impl Fn() -> WallTime,
) -> Result<(), OpenError> {
    let from = match found(link).await? {
        Found::Nothing => 0,
        Found::Version(version) if version < self::version() => version,
        found => match refusal(found) {
            None => return furnish(link, now()).await,
            Some(refusal) => return Err(refusal),
        },
    };
    // One text, so that one server connection performs it whatever stands in between. Another
    // process may be at it: whoever comes second fails at the first table, and looks again.
    let text = format!(
        "BEGIN;\nSELECT pg_advisory_xact_lock({LOCK});\n{}\nCOMMIT;",
        up(from, partitions)
    );
    if let Err(fault) = link.run(&text, LISTING_WITHIN).await {
        let _ = link.run("ROLLBACK", CALL_WITHIN).await;
        if found(link).await? != Found::Version(version()) {
            return Err(fault.into());
        }
    }
    furnish(link, now()).await
}

/// Makes the secrets and sets the fences' start, once.
async fn furnish(link: &mut Link, now: WallTime) -> Result<(), OpenError> {
    if secrets(link).await?.is_some() {
        return Ok(());
    }
    let start = i64::try_from(fence::start(now)).unwrap_or(i64::MAX);
    let bytes: [[u8; 32]; 2] = [clock::random(), clock::random()];
    let [scope, print] = [&bytes[0][..], &bytes[1][..]];
    // Together, and only where there are none: of two who make some, one makes all. Nobody sees a
    // secret before the fences' start is set.
    let sql = "WITH made AS (INSERT INTO steadfast.secrets (n, kind, id, bytes) \
               VALUES (1, 'scope', 'scope', $1), (2, 'fingerprint', $3, $2) \
               ON CONFLICT DO NOTHING RETURNING n) \
               SELECT setval('steadfast.fences', greatest($4, last_value)) FROM steadfast.fences \
               WHERE EXISTS (SELECT 1 FROM made)";
    let parameters: [Parameter<'_>; 4] = [
        (&scope, Type::BYTEA),
        (&print, Type::BYTEA),
        (&fence::FIRST_SECRET, Type::TEXT),
        (&start, Type::INT8),
    ];
    link.query(sql, &parameters, CALL_WITHIN).await?;
    Ok(())
}

/// The secrets of a prepared store; `None` where it has none, or not all.
pub(super) async fn secrets(link: &mut Link) -> Result<Option<Secrets>, Fault> {
    let sql = "SELECT kind, id, bytes FROM steadfast.secrets ORDER BY n";
    let (mut scope, mut fingerprints) = (None, Vec::new());
    for row in link.query(sql, &[], CALL_WITHIN).await? {
        let (kind, id): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        let Ok(bytes) = <[u8; 32]>::try_from(row.try_get::<_, &[u8]>(2)?) else {
            return Err(Fault::Store(not_whole()));
        };
        match (kind, codec::fingerprint_secret(id, bytes)) {
            ("scope", _) => scope = Some(codec::scope_secret(bytes)),
            (_, Some(secret)) => fingerprints.push(secret),
            (_, None) => return Err(Fault::Store(not_whole())),
        }
    }
    let secrets = scope.map(|scope| Secrets {
        scope,
        fingerprints,
    });
    Ok(secrets.filter(|secrets| !secrets.fingerprints.is_empty()))
}

/// Makes `bytes` the present fingerprint secret. False where the id names another one.
pub(super) async fn register(link: &mut Link, id: &str, bytes: &[u8]) -> Result<bool, Fault> {
    let sql = "INSERT INTO steadfast.secrets (n, kind, id, bytes) \
               VALUES ((SELECT max(n) + 1 FROM steadfast.secrets), 'fingerprint', $1, $2) \
               ON CONFLICT (kind, id) DO UPDATE SET n = excluded.n \
               WHERE secrets.bytes = excluded.bytes RETURNING n";
    let parameters: [Parameter<'_>; 2] = [(&id, Type::TEXT), (&bytes, Type::BYTEA)];
    let done = link.query(sql, &parameters, CALL_WITHIN).await?;
    Ok(!done.is_empty())
}

/// What `migrate` makes is there in part only.
pub(super) fn not_whole() -> StoreError {
    let why = "its secrets or counters are damaged; restore it from a backup";
    StoreError::Unavailable(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // rule: an-unprepared-half-migrated-or-newer-database-is-refused-by-name
    #[test]
    fn what_is_not_ready_is_refused_with_what_to_do() {
        let known = version();
        assert_eq!(refusal(Found::Version(known)), None);
        for (found, says) in [
            (Found::Nothing, "`steadfast store migrate`"),
            (Found::Half(1), "version 1 was begun"),
            (Found::Version(known + 1), "or a newer one"),
            (Found::Version(known - 1), "`steadfast store migrate`"),
        ] {
            let refusal = refusal(found).expect("refused").to_string();
            assert!(refusal.contains(says), "{found:?}: {refusal}");
        }
    }

    #[test]
    fn partitions_have_the_settings_of_the_table_that_they_make_up() {
        let (whole, parts) = (up(0, 0), up(0, 3));
        assert!(!whole.contains("PARTITION BY"));
        assert!(parts.contains(") PARTITION BY HASH (scope);"));
        assert_eq!(parts.matches("PARTITION OF steadfast.records").count(), 3);
        assert_eq!(parts.matches("autovacuum_vacuum_threshold").count(), 3);
        assert!(!parts.contains("ALTER TABLE steadfast.records SET"));
    }

    #[test]
    fn each_way_up_says_what_it_is_at_and_has_a_way_back() {
        for (at, (up, down)) in (1..).zip(MIGRATIONS) {
            assert!(up.contains(&format!("SET version = {at}, moving_to = NULL")));
            assert!(up.contains("moving_to"));
            assert!(!down.trim().is_empty());
        }
    }
}
