//! `call`: exit codes, the story, one key for all attempts, the same bytes each time.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::stage::{Folder, Ran, Scripted, Step, until};

fn call(words: &[&str]) -> Ran {
    Folder::new().run(&[&["call"], words].concat())
}

fn unused() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}/", listener.local_addr().expect("an address"))
}

/// The exit code of a call with these words, to a service that does `steps`, and how often it was
/// asked.
fn ends(words: &str, steps: &[Step]) -> (i32, usize) {
    let service = Scripted::open(steps.to_vec());
    let url = service.url("/x");
    let words: Vec<&str> = words
        .split_whitespace()
        .map(|word| if word == "URL" { url.as_str() } else { word })
        .collect();
    let ran = call(&words);
    (ran.code, service.seen().len())
}

// rule: call-exit-codes
#[test]
fn exit_codes_say_what_came_of_it() {
    let status = |status| Step::status(status, "");
    let quick = "--base 1ms --deadline 20s --attempt-timeout 10s";
    let short = "--base 1ms --attempt-timeout 100ms";
    let table: &[(&str, &[Step], i32, usize)] = &[
        ("GET URL", &[status(200)], 0, 1),
        ("GET URL", &[status(302)], 0, 1),
        ("GET URL", &[status(404)], 4, 1),
        ("POST URL -d x", &[status(422)], 4, 1),
        ("GET URL", &[status(503)], 5, 3),
        ("GET URL", &[status(503), Step::Resets, status(200)], 0, 3),
        ("PUT URL -d x", &[status(500)], 5, 3),
        ("POST URL -d x", &[status(503)], 5, 1),
        ("POST URL -d x", &[status(500)], 7, 1),
        ("POST URL -d x", &[status(502)], 7, 1),
        ("POST URL -d x", &[status(504)], 7, 1),
        ("POST URL -d x", &[Step::Resets], 7, 1),
        (
            "POST URL -d x --key auto",
            &[Step::Resets, status(201)],
            0,
            2,
        ),
        (
            "POST URL -d x --key auto",
            &[status(504), status(201)],
            0,
            2,
        ),
        ("POST URL -d x --key auto", &[Step::Resets], 7, 3),
        ("POST URL -d x --key auto", &[status(503)], 5, 3),
        ("POST URL -d x --key auto", &[status(400)], 4, 1),
        ("GET URL", &[Step::Resets], 6, 3),
        ("PUT URL -d x", &[Step::Resets], 7, 3),
        ("DELETE URL", &[Step::Resets, status(404)], 0, 2),
        ("DELETE URL", &[status(404)], 4, 1),
    ];
    for (words, steps, code, asked) in table {
        let got = ends(&format!("{words} {quick}"), steps);
        assert_eq!(got, (*code, *asked), "{words} {steps:?}");
    }
    assert_eq!(ends(&format!("GET URL {short}"), &[Step::Silent]), (6, 3));
    assert_eq!(
        ends(&format!("POST URL -d x {short}"), &[Step::Silent]),
        (7, 1)
    );
    let ran = call(&["POST", &unused(), "-d", "x", "--base", "1ms"]);
    assert_eq!(ran.code, 6, "nothing was executed: {ran:?}");
    assert!(ran.err.contains("attempt 3 of 3: no answer"), "{ran:?}");
    assert!(ran.err.contains("Nothing was executed."), "{ran:?}");
}

// rule: one-key-for-all-attempts
#[test]
fn one_key_and_the_same_bytes_go_with_every_attempt() {
    let steps = [Step::status(503, ""), Step::Resets, Step::status(201, "")];
    let service = Scripted::open(steps);
    let folder = Folder::new();
    folder.write("order.json", "{\"amount\":\n50}");
    let url = service.url("/orders?a=1");
    let ran = folder.run(&[
        "call",
        "POST",
        &url,
        "--key",
        "auto",
        "-d",
        "@order.json",
        "--base",
        "1ms",
        "-H",
        "Content-Type: application/json",
    ]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "{}"), "{ran:?}");
    let seen = service.seen();
    let field = |request: &str, name: &str| {
        let lines = request.lines();
        let mut found = lines.filter_map(|line| line.strip_prefix(&format!("{name}: ")));
        found.next().map(str::to_owned)
    };
    let key = field(&seen[0], "idempotency-key").expect("a key");
    assert!(ran.err.contains(&format!("key: {key} ")), "{ran:?}");
    for (at, request) in seen.iter().enumerate() {
        assert!(
            request.starts_with("POST /orders?a=1 HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(request.ends_with("\r\n\r\n{\"amount\":\n50}"), "{request}");
        assert_eq!(field(request, "idempotency-key").as_ref(), Some(&key));
        assert_eq!(
            field(request, "steadfast-attempt"),
            Some((at + 1).to_string())
        );
        assert_eq!(
            field(request, "content-type").as_deref(),
            Some("application/json")
        );
        assert!(field(request, "request-timeout-ms").is_some(), "{request}");
    }
    assert_eq!(seen.len(), 3);
}

// rule: call-obeys-retry-after
#[test]
fn retry_after_is_obeyed_in_full_or_ends_it() {
    let long = Step::status(503, "retry-after: 120\r\n");
    let got = ends("GET URL --deadline 10s", std::slice::from_ref(&long));
    assert_eq!(got, (5, 1));
    let got = ends(
        "GET URL --deadline 10s --base 1ms --retry-after ignore",
        &[long],
    );
    assert_eq!(got, (5, 3));
    let invalid = Step::status(503, "retry-after: -1\r\n");
    assert_eq!(ends("GET URL --base 1ms", &[invalid]), (5, 3));
}

#[test]
fn what_another_layer_says_of_our_key_is_read() {
    let quick = "--key auto --base 1ms -d x";
    let problem = |slug: &str, status: u16| {
        let body = format!("{{\"type\":\"urn:steadfast:problem:{slug}\"}}");
        Step::Says(format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/problem+json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ))
    };
    let done = Step::status(201, "");
    let running = [problem("in-progress", 409), done.clone()];
    assert_eq!(ends(&format!("POST URL {quick}"), &running), (0, 2));
    let unknown = [problem("outcome-unknown", 409), done.clone()];
    assert_eq!(ends(&format!("POST URL {quick}"), &unknown), (7, 1));
    let replayed = [
        Step::status(503, "idempotent-replayed: true\r\n"),
        done.clone(),
    ];
    assert_eq!(ends(&format!("POST URL {quick}"), &replayed), (5, 1));
    let none = "idempotent-replayed: true\r\nsteadfast-effect: none\r\n";
    let joined = [Step::status(503, none), done];
    assert_eq!(ends(&format!("POST URL {quick}"), &joined), (0, 2));
}

// rule: an-answer-cut-is-not-shown
#[test]
fn an_answer_that_was_cut_is_asked_for_again_and_only_the_whole_one_is_shown() {
    let cut = Step::Says("HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nhalf".to_owned());
    let service = Scripted::open([cut, Step::status(200, "")]);
    let ran = call(&["GET", &service.url("/"), "--base", "1ms"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "{}"), "{ran:?}");
}

#[test]
fn the_answer_goes_where_it_is_asked_for_and_json_tells_the_story() {
    let steps = [Step::status(503, ""), Step::status(200, "x-a: 1\r\n")];
    let service = Scripted::open(steps.clone());
    let folder = Folder::new();
    let url = service.url("/");
    let ran = folder.run(&["call", "GET", &url, "--base", "1ms", "-i", "-o", "body"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.starts_with("HTTP/1.1 200 OK\r\nx-a: 1\r\n"),
        "{ran:?}"
    );
    assert_eq!(folder.read("body"), b"{}");

    let service = Scripted::open(steps);
    let url = service.url("/");
    let ran = folder.run(&["call", "GET", &url, "--base", "1ms", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(told["outcome"], "done");
    assert_eq!(told["status"], 200);
    assert_eq!(told["body"], "{}");
    assert_eq!(told["headers"]["x-a"], "1");
    let story = told["attempts"].as_array().expect("attempts");
    let decided: Vec<&Value> = story.iter().map(|attempt| &attempt["decision"]).collect();
    assert_eq!(decided, [&json!("retry"), &json!("finish")]);
}

// rule: call-shows-no-credential
#[test]
fn the_verbose_story_shows_no_credential() {
    let service = Scripted::open([Step::status(
        200,
        "set-cookie: s=hidden\r\nx-open: shown\r\n",
    )]);
    let url = service.url("/");
    let secret = [
        "-H",
        "Authorization: Bearer hidden",
        "-H",
        "X-Sent: shown-too",
    ];
    let ran = call(&[&["GET", &url, "-v"], &secret[..]].concat());
    assert!(!ran.err.contains("hidden"), "{ran:?}");
    assert!(ran.err.contains("< x-open: shown"), "{ran:?}");
    assert!(ran.err.contains("> x-sent: shown-too"), "{ran:?}");
}

// rule: call-refuses-an-identity-once
#[test]
fn over_tls_an_identity_that_nobody_vouches_for_is_refused_once_and_nothing_is_sent() {
    let folder = Folder::new();
    let port = crate::upstream_tls::service(&folder).port();
    let url = format!("https://localhost:{port}/");
    let ran = folder.run(&["call", "GET", &url, "--base", "1ms"]);
    assert_eq!((ran.code, ran.out.as_str()), (6, ""), "{ran:?}");
    assert!(ran.err.contains("attempt 1 of 3: no answer"), "{ran:?}");
    assert!(!ran.err.contains("attempt 2"), "{ran:?}");
    assert!(ran.err.contains("identity: "), "{ran:?}");
    let ran = folder.run(&["call", "GET", &url, "--cacert", "ca.pem"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "ok"), "{ran:?}");
}

// rule: interrupted-after-the-first-byte-is-unknown
#[test]
fn interrupted_with_a_write_under_way_it_is_unknown_and_the_key_is_told() {
    let service = Scripted::open([Step::Silent]);
    let folder = Folder::new();
    let url = service.url("/");
    for (method, code) in [("POST", 7), ("GET", 6)] {
        let before = service.seen().len();
        let mut program: Command = folder.program(&["call", method, &url, "--key", "auto"]);
        program.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().expect("it runs");
        until("the request", || {
            (service.seen().len() > before).then_some(())
        });
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.expect("kill runs").success());
        let status = until("the end", || child.try_wait().expect("its status"));
        let mut err = String::new();
        let mut pipe = child.stderr.take().expect("a pipe");
        pipe.read_to_string(&mut err).expect("text");
        assert_eq!(status.code(), Some(code), "{method}: {err}");
        assert!(err.contains("interrupted"), "{err}");
        let says_key = err.contains("Send the same request with --key ");
        assert_eq!(says_key, method == "POST", "{err}");
    }
}

#[test]
fn what_cannot_be_sent_is_refused_and_nothing_is_sent() {
    let service = Scripted::open([Step::status(200, "")]);
    let url = service.url("/");
    for (words, says) in [
        (&["GET", "nowhere"][..], "no whole URL"),
        (&["GET", "ftp://a/"], "its scheme is neither http nor https"),
        (
            &["POST", &url, "-d", "@missing"],
            "--data: missing cannot be opened",
        ),
        (
            &["POST", &url, "-H", "no field"],
            "write it as 'Name: value'",
        ),
        (&["POST", &url, "--key", "short"], "--key: "),
        (
            &[
                "POST",
                &url,
                "--key",
                "auto",
                "-H",
                "Idempotency-Key: 0123456789abcdef",
            ],
            "name two keys",
        ),
        (&["GET", &url, "--max-attempts", "0"], "from 1 (the first)"),
        (
            &["GET", &url, "--base", "2s", "--cap", "1s"],
            "--cap: the cap of 1s",
        ),
    ] {
        let ran = call(words);
        assert_eq!(ran.code, 2, "{words:?}: {ran:?}");
        assert!(ran.err.contains(says), "{words:?}: {ran:?}");
    }
    let ran = call(&["GET", &url, "-o", "no/such/folder"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("nothing was sent"), "{ran:?}");
    assert!(service.seen().is_empty());
}
