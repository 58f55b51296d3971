//! Forms and multipart bodies.

use super::*;

#[test]
fn form_pairs_are_sorted_by_name_and_ordered_within_a_name() {
    one(FORM, "a=1&b=2", "b=2&a=1");
    one(FORM, "a=1&b=2&a=3", "b=2&a=1&a=3");
    one(FORM, "a=1&a=3&b=2", "a=1&b=2&a=3");
    two(FORM, "a=1&a=3", "a=3&a=1");
    two(FORM, "a=1", "a=1&a=1");
    two(FORM, "a=1&b=2", "a=2&b=1");
}

#[test]
fn form_escapes_are_what_they_spell() {
    one(FORM, "a=x+y", "a=x%20y");
    one(FORM, "%61=%41", "a=A");
    one(FORM, "a=%c3%a9", "a=\u{e9}");
    one(FORM, "b=1&%61=2", "a=2&b=1");
    one(FORM, "&a=1&&b=2&", "a=1&b=2");
    two(FORM, "a=x%2By", "a=x+y");
    two(FORM, "a=%26b=1", "a=&b=1");
    two(FORM, "a=b=c", "a=b&c=");
    two(FORM, "a%3Db=c", "a=b%3Dc");
    two(FORM, "a", "a=");
    two(FORM, "a=%2541", "a=%41");
}

#[test]
fn a_malformed_form_counts_by_its_bytes() {
    for tail in ["%", "%4", "%zz", "%+1"] {
        two(FORM, format!("a=1&b={tail}"), format!("b={tail}&a=1"));
    }
    let many = |first: &str, last: &str| format!("{first}&{}{last}", "x&".repeat(16_383));
    two(FORM, many("a", "b"), many("b", "a"));
}

fn multipart(boundary: &str, parts: &[(&str, &str)]) -> Vec<u8> {
    let mut body = String::new();
    for (head, content) in parts {
        body.push_str(&format!("--{boundary}\r\n{head}\r\n\r\n{content}\r\n"));
    }
    body.push_str(&format!("--{boundary}--\r\n"));
    body.into_bytes()
}

const PARTS: [(&str, &str); 2] = [
    ("Content-Disposition: form-data; name=\"a\"", "1"),
    (
        "Content-Disposition: form-data; name=\"f\"; filename=\"x.txt\"\r\n\
         Content-Type: text/plain",
        "2",
    ),
];

#[test]
fn the_multipart_boundary_does_not_count() {
    let with = |boundary: &str, parameter: &str| {
        let content_type = format!("multipart/form-data; {parameter}");
        of_body(&content_type, &multipart(boundary, &PARTS))
    };
    let first = with("b", "boundary=b");
    assert_eq!(first, with("----xyz", "boundary=----xyz"));
    assert_eq!(first, with("a b:c", "charset=utf-8; Boundary=\"a b:c\""));
    let shorter = of_body(MULTIPART, multipart("b", &PARTS).trim_ascii_end());
    assert_eq!(first, shorter);
}

#[test]
fn multipart_parts_count_in_order_by_name_filename_type_and_bytes() {
    let first = multipart("b", &PARTS);
    let disposition = "Content-Disposition: form-data; name=\"f\"; filename=\"x.txt\"";
    let changed: [&[(&str, &str)]; 9] = [
        &[PARTS[1], PARTS[0]],
        &[PARTS[0]],
        &[PARTS[0], PARTS[1], PARTS[1]],
        &[(PARTS[0].0, "2"), PARTS[1]],
        &[
            ("Content-Disposition: form-data; name=\"b\"", "1"),
            PARTS[1],
        ],
        &[PARTS[0], (disposition, "2")],
        &[
            PARTS[0],
            (&format!("{disposition}\r\nContent-Type: text/html"), "2"),
        ],
        &[
            PARTS[0],
            (
                "Content-Disposition: form-data; name=\"f\"\r\nContent-Type: text/plain",
                "2",
            ),
        ],
        &[
            PARTS[0],
            (&PARTS[1].0.replace("filename=", "filename*="), "2"),
        ],
    ];
    for parts in changed {
        two(MULTIPART, &first, multipart("b", parts));
    }
}

#[test]
fn the_spelling_of_multipart_fields_does_not_count() {
    let first = multipart("b", &PARTS);
    let heads = [
        "content-disposition:form-data;name=a",
        "CONTENT-DISPOSITION: Form-Data ; NAME=\"a\";",
        "Content-Length: 1\r\nContent-Disposition: form-data; name=\"a\"",
        "Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: BINARY",
        "X-Other: ignored by forms\r\nContent-Disposition: form-data; name=\"a\"",
    ];
    for head in heads {
        one(MULTIPART, &first, multipart("b", &[(head, "1"), PARTS[1]]));
    }
    let padded = String::from_utf8(first.clone())
        .unwrap()
        .replacen("--b\r\n", "--b \t\r\n", 2);
    one(MULTIPART, &first, padded);
}

#[test]
fn multipart_bytes_may_hold_anything_but_the_delimiter() {
    let nested = ["x--b", "\r\n--", "\r\r\n-b", "", "\r\n", "\n--b--"];
    for a in nested {
        for b in nested {
            let body = |content| multipart("b", &[(PARTS[0].0, content)]);
            assert_eq!(
                a == b,
                of_body(MULTIPART, &body(a)) == of_body(MULTIPART, &body(b))
            );
            let other = of_body(
                "multipart/form-data; boundary=c",
                &multipart("c", &[(PARTS[0].0, a)]),
            );
            assert_eq!(of_body(MULTIPART, &body(a)), other, "{a:?}");
        }
    }
}

#[test]
fn a_malformed_multipart_body_counts_by_its_bytes() {
    let head = PARTS[0].0;
    let bodies = [
        "preamble\r\n--b\r\nHEAD\r\n\r\n1\r\n--b--",
        "--b\r\nHEAD\r\n\r\n1\r\n--b--\r\nepilogue",
        "--b\r\nHEAD\r\n\r\n1\r\n--b",
        "--b\r\nHEAD\r\n\r\n1\r\n",
        "--b\nHEAD\n\n1\n--b--",
        "--b\r\nHEAD\r\n1\r\n--b--",
        "--b\r\nHEAD\r\nHEAD\r\n\r\n1\r\n--b--",
        "--b\r\nHEAD; name=c\r\n\r\n1\r\n--b--",
        "--b\r\nHEAD; size=1\r\n\r\n1\r\n--b--",
        "--b\r\nHEAD\r\n folded\r\n\r\n1\r\n--b--",
        "--b\r\nHEAD\r\nContent-Transfer-Encoding: base64\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Type: text/plain\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--b--",
        "--b\r\n\r\n1\r\n--b--",
        "--b--",
        "--bx\r\nHEAD\r\n\r\n1\r\n--bx--",
        "",
    ];
    let options = FingerprintOptions::new(BodyMode::Bytes, []).unwrap();
    let types = [
        MULTIPART,
        "multipart/form-data",
        "multipart/form-data; boundary=\"\"",
    ];
    for (place, body) in bodies.iter().enumerate() {
        let body = body.replace("HEAD", head);
        let by_bytes = fingerprint(
            "/",
            &[("content-type", MULTIPART)],
            body.as_bytes(),
            &options,
        );
        let by_meaning = of_body(MULTIPART, body.as_bytes());
        assert_eq!(by_bytes.digest, by_meaning.digest, "{place}: {body}");
    }
    let well_formed = multipart("b", &PARTS);
    let by_bytes = fingerprint("/", &[("content-type", MULTIPART)], &well_formed, &options);
    for content_type in types {
        let by_meaning = of_body(content_type, &well_formed);
        let equal = by_bytes.digest == by_meaning.digest;
        assert_eq!(equal, content_type != MULTIPART, "{content_type}");
    }
}

#[test]
fn parts_of_other_multipart_types_count_by_their_bytes_where_a_field_is_unknown() {
    let body = |boundary: &str, field: &str| {
        let content_type = format!("multipart/mixed; boundary={boundary}");
        of_body(&content_type, &multipart(boundary, &[(field, "1")]))
    };
    assert_eq!(
        body("b", "Content-Type: a/b"),
        body("c", "Content-Type: a/b")
    );
    assert_ne!(
        body("b", "Content-Type: a/b"),
        body("b", "Content-Type: a/c")
    );
    assert_ne!(body("b", "Content-ID: <1>"), body("c", "Content-ID: <1>"));
    assert_ne!(body("b", "Content-ID: <1>"), body("b", "Content-ID: <2>"));
}

proptest! {
    #[test]
    fn a_form_keeps_its_fingerprint_when_names_change_places(
        pairs in proptest::collection::vec(("[a-d]", "[a-z%&=+ ]{0,5}"), 0..8),
        from in 0usize..8,
    ) {
        let spell = |pairs: &[(String, String)]| {
            let escape = |text: &str| text.bytes().map(|b| format!("%{b:02X}")).collect::<String>();
            let texts: Vec<String> =
                pairs.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
            texts.join("&")
        };
        let mut moved = pairs.clone();
        moved.sort_by_key(|(name, _)| (name.as_bytes()[0] as usize + from) % 4);
        prop_assert_eq!(
            of_body(FORM, spell(&pairs).as_bytes()),
            of_body(FORM, spell(&moved).as_bytes())
        );
    }

    #[test]
    fn almost_multipart_bytes_never_panic(
        body in "(--b|--|\r\n|\r|[a: ;=\"\\\\]|name|Content-Disposition: form-data){0,30}",
    ) {
        let _ = of_body(MULTIPART, body.as_bytes());
    }
}
