//! A server over TLS that does to each connection what a script says, and counts.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use steadfast::client::Target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The server; it ends with the test.
pub struct Secured {
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

/// One connection whose handshake is done, as its script holds it.
pub struct SecuredPeer {
    pub stream: TlsStream<TcpStream>,
    /// Which connection of the server it is, from 0 on.
    pub nth: usize,
    counts: Arc<Counts>,
    seen: Vec<u8>,
}

impl Secured {
    /// Starts a server that runs `script` on every connection that shook hands.
    pub async fn start<S, F>(config: ServerConfig, script: S) -> Secured
    where
        S: Fn(SecuredPeer) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let accepting = tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.expect("a connection");
                tcp.set_nodelay(true).expect("an open socket");
                let (acceptor, script) = (acceptor.clone(), script.clone());
                let counts = Arc::clone(&counted);
                tokio::spawn(async move {
                    let nth = counts.opened.fetch_add(1, Ordering::SeqCst);
                    let Ok(stream) = acceptor.accept(tcp).await else {
                        counts.closed.fetch_add(1, Ordering::SeqCst);
                        return;
                    };
                    let ended = Arc::clone(&counts);
                    script(SecuredPeer {
                        stream,
                        nth,
                        counts,
                        seen: Vec::new(),
                    })
                    .await;
                    ended.closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Secured {
            address,
            counts,
            accepting,
        }
    }

    /// By its name, which a certificate can be for.
    pub fn target(&self) -> Target {
        let port = self.address.port();
        Target::parse(&format!("https://localhost:{port}")).expect("a target")
    }

    /// By its address.
    pub fn by_address(&self) -> Target {
        Target::parse(&format!("https://{}", self.address)).expect("a target")
    }

    /// Connections taken.
    pub fn opened(&self) -> usize {
        self.counts.opened.load(Ordering::SeqCst)
    }

    /// Connections whose script, or whose handshake, has ended.
    pub fn closed(&self) -> usize {
        self.counts.closed.load(Ordering::SeqCst)
    }

    /// Requests that came in whole.
    pub fn whole(&self) -> usize {
        self.counts.whole.load(Ordering::SeqCst)
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl SecuredPeer {
    /// Reads one request of the kinds that tests here send: none but `hello` for a body.
    pub async fn request(&mut self) -> Option<()> {
        loop {
            if self.came_whole() {
                self.counts.whole.fetch_add(1, Ordering::SeqCst);
                self.seen.clear();
                return Some(());
            }
            let mut chunk = [0; 4096];
            let read = self.stream.read(&mut chunk).await.ok()?;
            self.seen.extend_from_slice(&chunk[..read]);
            (read > 0).then_some(())?;
        }
    }

    /// Counts a request that came in whole, where the script reads for itself.
    pub fn count_whole(&self) {
        self.counts.whole.fetch_add(1, Ordering::SeqCst);
    }

    fn came_whole(&self) -> bool {
        let body = self.seen.windows(4).position(|w| w == b"\r\n\r\n");
        let is_post = self.seen.starts_with(b"POST");
        body.is_some() && (!is_post || self.seen.ends_with(b"hello"))
    }

    pub async fn say(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes()).await;
        let _ = self.stream.flush().await;
    }

    /// Answers every request alike until the other side ends.
    pub async fn keep_answering(mut self, answer: &'static str) {
        while self.request().await.is_some() {
            self.say(answer).await;
        }
    }
}
