//! Reads, on connections of their own: they wait for no write.
//!
//! Rule: look-ups by key that wait together go in one statement, and no listing of all rows is in
//! their way.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use steadfast_core::key::ScopeHash;
use steadfast_core::record::{Guard, OperationId, Owner, Record, State};
use steadfast_core::time::WallTime;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::date::Told;
use super::error::{Fault, store_error};
use super::link::{CALL_WITHIN, LISTING_WITHIN, Link, Parameter, Place};
use super::{rows, schema, statements};
use crate::store::{Cursor, Page, Scan, Secrets, StoreError, codec};

/// Reads that wait for a connection; beyond, callers wait for room.
const WAITING: usize = 1024;

/// Look-ups in one statement.
const TOGETHER: usize = 256;

pub(super) type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

type Job =
    Box<dyn for<'a> FnOnce(&'a mut Link) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> + Send>;

enum Ask {
    Row(ScopeHash, Reply<Option<Record>>),
    Job(Job),
}

/// A connection that reads, and those who wait for it.
pub(super) struct Reader(mpsc::Sender<Ask>);

impl Reader {
    /// Starts one on the present runtime.
    pub(super) fn start(place: &Arc<Place>) -> Reader {
        let (sender, asked) = mpsc::channel(WAITING);
        tokio::spawn(serve(Link::new(Arc::clone(place)), asked));
        Reader(sender)
    }

    /// The row under `scope`.
    pub(super) async fn row(&self, scope: ScopeHash) -> Result<Option<Record>, StoreError> {
        let (reply, end) = oneshot::channel();
        self.ask(Ask::Row(scope, reply), end).await
    }

    /// Runs `read` on the connection.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl for<'a> FnOnce(&'a mut Link) -> Reading<'a, T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, end) = oneshot::channel();
        let job: Job = Box::new(move |link| {
            async move {
                // Whoever left does not take the connection from the others.
                if !reply.is_closed() {
                    let done = read(link).await;
                    let _ = reply.send(done.map_err(|fault| store_error(&fault)));
                }
            }
            .boxed()
        });
        self.ask(Ask::Job(job), end).await
    }

    async fn ask<T>(
        &self,
        ask: Ask,
        end: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let sent = self.0.send(ask).await;
        sent.map_err(|_| StoreError::Closed)?;
        end.await.unwrap_or(Err(StoreError::Closed))
    }
}

async fn serve(mut link: Link, mut asked: mpsc::Receiver<Ask>) {
    let by_scope = rows::select("WHERE r.scope = ANY($1)");
    while let Some(first) = asked.recv().await {
        let (mut wanted, mut jobs) = (HashMap::<ScopeHash, Vec<_>>::new(), Vec::new());
        let mut next = Some(first);
        let mut count = 0;
        while let Some(ask) = next {
            match ask {
                Ask::Row(scope, reply) if !reply.is_closed() => {
                    wanted.entry(scope).or_default().push(reply);
                }
                Ask::Row(..) => {}
                Ask::Job(job) => jobs.push(job),
            }
            count += 1;
            let room = count < TOGETHER;
            next = room.then(|| asked.try_recv().ok()).flatten();
        }
        if !wanted.is_empty() {
            look_up(&mut link, &by_scope, wanted).await;
        }
        for job in jobs {
            job(&mut link).await;
        }
    }
}

async fn look_up(
    link: &mut Link,
    sql: &str,
    mut wanted: HashMap<ScopeHash, Vec<Reply<Option<Record>>>>,
) {
    let scopes: Vec<ScopeHash> = wanted.keys().copied().collect();
    let bytes: Vec<&[u8]> = scopes.iter().map(|s| &codec::scope_bytes(s)[..]).collect();
    let parameters: [Parameter<'_>; 1] = [(&bytes, Type::BYTEA_ARRAY)];
    let found = again(link, sql, &parameters).await;
    let mut tell = |scope: &ScopeHash, row: Result<Option<Record>, StoreError>| {
        for reply in wanted.remove(scope).unwrap_or_default() {
            let _ = reply.send(row.clone());
        }
    };
    match found {
        Ok(found) => {
            for row in &found {
                let scope = row.try_get::<_, &[u8]>(0).ok().and_then(codec::scope);
                if let Some(scope) = scope {
                    tell(&scope, rows::read(row).map(|(record, _)| Some(record)));
                }
            }
            for scope in &scopes {
                tell(scope, Ok(None));
            }
        }
        Err(fault) => {
            let error = store_error(&fault);
            for scope in &scopes {
                tell(scope, Err(error.clone()));
            }
        }
    }
}

/// A read, once more where its connection ended under it.
async fn again(
    link: &mut Link,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, Fault> {
    match link.query(sql, parameters, CALL_WITHIN).await {
        Err(fault @ Fault::Sql(_)) if fault.ends_connection() => {
            link.query(sql, parameters, CALL_WITHIN).await
        }
        found => found,
    }
}

/// The row with this id.
pub(super) async fn by_id(link: &mut Link, id: OperationId) -> Result<Option<Record>, Fault> {
    let bytes = id.to_bytes();
    let bytes = &bytes[..];
    let found = match id.place() {
        None => {
            let sql = rows::select("WHERE r.id = $1 AND octet_length(r.id) = 16");
            again(link, &sql, &[(&bytes, Type::BYTEA)]).await?
        }
        Some(place) => {
            let mut edges = [[0; 32], [0xff; 32]];
            for edge in &mut edges {
                edge[..place.len()].copy_from_slice(place);
            }
            let [from, to] = [&edges[0][..], &edges[1][..]];
            let sql = rows::select("WHERE r.scope BETWEEN $1 AND $2 AND r.id = $3");
            let parameters: [Parameter<'_>; 3] = [
                (&from, Type::BYTEA),
                (&to, Type::BYTEA),
                (&bytes, Type::BYTEA),
            ];
            again(link, &sql, &parameters).await?
        }
    };
    let row = found.first().map(rows::read).transpose()?;
    Ok(row.map(|(record, _)| record))
}

/// Rows that somebody holds, the one whose hold ends first at first.
pub(super) async fn held(link: &mut Link, limit: u32) -> Result<Page, Fault> {
    let sql = rows::select("WHERE r.locked_until IS NOT NULL ORDER BY r.locked_until LIMIT $1");
    let limit = i64::from(limit);
    page(&again(link, &sql, &[(&limit, Type::INT8)]).await?)
}

/// Rows in `state` that are due, the longest due first.
pub(super) async fn due(
    link: &mut Link,
    state: State,
    now: WallTime,
    limit: u32,
) -> Result<Page, Fault> {
    let sql = rows::select(
        "WHERE r.state = $1 AND r.due_at IS NOT NULL AND r.due_at <= $2 \
         ORDER BY r.due_at LIMIT $3",
    );
    let (state, now, limit) = (state.as_str(), codec::date(now), i64::from(limit));
    let parameters: [Parameter<'_>; 3] = [
        (&state, Type::TEXT),
        (&now, Type::INT8),
        (&limit, Type::INT8),
    ];
    page(&again(link, &sql, &parameters).await?)
}

fn page(found: &[Row]) -> Result<Page, Fault> {
    let (rows, unreadable) = rows::read_all(found)?;
    Ok(Page {
        rows,
        unreadable,
        next: None,
    })
}

/// A page of rows, in the order of their insertion.
pub(super) async fn scan(link: &mut Link, scan: &Scan) -> Result<Page, Fault> {
    let whole = |at: Option<WallTime>| at.map(codec::date);
    let after = scan.after.map_or(0, |cursor| cursor.0);
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let state = scan.state.map(State::as_str);
    let (updated, locked) = (whole(scan.updated_before), whole(scan.locked_before));
    let owner = scan.owner.map(|owner| owner.to_string());
    let tenant = scan.tenant.as_ref().map(codec::tenant_text);
    let key = scan.key.as_ref().map(codec::key_text);
    let limit = i64::from(scan.limit);
    let mut rest = String::from("WHERE r.n > $1");
    let mut values: Vec<Parameter<'_>> = vec![(&after, Type::INT8)];
    let wanted: [(&str, bool, Parameter<'_>); 6] = [
        ("state =", state.is_some(), (&state, Type::TEXT)),
        ("updated_at <", updated.is_some(), (&updated, Type::INT8)),
        ("locked_until <", locked.is_some(), (&locked, Type::INT8)),
        ("owner =", owner.is_some(), (&owner, Type::TEXT)),
        ("tenant =", tenant.is_some(), (&tenant, Type::TEXT)),
        ("key =", key.is_some(), (&key, Type::TEXT)),
    ];
    for (sql, given, value) in wanted {
        if given {
            values.push(value);
            rest += &format!(" AND r.{sql} ${}", values.len());
        }
    }
    values.push((&limit, Type::INT8));
    rest += &format!(" ORDER BY r.n LIMIT ${}", values.len());
    let sql = rows::select(&rest);
    let found = link.query(&sql, &values, LISTING_WITHIN).await?;
    let mut page = page(&found)?;
    let last = found.last().map(rows::number).transpose()?;
    let full = u32::try_from(found.len()).is_ok_and(|count| count == scan.limit);
    let last = last.filter(|_| full).and_then(|n| u64::try_from(n).ok());
    page.next = last.map(Cursor);
    Ok(page)
}

/// The guards of the rows under `scopes`, where rows stand.
pub(super) async fn guards(
    link: &mut Link,
    scopes: &[ScopeHash],
) -> Result<HashMap<ScopeHash, Guard>, Fault> {
    let bytes: Vec<&[u8]> = scopes.iter().map(|s| &codec::scope_bytes(s)[..]).collect();
    let sql = "SELECT scope, owner, version FROM steadfast.records WHERE scope = ANY($1)";
    let found = again(link, sql, &[(&bytes, Type::BYTEA_ARRAY)]).await?;
    let mut guards = HashMap::with_capacity(found.len());
    for row in &found {
        let scope = codec::scope(row.try_get(0)?);
        let owner = Owner::parse(row.try_get(1)?);
        let version = u64::try_from(row.try_get::<_, i64>(2)?).ok();
        // What is none of these is for whoever waits to see: it looks for itself.
        if let (Some(scope), Some(owner), Some(version)) = (scope, owner, version) {
            guards.insert(scope, Guard { owner, version });
        }
    }
    Ok(guards)
}

/// The database's clock and its mark.
pub(super) async fn clock(link: &mut Link) -> Result<Told, Fault> {
    let found = again(link, &statements::clock(), &[]).await?;
    let Some(row) = found.first() else {
        return Err(Fault::Store(schema::not_whole()));
    };
    let (clock, mark): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Told {
        clock: clock.unsigned_abs(),
        mark: mark.unsigned_abs(),
    })
}

/// The store's secrets.
pub(super) async fn secrets(link: &mut Link) -> Result<Secrets, Fault> {
    match schema::secrets(link).await? {
        Some(secrets) => Ok(secrets),
        None => Err(Fault::Store(schema::not_whole())),
    }
}
