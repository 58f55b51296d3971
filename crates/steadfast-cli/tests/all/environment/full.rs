//! No room on the store's disk: new keyed requests are refused, the others flow, nothing is lost,
//! and what was refused works as soon as there is room, without a restart.

use std::path::PathBuf;

use crate::stage::{
    Answer, Caller, Config, Folder, Gateway, Honours, Ledger, Ran, Request, finish, until,
};

const DONE: &str = "7c1f0e52-9a3d-4b86-b0e4-16d2c95a8f37";
const RUNNING: &str = "e2a64b90-5d17-4c3f-8e21-7b90f3d6a1c5";
const NEW: &str = "51d8c7f3-2e6b-4a09-9c74-d03ea8b6f912";

fn set(store: &str) -> (Folder, Ledger) {
    let (folder, ledger) = (Folder::new(), Ledger::open(Honours::Nothing));
    let config = Config {
        to: &ledger,
        top: "",
        idempotency: "",
    };
    let text = config.text().replace("sqlite:records.db", store);
    folder.write("s.toml", text);
    (folder, ledger)
}

/// The whole story of a disk that runs full and is freed, while a request is under way.
fn runs_full(gateway: &Gateway, ledger: &Ledger, fill: impl FnOnce(), free: impl FnOnce()) {
    let ask = |request| gateway.ask(&request).expect("an answer");
    assert_eq!(ask(Request::order(DONE)).status, 201);
    ledger.hold();
    let mut running = Caller::to(gateway.data).expect("a connection");
    running.send(&Request::order(RUNNING));
    until("the effect", || (ledger.effects() == 2).then_some(()));
    fill();
    let refused = ask(Request::order(NEW));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.problem().as_deref(), Some("store-unavailable"));
    assert_eq!(refused.field("steadfast-effect"), Some("none"));
    assert_eq!(refused.replayed(), None);
    assert_eq!(ledger.effects(), 2, "a refused request was executed");
    // What is finished needs no room.
    let replayed = ask(Request::order(DONE));
    assert_eq!((replayed.status, replayed.replayed()), (201, Some("true")));
    // What was under way is answered as it was, on record or not.
    ledger.answer();
    let answered = running.answer().expect("an answer");
    assert_eq!((answered.status, answered.replayed()), (201, Some("false")));
    // Without a key nothing is to be recorded.
    assert_eq!(ask(Request::get("/")).status, 200);
    assert_eq!(ask(Request::post("/orders", None)).status, 201);
    assert_eq!(ledger.effects(), 3);
    free();
    let accepted = |key| -> Answer {
        until("a store that has room", || {
            let answer = ask(Request::order(key));
            match (answer.status, answer.problem().as_deref()) {
                (201, _) => Some(answer),
                (503, Some("store-unavailable")) | (409, Some("in-progress")) => None,
                _ => panic!("{answer:?}"),
            }
        })
    };
    let again = accepted(RUNNING);
    assert_eq!(again.essence(), answered.essence());
    assert_eq!(again.replayed(), Some("true"));
    assert_eq!(accepted(NEW).replayed(), Some("false"));
    assert_eq!(accepted(DONE).replayed(), Some("true"));
    assert_eq!(ledger.effects(), 4);
}

fn done(ran: &Ran) {
    assert_eq!(ran.code, 0, "{ran:?}");
}

// rule: a-full-disk-refuses-keyed-requests-and-loses-nothing
#[test]
fn a_process_that_may_write_no_more_refuses_keyed_requests_and_recovers_by_itself() {
    let (folder, ledger) = set("sqlite:records.db");
    let mut command = folder.command("env");
    // The limit is then told by the write, as a full disk is.
    command.arg("--ignore-signal=XFSZ");
    command.arg(env!("CARGO_BIN_EXE_steadfast"));
    command.args(["gateway", "--config", "s.toml"]);
    let gateway = Gateway::start(command).expect("a gateway");
    let limit = |bytes: &str| {
        let mut command = folder.command("prlimit");
        let pid = format!("--pid={}", gateway.id());
        command.args([&pid, &format!("--fsize={bytes}:unlimited")]);
        done(&finish(command));
    };
    runs_full(&gateway, &ledger, || limit("0"), || limit("unlimited"));
}

#[test]
fn a_full_disk_refuses_keyed_requests_and_recovers_by_itself() {
    let (folder, ledger) = set("sqlite:disk/records.db");
    std::fs::create_dir(folder.path("disk")).expect("a folder");
    let Some(disk) = Disk::new(&folder) else {
        return;
    };
    let start = disk.start(&folder, "512k", "gateway --config s.toml");
    let gateway = Gateway::start(start).expect("a gateway");
    // The disk is in a namespace of the gateway's own and is gone with it.
    let seen = PathBuf::from(format!("/proc/{}/root", gateway.id()));
    let place = folder.path("disk/ballast");
    let ballast = seen.join(place.strip_prefix("/").expect("an absolute path"));
    let fill = || {
        let written = std::fs::write(&ballast, vec![7; 1024 * 1024]);
        let error = written.expect_err("a disk of this size");
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    };
    runs_full(&gateway, &ledger, fill, || {
        std::fs::remove_file(&ballast).expect("it is freed");
    });
}

#[test]
fn a_store_that_does_not_fit_on_its_disk_is_refused_at_the_start() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("disk")).expect("a folder");
    let Some(disk) = Disk::new(&folder) else {
        return;
    };
    let words = "gateway --to http://127.0.0.1:1 --listen 127.0.0.1:0 --admin 127.0.0.1:0 \
                 --store sqlite:disk/r.db";
    let ran = finish(disk.start(&folder, "8k", words));
    let why = "no room is left on its disk; free some and try again";
    super::files::refused(&ran, "disk/r.db", why);
}

/// Small disks of our own, where this user may mount any.
struct Disk(&'static [&'static str]);

impl Disk {
    /// `None`, and says so, where no disk can be mounted; the test that needs none shows the rule.
    fn new(folder: &Folder) -> Option<Disk> {
        let ways: [&[&str]; 2] = [&["-m"], &["-m", "-U", "-r"]];
        let may = |way: &&&[&str]| {
            let mut command = folder.command("unshare");
            command.args(**way);
            finish_quietly(command.args(["mount", "-t", "tmpfs", "tmpfs", "disk"]))
        };
        let found = ways.iter().find(may).map(|way| Disk(way));
        if found.is_none() {
            eprintln!("no disk can be mounted here: the limit on file sizes stands in for it");
        }
        found
    }

    /// The released program with `words`, with a disk of `size` at `disk`.
    fn start(&self, folder: &Folder, size: &str, words: &str) -> std::process::Command {
        let program = env!("CARGO_BIN_EXE_steadfast");
        let script = format!("mount -t tmpfs -o size={size} tmpfs disk && exec \"$0\" {words}");
        let mut command = folder.command("unshare");
        command.args(self.0).args(["sh", "-c", &script, program]);
        command
    }
}

fn finish_quietly(command: &mut std::process::Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
