//! A service whose answers get lost, and which can be asked what it did.
//!
//! Threads and sockets of the standard library only: none of our code, and no HTTP library.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The credential with which all orders are seen; without, each caller sees its own.
pub const CLERK: &str = "Bearer clerk";

/// What becomes of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// It is executed and answered.
    Done,
    /// It is executed, and the answer is lost.
    Lost,
    /// It is received and not executed; no answer comes.
    Ignored,
    /// It is never received: the connection is cut unread.
    Unread,
    /// It is executed and answered with 500.
    Fails,
    /// It is executed, and answered once late orders are.
    Late,
}

/// What a question for an order is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// This status and body.
    Says(u16, &'static str),
    /// Bytes that are no HTTP.
    Garbage,
    /// Nothing.
    Silence,
}

/// The service. Where no other answer is set, a question is answered by its book: 200 with the
/// order of this caller and key, or 404.
pub struct Clerk {
    address: SocketAddr,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    book: Mutex<Book>,
    turned: Condvar,
}

#[derive(Default)]
struct Book {
    posts: VecDeque<Post>,
    looks: Option<Look>,
    /// Whose orders, under which keys.
    done: Vec<(String, String)>,
    asked: Vec<String>,
    undone: Vec<String>,
    undo_status: u16,
    held: bool,
    honours_keys: bool,
    late_go: bool,
    ended: bool,
}

impl Clerk {
    pub fn open(posts: &[Post]) -> Clerk {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let inner = Arc::new(Inner::default());
        inner.book().posts.extend(posts);
        inner.book().undo_status = 204;
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
        Clerk { address, inner }
    }

    /// A gateway's configuration before it, with these members of `idempotency`.
    pub fn config(&self, idempotency: &str) -> String {
        format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nstore = \"sqlite:records.db\"\n\
             drain = \"1s\"\n[[route]]\npath = \"/{{*rest}}\"\nto = \"http://{}\"\n\
             deadline = \"20s\"\ntimeouts = {{ attempt = \"1500ms\" }}\n\
             retry = {{ max_attempts = 1 }}\n[route.idempotency]\nlease = \"500ms\"\n\
             {idempotency}\n",
            self.address
        )
    }

    /// How often an order was executed.
    pub fn effects(&self) -> usize {
        self.inner.book().done.len()
    }

    /// The questions so far: who asked, and where.
    pub fn asked(&self) -> Vec<String> {
        self.inner.book().asked.clone()
    }

    /// The keys under which orders were undone, each as often as it came.
    pub fn undone(&self) -> Vec<String> {
        self.inner.book().undone.clone()
    }

    /// Questions are answered so from now on.
    pub fn says(&self, look: Option<Look>) {
        self.inner.book().looks = look;
    }

    /// Undoing is answered so from now on.
    pub fn undoes(&self, status: u16) {
        self.inner.book().undo_status = status;
    }

    /// Answers late orders from now on.
    pub fn answer_late(&self) {
        self.inner.book().late_go = true;
        self.inner.turned.notify_all();
    }

    /// One order a key from now on, however often it comes.
    pub fn honours_keys(&self) {
        self.inner.book().honours_keys = true;
    }

    /// What the next orders become.
    pub fn will(&self, posts: &[Post]) {
        self.inner.book().posts = posts.iter().copied().collect();
    }

    /// Holds back the answers to questions from now on.
    pub fn hold(&self) {
        self.inner.book().held = true;
    }

    /// Gives them.
    pub fn answer(&self) {
        self.inner.book().held = false;
        self.inner.turned.notify_all();
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.inner.book().ended = true;
        self.inner.turned.notify_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Inner {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let mut first = [0; 12];
            let seen = stream.peek(&mut first).ok().filter(|n| *n > 0)?;
            let is_order = first[..seen].starts_with(b"POST /orders");
            let next = self.book().posts.front().copied();
            if is_order && next == Some(Post::Unread) {
                self.book().posts.pop_front();
                return None;
            }
            let (line, who, key) = read(&mut reader)?;
            let answer = match line.split(' ').collect::<Vec<_>>()[..] {
                ["POST", "/orders", ..] => self.order(who, key),
                ["GET", path, ..] if path.starts_with("/by/") => self.question(path, &who),
                ["POST", path, ..] if path.starts_with("/undo") => {
                    let mut book = self.book();
                    book.undone.push(key);
                    Some(whole(book.undo_status, ""))
                }
                _ => Some(whole(200, "hello")),
            };
            stream.write_all(answer?.as_bytes()).ok()?;
        }
    }

    /// `None` where no answer comes: the connection ends.
    fn order(&self, who: String, key: String) -> Option<String> {
        let mut book = self.book();
        let post = book.posts.pop_front().unwrap_or(Post::Done);
        if post != Post::Ignored && !book.done.contains(&(who.clone(), key.clone())) {
            book.done.push((who, key));
        } else if post != Post::Ignored && !book.honours_keys {
            // A second execution under one key is what must not be.
            book.done.push(("again".to_owned(), key));
        }
        while post == Post::Late && !book.late_go && !book.ended {
            let woken = self.turned.wait(book);
            book = woken.unwrap_or_else(PoisonError::into_inner);
        }
        match post {
            Post::Done | Post::Late => Some(whole(201, "{\"made\":true}")),
            Post::Fails => Some(whole(500, "{\"made\":\"perhaps\"}")),
            Post::Lost | Post::Ignored | Post::Unread => None,
        }
    }

    fn question(&self, path: &str, who: &str) -> Option<String> {
        let mut book = self.book();
        book.asked.push(format!("{who} {path}"));
        while book.held && !book.ended {
            let woken = self.turned.wait(book);
            book = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let key = path.trim_start_matches("/by/").split('?').next()?;
        let may_see = |by: &str| by == who || who == CLERK;
        let is_there = |(by, under): &&(String, String)| may_see(by) && under == key;
        match book.looks {
            None => Some(match book.done.iter().find(is_there) {
                Some((by, _)) => whole(200, &format!("{{\"data\":[{{\"of\":\"{by}\"}}]}}")),
                None => whole(404, "{}"),
            }),
            Some(Look::Says(status, body)) => Some(whole(status, body)),
            Some(Look::Garbage) => Some("SSH-2.0-none\r\n\r\n".to_owned()),
            Some(Look::Silence) => {
                while !book.ended && book.looks == Some(Look::Silence) {
                    let woken = self.turned.wait(book);
                    book = woken.unwrap_or_else(PoisonError::into_inner);
                }
                None
            }
        }
    }
}

fn whole(status: u16, body: &str) -> String {
    let length = match status {
        204 => String::new(),
        _ => format!("content-length: {}\r\n", body.len()),
    };
    format!(
        "HTTP/1.1 {status} So\r\ncontent-type: application/json\r\nset-cookie: a=b\r\n{length}\
         \r\n{body}"
    )
}

/// Reads one request with its whole body: its first line, its credential and its key.
fn read(reader: &mut impl BufRead) -> Option<(String, String, String)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|n| *n > 0)?;
    let (mut who, mut key, mut length) = ("nobody".to_owned(), String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        if line == "\r\n" {
            break;
        }
        let (name, value) = line.strip_suffix("\r\n")?.split_once(':')?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "idempotency-key" => key = value.to_owned(),
            "authorization" => who = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first.trim_end().to_owned(), who, key))
}
