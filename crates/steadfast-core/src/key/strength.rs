//! How hard a key is to guess.
//!
//! Decides an upper estimate in bits from the form of the key alone: what its generator can have
//! put into it, if it was a good one. It refuses to know whether it was. Source:
//! docs/keyed-requests.md, "Key"; I2; RFC 9562 (UUID), the ULID specification.

/// The strength of a key in bits, an upper estimate.
///
/// UUIDs in their hyphenated form, in any case: 122 for the opaque versions 3, 4, 5 and 8, 74 for
/// version 7, 0 for versions 1, 2 and 6 (a clock and an address), nil and max. ULIDs: 80.
/// Everything else: log2 of the smallest alphabet that holds the key (10, 16, 36, 62, 64 or 95
/// characters) times its effective length: one period of a key that repeats itself, where every
/// run of three or more equal or sequential characters, rising or falling, counts as one.
///
/// A text of a ULID's form of which runs and periods leave less than half is a pattern, not a
/// ULID.
///
/// ```
/// use steadfast_core::key::strength_bits;
/// assert_eq!(strength_bits("0b9e29b0-6f3c-4f0c-9c6e-2a9e4f1d7c55"), 122.0);
/// assert_eq!(strength_bits("order-0000000001"), 6.0 * 8.0); // o r d e r - 0 1
/// assert_eq!(strength_bits("abcabcabcabcabcabc"), 4.0); // one run of hexadecimal digits
/// ```
pub fn strength_bits(key: &str) -> f64 {
    let bytes = key.as_bytes();
    if let Some(bits) = uuid_bits(bytes) {
        return bits;
    }
    let effective = effective_length(&bytes[..period(bytes)]);
    if is_ulid(bytes) && effective * 2 >= bytes.len() {
        return 80.0;
    }
    bits_per_character(bytes) * effective as f64
}

/// The strength that the version of a UUID allows; `None` for what is not a hyphenated UUID of RFC
/// 9562's variant. Hyphens are needed: 32 random hexadecimal digits look like some version, too.
fn uuid_bits(key: &[u8]) -> Option<f64> {
    let key = match key {
        [b'{', inner @ .., b'}'] => inner,
        _ if key.len() == 45 && key[..9].eq_ignore_ascii_case(b"urn:uuid:") => &key[9..],
        _ => key,
    };
    if key.len() != 36 {
        return None;
    }
    for (at, byte) in key.iter().enumerate() {
        // Where the hyphens stand: RFC 9562, section 4.
        let fits = match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        if !fits {
            return None;
        }
    }
    let only = |digit: u8| {
        key.iter()
            .all(|b| *b == b'-' || b.eq_ignore_ascii_case(&digit))
    };
    if only(b'0') || only(b'f') {
        return Some(0.0);
    }
    if !matches!(key[19], b'8' | b'9' | b'a' | b'b' | b'A' | b'B') {
        return None;
    }
    match key[14] {
        b'3' | b'4' | b'5' | b'8' => Some(122.0),
        b'7' => Some(74.0),
        b'1' | b'2' | b'6' => Some(0.0),
        _ => None,
    }
}

/// 26 characters of Crockford's alphabet whose first fits the 48 bits of the time.
fn is_ulid(key: &[u8]) -> bool {
    let crockford = |b: &u8| CLASSES[usize::from(*b)] & CROCKFORD != 0;
    key.len() == 26 && matches!(key[0], b'0'..=b'7') && key.iter().all(crockford)
}

/// The length of the shortest beginning that gives the whole key by repetition, the last one
/// possibly cut; the key's own length where there is none. Bounded by the square of the allowed
/// key length.
fn period(key: &[u8]) -> usize {
    let last = key.len() / 2;
    for period in 1..=last {
        // The first comparison keeps the common case cheap.
        if key[period] == key[0] && key[period..] == key[..key.len() - period] {
            return period;
        }
    }
    key.len()
}

/// The length when each run of three or more equal or sequential characters counts as one.
fn effective_length(key: &[u8]) -> usize {
    let (mut length, mut at) = (0, 0);
    while at < key.len() {
        length += 1;
        at += run_length(&key[at..]);
    }
    length
}

/// The length of the run that `rest` begins with, or 1 where it is shorter than three.
fn run_length(rest: &[u8]) -> usize {
    let [first, second, ..] = *rest else { return 1 };
    let step = second.wrapping_sub(first);
    if !matches!(step, 0 | 1 | 0xff) {
        return 1;
    }
    let mut length = 2;
    while length < rest.len() && rest[length].wrapping_sub(rest[length - 1]) == step {
        length += 1;
    }
    if length < 3 { 1 } else { length }
}

fn bits_per_character(key: &[u8]) -> f64 {
    let classes = key.iter().fold(0, |classes, b| {
        classes | CLASSES[usize::from(*b)] & !CROCKFORD
    });
    let within = |alphabet: u8| classes & !alphabet == 0;
    let size: f64 = if within(DIGIT) {
        10.0
    } else if within(DIGIT | LOWER_HEX) || within(DIGIT | UPPER_HEX) {
        16.0
    } else if within(DIGIT | LOWER_HEX | LOWER) || within(DIGIT | UPPER_HEX | UPPER) {
        36.0
    } else if within(ALPHANUMERIC) {
        62.0
    } else if within(ALPHANUMERIC | URL_64) || within(ALPHANUMERIC | PLAIN_64) {
        64.0
    } else {
        95.0
    };
    size.log2()
}

const DIGIT: u8 = 1;
const LOWER_HEX: u8 = 2;
const UPPER_HEX: u8 = 4;
const LOWER: u8 = 8;
const UPPER: u8 = 16;
/// `-` and `_`, which complete the URL-safe alphabet of base64 (RFC 4648, section 5).
const URL_64: u8 = 32;
/// `+` and `/`, which complete the plain one (RFC 4648, section 4), and everything outside both.
const PLAIN_64: u8 = 64;
const CROCKFORD: u8 = 128;
const ALPHANUMERIC: u8 = DIGIT | LOWER_HEX | UPPER_HEX | LOWER | UPPER;
const CLASSES: [u8; 256] = classes();

/// The class of every byte. A byte outside all alphabets of 64 is in both completions at once,
/// which leaves the 95 printable characters.
const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let class = match byte {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' => LOWER_HEX,
            b'A'..=b'F' => UPPER_HEX,
            b'g'..=b'z' => LOWER,
            b'G'..=b'Z' => UPPER,
            b'-' | b'_' => URL_64,
            b'+' | b'/' => PLAIN_64,
            _ => URL_64 | PLAIN_64,
        };
        let excluded = matches!(byte.to_ascii_uppercase(), b'I' | b'L' | b'O' | b'U');
        let crockford = byte.is_ascii_alphanumeric() && !excluded;
        table[at] = if crockford { class | CROCKFORD } else { class };
        at += 1;
    }
    table
}
