//! A service that does what it is told, one step a connection, and keeps what it was sent.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;

/// What befalls one connection, once its request has been read whole.
#[derive(Clone, Debug)]
pub enum Step {
    /// These bytes, then the end.
    Says(String),
    /// A reset.
    Resets,
    /// Nothing, until the other side ends.
    Silent,
}

impl Step {
    /// An answer with this status and these fields, each with its line end, and `{}` as its body.
    pub fn status(status: u16, fields: &str) -> Step {
        Step::Says(format!(
            "HTTP/1.1 {status} X\r\n{fields}content-length: 2\r\nconnection: close\r\n\r\n{{}}"
        ))
    }
}

/// The service.
pub struct Scripted {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// Opens it. After its last step it repeats that one.
    pub fn open(steps: impl IntoIterator<Item = Step>) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (keeps, mut steps) = (Arc::clone(&seen), VecDeque::from_iter(steps));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), Some(step)) = (stream, steps.front().cloned()) else {
                    return;
                };
                if steps.len() > 1 {
                    steps.pop_front();
                }
                let keeps = Arc::clone(&keeps);
                std::thread::spawn(move || serve(stream, &step, &keeps));
            }
        });
        Scripted { address, seen }
    }

    /// Its URL, with this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far, heads and bodies.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

fn serve(mut stream: TcpStream, step: &Step, keeps: &Mutex<Vec<String>>) {
    let Some(request) = read(&mut stream) else {
        return;
    };
    keeps.lock().expect("not poisoned").push(request);
    match step {
        Step::Says(bytes) => {
            let _ = stream.write_all(bytes.as_bytes());
        }
        Step::Resets => {
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
        Step::Silent => {
            let _ = stream.read(&mut [0]);
        }
    }
}

/// One request, whole; `None` where the other side left before.
fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lines = head.lines().map(str::to_ascii_lowercase);
            let length = lines
                .filter_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
                .next_back();
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut chunk) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&chunk[..read]),
            _ => return None,
        }
    }
}
