//! What a `multipart/*` body means: its parts in order, each by name, file name, type and bytes.
//!
//! Decides that the boundary, and how header fields of a part are spelt, do not count. Source:
//! docs/keyed-requests.md, "Fingerprint"; RFC 2046 section 5.1, RFC 7578 section 4. Strict where
//! parsers differ: a preamble, an epilogue, a folded, repeated or unknown field makes the body
//! count by its bytes.

use super::frame::{put_length, put_optional, put_part};

/// Longest boundary (RFC 2046, 5.1.1); also bounds the work of the search.
const MAX_BOUNDARY: usize = 70;
/// Most parts; a body with more is read by bytes. Bounds the memory beside the body.
const MAX_PARTS: usize = 16_384;

/// What the header fields of a part say.
#[derive(Default)]
struct Head<'a> {
    name: Option<&'a [u8]>,
    filename: Option<&'a [u8]>,
    /// `filename*` (RFC 8187), as it stands.
    filename_ext: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    disposed: bool,
}

/// The framed parts; `None` where the bytes must count. `parameters` are those of the content
/// type, from the first `;` on; in a form (`multipart/form-data`) every part has a name.
pub(super) fn canonical(body: &[u8], parameters: &[u8], is_form: bool) -> Option<Vec<u8>> {
    let boundary = one_parameter(parameters, b"boundary")?;
    if boundary.is_empty() || boundary.len() > MAX_BOUNDARY || boundary.contains(&b'\\') {
        return None;
    }
    let parts = split(body, boundary)?;
    let mut out = Vec::with_capacity(body.len());
    put_length(&mut out, parts.len());
    for part in parts {
        let (head, content) = read_part(part, is_form)?;
        if is_form && head.name.is_none() {
            return None;
        }
        put_optional(&mut out, head.name);
        put_optional(&mut out, head.filename);
        put_optional(&mut out, head.filename_ext);
        put_optional(&mut out, head.content_type);
        put_part(&mut out, content);
    }
    Some(out)
}

/// The bytes between the delimiter lines.
fn split<'a>(body: &'a [u8], boundary: &[u8]) -> Option<Vec<&'a [u8]>> {
    let delimiter = [b"\r\n--", boundary].concat();
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    let mut parts = Vec::new();
    loop {
        if let Some(epilogue) = rest.strip_prefix(b"--") {
            let clean = epilogue.is_empty() || epilogue == b"\r\n";
            return (clean && !parts.is_empty()).then_some(parts);
        }
        if parts.len() == MAX_PARTS {
            return None;
        }
        let padding = rest.iter().position(|b| !matches!(b, b' ' | b'\t'))?;
        rest = rest[padding..].strip_prefix(b"\r\n")?;
        let end = find(rest, &delimiter)?;
        parts.push(&rest[..end]);
        rest = &rest[end + delimiter.len()..];
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text[at..].iter().position(|&b| b == b'\r')?;
        if text[at..].starts_with(wanted) {
            return Some(at);
        }
        at += 1;
    }
}

fn read_part(part: &[u8], is_form: bool) -> Option<(Head<'_>, &[u8])> {
    let mut head = Head::default();
    let mut rest = part;
    loop {
        if let Some(content) = rest.strip_prefix(b"\r\n") {
            return Some((head, content));
        }
        let end = find(rest, b"\r\n")?;
        head.field(&rest[..end], is_form)?;
        rest = &rest[end + 2..];
    }
}

impl<'a> Head<'a> {
    fn field(&mut self, line: &'a [u8], is_form: bool) -> Option<()> {
        let colon = line.iter().position(|&b| b == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || !name.iter().all(|&b| is_token(b)) {
            return None;
        }
        match name.to_ascii_lowercase().as_slice() {
            b"content-disposition" if !self.disposed => self.disposition(value, is_form),
            b"content-type" if self.content_type.is_none() => {
                self.content_type = Some(value);
                Some(())
            }
            // Says nothing that the bytes do not say; any other transfer encoding does.
            b"content-transfer-encoding" => {
                let plain: [&[u8]; 3] = [b"7bit", b"8bit", b"binary"];
                plain
                    .iter()
                    .any(|coding| value.eq_ignore_ascii_case(coding))
                    .then_some(())
            }
            b"content-length" => Some(()),
            b"content-disposition" | b"content-type" => None,
            // A form's parts have no other field, and what comes is ignored (RFC 7578, 4.8); in
            // other types it may be meaning.
            _ => is_form.then_some(()),
        }
    }

    fn disposition(&mut self, value: &'a [u8], is_form: bool) -> Option<()> {
        self.disposed = true;
        let end = value.iter().position(|&b| b == b';').unwrap_or(value.len());
        let kind: &[u8] = if is_form { b"form-data" } else { b"attachment" };
        if !value[..end].trim_ascii().eq_ignore_ascii_case(kind) {
            return None;
        }
        for (name, value) in parameters(&value[end..])? {
            let place = match name.to_ascii_lowercase().as_slice() {
                b"name" => &mut self.name,
                b"filename" => &mut self.filename,
                b"filename*" => &mut self.filename_ext,
                _ => return None,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        Some(())
    }
}

/// The value of a parameter that must come exactly once.
fn one_parameter<'a>(text: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let parameters = parameters(text)?;
    let mut found = parameters
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    match (found.next(), found.next()) {
        (Some((_, value)), None) => Some(value),
        _ => None,
    }
}

/// The parameters of a field value, from the first `;` on. Values without their quotes, escapes
/// left in: whether senders escape at all is not agreed, and two spellings need not be one.
fn parameters(text: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    let mut rest = text.trim_ascii();
    while let Some(after) = rest.strip_prefix(b";") {
        rest = after.trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        let equals = rest
            .iter()
            .position(|&b| !is_token(b))
            .filter(|&at| rest[at] == b'=')?;
        let name = &rest[..equals];
        rest = &rest[equals + 1..];
        let value = if let Some(quoted) = rest.strip_prefix(b"\"") {
            let end = quote_end(quoted)?;
            rest = &quoted[end + 1..];
            &quoted[..end]
        } else {
            let end = rest
                .iter()
                .position(|&b| !is_token(b))
                .unwrap_or(rest.len());
            let value = &rest[..end];
            rest = &rest[end..];
            value
        };
        found.push((name, value));
        rest = rest.trim_ascii_start();
    }
    rest.is_empty().then_some(found)
}

/// Where the closing quote stands, an escaped one not counting.
fn quote_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// RFC 9110, 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
