//! One HTTP/2 connection that many requests share.
//!
//! Decides how many streams there may be at once and when a connection takes no new one: once the
//! peer has said that it goes away, or seems gone. A request is handed to the library only where it
//! may have a stream at once, so that none waits where nobody sees it. Unlike a connection of
//! HTTP/1.1 this one moves by a task of its own, since it is everybody's; what is known of a stream
//! is settled under the lock that the task needs.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Error, SendStream};
use http::Request;
use steadfast_core::time::MonoTime;
use tokio::net::TcpStream;

use super::connection::{MAX_RESPONSE_HEAD_BYTES, nothing_came};
use super::counted::Evidence;
use super::host::Slot;
use super::passed::{Framed, Ledger};
use super::wire::Secured;
use crate::clock;

/// Streams that we open on one connection at most, even where its peer allows more: the number that
/// RFC 9113 recommends as the least limit (6.5.2), so a service is prepared for it.
pub const MAX_STREAMS: usize = 100;

/// Bytes of one answer's body that may stand unread here. The connection has room for those of all
/// its streams, so that no slow reader keeps the others waiting.
const WINDOW_BYTES: u32 = 128 * 1024;

/// Streams that ended by us and whose last frames may still come, at most. Beyond this number they
/// would be taken for the peer's faults.
const MAX_ENDED_STREAMS: usize = 4 * MAX_STREAMS;

type Spoken = Connection<Framed, Bytes>;

/// The connection as its task and its streams know it.
struct Core {
    /// Gone once it has ended.
    connection: Mutex<Option<Spoken>>,
    ledger: Ledger,
    driver: AtomicWaker,
    tcp: Weak<TcpStream>,
    wire: Evidence,
}

/// A connection to share. It closes when nobody knows it any more.
pub(super) struct Shared {
    core: Arc<Core>,
    sender: SendRequest<Bytes>,
    /// Streams open or reserved.
    open: AtomicUsize,
    /// It takes no new streams.
    is_retired: AtomicBool,
    has_served: AtomicBool,
    rested_since: Mutex<MonoTime>,
    address: SocketAddr,
}

impl Shared {
    /// Speaks HTTP/2 on `wire` and waits until the peer does, too. Writes no request.
    pub(super) async fn over(
        wire: Secured,
        tcp: &Arc<TcpStream>,
        address: SocketAddr,
    ) -> Result<Arc<Shared>, String> {
        let (ledger, evidence) = (Ledger::default(), wire.evidence().clone());
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES * MAX_STREAMS as u32)
            .max_header_list_size(MAX_RESPONSE_HEAD_BYTES as u32)
            .max_concurrent_reset_streams(MAX_ENDED_STREAMS)
            .handshake(Framed::new(wire, ledger.clone()))
            .await
            .map_err(|error| told(&error))?;
        let core = Arc::new(Core {
            connection: Mutex::new(Some(connection)),
            ledger: ledger.clone(),
            driver: AtomicWaker::new(),
            tcp: Arc::downgrade(tcp),
            wire: evidence,
        });
        let driven = Arc::clone(&core);
        tokio::spawn(std::future::poll_fn(move |cx| driven.drive(cx)));
        // From here on dropping the future closes the connection.
        let shared = Arc::new(Shared {
            core,
            sender,
            open: AtomicUsize::new(0),
            is_retired: AtomicBool::new(false),
            has_served: AtomicBool::new(false),
            rested_since: Mutex::new(clock::mono_now()),
            address,
        });
        let greeted = std::future::poll_fn(|cx| ledger.passed().poll_greeted(cx)).await;
        match greeted {
            true => Ok(shared),
            false => Err("it agreed to HTTP/2 and does not speak it".to_owned()),
        }
    }

    /// No stream is open.
    pub(super) fn rests(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0
    }

    /// Since when no stream has been open.
    pub(super) fn rested_since(&self) -> MonoTime {
        *unpoisoned(&self.rested_since)
    }

    /// It takes no new streams, now and ever.
    pub(super) fn is_over(&self) -> bool {
        let is_mute = self.core.wire.seen().write_failed.is_some();
        let passed = self.core.ledger.passed();
        let is_leaving = passed.ended_at_all || passed.goaway.is_some();
        is_mute || is_leaving || self.is_retired.load(Ordering::SeqCst)
    }

    /// Takes no new streams from now on; those it has go on.
    pub(super) fn retire(&self) {
        self.is_retired.store(true, Ordering::SeqCst);
    }

    /// Room for one more stream, as long as it is held.
    fn reserve(&self) -> bool {
        let most = self.sender.current_max_send_streams().min(MAX_STREAMS);
        let more = |open: usize| (open < most).then_some(open + 1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        self.open.fetch_update(set, get, more).is_ok()
    }

    /// Reads what has come before anything is written: a peer that went away has said so.
    fn look(&self) {
        if self.core.has_news() {
            self.core.drive_now(&mut self.core.connection());
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.core.close();
    }
}

impl Core {
    fn connection(&self) -> MutexGuard<'_, Option<Spoken>> {
        unpoisoned(&self.connection)
    }

    /// The task's part: ready once the connection has ended.
    fn drive(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.driver.register(cx.waker());
        self.drive_as(cx.waker(), &mut self.connection())
    }

    /// Moves bytes both ways as far as the socket lets it, asking the socket itself, not the
    /// runtime, whose news of it may be older.
    fn drive_now(&self, connection: &mut Option<Spoken>) {
        self.wire.seen().asks_socket = true;
        let _ = self.drive_as(Waker::noop(), connection);
        self.wire.seen().asks_socket = false;
        // It is the task that has to be woken by what comes next.
        self.driver.wake();
    }

    fn drive_as(&self, waker: &Waker, connection: &mut Option<Spoken>) -> Poll<()> {
        let Some(spoken) = connection else {
            return Poll::Ready(());
        };
        let mut cx = Context::from_waker(waker);
        if Pin::new(spoken).poll(&mut cx).is_pending() {
            return Poll::Pending;
        }
        self.ledger.passed().end();
        *connection = None;
        Poll::Ready(())
    }

    fn has_news(&self) -> bool {
        let tcp = self.tcp.upgrade();
        tcp.is_none_or(|tcp| !nothing_came(&tcp))
    }

    fn close(&self) {
        self.ledger.passed().end();
        *self.connection() = None;
        self.driver.wake();
    }
}

/// Leave for one stream, and then the stream's place. Dropping it gives both back.
pub(super) struct Leave {
    shared: Arc<Shared>,
    slot: Slot,
}

impl Leave {
    /// Leave on `shared`, if it takes one more stream; else the slot again.
    pub(super) fn on(shared: &Arc<Shared>, slot: Slot) -> Result<Leave, Slot> {
        if shared.rests() {
            shared.look();
        }
        match !shared.is_over() && shared.reserve() {
            true => Ok(Leave {
                shared: Arc::clone(shared),
                slot,
            }),
            false => Err(slot),
        }
    }

    /// A request has been answered on the connection before.
    pub(super) fn is_reused(&self) -> bool {
        self.shared.has_served.load(Ordering::SeqCst)
    }

    /// A request was answered on the connection.
    pub(super) fn has_served(&self) {
        self.shared.has_served.store(true, Ordering::SeqCst);
    }

    /// A stream waited in vain from `since` on. Where nothing at all came meanwhile, the peer may
    /// be gone: no new request takes the connection.
    pub(super) fn suspect(&self, since: MonoTime) {
        let heard = self.shared.core.ledger.passed().heard;
        if heard.is_none_or(|at| at <= since) {
            self.shared.retire();
        }
    }

    /// Hands a request to the library; what passes of it is kept in `evidence`. `None` where the
    /// connection has ended, or takes no streams any more: nothing was handed over.
    pub(super) fn open(
        &self,
        request: Request<()>,
        is_whole: bool,
        evidence: &Evidence,
    ) -> Option<(ResponseFuture, SendStream<Bytes>)> {
        let (shared, core) = (&self.shared, &self.shared.core);
        // Under the lock, so that nothing of the stream passes before it is watched.
        let mut connection = core.connection();
        core.drive_now(&mut connection);
        let most = shared.sender.current_max_send_streams();
        let is_full = shared.open.load(Ordering::SeqCst) > most;
        if connection.is_none() || shared.is_over() || is_full {
            return None;
        }
        let opened = shared.sender.clone().send_request(request, is_whole);
        let (response, stream) = opened.ok()?;
        let id = response.stream_id().as_u32();
        core.ledger.passed().watch(id, evidence.clone());
        core.drive_now(&mut connection);
        Some((response, stream))
    }

    /// The peer wants HTTP/1.1 instead.
    pub(super) fn stay_with_http1(&self) {
        self.slot.gate().stay_with_http1();
        self.shared.retire();
    }

    /// The last stream that the peer says it may have processed.
    pub(super) fn last_processed(&self) -> Option<u32> {
        self.shared.core.ledger.passed().goaway
    }

    pub(super) fn wake_when_written(&self, id: u32, waker: &Waker) {
        self.shared
            .core
            .ledger
            .passed()
            .wake_when_written(id, waker);
    }

    pub(super) fn forget(&self, id: u32) {
        self.shared.core.ledger.passed().forget(id);
    }

    /// Whether what is known of a stream that was dropped cannot change any more.
    ///
    /// The library still sends what it took, followed by the stream's reset. So a stream of which
    /// nothing has passed is only then known never to pass when its connection is closed, which
    /// happens here where no other stream is on it.
    pub(super) fn is_settled(&self, evidence: &Evidence) -> bool {
        let core = &self.shared.core;
        let mut connection = core.connection();
        core.drive_now(&mut connection);
        let is_mute = core.wire.seen().write_failed.is_some();
        if connection.is_none() || is_mute || evidence.seen().bytes_written > 0 {
            return true;
        }
        self.shared.retire();
        let is_alone = self.shared.open.load(Ordering::SeqCst) == 1;
        if is_alone {
            *connection = None;
            core.ledger.passed().end();
        }
        is_alone
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        let now = clock::mono_now();
        *unpoisoned(&self.shared.rested_since) = now;
        self.shared.open.fetch_sub(1, Ordering::SeqCst);
        if self.shared.rests() {
            self.slot.watch_rest(now);
        }
    }
}

impl fmt::Debug for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leave")
            .field("address", &self.shared.address)
            .finish_non_exhaustive()
    }
}

/// What the library said, without the text that a peer may send along.
pub(super) fn told(error: &Error) -> String {
    match error.reason() {
        Some(reason) => format!("HTTP/2 {}", reason.description()),
        None if error.is_io() => error.to_string(),
        None => "HTTP/2 ended".to_owned(),
    }
}

fn unpoisoned<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
