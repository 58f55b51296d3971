//! Just enough of Rust's grammar for the checks: what is code and what is not, which paths are
//! named, where braces close. It works on code that rustfmt and the compiler have accepted.

/// The text with comments, strings and character literals as spaces. Every other character keeps
/// its place, so that lines and columns stay true.
pub fn code(text: &str) -> String {
    let source: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < source.len() {
        let end = skipped(&source, at);
        if end == at {
            out.push(source[at]);
            at += 1;
        }
        while at < end {
            out.push(if source[at] == '\n' { '\n' } else { ' ' });
            at += 1;
        }
    }
    out
}

/// Where the comment or literal that begins at `at` ends; `at` itself when none does.
fn skipped(source: &[char], at: usize) -> usize {
    let is = |offset: usize, wanted: char| source.get(at + offset) == Some(&wanted);
    let in_word = at > 0 && (source[at - 1].is_alphanumeric() || source[at - 1] == '_');
    match source[at] {
        '/' if is(1, '/') => find(source, at, |rest| rest[0] == '\n'),
        '/' if is(1, '*') => block_comment_end(source, at),
        '"' => string_end(source, at),
        'r' if !in_word && (is(1, '"') || is(1, '#')) => raw_string_end(source, at),
        'b' | 'c' if !in_word && is(1, 'r') && (is(2, '"') || is(2, '#')) => {
            raw_string_end(source, at + 1)
        }
        '\'' if is(1, '\\') => find(source, at + 3, |rest| rest[0] == '\'') + 1,
        '\'' if is(2, '\'') => at + 3,
        _ => at,
    }
    .min(source.len())
}

fn find(source: &[char], from: usize, wanted: impl Fn(&[char]) -> bool) -> usize {
    (from..source.len())
        .find(|&at| wanted(&source[at..]))
        .unwrap_or(source.len())
}

fn block_comment_end(source: &[char], at: usize) -> usize {
    let (mut depth, mut at) = (0usize, at);
    while at < source.len() {
        match &source[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_end(source: &[char], at: usize) -> usize {
    let mut at = at + 1;
    while at < source.len() && source[at] != '"' {
        at += if source[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of a raw string whose `r` is at `at`; a raw identifier (`r#type`) is no string.
fn raw_string_end(source: &[char], at: usize) -> usize {
    let hashes = source[at + 1..].iter().take_while(|c| **c == '#').count();
    if source.get(at + 1 + hashes) != Some(&'"') {
        return at;
    }
    let closes = |rest: &[char]| {
        rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|c| *c == '#')
    };
    find(source, at + 2 + hashes, closes) + 1 + hashes
}

/// A path as it is written, `use` groups spelt out: `use std::{fs, io::Read}` gives two.
#[derive(Debug, PartialEq)]
pub struct Named {
    pub line: usize,
    pub segments: Vec<String>,
    /// It stands in a `use` or `extern crate`.
    pub imported: bool,
}

impl Named {
    /// Whether the path is `prefix` or goes on from it.
    pub fn starts_with(&self, prefix: &str) -> bool {
        let mut own = self.segments.iter();
        prefix
            .split("::")
            .all(|wanted| own.next().is_some_and(|segment| segment == wanted))
    }

    pub fn ends_with(&self, suffix: &str) -> bool {
        let mut own = self.segments.iter().rev();
        suffix
            .rsplit("::")
            .all(|wanted| own.next().is_some_and(|segment| segment == wanted))
    }
}

/// Every path with at least two segments, and every imported one, in blanked `code`.
pub fn paths(code: &str) -> Vec<Named> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let word = tokens[at].text.as_str();
        if word == "use" || (word == "crate" && at > 0 && tokens[at - 1].text == "extern") {
            at = use_tree(&tokens, at + 1, &[], &mut found);
        } else if is_word(word) {
            let (mut segments, line) = (vec![word.to_owned()], tokens[at].line);
            at += 1;
            while let [colons, next, ..] = &tokens[at..]
                && colons.text == "::"
                && is_word(&next.text)
            {
                segments.push(next.text.clone());
                at += 2;
            }
            if segments.len() > 1 {
                found.push(Named {
                    line,
                    segments,
                    imported: false,
                });
            }
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one tree of a `use` at `at`, below `prefix`; gives the place after it.
fn use_tree(tokens: &[Token], at: usize, prefix: &[String], found: &mut Vec<Named>) -> usize {
    let mut segments = prefix.to_vec();
    let line = tokens.get(at).map_or(0, |token| token.line);
    let mut at = at;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token.text != "}") {
                    let next = use_tree(tokens, at, &segments, found);
                    let comma = tokens.get(next).is_some_and(|token| token.text == ",");
                    at = if next == at || comma { next + 1 } else { next };
                }
                return at + 1;
            }
            "as" => at += 2,
            "*" => at += 1,
            word if is_word(word) => {
                segments.push(word.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    if !segments.is_empty() {
        found.push(Named {
            line,
            segments,
            imported: true,
        });
    }
    at
}

struct Token {
    line: usize,
    text: String,
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn tokens(code: &str) -> Vec<Token> {
    let mut found: Vec<Token> = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let length = match first {
                _ if word > 0 => word,
                ':' if rest.starts_with("::") => 2,
                other => other.len_utf8(),
            };
            found.push(Token {
                line: index + 1,
                text: rest[..length].to_owned(),
            });
            rest = rest[length..].trim_start();
        }
    }
    found
}

/// The place of the brace that closes the first one opened at or after byte `from` of `code`; none
/// when a `;` outside brackets comes first, or nothing opens.
pub fn block_end(code: &str, from: usize) -> Option<usize> {
    let (mut braces, mut brackets) = (0usize, 0usize);
    for (offset, c) in code[from..].char_indices() {
        match c {
            '{' => braces += 1,
            '}' if braces <= 1 => return (braces == 1).then_some(from + offset),
            '}' => braces -= 1,
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if braces == 0 && brackets == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The lines (from 1, both ends included) of every `#[cfg(test)]` module or function in `code`.
pub fn test_lines(code: &str) -> Vec<(usize, usize)> {
    let line_of = |at: usize| code[..at].matches('\n').count() + 1;
    code.match_indices("#[cfg(test)]")
        .chain(code.match_indices("#[test]"))
        .chain(code.match_indices("#[tokio::test"))
        .filter_map(|(at, _)| Some((line_of(at), line_of(block_end(code, at)?))))
        .collect()
}

/// Whether a whole file is test code.
pub fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[test]
fn comments_and_literals_are_blanked_and_places_kept() {
    let table = [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        (r#"f("todo!() \" {", 'x')"#, "f(              ,    )"),
        ("r#\"a\"b\"# + r#type", "         + r#type"),
        ("br\"a\" b\"c\"", "      b   "),
        (r"let q: &'a str = '\'';", "let q: &'a str =     ;"),
        (r"'\u{1f}' '\\' 'é'", "                 "),
    ];
    for (text, blanked) in table {
        assert_eq!(code(text), blanked, "{text}");
    }
}

#[test]
fn groups_in_a_use_are_spelt_out() {
    let text =
        "use std::{\n    fs,\n    io::{self, Read as R},\n};\nlet x = ::tokio::time::sleep(y);";
    let found = paths(&code(text));
    let spelt: Vec<String> = found.iter().map(|path| path.segments.join("::")).collect();
    assert_eq!(
        spelt,
        [
            "std::fs",
            "std::io::self",
            "std::io::Read",
            "tokio::time::sleep"
        ]
    );
    assert_eq!((found[0].line, found[3].line), (2, 5));
    assert!(found[0].imported && !found[3].imported);
    assert!(found[3].ends_with("time::sleep") && !found[3].ends_with("me::sleep"));
    assert!(found[0].starts_with("std::fs") && !found[0].starts_with("std::fs::read"));
}

#[test]
fn a_block_ends_at_its_own_brace() {
    assert_eq!(block_end("fn f(a: [u8; 2]) { { } } x", 0), Some(23));
    assert_eq!(block_end("fn f(); fn g() {}", 0), None);
    assert_eq!(
        test_lines("a\n#[cfg(test)]\nmod t {\n}\n#[cfg(test)]\nmod tests;\n"),
        [(2, 4)]
    );
}
