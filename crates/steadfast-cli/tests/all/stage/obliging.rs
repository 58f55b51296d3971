//! A service that does what a path says, and keeps what it was sent.
//!
//! `/status/N` answers with that status, `/cut` ends the connection without an answer, `/half` ends
//! it within the body. Every answer carries what nobody may log.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// The service. Its threads end with the test's process.
pub struct Obliging {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Obliging {
    /// Starts it; `secret` stands in each answer, in a field and in the body.
    pub fn open(secret: &'static str) -> Obliging {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(&stream, secret, &kept));
            }
        });
        Obliging { address, heads }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The heads of requests so far.
    pub fn heads(&self) -> Vec<String> {
        let heads = self.heads.lock();
        heads.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(mut stream: &TcpStream, secret: &str, kept: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
            if line.trim_end().is_empty() {
                break;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let path = head.split(' ').nth(1)?.to_owned();
        kept.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(head);
        let path = path.split('?').next()?;
        let status = match path {
            "/cut" => return None,
            path => path.strip_prefix("/status/").unwrap_or("200"),
        };
        let body = format!("body {secret}");
        let length = body.len() + if path == "/half" { 10 } else { 0 };
        let answer = format!(
            "HTTP/1.1 {status} As Asked\r\nx-secret: {secret}\r\nset-cookie: {secret}\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).ok()?;
        if path == "/half" {
            return None;
        }
    }
}
