//! Real clients, set up as docs/clients.md says, against a service in which none of our code runs.
//!
//! What is lost on either side of the gateway is lost for real: closed and reset connections,
//! answers that break off or come when their caller has left. The service's own ledger counts what
//! was done.

mod behind;
mod between;
mod kept;
mod page;
mod relay;
mod service;
mod shapes;

mod tools;

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::stage::{Folder, Gateway, Ran, finish};
use crate::tidy::root;
use service::{Account, Service};

/// A client, as a script of examples/clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Curl,
    Requests,
    Httpx,
    Fetch,
    Got,
}

pub const CLIENTS: [Client; 5] = [
    Client::Curl,
    Client::Requests,
    Client::Httpx,
    Client::Fetch,
    Client::Got,
];

/// What a client saw in the end.
#[derive(Debug)]
pub struct Seen {
    pub status: u16,
    pub replayed: String,
    pub effect: String,
    pub body: String,
}

impl Seen {
    /// The slug of the gateway's own answer.
    pub fn problem(&self) -> Option<String> {
        let body: Value = serde_json::from_str(&self.body).ok()?;
        let slug = body["type"].as_str()?;
        Some(slug.strip_prefix("urn:steadfast:problem:")?.to_owned())
    }

    /// Whether the client was told that nobody knows whether its order was placed.
    fn is_unknown(&self) -> bool {
        let no_answer = self.problem().as_deref() == Some("outcome-unknown");
        let marked = self.effect == "unknown" && self.status >= 400;
        marked && (no_answer || self.problem().is_none())
    }
}

/// A request that a client is to send: one operation, under one key.
pub struct Order {
    pub key: String,
    /// What the service sees of it besides the key.
    pub name: String,
}

impl Order {
    /// Another one each time.
    pub fn new() -> Order {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Order {
            key: format!("6f1c2a7e-93b4-4d0a-8f15-{number:012x}"),
            name: format!("order-{number}"),
        }
    }

    fn file(&self, folder: &Folder) -> PathBuf {
        let name = format!("{}.json", self.name);
        folder.write(&name, format!("{{\"order\":\"{}\"}}", self.name));
        folder.path(&name)
    }
}

/// A service, the gateway in front of it, and the folder of both and of what clients send.
pub struct Stand {
    pub folder: Folder,
    pub service: Service,
    pub gateway: Gateway,
}

impl Stand {
    /// With one route for each rule that a test needs, which is the first segment of its paths.
    pub fn open() -> Stand {
        let (folder, service) = (Folder::new(), Service::start());
        folder.write("s.toml", config(service.address));
        let gateway = folder.gateway();
        Stand {
            folder,
            service,
            gateway,
        }
    }

    /// Runs a client, see [`run`].
    pub fn run(
        &self,
        client: Client,
        url: &str,
        order: &Order,
        seconds: Option<&str>,
    ) -> Option<Seen> {
        run(&self.folder, client, url, order, seconds)
    }

    pub fn account(&self, order: &Order) -> Account {
        self.service.account(&order.key)
    }

    /// Does what an operator does who has looked into the service's ledger.
    pub fn settle(&self, order: &Order) {
        let words = ["--key", &order.key, "--principal", "anonymous", "--json"];
        let list = [["keys", "list", "--config", "s.toml"].as_slice(), &words].concat();
        let listed = self.folder.json(&list);
        assert_eq!(listed[0]["state"], "unknown", "{listed}");
        let id = listed[0]["id"].as_str().expect("an id");
        let end = ["--config", "s.toml", "--yes"];
        let ran = match self.account(order).effects.first() {
            Some((_, answer)) => {
                let answer = ["--status", "201", "--body", answer.as_str()];
                let words = [["keys", "resolve", id].as_slice(), &answer, &end].concat();
                self.folder.run(&words)
            }
            None => self
                .folder
                .run(&[["keys", "release", id].as_slice(), &end].concat()),
        };
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

impl Client {
    /// Its program, without what the environment says about proxies.
    fn command(self, folder: &Folder) -> Command {
        let (program, script) = match self {
            Client::Curl => (tools::curl(), "curl_client.sh"),
            Client::Requests => (tools::requests(), "requests_client.py"),
            Client::Httpx => (tools::httpx(), "httpx_client.py"),
            Client::Fetch => (tools::node(), "fetch_client.mjs"),
            Client::Got => (tools::got(), "got_client.cjs"),
        };
        let program = if self == Client::Curl {
            "sh".into()
        } else {
            program
        };
        let program = Path::new(&program).to_str().expect("a path in UTF-8");
        let mut command = folder.command(program);
        command.env("NODE_PATH", tools::NODE_PATH);
        command.arg(root().join("examples/clients").join(script));
        command
    }
}

/// Runs `client` with `order`; `seconds` bound its attempts, where it is not to be patient. None
/// when it was left without an answer.
pub fn run(
    folder: &Folder,
    client: Client,
    url: &str,
    order: &Order,
    seconds: Option<&str>,
) -> Option<Seen> {
    run_file(
        folder,
        client,
        url,
        &order.key,
        &order.file(folder),
        seconds,
    )
}

/// The same with a file of one's own.
pub fn run_file(
    folder: &Folder,
    client: Client,
    url: &str,
    key: &str,
    file: &Path,
    seconds: Option<&str>,
) -> Option<Seen> {
    let mut command = client.command(folder);
    command.args([url, key]).arg(file).args(seconds);
    let ran = finish(command);
    let seen = seen(&ran);
    if seen.is_none() {
        // Shown where the test fails.
        eprintln!("{client:?} had no answer from {url}: {ran:?}");
    }
    seen
}

/// What the scripts print: a line `HTTP STATUS replayed=… effect=…`, then the body.
fn seen(ran: &Ran) -> Option<Seen> {
    let (line, body) = ran.out.split_once('\n')?;
    let words: Vec<&str> = line.split(' ').collect();
    let ["HTTP", status, replayed, effect] = words[..] else {
        panic!("{ran:?}");
    };
    let value = |word: &str| word.split_once('=').expect("NAME=VALUE").1.to_owned();
    let seen = Seen {
        status: status.parse().expect("a status"),
        replayed: value(replayed),
        effect: value(effect),
        body: body.to_owned(),
    };
    // curl's word for no answer; what came of one that broke off is none either.
    (seen.status > 0 && ran.code == 0).then_some(seen)
}

fn config(to: SocketAddr) -> String {
    let route = |path: &str, rules: &str| {
        format!("[[route]]\npath = \"{path}{{*rest}}\"\nto = \"http://{to}\"\n{rules}\n")
    };
    let repeat = "idempotency = { mode = \"required\", on_unknown = \"repeat\" }";
    let conflict = "idempotency = { mode = \"required\", in_flight = \"conflict\" }";
    let hold = "idempotency = { mode = \"required\" }";
    [
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nstore = \"sqlite:records.db\"\n",
        // One service fails for all of them at once, as none does.
        "[defaults]\nbreaker = { min_requests = 1000000 }\n",
        &route("/keyed/", repeat),
        &route("/conflict/", conflict),
        &route("/", hold),
    ]
    .concat()
}

/// Whether the ledger has the order once, and its answer is what the client saw.
pub fn answered_once(seen: &Seen, account: &Account, order: &Order) -> Result<(), String> {
    let once = matches!(&account.effects[..], [(name, answer)]
        if *name == order.name && *answer == seen.body);
    if once && seen.status == 201 {
        return Ok(());
    }
    Err(format!("{seen:?}, {account:?}"))
}

/// Plays every case, some at a time, since most of it is waiting, and fails with all that went
/// wrong.
pub fn each<C: Sync + Debug>(cases: &[C], play: impl Fn(&C) -> Result<(), String> + Sync) {
    const AT_A_TIME: usize = 10;
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(message) = play(case) {
                let told = format!("{case:?}: {message}");
                wrong.lock().expect("nobody panics with it").push(told);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().expect("nobody panics with it");
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
