//! What a test of the whole program needs: a folder to run it in, a gateway as its own process, a
//! service behind it that counts what it did, and a caller who sees every byte.
//!
//! Behind the gateway and before it runs nothing of ours, so that no fault can hide itself. Nothing
//! sleeps for a result: a condition is looked at until it holds, and the bound is never what is
//! asserted.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use steadfast::clock;
use tempfile::TempDir;

mod caller;
mod ledger;
mod obliging;
mod process;
mod scripted;

pub use caller::{Answer, Caller, Request};
pub use ledger::{Down, Honours, Ledger};
pub use obliging::Obliging;
pub use process::{Died, Gateway};
pub use scripted::{Scripted, Step};

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Looks until there is something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = clock::mono_now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        let waited = clock::mono_now().since(began);
        assert!(waited < PATIENCE, "waited in vain for {what}");
        clock::pause(LOOK);
    }
}

/// A folder in which the program runs, without any setting in its environment.
pub struct Folder(TempDir);

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).expect("the file is written");
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("the file is read")
    }

    /// Names in the folder, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("the folder is read");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.expect("an entry").file_name();
            name.into_string().expect("a name in UTF-8")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// The released program.
    pub fn program(&self, words: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_steadfast"));
        command.args(words);
        command
    }

    /// Any program, in this folder.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command.stdin(Stdio::null());
        command
    }

    /// Runs the released program to its end.
    pub fn run(&self, words: &[&str]) -> Ran {
        finish(self.program(words))
    }

    /// The same, and reads the JSON that it printed.
    pub fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(words);
        assert_eq!(ran.code, 0, "{words:?}: {ran:?}");
        serde_json::from_str(&ran.out).expect("the output is JSON")
    }

    /// Starts the released program as a gateway with the configuration `s.toml`.
    pub fn gateway(&self) -> Gateway {
        let started = Gateway::start(self.program(&["gateway", "--config", "s.toml"]));
        started.unwrap_or_else(|died| panic!("the gateway did not start: {died:?}"))
    }
}

/// Runs a command to its end. What it prints has to fit into a pipe.
pub fn finish(mut command: Command) -> Ran {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the command runs");
    // Read while it runs: what fills a pipe would keep it from ending.
    let (told, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(child.wait_with_output()));
    let ended = ended.recv_timeout(PATIENCE);
    let Output {
        status,
        stdout,
        stderr,
    } = ended.expect("the command ends").expect("its output");
    let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
    Ran {
        code: status.code().expect("the command ends by itself"),
        out: text(stdout),
        err: text(stderr),
    }
}

/// What differs between the configurations of two tests.
pub struct Config<'a> {
    /// The port of the service.
    pub to: &'a Ledger,
    /// More of the top level, as lines of TOML.
    pub top: &'a str,
    /// Members of the table `idempotency`.
    pub idempotency: &'a str,
}

impl Config<'_> {
    /// The whole file. The system chooses ports; idle connections are used whatever their age.
    pub fn text(&self) -> String {
        let Config {
            to,
            top,
            idempotency,
        } = self;
        format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n\
             store = \"sqlite:records.db\"\n{top}\n\
             [[route]]\npath = \"/{{*rest}}\"\nto = \"http://{}\"\n\
             pool = {{ idle = \"60s\", reuse_unsafe_within = \"60s\" }}\n\
             idempotency = {{ {idempotency} }}\n",
            to.address()
        )
    }
}
