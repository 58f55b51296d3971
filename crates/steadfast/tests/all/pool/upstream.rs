//! A server that does to each connection what a script says, and counts.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::SockRef;
use steadfast::client::Target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The server; it ends with the test.
pub struct Upstream {
    address: SocketAddr,
    counts: Arc<Counts>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    opened: AtomicUsize,
    closed: AtomicUsize,
    whole: AtomicUsize,
}

/// One connection, as its script holds it.
pub struct Peer {
    tcp: TcpStream,
    /// Which connection of the server it is, from 0 on.
    pub nth: usize,
    counts: Arc<Counts>,
    seen: Vec<u8>,
}

impl Upstream {
    /// Starts a server that runs `script` on every connection.
    pub async fn start<S, F>(script: S) -> Upstream
    where
        S: Fn(Peer) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let accepting = tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.expect("a connection");
                tcp.set_nodelay(true).expect("an open socket");
                let nth = counted.opened.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(Peer {
                    tcp,
                    nth,
                    counts: Arc::clone(&counted),
                    seen: Vec::new(),
                }));
            }
        });
        Upstream {
            address,
            counts,
            accepting,
        }
    }

    pub fn target(&self) -> Target {
        Target::parse(&format!("http://{}", self.address)).expect("a target")
    }

    /// Connections taken.
    pub fn opened(&self) -> usize {
        self.counts.opened.load(Ordering::SeqCst)
    }

    /// Connections whose script saw the other side's end.
    pub fn closed(&self) -> usize {
        self.counts.closed.load(Ordering::SeqCst)
    }

    /// Requests that came in whole.
    pub fn whole(&self) -> usize {
        self.counts.whole.load(Ordering::SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Peer {
    /// Reads one request by its Content-Length, head and body; `None` when the connection ends
    /// first.
    pub async fn request(&mut self) -> Option<String> {
        let head = self.head().await?;
        let length = head.to_ascii_lowercase().lines().find_map(|line| {
            let digits = line.strip_prefix("content-length:")?;
            digits.trim().parse::<usize>().ok()
        });
        while self.seen.len() < length.unwrap_or(0) {
            self.more().await?;
        }
        let rest = self.seen.split_off(length.unwrap_or(0));
        let body = std::mem::replace(&mut self.seen, rest);
        self.counts.whole.fetch_add(1, Ordering::SeqCst);
        Some(head + &String::from_utf8(body).expect("text"))
    }

    /// Reads up to the end of a head.
    pub async fn head(&mut self) -> Option<String> {
        self.through(b"\r\n\r\n").await
    }

    /// Reads up to and with `mark`.
    pub async fn through(&mut self, mark: &[u8]) -> Option<String> {
        loop {
            let found = self.seen.windows(mark.len()).position(|w| w == mark);
            if let Some(at) = found {
                let rest = self.seen.split_off(at + mark.len());
                let read = std::mem::replace(&mut self.seen, rest);
                return Some(String::from_utf8(read).expect("text"));
            }
            self.more().await?;
        }
    }

    /// Reads exactly `count` bytes, or fewer at the end.
    pub async fn bytes(&mut self, count: usize) {
        while self.seen.len() < count && self.more_at_most(count - self.seen.len()).await.is_some()
        {
        }
        self.seen.clear();
    }

    async fn more(&mut self) -> Option<()> {
        self.more_at_most(64 * 1024).await
    }

    async fn more_at_most(&mut self, count: usize) -> Option<()> {
        let mut chunk = vec![0; count];
        let read = self.tcp.read(&mut chunk).await.unwrap_or(0);
        self.seen.extend_from_slice(&chunk[..read]);
        (read > 0).then_some(())
    }

    /// Writes; a peer that is gone is no concern of the script's.
    pub async fn say(&mut self, text: impl AsRef<[u8]>) {
        let _ = self.tcp.write_all(text.as_ref()).await;
    }

    /// One byte and a turn for others; whether the other side still takes them.
    pub async fn trickle(&mut self) -> bool {
        let taken = self.tcp.write_all(b"x").await.is_ok();
        tokio::task::yield_now().await;
        taken
    }

    /// A whole request, of the length that tests here send, stands in the socket.
    pub fn came_whole(&mut self) -> bool {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = self.tcp.try_read(&mut chunk) {
            self.seen.extend_from_slice(&chunk[..read]);
        }
        self.seen.ends_with(b"hello")
    }

    /// Waits for the other side's end.
    pub async fn ended(mut self) {
        while self.more().await.is_some() {}
        self.counts.closed.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends with a reset instead of a clean end.
    pub fn reset(self) {
        let reset = SockRef::from(&self.tcp).set_linger(Some(Duration::ZERO));
        reset.expect("an open socket");
    }

    /// Answers every request alike until the other side ends.
    pub async fn keep_answering(mut self, answer: &'static str) {
        while self.request().await.is_some() {
            self.say(answer).await;
        }
        self.counts.closed.fetch_add(1, Ordering::SeqCst);
    }
}

pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
