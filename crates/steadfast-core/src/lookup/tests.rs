//! What is asked for a record, and what the answer means.

use super::*;
use crate::fingerprint::{Fingerprint, FingerprintOptions, FingerprintSecret, RequestView};
use crate::key::{Operation, ScopeHash, Tenant};
use crate::policy::OnUnknown;
use crate::record::{self, Kept, OperationId, Owner, Request, Start};
use crate::time::WallTime;

fn row(key: &str, path: &str, values: &[(&str, &str)]) -> Record {
    let view = RequestView {
        method: &Method::POST,
        path_and_query: path.as_bytes(),
        headers: &HeaderMap::new(),
        body: b"{}",
    };
    let secret = FingerprintSecret::new(1, &[7; 32]);
    let values = values
        .iter()
        .map(|(at, text)| ((*at).to_owned(), (*text).to_owned()));
    let request = Request {
        scope: ScopeHash::from_bytes([1; 32]),
        id: OperationId::from_bits(1),
        tenant: Tenant::anonymous(),
        principal_rule: "authorization".to_owned(),
        operation: Operation::new(&Method::POST, path),
        key: Key::from_stored(key).unwrap(),
        fingerprint: Fingerprint::of(&view, &FingerprintOptions::default(), &secret),
        on_unknown: OnUnknown::Lookup,
        lease: Duration::from_secs(30),
        retention: Duration::from_secs(3600),
        compensates: false,
        owner: Owner::new(1, 1),
        kept: Some(Box::new(Kept {
            request: None,
            values: values.collect(),
        })),
    };
    let mut row = record::reserve(&request, Start::Dispatched, WallTime::from_unix_ms(1));
    row.standing.fence = 77;
    row
}

fn captures() -> Vec<Capture> {
    let capture = |name: &str, at, is_rest| Capture {
        name: name.to_owned(),
        at,
        is_rest,
    };
    vec![capture("shop", 1, false), capture("rest", 2, true)]
}

fn lookup(found_at: Option<&str>, answer_at: Option<&str>) -> Lookup {
    Lookup {
        method: Method::GET,
        path: Template::path("/by/{key}", &[]).unwrap(),
        headers: None,
        found: vec![StatusCode::OK],
        found_at: found_at.map(str::to_owned),
        answer_at: answer_at.map(str::to_owned),
        absent: vec![StatusCode::NOT_FOUND],
        settle: SETTLE,
    }
}

// rule: a-place-s-value-stands-as-one-segment-or-one-value-and-leads-nowhere-else
#[test]
fn a_value_stands_as_one_segment_or_one_value_and_leads_nowhere_else() {
    let path = |template: &str, key: &str, path: &str, value: &str| {
        let row = row(key, path, &[("/order", value)]);
        let template = Template::path(template, &captures()).expect(template);
        template.path_of(&row).map_err(|why| why.to_string())
    };
    let fine = [
        ("/by/{key}", "k-1", "/v1/a/b", "", "/by/k-1"),
        (
            "/by/{key}",
            "a b?c#d&e=f%",
            "/v1/a/b",
            "",
            "/by/a%20b%3Fc%23d%26e%3Df%25",
        ),
        (
            "/by?k={key}&f={fence}",
            "a/b&c",
            "/v1/a/b",
            "",
            "/by?k=a%2Fb%26c&f=77",
        ),
        (
            "/{shop}/{rest}",
            "k",
            "/v1/a%20b/c/d%3f",
            "",
            "/a%20b/c/d%3F",
        ),
        ("/x?at={rest}", "k", "/v1/a/c/d", "", "/x?at=c%2Fd"),
        ("/o/{body:/order}", "k", "/v1/a/b", "ü7", "/o/%C3%BC7"),
        (
            "/o/{body:/order}.json",
            "k",
            "/v1/a/b",
            "a.b",
            "/o/a.b.json",
        ),
    ];
    for (template, key, request, value, expected) in fine {
        assert_eq!(path(template, key, request, value).as_deref(), Ok(expected));
    }
    let refused = [
        ("/by/{key}", "../admin", "/v1/a/b", ""),
        ("/by/{key}", "..", "/v1/a/b", ""),
        ("/o/{body:/order}", "k", "/v1/a/b", ""),
        ("/o/{body:/order}", "k", "/v1/a/b", "."),
        ("/o/{body:/order}", "k", "/v1/a/b", "a\\b"),
        ("/o/{body:/order}", "k", "/v1/a/b", "a\0b"),
        ("/o/{body:/order}{body:/order}", "k", "/v1/a/b", "."),
        ("/o?x={body:/order}", "k", "/v1/a/b", ""),
        ("/o/{body:/other}", "k", "/v1/a/b", "1"),
        ("/{shop}", "k", "/v1/a%2Fb/c", ""),
        ("/{rest}", "k", "/v1/a/b%2Fc", ""),
    ];
    for (template, key, request, value) in refused {
        assert!(
            path(template, key, request, value).is_err(),
            "{template} {key} {value}"
        );
    }
}

#[test]
fn the_scoped_key_tells_nothing_of_the_scope_and_differs_by_it() {
    let path = |scope: u8| {
        let mut row = row("k", "/a", &[]);
        row.scope = ScopeHash::from_bytes([scope; 32]);
        let template = Template::path("/{scoped_key}", &[]).unwrap();
        template.path_of(&row).unwrap()
    };
    assert_eq!(path(1).len(), 65);
    assert_ne!(path(1), path(2));
    assert!(!path(1).contains(&ScopeHash::from_bytes([1; 32]).to_string()));
    assert_eq!(path(3), path(3));
}

#[test]
fn in_a_body_a_value_is_escaped_in_a_text_and_whole_elsewhere() {
    let body = |template: &str, value: &str| {
        let row = row("k\"1", "/a", &[("/v", value)]);
        Template::json(template, &[]).expect(template).json_of(&row)
    };
    let table = [
        ("{ \"a\": \"x{key}y\" }", "", "{ \"a\": \"xk\\\"1y\" }"),
        (
            "{ \"a\": \"{body:/v}\" }",
            "1\",\"b\":\"2",
            "{ \"a\": \"1\\\",\\\"b\\\":\\\"2\" }",
        ),
        ("{ \"a\": {body:/v} }", "12.50", "{ \"a\": 12.50 }"),
        (
            "{ \"a\": {body:/v} }",
            "1, \"b\": 2",
            "{ \"a\": \"1, \\\"b\\\": 2\" }",
        ),
        ("{ \"a\": {body:/v} }", "true", "{ \"a\": true }"),
        (
            "{ \"a\\\"\": [{body:/v}, {}] }",
            "x",
            "{ \"a\\\"\": [\"x\", {}] }",
        ),
    ];
    for (template, value, expected) in table {
        assert_eq!(body(template, value).as_deref(), Ok(expected));
    }
    let long = format!("\"{}\"", "x".repeat(LONGEST_TEMPLATE - 2));
    assert!(Template::json(&long, &[]).is_ok());
    assert!(Template::json(&format!("{long} "), &[]).is_err());
    for wrong in ["{", "{ \"a\": {kee} }", "{key", "", "{ \"a\": {body:v} }"] {
        assert!(Template::json(wrong, &[]).is_err(), "{wrong}");
    }
}

// rule: only-what-the-route-says-tells-of-an-outcome
#[test]
fn only_what_the_route_says_means_there_or_not_there() {
    let json = |text: &'static str| Bytes::from_static(text.as_bytes());
    let found = Some("/data/0");
    let table = [
        (200, None, json("{}"), "found"),
        (200, None, json("garbage"), "found"),
        (200, found, json("{\"data\":[{\"id\":1}]}"), "found"),
        (200, found, json("{\"data\":[0]}"), "found"),
        (200, found, json("{\"data\":[]}"), "unclear"),
        (200, found, json("{\"data\":[null]}"), "unclear"),
        (200, found, json("{\"data\":[{\"id\":1}"), "unclear"),
        (200, found, json("garbage"), "unclear"),
        (200, found, json(""), "unclear"),
        (404, found, json("{\"data\":[{\"id\":1}]}"), "absent"),
        (404, None, json(""), "absent"),
        (201, None, json("{}"), "unclear"),
        (204, None, json(""), "unclear"),
        (302, None, json(""), "unclear"),
        (401, None, json(""), "unclear"),
        (410, None, json(""), "unclear"),
        (500, None, json(""), "unclear"),
        (503, None, json(""), "unclear"),
    ];
    for (status, found_at, body, expected) in table {
        let status = StatusCode::from_u16(status).unwrap();
        let (seen, detail) = lookup(found_at, None).read(status, &HeaderMap::new(), &body);
        let word = match seen {
            Seen::Found(_) => "found",
            Seen::Absent => "absent",
            Seen::Unclear => "unclear",
        };
        assert_eq!(word, expected, "{status} {body:?}");
        assert!(
            detail.starts_with(&format!("status {}", status.as_u16())),
            "{detail}"
        );
    }
}

#[test]
fn a_gateway_on_the_way_that_knows_no_such_path_knows_nothing_of_the_operation() {
    let mut headers = HeaderMap::new();
    let problem = HeaderValue::from_static("application/problem+json");
    headers.insert(header::CONTENT_TYPE, problem);
    let seen = |body: &'static str| {
        let body = Bytes::from_static(body.as_bytes());
        lookup(None, None)
            .read(StatusCode::NOT_FOUND, &headers, &body)
            .0
    };
    assert_eq!(
        seen("{\"type\":\"urn:steadfast:problem:no-route\"}"),
        Seen::Unclear
    );
    assert_eq!(
        seen("{\"type\":\"https://example.org/no-such-charge\"}"),
        Seen::Absent
    );
}

#[test]
fn the_answer_is_the_look_up_s_own_or_the_part_that_is_named() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "application/vnd.list+json"),
        ("set-cookie", "a=b"),
        ("connection", "close"),
        ("etag", "\"of-the-list\""),
        ("x-charge", "7"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let body = Bytes::from_static(b"{\"data\":[{\"b\": 1.0,\"a\":99999999999999999999}]}");
    let answer = |answer_at| {
        let lookup = lookup(Some("/data/0"), answer_at);
        match lookup.read(StatusCode::OK, &headers, &body).0 {
            Seen::Found(answer) => answer,
            other => panic!("{other:?}"),
        }
    };
    let whole = answer(None);
    assert_eq!((whole.status, &whole.body), (StatusCode::OK, &body));
    assert_eq!(whole.headers["content-type"], "application/vnd.list+json");
    assert!(!whole.headers.contains_key("set-cookie"));
    assert!(!whole.headers.contains_key("connection"));
    let part = answer(Some("/data/0"));
    assert_eq!(part.body, "{\"b\": 1.0,\"a\":99999999999999999999}");
    assert_eq!(part.headers["content-type"], "application/json");
    assert_eq!(part.headers["x-charge"], "7");
    assert!(!part.headers.contains_key("etag"));
    let none = lookup(Some("/data/0"), Some("/data/0/answer"));
    assert_eq!(none.read(StatusCode::OK, &headers, &body).0, Seen::Unclear);
}

#[test]
fn what_a_template_needs_of_a_body_is_taken_once_and_as_it_was_written() {
    let template = |text: &str| Template::path(text, &[]).unwrap();
    let asks = Lookup {
        path: template("/{body:/id}/{body:/n}/{body:/deep~1er/0}/{body:/o}/{body:/null}"),
        ..lookup(None, None)
    };
    let undo = Compensate {
        method: Method::POST,
        path: template("/{body:/id}"),
        body: Some(Template::json("{\"a\":\"{body:/on}\"}", &[]).unwrap()),
        headers: HeaderMap::new(),
        settle: SETTLE,
    };
    let body =
        b"{\"id\":\"a\\u0062\",\"n\":1.50,\"deep/er\":[\"x\"],\"o\":{},\"null\":null,\"on\":true}";
    let pair = |at: &str, text: &str| (at.to_owned(), text.to_owned());
    let taken = [
        pair("/id", "ab"),
        pair("/n", "1.50"),
        pair("/deep~1er/0", "x"),
        pair("/on", "true"),
    ];
    assert_eq!(values(Some(&asks), Some(&undo), body), taken);
    assert_eq!(values(None, None, body), []);
    assert_eq!(values(Some(&asks), None, b"no JSON"), []);
    let long = format!("{{\"id\":\"{}\"}}", "x".repeat(LONGEST_VALUE + 1));
    assert_eq!(values(Some(&asks), None, long.as_bytes()), []);
}

#[test]
fn look_ups_come_after_1s_2s_4s_and_60s_at_most() {
    let pauses = [0, 1, 2, 3, 4, 5, 6, 7, 31, 32, u32::MAX].map(|n| pause_after(n).as_secs());
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]);
}

#[test]
fn one_attempt_s_compensation_has_one_key_however_often_it_is_sent() {
    let first = row("k", "/a", &[]);
    let mut again = first.clone();
    again.version += 7;
    assert_eq!(Compensate::key(&first), Compensate::key(&again));
    again.standing.fence += 1;
    assert_ne!(Compensate::key(&first), Compensate::key(&again));
    assert_ne!(Compensate::key(&first).unwrap().as_str(), "k");
}
