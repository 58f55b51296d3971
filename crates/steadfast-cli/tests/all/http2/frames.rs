//! A caller of HTTP/2 who sends frames rather than requests, and may break any rule.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::listen::raw::soon;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const NO_ERROR: u32 = 0;
pub const PROTOCOL_ERROR: u32 = 1;
pub const INTERNAL_ERROR: u32 = 2;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// One frame.
#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub id: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The error of a RST_STREAM.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("a code"))
    }

    /// The last stream of a GOAWAY.
    pub fn last_stream(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().expect("an id"))
    }
}

pub fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame").to_be_bytes();
    [&length[1..], &[kind, flags], &id.to_be_bytes(), payload].concat()
}

/// Fields without compression: literals that are not indexed (RFC 7541, 6.2.2).
pub fn block(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name.as_bytes(), value] {
            integer(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

/// A length in a prefix of seven bits (RFC 7541, 5.1).
fn integer(block: &mut Vec<u8>, number: usize) {
    if number < 127 {
        return block.push(number as u8);
    }
    block.push(127);
    let mut rest = number - 127;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// The fields of a request of `method`, and more.
pub fn fields<'a>(method: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a [u8])> {
    let own = [
        (":method", method),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a"),
    ];
    let all = own.iter().chain(more);
    all.map(|(name, value)| (*name, value.as_bytes())).collect()
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Whole,
    Reset(u32),
    /// The connection ended before; the code of its GOAWAY, if there was one.
    Gone(Option<u32>),
}

/// An answer to one stream.
#[derive(Debug)]
pub struct Answer {
    /// The blocks of its heads, as they came.
    pub heads: Vec<Vec<u8>>,
    pub body: Vec<u8>,
    pub end: End,
}

impl Answer {
    /// The status of the last head; those that HPACK has a number for.
    pub fn status(&self) -> u16 {
        let head = self.heads.last().expect("a head");
        match head[0] {
            0x88 => 200,
            0x89 => 204,
            0x8c => 400,
            0x8d => 404,
            0x8e => 500,
            _ => 0,
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One connection.
pub struct Caller {
    pub stream: TcpStream,
    bytes: Vec<u8>,
    /// Answers pings.
    pub alive: bool,
    goaway: Option<u32>,
}

impl Caller {
    /// Connects and says that this is HTTP/2.
    pub async fn to(addr: SocketAddr) -> Caller {
        let mut caller = Caller::silent(addr).await;
        caller.write(PREFACE).await;
        caller.write(&frame(SETTINGS, 0, 0, &[])).await;
        caller
    }

    /// Connects, and grants `window` bytes of each answer alone.
    pub async fn with_window(addr: SocketAddr, window: u32) -> Caller {
        let mut caller = Caller::silent(addr).await;
        caller.write(PREFACE).await;
        let setting = [&[0, 4], &window.to_be_bytes()[..]].concat();
        caller.write(&frame(SETTINGS, 0, 0, &setting)).await;
        caller
    }

    /// Connects.
    pub async fn silent(addr: SocketAddr) -> Caller {
        Caller {
            stream: TcpStream::connect(addr).await.expect("a connection"),
            bytes: Vec::new(),
            alive: true,
            goaway: None,
        }
    }

    /// That the other side is gone shows when it is read.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    pub async fn send(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        self.write(&frame(kind, flags, id, payload)).await;
    }

    /// A whole request without a body.
    pub async fn ask(&mut self, id: u32, fields: &[(&str, &[u8])]) {
        let block = block(fields);
        let mut pieces = block.chunks(16_000).peekable();
        let (mut kind, mut flags) = (HEADERS, END_STREAM);
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                flags |= END_HEADERS;
            }
            self.send(kind, flags, id, piece).await;
            (kind, flags) = (CONTINUATION, 0);
        }
    }

    /// A request whose body follows.
    pub async fn begin(&mut self, id: u32, fields: &[(&str, &[u8])]) {
        self.send(HEADERS, END_HEADERS, id, &block(fields)).await;
    }

    pub async fn get(&mut self, id: u32) {
        self.ask(id, &fields("GET", &[])).await;
    }

    pub async fn reset(&mut self, id: u32) {
        self.send(RST_STREAM, 0, id, &CANCEL.to_be_bytes()).await;
    }

    /// The next frame that is not about the connection's settings; `None` at its end.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.any().await?;
            match (frame.kind, frame.flags) {
                (SETTINGS, 0) => self.send(SETTINGS, ACK, 0, &[]).await,
                (PING, 0) if self.alive => self.send(PING, ACK, 0, &frame.payload).await,
                (SETTINGS | WINDOW_UPDATE, _) => {}
                (GOAWAY, _) => {
                    self.goaway = Some(frame.code());
                    return Some(frame);
                }
                _ => return Some(frame),
            }
        }
    }

    async fn any(&mut self) -> Option<Frame> {
        loop {
            if let [a, b, c, kind, flags, id @ ..] = &self.bytes[..]
                && id.len() >= 4
            {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                if self.bytes.len() >= 9 + length {
                    let frame = Frame {
                        kind: *kind,
                        flags: *flags,
                        id: u32::from_be_bytes(id[..4].try_into().expect("an id")),
                        payload: self.bytes[9..9 + length].to_vec(),
                    };
                    self.bytes.drain(..9 + length);
                    return Some(frame);
                }
            }
            let read = soon("a frame", self.stream.read_buf(&mut self.bytes)).await;
            if read.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    /// The answer to a stream; what other streams get meanwhile is dropped.
    pub async fn answer(&mut self, id: u32) -> Answer {
        let mut answer = Answer {
            heads: Vec::new(),
            body: Vec::new(),
            end: End::Whole,
        };
        loop {
            let Some(frame) = self.next().await else {
                answer.end = End::Gone(self.goaway);
                return answer;
            };
            match frame.kind {
                _ if frame.id != id => continue,
                HEADERS => answer.heads.push(frame.payload.clone()),
                DATA => answer.body.extend_from_slice(&frame.payload),
                RST_STREAM => {
                    answer.end = End::Reset(frame.code());
                    return answer;
                }
                _ => {}
            }
            if frame.flags & END_STREAM != 0 {
                return answer;
            }
        }
    }

    /// Reads until the connection ends; the error that its last GOAWAY gave.
    pub async fn end(&mut self) -> Option<u32> {
        while self.next().await.is_some() {}
        self.goaway
    }
}
