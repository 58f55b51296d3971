//! A relay between a client and the gateway, which loses what is on its way.
//!
//! Each connection has a fate, in the order in which they come; all after those pass. A fate other
//! than to pass ends with one exchange, so that nobody can mistake whose bytes were lost.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::stage::until;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Everything goes through, both ways.
    Pass,
    /// Closed as soon as it stands.
    Refused,
    /// The request's body breaks off on its way to the gateway.
    RequestCut,
    /// The gateway answers, and the client's connection is closed without a byte of it.
    AnswerLost,
    /// The same, with a reset.
    AnswerReset,
    /// The client gets the answer up to the middle of its head.
    HeadCut,
    /// The client gets the answer up to the middle of its body.
    BodyCut,
    /// The gateway answers, and nothing reaches the client until it has left.
    Slow,
    /// The client gets its answer, and a reset for whatever it sends next.
    Forgotten,
}

/// A relay, which ends when it is dropped.
pub struct Relay {
    /// Where clients connect.
    pub address: SocketAddr,
    state: Arc<State>,
    _runtime: Runtime,
}

struct State {
    to: Mutex<SocketAddr>,
    fates: Vec<Fate>,
    /// Connections so far.
    count: Mutex<usize>,
    /// First bytes of the answers that went through.
    passed: Mutex<Vec<u8>>,
}

impl Relay {
    /// A relay to the gateway at `to`.
    pub fn open(to: SocketAddr, fates: &[Fate]) -> Relay {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_io()
            .build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(State {
            to: Mutex::new(to),
            fates: fates.to_vec(),
            count: Mutex::new(0),
            passed: Mutex::default(),
        });
        let serving = Arc::clone(&state);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = {
                    let mut count = lock(&serving.count);
                    *count += 1;
                    *count
                };
                let fate = serving.fates.get(number - 1).copied();
                let fate = fate.unwrap_or(Fate::Pass);
                let state = Arc::clone(&serving);
                // However it ends, it is one connection's end.
                tokio::spawn(async move { state.serve(stream, fate).await });
            }
        });
        Relay {
            address,
            state,
            _runtime: runtime,
        }
    }

    /// Leads connections to come to another gateway.
    pub fn lead_to(&self, to: SocketAddr) {
        *lock(&self.state.to) = to;
    }

    /// Waits until so many connections have come.
    pub fn until_connections(&self, wanted: usize) {
        let what = format!("connection {wanted} of a client");
        until(&what, || (*lock(&self.state.count) >= wanted).then_some(()));
    }

    /// Waits until an answer with this status went through.
    pub fn until_passed(&self, status: u16) {
        let line = format!("HTTP/1.1 {status} ");
        until(&line, || {
            let passed = lock(&self.state.passed);
            String::from_utf8_lossy(&passed)
                .contains(&line)
                .then_some(())
        });
    }
}

impl State {
    async fn serve(&self, mut client: TcpStream, fate: Fate) -> std::io::Result<()> {
        let to = *lock(&self.to);
        if fate == Fate::Refused {
            return Ok(());
        }
        let mut gateway = TcpStream::connect(to).await?;
        if fate == Fate::Pass {
            return self.pass(&mut client, &mut gateway).await;
        }
        let request = whole(&mut client).await?;
        if fate == Fate::RequestCut {
            gateway.write_all(&request[..request.len() - 3]).await?;
            return Ok(());
        }
        gateway.write_all(&request).await?;
        let answer = whole(&mut gateway).await?;
        let start = body_start(&answer).expect("a whole answer");
        match fate {
            Fate::HeadCut => client.write_all(&answer[..start / 2]).await?,
            Fate::BodyCut => {
                client
                    .write_all(&answer[..start.midpoint(answer.len())])
                    .await?
            }
            Fate::Forgotten => {
                client.write_all(&answer).await?;
                client.readable().await?;
                client.set_zero_linger()?;
            }
            Fate::AnswerReset => client.set_zero_linger()?,
            Fate::Slow => while client.read(&mut [0; 64]).await? > 0 {},
            _ => {}
        }
        Ok(())
    }

    async fn pass(&self, client: &mut TcpStream, gateway: &mut TcpStream) -> std::io::Result<()> {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_gateway, mut to_gateway) = gateway.split();
        let onwards = async {
            copy(&mut from_client, &mut to_gateway).await?;
            to_gateway.shutdown().await
        };
        let back = async {
            let mut chunk = vec![0; 64 << 10];
            loop {
                let length = from_gateway.read(&mut chunk).await?;
                if length == 0 {
                    return to_client.shutdown().await;
                }
                let line = chunk[..length].iter().take_while(|byte| **byte != b'\r');
                lock(&self.passed).extend(line.chain(b"\n"));
                to_client.write_all(&chunk[..length]).await?;
            }
        };
        tokio::try_join!(onwards, back).map(|_| ())
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads one message; its length or its last chunk tells where it ends.
async fn whole(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    while !is_whole(&bytes) {
        let length = stream.read(&mut chunk).await?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..length]);
    }
    Ok(bytes)
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(start) = body_start(bytes) else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes[..start]).to_ascii_lowercase();
    let length = text.split("content-length:").nth(1);
    match length.and_then(|rest| rest.lines().next()) {
        Some(length) => bytes.len() - start >= length.trim().parse().expect("a length"),
        None => bytes.ends_with(b"0\r\n\r\n"),
    }
}

/// Where the body begins, once the head is whole.
fn body_start(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(end + 4)
}
