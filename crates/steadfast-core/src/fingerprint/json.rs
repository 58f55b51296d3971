//! What a JSON body means.
//!
//! Decides that member order, white space and escapes do not count, that arrays are ordered, and
//! that numbers are their decimal value. One strict pass (RFC 8259) writes an encoding in which
//! two texts are equal exactly if they mean the same. No number becomes a double and no exponent
//! is expanded. What readers disagree on makes the body count by its bytes: malformed text,
//! duplicate names (after escapes), lone surrogates, depth, and exponents that no program computes
//! with. Source: docs/keyed-requests.md, "Fingerprint"; RFC 8259, RFC 7493 section 2.
//!
//! The encoding, in which every value tells where it ends:
//!
//! | value | encoding |
//! | --- | --- |
//! | null, true, false | `n`, `t`, `f` |
//! | string | `s`, its UTF-8, 0xff (which UTF-8 never holds) |
//! | zero | `0` |
//! | other number | `+` or `-`, the digits without zeros at either end, `;` or a power |
//! | power, where not 0 | `e`, the power of ten of the last digit in 8 bytes, big-endian |
//! | array | `[`, its elements, `]` |
//! | object | `{`, for each member in the order of names its name as a string and its value, `}` |

use super::JsonPointer;

mod numbers;
mod strings;

/// Deepest nesting of arrays and objects. Bounds the stack, and the work of sorting nested
/// members; no API nests deeper, and common parsers stop at the same place.
const MAX_DEPTH: usize = 128;

/// The encoding of `body` without what `ignored` points at (32 pointers at most); `None` where the
/// bytes must count.
pub(super) fn canonical(body: &[u8], ignored: &[JsonPointer]) -> Option<Vec<u8>> {
    std::str::from_utf8(body).ok()?;
    let mut reader = Reader {
        text: body,
        at: 0,
        out: Vec::with_capacity(body.len()),
        members: Vec::new(),
        sorted: Vec::new(),
        ignored,
    };
    reader.skip_space();
    reader.value(0, Live::all(ignored))?;
    reader.skip_space();
    (reader.at == body.len()).then_some(reader.out)
}

/// The pointers that lead into the value at hand, as bits.
#[derive(Clone, Copy)]
struct Live(u32);

/// What the pointers say of one member or element.
struct Step {
    /// Those that lead into it.
    live: Live,
    /// One points at it.
    ignored: bool,
}

impl Live {
    fn all(pointers: &[JsonPointer]) -> Live {
        Live(
            pointers
                .iter()
                .enumerate()
                .fold(0, |bits, (place, _)| bits | 1 << place),
        )
    }

    /// One step down, from `depth` containers deep, along the pointers that `goes` accepts.
    fn step(self, all: &[JsonPointer], depth: usize, goes: impl Fn(&JsonPointer) -> bool) -> Step {
        let mut step = Step {
            live: Live(0),
            ignored: false,
        };
        if self.0 == 0 {
            return step;
        }
        for (place, pointer) in all.iter().enumerate() {
            if self.0 & 1 << place != 0 && goes(pointer) {
                if pointer.depth() == depth + 1 {
                    step.ignored = true;
                } else {
                    step.live.0 |= 1 << place;
                }
            }
        }
        step
    }
}

/// Where a member stands in the encoding.
struct Member {
    start: usize,
    name_end: usize,
    end: usize,
    ignored: bool,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// Those of all open objects, the innermost last.
    members: Vec<Member>,
    /// Room for putting members in order; kept to save allocations.
    sorted: Vec<u8>,
    ignored: &'a [JsonPointer],
}

impl Reader<'_> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize, live: Live) -> Option<()> {
        match self.peek()? {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b'{' | b'[' if depth == MAX_DEPTH => None,
            b'{' => self.object(depth, live),
            b'[' => self.array(depth, live),
            b'n' => self.word(b"null"),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            _ => None,
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let found = self.text[self.at..].starts_with(word);
        self.at += word.len();
        self.out.push(word[0]);
        found.then_some(())
    }

    fn array(&mut self, depth: usize, live: Live) -> Option<()> {
        self.at += 1;
        self.out.push(b'[');
        self.skip_space();
        if !self.take(b']') {
            for index in 0.. {
                let start = self.out.len();
                let step = live.step(self.ignored, depth, |p| p.goes_to_element(depth, index));
                self.value(depth + 1, step.live)?;
                if step.ignored {
                    self.out.truncate(start);
                }
                self.skip_space();
                match self.next()? {
                    b',' => self.skip_space(),
                    b']' => break,
                    _ => return None,
                }
            }
        }
        self.out.push(b']');
        Some(())
    }

    fn object(&mut self, depth: usize, live: Live) -> Option<()> {
        self.at += 1;
        self.out.push(b'{');
        let first = self.members.len();
        self.skip_space();
        if !self.take(b'}') {
            loop {
                self.member(depth, live)?;
                self.skip_space();
                match self.next()? {
                    b',' => self.skip_space(),
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        self.arrange(first)?;
        self.out.push(b'}');
        Some(())
    }

    fn member(&mut self, depth: usize, live: Live) -> Option<()> {
        let start = self.out.len();
        if self.peek()? != b'"' {
            return None;
        }
        self.string()?;
        let name_end = self.out.len();
        let name = &self.out[start + 1..name_end - 1];
        let step = live.step(self.ignored, depth, |p| p.goes_to_member(depth, name));
        self.skip_space();
        if !self.take(b':') {
            return None;
        }
        self.skip_space();
        self.value(depth + 1, step.live)?;
        let end = self.out.len();
        self.members.push(Member {
            start,
            name_end,
            end,
            ignored: step.ignored,
        });
        Some(())
    }

    /// Puts the members of the innermost object in the order of their names and drops the ignored
    /// ones, of which the names still count as duplicates.
    fn arrange(&mut self, first: usize) -> Option<()> {
        let members = &mut self.members[first..];
        let Some(begin) = members.first().map(|member| member.start) else {
            return Some(());
        };
        let out = &self.out;
        let name = |member: &Member| &out[member.start..member.name_end];
        let in_order = members.is_sorted_by(|a, b| name(a) < name(b));
        if !in_order {
            members.sort_unstable_by(|a, b| name(a).cmp(name(b)));
            if !members.is_sorted_by(|a, b| name(a) < name(b)) {
                return None;
            }
        }
        if !in_order || members.iter().any(|member| member.ignored) {
            self.sorted.clear();
            for member in members.iter().filter(|member| !member.ignored) {
                self.sorted
                    .extend_from_slice(&out[member.start..member.end]);
            }
            self.out.truncate(begin);
            self.out.extend_from_slice(&self.sorted);
        }
        self.members.truncate(first);
        Some(())
    }
}
