//! A caller over a plain socket: what it sends and gets are bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::PATIENCE;

/// A request. With a key it is the principal `Bearer a`'s.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    method: &'a str,
    path: &'a str,
    key: Option<&'a str>,
    body: &'a str,
    keep: bool,
}

impl<'a> Request<'a> {
    pub fn get(path: &'a str) -> Request<'a> {
        Request {
            method: "GET",
            path,
            key: None,
            body: "",
            keep: false,
        }
    }

    /// The POST that most tests send.
    pub const fn order(key: &'a str) -> Request<'a> {
        Request::post("/orders", Some(key))
    }

    /// A POST of `{"amount":1}` under `key`.
    pub const fn post(path: &'a str, key: Option<&'a str>) -> Request<'a> {
        Request {
            method: "POST",
            path,
            key,
            body: "{\"amount\":1}",
            keep: false,
        }
    }

    /// The same with another body.
    pub fn saying(self, body: &'a str) -> Request<'a> {
        Request { body, ..self }
    }

    /// The same on a connection that is kept open.
    pub fn kept(self) -> Request<'a> {
        Request { keep: true, ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let Request {
            method,
            path,
            key,
            body,
            keep,
        } = self;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        head += "authorization: Bearer a\r\n";
        if let Some(key) = key {
            head += &format!("idempotency-key: {key}\r\n");
        }
        if *method == "POST" {
            let length = body.len();
            head += &format!("content-type: application/json\r\ncontent-length: {length}\r\n");
        }
        if !keep {
            head += "connection: close\r\n";
        }
        format!("{head}\r\n{body}").into_bytes()
    }
}

impl Request<'_> {
    /// The bytes up to the middle of the body, which the caller sends when it is asked to, and the
    /// rest.
    pub fn halves(&self) -> (Vec<u8>, Vec<u8>) {
        let text = String::from_utf8(self.bytes()).expect("text");
        let text = text.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
        let rest = text.into_bytes();
        let middle = rest.len() - self.body.len() / 2;
        (rest[..middle].to_vec(), rest[middle..].to_vec())
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// A field's value.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn replayed(&self) -> Option<&str> {
        self.field("idempotent-replayed")
    }

    /// The slug of the gateway's own answer.
    pub fn problem(&self) -> Option<String> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let slug = body
            .get("type")?
            .as_str()?
            .strip_prefix("urn:steadfast:problem:")?;
        Some(slug.to_owned())
    }

    /// What a caller acts on: the same for all who sent one request.
    pub fn essence(&self) -> (u16, Option<&str>, Option<&str>, &str) {
        let body = std::str::from_utf8(&self.body).expect("a body in UTF-8");
        let (kind, place) = (self.field("content-type"), self.field("location"));
        (self.status, kind, place, body)
    }
}

/// The connection ended before the answer did; what had come until then.
#[derive(Debug)]
pub struct Cut(pub Vec<u8>);

/// One connection.
pub struct Caller(TcpStream);

impl Caller {
    /// `None` where nobody listens.
    pub fn to(address: SocketAddr) -> Option<Caller> {
        let stream = TcpStream::connect(address).ok()?;
        let bounded = stream.set_read_timeout(Some(PATIENCE));
        bounded.expect("a bound on reading");
        Some(Caller(stream))
    }

    /// Sends `request` and reads its answer.
    pub fn ask(mut self, request: &Request<'_>) -> Result<Answer, Cut> {
        self.send(request);
        self.answer()
    }

    /// Sends `request`. That the other side is gone shows when its answer is read.
    pub fn send(&mut self, request: &Request<'_>) {
        let _ = self.0.write_all(&request.bytes());
    }

    /// Sends `bytes` as they are.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.0.write_all(bytes.as_ref());
    }

    /// Sends a part of a request.
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the other side is there");
    }

    /// Reads one whole answer.
    pub fn answer(&mut self) -> Result<Answer, Cut> {
        let mut bytes = Vec::new();
        loop {
            if let Some(answer) = whole(&bytes) {
                return Ok(answer);
            }
            if !self.more(&mut bytes) {
                return Err(Cut(bytes));
            }
        }
    }

    /// Reads until `text` has come.
    pub fn read_to(&mut self, text: &str) {
        let mut bytes = Vec::new();
        while !String::from_utf8_lossy(&bytes).contains(text) {
            let came = self.more(&mut bytes);
            assert!(
                came,
                "{text:?} missing in {:?}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }

    /// Reads until the other side closes or resets.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.more(&mut bytes) {}
        bytes
    }

    /// False at the end of the connection, however it came.
    fn more(&mut self, bytes: &mut Vec<u8>) -> bool {
        let mut chunk = [0; 4096];
        match self.0.read(&mut chunk) {
            Ok(0) => false,
            Ok(length) => {
                bytes.extend_from_slice(&chunk[..length]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("waited in vain for an answer; so far: {bytes:?}")
            }
            Err(_) => false,
        }
    }
}

/// The answer in `bytes`, when all of it is there: its length or the last chunk tells.
fn whole(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head in UTF-8");
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':').expect("a field");
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let headers: Vec<(String, String)> = lines.map(field).collect();
    let mut answer = Answer {
        status,
        headers,
        body: bytes[end + 4..].to_vec(),
    };
    if answer.field("transfer-encoding").is_some() {
        return answer.body.ends_with(b"0\r\n\r\n").then_some(answer);
    }
    let length = answer.field("content-length").unwrap_or("0").parse().ok()?;
    if answer.body.len() < length {
        return None;
    }
    answer.body.truncate(length);
    Some(answer)
}
