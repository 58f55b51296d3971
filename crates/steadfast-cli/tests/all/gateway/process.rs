//! The released binary as a process: its store's secrets, its log, its end.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::caller::{Answer, Call, Caller, OTHER_KEY, call, charge, get, keyed_charge};
use super::upstream::{Upstream, answer};
use super::{printed, ran};
use crate::listen::raw::soon;

fn steadfast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

/// A process that does not outlive its test.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // After its end this does nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A gateway in a process of its own.
struct Process {
    data: SocketAddr,
    admin: SocketAddr,
    child: Owned,
    log: JoinHandle<String>,
}

impl Process {
    async fn start(arguments: &[&str]) -> Process {
        let mut command = steadfast(arguments);
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Owned(command.spawn().expect("the binary starts"));
        let mut stderr = BufReader::new(child.0.stderr.take().expect("a pipe"));
        let (tell, told) = oneshot::channel();
        let log = tokio::task::spawn_blocking(move || {
            let mut log = String::new();
            while !log.contains(" for operators on ")
                && stderr.read_line(&mut log).is_ok_and(|n| n > 0)
            {}
            let _ = tell.send(log.clone());
            let _ = stderr.read_to_string(&mut log);
            log
        });
        let begun = soon("the addresses", told).await.expect("a log");
        let mut addresses = begun.split("http://").skip(1).map(|rest| {
            let end = rest.find([',', '\n']).expect("an end");
            rest[..end].parse().expect("an address")
        });
        let (data, admin) = (addresses.next(), addresses.next());
        let (Some(data), Some(admin)) = (data, admin) else {
            panic!("it did not start: {begun}");
        };
        Process {
            data,
            admin,
            child,
            log,
        }
    }

    async fn send(&self, call: &Call) -> Answer {
        Caller::connect(self.data).await.ask(call).await
    }

    async fn operate(&self, call: Call) -> Answer {
        let call = call.without("Host").with("Host", self.admin.to_string());
        Caller::connect(self.admin).await.ask(&call).await
    }

    /// Ends it as an operator does; its whole log.
    async fn end(mut self) -> String {
        let mut kill = Command::new("kill");
        kill.args(["-TERM", &self.child.0.id().to_string()]);
        printed(&ran(kill).await);
        let status = tokio::task::spawn_blocking(move || self.child.0.wait()).await;
        let status = status.expect("a task").expect("it ends");
        assert_eq!(status.code(), Some(0));
        soon("the log's end", self.log).await.expect("a log")
    }
}

/// A folder with a configuration, a store and a secret.
struct Site(tempfile::TempDir);

impl Site {
    fn new(to: SocketAddr) -> Site {
        let site = Site(tempfile::tempdir().expect("a folder"));
        let config = format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nstore = \"{}\"\n\
             secret = {{ file = \"{}\" }}\n\
             [[route]]\npath = \"/{{*rest}}\"\nto = \"http://{to}\"\n",
            site.store(),
            site.path("secret").display()
        );
        std::fs::write(site.path("steadfast.toml"), config).expect("a file");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.path("store.db").display())
    }

    fn secret(&self, letter: &str) {
        std::fs::write(self.path("secret"), letter.repeat(40)).expect("a file");
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        ran(self.command(arguments)).await
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = steadfast(arguments);
        command.args(["--config".as_ref(), self.path("steadfast.toml").as_os_str()]);
        command
    }

    async fn start(&self) -> Process {
        let config = self.path("steadfast.toml").display().to_string();
        Process::start(&["gateway", "--config", &config]).await
    }
}

// rule: a-rotated-secret-leaves-old-records-readable
#[tokio::test]
async fn a_secret_is_rotated_by_migrate_and_old_records_still_replay() {
    let upstream = Upstream::charging().await;
    let site = Site::new(upstream.addr);
    for (letter, key, marker) in [
        ("a", super::caller::KEY, "false"),
        ("b", OTHER_KEY, "false"),
    ] {
        site.secret(letter);
        let refused = site.run(&["gateway"]).await;
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
        let why = String::from_utf8_lossy(&refused.stderr);
        assert!(why.contains("`steadfast store migrate --config "), "{why}");
        assert!(
            !why.contains(&letter.repeat(8)),
            "the secret itself is shown: {why}"
        );
        printed(&site.run(&["store", "migrate"]).await);
        let gateway = site.start().await;
        let made = gateway.send(&charge().key(key)).await;
        assert_eq!((made.status, made.replayed()), (201, Some(marker)));
        let first = gateway.send(&keyed_charge().body("{\"amount\":5e1}")).await;
        assert_eq!(first.replayed(), Some("true"), "{letter}");
        assert_eq!(first.text(), "{\"charge\":1}");
        let other = gateway.send(&keyed_charge().body("{\"amount\":60}")).await;
        other.is_problem(422, "key-reused", "none");
        gateway.end().await;
    }
    assert_eq!(upstream.count(), 2);
}

/// What must never stand in a log or an error.
const SECRETS: [&str; 6] = [
    "9b2f6c1e-0d4a-4f7b-8a53-c1d2e3f4a5b6",
    "Bearer-of-the-token-1234567",
    "amount-in-the-body-5678",
    "card-in-the-query-9012",
    "session-in-the-cookie-3456",
    "answer-of-the-upstream-7890",
];

fn telling_all(path: &str) -> Call {
    let [key, token, body, query, cookie, _] = SECRETS;
    call("POST", &format!("{path}?q={query}"))
        .key(key)
        .with("Authorization", token)
        .with("Cookie", format!("s={cookie}"))
        .with("X-Forwarded-For", token)
        .body(format!("{{\"a\":\"{body}\"}}"))
}

fn tells_nothing(text: &str, of: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{of} shows {secret}: {text}");
        assert!(
            !text.contains(&secret[..16]),
            "{of} shows the beginning of {secret}: {text}"
        );
    }
}

// rule: no-key-credential-or-body-stands-in-a-log-or-an-error
#[tokio::test]
async fn no_key_credential_or_body_stands_in_the_log_or_in_an_error() {
    let secret = SECRETS[5];
    let upstream = Upstream::start(move |mut exchange| async move {
        match exchange.seen().target.as_str() {
            path if path.starts_with("/lost") => exchange.reply_and_close(secret).await,
            path if path.starts_with("/reset") => {
                exchange.read().await;
                exchange.reset()
            }
            path if path.starts_with("/500") => exchange.reply(answer("500 No", "", secret)).await,
            path if path.starts_with("/503") => exchange.reply(answer("503 No", "", "")).await,
            path if path.starts_with("/large") => {
                exchange
                    .reply(answer("201 Created", "", &secret.repeat(100_000)))
                    .await
            }
            _ => exchange.reply(answer("201 Created", "", secret)).await,
        }
    })
    .await;
    let site = Site::new(upstream.addr);
    site.secret("c");
    printed(&site.run(&["store", "migrate"]).await);
    let gateway = site.start().await;
    let mut unknown = Vec::new();
    for path in [
        "/made",
        "/lost",
        "/reset",
        "/500",
        "/503",
        "/large",
        "/../x",
        "/.steadfast/x",
    ] {
        for call in [
            telling_all(path),
            telling_all(path),
            telling_all(path).body(SECRETS[2]),
            telling_all(path).with("Idempotency-Key", SECRETS[0]),
            telling_all(path).without("Idempotency-Key"),
            telling_all(path).without("Authorization"),
            telling_all(path)
                .with("Connection", SECRETS[0])
                .with("Connection", "cookie"),
            telling_all(path).with("Request-Timeout-Ms", "0"),
            telling_all(path)
                .without("Idempotency-Key")
                .key(&SECRETS[0].repeat(9)),
        ] {
            let answer = gateway.send(&call).await;
            if answer.field("content-type") == Some("application/problem+json") {
                tells_nothing(answer.text(), path);
                tells_nothing(&format!("{:?}", answer.headers), path);
                if answer.slug() == "outcome-unknown" && answer.json()["operation_id"].is_string() {
                    unknown.push(answer.operation_id());
                }
            }
        }
    }
    let mut malformed = Caller::connect(gateway.data).await;
    malformed
        .write(format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{} : x\r\n\r\n",
            SECRETS[0]
        ))
        .await;
    let refused = malformed.answer().await;
    refused.is_problem(400, "bad-request", "none");
    tells_nothing(refused.text(), "a malformed head");
    unknown.sort();
    unknown.dedup();
    assert_eq!(unknown.len(), 2);
    let body = format!("{{\"status\":200,\"body\":\"{}\"}}", SECRETS[5]);
    for (id, act, body) in [
        (&unknown[0], "release", ""),
        (&unknown[1], "resolve", &body),
    ] {
        let done = gateway
            .operate(call("POST", &format!("/api/records/{id}/{act}")).body(body))
            .await;
        assert_eq!(done.status, 200, "{done:?}");
        tells_nothing(done.text(), "a record");
    }
    let records = gateway.operate(get("/api/records")).await;
    tells_nothing(records.text(), "the list of records");
    let log = gateway.end().await;
    tells_nothing(&log, "the log");
    // It is a log: each act of the operator stands in it.
    assert!(unknown.iter().all(|id| log.contains(id.as_str())), "{log}");
}

async fn keys(store: &Path, arguments: &[&str]) -> String {
    let mut command = steadfast(&["keys"]);
    command.args(arguments).arg("--store");
    command.arg(format!("sqlite:{}", store.display()));
    printed(&ran(command).await)
}

// rule: an-unknown-outcome-is-seen-and-settled-with-keys
#[tokio::test]
async fn an_unknown_outcome_is_listed_by_keys_and_released_under_a_running_gateway() {
    let upstream = Upstream::start(|exchange| async move {
        match exchange.number {
            1 => exchange.reply_and_close("").await,
            _ => exchange.reply(answer("201 Created", "", "made")).await,
        }
    })
    .await;
    let dir = tempfile::tempdir().expect("a folder");
    let store = dir.path().join("store.db");
    let url = format!("sqlite:{}", store.display());
    let to = format!("http://{}", upstream.addr);
    let mut arguments = vec!["gateway", "--to", &to, "--store", &url];
    arguments.extend(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let gateway = Process::start(&arguments).await;
    let id = gateway.send(&keyed_charge()).await.operation_id();
    let list = keys(&store, &["list", "--state", "unknown", "--json"]).await;
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list[0]["id"], id.as_str());
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    let later = gateway.send(&keyed_charge()).await;
    later.is_problem(409, "outcome-unknown", "unknown");
    keys(&store, &["release", &id, "--yes"]).await;
    let again = gateway.send(&keyed_charge()).await;
    assert_eq!((again.status, again.replayed()), (201, Some("false")));
    gateway.end().await;
    // What was recorded is there after a restart.
    let gateway = Process::start(&arguments).await;
    assert_eq!(gateway.send(&keyed_charge()).await.replayed(), Some("true"));
    let log = gateway.end().await;
    assert!(log.contains("drained; all work has ended"), "{log}");
    assert_eq!(upstream.count(), 2);
}
