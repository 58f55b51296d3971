//! The suite's second half: what a store shows, and whom it wakes.

use std::sync::Arc;

use super::{STUCK, apply, clock, done, insert, renewed, replacement, rows, soon};
use crate::store::{Cursor, Op, OpEnd, Scan, Store, StoreError};
use steadfast_core::key::Tenant;
use steadfast_core::record::{Guard, OperationId, Record, State};
use steadfast_core::time::WallTime;

pub(super) async fn exercise<S: Store>(make: &impl Fn() -> S) {
    a_row_is_found_by_its_id(make()).await;
    due_rows_come_longest_due_first(make()).await;
    a_scan_filters(make()).await;
    a_scan_goes_on_at_its_cursor(make()).await;
    it_counts_what_is_there(make()).await;
    it_counts_the_rows_of_a_principal(make()).await;
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

async fn due_rows_come_longest_due_first<S: Store>(store: S) {
    for (n, ends) in [
        (1, Some(30)),
        (2, Some(10)),
        (3, None),
        (4, Some(20)),
        (5, Some(31)),
    ] {
        let mut row = rows::reserved(n);
        row.standing.locked_until = ends.map(date);
        insert(&store, &row).await;
    }
    let due = async |now, limit| {
        let page = soon(store.due(now, limit)).await.expect("due rows");
        assert!(page.unreadable.is_empty() && page.next.is_none());
        let scopes: Vec<_> = page.rows.iter().map(|row| row.scope).collect();
        scopes
    };
    let scopes = |of: &[u64]| of.iter().map(|n| rows::scope(*n)).collect::<Vec<_>>();
    assert_eq!(due(date(9), 10).await, scopes(&[]));
    assert_eq!(
        due(date(30), 10).await,
        scopes(&[2, 4, 1]),
        "due at the date itself counts"
    );
    assert_eq!(due(date(30), 2).await, scopes(&[2, 4]));
    let row = soon(store.get(rows::scope(2)))
        .await
        .expect("a read")
        .expect("row 2");
    let mut settled = renewed(&row);
    settled.standing.locked_until = None;
    done(apply(&store, replacement(&settled, row.guard(), false)).await);
    assert_eq!(
        due(date(30), 10).await,
        scopes(&[4, 1]),
        "a settled row is due no more"
    );
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

async fn it_counts_the_rows_of_a_principal<S: Store>(store: S) {
    let tenant = |n: u64| Tenant::from_stored(&format!("{n:032x}")).expect("a hash is a tenant");
    let count = async |of, at| soon(store.count(of, date(at))).await.expect("a count");
    assert_eq!(count(tenant(1), 0).await, 0);
    // Two holds and two finished rows of one, which expire after 1 s; another's; everybody's.
    let mut rows = Vec::new();
    for (n, of) in [
        (1, tenant(1)),
        (2, tenant(1)),
        (4, tenant(1)),
        (5, tenant(1)),
        (6, tenant(2)),
        (7, Tenant::anonymous()),
    ] {
        let mut row = match n {
            1..4 => rows::reserved(n),
            _ => rows::completed(n),
        };
        row.tenant = of;
        rows.push(insert(&store, &row).await);
    }
    assert_eq!(count(tenant(1), 999).await, 4);
    assert_eq!(count(tenant(1), 1000).await, 2, "past at the date itself");
    assert_eq!(count(tenant(2), 999).await, 1);
    assert_eq!(
        count(Tenant::anonymous(), 999).await,
        1,
        "is a principal, too"
    );
    // Neither an insert that meets a row nor a replacement is one row more.
    apply(&store, Op::Insert(Box::new(rows[0].clone()))).await;
    let mut next = renewed(&rows[0]);
    done(apply(&store, replacement(&next, rows[0].guard(), true)).await);
    assert_eq!(count(tenant(1), 999).await, 4);
    next = renewed(&rows[2]);
    next.id = OperationId::new(&next.scope, 5);
    next.standing.expires_at = None;
    done(apply(&store, replacement(&next, rows[2].guard(), false)).await);
    assert_eq!(count(tenant(1), 1000).await, 3, "it expires no more");
    let (scope, guard) = (rows[1].scope, rows[1].guard());
    apply(&store, Op::Remove { scope, guard }).await;
    assert_eq!(count(tenant(1), 999).await, 3);
    let (now, limit) = (date(1000), 10);
    apply(&store, Op::Expire { now, limit }).await;
    assert_eq!(count(tenant(1), 0).await, 2);
    assert_eq!(count(tenant(2), 0).await, 0);
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
