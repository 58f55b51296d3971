//! The settings of the top level: where the gateway listens, what it keeps, whom it believes.
//!
//! Decides which of flag, environment and file holds (in this order), and that the admin address
//! gives nothing away. Source: docs/reference.md, "Configuration" and "Admin API".

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use steadfast::client::TlsFiles;

use super::address::{self, StoreUrl};
use super::document::Value;
use super::environment::Environment;
use super::fault::{Fault, Kind, Place, Wrong};
use super::layers::{Origin, Origins};
use super::level::Written;
use super::peers::{Network, TrustedPeers};
use super::sealing::{self, Sealing};
use super::secret::{self, Secret};
use super::value;
use crate::log::{Format, Logging};

/// Shortest token of the admin address, in characters: 16 of a random one cannot be guessed.
const SHORTEST_TOKEN: usize = 16;

/// Shortest secret of fingerprints, in characters: 128 bits in hexadecimal.
const SHORTEST_SECRET: usize = 32;

/// Longest path of a file, in characters; Linux takes none that is longer.
pub const LONGEST_PATH: u32 = 4096;

/// What was typed beside the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--listen`
    pub listen: Option<String>,
    /// `--admin`
    pub admin: Option<String>,
    /// `--store`
    pub store: Option<String>,
}

/// The checked settings of the top level.
#[derive(Clone, Debug)]
pub struct Top {
    /// Where callers connect.
    pub listen: SocketAddr,
    /// Where operators connect.
    pub admin: SocketAddr,
    /// Where records are kept.
    pub store: StoreUrl,
    /// How long work that runs may go on after a request to stop.
    pub drain: Duration,
    /// Peers whose word about a caller counts.
    pub trusted_peers: TrustedPeers,
    /// What the admin address asks for.
    pub admin_token: Option<Secret>,
    /// What fingerprints are keyed with; the store's own where there is none.
    pub secret: Option<Secret>,
    /// How the log is written, and whether each attempt is.
    pub log: Logging,
    /// With which keys the store keeps answers.
    pub encrypt_with: Sealing,
    /// Whom upstreams must prove to be, and who we are to them.
    pub upstream_tls: TlsFiles,
    /// Where each value came from.
    pub origins: Origins,
}

/// What the top level is read from.
pub struct Sources<'a> {
    /// The file, or the flag that stands for one.
    pub whole: &'a Place,
    /// The file's top level.
    pub written: &'a Written,
    /// The command line.
    pub flags: &'a Flags,
    /// The environment.
    pub environment: &'a Environment,
}

impl Top {
    /// Reads the top level; what is wrong goes to `faults`, and the built-in value takes its place.
    pub fn read(sources: &Sources<'_>, faults: &mut Vec<Fault>) -> Top {
        let Sources {
            flags, environment, ..
        } = sources;
        let mut reader = Reader {
            sources,
            faults,
            origins: Origins::default(),
        };
        let listener = |value: &Value| {
            let text = value::text(value, "\"127.0.0.1:8080\"")?;
            address::listener(text)
        };
        let store = |value: &Value| address::store(value::text(value, "\"sqlite:steadfast.db\"")?);
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let listen = reader.scalar("listen", flags.listen.as_ref(), local(8080), listener);
        let admin = reader.scalar("admin", flags.admin.as_ref(), local(8081), listener);
        let store = reader.scalar("store", flags.store.as_ref(), StoreUrl::default(), store);
        let drain = reader.scalar("drain", None, Duration::from_secs(35), value::length);
        let log = Logging {
            format: reader.scalar("log.format", None, Format::Text, |value| {
                value::word(value, &FORMATS)
            }),
            attempts: reader.scalar("log.attempts", None, true, value::switch),
        };
        let trusted_peers = reader.entry("trusted_peers", networks).unwrap_or_default();
        let mut secret =
            |name, shortest| reader.entry(name, |value| secret::read(value, shortest, environment));
        let admin_token = secret("admin_token", SHORTEST_TOKEN);
        let secret = secret("secret", SHORTEST_SECRET);
        let encrypt_with = reader.sealing();
        let mut file = |name| reader.entry(name, file);
        let upstream_tls = TlsFiles {
            ca: file("upstream_tls.ca"),
            client_cert: file("upstream_tls.client_cert"),
            client_key: file("upstream_tls.client_key"),
        };
        let origins = reader.origins;
        let top = Top {
            listen,
            admin,
            store,
            drain,
            trusted_peers: TrustedPeers::new(trusted_peers),
            admin_token,
            secret,
            log,
            encrypt_with,
            upstream_tls,
            origins,
        };
        top.check(sources, faults);
        top
    }

    fn check(&self, sources: &Sources<'_>, faults: &mut Vec<Fault>) {
        let at = |name: &str| match self.origins.of(name) {
            Origin::At(place) => place,
            Origin::Default => sources.whole.clone(),
        };
        let contradiction =
            |reason: String, next: &str| Wrong::new(Kind::Contradiction, reason, next);
        let (listen, admin) = (self.listen, self.admin);
        let overlap = listen.ip() == admin.ip()
            || listen.ip().is_unspecified()
            || admin.ip().is_unspecified();
        if overlap && listen.port() == admin.port() && listen.port() != 0 {
            let (blamed, other) = match self.origins.of("admin") {
                Origin::Default => ("listen", "admin"),
                Origin::At(_) => ("admin", "listen"),
            };
            let reason = format!("`{admin}` is the `{other}` address, too");
            let wrong = contradiction(reason, "give one of them another port");
            faults.push(wrong.at(at(blamed), blamed));
        }
        let is_asked = sources.written.get("admin_token").is_some();
        if !admin.ip().to_canonical().is_loopback() && !is_asked {
            let reason = format!("`{admin}` is reached from other machines, and no token is asked");
            let next = "set `admin_token = { env = \"NAME\" }`, or write a loopback address";
            faults.push(contradiction(reason, next).at(at("admin"), "admin"));
        }
    }
}

/// The words of `log.format`.
const FORMATS: [value::Word<Format>; 2] =
    [("text", Some(Format::Text)), ("json", Some(Format::Json))];

/// The path of a file, relative to the working directory.
fn file(value: &Value) -> Result<PathBuf, Wrong> {
    let text = value::text(value, "\"ca.pem\"")?;
    let fits = (1..=LONGEST_PATH as usize).contains(&text.chars().count());
    if !fits || text.contains('\0') {
        return Err(Wrong::invalid(
            format!("a path has 1 to {LONGEST_PATH} characters, and no zero"),
            "write the path of a file",
        ));
    }
    Ok(PathBuf::from(text))
}

fn networks(value: &Value) -> Result<Vec<Network>, Wrong> {
    let example = "a list of addresses and networks, such as [\"10.0.0.0/8\"]";
    value::list(value, example, |element| {
        Network::parse(value::text(element, "\"10.0.0.0/8\"")?)
    })
}

/// The store alone, for commands that need nothing else: the rest of the file is not judged.
pub fn store_of(sources: &Sources<'_>, faults: &mut Vec<Fault>) -> StoreUrl {
    let mut reader = Reader {
        sources,
        faults,
        origins: Origins::default(),
    };
    let flag = sources.flags.store.as_ref();
    reader.scalar("store", flag, StoreUrl::default(), |value| {
        address::store(value::text(value, "\"sqlite:steadfast.db\"")?)
    })
}

/// The keys alone, for commands that need nothing but the store.
pub fn sealing_of(sources: &Sources<'_>, faults: &mut Vec<Fault>) -> Sealing {
    let mut reader = Reader {
        sources,
        faults,
        origins: Origins::default(),
    };
    reader.sealing()
}

struct Reader<'a> {
    sources: &'a Sources<'a>,
    faults: &'a mut Vec<Fault>,
    origins: Origins,
}

impl Reader<'_> {
    /// `encrypt_with`, of the file alone.
    fn sealing(&mut self) -> Sealing {
        const NAME: &str = "encrypt_with";
        let Sources {
            whole,
            written,
            environment,
            ..
        } = self.sources;
        let Some(entry) = written.get(NAME) else {
            return Sealing::default();
        };
        self.origins.set(NAME, whole.line(entry.line));
        sealing::read(entry, whole, environment, self.faults)
    }

    /// A setting of the file alone.
    fn entry<T>(
        &mut self,
        name: &'static str,
        read: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        let entry = self.sources.written.get(name)?;
        let place = self.sources.whole.line(entry.line);
        self.keep(name, place, read(&entry.value))
    }

    /// A setting that environment and command line override. All of them are read.
    fn scalar<T>(
        &mut self,
        name: &'static str,
        flag: Option<&String>,
        default: T,
        read: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> T {
        let mut value = self.entry(name, &read).unwrap_or(default);
        let variable = Environment::variable(name);
        if let Some(text) = self.sources.environment.get(&variable) {
            let read = match text {
                Some(text) => read(&Value::Text(text.to_owned())),
                None => Err(Wrong::invalid(
                    "the value is no UTF-8",
                    "correct the variable",
                )),
            };
            value = self
                .keep(name, Place::Variable(variable), read)
                .unwrap_or(value);
        }
        if let Some(text) = flag {
            let place = Place::Flag(match name {
                "listen" => "--listen",
                "admin" => "--admin",
                _ => "--store",
            });
            let read = read(&Value::Text(text.clone()));
            value = self.keep(name, place, read).unwrap_or(value);
        }
        value
    }

    fn keep<T>(&mut self, name: &'static str, place: Place, read: Result<T, Wrong>) -> Option<T> {
        self.origins.set(name, place.clone());
        match read {
            Ok(value) => Some(value),
            Err(wrong) => {
                self.faults.push(wrong.at(place, name));
                None
            }
        }
    }
}
