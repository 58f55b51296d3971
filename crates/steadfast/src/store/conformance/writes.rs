//! The suite's first half: what writes come to, and what is read back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::record::{Guard, Record, State};
use steadfast_core::time::WallTime;

use super::{apply, done, insert, renewed, replacement, rows, soon};
use crate::store::{Op, OpEnd, Store, StoreError, Written};

pub(super) async fn exercise<S: Store>(make: &impl Fn() -> S) {
    an_insert_is_done_once_and_the_second_gets_what_stands(make()).await;
    racing_inserts_have_one_winner(make()).await;
    a_replacement_needs_owner_and_version(make()).await;
    a_removal_needs_owner_and_version(make()).await;
    a_repeated_write_is_recognised_as_ones_own(make()).await;
    fences_grow_also_across_removal_and_expiry(make()).await;
    expiry_takes_only_expired_rows_and_no_more_than_asked(make()).await;
    the_date_never_goes_back(make()).await;
    every_part_of_a_record_comes_back(make()).await;
    writes_sent_together_are_applied_in_order(make()).await;
    a_write_that_is_dropped_before_it_began_is_not_begun(make()).await;
}

async fn an_insert_is_done_once_and_the_second_gets_what_stands<S: Store>(store: S) {
    let row = rows::reserved(1);
    assert_eq!(soon(store.get(row.scope)).await, Ok(None));
    let stands = insert(&store, &row).await;
    assert!(
        stands.standing.fence > row.standing.fence,
        "a fence is drawn for an insert"
    );
    let mut expected = row.clone();
    expected.standing.fence = stands.standing.fence;
    assert_eq!(stands, expected, "only the fence is the store's");
    assert_eq!(soon(store.get(row.scope)).await, Ok(Some(stands.clone())));

    let second = Record {
        scope: row.scope,
        ..rows::reserved(2)
    };
    let end = apply(&store, Op::Insert(Box::new(second))).await;
    assert_eq!(end, OpEnd::Stands(Some(Box::new(stands))));
}

async fn racing_inserts_have_one_winner<S: Store>(store: S) {
    let store = Arc::new(store);
    let scope = rows::reserved(1).scope;
    let racers = (0..40).map(|n| {
        let (store, row) = (
            Arc::clone(&store),
            Record {
                scope,
                ..rows::reserved(n)
            },
        );
        tokio::spawn(async move { apply(&*store, Op::Insert(Box::new(row))).await })
    });
    let racers: Vec<_> = racers.collect();
    let mut ends = Vec::new();
    for racer in racers {
        ends.push(soon(racer).await.expect("a racer ends"));
    }
    let winners = ends
        .iter()
        .filter(|end| matches!(end, OpEnd::Done(_)))
        .count();
    assert_eq!(winners, 1, "exactly one insert wins");
    let stands = soon(store.get(scope)).await.expect("a read");
    for end in ends {
        let (OpEnd::Done(row) | OpEnd::Stands(row)) = end else {
            panic!("an insert is done or meets a row")
        };
        assert_eq!(
            row.map(|row| *row),
            stands,
            "all racers are given the winner's row"
        );
    }
}

async fn a_replacement_needs_owner_and_version<S: Store>(store: S) {
    let first = insert(&store, &rows::reserved(1)).await;
    let second = renewed(&first);
    let other_owner = Guard {
        owner: rows::owner(99),
        ..first.guard()
    };
    let other_version = Guard {
        version: first.version + 1,
        ..first.guard()
    };
    for wrong in [other_owner, other_version] {
        let end = apply(&store, replacement(&second, wrong, false)).await;
        assert_eq!(end, OpEnd::Stands(Some(Box::new(first.clone()))));
    }
    let end = apply(&store, replacement(&second, first.guard(), false)).await;
    assert_eq!(
        end,
        OpEnd::Done(Some(Box::new(second.clone()))),
        "no draw, no new fence"
    );
    assert_eq!(soon(store.get(first.scope)).await, Ok(Some(second.clone())));
    let end = apply(&store, replacement(&second, first.guard(), false)).await;
    assert_eq!(
        end,
        OpEnd::Stands(Some(Box::new(second))),
        "the old guard does not hold"
    );

    let absent = rows::reserved(2);
    let end = apply(&store, replacement(&absent, absent.guard(), true)).await;
    assert_eq!(end, OpEnd::Stands(None));
    assert_eq!(soon(store.get(absent.scope)).await, Ok(None));
}

async fn a_removal_needs_owner_and_version<S: Store>(store: S) {
    let row = insert(&store, &rows::reserved(1)).await;
    let (scope, guard) = (row.scope, row.guard());
    let other_owner = Guard {
        owner: rows::owner(99),
        ..guard
    };
    let other_version = Guard {
        version: guard.version + 1,
        ..guard
    };
    for wrong in [other_owner, other_version] {
        let end = apply(
            &store,
            Op::Remove {
                scope,
                guard: wrong,
            },
        )
        .await;
        assert_eq!(end, OpEnd::Stands(Some(Box::new(row.clone()))));
    }
    assert_eq!(
        apply(&store, Op::Remove { scope, guard }).await,
        OpEnd::Done(None)
    );
    assert_eq!(soon(store.get(scope)).await, Ok(None));
    assert_eq!(
        apply(&store, Op::Remove { scope, guard }).await,
        OpEnd::Stands(None)
    );
}

async fn a_repeated_write_is_recognised_as_ones_own<S: Store>(store: S) {
    let row = rows::reserved(1);
    let stands = insert(&store, &row).await;
    let again = apply(&store, Op::Insert(Box::new(row.clone()))).await;
    assert_eq!(
        Written::of(&row, again),
        Written::Done(Box::new(stands.clone()))
    );

    let next = renewed(&stands);
    let op = replacement(&next, stands.guard(), true);
    let put = done(apply(&store, op.clone()).await);
    let again = apply(&store, op).await;
    assert_eq!(
        Written::of(&next, again),
        Written::Done(Box::new(put)),
        "no second draw"
    );
    let foreign = Record {
        scope: row.scope,
        ..rows::reserved(7)
    };
    let end = apply(&store, Op::Insert(Box::new(foreign.clone()))).await;
    assert!(matches!(Written::of(&foreign, end), Written::Stands(_)));
}

async fn fences_grow_also_across_removal_and_expiry<S: Store>(store: S) {
    let mut last = 0;
    let mut grows = |row: &Record| {
        assert!(row.standing.fence > last, "a fence only grows");
        assert!(row.standing.fence < 1 << 53, "a fence stays below 2^53");
        last = row.standing.fence;
    };
    for round in 0..3 {
        let row = insert(&store, &rows::reserved(1)).await;
        grows(&row);
        let next = renewed(&row);
        let row = done(apply(&store, replacement(&next, row.guard(), true)).await);
        grows(&row);
        let ends = WallTime::from_unix_ms(rows::DATE.unix_ms() + 1000);
        if round == 1 {
            let mut done_row = renewed(&row);
            done_row.standing.expires_at = Some(ends);
            done(apply(&store, replacement(&done_row, row.guard(), false)).await);
            let end = apply(
                &store,
                Op::Expire {
                    now: ends,
                    limit: 10,
                },
            )
            .await;
            assert_eq!(end, OpEnd::Expired(1));
        } else {
            let (scope, guard) = (row.scope, row.guard());
            assert_eq!(
                apply(&store, Op::Remove { scope, guard }).await,
                OpEnd::Done(None)
            );
        }
    }
    let status = soon(store.status()).await.expect("a status");
    assert_eq!(
        status.fence, last,
        "the status shows the highest fence drawn"
    );
}

async fn expiry_takes_only_expired_rows_and_no_more_than_asked<S: Store>(store: S) {
    let date = |ms| WallTime::from_unix_ms(rows::DATE.unix_ms() + ms);
    for n in 0..10 {
        let mut row = rows::completed(n);
        row.standing.expires_at = (n < 9).then(|| date(n));
        insert(&store, &row).await;
    }
    let expire = |now, limit| apply(&store, Op::Expire { now, limit });
    assert_eq!(expire(date(4), 0).await, OpEnd::Expired(0));
    assert_eq!(
        expire(date(4), 3).await,
        OpEnd::Expired(3),
        "no more than asked"
    );
    assert_eq!(
        expire(date(4), 100).await,
        OpEnd::Expired(2),
        "expiry at the date itself counts"
    );
    assert_eq!(expire(date(4), 100).await, OpEnd::Expired(0));
    let mut left = BTreeSet::new();
    for n in 0..10 {
        if soon(store.get(rows::completed(n).scope))
            .await
            .expect("a read")
            .is_some()
        {
            left.insert(n);
        }
    }
    assert_eq!(
        left,
        BTreeSet::from([5, 6, 7, 8, 9]),
        "what is not expired stands"
    );
    assert_eq!(
        expire(WallTime::from_unix_ms(u64::MAX), 100).await,
        OpEnd::Expired(4)
    );
    let lag = soon(store.status()).await.expect("a status").expiry_lag;
    assert_eq!(lag, Duration::ZERO, "what never expires does not lag");
}

async fn the_date_never_goes_back<S: Store>(store: S) {
    let first = soon(store.now()).await.expect("a date");
    let mut row = rows::reserved(1);
    row.updated_at = first.plus(Duration::from_secs(3600));
    insert(&store, &row).await;
    let second = soon(store.now()).await.expect("a date");
    assert!(
        second >= row.updated_at,
        "not before the last date that was written"
    );
    insert(&store, &rows::reserved(2)).await;
    assert!(
        soon(store.now()).await.expect("a date") >= second,
        "an older date changes nothing"
    );
}

async fn every_part_of_a_record_comes_back<S: Store>(store: S) {
    for (n, row) in rows::all().into_iter().enumerate() {
        let stands = insert(&store, &row).await;
        let mut expected = row.clone();
        expected.standing.fence = stands.standing.fence;
        let read = soon(store.get(row.scope)).await;
        assert_eq!(read, Ok(Some(expected.clone())), "row {n} after an insert");

        // The same parts by a replacement, over a row that has other ones.
        let plain = insert(&store, &rows::reserved(100_000 + n as u64)).await;
        expected.scope = plain.scope;
        expected.id = plain.id;
        done(apply(&store, replacement(&expected, plain.guard(), false)).await);
        let read = soon(store.get(plain.scope)).await;
        assert_eq!(
            read,
            Ok(Some(expected.clone())),
            "row {n} after a replacement"
        );

        // And gone again, with nothing of them left.
        let bare = Record {
            version: 77,
            ..plain
        };
        done(apply(&store, replacement(&bare, expected.guard(), false)).await);
        assert_eq!(
            soon(store.get(bare.scope)).await,
            Ok(Some(bare)),
            "row {n} replaced"
        );
    }
}

async fn writes_sent_together_are_applied_in_order<S: Store>(store: S) {
    let first = insert(&store, &rows::reserved(1)).await;
    let (second, third) = (renewed(&first), renewed(&renewed(&first)));
    let (one, two, three, four) = tokio::join!(
        biased;
        apply(&store, replacement(&second, first.guard(), false)),
        apply(&store, replacement(&third, second.guard(), false)),
        apply(&store, Op::Remove { scope: third.scope, guard: third.guard() }),
        apply(&store, Op::Insert(Box::new(first.clone()))),
    );
    assert_eq!(one, OpEnd::Done(Some(Box::new(second))));
    assert_eq!(two, OpEnd::Done(Some(Box::new(third))));
    assert_eq!(three, OpEnd::Done(None));
    assert!(done(four).standing.fence > first.standing.fence);
}

async fn a_write_that_is_dropped_before_it_began_is_not_begun<S: Store>(store: S) {
    let row = rows::reserved(1);
    drop(store.apply(Op::Insert(Box::new(row.clone()))));
    insert(&store, &rows::reserved(2)).await;
    let read: Result<_, StoreError> = soon(store.get(row.scope)).await;
    assert_eq!(read, Ok(None));
    assert!(
        soon(store.due(State::Unknown, WallTime::from_unix_ms(0), 10))
            .await
            .is_ok_and(|due| due.rows.is_empty())
    );
    let states = soon(store.status()).await.expect("a status").rows;
    let expected = State::ALL.map(|s| (s, u64::from(s == State::Reserved)));
    assert_eq!(states, expected, "every state is named");
}
