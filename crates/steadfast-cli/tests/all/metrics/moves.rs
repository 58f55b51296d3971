//! Do this, and that moves.

use super::{
    Caller, Config, Counts, Folder, Honours, Ledger, Obliging, Request, count, counts, nobody,
    until,
};

const KEYS: [&str; 8] = [
    "0b2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c01",
    "1c2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c02",
    "2d2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c03",
    "3e2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c04",
    "4f2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c05",
    "5a2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c06",
    "6b2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c07",
    "7c2b2f0e-6a62-4d4b-9f0c-3d5f6f1a7c08",
];

/// Counters of requests.
const COUNTED: [&str; 6] = [
    "steadfast_requests_total",
    "steadfast_keyed_total",
    "steadfast_attempts_total",
    "steadfast_retries_skipped_total",
    "steadfast_malformed_total",
    "steadfast_unprotected_total",
];

fn request(method: &str, path: &str, key: &str, body: &str) -> String {
    let key = match key {
        "" => String::new(),
        key => format!("idempotency-key: {key}\r\n"),
    };
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer a\r\n{key}\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// A request, and what it moves by one.
type Case<'a> = (String, &'a [&'a str]);

// tidy: table, because each line is a request and what it moves
fn cases() -> Vec<Case<'static>> {
    let post = |path: &str, key: &str| request("POST", path, key, "{}");
    let get = |path: &str| request("GET", path, "", "");
    vec![
        (
            get("/status/200"),
            &["requests{all,success}", "attempts{all,1,200}"],
        ),
        (
            get("/status/404"),
            &["requests{all,client-error}", "attempts{all,1,404}"],
        ),
        (
            post("/status/503", ""),
            &[
                "requests{all,server-error}",
                "attempts{all,1,503}",
                "retries_skipped{all,unkeyed-write}",
            ],
        ),
        (
            get("/status/503"),
            &[
                "requests{all,server-error}",
                "attempts{all,1,503}",
                "attempts{all,2,503}",
                "attempts{all,3,503}",
                "retries_skipped{all,attempts}",
            ],
        ),
        (
            get("/half"),
            &[
                "requests{all,success}",
                "attempts{all,1,truncated}",
                "retries_skipped{all,passed-on}",
            ],
        ),
        (
            post("/half", ""),
            &[
                "requests{all,success}",
                "attempts{all,1,truncated}",
                "retries_skipped{all,maybe-executed}",
            ],
        ),
        (
            post("/cut", ""),
            &[
                "requests{all,unknown}",
                "attempts{all,1,reset}",
                "retries_skipped{all,maybe-executed}",
            ],
        ),
        (
            get("/gone"),
            &[
                "requests{gone,failed}",
                "attempts{gone,1,connect}",
                "attempts{gone,2,connect}",
                "attempts{gone,3,connect}",
                "retries_skipped{gone,attempts}",
            ],
        ),
        (
            post("/gone", KEYS[0]),
            &[
                "requests{gone,failed}",
                "keyed{gone,released}",
                "attempts{gone,1,connect}",
                "attempts{gone,2,connect}",
                "attempts{gone,3,connect}",
                "retries_skipped{gone,attempts}",
            ],
        ),
        (
            request("PUT", "/gone", "", ""),
            &["requests{(none),refused}"],
        ),
        (
            get("/.steadfast/operations/1"),
            &["requests{(operations),refused}"],
        ),
        (
            post("/status/201", KEYS[1]),
            &[
                "requests{all,success}",
                "keyed{all,executed}",
                "attempts{all,1,201}",
            ],
        ),
        (
            post("/status/201", KEYS[1]),
            &["requests{all,replayed}", "keyed{all,replayed}"],
        ),
        (
            request("POST", "/status/201", KEYS[1], "[]"),
            &["requests{all,conflict}", "keyed{all,mismatch}"],
        ),
        (
            post("/status/201", "11111111111111111111"),
            &["requests{all,refused}", "keyed{all,refused}"],
        ),
        (
            post("/status/422", KEYS[2]),
            &[
                "requests{all,client-error}",
                "keyed{all,executed}",
                "attempts{all,1,422}",
            ],
        ),
        (
            post("/status/503", KEYS[3]),
            &[
                "requests{all,server-error}",
                "keyed{all,released}",
                "attempts{all,1,503}",
            ],
        ),
        (
            post("/status/500", KEYS[4]),
            &[
                "requests{all,unknown}",
                "keyed{all,unknown}",
                "attempts{all,1,500}",
            ],
        ),
        (
            post("/status/500", KEYS[4]),
            &["requests{all,unknown}", "keyed{all,unknown}"],
        ),
        (
            post("/cut", KEYS[5]),
            &[
                "requests{all,unknown}",
                "keyed{all,unknown}",
                "attempts{all,1,reset}",
                "retries_skipped{all,maybe-executed}",
            ],
        ),
        (
            post("/cut", KEYS[5]),
            &["requests{all,unknown}", "keyed{all,unknown}"],
        ),
        (
            "GET / HTTP/1.1\r\nhost : h\r\n\r\n".to_owned(),
            &["malformed{}"],
        ),
    ]
}

/// `requests{all,success}` as it is written in full.
fn series(short: &str) -> String {
    let (name, values) = short.split_once('{').expect("labels");
    let values: Vec<&str> = values.trim_end_matches('}').split(',').collect();
    let labels: &[&str] = match name {
        "requests" | "keyed" => &["route", "outcome"],
        "attempts" => &["route", "attempt", "result"],
        "retries_skipped" => &["route", "reason"],
        _ => return format!("steadfast_{name}_total"),
    };
    let pairs = labels.iter().zip(values);
    let pairs: Vec<String> = pairs
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    format!("steadfast_{name}_total{{{}}}", pairs.join(","))
}

// rule: counters-move-as-they-say
#[test]
fn what_a_request_comes_to_moves_its_counters_by_one_and_no_others() {
    let (folder, service) = (Folder::new(), Obliging::open("s"));
    let top = "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nstore = \"memory:\"\n";
    let (to, gone) = (service.address(), nobody());
    folder.write(
        "s.toml",
        format!(
            "{top}[[route]]\nname = \"gone\"\npath = \"/gone\"\n\
             methods = [\"GET\", \"POST\"]\nto = \"http://{gone}\"\n\
             [[route]]\nname = \"all\"\npath = \"/status/{{n}}\"\nto = \"http://{to}\"\n\
             [[route]]\nname = \"all of it\"\npath = \"/half\"\nto = \"http://{to}\"\n\
             [[route]]\npath = \"/cut\"\nto = \"http://{to}\"\n"
        ),
    );
    let gateway = folder.gateway();
    let mut before = counts(&gateway.metrics(), &COUNTED);
    for (sent, moved) in cases() {
        let mut caller = Caller::to(gateway.data).expect("the gateway");
        caller.say(&sent);
        let answer = caller.rest();
        let after = counts(&gateway.metrics(), &COUNTED);
        let was = |series: &String| before.get(series).copied().unwrap_or(0.0);
        let by = after
            .iter()
            .map(|(series, now)| (series, now - was(series)));
        let by: Counts = by
            .filter(|(_, by)| *by != 0.0)
            .map(|(series, by)| (series.clone(), by))
            .collect();
        let path = sent.split(' ').nth(1).expect("a path");
        let own = match path {
            "/half" => "all of it",
            "/cut" => "/cut",
            _ => "all",
        };
        let expected = moved.iter().map(|short| series(&short.replace("all", own)));
        let expected: Counts = expected.map(|series| (series, 1.0)).collect();
        let said = String::from_utf8_lossy(&answer);
        assert_eq!(by, expected, "{sent}\n{said}");
        before = after;
    }
}

// rule: a-hold-and-its-waits-are-measured
#[test]
fn waiters_waits_and_holds_of_a_key_are_measured() {
    let (folder, ledger) = (Folder::new(), Ledger::open(Honours::Nothing));
    let config = Config {
        to: &ledger,
        top: "",
        idempotency: "",
    };
    folder.write("s.toml", config.text());
    let gateway = folder.gateway();
    ledger.hold();
    let order = Request::order(KEYS[0]);
    let mut callers: Vec<Caller> = Vec::new();
    for number in 0..3_u32 {
        let mut caller = Caller::to(gateway.data).expect("the gateway");
        caller.send(&order);
        callers.push(caller);
        until("its effect, or one more that waits", || {
            let waiting = count(&gateway.metrics(), "steadfast_waiters{kind=\"key\"}");
            let came = ledger.effects() == 1 && waiting == f64::from(number);
            came.then_some(())
        });
    }
    let upstream = ledger.address();
    let inflight = format!("steadfast_upstream_inflight{{upstream=\"{upstream}\"}}");
    assert_eq!(count(&gateway.metrics(), &inflight), 1.0);
    until("the record at work", || {
        let text = gateway.metrics();
        (count(&text, "steadfast_records{state=\"dispatched\"}") == 1.0).then_some(())
    });
    ledger.answer();
    for mut caller in callers {
        assert_eq!(caller.answer().expect("an answer").status, 201);
    }
    let text = until(
        "the end of the hold, and of its use of a connection",
        || {
            let text = gateway.metrics();
            let ended = count(&text, "steadfast_hold_seconds_count{kind=\"key\"}") == 1.0;
            (ended && count(&text, &inflight) == 0.0).then_some(text)
        },
    );
    let route = "route=\"/{*rest}\"";
    for (series, wanted) in [
        ("steadfast_waiters{kind=\"key\"}".to_owned(), 0.0),
        ("steadfast_wait_seconds_count{kind=\"key\"}".to_owned(), 2.0),
        (
            format!("steadfast_keyed_total{{{route},outcome=\"executed\"}}"),
            1.0,
        ),
        (
            format!("steadfast_keyed_total{{{route},outcome=\"joined\"}}"),
            2.0,
        ),
        (format!("steadfast_request_seconds_count{{{route}}}"), 3.0),
        (format!("steadfast_attempt_seconds_count{{{route}}}"), 1.0),
        (
            "steadfast_store_seconds_count{operation=\"insert\"}".to_owned(),
            3.0,
        ),
    ] {
        assert_eq!(count(&text, &series), wanted, "{series}\n{text}");
    }
}

#[test]
fn a_lease_that_its_holder_left_is_counted_under_that_holder() {
    let (folder, ledger) = (Folder::new(), Ledger::open(Honours::Nothing));
    let config = Config {
        to: &ledger,
        top: "",
        idempotency: "lease = \"1s\"",
    };
    folder.write("s.toml", config.text());
    let first = folder.gateway();
    ledger.hold();
    let mut caller = Caller::to(first.data).expect("the gateway");
    caller.send(&Request::order(KEYS[0]));
    until("the effect", || (ledger.effects() == 1).then_some(()));
    let owner = first.records()[0]["owner"]
        .as_str()
        .expect("an owner")
        .to_owned();
    let instance = owner.split('-').next().expect("an instance");
    first.kill();
    let second = folder.gateway();
    let series = format!("steadfast_leases_expired_total{{instance=\"{instance}\"}}");
    // The record is written down before it is told of.
    let text = until("the end of the lease to be counted", || {
        let text = second.metrics();
        let counted = !counts(&text, &["steadfast_leases_expired_total"]).is_empty();
        counted.then_some(text)
    });
    let unknown = "steadfast_records{state=\"unknown\"}";
    assert_eq!(count(&text, &series), 1.0, "{text}");
    until("the record to be unknown", || {
        (count(&second.metrics(), unknown) == 1.0).then_some(())
    });
}

#[test]
fn a_caller_who_leaves_before_the_answer_is_counted_as_that() {
    let (folder, ledger) = (Folder::new(), Ledger::open(Honours::Nothing));
    let config = Config {
        to: &ledger,
        top: "",
        idempotency: "",
    };
    folder.write("s.toml", config.text());
    let gateway = folder.gateway();
    ledger.hold();
    let mut caller = Caller::to(gateway.data).expect("the gateway");
    caller.send(&Request::post("/orders", None));
    until("the effect", || (ledger.effects() == 1).then_some(()));
    drop(caller);
    let route = "route=\"/{*rest}\"";
    let left = format!("steadfast_requests_total{{{route},outcome=\"caller-left\"}}");
    until("the leaving", || {
        (count(&gateway.metrics(), &left) == 1.0).then_some(())
    });
    // What was sent of a write ends by itself.
    ledger.answer();
    let ended = format!("steadfast_attempts_total{{{route},attempt=\"1\",result=\"201\"}}");
    until("the end of its attempt", || {
        (count(&gateway.metrics(), &ended) == 1.0).then_some(())
    });
}
