//! `config check` and `config show`, as they are run: exact output, exact exit codes.

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder with `s.toml`, in which the program runs without any setting in its environment.
struct Folder(TempDir);

impl Folder {
    fn with(text: impl AsRef<[u8]>) -> Folder {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("s.toml"), text).expect("the file is written");
        Folder(folder)
    }

    fn run(&self, words: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(env!("CARGO_BIN_EXE_steadfast"))
            .args(words)
            .env_clear()
            .envs(variables.iter().copied())
            .current_dir(self.0.path())
            .output()
            .expect("the program runs");
        let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
        let code = status.code().expect("the program ends by itself");
        (code, text(stdout), text(stderr))
    }
}

const CHECK: &[&str] = &["config", "check", "--config", "s.toml"];
const SHOW: &[&str] = &["config", "show", "--config", "s.toml"];

const ROUTE: &str = "[[route]]\npath = \"/{*rest}\"\nto = \"http://h\"\n";

/// A file, and what is said of it. `%` at a line's beginning stands for the route's lines.
const WRONG: &[(&str, &str)] = &[
    (
        "listen = \"127.0.0.1:3000\"\n[[route]]\npath = \"/x\"\n\
         to = \"http://localhost:3000\"",
        "s.toml:4: error: route \"/x\": to: `127.0.0.1:3000` is where this gateway itself \
         listens; name the service behind it, or another address to listen on.",
    ),
    (
        "[[route]]\npath = \"/orders/:id\"\nto = \"http://h\"",
        "s.toml:2: error: route \"/orders/:id\": path: a place is a whole segment, written \
         `{name}` or `{*name}`; correct the path.",
    ),
    (
        "lisen = \"127.0.0.1:8080\"\n%",
        "s.toml:1: error: lisen: `lisen` is not a setting; did you mean `listen`? Correct the \
         name.",
    ),
    (
        "workers = 4\n%",
        "s.toml:1: error: workers: `workers` is not a setting; remove it; settings here are \
         listen, admin, store, drain, trusted_peers, admin_token, secret, log, encrypt_with, \
         tls, upstream_tls, jwt, telemetry, defaults, route.",
    ),
    (
        "%idempotency.leasse = \"30s\"",
        "s.toml:4: error: route \"/{*rest}\": idempotency.leasse: `leasse` is not a setting; did \
         you mean `lease`? Correct the name.",
    ),
    (
        "%lease = \"30s\"",
        "s.toml:4: error: route \"/{*rest}\": lease: `lease` is not a setting; did you mean \
         `idempotency.lease`? Correct the name.",
    ),
    (
        "%\"idempotency.lease\" = \"30s\"",
        "s.toml:4: error: route \"/{*rest}\": idempotency.lease: the quotes make \
         `idempotency.lease` one name, and no setting has it; write it without quotes.",
    ),
    (
        "deadline = \"5s\"\n%",
        "s.toml:1: error: deadline: `deadline` does not stand here; move it into [defaults] or a \
         [[route]].",
    ),
    (
        "%listen = \"127.0.0.1:80\"",
        "s.toml:4: error: route \"/{*rest}\": listen: `listen` does not stand here; move it to \
         the top of the file, before the first table.",
    ),
    (
        "[default]\n%",
        "s.toml:1: error: default: `default` is not a setting; did you mean `defaults`? Correct \
         the name.",
    ),
    (
        "listen = 8080\n%",
        "s.toml:1: error: listen: a whole number stands where a string is expected; write \
         \"127.0.0.1:8080\".",
    ),
    (
        "listen = \"localhost:8080\"\n%",
        "s.toml:1: error: listen: `localhost:8080` is not an address with a port; write one such \
         as \"127.0.0.1:8080\", \"0.0.0.0:8080\" or \"[::1]:8080\".",
    ),
    (
        "%deadline = 30",
        "s.toml:4: error: route \"/{*rest}\": deadline: `30` has no unit; write a length with \
         its unit (ms, s, m, h or d), such as \"30s\".",
    ),
    (
        "%deadline = \"30 sec\"",
        "s.toml:4: error: route \"/{*rest}\": deadline: `30 sec` is not a length of time; write \
         a length with its unit (ms, s, m, h or d), such as \"30s\".",
    ),
    (
        "%deadline = \"30us\"",
        "s.toml:4: error: route \"/{*rest}\": deadline: `us` in `30us` is not a unit; write a \
         length with its unit (ms, s, m, h or d), such as \"30s\".",
    ),
    (
        "%deadline = \"99999999999999999999h\"",
        "s.toml:4: error: route \"/{*rest}\": deadline: `99999999999999999999h` is longer than \
         87600h; write a shorter length.",
    ),
    (
        "%deadline = \"0s\"",
        "s.toml:4: error: route \"/{*rest}\": deadline: a length of zero leaves no time at all; \
         write a longer one, such as \"500ms\".",
    ),
    (
        "%body_limit = 1048576",
        "s.toml:4: error: route \"/{*rest}\": body_limit: `1048576` has no unit; write a size \
         with its unit (B, kB, KiB, MB, MiB, GB or GiB), such as \"1MiB\".",
    ),
    (
        "%body_limit = \"2GiB\"",
        "s.toml:4: error: route \"/{*rest}\": body_limit: `2GiB` is out of bounds; write a size \
         from 1B to 512MiB.",
    ),
    (
        "%timeouts = \"5s\"",
        "s.toml:4: error: route \"/{*rest}\": timeouts: a string stands where a table is \
         expected; write { resolve = … }.",
    ),
    (
        "%idempotency.mode = \"requird\"",
        "s.toml:4: error: route \"/{*rest}\": idempotency.mode: `requird` is not one of its \
         words (did you mean `required`?); write \"optional\" or \"required\" or \
         \"required-on-retry\" or \"off\".",
    ),
    (
        "%idempotency = { key_length = [255, 16] }",
        "s.toml:4: error: route \"/{*rest}\": idempotency.key_length: no key has at least 255 \
         and at most 16 characters; write [16, 255].",
    ),
    (
        "%idempotency = { lease = \"0s\" }",
        "s.toml:4: error: route \"/{*rest}\": idempotency.lease: a lease of 0ms cannot be \
         renewed in time; write 100ms or more.",
    ),
    (
        "%idempotency = { waiters_per_key = 0 }",
        "s.toml:4: error: route \"/{*rest}\": idempotency.waiters_per_key: 0 is out of bounds; \
         write a number from 1 to 10000.",
    ),
    (
        "%idempotency = { methods = [\"post\"] }",
        "s.toml:4: error: route \"/{*rest}\": idempotency.methods: `post` is not a method that \
         can be proxied; write methods in capitals, such as \"POST\".",
    ),
    (
        "%idempotency = { header = \"Authorization\" }",
        "s.toml:4: error: route \"/{*rest}\": idempotency.header: the field `Authorization` \
         already means something else; write \"Idempotency-Key\" or another name of its own.",
    ),
    (
        "[defaults]\nidempotency.final = [409, 422]\n%idempotency.released = [409]",
        "s.toml:6: error: route \"/{*rest}\": idempotency.released: status 409 also stands in \
         `idempotency.final`; leave it in one of them.",
    ),
    (
        "%idempotency.unknown = [100]",
        "s.toml:4: error: route \"/{*rest}\": idempotency.unknown: 100 is out of bounds; write a \
         number from 200 to 599.",
    ),
    (
        "%idempotency = { fingerprint_ignore = [\"sent_at\"] }",
        "s.toml:4: error: route \"/{*rest}\": idempotency.fingerprint_ignore: `sent_at` cannot \
         be ignored: a pointer begins with `/`, as in `/sent_at`; correct or remove it.",
    ),
    (
        "[defaults]\nidempotency.fingerprint = \"bytes\"\n%idempotency.fingerprint_ignore = \
         [\"/a\"]",
        "s.toml:6: error: route \"/{*rest}\": idempotency.fingerprint_ignore: \
         `fingerprint_ignore` needs bodies that are read by meaning; remove it, or remove \
         `fingerprint = \"bytes\"`.",
    ),
    (
        "%timeouts.attempt = \"40s\"\ndeadline = \"30s\"",
        "s.toml:4: error: route \"/{*rest}\": timeouts.attempt: 40s is longer than the deadline \
         of 30s beside it; shorten the limit or lengthen the deadline.",
    ),
    (
        "%margin = \"1m\"",
        "s.toml:4: error: route \"/{*rest}\": margin: `margin` of 1m leaves nothing of a \
         deadline of 30s; write a longer deadline, or a shorter `margin`.",
    ),
    (
        "%deadline = \"5ms\"",
        "s.toml:4: error: route \"/{*rest}\": deadline: `margin` of 5ms leaves nothing of a \
         deadline of 5ms; write a longer deadline, or a shorter `margin`.",
    ),
    (
        "%principal = \"header:X-Tenant\"",
        "s.toml:4: error: route \"/{*rest}\": principal: anybody could send `x-tenant`, for \
         there are no `trusted_peers`; set `trusted_peers` at the top to the peers that set this \
         field.",
    ),
    (
        "%principal = \"jwt:sub\"",
        "s.toml:4: error: route \"/{*rest}\": principal: `jwt:sub` is not yet supported; write \
         \"authorization\", \"header:NAME\", \"cookie:NAME\" or \"anonymous\".",
    ),
    (
        "%principal = \"session\"",
        "s.toml:4: error: route \"/{*rest}\": principal: `session` is not a rule; write \
         \"authorization\", \"header:NAME\", \"cookie:NAME\" or \"anonymous\".",
    ),
    (
        "trusted_peers = [\"10.0.0.1/8\"]\n%",
        "s.toml:1: error: trusted_peers: `10.0.0.1/8` has bits set behind its first 8; write \
         \"10.0.0.0/8\" for the network, or \"10.0.0.1\" alone.",
    ),
    (
        "trusted_peers = [\"10.0.0.0/40\"]\n%",
        "s.toml:1: error: trusted_peers: `10.0.0.0/40` is neither an address nor a network; \
         write an address or a network, such as \"10.0.0.7\" or \"10.0.0.0/8\".",
    ),
    (
        "secret = \"hunter2hunter2hunter2hunter2hunter2\"\n%",
        "s.toml:1: error: secret: a secret does not stand in the configuration itself; write { \
         env = \"NAME\" } or { file = \"PATH\" }.",
    ),
    (
        "secret = { env = \"NOT_SET\" }\n%",
        "s.toml:1: error: secret: the environment variable `NOT_SET` is not set, or no UTF-8; \
         set it, or name another.",
    ),
    (
        "secret = { file = \"gone\" }\n%",
        "s.toml:1: error: secret: `gone` cannot be read: No such file or directory (os error 2); \
         correct the path or its permissions.",
    ),
    (
        "secret = { env = \"SHORT\" }\n%",
        "s.toml:1: error: secret: the secret has fewer than 32 characters; make one with \
         `openssl rand -hex 32`.",
    ),
    (
        "admin = \"0.0.0.0:8081\"\n%",
        "s.toml:1: error: admin: `0.0.0.0:8081` is reached from other machines, and no token is \
         asked; set `admin_token = { env = \"NAME\" }`, or write a loopback address.",
    ),
    (
        "listen = \"127.0.0.1:8081\"\n%",
        "s.toml:1: error: listen: `127.0.0.1:8081` is the `admin` address, too; give one of them \
         another port.",
    ),
    (
        "store = \"redis://u:hunter2@h/db\"\n%",
        "s.toml:1: error: store: a store of kind `redis:` is not yet supported; write \
         \"sqlite:FILE\", \
             \"postgres://USER:PASSWORD@HOST/DATABASE\" or \"memory:\".",
    ),
    (
        "store = \"memory:\"\n%require = \"durable\"",
        "s.toml:5: error: route \"/{*rest}\": require: a store in memory is not durable; set \
         `store = \"sqlite:FILE\"`, or remove it.",
    ),
    (
        "%require = \"linearizable\"",
        "s.toml:4: error: route \"/{*rest}\": require: `linearizable` is not yet supported; \
         write \"durable\".",
    ),
    (
        "%retry = { max_attempts = 0, base = \"10s\" }",
        "s.toml:4: error: route \"/{*rest}\": retry.base: the cap of 5s is shorter than the base \
         of 10s; raise the cap or lower the base.\n\
         s.toml:4: error: route \"/{*rest}\": retry.max_attempts: 0 is out of bounds; write a \
         number from 1 to 1000.",
    ),
    (
        "%retry = { cap = \"50ms\", max_wait = \"5\" }",
        "s.toml:4: error: route \"/{*rest}\": retry.cap: the cap of 50ms is shorter than the \
         base of 100ms; raise the cap or lower the base.\n\
         s.toml:4: error: route \"/{*rest}\": retry.max_wait: `5` has no unit; write a length \
         with its unit (ms, s, m, h or d), such as \"30s\".",
    ),
    (
        "%retry = { jitter = \"equl\", on_status = [503, 600], on_error = [\"conect\", \"tls\"] }",
        "s.toml:4: error: route \"/{*rest}\": retry.jitter: `equl` is not one of its words (did \
         you mean `equal`?); write \"full\" or \"none\" or \"equal\" or \"decorrelated\".\n\
         s.toml:4: error: route \"/{*rest}\": retry.on_error: `conect` is not one of its words \
         (did you mean `connect`?); write \"resolve\" or \"connect\" or \"pool\" or \
         \"tls-handshake\" or \"not-written\" or \"write\" or \"read-timeout\" or \"reset\" or \
         \"refused-stream\" or \"goaway\" or \"idle\" or \"truncated\".\n\
         s.toml:4: error: route \"/{*rest}\": retry.on_status: 600 is out of bounds; write a \
         number from 100 to 599.",
    ),
    (
        "%retry.on_error = [\"tls\"]",
        "s.toml:4: error: route \"/{*rest}\": retry.on_error: a refused certificate, hostname or \
         trust is never repeated; remove `tls`.",
    ),
    (
        "%budget = { ratio = 1.5, window = \"0s\", floor = 1 }",
        "s.toml:4: error: route \"/{*rest}\": budget.floor: `floor` is not a setting; remove it; \
         settings here are ratio, floor_per_second, window.\n\
         s.toml:4: error: route \"/{*rest}\": budget.ratio: 1.5 is no share of one; write a \
         number from 0 to 1, such as 0.2 for one in five.\n\
         s.toml:4: error: route \"/{*rest}\": budget.window: a length of zero leaves no time at \
         all; write a longer one, such as \"500ms\".",
    ),
    (
        "%breaker = { failure_ratio = 0, min_requests = 0, open_for = \"0s\", probes = 0 }",
        "s.toml:4: error: route \"/{*rest}\": breaker.failure_ratio: with a share of zero it opens \
         although nothing failed; write a number above 0, such as 0.5.\n\
         s.toml:4: error: route \"/{*rest}\": breaker.min_requests: 0 is out of bounds; write a \
         number from 1 to 1000000.\n\
         s.toml:4: error: route \"/{*rest}\": breaker.open_for: a length of zero leaves no time at \
         all; write a longer one, such as \"500ms\".\n\
         s.toml:4: error: route \"/{*rest}\": breaker.probes: 0 is out of bounds; write a number \
         from 1 to 1000000.",
    ),
    (
        "%coalesce = \"local\"",
        "s.toml:4: error: route \"/{*rest}\": coalesce: not yet supported: reads are never \
         joined; remove it, or write \"off\".",
    ),
    (
        "%[jwt]\nissuer = \"x\"",
        "s.toml:5: error: jwt.issuer: not yet supported: tokens are not verified; remove it.",
    ),
    (
        "[[route]]\npath = \"/v1/{id}.json\"\nto = \"ftp://h\"",
        "s.toml:2: error: route \"/v1/{id}.json\": path: a place is a whole segment, written \
         `{name}` or `{*name}`; correct the path.\n\
         s.toml:3: error: route \"/v1/{id}.json\": to: the upstream's URL begins neither \
         with `http://` nor with `https://`; write one such as \"http://127.0.0.1:3000\" or \
         \"https://orders.example\".",
    ),
    (
        "[[route]]\nname = \"a\"\n",
        "s.toml:1: error: route \"a\": path: the route has no `path`; add path = \"/v1/{id}\" or \
         \"/{*rest}\".\n\
         s.toml:1: error: route \"a\": to: the route has no `to`; add to = \
         \"http://127.0.0.1:3000\".",
    ),
    (
        "%name = \"a\"\n%name = \"a\"",
        "s.toml:8: error: route \"a\": name: another route has this name already; name each \
         route once.",
    ),
    (
        "[route]\npath = \"/\"",
        "s.toml:1: error: route: a table stands where a list of routes is expected; write \
         [[route]].",
    ),
    (
        "",
        "s.toml: error: route: there is no route; add a [[route]] with `path` and `to`.",
    ),
    (
        "a = \n",
        "s.toml:1: error: not TOML: string values must be quoted, expected literal string; \
         correct this line.",
    ),
];

#[test]
fn a_wrong_file_is_told_place_setting_reason_and_next_step() {
    for (text, said) in WRONG {
        let folder = Folder::with(text.replace('%', ROUTE));
        let ended = folder.run(CHECK, &[("SHORT", "hunter2")]);
        assert_eq!(ended, (3, String::new(), format!("{said}\n")), "{text}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once_and_in_order() {
    let folder = Folder::with(format!("x = 1\nlisten = 2\n{ROUTE}deadline = 3\n"));
    let (code, out, err) = folder.run(CHECK, &[]);
    let places: Vec<&str> = err.lines().map(|line| &line[..8]).collect();
    assert_eq!((code, &*out), (3, ""));
    assert_eq!(places, ["s.toml:1", "s.toml:2", "s.toml:6"]);
}

#[test]
fn what_a_terminal_would_obey_is_not_printed() {
    let long = "x".repeat(5000);
    let text = format!("listen = \"\\u001b[2J\"\n\"\\u0007{long}\" = 1\n{ROUTE}");
    let (code, _, err) = Folder::with(text).run(CHECK, &[]);
    assert_eq!((code, err.lines().count()), (3, 2));
    assert!(
        !err.contains(['\u{1b}', '\u{7}']) && err.len() < 2000,
        "{err}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let folder = Folder::with([b'a', b'\n', 0xff]);
    let said = "s.toml:2: error: the text is no UTF-8; save it as UTF-8.\n";
    assert_eq!(folder.run(CHECK, &[]), (3, String::new(), said.to_owned()));
    let ended = folder.run(&["config", "check", "--config", "gone.toml"], &[]);
    let said = "gone.toml: error: the file cannot be read: No such file or directory (os error \
                2); correct the path or its permissions.\n";
    assert_eq!(ended, (3, String::new(), said.to_owned()));
    let large = Folder::with(vec![b'#'; 1024 * 1024 + 1]);
    let (code, _, err) = large.run(CHECK, &[]);
    assert_eq!(code, 3);
    assert!(
        err.starts_with("s.toml: error: the file is larger than 1MiB;"),
        "{err}"
    );
}

#[test]
fn a_sound_file_is_told_so_with_what_may_surprise() {
    let folder = Folder::with(format!("{ROUTE}principal = \"anonymous\"\n"));
    let (code, out, err) = folder.run(CHECK, &[("NO_COLOR", "1")]);
    assert_eq!((code, &*out), (0, "s.toml: ok, 1 route\n"));
    assert_eq!(
        err,
        "s.toml:4: warning: principal: changing this opens a new scope for live keys: a repeat \
         of a request from before the change runs again; change it only when no caller repeats \
         older requests.\n"
    );
}

#[test]
fn check_as_json_has_one_shape() {
    let sound = Folder::with(format!("{ROUTE}principal = \"anonymous\"\n"));
    let words = [CHECK, &["--json"]].concat();
    let (code, out, err) = sound.run(&words, &[]);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &*err, &report["ok"]), (0, "", &true.into()));
    assert_eq!(report["warnings"][0]["line"], 4);
    let wrong = Folder::with("[[route]]\npath = \"/\"\nto = \"http://h\"\ndefer = \"always\"");
    let (code, out, err) = wrong.run(&words, &[]);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &*err), (3, ""));
    let expected = serde_json::json!({
        "ok": false,
        "errors": [{
            "place": "s.toml", "line": 4, "setting": "route \"/\": defer",
            "kind": "not-yet-supported", "reason": "not yet supported: nothing is deferred",
            "next": "remove it, or write \"off\"",
        }],
        "warnings": [],
    });
    assert_eq!(report, expected);
}

#[test]
fn show_gives_each_value_its_origin() {
    let text = format!(
        "admin_token = {{ env = \"TOKEN\" }}\n[defaults]\ndeadline = \"5s\"\n{ROUTE}name = \
         \"all\"\n"
    );
    let folder = Folder::with(text);
    let variables = [
        ("TOKEN", "correct-horse-battery"),
        ("STEADFAST_STORE", "memory:"),
    ];
    let (code, out, _) = folder.run(SHOW, &variables);
    assert_eq!(code, 0);
    for line in [
        "listen = \"127.0.0.1:8080\"  # default",
        "store = \"memory:\"  # STEADFAST_STORE",
        "admin_token = { env = \"TOKEN\" }  # s.toml:1",
        "name = \"all\"  # s.toml:7",
        "deadline = \"5s\"  # s.toml:3",
        "timeouts.attempt = \"5s\"  # default, cut to the deadline",
        "timeouts.connect = \"2s\"  # default",
        "idempotency.key_length = [16, 255]  # default",
    ] {
        assert!(out.lines().any(|shown| shown == line), "{line}\n{out}");
    }
    assert!(!out.contains("battery"));
    let (code, out, _) = folder.run(&[SHOW, &["--json"]].concat(), &variables);
    let shown: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(code, 0);
    let store = serde_json::json!({
        "value": "memory:", "origin": "STEADFAST_STORE", "cut": false,
    });
    assert_eq!(shown["settings"]["store"], store);
    assert_eq!(shown["routes"][0]["timeouts.attempt"]["cut"], true);
    assert!(!out.contains("battery"));
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let folder = Folder::with("");
    for words in [&[][..], &["config"], &["config", "check"], &["nothing"]] {
        let (code, out, err) = folder.run(words, &[]);
        assert_eq!(
            (code, out.is_empty(), err.is_empty()),
            (2, true, false),
            "{words:?}"
        );
    }
    for words in [
        &["--help"][..],
        &["--version"],
        &["config", "show", "--help"],
    ] {
        let (code, out, err) = folder.run(words, &[]);
        assert_eq!(
            (code, out.is_empty(), err.is_empty()),
            (0, false, true),
            "{words:?}"
        );
    }
}
