//! Which of many writes may go in one statement.
//!
//! Decides it purely, from the writes' scopes. Rule: what comes of the writes to one key is what
//! would come of them one after the other, and fences are drawn in the writes' order. In one
//! statement all see the same rows, so a second write to a key begins the next; but an insert
//! behind an insert needs none: it meets what the first one met or made. An expiry may take any
//! row, so it goes alone.

use std::collections::HashMap;

use steadfast_core::key::ScopeHash;

use crate::store::Op;

/// One statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// These writes, each to a key of its own.
    Write(Vec<usize>),
    /// This expiry.
    Expire(usize),
}

/// What goes when.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Statements, in order.
    pub(super) turns: Vec<Turn>,
    /// Inserts that are not sent, each with the one before it whose row it meets.
    pub(super) repeats: Vec<(usize, usize)>,
}

/// The statements for `ops`.
pub(super) fn plan(ops: &[Op]) -> Plan {
    let mut plan = Plan::default();
    // Each key's last write since the last expiry.
    let mut last: HashMap<ScopeHash, Last> = HashMap::new();
    for (at, op) in ops.iter().enumerate() {
        let (scope, inserts) = match op {
            Op::Insert(row) => (row.scope, true),
            Op::Replace { next, .. } => (next.scope, false),
            Op::Remove { scope, .. } => (*scope, false),
            Op::Expire { .. } => {
                plan.turns.push(Turn::Expire(at));
                last.clear();
                continue;
            }
        };
        let before = last.get(&scope);
        if let Some(before) = before.filter(|before| inserts && before.inserts) {
            plan.repeats.push((at, before.op));
            continue;
        }
        let present = plan.turns.len();
        let taken = before.is_some_and(|before| before.turn == present);
        match plan.turns.last_mut() {
            Some(Turn::Write(ops)) if !taken => ops.push(at),
            Some(_) | None => plan.turns.push(Turn::Write(vec![at])),
        }
        let turn = plan.turns.len();
        let op = at;
        last.insert(scope, Last { turn, op, inserts });
    }
    plan
}

/// A key's last write so far.
struct Last {
    /// How many turns there were with it.
    turn: usize,
    op: usize,
    inserts: bool,
}

#[cfg(test)]
mod tests {
    use steadfast_core::record::Record;
    use steadfast_core::time::WallTime;

    use super::*;
    use crate::store::conformance::rows;

    fn insert(n: u64) -> Op {
        Op::Insert(Box::new(rows::reserved(n)))
    }

    fn replace(n: u64) -> Op {
        let next: Record = rows::reserved(n);
        let guard = next.guard();
        let next = Box::new(next);
        let draw = false;
        Op::Replace { next, guard, draw }
    }

    #[test]
    fn writes_to_different_keys_go_in_one_statement_and_those_to_one_key_after_each_other() {
        let now = WallTime::from_unix_ms(0);
        let expire = Op::Expire { now, limit: 1 };
        let ops = [
            insert(1),
            replace(2),
            insert(1),
            replace(1),
            insert(3),
            insert(1),
            expire,
            replace(2),
            insert(2),
        ];
        let plan = plan(&ops);
        let turns = [
            Turn::Write(vec![0, 1]),
            Turn::Write(vec![3, 4]),
            Turn::Write(vec![5]),
            Turn::Expire(6),
            Turn::Write(vec![7]),
            Turn::Write(vec![8]),
        ];
        assert_eq!(plan.turns, turns);
        assert_eq!(plan.repeats, [(2, 0)]);
    }

    #[test]
    fn a_storm_of_one_key_is_one_write() {
        let ops: Vec<Op> = (0..1000).map(|_| insert(1)).collect();
        let plan = plan(&ops);
        assert_eq!(plan.turns, [Turn::Write(vec![0])]);
        assert_eq!(plan.repeats.len(), 999);
    }
}
