//! Keys that are data about a person.
//!
//! Decides whether a whole key has the shape of an e-mail address or of a payment card number.
//! Rule: the whole key, never a part of it, so that no random key is ever taken for one. It
//! refuses to know anything else about people: this catches a mistake, not an intention. Sources:
//! docs/keyed-requests.md, "Key"; ISO/IEC 7812-1 annex B (the check digit).

use std::fmt;

/// What a key looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonalData {
    /// `local@domain.tld`.
    Email,
    /// 13 to 19 digits, in groups or not, with a valid check digit.
    CardNumber,
}

impl PersonalData {
    /// What the whole of `key` looks like, if anything.
    pub(super) fn find(key: &str) -> Option<PersonalData> {
        if is_email(key) {
            Some(PersonalData::Email)
        } else if is_card_number(key.as_bytes()) {
            Some(PersonalData::CardNumber)
        } else {
            None
        }
    }
}

impl fmt::Display for PersonalData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PersonalData::Email => "an e-mail address",
            PersonalData::CardNumber => "a card number",
        })
    }
}

fn is_email(key: &str) -> bool {
    let Some((local, domain)) = key.split_once('@') else {
        return false;
    };
    let in_local = |b: u8| b.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&b);
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let Some((host, top)) = domain.rsplit_once('.') else {
        return false;
    };
    !local.is_empty()
        && local.bytes().all(in_local)
        && host.split('.').all(is_label)
        && top.len() >= 2
        && top.bytes().all(|b| b.is_ascii_alphabetic())
}

fn is_card_number(key: &[u8]) -> bool {
    let (mut digits, mut sum, mut grouped) = (0, 0, true);
    // From the right: every second digit counts twice, and a double of two digits counts their
    // sum.
    for &byte in key.iter().rev() {
        match byte {
            b'0'..=b'9' => {
                let value = u32::from(byte - b'0') << (digits % 2);
                sum += if value > 9 { value - 9 } else { value };
                digits += 1;
                grouped = false;
            }
            b' ' | b'-' if !grouped => grouped = true,
            _ => return false,
        }
    }
    !grouped && (13..=19).contains(&digits) && sum % 10 == 0
}
