//! A TOML document as a tree in which every value knows its line.
//!
//! Decides nothing about settings: it says only where the text is no TOML. Tables keep the order of
//! the file, so that messages come in reading order. Source: TOML 1.1, through the `toml` crate.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest configuration file, in bytes. A hundred routes take some 30 KiB; above this a wrong file
/// was named.
pub const LARGEST_FILE: usize = 1024 * 1024;

/// A value and the line, from 1, on which its name (in a list: the value) stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// From 1.
    pub line: usize,
    /// What was written.
    pub value: Value,
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number with a fraction or exponent.
    Decimal(f64),
    /// `true` or `false`.
    Switch(bool),
    /// A date or a time; no setting is one.
    Date,
    /// `[…]` or `[[…]]`.
    List(Vec<Entry>),
    /// `{…}` or `[…]` as a heading.
    Table(Table),
}

/// Names and values in the order of the file.
pub type Table = Vec<(String, Entry)>;

/// The text is no TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl Value {
    /// What kind of value it is, for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Whole(_) => "a whole number",
            Value::Decimal(_) => "a decimal number",
            Value::Switch(_) => "true or false",
            Value::Date => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// The document's top table.
pub fn parse(text: &str) -> Result<Table, SyntaxError> {
    let lines = Lines::of_text(text);
    match DeTable::parse(text) {
        Ok(table) => lines.table(table.get_ref()),
        Err(error) => Err(SyntaxError {
            line: lines.at(error.span().map_or(0, |span| span.start)),
            reason: error.message().to_owned(),
        }),
    }
}

/// Where lines begin in a text, so that finding the line of a value costs the same in a large one.
struct Lines(Vec<usize>);

impl Lines {
    fn of_text(text: &str) -> Lines {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines(std::iter::once(0).chain(breaks).collect())
    }

    /// The line, from 1, of the byte `at`.
    fn at(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at)
    }

    fn table(&self, table: &DeTable<'_>) -> Result<Table, SyntaxError> {
        let mut members: Vec<_> = table.iter().collect();
        members.sort_by_key(|(name, _)| name.span().start);
        members
            .into_iter()
            .map(|(name, value)| {
                let entry = Entry {
                    line: self.at(name.span().start),
                    value: self.value(value)?,
                };
                Ok((name.get_ref().to_string(), entry))
            })
            .collect()
    }

    fn value(&self, value: &Spanned<DeValue<'_>>) -> Result<Value, SyntaxError> {
        Ok(match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => {
                let whole = i64::from_str_radix(number.as_str(), number.radix());
                Value::Whole(whole.map_err(|_| self.too_large(value))?)
            }
            DeValue::Float(number) => {
                let decimal = number.as_str().parse();
                Value::Decimal(decimal.map_err(|_| self.too_large(value))?)
            }
            DeValue::Boolean(on) => Value::Switch(*on),
            DeValue::Datetime(_) => Value::Date,
            DeValue::Array(list) => {
                let entry = |element: &Spanned<DeValue<'_>>| {
                    Ok(Entry {
                        line: self.at(element.span().start),
                        value: self.value(element)?,
                    })
                };
                Value::List(list.iter().map(entry).collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Value::Table(self.table(table)?),
        })
    }

    fn too_large(&self, value: &Spanned<DeValue<'_>>) -> SyntaxError {
        SyntaxError {
            line: self.at(value.span().start),
            reason: "the number is out of range".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_know_their_lines_in_every_way_to_write_a_table() {
        let text =
            "a = 1\n\n[b]\nc = { d = 'x',\n e = true }\n[[r]]\nn = 0x10\n[r.t]\nu.v = [1.5,\n2]\n";
        let table = parse(text).expect("this is TOML");
        let mut found = Vec::new();
        walk(&table, "", &mut found);
        let expected = [
            ("a", 1),
            ("b", 3),
            ("b.c", 4),
            ("b.c.d", 4),
            ("b.c.e", 5),
            ("r", 6),
            ("r[]", 6),
            ("r[].n", 7),
            ("r[].t", 8),
            ("r[].t.u", 9),
            ("r[].t.u.v", 9),
            ("r[].t.u.v[]", 9),
            ("r[].t.u.v[]", 10),
        ];
        let found: Vec<_> = found.iter().map(|(n, l)| (n.as_str(), *l)).collect();
        assert_eq!(found, expected);
    }

    fn walk(table: &Table, prefix: &str, found: &mut Vec<(String, usize)>) {
        for (name, entry) in table {
            visit(entry, format!("{prefix}{name}"), found);
        }
    }

    fn visit(entry: &Entry, path: String, found: &mut Vec<(String, usize)>) {
        found.push((path.clone(), entry.line));
        match &entry.value {
            Value::Table(table) => walk(table, &format!("{path}."), found),
            Value::List(list) => list
                .iter()
                .for_each(|element| visit(element, format!("{path}[]"), found)),
            _ => {}
        }
    }

    #[test]
    fn what_is_no_toml_says_its_line() {
        let table = [
            ("a = 1\nb =\n", 2),
            ("a = 1\na = 2\n", 2),
            ("\n\n[x\n", 3),
            ("a = 99999999999999999999\n", 1),
            ("a = 'x", 1),
        ];
        for (text, line) in table {
            let error = parse(text).expect_err(text);
            assert_eq!(error.line, line, "{text}: {}", error.reason);
        }
    }
}
