//! The commands in the documents are run, in their order, against the real binary.
//!
//! A fenced block of a document takes part when its first line says so:
//! - `sh test` — runs to its end and must succeed;
//! - `sh test serve=PORT` — is left running, and the next block waits until PORT takes connections;
//! - `text test` — what the block before must have printed: these lines, in this order, among
//!   others; `…` stands for anything.
//!
//! All blocks of one document share one bash and one empty folder, with the repository's `examples`
//! in it. `cargo run --release --` is the built binary. Ports become free ones.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::{fs, iter};

use crate::tidy::{File, files, root};

mod problems;
mod unrun;

/// Longest run of one document, in seconds. A bound against a hang, never what a test asserts.
const LIMIT_S: &str = "120";

/// Ports that the gateway takes unless it is told otherwise; no document needs to name them.
const DEFAULT_PORTS: [&str; 2] = ["8080", "8081"];

#[derive(Debug, PartialEq)]
enum Kind {
    Run,
    Serve { port: String },
    Prints,
}

#[derive(Debug, PartialEq)]
struct Block {
    /// Line of the opening fence, from 1.
    line: usize,
    kind: Kind,
    text: String,
}

/// The blocks of a document that take part.
fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let body = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```");
        let text: String = body.flat_map(|line| [line, "\n"]).collect();
        let words: Vec<&str> = info.split_whitespace().collect();
        let kind = match words[..] {
            ["sh", "test"] => Kind::Run,
            ["text", "test"] => Kind::Prints,
            ["sh", "test", tag] if tag.starts_with("serve=") => Kind::Serve {
                port: tag["serve=".len()..].to_owned(),
            },
            _ => continue,
        };
        found.push(Block {
            line: index + 1,
            kind,
            text,
        });
    }
    found
}

/// One bash script for the blocks. Each writes to `out.LINE`; `at` names the block that runs.
fn script(blocks: &[Block]) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_steadfast"));
    let folder = binary
        .parent()
        .expect("the binary lies in a folder")
        .display();
    let mut script = format!("set -euo pipefail\nexport PATH='{folder}':\"$PATH\"\nservers=()\n");
    // A server is a session of its own, so that all of it ends with the script; what a block left
    // in the background ends with it, too.
    script.push_str("end() { for s in \"${servers[@]}\"; do kill -- \"-$s\" || :; done\n");
    script.push_str("for job in $(jobs -p); do kill \"$job\" || :; done; }\n");
    script.push_str("trap 'end 2>/dev/null' EXIT\n");
    for block in blocks {
        let Block { line, kind, text } = block;
        let text = text.replace("cargo run --release --", "steadfast");
        match kind {
            Kind::Prints => continue,
            Kind::Run => writeln!(script, "echo {line} >at\nexec >out.{line} 2>&1\n{text}"),
            Kind::Serve { port } => writeln!(
                script,
                "echo {line} >at\nexec >out.{line} 2>&1\n\
                 setsid bash -euo pipefail <<'END-OF-BLOCK' &\n{text}END-OF-BLOCK\n\
                 servers+=($!)\n\
                 until (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null; do\n\
                 kill -0 $! || {{ echo 'ended before it took connections'; exit 1; }}\n\
                 sleep 0.05; done"
            ),
        }
        .expect("a string takes text");
    }
    script
}

/// `text` with every port that it addresses on loopback, and the gateway's own, replaced.
fn with_ports(text: &str, mut free: impl FnMut() -> u16) -> String {
    let digits = |rest: &str| {
        rest.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    };
    let hosts = ["127.0.0.1:", "localhost:", "127.0.0.1/", "serve="];
    let addressed = hosts
        .iter()
        .flat_map(|host| text.split(host).skip(1))
        .map(digits)
        .filter(|d| d.len() > 3);
    let mut ports: Vec<String> = addressed.chain(DEFAULT_PORTS.map(str::to_owned)).collect();
    ports.sort();
    ports.dedup();
    let pairs: Vec<(String, String)> = ports
        .into_iter()
        .map(|port| (port, free().to_string()))
        .collect();
    // Whole numbers only: 3000 is not replaced in 30001, nor twice when a free port equals a name.
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = digits(&rest[start..]);
        let by = pairs
            .iter()
            .find(|(port, _)| *port == number)
            .map_or(&number, |(_, by)| by);
        out.push_str(&rest[..start]);
        out.push_str(by);
        rest = &rest[start + number.len()..];
    }
    out + rest
}

/// Ports that nobody holds now, all different.
fn free_ports() -> impl FnMut() -> u16 {
    let mut held = Vec::new();
    move || {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        // Held until the last is drawn, or the system could give the same one twice.
        held.push(listener);
        port
    }
}

/// Runs the blocks of one document; the error says which block, what it printed, what to do.
fn run(document: &File) -> Result<(), String> {
    let defaults = DEFAULT_PORTS
        .map(|port| format!("127.0.0.1:{port}"))
        .join("\n");
    let text = with_ports(&format!("{}\n\n{defaults}", document.text), free_ports());
    let (text, defaults) = text
        .rsplit_once("\n\n")
        .expect("the addresses were appended");
    let (listen, admin) = defaults.split_once('\n').expect("there are two addresses");
    let blocks = blocks(text);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    symlink(root().join("examples"), folder.path().join("examples")).expect("a link can be made");
    fs::write(folder.path().join("script"), script(&blocks)).expect("the folder can be written");
    let Output { status, stderr, .. } = Command::new("timeout")
        .args(["--kill-after=5", LIMIT_S, "bash", "script"])
        .env("STEADFAST_LISTEN", listen)
        .env("STEADFAST_ADMIN", admin)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("timeout and bash are there; they are in Debian's coreutils and bash");
    let printed = |line: &str| {
        fs::read_to_string(folder.path().join(format!("out.{line}"))).unwrap_or_default()
    };
    if !status.success() {
        let at = fs::read_to_string(folder.path().join("at")).unwrap_or_default();
        let (at, bash) = (at.trim(), String::from_utf8_lossy(&stderr));
        return Err(format!(
            "{}:{at}: this block failed ({status}); it printed:\n{}{bash}\n\
             run the blocks by hand, then correct the document or the program",
            document.path,
            printed(at),
        ));
    }
    let pairs = blocks.iter().zip(blocks.iter().skip(1));
    for (ran, expected) in pairs.filter(|(_, block)| block.kind == Kind::Prints) {
        let printed = printed(&ran.line.to_string());
        if let Some(missing) = first_missing(&expected.text, &printed) {
            return Err(format!(
                "{}:{}: the block before did not print `{missing}` (here or in this order), but:\n\
                 {printed}\ncorrect the document or the program",
                document.path, expected.line,
            ));
        }
    }
    Ok(())
}

/// The first line of `expected` that `printed` lacks after those before it.
fn first_missing<'a>(expected: &'a str, printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines();
    expected
        .lines()
        .filter(|line| !line.trim().is_empty())
        .find(|wanted| !printed.any(|line| matches(wanted.trim(), line.trim())))
}

/// Whether the line is the pattern, in which `…` stands for anything.
fn matches(pattern: &str, line: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('…') else {
        return pattern == line;
    };
    let Some(mut rest) = line.strip_prefix(head) else {
        return false;
    };
    let (middle, last) = tail.rsplit_once('…').unwrap_or(("", tail));
    for part in middle.split('…') {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// What a user reads.
fn is_guide(file: &File) -> bool {
    let path = &file.path;
    path == "README.md" || (path.starts_with("docs/") && path.ends_with(".md"))
}

#[test]
fn the_commands_in_the_documents_work() {
    let files = files();
    let guides = files.iter().filter(|file| is_guide(file));
    let failed: Vec<String> = guides
        .filter(|guide| !blocks(&guide.text).is_empty())
        .filter_map(|guide| run(guide).err())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn only_marked_blocks_take_part() {
    let document = "```sh\nno\n```\n```sh test\na\nb\n```\n```sh test serve=3000\nc\n```\n\
                    ```text test\nd\n```\n```text\nno\n```\n";
    let block = |line, kind, text: &str| Block {
        line,
        kind,
        text: text.to_owned(),
    };
    let port = "3000".to_owned();
    let expected = [
        block(4, Kind::Run, "a\nb\n"),
        block(8, Kind::Serve { port }, "c\n"),
        block(11, Kind::Prints, "d\n"),
    ];
    assert_eq!(blocks(document), expected);
}

#[test]
fn a_port_is_replaced_everywhere_and_nothing_else_is() {
    let mut next = 40_000;
    let count = || {
        next += 1;
        next
    };
    let text = "serve=3000\npython3 x.py 3000; curl 127.0.0.1:3000/30001 localhost:9000 8080 2026";
    let replaced = "serve=40001\npython3 x.py 40001; curl 127.0.0.1:40001/30001 localhost:40004 \
                    40002 2026";
    assert_eq!(with_ports(text, count), replaced);
    let mut free = free_ports();
    let drawn: Vec<u16> = iter::repeat_with(&mut free).take(3).collect();
    assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2] && drawn[0] != drawn[2]);
}

#[test]
fn an_expected_line_may_leave_parts_open() {
    let table = [
        ("HTTP/1.1 201 …", "HTTP/1.1 201 Created", true),
        ("…true", "idempotent-replayed: true", true),
        ("a … c", "a b c", true),
        ("a … c", "a b", false),
        ("a", "ab", false),
        ("…", "", true),
        ("a…b…b", "a.b.b", true),
        ("a…b…b", "a.b", false),
        ("{…}", "{}}", true),
    ];
    for (pattern, line, expected) in table {
        assert_eq!(matches(pattern, line), expected, "{pattern} / {line}");
    }
    assert_eq!(first_missing("a\n\nb\n", "x\na\nb\n"), None);
    assert_eq!(first_missing("b\na\n", "a\nb\n"), Some("a"));
}

#[test]
fn the_example_service_counts_what_reaches_it() {
    let document = "```sh test serve=3000\npython3 examples/orders.py 3000\n```\n\
         ```sh test\ncurl -sS -d '{\"item\":\"book\"}' http://127.0.0.1:3000/orders\n\
         curl -sS -d '{\"item\":\"book\"}' http://127.0.0.1:3000/orders\n\
         curl -sS http://127.0.0.1:3000/orders\n```\n\
         ```text test\n{\"id\": 1, \"order\": {\"item\": \"book\"}}\n\
         {\"id\": 2, \"order\": {\"item\": \"book\"}}\n{\"count\": 2, …}\n```\n";
    run(&File::new("sample.md", document)).unwrap_or_else(|message| panic!("{message}"));
}

#[test]
fn a_document_that_fails_or_boasts_is_named_with_its_line() {
    let table = [
        (
            "\n```sh test\necho first\nfalse\n```\n",
            "sample.md:2: this block failed",
        ),
        (
            "```sh test\nsteadfast-is-not-here\n```\n",
            "sample.md:1: this block failed",
        ),
        (
            "```sh test serve=3000\nexit 3\n```\n",
            "sample.md:1: this block failed",
        ),
        (
            "```sh test\necho a\n```\n```text test\nb\n```\n",
            "sample.md:4: the block before",
        ),
    ];
    for (document, expected) in table {
        let message = run(&File::new("sample.md", document)).expect_err(document);
        assert!(message.starts_with(expected), "{message}");
    }
    let works = "```sh test\necho \"$STEADFAST_LISTEN\"; command -v steadfast\n```\n\
                 ```text test\n127.0.0.1:…\n…/steadfast\n```\n";
    assert_eq!(run(&File::new("sample.md", works)), Ok(()));
}
