//! A caller who writes bytes and reads answers off the wire.

use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::listen::raw::soon;

/// A key that no rule refuses.
pub const KEY: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

/// Another.
pub const OTHER_KEY: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Call {
    method: String,
    target: String,
    fields: Vec<(String, Vec<u8>)>,
    body: Option<Vec<u8>>,
}

/// A request with any method and target.
pub fn call(method: &str, target: &str) -> Call {
    let fields = vec![("Host".to_owned(), b"shop.example".to_vec())];
    Call {
        method: method.to_owned(),
        target: target.to_owned(),
        fields,
        body: None,
    }
}

pub fn get(target: &str) -> Call {
    call("GET", target)
}

/// A POST of 50 to the charges, without a key.
pub fn charge() -> Call {
    let call = call("POST", "/v1/charges").with("Content-Type", "application/json");
    call.body(r#"{"amount":50}"#)
}

/// The same under [`KEY`].
pub fn keyed_charge() -> Call {
    charge().key(KEY)
}

impl Call {
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Call {
        self.fields.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Without a field that was set before.
    pub fn without(mut self, name: &str) -> Call {
        self.fields
            .retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        self
    }

    pub fn key(self, key: &str) -> Call {
        self.with("Idempotency-Key", key)
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Call {
        self.body = Some(body.as_ref().to_vec());
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.fields {
            bytes.extend_from_slice(format!("{name}: ").as_bytes());
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        if let Some(body) = &self.body {
            let length = format!("Content-Length: {}\r\n", body.len());
            bytes.extend_from_slice(length.as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

/// One answer as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// The connection ended before the body's end.
    pub cut: bool,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The one value of a field; nothing where it is not there.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().map(|value| value.to_str().expect("text"));
        assert!(values.next().is_none(), "{name} twice: {self:?}");
        value
    }

    pub fn replayed(&self) -> Option<&str> {
        self.field("idempotent-replayed")
    }

    pub fn effect(&self) -> Option<&str> {
        self.field("steadfast-effect")
    }

    /// The slug of a problem, with all that every problem has.
    pub fn slug(&self) -> String {
        assert_eq!(
            self.field("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let body = self.json();
        let slug = body["type"].as_str().expect("a type");
        let slug = slug
            .strip_prefix("urn:steadfast:problem:")
            .expect("ours")
            .to_owned();
        assert_eq!(body["status"], self.status, "{self:?}");
        assert!(body["retryable"].is_boolean(), "{self:?}");
        assert!(
            body["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty()),
            "{self:?}"
        );
        let detail = body["detail"].as_str().expect("a detail");
        assert!(
            detail.ends_with('.') && detail.len() > 20,
            "no next step: {detail}"
        );
        assert_eq!(body["effect"].as_str(), self.effect(), "{self:?}");
        assert_eq!(
            self.replayed(),
            None,
            "problems carry no such header: {self:?}"
        );
        let proxy_status = self.field("proxy-status").expect("Proxy-Status");
        assert!(proxy_status.starts_with("steadfast; error="), "{self:?}");
        let details = format!("details=\"{slug}\"");
        assert!(proxy_status.ends_with(&details), "{self:?}");
        slug
    }

    /// Asserts a problem: status, slug, effect.
    #[track_caller]
    pub fn is_problem(&self, status: u16, slug: &str, effect: &str) -> &Answer {
        let found = (self.status, self.slug(), self.effect());
        assert_eq!(found, (status, slug.to_owned(), Some(effect)), "{self:?}");
        self
    }

    pub fn retryable(&self) -> bool {
        self.json()["retryable"].as_bool().expect("a truth")
    }

    pub fn operation_id(&self) -> String {
        self.json()["operation_id"]
            .as_str()
            .expect("an id")
            .to_owned()
    }
}

/// A connection to the gateway.
pub struct Caller {
    pub stream: TcpStream,
    held: Vec<u8>,
}

impl Caller {
    pub async fn connect(addr: SocketAddr) -> Caller {
        let stream = TcpStream::connect(addr).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        Caller {
            stream,
            held: Vec::new(),
        }
    }

    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .await
            .expect("a write");
    }

    pub async fn ask(&mut self, call: &Call) -> Answer {
        self.write(call.bytes()).await;
        self.answer_to(&call.method).await
    }

    pub async fn answer(&mut self) -> Answer {
        self.answer_to("GET").await
    }

    /// The answer as far as it comes; nothing where not even a head does.
    pub async fn cut_answer(&mut self, call: &Call) -> Option<Answer> {
        self.write(call.bytes()).await;
        let head = self.try_head().await?;
        Some(self.with_body(head, &call.method).await)
    }

    async fn answer_to(&mut self, method: &str) -> Answer {
        let head = self.head().await;
        self.with_body(head, method).await
    }

    async fn with_body(&mut self, mut answer: Answer, method: &str) -> Answer {
        let bodiless = method == "HEAD" || matches!(answer.status, 100..200 | 204 | 304);
        if bodiless {
            return answer;
        }
        let chunked = answer.headers.contains_key("transfer-encoding");
        let length = answer
            .field("content-length")
            .map(|digits| digits.parse().expect("digits"));
        match (chunked, length) {
            (true, _) => loop {
                match self.chunk(&mut answer.headers).await {
                    Some(chunk) if chunk.is_empty() => break,
                    Some(chunk) => answer.body.extend(chunk),
                    None => {
                        answer.cut = true;
                        break;
                    }
                }
            },
            (false, Some(length)) => {
                answer.cut = !self.hold(length).await;
                let length = length.min(self.held.len());
                answer.body = self.held.drain(..length).collect();
            }
            (false, None) => while self.hold(self.held.len() + 1).await {},
        }
        answer
    }

    /// The head alone.
    pub async fn head(&mut self) -> Answer {
        let head = self.try_head().await;
        head.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(&self.held)))
    }

    async fn try_head(&mut self) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.hold(self.held.len() + 1).await {
                return None;
            }
        };
        let head: Vec<u8> = self.held.drain(..end).collect();
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut fields);
        assert!(response.parse(&head).expect("a head").is_complete());
        let mut headers = HeaderMap::new();
        for field in response.headers.iter() {
            let name = HeaderName::from_bytes(field.name.as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_bytes(field.value).expect("a value"));
        }
        let status = response.code.expect("a status");
        Some(Answer {
            status,
            headers,
            body: Vec::new(),
            cut: false,
        })
    }

    /// The next chunk of a chunked body, empty at its end; nothing where it was cut. Trailers are
    /// added to `trailers`.
    pub async fn chunk(&mut self, trailers: &mut HeaderMap) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line().await?, 16).expect("a size");
        if size > 0 {
            let whole = self.hold(size + 2).await;
            return whole.then(|| self.held.drain(..size + 2).take(size).collect());
        }
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else {
                return Some(Vec::new());
            };
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            trailers.append(name, HeaderValue::from_str(value.trim()).expect("a value"));
        }
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.held.windows(2).position(|bytes| bytes == b"\r\n") {
                let line: Vec<u8> = self.held.drain(..at + 2).collect();
                return Some(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if !self.hold(self.held.len() + 1).await {
                return None;
            }
        }
    }

    /// Reads until so many bytes are held; false where the connection ended first.
    async fn hold(&mut self, bytes: usize) -> bool {
        while self.held.len() < bytes {
            let read = soon("bytes of an answer", self.stream.read_buf(&mut self.held)).await;
            if !matches!(read, Ok(1..)) {
                return false;
            }
        }
        true
    }
}
