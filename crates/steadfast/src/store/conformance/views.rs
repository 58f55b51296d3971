//! The suite's second half: what a store shows, and whom it wakes.

use std::sync::Arc;

use super::{STUCK, apply, clock, done, insert, renewed, replacement, rows, soon};
use crate::store::{Cursor, Op, OpEnd, Scan, Store, StoreError};
use steadfast_core::key::{ScopeHash, Tenant};
use steadfast_core::record::{Guard, OperationId, Record, State};
use steadfast_core::time::WallTime;

pub(super) async fn exercise<S: Store>(make: &impl Fn() -> S) {
    a_row_is_found_by_its_id(make()).await;
    held_rows_come_first_ended_first(make()).await;
    due_rows_come_by_state_longest_due_first(make()).await;
    a_request_is_kept_until_its_end(make()).await;
    a_scan_filters(make()).await;
    a_scan_goes_on_at_its_cursor(make()).await;
    it_counts_what_is_there(make()).await;
    secrets_are_made_once(make()).await;
    who_waits_is_told_of_a_replacement_and_a_removal(make()).await;
    who_waits_for_what_has_passed_is_told_at_once(make()).await;
    who_waits_misses_no_change(make()).await;
    who_waits_is_not_told_of_other_rows(make()).await;
}

fn date(ms: u64) -> WallTime {
    WallTime::from_unix_ms(rows::DATE.unix_ms() + ms)
}

async fn a_row_is_found_by_its_id<S: Store>(store: S) {
    insert(&store, &rows::reserved(2)).await;
    // An id with a place, and one without.
    for n in [1, 3] {
        let row = insert(&store, &rows::completed(n)).await;
        assert_eq!(soon(store.by_id(row.id)).await, Ok(Some(row.clone())));
        let absent = [
            OperationId::from_bits(5),
            OperationId::new(&row.scope, 5),
            OperationId::new(&rows::scope(9), row.id.bits()),
        ];
        for absent in absent {
            assert_eq!(soon(store.by_id(absent)).await, Ok(None));
        }
        // Another operation takes the place of an expired one, under an id of its own.
        let mut next = renewed(&row);
        next.id = OperationId::new(&row.scope, 5);
        done(apply(&store, replacement(&next, row.guard(), false)).await);
        assert_eq!(soon(store.by_id(row.id)).await, Ok(None));
        assert_eq!(soon(store.by_id(next.id)).await, Ok(Some(next)));
    }
}

async fn held_rows_come_first_ended_first<S: Store>(store: S) {
    for (n, ends) in [(1, Some(30)), (2, Some(10)), (3, None), (4, Some(20))] {
        let mut row = rows::reserved(n);
        row.standing.locked_until = ends.map(date);
        insert(&store, &row).await;
    }
    let held = async |limit| {
        let page = soon(store.held(limit)).await.expect("held rows");
        assert!(page.unreadable.is_empty() && page.next.is_none());
        scopes_of(&page.rows)
    };
    assert_eq!(held(10).await, scopes(&[2, 4, 1]));
    assert_eq!(held(2).await, scopes(&[2, 4]));
    let row = soon(store.get(rows::scope(2))).await;
    let row = row.expect("a read").expect("row 2");
    let mut settled = renewed(&row);
    settled.standing.locked_until = None;
    done(apply(&store, replacement(&settled, row.guard(), false)).await);
    assert_eq!(held(10).await, scopes(&[4, 1]), "a settled row is not held");
}

fn scopes_of(rows: &[Record]) -> Vec<ScopeHash> {
    rows.iter().map(|row| row.scope).collect()
}

fn scopes(of: &[u64]) -> Vec<ScopeHash> {
    of.iter().map(|n| rows::scope(*n)).collect()
}

async fn due_rows_come_by_state_longest_due_first<S: Store>(store: S) {
    let unknown = State::Unknown;
    for (n, state, due) in [
        (1, unknown, Some(30)),
        (2, unknown, Some(10)),
        (3, unknown, None),
        (4, State::Deferred, Some(5)),
        (5, unknown, Some(20)),
        (6, unknown, Some(31)),
        (7, State::Dispatched, Some(5)),
    ] {
        let mut row = rows::reserved(n);
        row.standing.state = state;
        row.standing.locked_until = None;
        row.standing.pending.due_at = due.map(date);
        insert(&store, &row).await;
    }
    let due = async |state, now, limit| {
        let page = soon(store.due(state, now, limit)).await.expect("due rows");
        assert!(page.unreadable.is_empty() && page.next.is_none());
        scopes_of(&page.rows)
    };
    assert_eq!(due(unknown, date(9), 10).await, scopes(&[]));
    assert_eq!(
        due(unknown, date(30), 10).await,
        scopes(&[2, 5, 1]),
        "due at the date itself counts"
    );
    assert_eq!(due(unknown, date(30), 2).await, scopes(&[2, 5]));
    assert_eq!(due(State::Deferred, date(30), 9).await, scopes(&[4]));
    assert_eq!(due(State::Dispatched, date(30), 9).await, scopes(&[]));
    let row = soon(store.get(rows::scope(2))).await;
    let row = row.expect("a read").expect("row 2");
    let mut later = renewed(&row);
    later.standing.pending.due_at = Some(date(40));
    done(apply(&store, replacement(&later, row.guard(), false)).await);
    assert_eq!(due(unknown, date(30), 10).await, scopes(&[5, 1]));
    assert_eq!(due(unknown, date(40), 10).await, scopes(&[5, 1, 6, 2]));
}

/// A request is given back as it was kept, through writes that leave it alone, and is gone with
/// the write that ends its operation.
async fn a_request_is_kept_until_its_end<S: Store>(store: S) {
    let row = insert(&store, &rows::deferred(1)).await;
    let kept = row.kept.clone();
    let mut next = renewed(&row);
    done(apply(&store, replacement(&next, row.guard(), true)).await);
    let stands = soon(store.get(row.scope)).await.expect("a read");
    let stands = stands.expect("the row");
    assert_eq!(stands.kept, kept);
    let due = soon(store.due(State::Deferred, date(1 << 40), 9)).await;
    assert_eq!(due.expect("due rows").rows, std::slice::from_ref(&stands));
    next = renewed(&stands);
    next.kept = None;
    done(apply(&store, replacement(&next, stands.guard(), false)).await);
    let stands = soon(store.get(row.scope)).await.expect("a read");
    let stands = stands.expect("the row");
    assert_eq!(stands.kept, None);
    // Another operation takes the place of an expired one, and keeps a request of its own.
    let mut other = rows::deferred(2);
    other.scope = row.scope;
    other.version = stands.version + 1;
    done(apply(&store, replacement(&other, stands.guard(), true)).await);
    let stands = soon(store.get(row.scope)).await.expect("a read");
    let stands = stands.expect("the row");
    assert_eq!(stands.kept, other.kept);
    let mut third = rows::deferred(3);
    third.scope = row.scope;
    third.version = stands.version + 1;
    done(apply(&store, replacement(&third, stands.guard(), true)).await);
    let stands = soon(store.get(row.scope)).await.expect("a read");
    assert_eq!(stands.expect("the row").kept, third.kept);
}

/// Six rows of two states, in the order in which they were inserted.
async fn six_rows<S: Store>(store: &S) -> Vec<Record> {
    let mut all = Vec::new();
    for n in [5, 1, 4, 2, 3, 6] {
        let mut row = if n % 2 == 0 {
            rows::completed(n)
        } else {
            rows::reserved(n)
        };
        row.updated_at = date(n);
        all.push(insert(store, &row).await);
    }
    all
}

async fn a_scan_filters<S: Store>(store: S) {
    let all = six_rows(&store).await;
    let found = async |scan: Scan| soon(store.scan(scan)).await.expect("a scan").rows;
    let everything = Scan {
        limit: 100,
        ..Scan::default()
    };
    assert_eq!(
        found(everything.clone()).await,
        all,
        "in the order of insertion"
    );

    let filters = [
        Scan {
            state: Some(State::Completed),
            ..everything.clone()
        },
        Scan {
            updated_before: Some(date(3)),
            ..everything.clone()
        },
        Scan {
            locked_before: Some(date(30_001)),
            ..everything.clone()
        },
        Scan {
            locked_before: Some(date(30_000)),
            ..everything.clone()
        },
        Scan {
            owner: Some(rows::owner(4)),
            ..everything.clone()
        },
        Scan {
            tenant: Some(all[2].tenant.clone()),
            ..everything.clone()
        },
        Scan {
            key: Some(all[3].key.clone()),
            ..everything.clone()
        },
        Scan {
            state: Some(State::Reserved),
            updated_before: Some(date(4)),
            ..everything.clone()
        },
    ];
    for (n, scan) in filters.into_iter().enumerate() {
        let expected: Vec<_> = all.iter().filter(|row| scan.takes(row)).cloned().collect();
        assert_eq!(found(scan).await, expected, "filter {n}");
    }
    assert_eq!(
        found(Scan::default()).await,
        Vec::new(),
        "limit 0 gives nothing"
    );
}

async fn a_scan_goes_on_at_its_cursor<S: Store>(store: S) {
    let all = six_rows(&store).await;
    let mut after: Option<Cursor> = None;
    let mut paged = Vec::new();
    loop {
        let page = soon(store.scan(Scan {
            after,
            limit: 2,
            ..Scan::default()
        }))
        .await;
        let page = page.expect("a page");
        assert!(page.rows.len() <= 2);
        // What happens between two pages moves nothing: rows go and come, the cursor stays sound.
        if let Some(row) = page.rows.first() {
            let (scope, guard) = (row.scope, row.guard());
            apply(&store, Op::Remove { scope, guard }).await;
        }
        paged.extend(page.rows);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, all, "every row once");
}

async fn it_counts_what_is_there<S: Store>(store: S) {
    let tenant = |n: u64| Tenant::from_stored(&format!("{n:032x}")).expect("a hash is a tenant");
    // Three holds until 30 s, and two finished rows that expire after 1 s.
    for (n, of) in [(1, 7), (2, 9), (3, 8), (4, 9), (5, 9)] {
        let mut row = match n {
            1..4 => rows::reserved(n),
            _ => rows::completed(n),
        };
        row.tenant = tenant(of);
        row.updated_at = date(100 - n);
        insert(&store, &row).await;
    }
    let stats = async |at, tenants| soon(store.stats(date(at), tenants)).await.expect("counts");
    let early = stats(999, 2).await;
    let oldest = [(State::Reserved, date(97)), (State::Completed, date(95))];
    assert_eq!(early.oldest.len(), oldest.len());
    assert!(oldest.iter().all(|known| early.oldest.contains(known)));
    assert_eq!((early.leases_over, early.expired), (0, 0));
    assert_eq!(early.tenants, [(tenant(9), 3), (tenant(7), 1)]);
    let late = stats(1000, 10).await;
    assert_eq!(late.expired, 2, "past at the date itself");
    let live = [7, 8, 9].map(|of| (tenant(of), 1));
    assert_eq!(late.tenants, live, "what has expired does not count");
    assert_eq!(stats(29_999, 0).await.leases_over, 0);
    let last = stats(30_000, 0).await;
    assert_eq!((last.leases_over, last.tenants.len()), (3, 0));
}

async fn secrets_are_made_once<S: Store>(store: S) {
    let secrets = soon(store.secrets()).await.expect("secrets");
    assert!(
        !secrets.fingerprints.is_empty(),
        "a prepared store has a present secret"
    );
    let again = soon(store.secrets()).await.expect("secrets");
    assert_eq!(again.fingerprints.len(), secrets.fingerprints.len());
}

/// Waits on another task; the first poll has registered it once `ready` says so.
fn wait<S: Store>(
    store: &Arc<S>,
    row: &Record,
) -> tokio::task::JoinHandle<Result<Option<Record>, StoreError>> {
    let (store, scope, seen) = (Arc::clone(store), row.scope, row.guard());
    tokio::spawn(async move { store.changed(scope, seen).await })
}

async fn told<T>(waiter: tokio::task::JoinHandle<Result<T, StoreError>>) -> T {
    let told = soon(waiter).await.expect("a waiter ends");
    told.expect("a waiter is told, not failed")
}

async fn who_waits_is_told_of_a_replacement_and_a_removal<S: Store>(store: S) {
    let store = Arc::new(store);
    let mut row = insert(&*store, &rows::reserved(1)).await;
    for _ in 0..5 {
        let waiters: Vec<_> = (0..10).map(|_| wait(&store, &row)).collect();
        tokio::task::yield_now().await;
        let next = renewed(&row);
        row = done(apply(&*store, replacement(&next, row.guard(), true)).await);
        for waiter in waiters {
            assert_eq!(told(waiter).await, Some(row.clone()));
        }
    }
    let waiter = wait(&store, &row);
    tokio::task::yield_now().await;
    let (scope, guard) = (row.scope, row.guard());
    assert_eq!(
        apply(&*store, Op::Remove { scope, guard }).await,
        OpEnd::Done(None)
    );
    assert_eq!(told(waiter).await, None);

    let row = insert(&*store, &rows::completed(2)).await;
    let waiter = wait(&store, &row);
    tokio::task::yield_now().await;
    let now = WallTime::from_unix_ms(u64::MAX);
    assert_eq!(
        apply(&*store, Op::Expire { now, limit: 9 }).await,
        OpEnd::Expired(1)
    );
    assert_eq!(told(waiter).await, None, "expiry is a removal");
}

async fn who_waits_for_what_has_passed_is_told_at_once<S: Store>(store: S) {
    let row = insert(&store, &rows::reserved(1)).await;
    let seen = Guard {
        version: row.version + 1,
        ..row.guard()
    };
    assert_eq!(
        soon(store.changed(row.scope, seen)).await,
        Ok(Some(row.clone()))
    );
    let absent = rows::scope(2);
    assert_eq!(soon(store.changed(absent, row.guard())).await, Ok(None));
}

async fn who_waits_misses_no_change<S: Store>(store: S) {
    const WRITES: u64 = 200;
    let store = Arc::new(store);
    let row = insert(&*store, &rows::reserved(1)).await;
    let last = row.version + WRITES;
    let follow = |mut seen: Record| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            while seen.version < last {
                let now = store.changed(seen.scope, seen.guard()).await?;
                let now = now.expect("the row is not removed here");
                assert!(now.version > seen.version, "changes are told in order");
                seen = now;
            }
            Ok::<_, StoreError>(seen)
        })
    };
    let followers: Vec<_> = (0..4).map(|_| follow(row.clone())).collect();
    let mut row = row;
    for _ in 0..WRITES {
        let next = renewed(&row);
        row = done(apply(&*store, replacement(&next, row.guard(), false)).await);
    }
    for follower in followers {
        assert_eq!(told(follower).await, row, "the last change is told");
    }
}

async fn who_waits_is_not_told_of_other_rows<S: Store>(store: S) {
    let row = insert(&store, &rows::reserved(1)).await;
    let other = insert(&store, &rows::reserved(2)).await;
    let mut waiting = std::pin::pin!(store.changed(row.scope, row.guard()));
    let elsewhere = async {
        let next = renewed(&other);
        done(apply(&store, replacement(&next, other.guard(), false)).await);
        insert(&store, &rows::reserved(3)).await;
    };
    tokio::select! {
        biased;
        told = &mut waiting => panic!("nothing changed, but the waiter was told {told:?}"),
        () = elsewhere => {}
    }
    let next = renewed(&row);
    let write = async { apply(&store, replacement(&next, row.guard(), false)).await };
    let (told, _) = clock::within(STUCK, futures_util::future::join(waiting, write))
        .await
        .expect("the waiter is told");
    assert_eq!(told, Ok(Some(next)));
}
