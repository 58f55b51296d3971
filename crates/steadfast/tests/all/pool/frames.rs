//! The other side of an HTTP/2 connection, frame by frame (RFC 9113).

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::certificates::Identity;
use super::secured::SecuredPeer;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;
pub const MAX_CONCURRENT_STREAMS: u16 = 3;

/// `:status: 200` by its place in the static table (RFC 7541, A).
const STATUS_200: &[u8] = &[0x88];

/// A server that speaks HTTP/2 where it can.
pub fn speaking_http2(identity: &Identity) -> rustls::ServerConfig {
    let mut config = identity.server();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// A peer that has greeted.
pub struct H2 {
    peer: SecuredPeer,
    seen: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub id: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    /// The code of a reset.
    pub fn code(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().expect("a code"))
    }
}

impl H2 {
    /// Reads the client's preface and sends our settings.
    pub async fn greet(peer: SecuredPeer, settings: &[(u16, u32)]) -> H2 {
        let mut h2 = H2 {
            peer,
            seen: Vec::new(),
        };
        let mut preface = [0; 24];
        if h2.peer.stream.read_exact(&mut preface).await.is_ok() {
            assert!(preface.starts_with(b"PRI * HTTP/2.0"));
        }
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        h2.send(SETTINGS, 0, 0, &payload).await;
        h2
    }

    pub fn nth(&self) -> usize {
        self.peer.nth
    }

    /// The next frame; those that are of the connection alone are answered or passed over.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.any().await?;
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => self.send(SETTINGS, ACK, 0, &[]).await,
                SETTINGS | WINDOW_UPDATE | PING => {}
                _ => return Some(frame),
            }
        }
    }

    async fn any(&mut self) -> Option<Frame> {
        loop {
            if let Some((head, rest)) = self.seen.split_at_checked(9) {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if rest.len() >= length {
                    let id = u32::from_be_bytes(head[5..9].try_into().expect("an id"));
                    let frame = Frame {
                        kind: head[3],
                        flags: head[4],
                        id,
                        payload: rest[..length].to_vec(),
                    };
                    self.seen.drain(..9 + length);
                    return Some(frame);
                }
            }
            let mut chunk = [0; 16 * 1024];
            let read = self.peer.stream.read(&mut chunk).await.ok()?;
            self.seen.extend_from_slice(&chunk[..read]);
            (read > 0).then_some(())?;
        }
    }

    /// The stream of the next request that has come whole.
    pub async fn request(&mut self) -> Option<u32> {
        loop {
            let frame = self.next().await?;
            if frame.ends_stream() {
                self.peer.count_whole();
                return Some(frame.id);
            }
        }
    }

    /// A byte of an answer's body and a turn for others; whether the other side is still there.
    pub async fn trickle(&mut self, id: u32) -> bool {
        let bytes = [&[0, 0, 1, DATA, 0][..], &id.to_be_bytes(), b"x"].concat();
        let sent = self.peer.stream.write_all(&bytes).await.is_ok();
        let flushed = self.peer.stream.flush().await.is_ok();
        tokio::task::yield_now().await;
        sent && flushed
    }

    /// The next reset.
    pub async fn reset_of(&mut self) -> Option<Frame> {
        loop {
            let frame = self.next().await?;
            if frame.kind == RST_STREAM {
                return Some(frame);
            }
        }
    }

    pub async fn send(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(id.to_be_bytes());
        bytes.extend(payload);
        let _ = self.peer.stream.write_all(&bytes).await;
        let _ = self.peer.stream.flush().await;
    }

    pub async fn begin_answer(&mut self, id: u32) {
        self.send(HEADERS, END_HEADERS, id, STATUS_200).await;
    }

    /// 200 and `ok`.
    pub async fn answer(&mut self, id: u32) {
        self.begin_answer(id).await;
        self.send(DATA, END_STREAM, id, b"ok").await;
    }

    pub async fn reset(&mut self, id: u32, code: u32) {
        self.send(RST_STREAM, 0, id, &code.to_be_bytes()).await;
    }

    pub async fn goaway(&mut self, last: u32) {
        let mut payload = last.to_be_bytes().to_vec();
        payload.extend(0u32.to_be_bytes());
        self.send(GOAWAY, 0, 0, &payload).await;
    }

    /// Answers every request until the other side ends.
    pub async fn keep_answering(mut self) {
        while let Some(id) = self.request().await {
            self.answer(id).await;
        }
    }

    /// Takes what comes and says nothing, until the other side ends.
    pub async fn ended(mut self) {
        while self.any().await.is_some() {}
    }
}
