//! Which route a request takes.
//!
//! Decides whether a path matches a pattern, and which paths no route may see. It refuses to know
//! headers and hosts. Rule: the path is taken as sent; two spellings that differ only in
//! percent-encoding of unreserved characters are one path, `%2F` is no separator, and a path that
//! an upstream might walk through (`.` or `..` in any disguise) is refused, so that route and
//! upstream cannot disagree about what was asked for. Sources: docs/reference.md, "Configuration";
//! RFC 3986 sections 3.3, 5.2.4, 6.2.2.

use std::fmt;

use http::Method;
use steadfast_core::lookup::Capture;

/// Longest pattern, in bytes: longer ones are no path that a person wrote.
const LONGEST_PATTERN: usize = 1024;

/// One part of a pattern between two slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// These bytes, normalised; empty where two slashes meet or the path ends in one.
    Literal(String),
    /// `{name}`: one segment that is not empty.
    One,
    /// `{*name}`, the last: every segment from here on, also a single empty one.
    Rest,
}

/// A path with places: `/v1/charges`, `/v1/{id}`, `/v1/{*rest}`.
///
/// ```
/// use steadfast_cli::gateway::route::{PathPattern, RequestPath};
/// let pattern = PathPattern::parse("/v1/{*rest}").unwrap();
/// let matches = |path| pattern.matches(&RequestPath::parse(path).unwrap());
/// assert!(matches("/v1/") && matches("/v1/a/b"));
/// assert!(!matches("/v1") && !matches("/v2/a"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    segments: Vec<Segment>,
}

/// Why a text is no pattern. The configuration's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// It does not begin with a slash.
    NoSlash,
    /// It is longer than any path that is meant.
    TooLong,
    /// It has a query or a fragment, or a character that a path does not have.
    NotAPath,
    /// It has a segment that no request may have.
    DotSegment,
    /// Braces that are not a whole segment around a name.
    Place,
    /// `{*name}` somewhere before the end.
    RestNotLast,
    /// Two places have one name.
    NameTwice,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PatternError::NoSlash => "the path does not begin with `/`",
            PatternError::TooLong => "the path has more than 1024 bytes",
            PatternError::NotAPath => {
                "the path has a character that paths do not have (`?`, `#`, a space, a \
                 backslash, or one outside ASCII that is not percent-encoded)"
            }
            PatternError::DotSegment => {
                "the path has a `.` or `..` segment, which no request may have"
            }
            PatternError::Place => "a place is a whole segment, written `{name}` or `{*name}`",
            PatternError::RestNotLast => "`{*name}` stands only at the end of a path",
            PatternError::NameTwice => "two places of the path have the same name",
        })
    }
}

impl std::error::Error for PatternError {}

impl PathPattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<PathPattern, PatternError> {
        if text.len() > LONGEST_PATTERN {
            return Err(PatternError::TooLong);
        }
        let path = text.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        let (mut segments, mut names) = (Vec::new(), Vec::new());
        for part in path.split('/') {
            if segments.last() == Some(&Segment::Rest) {
                return Err(PatternError::RestNotLast);
            }
            segments.push(segment(part, &mut names)?);
        }
        Ok(PathPattern {
            text: text.to_owned(),
            segments,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its places, in their order.
    pub fn places(&self) -> Vec<Capture> {
        let parts = self.text.split('/').skip(1).enumerate();
        let place = |(at, part): (usize, &str)| {
            let inside = part.strip_prefix('{')?.strip_suffix('}')?;
            let rest = inside.strip_prefix('*');
            Some(Capture {
                name: rest.unwrap_or(inside).to_owned(),
                at,
                is_rest: rest.is_some(),
            })
        };
        parts.filter_map(place).collect()
    }

    /// Whether `path` is one that the pattern describes.
    pub fn matches(&self, path: &RequestPath) -> bool {
        let mut parts = path.segments.iter();
        for segment in &self.segments {
            let matched = match (segment, parts.next()) {
                (Segment::Rest, Some(_)) => return true,
                (Segment::Literal(literal), Some(part)) => literal == part,
                (Segment::One, Some(part)) => !part.is_empty(),
                (_, None) => false,
            };
            if !matched {
                return false;
            }
        }
        parts.next().is_none()
    }

    /// Whether every path that `other` describes is one that this pattern describes.
    pub fn covers(&self, other: &PathPattern) -> bool {
        let mut theirs = other.segments.iter();
        for segment in &self.segments {
            let covered = match (segment, theirs.next()) {
                (Segment::Rest, Some(_)) => return true,
                (Segment::Literal(a), Some(Segment::Literal(b))) => a == b,
                (Segment::One, Some(Segment::Literal(b))) => !b.is_empty(),
                (Segment::One, Some(Segment::One)) => true,
                _ => false,
            };
            if !covered {
                return false;
            }
        }
        theirs.next().is_none()
    }
}

fn segment<'a>(part: &'a str, names: &mut Vec<&'a str>) -> Result<Segment, PatternError> {
    if let Some(inside) = part.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
        let (name, segment) = match inside.strip_prefix('*') {
            Some(name) => (name, Segment::Rest),
            None => (inside, Segment::One),
        };
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name =
            name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit());
        if !is_name {
            return Err(PatternError::Place);
        }
        if names.contains(&name) {
            return Err(PatternError::NameTwice);
        }
        names.push(name);
        return Ok(segment);
    }
    // Other routers' ways of writing a place; as literal text they would silently match nothing.
    if part.contains(['{', '}']) || part.starts_with(':') || part.starts_with('*') {
        return Err(PatternError::Place);
    }
    let sound = |b: u8| b.is_ascii_graphic() && !b"?#\\\"<>^`|".contains(&b);
    if !part.bytes().all(sound) {
        return Err(PatternError::NotAPath);
    }
    let literal = normalise(part);
    if walks(&literal) {
        return Err(PatternError::DotSegment);
    }
    Ok(Segment::Literal(literal))
}

/// A request's path that a route may see, in segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath {
    segments: Vec<String>,
}

/// A path that no route sees. The caller's fault; `bad-request`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It does not begin with a slash, as `*` in `OPTIONS *`.
    NotAPath,
    /// A segment is `.` or `..`, plainly, percent-encoded, behind an encoded slash or a backslash,
    /// or with parameters.
    DotSegment,
    /// A `%` without two hexadecimal digits: servers differ in what they take it for.
    Escape,
    /// Some servers read a path of an earlier route.
    TwoReadings,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathError::NotAPath => "The request names no path; send one that begins with `/`.",
            PathError::DotSegment => {
                "The path has a `.` or `..` segment, plain or encoded; send the path that it \
                 leads to."
            }
            PathError::Escape => {
                "The path has a `%` without two hexadecimal digits; send a literal one as `%25`."
            }
            PathError::TwoReadings => {
                "The path has an empty segment, a `;` or an encoded slash, and would be another \
                 route's to a server that reads them otherwise; send the path that is meant."
            }
        })
    }
}

impl std::error::Error for PathError {}

impl RequestPath {
    /// Reads the path of a request as it was sent, without its query.
    pub fn parse(path: &str) -> Result<RequestPath, PathError> {
        let rest = path.strip_prefix('/').ok_or(PathError::NotAPath)?;
        if has_broken_escape(rest) {
            return Err(PathError::Escape);
        }
        let segments: Vec<String> = rest.split('/').map(normalise).collect();
        if segments.iter().any(|segment| walks(segment)) {
            return Err(PathError::DotSegment);
        }
        Ok(RequestPath { segments })
    }

    /// The path as other servers read it: some merge slashes (nginx), some cut parameters off
    /// segments (Tomcat), some decode a slash before they route (WSGI). Each alone, and all
    /// together; none where all read the same.
    pub fn other_readings(&self) -> Vec<RequestPath> {
        // Nearly all paths have nothing of which the readings below make something else.
        let plain = |segment: &String| !segment.contains(['%', ';', '\\']);
        let inner = self
            .segments
            .split_last()
            .map_or(&[][..], |(_, inner)| inner);
        if self.segments.iter().all(plain) && !inner.iter().any(String::is_empty) {
            return Vec::new();
        }
        let merged = |path: &RequestPath| {
            let last = path.segments.len() - 1;
            let kept = path.segments.iter().enumerate();
            let kept = kept.filter(|(at, segment)| *at == last || !segment.is_empty());
            RequestPath {
                segments: kept.map(|(_, segment)| segment.clone()).collect(),
            }
        };
        let cut = |path: &RequestPath| {
            let bare = |segment: &String| {
                let plain = segment.replace("%3B", ";");
                plain.split(';').next().unwrap_or_default().to_owned()
            };
            RequestPath {
                segments: path.segments.iter().map(bare).collect(),
            }
        };
        let decoded = |path: &RequestPath| {
            let slashed = |segment: &String| {
                let plain = segment
                    .replace("%2F", "/")
                    .replace("%5C", "/")
                    .replace('\\', "/");
                plain.split('/').map(str::to_owned).collect::<Vec<_>>()
            };
            RequestPath {
                segments: path.segments.iter().flat_map(slashed).collect(),
            }
        };
        let all = [
            merged(self),
            cut(self),
            decoded(self),
            merged(&cut(&decoded(self))),
        ];
        all.into_iter().filter(|other| other != self).collect()
    }

    /// Whether the first segment is `name`, in whatever spelling.
    pub fn begins_with(&self, name: &str) -> bool {
        self.segments.first().is_some_and(|first| first == name)
    }
}

/// A `%` that two hexadecimal digits do not follow.
fn has_broken_escape(path: &str) -> bool {
    let sound = |after: &str| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    path.split('%').skip(1).any(|after| !sound(after))
}

/// Whether some server would read a normalised segment as a step to itself or upwards: it decodes
/// `%2F` and `%5C`, takes a backslash for a slash, cuts parameters off at a semicolon, or trims
/// what cannot be seen.
fn walks(segment: &str) -> bool {
    if !segment.contains('.') {
        return false;
    }
    let split = segment
        .replace("%2F", "/")
        .replace("%5C", "/")
        .replace("%3B", ";")
        .replace("%20", " ")
        .replace("%09", " ")
        .replace("%00", " ");
    split.split(['/', '\\']).any(|piece| {
        let bare = piece.split_once(';').map_or(piece, |(bare, _)| bare);
        matches!(bare.trim(), "." | "..")
    })
}

/// Escapes of unreserved characters are resolved, the digits of others are upper case, what is no
/// escape stays as it is.
fn normalise(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        normal.push_str(before);
        let digits = after
            .get(..2)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        normal.push_str(&match (byte, digits) {
            (Some(byte), _) if is_unreserved(byte) => char::from(byte).to_string(),
            (_, Some(digits)) => format!("%{}", digits.to_ascii_uppercase()),
            (_, None) => "%".to_owned(),
        });
        rest = digits.map_or(after, |_| &after[2..]);
    }
    normal.push_str(rest);
    normal
}

/// RFC 3986, 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// The methods that a route takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Methods {
    /// All.
    Any,
    /// These, exactly: `GET` does not bring `HEAD` with it.
    Only(Vec<Method>),
}

impl Methods {
    /// Whether the route takes `method`.
    pub fn contains(&self, method: &Method) -> bool {
        match self {
            Methods::Any => true,
            Methods::Only(methods) => methods.contains(method),
        }
    }

    /// Whether the route takes every method that `other` takes.
    pub fn covers(&self, other: &Methods) -> bool {
        match (self, other) {
            (Methods::Any, _) => true,
            (Methods::Only(_), Methods::Any) => false,
            (Methods::Only(_), Methods::Only(theirs)) => {
                theirs.iter().all(|method| self.contains(method))
            }
        }
    }
}

/// The place of the first route, in the order given, that takes `path` and `method`.
pub fn first_match<'a>(
    routes: impl IntoIterator<Item = (&'a PathPattern, &'a Methods)>,
    path: &RequestPath,
    method: &Method,
) -> Option<usize> {
    routes
        .into_iter()
        .position(|(pattern, methods)| methods.contains(method) && pattern.matches(path))
}

#[cfg(test)]
mod tests;
