//! From what was written to values: lengths of time, sizes, numbers, shares, words, lists.
//!
//! Decides which spellings are values, and says of every other what would be one. It refuses to
//! know which setting it reads. Rule: a length or a size without its unit is never guessed.

use std::ops::RangeInclusive;
use std::time::Duration;

use steadfast_core::Ratio;

use super::document::Value;
use super::fault::{Kind, Wrong};
use super::names::nearest;

/// Longest length of time that can be written: ten years. Longer ones are slips of a unit, and
/// below this no sum of lengths overflows.
pub const LONGEST: Duration = Duration::from_millis(10 * 365 * DAY_MS);

const DAY_MS: u64 = 24 * 3_600_000;

/// Units of time, each in milliseconds, from the largest on.
const TIME_UNITS: [(&str, u64); 5] = [
    ("d", DAY_MS),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Units of size, each in bytes, from the largest on; those of 1024 before those of 1000.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
];

const TIME_HELP: &str = "write a length with its unit (ms, s, m, h or d), such as \"30s\"";
const SIZE_HELP: &str = "write a size with its unit (B, kB, KiB, MB, MiB, GB or GiB), such as \
                         \"1MiB\"";

/// The value is not `wanted`.
pub fn wrong_type(value: &Value, wanted: &str, example: &str) -> Wrong {
    Wrong::new(
        Kind::WrongType,
        format!("{} stands where {wanted} is expected", value.kind()),
        format!("write {example}"),
    )
}

/// A string.
pub fn text<'a>(value: &'a Value, example: &str) -> Result<&'a str, Wrong> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(wrong_type(other, "a string", example)),
    }
}

/// A length of time, zero included.
pub fn length(value: &Value) -> Result<Duration, Wrong> {
    match value {
        Value::Text(text) => length_of(text),
        Value::Whole(number) => Err(no_unit(number, TIME_HELP)),
        Value::Decimal(number) => Err(no_unit(number, TIME_HELP)),
        other => Err(wrong_type(other, "a length of time", "\"30s\"")),
    }
}

/// A length of time above zero.
pub fn positive_length(value: &Value) -> Result<Duration, Wrong> {
    match length(value)? {
        Duration::ZERO => Err(Wrong::invalid(
            "a length of zero leaves no time at all",
            "write a longer one, such as \"500ms\"",
        )),
        length => Ok(length),
    }
}

/// A length of time as it is typed: `1m30s`, `500ms`.
pub fn length_of(text: &str) -> Result<Duration, Wrong> {
    if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return Err(no_unit(text, TIME_HELP));
    }
    let ms = quantity(text, &TIME_UNITS, "length of time", TIME_HELP)?;
    let length = ms.map(Duration::from_millis).filter(|l| *l <= LONGEST);
    length.ok_or_else(|| {
        Wrong::invalid(
            format!("`{text}` is longer than {}", show_length(LONGEST)),
            "write a shorter length",
        )
    })
}

/// A size in bytes, within `bounds`.
pub fn size(value: &Value, bounds: RangeInclusive<usize>) -> Result<usize, Wrong> {
    let text = match value {
        Value::Text(text) => text,
        Value::Whole(number) => return Err(no_unit(number, SIZE_HELP)),
        Value::Decimal(number) => return Err(no_unit(number, SIZE_HELP)),
        other => return Err(wrong_type(other, "a size", "\"1MiB\"")),
    };
    if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return Err(no_unit(text, SIZE_HELP));
    }
    let bytes = quantity(text, &SIZE_UNITS, "size", SIZE_HELP)?;
    let size = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    size.filter(|size| bounds.contains(size)).ok_or_else(|| {
        Wrong::invalid(
            format!("`{text}` is out of bounds"),
            format!(
                "write a size from {} to {}",
                show_size(*bounds.start()),
                show_size(*bounds.end())
            ),
        )
    })
}

fn no_unit(number: impl std::fmt::Display, help: &str) -> Wrong {
    Wrong::invalid(format!("`{number}` has no unit"), help)
}

/// Digits and unit, once or more, each unit smaller than the one before. `None` for what overflows.
fn quantity(
    text: &str,
    units: &[(&str, u64)],
    what: &str,
    help: &str,
) -> Result<Option<u64>, Wrong> {
    let malformed = || Wrong::invalid(format!("`{text}` is not a {what}"), help);
    let (mut rest, mut sum, mut last) = (text, Some(0u64), u64::MAX);
    if rest.is_empty() {
        return Err(malformed());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (word, after) = after.split_at(letters);
        if number.is_empty() || word.is_empty() {
            return Err(malformed());
        }
        let Some((_, unit)) = units.iter().find(|(name, _)| *name == word) else {
            return Err(Wrong::invalid(
                format!("`{word}` in `{text}` is not a unit"),
                help,
            ));
        };
        if *unit >= last {
            return Err(malformed());
        }
        let part = number.parse::<u64>().ok();
        let part = part.and_then(|number| number.checked_mul(*unit));
        sum = sum.zip(part).and_then(|(sum, part)| sum.checked_add(part));
        (rest, last) = (after, *unit);
    }
    Ok(sum)
}

/// A whole number within `bounds`.
pub fn whole(value: &Value, bounds: RangeInclusive<u32>) -> Result<u32, Wrong> {
    let example = format!("a number from {} to {}", bounds.start(), bounds.end());
    let Value::Whole(number) = value else {
        return Err(wrong_type(value, "a whole number", &example));
    };
    let fits = u32::try_from(*number).ok().filter(|n| bounds.contains(n));
    fits.ok_or_else(|| {
        Wrong::invalid(
            format!("{number} is out of bounds"),
            format!("write {example}"),
        )
    })
}

/// A share of one: a number from 0 to 1.
pub fn share(value: &Value) -> Result<Ratio, Wrong> {
    let example = "a number from 0 to 1, such as 0.2 for one in five";
    let number = match value {
        Value::Whole(number) => *number as f64,
        Value::Decimal(number) => *number,
        other => return Err(wrong_type(other, "a number", example)),
    };
    Ratio::new(number).map_err(|_| {
        Wrong::invalid(
            format!("{number} is no share of one"),
            format!("write {example}"),
        )
    })
}

/// A switch, also in words, as a variable of the environment has it.
pub fn switch(value: &Value) -> Result<bool, Wrong> {
    match value {
        Value::Switch(on) => Ok(*on),
        Value::Text(text) if text == "true" => Ok(true),
        Value::Text(text) if text == "false" => Ok(false),
        other => Err(wrong_type(other, "true or false", "true or false")),
    }
}

/// Each element of a list.
pub fn list<'a, T>(
    value: &'a Value,
    example: &str,
    element: impl Fn(&'a Value) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    let Value::List(entries) = value else {
        return Err(wrong_type(value, "a list", example));
    };
    entries.iter().map(|entry| element(&entry.value)).collect()
}

/// A word and what it means; `None` for a word that is known, but not acted on yet.
pub type Word<T> = (&'static str, Option<T>);

/// One of a few words.
pub fn word<T: Clone>(value: &Value, words: &[Word<T>]) -> Result<T, Wrong> {
    let supported = words.iter().filter(|(_, meaning)| meaning.is_some());
    let names: Vec<String> = supported.map(|(name, _)| format!("\"{name}\"")).collect();
    let choice = names.join(" or ");
    let text = text(value, &choice)?;
    match words.iter().find(|(name, _)| *name == text) {
        Some((_, Some(meaning))) => Ok(meaning.clone()),
        Some((_, None)) => Err(Wrong::new(
            Kind::NotYetSupported,
            format!("`{text}` is not yet supported"),
            format!("write {choice}"),
        )),
        None => {
            let near = nearest(text, words.iter().map(|(name, _)| *name));
            let hint = near.map_or(String::new(), |near| format!(" (did you mean `{near}`?)"));
            Err(Wrong::invalid(
                format!("`{text}` is not one of its words{hint}"),
                format!("write {choice}"),
            ))
        }
    }
}

/// A length in the largest unit that says it exactly, hours at most: `24h`, `1500ms`.
pub fn show_length(length: Duration) -> String {
    let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    show(ms, &TIME_UNITS[1..], "ms")
}

/// A size in the largest unit that says it exactly.
pub fn show_size(bytes: usize) -> String {
    show(bytes as u64, &SIZE_UNITS, "B")
}

fn show(number: u64, units: &[(&str, u64)], smallest: &str) -> String {
    let exact = |unit: &&(&str, u64)| number > 0 && number.is_multiple_of(unit.1);
    match units.iter().find(exact) {
        Some((name, unit)) => format!("{}{name}", number / unit),
        None => format!("{number}{smallest}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_length_has_a_unit_and_is_exact() {
        let table = [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("24h", Some(86_400_000)),
            ("3650d", Some(315_360_000_000)),
            ("0ms", Some(0)),
            ("3651d", None),
            ("30", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
            ("1 s", None),
            ("5us", None),
            ("1M", None),
            ("1s1m", None),
            ("1s1s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
            ("1ſ", None),
        ];
        for (text, ms) in table {
            let found = length(&written(text)).ok().map(|l| l.as_millis());
            assert_eq!(found, ms, "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_told_to_have_a_unit() {
        for value in [Value::Whole(30), Value::Decimal(0.5), written("30")] {
            let reason = length(&value).expect_err("no unit").reason;
            assert!(reason.ends_with("has no unit"), "{reason}");
            let reason = size(&value, 0..=100).expect_err("no unit").reason;
            assert!(reason.ends_with("has no unit"), "{reason}");
        }
    }

    #[test]
    fn a_size_has_a_unit_and_a_bound() {
        let table = [
            ("1MiB", Some(1 << 20)),
            ("1MB", Some(1_000_000)),
            ("512B", Some(512)),
            ("1KB", None),
            ("1mib", None),
            ("3MiB", None),
            ("99999999999999GiB", None),
        ];
        for (text, bytes) in table {
            let found = size(&written(text), 1..=2 << 20).ok();
            assert_eq!(found, bytes, "{text}");
        }
    }

    #[test]
    fn a_near_word_is_offered() {
        let words = [("wait", Some(1)), ("conflict", Some(2)), ("later", None)];
        let wrong = word(&written("conflit"), &words).expect_err("a typing error");
        assert!(wrong.reason.contains("did you mean `conflict`?"));
        assert_eq!(wrong.next, "write \"wait\" or \"conflict\"");
        let wrong = word(&written("later"), &words).expect_err("not acted on");
        assert_eq!(wrong.kind, Kind::NotYetSupported);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(ms in 0u64..315_360_000_000, bytes in 0usize..1 << 40) {
            let length = Duration::from_millis(ms);
            prop_assert_eq!(length_of(&show_length(length)), Ok(length));
            let shown = Value::Text(show_size(bytes));
            prop_assert_eq!(size(&shown, 0..=usize::MAX), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = length_of(&text);
            let _ = size(&Value::Text(text), 0..=usize::MAX);
        }
    }
}
