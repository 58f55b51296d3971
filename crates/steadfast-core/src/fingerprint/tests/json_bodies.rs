//! JSON bodies.

use super::*;
use crate::fingerprint::json::canonical;

fn is_json(text: impl AsRef<[u8]>) -> bool {
    canonical(text.as_ref(), &[]).is_some()
}

#[test]
fn json_member_order_white_space_and_escapes_do_not_count() {
    one(JSON, r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#);
    one(
        JSON,
        r#"{"a":{"c":1,"b":[{"e":1,"d":2}]}}"#,
        r#"{"a":{"b":[{"d":2,"e":1}],"c":1}}"#,
    );
    one(JSON, r#"{"a":[1,2]}"#, " {\r\n\t\"a\" : [ 1 , 2 ] } \n");
    one(
        JSON,
        r#""\u0041\/\b\f\n\r\t\"\\""#,
        r#""A/\u0008\u000C\u000a\u000D\u0009\u0022\u005c""#,
    );
    one(JSON, r#""\ud83d\ude00""#, "\"\u{1f600}\"");
    one(JSON, r#"{"\u0062":1,"a":2}"#, r#"{"a":2,"b":1}"#);
    one("application/problem+json; charset=utf-8", "{}", "{ }");
    one("APPLICATION/JSON", "{}", "{ }");
}

#[test]
fn json_arrays_are_ordered() {
    two(JSON, "[1,2]", "[2,1]");
    two(JSON, r#"[{"a":1},{"b":1}]"#, r#"[{"b":1},{"a":1}]"#);
    two(JSON, "[1,1]", "[1]");
}

#[test]
fn json_numbers_count_by_their_decimal_value() {
    let equal: [&[&str]; 8] = [
        &[
            "1", "1.0", "10e-1", "0.1e1", "1e0", "1E+0", "0.01E2", "100e-2", "1.000e-0",
        ],
        &[
            "0",
            "-0",
            "0.0",
            "-0.00e5",
            "0e999999999999999999999999",
            "0E-99999999999999999999999",
        ],
        &["-1.50", "-15e-1", "-0.015e2"],
        &["1000", "1e3", "10e2", "0.001e6"],
        &["1e999999999", "10e999999998", "0.1e1000000000"],
        &["1e-999999999", "0.1e-999999998"],
        &["1001", "1.001e3", "10.010e2"],
        &["0.0010", "1e-3", "0.1e-2"],
    ];
    for (place, group) in equal.iter().enumerate() {
        for text in *group {
            one(JSON, group[0], text);
            for other in equal[place + 1..].iter().flat_map(|other| other.iter()) {
                two(JSON, text, other);
            }
        }
    }
}

#[test]
fn json_numbers_never_go_through_a_double() {
    two(JSON, "9007199254740993", "9007199254740992");
    two(JSON, "0.1000000000000000055511151231257827", "0.1");
    two(JSON, "1e400", "1e401");
    two(
        JSON,
        "123456789012345678901234567890",
        "123456789012345678901234567891",
    );
    two(JSON, "1e-400", "0");
}

#[test]
fn an_exponent_nobody_computes_with_counts_by_its_bytes() {
    assert!(is_json("1e99999999999999999"));
    assert!(is_json("1e00000000000000000000000000000000000000001"));
    assert!(!is_json("1e999999999999999999"));
    assert!(!is_json("1e-99999999999999999999999999999999999"));
    two(JSON, "[1e999999999999999999]", "[1e999999999999999998]");
}

#[test]
fn json_values_of_different_types_are_different() {
    let values = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "\"\"",
        "\"0\"",
        "\"null\"",
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "[null]",
        "{\"\":null}",
        "{\"a\":\"b\"}",
        "[\"a\",\"b\"]",
        "[\"a\\\",\\\"b\"]",
        "\"\\u0000\"",
        "[\"\",\"\"]",
        "[\"\"]",
        "[1,1]",
        "[11]",
        "[1,[1]]",
        "[[1],1]",
        "{\"a\":{\"b\":1}}",
        "{\"a\":{},\"b\":1}",
    ];
    for (place, a) in values.iter().enumerate() {
        assert!(is_json(a), "{a}");
        for b in &values[place + 1..] {
            two(JSON, a, b);
        }
    }
}

#[test]
fn malformed_json_counts_by_its_bytes() {
    let table = [
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u+123\"",
        "\"a\nb\"",
        "\"\u{1}\"",
        "01",
        "-",
        "+1",
        "1.",
        ".1",
        "1e",
        "1e+",
        "-01",
        "00",
        "1.e1",
        "0x1",
        "NaN",
        "Infinity",
        "nul",
        "nulL",
        "truefalse",
        "1 1",
        "{} {}",
        "\u{feff}{}",
        "[1]//",
        "\"\\",
        "\"\\u",
        "tru",
    ];
    for text in table {
        assert!(!is_json(text), "{text:?}");
        two(JSON, text, format!("{text} "));
    }
    assert!(!is_json(b"\"\xff\""));
    assert!(!is_json(b"\"\xed\xa0\x80\""));
    assert!(!is_json(b"\"\xc0\x80\""));
}

#[test]
fn duplicate_names_count_by_their_bytes() {
    let table = [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"a":3}"#,
        r#"{"a":1,"\u0061":1}"#,
        r#"[{"x":{"b":1,"a":1,"b":2}}]"#,
        r#"{"":1,"":1}"#,
    ];
    for text in table {
        assert!(!is_json(text), "{text}");
    }
    assert!(is_json(r#"{"a":{"a":1},"A":[{"a":1},{"a":1}]}"#));
    let options = FingerprintOptions::new(BodyMode::Meaning, ["/a"]).unwrap();
    assert!(canonical(br#"{"a":1,"a":2}"#, options.ignored()).is_none());
}

#[test]
fn lone_surrogates_count_by_their_bytes() {
    let table = [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800x""#,
        r#""\ud800\n""#,
        r#""\ud800\ud800""#,
        r#""\udc00\ud800""#,
        r#""\ud800\u0041""#,
        r#"{"\ud800":1}"#,
    ];
    for text in table {
        assert!(!is_json(text), "{text}");
    }
}

#[test]
fn json_nested_too_deep_counts_by_its_bytes() {
    let nest = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(is_json(nest(128)));
    assert!(!is_json(nest(129)));
    assert!(!is_json("[".repeat(1_000_000)));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert!(is_json(objects(128)));
    assert!(!is_json(objects(129)));
}

#[test]
fn what_pointers_ignore_does_not_count() {
    let read = |pointers: &[&str], body: &str| {
        let options = FingerprintOptions::new(BodyMode::Meaning, pointers.iter().copied()).unwrap();
        fingerprint("/", &[("content-type", JSON)], body.as_bytes(), &options)
    };
    let same: [(&[&str], &str, &str); 9] = [
        (&["/t"], r#"{"a":1,"t":1}"#, r#"{"t":2,"a":1}"#),
        (&["/t"], r#"{"a":1,"t":{"x":[1]}}"#, r#"{"a":1}"#),
        (&["/t"], r#"{"t":1}"#, "{}"),
        (
            &["/m/t", "/m/u"],
            r#"{"m":{"u":1,"b":1,"t":1},"a":1}"#,
            r#"{"a":1,"m":{"b":1}}"#,
        ),
        (&["/m", "/m/t"], r#"{"m":{"t":1}}"#, "{}"),
        (
            &["/i/0/t"],
            r#"{"i":[{"t":1,"a":1},{"t":1}]}"#,
            r#"{"i":[{"a":1},{"t":1}]}"#,
        ),
        (&["/1"], "[1,2,3]", "[1,9,3]"),
        (
            &["/a~1b", "/c~0d", "/"],
            r#"{"a/b":1,"c~d":2,"":3,"x":1}"#,
            r#"{"x":1}"#,
        ),
        (&["/t"], r#"{"\u0074":1,"a":1}"#, r#"{"a":1}"#),
    ];
    for (pointers, a, b) in same {
        assert_eq!(read(pointers, a), read(pointers, b), "{pointers:?} {a} {b}");
    }
    let different: [(&[&str], &str, &str); 7] = [
        (&["/t"], r#"{"a":1,"t":1}"#, r#"{"a":2,"t":1}"#),
        (&["/t"], r#"{"m":{"t":1}}"#, r#"{"m":{"t":2}}"#),
        (&["/m/t"], r#"{"t":1}"#, r#"{"t":2}"#),
        (&["/m/t/u"], r#"{"m":{"t":1}}"#, r#"{"m":{"t":2}}"#),
        (&["/01", "/-"], "[1,2]", "[1,3]"),
        (&["/0"], "[1,2]", "[1,3]"),
        // Malformed: all bytes count, the ignored ones too.
        (&["/t"], r#"{"t":1,}"#, r#"{"t":2,}"#),
    ];
    for (pointers, a, b) in different {
        assert_ne!(read(pointers, a), read(pointers, b), "{pointers:?} {a} {b}");
    }
}

/// A JSON value whose numbers are texts. Members have different names.
#[derive(Clone, Debug)]
enum Value {
    Word(&'static str),
    Number(String),
    Text(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop_oneof![Just("null"), Just("true"), Just("false")].prop_map(Value::Word),
        "-?(0|[1-9][0-9]{0,4})(\\.[0-9]{1,4})?(e-?[0-9]{1,2})?".prop_map(Value::Number),
        ".{0,6}".prop_map(Value::Text),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let members = proptest::collection::btree_map(".{0,3}", inner.clone(), 0..5);
        prop_oneof![
            proptest::collection::vec(inner, 0..5).prop_map(Value::Array),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Choices of a writer, drawn from the bits of a seed.
struct Writer {
    seed: u64,
    out: String,
}

impl Writer {
    fn choose(&mut self, from: usize) -> usize {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.seed >> 33) as usize % from
    }

    fn space(&mut self) {
        let space = ["", "", " ", "\n\t", "\r"][self.choose(5)];
        self.out.push_str(space);
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\' | '\0'..='\x1f') || self.choose(3) == 0 {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    self.out.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                self.out.push(c);
            }
        }
        self.out.push('"');
    }

    fn list<T>(&mut self, ends: [char; 2], items: &[T], write: impl Fn(&mut Self, &T)) {
        self.out.push(ends[0]);
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                self.out.push(',');
            }
            self.space();
            write(self, item);
            self.space();
        }
        self.out.push(ends[1]);
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Word(word) => self.out.push_str(word),
            Value::Number(number) => self.out.push_str(number),
            Value::Text(text) => self.text(text),
            Value::Array(items) => self.list(['[', ']'], items, Self::value),
            Value::Object(members) => {
                let mut members = members.clone();
                for place in (1..members.len()).rev() {
                    let other = self.choose(place + 1);
                    members.swap(place, other);
                }
                self.list(['{', '}'], &members, |writer, (name, value)| {
                    writer.text(name);
                    writer.out.push(':');
                    writer.space();
                    writer.value(value);
                });
            }
        }
    }
}

fn spell(value: &Value, seed: u64) -> String {
    let mut writer = Writer {
        seed,
        out: String::new(),
    };
    writer.space();
    writer.value(value);
    writer.space();
    writer.out
}

/// Changes the scalar number `at`, counted down; what is left of the count.
fn change(value: &mut Value, at: usize) -> Option<usize> {
    match value {
        Value::Array(items) => items.iter_mut().try_fold(at, |at, item| change(item, at)),
        Value::Object(members) => members
            .iter_mut()
            .try_fold(at, |at, (_, item)| change(item, at)),
        _ if at > 0 => Some(at - 1),
        Value::Word(word) => {
            *word = if *word == "null" { "true" } else { "null" };
            None
        }
        Value::Number(number) => {
            // One more digit at the end is another value, unless it follows a zero.
            let zero = !number
                .split('e')
                .next()?
                .bytes()
                .any(|b| (b'1'..=b'9').contains(&b));
            *number = if zero {
                "7".to_owned()
            } else {
                format!("{number}1")
            };
            None
        }
        Value::Text(text) => {
            text.push('x');
            None
        }
    }
}

/// The plain digits of a number, without any exponent: an independent reading by expansion.
fn expanded(number: &str) -> (bool, String, String) {
    let (mantissa, exponent) = number.split_once('e').unwrap_or((number, "0"));
    let exponent: i32 = exponent.parse().expect("a small exponent");
    let negative = mantissa.starts_with('-');
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (mut whole, mut fraction) = (whole.to_owned(), fraction.to_owned());
    for _ in 0..exponent.abs() {
        if exponent > 0 {
            if fraction.is_empty() {
                fraction.push('0');
            }
            whole.push(fraction.remove(0));
        } else {
            fraction.insert(0, whole.pop().unwrap_or('0'));
        }
    }
    let whole = whole.trim_start_matches('0').to_owned();
    let fraction = fraction.trim_end_matches('0').to_owned();
    (
        negative && !(whole.is_empty() && fraction.is_empty()),
        whole,
        fraction,
    )
}

proptest! {
    #[test]
    fn a_value_has_one_fingerprint_however_it_is_spelt(
        value in value(), a in any::<u64>(), b in any::<u64>(),
    ) {
        let (a, b) = (spell(&value, a), spell(&value, b));
        prop_assert!(is_json(&a), "{}", a);
        prop_assert_eq!(of_body(JSON, a.as_bytes()), of_body(JSON, b.as_bytes()), "{} {}", a, b);
    }

    #[test]
    fn changing_any_scalar_changes_the_fingerprint(
        value in value(), at in 0usize..24, seed in any::<u64>(),
    ) {
        let mut changed = value.clone();
        // Not every value has that many scalars.
        if change(&mut changed, at).is_none() {
            let (a, b) = (spell(&value, seed), spell(&changed, seed));
            let prints = [&a, &b].map(|text| of_body(JSON, text.as_bytes()));
            prop_assert_ne!(&prints[0], &prints[1], "{} {}", a, b);
        }
    }

    #[test]
    fn two_numbers_are_equal_exactly_if_their_expansions_are(
        a in "-?(0|[1-9]0?[0-9]?)(\\.0?[01]{1,3})?(e-?[0-3])?",
        b in "-?(0|[1-9]0?[0-9]?)(\\.0?[01]{1,3})?(e-?[0-3])?",
    ) {
        let equal = canonical(a.as_bytes(), &[]) == canonical(b.as_bytes(), &[]);
        prop_assert_eq!(equal, expanded(&a) == expanded(&b), "{} {}", a, b);
    }

    #[test]
    fn a_number_equals_its_shifted_spelling(
        digits in "[1-9][0-9]{0,5}", zeros in 0usize..5, power in -9i64..9,
    ) {
        let plain = format!("{digits}e{power}");
        let fewer = power - zeros as i64;
        let more = power + digits.len() as i64 + zeros as i64;
        let longer = format!("{digits}{}e{fewer}", "0".repeat(zeros));
        let shifted = format!("0.{}{digits}e{more}", "0".repeat(zeros));
        prop_assert_eq!(canonical(plain.as_bytes(), &[]), canonical(longer.as_bytes(), &[]));
        prop_assert_eq!(canonical(plain.as_bytes(), &[]), canonical(shifted.as_bytes(), &[]));
        prop_assert_eq!(expanded(&plain), expanded(&shifted));
    }

    #[test]
    fn json_is_what_another_strict_reader_accepts(
        text in "([\\[\\]{},:\" \n]|\"a\"|\"b\":|\\\\|\\\\u00|[0-9]|-|e|\\.|true|null\
                 |\\[1,|\\{\"c\":1){0,12}",
    ) {
        let accepted = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        // It takes duplicate names, and refuses numbers outside a double.
        let ours = is_json(&text);
        let repeats = text.matches("\"a\"").count() > 1
            || text.matches("\"b\"").count() > 1
            || text.matches("\"c\"").count() > 1
            || text.matches("\"\"").count() > 1;
        if accepted && !repeats || ours && !text.contains('e') {
            prop_assert_eq!(ours, accepted, "{}", text);
        }
    }
}
