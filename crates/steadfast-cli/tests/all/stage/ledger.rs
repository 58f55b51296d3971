//! A service that counts what it did: each POST is an effect, whoever hears of it.
//!
//! Threads and sockets of the standard library only: none of our code, and no HTTP library.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What the service does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Honours {
    /// Each request is another effect.
    Nothing,
    /// One effect a key.
    Keys,
}

/// The service. It answers while it is told to; an effect is done before its answer is held back.
pub struct Ledger {
    address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    honours: Honours,
    book: Mutex<Book>,
    turned: Condvar,
}

#[derive(Default)]
struct Book {
    effects: usize,
    fences: Vec<u64>,
    keys: HashMap<String, usize>,
    /// Keyed requests that came, by their key.
    posts: HashMap<String, usize>,
    /// At work at once, now and at most.
    at_work: usize,
    most_at_work: usize,
    /// The values of `Authorization` that came.
    credentials: Vec<String>,
    /// Answers that refuse with 503 and this `Retry-After`, still to be given.
    refusals: Vec<u32>,
    held: bool,
    ended: bool,
}

/// A service that is down: its port is its own, and connections to it are refused.
pub struct Down {
    socket: tokio::net::TcpSocket,
    runtime: tokio::runtime::Runtime,
}

impl Down {
    pub fn new() -> Down {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_io().build().expect("a runtime");
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        let port = "127.0.0.1:0".parse().expect("an address");
        socket.bind(port).expect("a port");
        Down { socket, runtime }
    }

    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("its address")
    }

    /// It is up from now on.
    pub fn up(self, honours: Honours) -> Ledger {
        let _inside = self.runtime.enter();
        let listener = self.socket.listen(1024).expect("it listens");
        let listener = listener.into_std().expect("a listener");
        listener.set_nonblocking(false).expect("it waits");
        Ledger::on(listener, honours)
    }
}

impl Ledger {
    pub fn open(honours: Honours) -> Ledger {
        Ledger::on(TcpListener::bind("127.0.0.1:0").expect("a port"), honours)
    }

    fn on(listener: TcpListener, honours: Honours) -> Ledger {
        let address = listener.local_addr().expect("its address");
        let inner = Arc::new(Inner {
            honours,
            book: Mutex::default(),
            turned: Condvar::new(),
        });
        let accepting = Arc::clone(&inner);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.book().ended {
                    return;
                }
                let inner = Arc::clone(&accepting);
                // The other side's end ends the thread; how does not matter.
                std::thread::spawn(move || inner.serve(&stream));
            }
        });
        Ledger { address, inner }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often something was done.
    pub fn effects(&self) -> usize {
        self.inner.book().effects
    }

    /// How many keyed requests came.
    pub fn posts(&self) -> usize {
        self.inner.book().posts.values().sum()
    }

    /// How often the key was sent that was sent most often.
    pub fn most_posts_of_a_key(&self) -> usize {
        self.inner.book().posts.values().copied().max().unwrap_or(0)
    }

    /// How many requests were at work at once, at most.
    pub fn most_at_work(&self) -> usize {
        self.inner.book().most_at_work
    }

    /// The values of `Authorization` that came.
    pub fn credentials(&self) -> Vec<String> {
        self.inner.book().credentials.clone()
    }

    /// The next POST is refused, nothing being done, with `Retry-After: seconds`.
    pub fn refuse(&self, seconds: u32) {
        self.inner.book().refusals.push(seconds);
    }

    /// The fences that came with keyed requests, in order.
    pub fn fences(&self) -> Vec<u64> {
        self.inner.book().fences.clone()
    }

    /// Holds answers back from now on.
    pub fn hold(&self) {
        self.inner.book().held = true;
    }

    /// Gives the answers that were held back, and all others at once.
    pub fn answer(&self) {
        self.inner.book().held = false;
        self.inner.turned.notify_all();
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.inner.book().ended = true;
        self.inner.turned.notify_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// A request at work.
struct AtWork<'a>(&'a Inner);

impl AtWork<'_> {
    fn begin(inner: &Inner) -> AtWork<'_> {
        let mut book = inner.book();
        book.at_work += 1;
        book.most_at_work = book.most_at_work.max(book.at_work);
        AtWork(inner)
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.book().at_work -= 1;
    }
}

struct Asked {
    credential: Option<String>,
    method: String,
    path: String,
    key: Option<String>,
    fence: Option<u64>,
}

impl Inner {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let asked = read(&mut reader)?;
            if asked.method != "POST" {
                let hello = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
                stream.write_all(hello.as_bytes()).ok()?;
                continue;
            }
            if let Some(seconds) = self.refusal() {
                let refused = format!(
                    "HTTP/1.1 503 Service Unavailable\r\nretry-after: {seconds}\r\n\
                     content-length: 0\r\n\r\n"
                );
                stream.write_all(refused.as_bytes()).ok()?;
                continue;
            }
            let number = self.act(&asked);
            let _at_work = AtWork::begin(self);
            if asked.path == "/stream" {
                let head = "HTTP/1.1 201 Created\r\ncontent-type: text/event-stream\r\n\
                            transfer-encoding: chunked\r\n\r\n6\r\nfirst\n\r\n";
                stream.write_all(head.as_bytes()).ok()?;
                self.wait()?;
                stream.write_all(b"5\r\nlast\n\r\n0\r\n\r\n").ok()?;
                continue;
            }
            self.wait()?;
            let body = format!("{{\"id\":{number}}}");
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\
                 location: /orders/{number}\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).ok()?;
        }
    }

    fn refusal(&self) -> Option<u32> {
        self.book().refusals.pop()
    }

    /// Does it, and gives its number.
    fn act(&self, asked: &Asked) -> usize {
        let mut book = self.book();
        book.fences.extend(asked.fence);
        book.credentials.extend(asked.credential.clone());
        if let Some(key) = &asked.key {
            *book.posts.entry(key.clone()).or_default() += 1;
        }
        if let (Honours::Keys, Some(key)) = (self.honours, &asked.key)
            && let Some(done) = book.keys.get(key)
        {
            return *done;
        }
        book.effects += 1;
        let number = book.effects;
        if let Some(key) = &asked.key {
            book.keys.insert(key.clone(), number);
        }
        number
    }

    /// Waits while answers are held back; `None` when the service ends first.
    fn wait(&self) -> Option<()> {
        let mut book = self.book();
        while book.held && !book.ended {
            let woken = self.turned.wait(book);
            book = woken.unwrap_or_else(PoisonError::into_inner);
        }
        (!book.ended).then_some(())
    }
}

/// Reads one request with its whole body; `None` at the end of the connection.
fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut words = line.split(' ');
    let mut asked = Asked {
        credential: None,
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
        key: None,
        fence: None,
    };
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        if line == "\r\n" {
            break;
        }
        // A head that is cut asks for nothing: its key may be what is missing of it.
        let (name, value) = line.strip_suffix("\r\n")?.split_once(':')?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "idempotency-key" => asked.key = Some(value.to_owned()),
            "authorization" => asked.credential = Some(value.to_owned()),
            "idempotency-fence" => asked.fence = Some(value.parse().ok()?),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(asked)
}
