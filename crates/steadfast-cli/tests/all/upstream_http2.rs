//! An upstream that speaks HTTP/2 over TLS: what it refuses unprocessed goes again, nothing else.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::{Reason, server};
use http::{HeaderMap, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::stage::{Folder, Gateway, Request};
use crate::upstream_tls::{configuration, vouched};

const KEY: &str = "5f0f9c2e-6b1a-4e0c-9d5e-0b7a8c1d2e3f";

/// What befalls one stream.
#[derive(Clone, Copy)]
enum Fate {
    /// Taken, and answered 201.
    Answered,
    /// Refused unprocessed.
    Refused,
    /// Taken, and reset without an answer.
    Reset,
    /// Taken and answered, on a connection that takes no further stream.
    AnsweredLast,
}

/// A request that the service took: its fields and its body.
type Taken = (HeaderMap, Vec<u8>);

/// A service over HTTP/2, and the fates of its streams in their order; the last holds for all
/// others.
struct Service {
    address: SocketAddr,
    taken: Arc<Mutex<Vec<Taken>>>,
    connections: Arc<Mutex<usize>>,
    _runtime: tokio::runtime::Runtime,
}

impl Service {
    fn start(folder: &Folder, fates: &'static [Fate]) -> Service {
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
        let taken = Arc::<Mutex<Vec<Taken>>>::default();
        let connections = Arc::<Mutex<usize>>::default();
        let (seen, count) = (Arc::clone(&taken), Arc::clone(&connections));
        let streams = Arc::new(Mutex::new(fates.iter().copied()));
        let next = move || {
            let mut streams = streams.lock().expect("fates");
            streams.next().unwrap_or(fates[fates.len() - 1])
        };
        runtime.spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                *count.lock().expect("a count") += 1;
                let (acceptor, next, seen) = (acceptor.clone(), next.clone(), Arc::clone(&seen));
                tokio::spawn(serve(acceptor, tcp, next, seen));
            }
        });
        Service {
            address,
            taken,
            connections,
            _runtime: runtime,
        }
    }

    fn gateway(&self, folder: &Folder, route: &str) -> Gateway {
        let top = "upstream_tls = { ca = \"ca.pem\" }\n";
        folder.write("s.toml", configuration(top, self.address) + route);
        folder.gateway()
    }

    fn taken(&self) -> Vec<Taken> {
        self.taken.lock().expect("requests").clone()
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    tcp: TcpStream,
    mut next: impl FnMut() -> Fate,
    taken: Arc<Mutex<Vec<Taken>>>,
) {
    let Ok(tls) = acceptor.accept(tcp).await else {
        return;
    };
    let Ok(mut connection) = server::handshake(tls).await else {
        return;
    };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let fate = next();
        if let Fate::Refused = fate {
            respond.send_reset(Reason::REFUSED_STREAM);
            continue;
        }
        if let Fate::AnsweredLast = fate {
            connection.graceful_shutdown();
        }
        let taken = Arc::clone(&taken);
        tokio::spawn(async move {
            let (parts, mut body) = request.into_parts();
            let mut whole = Vec::new();
            while let Some(Ok(chunk)) = body.data().await {
                let _ = body.flow_control().release_capacity(chunk.len());
                whole.extend_from_slice(&chunk);
            }
            taken.lock().expect("requests").push((parts.headers, whole));
            if let Fate::Reset = fate {
                return respond.send_reset(Reason::INTERNAL_ERROR);
            }
            let mut answer = Response::new(());
            *answer.status_mut() = StatusCode::CREATED;
            answer.headers_mut().insert("content-length", 4.into());
            if let Ok(mut stream) = respond.send_response(answer, false) {
                let _ = stream.send_data(Bytes::from_static(b"made"), true);
            }
        });
    }
}

fn field<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_else(|| panic!("no {name} in {headers:?}"))
}

#[test]
fn a_stream_refused_unprocessed_goes_again_with_or_without_key_byte_for_byte() {
    for (request, key) in [
        (Request::post("/orders", None), false),
        (Request::order(KEY), true),
    ] {
        let folder = Folder::new();
        let service = Service::start(&folder, &[Fate::Refused, Fate::Answered]);
        let gateway = service.gateway(&folder, "retry = { base = \"1ms\" }\n");
        let answer = gateway.ask(&request).expect("an answer");
        assert_eq!((answer.status, &*answer.body), (201, &b"made"[..]));
        let taken = service.taken();
        let [(fields, body)] = &taken[..] else {
            panic!("taken once: {taken:?}")
        };
        assert_eq!(body, b"{\"amount\":1}");
        assert_eq!(field(fields, "steadfast-attempt"), "2");
        let metrics = gateway.metrics();
        let refused = "attempt=\"1\",result=\"refused-stream\"} 1";
        assert!(metrics.contains(refused), "{metrics}");
        if key {
            assert_eq!(field(fields, "idempotency-key"), KEY);
            let again = gateway.ask(&request).expect("an answer");
            assert_eq!((again.status, again.replayed()), (201, Some("true")));
            assert_eq!(service.taken().len(), 1);
        }
    }
}

#[test]
fn a_stream_that_was_taken_and_reset_is_unknown_and_goes_again_only_where_the_key_is_honoured() {
    let folder = Folder::new();
    let service = Service::start(&folder, &[Fate::Reset, Fate::Answered]);
    let gateway = service.gateway(&folder, "");
    for request in [Request::order(KEY), Request::order(KEY)] {
        let answer = gateway.ask(&request).expect("an answer");
        assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"));
    }
    assert_eq!(service.taken().len(), 1, "under hold nothing is repeated");

    let folder = Folder::new();
    let service = Service::start(&folder, &[Fate::Reset, Fate::Answered]);
    let route = "retry = { base = \"1ms\" }\nidempotency = { on_unknown = \"repeat\" }\n";
    let gateway = service.gateway(&folder, route);
    let answer = gateway.ask(&Request::order(KEY)).expect("an answer");
    assert_eq!((answer.status, answer.replayed()), (201, Some("false")));
    let taken = service.taken();
    let fence = |at: usize| -> u64 { field(&taken[at].0, "idempotency-fence").parse().unwrap() };
    assert_eq!(taken.len(), 2);
    assert!(fence(0) < fence(1), "a fence for each attempt");
}

#[test]
fn a_connection_that_says_goaway_is_left_for_another_and_no_request_is_lost() {
    let folder = Folder::new();
    let service = Service::start(&folder, &[Fate::AnsweredLast]);
    let gateway = service.gateway(&folder, "");
    for _ in 0..20 {
        let answer = gateway.ask(&Request::post("/orders", None));
        assert_eq!(answer.expect("an answer").status, 201);
    }
    assert_eq!(service.taken().len(), 20);
    assert!(*service.connections.lock().expect("a count") >= 2);
}
