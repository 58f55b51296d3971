//! A service over HTTP/2 and TLS that does with each stream what it is told; it keeps what it took.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, server};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::http2::frames::{ACK, DATA, END_STREAM, GOAWAY, HEADERS, PREFACE, SETTINGS, frame};
use crate::stage::{Folder, Gateway};
use crate::upstream_tls::{configuration, vouched};

/// What befalls one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Taken, and answered 201 and `made`.
    Answered,
    /// The same, on a connection that takes no further stream.
    AnsweredLast,
    /// Refused unprocessed.
    Refused,
    /// Taken, and reset without an answer.
    Reset,
    /// On a connection that says that it processed nothing, and ends.
    Unprocessed,
    /// On a connection that ends without an answer, and says that it may have processed it.
    Processed,
}

/// A request that the service took: its fields and its body.
#[derive(Clone, Debug)]
pub struct Taken {
    fields: HeaderMap,
    pub body: Vec<u8>,
}

impl Taken {
    pub fn field(&self, name: &str) -> &str {
        let value = self.fields.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    pub fn fence(&self) -> u64 {
        self.field("idempotency-fence").parse().expect("a number")
    }
}

#[derive(Default)]
struct Book {
    fates: VecDeque<Fate>,
    taken: Vec<Taken>,
    connections: usize,
}

/// The service. It ends with its runtime.
pub struct Service {
    address: SocketAddr,
    book: Arc<Mutex<Book>>,
    _runtime: tokio::runtime::Runtime,
}

impl Service {
    /// Starts it; streams beyond the fates are answered.
    pub fn start(folder: &Folder, fates: &[Fate]) -> Service {
        let mut config = vouched(folder);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("an address");
        let book = Arc::<Mutex<Book>>::default();
        lock(&book).fates.extend(fates);
        let kept = Arc::clone(&book);
        runtime.spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(serve(acceptor.clone(), tcp, Arc::clone(&kept)));
            }
        });
        Service {
            address,
            book,
            _runtime: runtime,
        }
    }

    /// The gateway before it, with this much more of the route.
    pub fn gateway(&self, folder: &Folder, route: &str) -> Gateway {
        let top = "upstream_tls = { ca = \"ca.pem\" }\n";
        let text = configuration(top, self.address) + route;
        folder.write("s.toml", text);
        folder.gateway()
    }

    /// The requests that it took so far.
    pub fn taken(&self) -> Vec<Taken> {
        lock(&self.book).taken.clone()
    }

    /// Connections that came to a handshake.
    pub fn connections(&self) -> usize {
        lock(&self.book).connections
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().expect("no panic")
}

async fn serve(acceptor: TlsAcceptor, tcp: TcpStream, book: Arc<Mutex<Book>>) {
    let Ok(tls) = acceptor.accept(tcp).await else {
        return;
    };
    let next = {
        let mut book = lock(&book);
        book.connections += 1;
        book.fates.front().copied()
    };
    match next {
        Some(Fate::Unprocessed) => leave(tls, &book, false).await,
        Some(Fate::Processed) => leave(tls, &book, true).await,
        _ => answer(tls, book).await,
    }
}

/// Takes one stream and goes away, frame by frame: the library says of no stream that it took that
/// it did not process it.
async fn leave(mut tls: TlsStream<TcpStream>, book: &Mutex<Book>, processed: bool) {
    let mut preface = [0; PREFACE.len()];
    let greeted = tls.read_exact(&mut preface).await;
    let settings = tls.write_all(&frame(SETTINGS, 0, 0, &[])).await;
    if greeted.is_err() || settings.is_err() {
        return;
    }
    loop {
        let mut head = [0; 9];
        let Ok(_) = tls.read_exact(&mut head).await else {
            return;
        };
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        let Ok(_) = tls.read_exact(&mut payload).await else {
            return;
        };
        let (kind, flags) = (head[3], head[4]);
        if kind == SETTINGS && flags & ACK == 0 {
            let _ = tls.write_all(&frame(SETTINGS, ACK, 0, &[])).await;
        }
        if [HEADERS, DATA].contains(&kind) && flags & END_STREAM != 0 {
            lock(book).fates.pop_front();
            let last = if processed { &head[5..9] } else { &[0; 4] };
            let goaway = frame(GOAWAY, 0, 0, &[last, &[0; 4]].concat());
            let _ = tls.write_all(&goaway).await;
            // An end without a word could be a cut; this one is meant.
            let _ = tls.shutdown().await;
            return;
        }
    }
}

async fn answer(tls: TlsStream<TcpStream>, book: Arc<Mutex<Book>>) {
    let Ok(mut connection) = server::handshake(tls).await else {
        return;
    };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let fate = lock(&book).fates.pop_front().unwrap_or(Fate::Answered);
        match fate {
            Fate::Refused => {
                respond.send_reset(Reason::REFUSED_STREAM);
                continue;
            }
            Fate::AnsweredLast => connection.graceful_shutdown(),
            Fate::Answered | Fate::Reset => {}
            Fate::Unprocessed | Fate::Processed => panic!("{fate:?} befalls a new connection"),
        }
        tokio::spawn(take(request, respond, fate, Arc::clone(&book)));
    }
}

async fn take(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    fate: Fate,
    book: Arc<Mutex<Book>>,
) {
    let (parts, mut stream) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(chunk)) = stream.data().await {
        let _ = stream.flow_control().release_capacity(chunk.len());
        body.extend_from_slice(&chunk);
    }
    let fields = parts.headers;
    lock(&book).taken.push(Taken { fields, body });
    if fate == Fate::Reset {
        return respond.send_reset(Reason::INTERNAL_ERROR);
    }
    let mut answer = Response::new(());
    *answer.status_mut() = StatusCode::CREATED;
    answer.headers_mut().insert("content-length", 4.into());
    if let Ok(mut stream) = respond.send_response(answer, false) {
        let _ = stream.send_data(Bytes::from_static(b"made"), true);
    }
}
