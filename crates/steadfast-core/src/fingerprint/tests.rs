//! Which requests are one request, and which are two (docs/keyed-requests.md, "Fingerprint").

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

mod forms;
mod json_bodies;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data; boundary=b";

fn secret(id: u32) -> FingerprintSecret {
    FingerprintSecret::new(id, &[id as u8; 32])
}

fn meaning() -> FingerprintOptions {
    FingerprintOptions::default()
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).expect("a field value"));
    }
    headers
}

fn fingerprint(
    target: &str,
    fields: &[(&'static str, &str)],
    body: &[u8],
    options: &FingerprintOptions,
) -> Fingerprint {
    let headers = headers(fields);
    let path_and_query = target.as_bytes();
    let request = RequestView {
        method: &Method::POST,
        path_and_query,
        headers: &headers,
        body,
    };
    Fingerprint::of(&request, options, &secret(1))
}

fn of_body(content_type: &str, body: &[u8]) -> Fingerprint {
    fingerprint("/", &[("content-type", content_type)], body, &meaning())
}

/// The bodies are one body under the content type.
fn one(content_type: &str, a: impl AsRef<[u8]>, b: impl AsRef<[u8]>) {
    let (a, b) = (a.as_ref(), b.as_ref());
    let equal = of_body(content_type, a) == of_body(content_type, b);
    assert!(
        equal,
        "{:?} and {:?}",
        String::from_utf8_lossy(a),
        String::from_utf8_lossy(b)
    );
}

/// The bodies are two bodies under the content type.
fn two(content_type: &str, a: impl AsRef<[u8]>, b: impl AsRef<[u8]>) {
    let (a, b) = (a.as_ref(), b.as_ref());
    let equal = of_body(content_type, a) == of_body(content_type, b);
    assert!(
        !equal,
        "{:?} and {:?}",
        String::from_utf8_lossy(a),
        String::from_utf8_lossy(b)
    );
}

#[test]
fn method_path_query_and_body_count() {
    let none = HeaderMap::new();
    let request = |method, target: &'static str, body: &'static str| {
        let (path_and_query, body) = (target.as_bytes(), body.as_bytes());
        let request = RequestView {
            method,
            path_and_query,
            headers: &none,
            body,
        };
        Fingerprint::of(&request, &meaning(), &secret(1))
    };
    let first = request(&Method::POST, "/a?x=1", "body");
    assert_eq!(first, request(&Method::POST, "/a?x=1", "body"));
    let others = [
        request(&Method::PATCH, "/a?x=1", "body"),
        request(&Method::POST, "/a?x=2", "body"),
        request(&Method::POST, "/a", "body"),
        request(&Method::POST, "/a?x=1", "bodY"),
        request(&Method::POST, "/a?x=1", ""),
        request(&Method::POST, "/a?x=1b", "ody"),
    ];
    for other in others {
        assert_ne!(first, other);
    }
}

#[test]
fn path_and_query_count_as_raw_bytes() {
    let target = |target| fingerprint(target, &[], b"", &meaning());
    assert_ne!(target("/~a"), target("/%7Ea"));
    assert_ne!(target("/%7ea"), target("/%7Ea"));
    assert_ne!(target("/?a=1&b=2"), target("/?b=2&a=1"));
    assert_ne!(target("/?"), target("/"));
}

#[test]
fn the_content_type_counts_without_its_parameters_and_case() {
    let typed = |value| fingerprint("/", &[("content-type", value)], b"x", &meaning());
    let first = typed("text/plain");
    for same in [
        "text/plain; charset=utf-8",
        "Text/PLAIN",
        "text/plain;a=b ;c",
        " text/plain ;x",
    ] {
        assert_eq!(first, typed(same), "{same}");
    }
    assert_ne!(first, typed("text/html"));
    assert_ne!(first, typed(""));
    assert_ne!(typed(""), fingerprint("/", &[], b"x", &meaning()));
}

#[test]
fn conditions_count_and_absent_is_not_empty() {
    let fields = |fields: &[(&'static str, &str)]| fingerprint("/", fields, b"x", &meaning());
    let seen = [
        fields(&[]),
        fields(&[("if-match", "")]),
        fields(&[("if-match", "\"a\"")]),
        fields(&[("if-match", "\"b\"")]),
        fields(&[("if-match", "\"a\""), ("if-match", "\"b\"")]),
        fields(&[("if-match", "\"a\"\"b\"")]),
        fields(&[("if-none-match", "\"a\"")]),
        fields(&[("if-unmodified-since", "\"a\"")]),
        fields(&[("if-match", "\"a\""), ("if-none-match", "\"b\"")]),
        fields(&[("if-none-match", "\"a\""), ("if-match", "\"b\"")]),
    ];
    for (place, a) in seen.iter().enumerate() {
        for b in &seen[place + 1..] {
            assert_ne!(a, b);
        }
    }
}

#[test]
fn other_header_fields_do_not_count() {
    let plain = fingerprint("/", &[], b"x", &meaning());
    for name in [
        "authorization",
        "date",
        "user-agent",
        "traceparent",
        "if-modified-since",
        "accept",
    ] {
        assert_eq!(
            plain,
            fingerprint("/", &[(name, "x")], b"x", &meaning()),
            "{name}"
        );
    }
}

#[test]
fn a_body_with_a_content_encoding_counts_by_its_bytes() {
    let coded = |coding: &str, body: &str| {
        let fields = [("content-type", JSON), ("content-encoding", coding)];
        fingerprint("/", &fields, body.as_bytes(), &meaning())
    };
    assert_ne!(coded("gzip", "{}"), coded("gzip", "{ }"));
    assert_ne!(
        coded("identity, gzip", "{}"),
        coded("identity, gzip", "{ }")
    );
    assert_eq!(coded("identity", "{}"), coded("Identity", "{ }"));
    assert_eq!(coded("", "{}"), coded("identity", "{}"));
    let fields = [
        ("content-type", JSON),
        ("content-encoding", "identity"),
        ("content-encoding", "br"),
    ];
    let split = |body: &str| fingerprint("/", &fields, body.as_bytes(), &meaning());
    assert_ne!(split("{}"), split("{ }"));
}

#[test]
fn two_content_types_are_read_by_bytes() {
    let fields = [("content-type", JSON), ("content-type", JSON)];
    let twice = |body: &str| fingerprint("/", &fields, body.as_bytes(), &meaning());
    assert_ne!(twice("{}"), twice("{ }"));
    assert_ne!(twice("{}"), of_body(JSON, b"{}"));
}

#[test]
fn the_setting_bytes_reads_every_body_by_its_bytes() {
    let bytes = FingerprintOptions::new(BodyMode::Bytes, []).unwrap();
    let table = [(JSON, "{}", "{ }"), (FORM, "a=1&b=2", "b=2&a=1")];
    for (content_type, a, b) in table {
        let read = |body: &str, options: &FingerprintOptions| {
            fingerprint(
                "/",
                &[("content-type", content_type)],
                body.as_bytes(),
                options,
            )
        };
        assert_eq!(read(a, &meaning()), read(b, &meaning()));
        assert_ne!(read(a, &bytes), read(b, &bytes));
        assert_ne!(read(a, &bytes).digest, read(a, &meaning()).digest);
    }
}

#[test]
fn a_body_by_bytes_is_never_a_body_by_meaning() {
    // The encoding of `null`, sent as a body that is not JSON.
    assert_ne!(of_body(JSON, b"n").digest, of_body(JSON, b"null").digest);
    assert_ne!(of_body(FORM, b"\x00").digest, of_body(FORM, b"").digest);
}

#[test]
fn a_comparison_uses_the_records_options_and_secret() {
    let headers = headers(&[("content-type", JSON)]);
    let request = |body: &'static str| RequestView {
        method: &Method::POST,
        path_and_query: b"/",
        headers: &headers,
        body: body.as_bytes(),
    };
    let secrets = [secret(2), secret(1)];
    let ignoring = FingerprintOptions::new(BodyMode::Meaning, ["/t"]).unwrap();
    let bytes = FingerprintOptions::new(BodyMode::Bytes, []).unwrap();
    let first = r#"{"a":1,"t":1}"#;
    let by_old_secret = Fingerprint::of(&request(first), &meaning(), &secret(1));
    let by_ignoring = Fingerprint::of(&request(first), &ignoring, &secret(2));
    let by_bytes = Fingerprint::of(&request(first), &bytes, &secret(2));
    let table = [
        (&by_old_secret, first, true),
        (&by_old_secret, r#"{"t":1,"a":1}"#, true),
        (&by_old_secret, r#"{"a":1,"t":2}"#, false),
        (&by_ignoring, r#"{"a":1,"t":2}"#, true),
        (&by_ignoring, r#"{"a":2,"t":1}"#, false),
        (&by_bytes, first, true),
        (&by_bytes, r#"{"t":1,"a":1}"#, false),
    ];
    for (record, body, same) in table {
        assert_eq!(record.matches(&request(body), &secrets), Ok(same), "{body}");
    }
    let lost = by_old_secret.matches(&request(first), &[secret(2)]);
    assert_eq!(lost, Err(Unreadable::Secret(1)));
    // The same number with other bytes is another secret, and nothing matches.
    let replaced = FingerprintSecret::new(1, &[9; 32]);
    assert_eq!(
        by_old_secret.matches(&request(first), &[replaced]),
        Ok(false)
    );
}

#[test]
fn a_fingerprint_of_a_newer_version_is_unreadable_not_different() {
    let text = of_body(JSON, b"{}").to_text();
    let newer = Fingerprint::from_text(&text.replacen("1:", "2:", 1)).unwrap();
    let headers = HeaderMap::new();
    let method = &Method::POST;
    let request = RequestView {
        method,
        path_and_query: b"/",
        headers: &headers,
        body: b"",
    };
    assert_eq!(
        newer.matches(&request, &[secret(1)]),
        Err(Unreadable::Version(2))
    );
}

/// Stored fingerprints are compared with these: version 1 may never change.
#[test]
fn the_digest_of_version_1_stays_as_it_is() {
    let fields = [("content-type", JSON), ("if-match", "\"a\"")];
    let body = r#"{"n":[1.50,0,-2e3,null,true,false],"a":"\u00e9"}"#.as_bytes();
    let digest = "5bb740e5a019b937e7957b46f2b1d7b985a1af555353ba094366201a07fd2cc5";
    let text = fingerprint("/a?b", &fields, body, &meaning()).to_text();
    assert_eq!(text, format!("1:1:meaning:{digest}"));
}

#[test]
fn the_stored_text_is_read_back_and_no_other_text_is() {
    let pointers = ["/t", "/a~1b,c:%d/\u{e9}/0"];
    let options = FingerprintOptions::new(BodyMode::Meaning, pointers).unwrap();
    for options in [
        meaning(),
        options,
        FingerprintOptions::new(BodyMode::Bytes, []).unwrap(),
    ] {
        let record = fingerprint("/", &[], b"x", &options);
        let text = record.to_text();
        assert!(text.bytes().all(|b| b.is_ascii_graphic()), "{text}");
        assert_eq!(Fingerprint::from_text(&text), Ok(record));
    }
    let hex = "ab".repeat(32);
    assert!(Fingerprint::from_text(&format!("1:1:meaning:{hex}:/t")).is_ok());
    let table = [
        String::new(),
        format!("1:1:meaning:{hex}:"),
        format!("1:1:meaning:{hex} "),
        format!("1:1:meaning:{hex}0"),
        format!("1:1:meaning:{}", &hex[2..]),
        format!("1:1:meaning:{}", hex.to_uppercase()),
        format!("1:1:meaning:{}", hex.replace("ab", "+b")),
        format!("1:1:meaning:{}", hex.replace("ab", "\u{e9}")),
        format!("01:1:meaning:{hex}"),
        format!("1:+1:meaning:{hex}"),
        format!("256:1:meaning:{hex}"),
        format!("1:4294967296:meaning:{hex}"),
        format!("1:1:Meaning:{hex}"),
        format!("1:1:bytes:{hex}:/t"),
        format!("1:1:meaning:{hex}:t"),
        format!("1:1:meaning:{hex}:/t,/a"),
        format!("1:1:meaning:{hex}:/t,/t"),
        format!("1:1:meaning:{hex}:/%74"),
        format!("1:1:meaning:{hex}:/%FF"),
        format!("1:1:meaning:{hex}:/%"),
        format!("1:1:meaning:{hex}:/a b"),
    ];
    for text in table {
        assert_eq!(Fingerprint::from_text(&text), Err(TextError), "{text}");
    }
}

#[test]
fn options_refuse_what_cannot_be_ignored_and_say_the_next_step() {
    let table = [
        ("", "name a part"),
        ("sent_at", "begins with `/`"),
        ("/a~", "`~0`"),
        ("/a~2b", "`~0`"),
        ("/~\u{e9}", "`~0`"),
    ];
    for (pointer, step) in table {
        let message = FingerprintOptions::new(BodyMode::Meaning, [pointer])
            .unwrap_err()
            .to_string();
        assert!(message.contains(step), "{message}");
    }
    let in_bytes = FingerprintOptions::new(BodyMode::Bytes, ["/a"]);
    assert_eq!(in_bytes, Err(OptionsError::IgnoredInBytes));
    let many: Vec<String> = (0..33).map(|n| format!("/{n}")).collect();
    let of = |count| {
        FingerprintOptions::new(BodyMode::Meaning, many[..count].iter().map(String::as_str))
    };
    assert!(of(32).is_ok());
    assert_eq!(of(33), Err(OptionsError::TooMany));
}

#[test]
fn secrets_are_not_shown() {
    assert_eq!(format!("{:?}", secret(3)), "FingerprintSecret(3)");
}

proptest! {
    #[test]
    fn any_bytes_have_a_fingerprint_under_any_type(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        content_type in prop_oneof![Just(JSON), Just(FORM), Just(MULTIPART), Just("x/y+json")],
    ) {
        prop_assert_eq!(of_body(content_type, &body), of_body(content_type, &body));
    }

    #[test]
    fn any_text_is_a_stored_fingerprint_or_refused(text in "[0-9a-f:/,%~ meaning]{0,90}") {
        if let Ok(record) = Fingerprint::from_text(&text) {
            prop_assert_eq!(record.to_text(), text);
        }
    }
}
