//! A drain under load: callers over HTTP/1.1 and HTTP/2 send keyed requests, and send them again
//! until they know, while the gateway is told to end and is started again in its place.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use steadfast::clock;

use super::KEY;
use super::killed::set;
use crate::stage::{Caller, Folder, Gateway, Honours, PATIENCE, Request, until};

/// Callers at once, half of them over HTTP/2.
const CALLERS: usize = 16;

/// Requests that have to be answered before each end of the gateway: enough that all are at work.
const BETWEEN: usize = 3 * CALLERS;

/// Ends of the gateway in one run.
const ENDS: usize = 2;

/// Where the gateway is again after each end.
fn fixed(folder: &Folder, gateway: &Gateway) {
    let text = String::from_utf8(folder.read("s.toml")).expect("text");
    let listen = format!("listen = \"{}\"", gateway.data);
    folder.write("s.toml", text.replace("listen = \"127.0.0.1:0\"", &listen));
}

/// What one caller got for each of its keys.
type Known = Vec<(String, u16, Vec<u8>)>;

/// A key that nobody else has (SplitMix64 of the seed, the caller and its turn).
fn key(seed: u64, caller: usize, turn: usize) -> String {
    let mixed = |at: u64| {
        let mut z = seed.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let at = (caller * 1_000_000 + turn) as u64;
    format!("{:016x}{:016x}", mixed(2 * at), mixed(2 * at + 1))
}

/// A connection that is made anew whenever it is over.
trait Asks {
    /// The status and the body; `None` where no whole answer came.
    fn ask(&mut self, key: &str) -> Option<(u16, Vec<u8>)>;
}

struct Http1(SocketAddr, Option<Caller>);

impl Asks for Http1 {
    fn ask(&mut self, key: &str) -> Option<(u16, Vec<u8>)> {
        let mut caller = self.1.take().or_else(|| Caller::to(self.0))?;
        caller.send(&Request::order(key).kept());
        let answer = caller.answer().ok()?;
        if answer.field("connection") != Some("close") {
            self.1 = Some(caller);
        }
        Some((answer.status, answer.body))
    }
}

struct Http2 {
    to: SocketAddr,
    runtime: tokio::runtime::Runtime,
    sender: Option<h2::client::SendRequest<Bytes>>,
}

impl Http2 {
    async fn connect(to: SocketAddr) -> Option<h2::client::SendRequest<Bytes>> {
        let stream = tokio::net::TcpStream::connect(to).await.ok()?;
        let (sender, connection) = h2::client::handshake(stream).await.ok()?;
        tokio::spawn(connection);
        Some(sender)
    }

    async fn exchange(
        sender: h2::client::SendRequest<Bytes>,
        key: &str,
    ) -> Result<(u16, Vec<u8>), h2::Error> {
        let mut sender = sender.ready().await?;
        let request = http::Request::post("http://localhost/orders")
            .header("authorization", "Bearer a")
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        let request = request.body(()).expect("a request");
        let (response, mut body) = sender.send_request(request, false)?;
        body.send_data(Bytes::from_static(b"{\"amount\":1}"), true)?;
        let response = response.await?;
        let status = response.status().as_u16();
        let mut whole = Vec::new();
        let mut body = response.into_body();
        while let Some(data) = body.data().await {
            whole.extend_from_slice(&data?);
        }
        Ok((status, whole))
    }
}

impl Asks for Http2 {
    fn ask(&mut self, key: &str) -> Option<(u16, Vec<u8>)> {
        let (to, sender) = (self.to, self.sender.take());
        let asked = self.runtime.block_on(async {
            let sender = match sender {
                Some(sender) => sender,
                None => Http2::connect(to).await?,
            };
            let answered = clock::within(PATIENCE, Http2::exchange(sender.clone(), key)).await;
            let answered = answered.expect("waited in vain for an answer");
            answered.ok().map(|answer| (sender, answer))
        });
        let (sender, answer) = asked?;
        self.sender = Some(sender);
        Some(answer)
    }
}

/// Sends one operation after the other until `stop`, each until its outcome is known.
fn load(mut asks: impl Asks, keys: impl Fn(usize) -> String, go: &Go) -> Known {
    let mut known = Known::new();
    for turn in 0.. {
        if go.stop.load(Ordering::SeqCst) {
            break;
        }
        let key = keys(turn);
        let (status, body) = until("an outcome", || {
            // 503 and 409 say that the same request is to be sent again.
            asks.ask(&key)
                .filter(|(status, _)| ![503, 409].contains(status))
        });
        go.answered.fetch_add(1, Ordering::SeqCst);
        known.push((key, status, body));
    }
    known
}

#[derive(Default)]
struct Go {
    stop: AtomicBool,
    answered: AtomicUsize,
}

fn callers(to: SocketAddr, seed: u64, go: &Arc<Go>) -> Vec<std::thread::JoinHandle<Known>> {
    let one = |caller: usize| {
        let go = Arc::clone(go);
        std::thread::spawn(move || {
            let keys = |turn| key(seed, caller, turn);
            if caller.is_multiple_of(2) {
                return load(Http1(to, None), keys, &go);
            }
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().expect("a runtime");
            let asks = Http2 {
                to,
                runtime,
                sender: None,
            };
            load(asks, keys, &go)
        })
    };
    (0..CALLERS).map(one).collect()
}

// rule: a-drain-under-load-loses-nothing
#[test]
fn a_drain_under_load_loses_no_answer_and_repeats_no_effect() {
    for seed in [1, 2, u64::from_le_bytes(clock::random())] {
        let (folder, ledger) = set(Honours::Nothing, "drain = \"50s\"", "");
        let mut gateway = folder.gateway();
        fixed(&folder, &gateway);
        let go = Arc::new(Go::default());
        let callers = callers(gateway.data, seed, &go);
        for _ in 0..ENDS {
            let before = go.answered.load(Ordering::SeqCst);
            until("callers at work", || {
                (go.answered.load(Ordering::SeqCst) >= before + BETWEEN).then_some(())
            });
            gateway.terminate();
            assert_eq!(
                gateway.ended().code(),
                Some(0),
                "seed {seed}: {}",
                gateway.log()
            );
            let log = gateway.log();
            assert!(
                log.ends_with("drained; all work has ended\n"),
                "seed {seed}: {log}"
            );
            gateway = folder.gateway();
        }
        let before = go.answered.load(Ordering::SeqCst);
        until("callers at work", || {
            (go.answered.load(Ordering::SeqCst) >= before + BETWEEN).then_some(())
        });
        go.stop.store(true, Ordering::SeqCst);
        let known: Known = callers
            .into_iter()
            .flat_map(|caller| caller.join().expect("no caller failed"))
            .collect();
        assert_eq!(
            ledger.effects(),
            known.len(),
            "seed {seed}: one effect a key"
        );
        for (key, status, body) in &known {
            assert_eq!(*status, 201, "seed {seed}, {key}");
            let again = gateway.ask(&Request::order(key)).expect("an answer");
            assert_eq!(
                (again.status, &again.body),
                (201, body),
                "seed {seed}, {key}"
            );
            assert_eq!(again.replayed(), Some("true"), "seed {seed}, {key}");
        }
        assert_eq!(
            ledger.effects(),
            known.len(),
            "seed {seed}: all were on record"
        );
        let records = gateway.records();
        assert!(
            records.iter().all(|record| record["state"] == "completed"),
            "seed {seed}"
        );
    }
}

// rule: an-upload-under-way-at-a-drain-ends
#[test]
fn a_keyed_upload_under_way_when_a_drain_begins_is_executed_and_answered() {
    let (folder, ledger) = set(Honours::Nothing, "drain = \"50s\"", "");
    let mut gateway = folder.gateway();
    let mut caller = Caller::to(gateway.data).expect("a connection");
    let (head, rest) = Request::order(KEY).halves();
    caller.write(&head);
    // The head was read: the gateway asks for what follows.
    caller.read_to("100 Continue");
    gateway.terminate();
    until("a gateway that is not ready", || {
        let answer = Caller::to(gateway.admin)?.ask(&Request::get("/readyz"));
        (answer.ok()?.status == 503).then_some(())
    });
    caller.write(&rest);
    let answer = caller.answer().expect("an answer");
    assert_eq!((answer.status, answer.replayed()), (201, Some("false")));
    assert_eq!(gateway.ended().code(), Some(0), "{}", gateway.log());
    let gateway = folder.gateway();
    let again = gateway.ask(&Request::order(KEY)).expect("an answer");
    assert_eq!(again.essence(), answer.essence());
    assert_eq!(ledger.effects(), 1);
}
