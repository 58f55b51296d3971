//! A store whose answers are encrypted on their way in and opened on their way out.
//!
//! Decides which parts of a record are for nobody but holders of a key, the headers and the body of
//! each answer it keeps, and what a row is worth that does not open: it is
//! [`StoreError::Unreadable`], never an absent one, so that its request is never executed a second
//! time. It refuses to know which store is below: that one sees rows like any other, and a status,
//! dates, hashes, the operation and the key stay as they are, since they are searched by.
//!
//! Rule: what was sealed opens only where it was put, under the same scope, id, status and place,
//! so that one caller's sealed answer cannot be moved to another's row. Rows that were written
//! before there was a key are read as they are: who may write to the store can still put a plain
//! answer there. Source: docs/keyed-requests.md, "Encryption"; requirement S2.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use steadfast_core::key::ScopeHash;
use steadfast_core::record::{Answer, Guard, OperationId, Record, Standing, StoredAnswer};
use steadfast_core::time::WallTime;

use super::{Op, OpEnd, Page, Scan, Secrets, Stats, Status, Store, StoreError, StoreFuture};
use keys::{Bound, NotOpened};

mod frame;
mod keys;
#[cfg(test)]
mod tests;

pub use keys::{KEY_BYTES, KeyError, Keys, LONGEST_ID, SealingKey};

/// The one header of a sealed answer: with which key it was sealed. No answer brings it along, see
/// [`Sealed`].
const MARKER: HeaderName = HeaderName::from_static("steadfast-sealed");

/// A store, and the keys of what it keeps. Without a key it writes as the store below does, and
/// says of a sealed row which key is missing.
///
/// An answer that has a header of the marker's own name loses it where it is not sealed: it would
/// be taken for one that is. The gateway and the layer keep no such header in the first place.
pub struct Sealed {
    store: Arc<dyn Store>,
    keys: Keys,
}

/// Which of a record's answers it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Standing,
    Before,
}

impl Place {
    fn as_str(self) -> &'static str {
        match self {
            Place::Standing => "standing",
            Place::Before => "before",
        }
    }
}

impl Sealed {
    /// `store`, with the answers in it sealed by the first of `keys`.
    pub fn new(store: Arc<dyn Store>, keys: Keys) -> Sealed {
        Sealed { store, keys }
    }

    fn opened(&self, row: Option<Record>) -> Result<Option<Record>, StoreError> {
        row.map(|row| open(&self.keys, row)).transpose()
    }

    fn opened_box(&self, row: Option<Box<Record>>) -> Result<Option<Box<Record>>, StoreError> {
        row.map(|row| open(&self.keys, *row).map(Box::new))
            .transpose()
    }

    /// One row that does not open must not hide all others.
    fn opened_page(&self, page: Page) -> Page {
        let Page {
            rows,
            next,
            mut unreadable,
        } = page;
        let mut opened = Vec::with_capacity(rows.len());
        for row in rows {
            let id = row.id;
            match open(&self.keys, row) {
                Ok(row) => opened.push(row),
                Err(StoreError::Unreadable(why)) => unreadable.push(why),
                Err(other) => unreadable.push(format!("record {id}: {other}")),
            }
        }
        Page {
            rows: opened,
            next,
            unreadable,
        }
    }
}

/// The row as the store below keeps it.
fn seal(keys: &Keys, mut row: Record) -> Record {
    row.standing.answer = seal_answer(keys, &row, &row.standing, Place::Standing);
    if let Some(mut before) = row.before.take() {
        before.answer = seal_answer(keys, &row, &before, Place::Before);
        row.before = Some(before);
    }
    row
}

/// The row as everybody else knows it.
fn open(keys: &Keys, mut row: Record) -> Result<Record, StoreError> {
    row.standing.answer = open_answer(keys, &row, &row.standing, Place::Standing)?;
    if let Some(mut before) = row.before.take() {
        before.answer = open_answer(keys, &row, &before, Place::Before)?;
        row.before = Some(before);
    }
    Ok(row)
}

/// That an answer is `row`'s, of this status, at this place.
fn bound(row: &Record, answer: &StoredAnswer, place: Place) -> Bound {
    Bound::to(&[
        b"answer",
        row.scope.as_bytes(),
        &row.id.to_bytes(),
        &answer.status.as_u16().to_be_bytes(),
        place.as_str().as_bytes(),
    ])
}

fn seal_answer(keys: &Keys, row: &Record, standing: &Standing, place: Place) -> Answer {
    let Answer::Stored(answer) = &standing.answer else {
        return standing.answer.clone();
    };
    let sealed = (!keys.is_empty()).then(|| frame::write(&answer.headers, &answer.body));
    let sealed = sealed.and_then(|plain| keys.seal(&plain, &bound(row, answer, place)));
    let Some(sealed) = sealed else {
        let mut plain = answer.clone();
        plain.headers.remove(MARKER);
        return Answer::Stored(plain);
    };
    let id = HeaderValue::from_str(sealed.id).expect("a key's name is a header's value");
    Answer::Stored(StoredAnswer {
        status: answer.status,
        headers: HeaderMap::from_iter([(MARKER, id)]),
        body: Bytes::from(sealed.bytes),
    })
}

fn open_answer(
    keys: &Keys,
    row: &Record,
    standing: &Standing,
    place: Place,
) -> Result<Answer, StoreError> {
    let Answer::Stored(answer) = &standing.answer else {
        return Ok(standing.answer.clone());
    };
    let Some(id) = answer.headers.get(MARKER) else {
        return Ok(standing.answer.clone());
    };
    let spoilt = |why: String| StoreError::Unreadable(format!("record {}: {why}", row.id));
    let id = id.to_str().ok().filter(|id| keys::is_id(id));
    let id = id.ok_or_else(|| {
        spoilt("its answer names no key; restore the store from a backup".to_owned())
    })?;
    let opened = keys.open(id, &answer.body, &bound(row, answer, place));
    let plain =
        opened.map_err(|why: NotOpened| spoilt(format!("its answer is kept, but {why}")))?;
    let (headers, body) = frame::read(plain).ok_or_else(|| {
        spoilt("its answer is not what a store writes; restore it from a backup".to_owned())
    })?;
    Ok(Answer::Stored(StoredAnswer {
        status: answer.status,
        headers,
        body,
    }))
}

impl Store for Sealed {
    fn apply(&self, op: Op) -> StoreFuture<'_, OpEnd> {
        Box::pin(async move {
            let op = match op {
                Op::Insert(row) => Op::Insert(Box::new(seal(&self.keys, *row))),
                Op::Replace { next, guard, draw } => Op::Replace {
                    next: Box::new(seal(&self.keys, *next)),
                    guard,
                    draw,
                },
                other @ (Op::Remove { .. } | Op::Expire { .. }) => other,
            };
            Ok(match self.store.apply(op).await? {
                OpEnd::Done(row) => OpEnd::Done(self.opened_box(row)?),
                OpEnd::Stands(row) => OpEnd::Stands(self.opened_box(row)?),
                OpEnd::Expired(count) => OpEnd::Expired(count),
            })
        })
    }

    fn get(&self, scope: ScopeHash) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move { self.opened(self.store.get(scope).await?) })
    }

    fn by_id(&self, id: OperationId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move { self.opened(self.store.by_id(id).await?) })
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        Box::pin(async move { Ok(self.opened_page(self.store.scan(scan).await?)) })
    }

    fn due(&self, now: WallTime, limit: u32) -> StoreFuture<'_, Page> {
        Box::pin(async move { Ok(self.opened_page(self.store.due(now, limit).await?)) })
    }

    fn now(&self) -> StoreFuture<'_, WallTime> {
        self.store.now()
    }

    fn ahead(&self) -> StoreFuture<'_, Duration> {
        self.store.ahead()
    }

    fn secrets(&self) -> StoreFuture<'_, Secrets> {
        self.store.secrets()
    }

    fn changed(&self, scope: ScopeHash, seen: Guard) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move { self.opened(self.store.changed(scope, seen).await?) })
    }

    fn status(&self) -> StoreFuture<'_, Status> {
        self.store.status()
    }

    fn stats(&self, now: WallTime, tenants: u32) -> StoreFuture<'_, Stats> {
        self.store.stats(now, tenants)
    }
}
