//! This binary, run again as another process on the same store.
//!
//! The parent starts the test `orders` below with its orders on standard input; the two take turns
//! by lines, never by time.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use steadfast::core::record;
use steadfast::store::conformance::rows;
use steadfast::store::postgres::{Address, Postgres};
use steadfast::store::sqlite::Sqlite;
use steadfast::store::{Op, OpEnd, Store, StoreError};

/// Marks the lines that are meant for the parent.
const MARK: &str = "child: ";

/// The other process, as its parent sees it.
pub struct Second {
    child: Child,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Second {
    /// Starts it through `through`, such as `setpriv`; empty for as it is.
    pub fn start(through: &[&str], orders: &[&str]) -> Second {
        let exe = std::env::current_exe().expect("this binary");
        Second::start_as(&exe, through, orders)
    }

    /// The same with a copy of this binary.
    pub fn start_as(exe: &Path, through: &[&str], orders: &[&str]) -> Second {
        let exe = exe.to_str().expect("a path in UTF-8");
        let test = [exe, "--exact", "second_process::orders", "--nocapture"];
        let line: Vec<&str> = through.iter().copied().chain(test).collect();
        let mut child = Command::new(line[0])
            .args(&line[1..])
            .env(SECOND, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("another process");
        let mut second = Second {
            orders: child.stdin.take().expect("its input"),
            said: BufReader::new(child.stdout.take().expect("its output")).lines(),
            child,
        };
        second.order(&orders.join("\t"));
        second
    }

    /// Gives it one more order.
    pub fn order(&mut self, line: &str) {
        writeln!(self.orders, "{line}").expect("it listens");
    }

    /// The next line that it says.
    pub fn said(&mut self) -> String {
        loop {
            let line = self
                .said
                .next()
                .expect("it says something")
                .expect("a line");
            if let Some((_, said)) = line.split_once(MARK) {
                return said.to_owned();
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, as a power cut would end its process.
    pub fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ended");
    }

    /// Waits for its end, which must be a good one.
    pub fn end(mut self) {
        drop(self.orders);
        assert!(self.child.wait().expect("it ended").success());
    }
}

/// The child's side.
struct Orders(Lines<std::io::StdinLock<'static>>);

impl Orders {
    fn next(&mut self) -> Option<String> {
        self.0.next()?.ok()
    }
}

fn say(word: &str) {
    println!("\n{MARK}{word}");
}

/// Set in the second process, and nowhere else.
const SECOND: &str = "STEADFAST_TEST_SECOND_PROCESS";

/// The second process of other tests, which give it its orders; as a test of its own it has none.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "how the first process tells the second"
)]
fn orders() {
    if std::env::var_os(SECOND).is_none() {
        return;
    }
    let mut orders = Orders(std::io::stdin().lines());
    let Some(first) = orders.next() else { return };
    let words: Vec<&str> = first.split('\t').collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        match words.as_slice() {
            ["race", path] => race(path, &mut orders).await,
            ["insert", path] => insert_until_killed(path).await,
            ["open", path] => say(&match Sqlite::open(path) {
                Ok(_) => "opened".to_owned(),
                Err(why) => format!("{why:?}"),
            }),
            ["fill", path, ballast] => fill(path, ballast, &mut orders).await,
            other => panic!("no such order: {other:?}"),
        }
    });
}

/// The store in a file, or in a database.
fn store(place: &str) -> Box<dyn Store> {
    match Address::parse(place) {
        Ok(address) => Box::new(Postgres::open(&address).expect("the store")),
        Err(_) => Box::new(Sqlite::open(place).expect("the store")),
    }
}

async fn race(place: &str, orders: &mut Orders) {
    let store = store(place);
    say("ready");
    orders.next();
    say(&race_inserts(&*store, 2).await);
    orders.next();
    let row = store
        .get(rows::scope(0))
        .await
        .expect("a read")
        .expect("row 0");
    let next = record::renew(&row, row.updated_at);
    let (next, guard) = (Box::new(next), row.guard());
    let end = store
        .apply(Op::Replace {
            next,
            guard,
            draw: true,
        })
        .await;
    assert!(matches!(end, Ok(OpEnd::Done(_))));
    say("renewed");
}

/// Inserts all keys as holder `by`; says which inserts won.
pub async fn race_inserts(store: &dyn Store, by: u64) -> String {
    let mut won = String::new();
    for n in 0..200 {
        let row = rows::started(n, by, record::Start::Reserved, rows::DATE);
        let end = store
            .apply(Op::Insert(Box::new(row)))
            .await
            .expect("a write");
        won.push(if matches!(end, OpEnd::Done(_)) {
            '1'
        } else {
            '0'
        });
    }
    won
}

async fn insert_until_killed(place: &str) {
    let store = store(place);
    for n in 0.. {
        let end = store.apply(Op::Insert(Box::new(rows::completed(n)))).await;
        assert!(matches!(end, Ok(OpEnd::Done(_))));
        say(&n.to_string());
    }
}

/// Writes until the disk is full; once told, goes on.
async fn fill(path: &str, ballast: &str, orders: &mut Orders) {
    std::fs::write(ballast, vec![0; 64 * 1024]).expect("room for the ballast");
    let store = Sqlite::open(path).expect("the store");
    let write = async |n: u64| {
        let mut row = rows::completed(n);
        row.standing.answer = record::Answer::Stored(rows::answer(16 * 1024));
        let end = store.apply(Op::Insert(Box::new(row))).await;
        end.map(|end| assert!(matches!(end, OpEnd::Done(_))))
    };
    let mut n = 0;
    let error = loop {
        match write(n).await {
            Ok(()) => n += 1,
            Err(error) => break error,
        }
        assert!(n < 10_000, "the disk has no end");
    };
    let standing = async |n| store.get(rows::scope(n)).await.expect("a read").is_some();
    assert!(
        n > 0 && standing(n - 1).await,
        "what was said to be done stands"
    );
    assert!(!standing(n).await, "what failed is not there, not in part");
    let kind = match error {
        StoreError::Full(_) => "full",
        StoreError::Unavailable(_) => "unavailable",
        other => panic!("a full disk is not {other:?}"),
    };
    say(kind);
    orders.next();
    std::fs::remove_file(ballast).expect("the ballast goes");
    write(n)
        .await
        .expect("with room again it goes on by itself");
    assert!(standing(n).await);
    say(&n.to_string());
}
