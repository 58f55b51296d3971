//! No random key of a common generator is ever refused: a million of each.

use super::*;

/// splitmix64: random enough for text, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

/// Writes the lowest bits of `value` as `length` characters of 2^`bits`, highest first.
fn spell(mut value: u128, length: usize, bits: u32, alphabet: &[u8], out: &mut [u8; 36]) -> usize {
    for place in (0..length).rev() {
        out[place] = alphabet[(value & ((1 << bits) - 1)) as usize];
        value >>= bits;
    }
    length
}

fn spell_uuid(random: u128, version: u128, out: &mut [u8; 36]) -> usize {
    let value = random & !(0xf << 76) & !(3 << 62) | version << 76 | 2 << 62;
    let mut digits = [0; 36];
    spell(value, 32, 4, HEX, &mut digits);
    let mut from = 0;
    for (at, place) in out.iter_mut().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            *place = b'-';
        } else {
            *place = digits[from];
            from += 1;
        }
    }
    36
}

const HEX: &[u8] = b"0123456789abcdef";
const CROCKFORD: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const URL_SAFE: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// 48 bits of milliseconds in 2026, above 80 random bits.
const NOW: u128 = 1_772_323_199_999 << 80;
const LOW_80: u128 = (1 << 80) - 1;

fn a_million_are_accepted(seed: u64, generate: impl Fn(&mut Random, &mut [u8; 36]) -> usize) {
    let (mut random, rules, mut out) = (Random(seed), KeyRules::default(), [0; 36]);
    for round in 0..1_000_000 {
        let length = generate(&mut random, &mut out);
        let got = Key::parse([&out[..length]], &rules);
        if !matches!(got, Ok(Some(_))) {
            let key = String::from_utf8_lossy(&out[..length]);
            panic!("seed {seed}, round {round}: {key} refused: {got:?}");
        }
    }
}

#[test]
fn a_million_random_uuids_of_version_4_are_accepted() {
    a_million_are_accepted(1, |random, out| spell_uuid(random.wide(), 4, out));
}

#[test]
fn a_million_random_uuids_of_version_7_are_accepted() {
    a_million_are_accepted(2, |random, out| {
        spell_uuid(NOW | random.wide() & LOW_80, 7, out)
    });
}

#[test]
fn a_million_random_ulids_are_accepted() {
    a_million_are_accepted(3, |random, out| {
        spell(NOW | random.wide() & LOW_80, 26, 5, CROCKFORD, out)
    });
}

#[test]
fn a_million_random_nanoids_are_accepted() {
    a_million_are_accepted(4, |random, out| spell(random.wide(), 21, 6, URL_SAFE, out));
}

#[test]
fn a_million_random_keys_of_22_base64url_characters_are_accepted() {
    a_million_are_accepted(5, |random, out| spell(random.wide(), 22, 6, URL_SAFE, out));
}

#[test]
fn a_million_random_keys_of_32_hexadecimal_digits_are_accepted() {
    a_million_are_accepted(6, |random, out| spell(random.wide(), 32, 4, HEX, out));
}
