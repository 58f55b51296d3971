//! PostgreSQL servers for tests: started on loopback in a folder of their own, as an ordinary user,
//! and gone with the process that asked for them, however it ends.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use steadfast::store::postgres::{Address, Postgres};

/// A shell that outlives whoever started it by the time that tidying up takes: it ends its server
/// and removes the folder once its input ends. The system closes that, also after a kill.
const WATCHDOG: &str = r#"
    exec 3>&2
    trap '' INT TERM HUP
    "$@" 2>&3 3>&- </dev/null >/dev/null &
    server=$!
    while read -r order; do
        case $order in
        keep) FOLDER= ;;
        *) kill -"$order" "$server" ;;
        esac
    done
    kill -CONT "$server"; kill -"$END" "$server"
    wait "$server"
    [ -z "$FOLDER" ] || rm -rf -- "$FOLDER"
"#;

/// A program that is ended with this process.
pub struct Watched {
    shell: Child,
    orders: Option<ChildStdin>,
}

impl Watched {
    /// Starts `line`, and waits until it says `ready` on its standard error. It is ended by the
    /// signal `end`; `folder` goes with it.
    pub fn start(line: &[String], ready: &str, end: &str, folder: &Path) -> Watched {
        let mut shell = Command::new("setsid")
            .args(["sh", "-c", WATCHDOG, "sh"])
            .args(line)
            .env("FOLDER", folder)
            .env("END", end)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("setsid and a shell");
        let orders = shell.stdin.take();
        let mut said = BufReader::new(shell.stderr.take().expect("its words"));
        let mut log = String::new();
        while !log.contains(ready) {
            let more = said.read_line(&mut log).expect("its words");
            assert!(more > 0, "{line:?} did not start: {log}");
        }
        // What it says later is nobody's, and must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Watched { shell, orders }
    }

    /// Sends it a signal; `keep` has its folder stay.
    pub fn signal(&mut self, name: &str) {
        let orders = self.orders.as_mut().expect("it runs");
        writeln!(orders, "{name}").expect("it listens");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.shell.wait();
    }
}

/// A server and its folder.
pub struct Server {
    running: Option<Watched>,
    folder: PathBuf,
    pub port: u16,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

/// The one server that tests share which do nothing to it.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(Server::start)
}

/// The name of the user under whom servers run: not root, which they refuse.
#[expect(
    clippy::disallowed_methods,
    reason = "how ./test names an ordinary user"
)]
fn ordinary_user() -> Option<String> {
    let id = Command::new("id").arg("-u").output().expect("id");
    (id.stdout == b"0\n")
        .then(|| std::env::var("STEADFAST_TEST_USER").unwrap_or_else(|_| "nobody".to_owned()))
}

/// `line`, run as the ordinary user.
fn as_ordinary(line: &[&str]) -> Vec<String> {
    let mut whole = Vec::new();
    if let Some(user) = ordinary_user() {
        let group = Command::new("id").args(["-g", &user]).output().expect("id");
        let group = String::from_utf8(group.stdout).expect("a number");
        let group = group.trim();
        let through = format!("setpriv --reuid={user} --regid={group} --clear-groups --");
        whole.extend(through.split(' ').map(str::to_owned));
    }
    whole.extend(line.iter().map(|word| (*word).to_owned()));
    whole
}

/// A program of PostgreSQL's. Debian keeps the servers' out of the path.
fn program(name: &str) -> String {
    let mut places: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|v| v.path().join("bin")).collect())
        .unwrap_or_default();
    places.sort();
    places.extend(["/usr/local/bin", "/usr/bin", "/usr/sbin"].map(PathBuf::from));
    let found = places.into_iter().rev().map(|place| place.join(name));
    let found = found.into_iter().find(|file| file.exists());
    let found = found.unwrap_or_else(|| panic!("no {name}; ./test installs postgresql"));
    found.to_str().expect("a path in UTF-8").to_owned()
}

fn free_port() -> u16 {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    taken.local_addr().expect("its address").port()
}

/// Runs a program to its end, which must be a good one; what it printed.
pub fn ran(line: &[String]) -> String {
    let mut command = Command::new(&line[0]);
    let output = command.args(&line[1..]).current_dir("/").output();
    let output = output.expect("a program");
    assert!(output.status.success(), "{line:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

impl Server {
    /// Starts one, in a new folder.
    pub fn start() -> Server {
        let folder = tempfile::Builder::new().prefix("steadfast-pg-").tempdir();
        let folder = folder.expect("a folder").keep();
        if let Some(user) = ordinary_user() {
            let path = folder.to_str().expect("a path in UTF-8");
            ran(&["chown", &user, path].map(str::to_owned));
        }
        let data = folder.join("data").to_str().expect("UTF-8").to_owned();
        let initdb = program("initdb");
        let init = [
            &*initdb,
            "-D",
            &data,
            "-U",
            "owner",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ];
        ran(&as_ordinary(&init));
        let mut server = Server {
            running: None,
            folder,
            port: free_port(),
        };
        server.resume();
        server.sql("postgres", "CREATE DATABASE prepared");
        let address = Address::parse(&server.url("prepared")).expect("an address");
        Postgres::migrate(&address, 0).expect("prepared");
        server
    }

    /// One that another process has started.
    pub fn at(port: u16) -> Server {
        let folder = PathBuf::new();
        let running = None;
        Server {
            running,
            folder,
            port,
        }
    }

    /// Starts it again in its folder.
    pub fn resume(&mut self) {
        let folder = self.folder.to_str().expect("UTF-8").to_owned();
        let (data, port) = (format!("{folder}/data"), self.port.to_string());
        let postgres = program("postgres");
        let line = [
            &*postgres,
            "-D",
            &data,
            "-p",
            &port,
            "-k",
            &folder,
            "-h",
            "127.0.0.1",
            // Commits wait for the disk as they do in earnest.
            "-c",
            "fsync=on",
            "-c",
            "max_connections=200",
            "-c",
            "log_min_messages=log",
            "-c",
            "log_checkpoints=off",
            "-c",
            "shared_buffers=32MB",
        ];
        let ready = "ready to accept connections";
        // An end at once, which PostgreSQL calls immediate.
        let running = Watched::start(&as_ordinary(&line), ready, "QUIT", &self.folder);
        self.running = Some(running);
    }

    /// Ends it at once, as a crash would; its folder stays.
    pub fn stop(&mut self) {
        let mut running = self.running.take().expect("it runs");
        running.signal("keep");
    }

    /// Stops every process of it where it is.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let main = std::fs::read_to_string(self.folder.join("data/postmaster.pid"));
        let main = main.expect("it runs");
        let main = main.lines().next().expect("its number");
        let of = Command::new("ps")
            .args(["-o", "pid=", "--ppid", main])
            .output();
        let of = String::from_utf8(of.expect("ps").stdout).expect("numbers");
        let all = of.split_whitespace().chain([main]).map(str::to_owned);
        let kill = ["kill".to_owned(), format!("-{name}")];
        ran(&kill.into_iter().chain(all).collect::<Vec<_>>());
    }

    /// A new, prepared database with nobody on it, as a URL: a copy of the one that was prepared
    /// when the server was made.
    pub fn database(&self) -> String {
        self.make("TEMPLATE prepared")
    }

    /// A new, empty database, as a URL.
    pub fn empty(&self) -> String {
        self.make("")
    }

    fn make(&self, as_what: &str) -> String {
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = format!("t{process}_{count}");
        self.sql("postgres", &format!("CREATE DATABASE {name} {as_what}"));
        self.url(&name)
    }

    /// The URL of the database of this name.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://owner@127.0.0.1:{}/{name}", self.port)
    }

    /// What `sql` prints in the database of this name, or at this URL.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let url = match database.contains("://") {
            true => database.to_owned(),
            false => self.url(database),
        };
        let psql = program("psql");
        let line = [
            &*psql,
            "-XqAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            &url,
            "-c",
            sql,
        ];
        ran(&line.map(str::to_owned)).trim_end().to_owned()
    }
}

/// A pooler that hands each transaction to any of a few connections of the server.
pub struct Pooler {
    _running: Watched,
    port: u16,
}

impl Pooler {
    pub fn start(server: &Server) -> Pooler {
        let folder = tempfile::Builder::new()
            .prefix("steadfast-pooler-")
            .tempdir();
        let folder = folder.expect("a folder").keep();
        let (file, port) = (folder.join("pooler.ini"), free_port());
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=owner\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             max_client_conn = 200\ndefault_pool_size = 2\nserver_reset_query_always = 1\n\
             server_reset_query = DISCARD ALL\n",
            server.port
        );
        std::fs::write(&file, settings).expect("written");
        if let Some(user) = ordinary_user() {
            let paths = [&folder, &file].map(|path| path.to_str().expect("UTF-8").to_owned());
            let [folder, file] = paths;
            ran(&["chown".to_owned(), user, folder, file]);
        }
        let file = file.to_str().expect("UTF-8").to_owned();
        let line = as_ordinary(&[&program("pgbouncer"), &file]);
        let _running = Watched::start(&line, "process up", "KILL", &folder);
        Pooler { _running, port }
    }

    /// The same database, through this.
    pub fn url(&self, url: &str) -> String {
        let (_, database) = url.rsplit_once('/').expect("a database");
        format!("postgres://owner@127.0.0.1:{}/{database}", self.port)
    }
}
