//! The statement in which many writes go together.
//!
//! Rule: one statement, one commit, whatever is in it; the fence is drawn in it, in the order of
//! the writes; rows are inserted in the order of their scopes, so that two gateways with the same
//! duplicates do not wait for each other. What its guard does not hold for is not in the answer.
//! Source: the unit of work is measured (docs/performance.md): arrays on one connection do what
//! single statements on sixty-four do not.

use std::fmt::Write as _;

use super::rows::COLUMNS;

/// Which kinds of writes are in a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Kinds {
    pub(super) inserts: bool,
    pub(super) replacements: bool,
    pub(super) removals: bool,
    /// Some of them draw a fence: inserts do.
    pub(super) draws: bool,
    /// Some of the replacements do. Where none does, they are not joined with the fences.
    pub(super) redraws: bool,
    /// The mark of dates has to move.
    pub(super) mark: bool,
}

/// What stands in the first column of the answer.
pub(super) const CLOCK: i64 = 0;

/// The database's clock in whole milliseconds.
const NOW: &str = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)";

/// The clock and the mark, and nothing else.
pub(super) fn clock() -> String {
    format!("SELECT {NOW}, date_mark FROM steadfast.meta")
}

/// The statement for `kinds`. Its parameters: the places of the writes that draw a fence, in order;
/// the columns of the inserted rows, and their places; the columns of the replacements, then the
/// owners and versions that must stand, the fences that are kept where none is drawn, and their
/// places; scopes, owners and versions of the removals; the mark. Its answer: kind ([`CLOCK`] or
/// not), scope, and the fence; for the clock the date and the mark.
pub(super) fn write(kinds: Kinds) -> String {
    let mut sql = Sql::default();
    if kinds.draws {
        sql.draws();
    }
    if kinds.inserts {
        sql.inserts();
    }
    if kinds.replacements {
        sql.replacements(kinds.redraws);
    }
    if kinds.removals {
        sql.removals();
    }
    if kinds.mark {
        sql.next += 1;
        let mark = format!(
            "mark AS (UPDATE steadfast.meta SET date_mark = ${0} WHERE date_mark < ${0})",
            sql.next
        );
        sql.parts.push(mark);
    }
    let mut text = format!("WITH {} ", sql.parts.join(", "));
    let _ = write!(
        text,
        "SELECT CAST({CLOCK} AS bigint), CAST(NULL AS bytea), {NOW}, date_mark FROM steadfast.meta"
    );
    for of in sql.answers {
        let _ = write!(
            text,
            " UNION ALL SELECT CAST(1 AS bigint), scope, fence, CAST(0 AS bigint) FROM {of}"
        );
    }
    text
}

#[derive(Default)]
struct Sql {
    parts: Vec<String>,
    answers: Vec<&'static str>,
    /// Parameters so far.
    next: usize,
}

impl Sql {
    /// `unnest` of the columns, and of what else is given, under `alias`.
    fn rows(&mut self, alias: &str, more: &[(&str, &str)]) -> String {
        let (mut arrays, mut names) = (Vec::new(), Vec::new());
        for (name, kind) in COLUMNS.iter().chain(more) {
            self.next += 1;
            arrays.push(format!("${}::{kind}[]", self.next));
            names.push(*name);
        }
        let (arrays, names) = (arrays.join(", "), names.join(", "));
        format!("unnest({arrays}) AS {alias} ({names})")
    }

    /// One fence for each place, in their order, whichever part of the statement takes it.
    fn draws(&mut self) {
        self.next += 1;
        self.parts.push(format!(
            "f AS (SELECT f.place, nextval('steadfast.fences') AS drawn \
             FROM unnest(${}::bigint[]) AS f (place))",
            self.next
        ));
    }

    fn inserts(&mut self) {
        let rows = self.rows("i", &[("place", "bigint")]);
        let names = COLUMNS.map(|(name, _)| name).join(", ");
        let own = COLUMNS.map(|(name, _)| format!("i.{name}")).join(", ");
        self.parts.push(format!(
            "inserted AS (INSERT INTO steadfast.records (n, fence, {names}) \
             SELECT f.drawn, f.drawn, {own} FROM {rows} JOIN f ON f.place = i.place \
             ORDER BY i.scope ON CONFLICT (scope) DO NOTHING RETURNING scope, fence)"
        ));
        self.answers.push("inserted");
    }

    fn replacements(&mut self, draws: bool) {
        let more = [
            ("guard_owner", "text"),
            ("guard_version", "bigint"),
            ("own_fence", "bigint"),
            ("place", "bigint"),
        ];
        let rows = self.rows("u", &more);
        let sets: Vec<String> = COLUMNS
            .iter()
            .filter(|(name, _)| !["scope", "body_kept"].contains(name))
            .map(|(name, _)| format!("{name} = u.{name}"))
            .collect();
        let sets = sets.join(", ");
        self.parts.push(match draws {
            true => {
                format!("u AS (SELECT f.drawn, u.* FROM {rows} LEFT JOIN f ON f.place = u.place)")
            }
            false => format!("u AS (SELECT CAST(NULL AS bigint) AS drawn, u.* FROM {rows})"),
        });
        // A request does not change while its operation lasts: it is not written again.
        self.parts.push(format!(
            "replaced AS (UPDATE steadfast.records r SET {sets}, \
             fence = CASE WHEN u.drawn IS NULL THEN u.own_fence \
             ELSE greatest(u.drawn, r.fence + 1) END, \
             body_kept = CASE WHEN r.id = u.id AND u.body_kept IS NOT NULL \
             AND r.body_kept IS NOT NULL THEN r.body_kept ELSE u.body_kept END \
             FROM u WHERE r.scope = u.scope AND r.owner = u.guard_owner \
             AND r.version = u.guard_version RETURNING r.scope, r.fence)"
        ));
        self.answers.push("replaced");
    }

    fn removals(&mut self) {
        let at = self.next;
        self.next += 3;
        self.parts.push(format!(
            "removed AS (DELETE FROM steadfast.records r USING unnest(${}::bytea[], ${}::text[], \
             ${}::bigint[]) AS d (scope, guard_owner, guard_version) WHERE r.scope = d.scope \
             AND r.owner = d.guard_owner AND r.version = d.guard_version \
             RETURNING r.scope, r.fence)",
            at + 1,
            at + 2,
            at + 3
        ));
        self.answers.push("removed");
    }
}

/// Rows whose expiry is not after `$1`, `$2` at most. Those that somebody is writing just now are
/// left for the next time.
pub(super) const EXPIRE: &str = "WITH old AS (\
     SELECT scope FROM steadfast.records WHERE expires_at IS NOT NULL AND expires_at <= $1 \
     ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED) \
     DELETE FROM steadfast.records r USING old WHERE r.scope = old.scope \
     AND r.expires_at IS NOT NULL AND r.expires_at <= $1 RETURNING r.scope";
