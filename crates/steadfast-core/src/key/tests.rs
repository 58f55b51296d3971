//! The rules of docs/keyed-requests.md, "Key" and "Scope": one table each, and the million random
//! keys.

use proptest::prelude::*;

use super::*;

mod random;
mod scopes;

const UUID: &str = "0b9e29b0-6f3c-4f0c-9c6e-2a9e4f1d7c55";

/// Rules that look at syntax alone.
fn any_key() -> KeyRules {
    KeyRules {
        length: 1..=255,
        min_entropy_bits: 0,
    }
}

fn parse(value: &str, rules: &KeyRules) -> Result<Option<Key>, KeyError> {
    Key::parse([value.as_bytes()], rules)
}

fn text(value: &str) -> String {
    let key = parse(value, &any_key()).unwrap_or_else(|e| panic!("{value:?}: {e}"));
    key.expect("a line came").as_str().to_owned()
}

#[test]
fn no_key_line_is_no_key() {
    assert_eq!(Key::parse([], &KeyRules::default()), Ok(None));
}

#[test]
fn quoted_and_bare_are_the_same_key_after_unquoting() {
    let table = [
        ("abc", "abc"),
        ("  abc\t", "abc"),
        ("\"abc\"", "abc"),
        (" \"abc\" ", "abc"),
        (r#""a\"b\\c""#, r#"a"b\c"#),
        ("\"a,b\"", "a,b"),
        ("\"a b;c\"", "a b;c"),
        ("\" \"", " "),
        (r"a\b", r"a\b"),
        ("a=b:c/d+e'(f)", "a=b:c/d+e'(f)"),
    ];
    for (value, key) in table {
        assert_eq!(text(value), key, "{value:?}");
    }
}

#[test]
fn parameters_of_a_key_are_ignored() {
    let parameters = [
        ";a",
        "; a",
        ";a;b",
        ";a=1",
        ";a=-1.5",
        ";a=\"x,y\\\"\"",
        ";a=tok/en:x",
        ";*a.b-c_d=?1",
        ";a=:aGk=:",
        ";a=@1659578233",
        ";a=%\"f%c3%bc\"",
        ";a=*t",
    ];
    for tail in parameters {
        assert_eq!(text(&format!("\"abc\"{tail}")), "abc", "{tail}");
        assert_eq!(text(&format!("abc{tail}")), "abc", "{tail}");
    }
}

#[test]
fn a_malformed_key_is_refused() {
    let table = [
        "\"abc",
        "\"abc\\",
        "\"a\\bc\"",
        "\"abc\"x",
        "\"abc\" x",
        "abc def",
        "ab\"c\"",
        "abc\"",
        "a\u{e9}",
        "\"\u{e9}\"",
        "\"a\tb\"",
        "\"abc\";",
        "abc;",
        "abc;A",
        "abc;a=",
        "abc;a=,",
        "abc;a=1.",
        "abc;a=1.2345",
        "abc;a=1234567890123456",
        "abc;a=?2",
        "abc;a=:x",
        "abc;a=\"x",
        "abc;a=%\"%GG\"",
        "abc;a=@1.5",
        "abc ;a",
        "abc;a b",
        "a\u{7f}",
        "abc;a=%x",
    ];
    for value in table {
        let got = parse(value, &any_key());
        assert!(
            matches!(got, Err(KeyError::Malformed { .. })),
            "{value:?}: {got:?}"
        );
    }
    let wrong = Key::parse([&b"\xff\xfe\x00"[..]], &any_key());
    assert!(
        matches!(wrong, Err(KeyError::Malformed { .. })),
        "{wrong:?}"
    );
}

#[test]
fn an_empty_key_is_refused() {
    for value in ["", "  ", "\"\"", "\"\";a=1", ";a=1"] {
        assert_eq!(parse(value, &any_key()), Err(KeyError::Empty), "{value:?}");
    }
}

#[test]
fn a_list_of_keys_is_refused() {
    for value in [
        "a,b",
        "a, b",
        "a ,b",
        "a,",
        "\"a\",\"b\"",
        "\"a\" , \"b\"",
        "a;x,b",
        ",a",
    ] {
        assert_eq!(parse(value, &any_key()), Err(KeyError::Listed), "{value:?}");
    }
}

#[test]
fn a_repeated_key_line_is_refused_even_when_the_lines_are_equal() {
    let lines = [UUID.as_bytes(), UUID.as_bytes()];
    assert_eq!(
        Key::parse(lines, &KeyRules::default()),
        Err(KeyError::Repeated)
    );
}

#[test]
fn the_length_of_a_key_counts_after_unquoting() {
    let rules = KeyRules {
        min_entropy_bits: 0,
        ..KeyRules::default()
    };
    for (length, fits) in [(15, false), (16, true), (255, true), (256, false)] {
        let key = "x".repeat(length);
        for value in [key.clone(), format!("\"{key}\";a=1")] {
            let got = parse(&value, &rules);
            if fits {
                assert!(got.is_ok(), "{length}: {got:?}");
            } else {
                assert_eq!(
                    got,
                    Err(KeyError::Length {
                        length,
                        allowed: 16..=255
                    })
                );
            }
        }
    }
    assert_eq!(
        parse(&format!("\"{}\"", "\\\\".repeat(15)), &rules)
            .unwrap_err()
            .slug(),
        "key-invalid"
    );
}

#[test]
fn a_key_is_forwarded_in_one_spelling() {
    let table = [
        ("\"abc\";v=1", "abc", "\"abc\""),
        ("abc", "abc", "\"abc\""),
        (r"a\b", r"a\b", r#""a\\b""#),
        ("\"a,b\"", "\"a,b\"", "\"a,b\""),
        ("\"a b\"", "\"a b\"", "\"a b\""),
        ("\"a;b\"", "\"a;b\"", "\"a;b\""),
        (r#""a\"b\\""#, r#""a\"b\\""#, r#""a\"b\\""#),
    ];
    for (value, bare, quoted) in table {
        let key = parse(value, &any_key()).unwrap().unwrap();
        assert_eq!(key.forward(ForwardAs::Bare), bare, "{value}");
        assert_eq!(key.forward(ForwardAs::Quoted), quoted, "{value}");
    }
    assert_eq!(ForwardAs::default(), ForwardAs::Bare);
}

#[test]
fn an_email_address_or_a_card_number_is_no_key() {
    let rules = KeyRules {
        min_entropy_bits: 0,
        ..any_key()
    };
    let table = [
        ("alice.smith@example.com", Some(PersonalData::Email)),
        ("a+b@mail.example.co", Some(PersonalData::Email)),
        ("4111111111111111", Some(PersonalData::CardNumber)),
        ("4111-1111-1111-1111", Some(PersonalData::CardNumber)),
        ("\"4111 1111 1111 1111\"", Some(PersonalData::CardNumber)),
        ("378282246310005", Some(PersonalData::CardNumber)),
        ("4111111111111112", None),
        ("4111--1111-1111-1111", None),
        ("-4111111111111111", None),
        ("4111111111111111-", None),
        ("x4111111111111111", None),
        ("411111111111", None),
        ("00000000000000000000", None),
        ("alice@example", None),
        ("alice@example.c0m", None),
        ("@example.com", None),
        ("alice@@example.com", None),
        ("alice@.com", None),
    ];
    for (value, kind) in table {
        let expected = kind.map(KeyError::PersonalData);
        assert_eq!(parse(value, &rules).err(), expected, "{value}");
    }
}

#[test]
fn strength_follows_the_form_of_the_key() {
    let table: [(&str, f64); 30] = [
        (UUID, 122.0),
        ("0B9E29B0-6F3C-4F0C-9C6E-2A9E4F1D7C55", 122.0),
        ("0b9e29b0-6f3c-3f0c-8c6e-2a9e4f1d7c55", 122.0),
        ("0b9e29b0-6f3c-5f0c-bc6e-2a9e4f1d7c55", 122.0),
        ("0b9e29b0-6f3c-8f0c-ac6e-2a9e4f1d7c55", 122.0),
        ("01890a5d-ac96-774b-bcce-b302099a8057", 74.0),
        ("urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057", 74.0),
        ("{01890a5d-ac96-774b-bcce-b302099a8057}", 74.0),
        ("c232ab00-9414-11ec-b3c8-9f6bdeced846", 0.0),
        ("URN:UUID:c232ab00-9414-11ec-b3c8-9f6bdeced846", 0.0),
        ("000003e8-cbb9-21ea-b201-00045a86c8a1", 0.0),
        ("1ec9414c-232a-6b00-B3C8-9f6bdeced846", 0.0),
        ("00000000-0000-0000-0000-000000000000", 0.0),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", 0.0),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", 80.0),
        ("01arz3ndektsv4rrffq69g5fav", 80.0),
        ("11111111111111111111111111", 10f64.log2()),
        ("11111111111111111111", 10f64.log2()),
        ("9182736455", 9.0 * 10f64.log2() + 10f64.log2()),
        ("a1f8", 16.0),
        ("A1F8", 16.0),
        ("a1F8", 4.0 * 62f64.log2()),
        ("z1f8", 4.0 * 36f64.log2()),
        ("Z1F8", 4.0 * 36f64.log2()),
        ("zB-_", 24.0),
        ("zB+/", 24.0),
        ("zB+_", 4.0 * 95f64.log2()),
        ("abcdefgh", 16f64.log2() * 0.0 + 36f64.log2()),
        ("zyxw1", 2.0 * 36f64.log2()),
        ("xxab", 4.0 * 36f64.log2()),
    ];
    for (key, bits) in table {
        assert!(
            (strength_bits(key) - bits).abs() < 1e-9,
            "{key}: {}",
            strength_bits(key)
        );
    }
}

#[test]
fn guessable_keys_are_refused() {
    let rules = KeyRules::default();
    let table = [
        "1".repeat(20),
        "1".repeat(26),
        "abc".repeat(7),
        "abcabcabcabcabcabcab".to_owned(),
        "deadbeef".repeat(4),
        "0123456789abcdef".to_owned(),
        "abcdefghijklmnopqrstuvwxyz".to_owned(),
        "order-0000000001".to_owned(),
        "order-0000012345".to_owned(),
        "c232ab00-9414-11ec-b3c8-9f6bdeced846".to_owned(),
        "00000000-0000-0000-0000-000000000000".to_owned(),
        "11111111-1111-1111-1111-111111111111".to_owned(),
    ];
    for key in table {
        let error = parse(&key, &rules).expect_err(&key);
        assert!(
            matches!(error, KeyError::Weak { needed: 64, .. }),
            "{key}: {error:?}"
        );
        assert_eq!(error.slug(), "key-weak");
    }
}

#[test]
fn min_entropy_bits_zero_switches_the_check_off() {
    let rules = KeyRules {
        min_entropy_bits: 0,
        ..KeyRules::default()
    };
    assert!(parse(&"1".repeat(20), &rules).is_ok());
    let strict = KeyRules {
        min_entropy_bits: 123,
        ..KeyRules::default()
    };
    assert_eq!(
        parse(UUID, &strict),
        Err(KeyError::Weak {
            bits: 122,
            needed: 123
        })
    );
}

#[test]
fn a_refusal_says_the_next_step_and_never_the_key() {
    let table = [
        ("\"secretsecret", "double quotes"),
        ("secretsecret", "uuidgen"),
        ("secretsecret, secretsecret", "quote it"),
        ("secretsecretsecret", "min_entropy_bits = 0"),
        ("secretsecretsecret", "steadfast keys new"),
        ("secret.secret@example.com", "uuidgen"),
    ];
    for (value, step) in table {
        let message = parse(value, &KeyRules::default()).unwrap_err().to_string();
        assert!(message.contains(step), "{message}");
        assert!(!message.contains("secret"), "{message}");
        assert!(message.ends_with('.'), "{message}");
    }
    let key = parse(UUID, &KeyRules::default()).unwrap().unwrap();
    assert!(!format!("{key:?}").contains(&UUID[..8]), "{key:?}");
}

#[test]
fn a_stored_key_is_read_whatever_the_rules_are_now() {
    assert_eq!(
        Key::from_stored("x").map(|key| key.as_str().to_owned()),
        Some("x".to_owned())
    );
    for wrong in ["", "a\nb", "\u{e9}"] {
        assert_eq!(Key::from_stored(wrong), None);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_key_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(Some(key)) = Key::parse([bytes.as_slice()], &any_key()) {
            prop_assert!(Key::from_stored(key.as_str()).is_some());
        }
    }

    #[test]
    fn every_key_survives_its_own_spelling(text in "[ -~]{1,40}") {
        let key = Key::from_stored(&text).unwrap();
        for spelling in [ForwardAs::Bare, ForwardAs::Quoted] {
            let value = key.forward(spelling);
            let rules = any_key();
            let again = Key::parse([value.as_bytes()], &rules);
            let personal = PersonalData::find(&text).map(KeyError::PersonalData);
            match personal {
                None => prop_assert_eq!(again, Ok(Some(key.clone()))),
                Some(refusal) => prop_assert_eq!(again, Err(refusal)),
            }
        }
    }

    #[test]
    fn strength_is_never_more_than_the_printable_alphabet_allows(text in "[ -~]{0,60}") {
        let most = text.len() as f64 * 95f64.log2();
        prop_assert!((0.0..=most).contains(&strength_bits(&text)), "{}", strength_bits(&text));
    }
}
