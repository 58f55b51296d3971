//! What the gateway logs, over its own process: one line an attempt, in both formats, with nothing
//! secret, and never at the cost of a request.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::stage::{Answer, Caller, Folder, Gateway, Obliging, Request, until};

const KEY: &str = "0b2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c01";
const OTHER: &str = "1c2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c02";

/// A folder with a configuration of one route, `all`, to `service`.
fn folder(service: &Obliging, top: &str) -> Folder {
    let folder = Folder::new();
    let to = service.address();
    folder.write(
        "s.toml",
        format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nstore = \"memory:\"\n{top}\n\
             [[route]]\nname = \"all\"\npath = \"/{{*rest}}\"\nto = \"http://{to}\"\n"
        ),
    );
    folder
}

/// Sends `head` with a body, on a connection of its own, and gives what came.
fn say(gateway: &Gateway, head: &str, body: &str) -> String {
    let mut caller = Caller::to(gateway.data).expect("the gateway");
    let length = body.len();
    caller.say(format!(
        "{head}\r\nhost: h\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ));
    String::from_utf8_lossy(&caller.rest()).into_owned()
}

fn keyed(key: &str) -> String {
    format!("POST /status/201 HTTP/1.1\r\nauthorization: Bearer a\r\nidempotency-key: {key}")
}

/// Two attempts without a key, one of them cut; one with; and two answers without any.
fn load(gateway: &Gateway) {
    say(gateway, "GET /status/404 HTTP/1.1", "");
    say(gateway, "POST /cut HTTP/1.1", "{}");
    say(gateway, &keyed(KEY), "{}");
    say(gateway, &keyed(KEY), "{}");
    say(gateway, &keyed(KEY), "[]");
}

// rule: one-line-an-attempt
#[test]
fn each_attempt_is_one_line() {
    let service = Obliging::open("s");
    let gateway = folder(&service, "").gateway();
    load(&gateway);
    let log = gateway.drained();
    let lines = |word: &str| log.lines().filter(|line| line.contains(word)).count();
    assert_eq!(lines("event=\"attempt\""), 3, "{log}");
    assert_eq!(lines("event=\"attempt\""), service.heads().len());
    assert_eq!(lines("event=\"keyed\""), 2, "{log}");
    let upstream = service.address();
    for part in [
        format!("route=\"all\" method=\"GET\" attempt=1 upstream=\"{upstream}\" status=404"),
        "error=\"reset\" effect=\"unknown\" not_repeated=\"maybe-executed\"".to_owned(),
        "status=201 effect=\"applied\" fence=".to_owned(),
        "method=\"POST\" outcome=\"replayed\" status=201".to_owned(),
        "method=\"POST\" outcome=\"mismatch\" status=422".to_owned(),
    ] {
        assert_eq!(lines(&part), 1, "{part}\n{log}");
    }
}

#[test]
fn as_json_every_line_is_an_object_and_says_the_same() {
    let service = Obliging::open("s");
    let gateway = folder(&service, "log.format = \"json\"").gateway();
    load(&gateway);
    let log = gateway.drained();
    let lines = log.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(
            line["timestamp"].is_string() && line["level"].is_string(),
            "{line}"
        );
        assert!(line["message"].is_string(), "{line}");
        line
    });
    let lines: Vec<Value> = lines.collect();
    let of = |event: &str| {
        let found = lines.iter().filter(|line| line["event"] == event);
        found.cloned().collect::<Vec<Value>>()
    };
    let (attempts, keyed) = (of("attempt"), of("keyed"));
    assert_eq!((attempts.len(), keyed.len()), (3, 2), "{log}");
    assert_eq!(
        (&attempts[0]["status"], &attempts[0]["effect"]),
        (&404.into(), &"none".into())
    );
    assert_eq!(attempts[1]["error"], "reset");
    let operation = &attempts[2]["operation"];
    assert!(
        operation.is_string() && attempts[2]["fence"].is_u64(),
        "{log}"
    );
    for (line, outcome) in keyed.iter().zip(["replayed", "mismatch"]) {
        assert_eq!(
            (&line["operation"], &line["outcome"]),
            (operation, &outcome.into())
        );
    }
}

#[test]
fn attempts_are_not_logged_where_the_operator_said_so() {
    let service = Obliging::open("s");
    let folder = folder(&service, "");
    let mut command = folder.program(&["gateway", "--config", "s.toml"]);
    command.env("STEADFAST_LOG_ATTEMPTS", "false");
    let gateway = Gateway::start(command).expect("a gateway");
    load(&gateway);
    let log = gateway.drained();
    assert!(!log.contains("event="), "{log}");
    assert!(log.contains("steadfast listens on"), "{log}");
}

/// What nobody may read in a log line or a metric, by where it was sent.
const SECRETS: [&str; 10] = [
    "secret-key-5f0c2f6f1f4b4a0e",
    "secret-authorization",
    "secret-cookie",
    "secret-body",
    "secret-query",
    "secret-path",
    "secret-answer",
    "secret-field",
    "secret-credential",
    "secret-trace",
];

// rule: nothing-secret-is-logged-or-counted
#[test]
fn no_key_credential_path_query_or_body_is_in_a_log_line_or_a_metric() {
    for format in ["text", "json"] {
        let service = Obliging::open("secret-answer");
        let gateway = folder(&service, &format!("log.format = \"{format}\"")).gateway();
        let fields = "authorization: Bearer secret-authorization\r\ncookie: a=secret-cookie\r\n\
                      x-field: secret-field\r\nproxy-authorization: Basic secret-credential\r\n\
                      traceparent: 00-secret-trace";
        let key = "idempotency-key: secret-key-5f0c2f6f1f4b4a0e";
        let mut answers = String::new();
        for path in [
            "/status/201",
            "/status/500",
            "/status/503",
            "/cut",
            "/half",
            "/nothing",
        ] {
            let target = format!("{path}?secret-query=%0asecret-query");
            let head = format!("POST {target} HTTP/1.1\r\n{fields}");
            for head in [&head, &format!("{head}\r\n{key}{}", path.len())] {
                for body in ["{\"a\":\"secret-body\"}", "[\"secret-body\"]"] {
                    answers += &say(&gateway, head, body);
                }
            }
        }
        for head in [
            format!("GET /secret-path%22%0a%1b HTTP/1.1\r\n{fields}"),
            format!("POST /secret-path/../x HTTP/1.1\r\n{fields}\r\n{key}"),
            format!("POST /secret-path HTTP/1.1\r\n{fields}\r\nidempotency-key: secret-key"),
            format!("POST /secret-path HTTP/1.1\r\n{fields}\r\n{key}\r\n{key}"),
            format!("secret-path /secret-path HTTP/1.1\r\nbad field: secret-field\r\n{fields}"),
            "GET /.steadfast/operations/secret-path HTTP/1.1".to_owned(),
        ] {
            answers += &say(&gateway, &head, "secret-body");
        }
        assert!(
            answers.contains("secret-answer"),
            "the upstream's answers passed"
        );
        let metrics = gateway.metrics();
        let log = gateway.drained();
        assert!(log.contains("attempt") && metrics.contains("steadfast_attempts_total"));
        for secret in SECRETS {
            assert!(
                !log.contains(secret),
                "{format}: {secret} in the log:\n{log}"
            );
            assert!(
                !metrics.contains(secret),
                "{secret} in the metrics:\n{metrics}"
            );
        }
        let control = log.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(control, None, "{log}");
    }
}

// rule: a-trace-passes-and-names-its-attempt
#[test]
fn a_traceparent_passes_as_it_came_and_names_the_trace_in_the_line() {
    let service = Obliging::open("s");
    let gateway = folder(&service, "").gateway();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let sound = format!("traceparent: 00-{trace}-b7ad6b7169203331-01");
    let wrong = "traceparent: 00-0AF7-not-sound";
    for line in [&sound, wrong] {
        say(&gateway, &format!("GET /status/200 HTTP/1.1\r\n{line}"), "");
        say(&gateway, &format!("{}\r\n{line}", keyed(OTHER)), "{}");
    }
    let passed = |line: &str| {
        let heads = service.heads();
        heads.iter().filter(|head| head.contains(line)).count()
    };
    assert_eq!(
        (passed(&sound), passed(wrong)),
        (2, 1),
        "{:?}",
        service.heads()
    );
    let log = gateway.drained();
    let named = log
        .lines()
        .filter(|line| line.contains(&format!("trace={trace}")));
    assert_eq!(named.count(), 2, "{log}");
    assert_eq!(log.matches(" trace=").count(), 2, "{log}");
}

fn answered(caller: &mut Caller, request: &Request<'_>) -> Answer {
    caller.send(request);
    caller.answer().expect("an answer")
}

// rule: a-log-that-nobody-reads-stops-no-request
#[test]
fn a_log_that_nobody_reads_stops_no_request_and_what_is_dropped_is_counted() {
    let service = Obliging::open("s");
    let folder = folder(&service, "");
    let mut command = folder.program(&["gateway", "--config", "s.toml"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the gateway is started");
    let mut log = BufReader::new(child.stderr.take().expect("its standard error"));
    // Its reader reads until it is ready, and then no more.
    let mut line = String::new();
    while !line.contains("steadfast listens on") {
        line.clear();
        assert!(log.read_line(&mut line).expect("a line") > 0);
    }
    let mut words = line.split("http://").skip(1);
    let mut address = || {
        let word = words.next().expect("an address");
        let end = word.find([',', '\n']).expect("its end");
        word[..end].parse().expect("an address")
    };
    let (data, admin) = (address(), address());
    let mut caller = Caller::to(data).expect("the gateway");
    let dropped = until("a line that is dropped", || {
        for _ in 0..500 {
            let answer = answered(&mut caller, &Request::get("/status/200").kept());
            assert_eq!(answer.status, 200);
        }
        let asked = Caller::to(admin)?.ask(&Request::get("/metrics")).ok()?;
        let text = String::from_utf8(asked.body).ok()?;
        let dropped = text.lines().find_map(|line| {
            let count = line.strip_prefix("steadfast_log_lines_dropped_total ")?;
            count.parse::<u64>().ok()
        })?;
        (dropped > 0).then_some(dropped)
    });
    drop(caller);
    // Whoever reads again is told.
    let told = log
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("were dropped"));
    let told = told.expect("a line that says so");
    let lines = told
        .split("lines=")
        .nth(1)
        .and_then(|word| word.trim().parse::<u64>().ok());
    assert!(lines.is_some_and(|lines| lines >= dropped), "{told}");
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_gateway_whose_log_nobody_reads_ends_when_it_is_told_to() {
    let service = Obliging::open("s");
    let folder = folder(&service, "log.attempts = true");
    let mut command = folder.program(&["gateway", "--config", "s.toml"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    command.stdout(Stdio::null()).stderr(writer);
    let mut child = command.spawn().expect("the gateway is started");
    drop(command);
    let mut log = BufReader::new(reader);
    let mut line = String::new();
    while !line.contains("records are kept") {
        line.clear();
        assert!(log.read_line(&mut line).expect("a line") > 0);
    }
    let id = child.id().to_string();
    let sent = folder
        .command("sh")
        .args(["-c", "kill -TERM \"$0\"", &id])
        .status();
    assert!(sent.expect("kill runs").success());
    let ended = until("its end", || child.try_wait().expect("its status"));
    assert_eq!(ended.code(), Some(0));
    drop(log);
}
