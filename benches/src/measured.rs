//! One measurement as a line: round, name, value.

use std::io::{self, BufRead};

use crate::Failure;

/// A line that was read back.
pub struct Measured {
    pub round: u32,
    pub name: String,
    pub value: f64,
}

/// Writes one.
pub fn write(round: u32, name: &str, value: f64) {
    println!("{round}\t{name}\t{value}");
}

/// Reads all of standard input. A line that is none is an error: nothing is left out silently.
pub fn read() -> Result<Vec<Measured>, Failure> {
    io::stdin()
        .lock()
        .lines()
        .map(|line| parse(&line?).ok_or_else(|| "not round, name and value".into()))
        .collect()
}

pub fn parse(line: &str) -> Option<Measured> {
    let mut parts = line.split('\t');
    let (round, name, value) = (parts.next()?, parts.next()?, parts.next()?);
    let none_left = parts.next().is_none();
    none_left.then_some(Measured {
        round: round.parse().ok()?,
        name: name.to_owned(),
        value: value.parse().ok()?,
    })
}
