//! What the gateway reads off a request's fields, and what it takes off them.
//!
//! Decides by the fields alone; routes, keys and principals are others' to judge.

use std::time::Duration;

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, TE, TRAILER};
use steadfast_core::deadline::{
    ENVOY_EXPECTED_MS, GRPC_TIMEOUT, REQUEST_TIMEOUT_MS, Told, read_grpc, read_ms,
};
use steadfast_core::fields::strip_hop;
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::trailers::announced;

/// The caller's remaining time, the smallest of what its fields say. A malformed field is ignored.
pub fn told_deadline(headers: &HeaderMap) -> Option<Duration> {
    let of = |name: &str, read: fn(&[u8]) -> Told| {
        headers
            .get_all(name)
            .iter()
            .filter_map(move |value| match read(value.as_bytes()) {
                Told::Remaining(left) => Some(left),
                Told::Malformed => None,
            })
    };
    of(REQUEST_TIMEOUT_MS, read_ms)
        .chain(of(ENVOY_EXPECTED_MS, read_ms))
        .chain(of(GRPC_TIMEOUT, read_grpc))
        .min()
}

/// What the caller's hop said of trailers, before its fields were taken off.
#[derive(Clone, Debug)]
pub struct Trailers {
    /// The caller takes trailers of an answer.
    pub taken: bool,
    announced: Vec<HeaderValue>,
}

impl Trailers {
    /// Announces the request's own trailers to the next hop, for a body passed on with them, less
    /// those that only a head may say; `guarded` are those to which the configuration gives a
    /// meaning. What is not announced is not written.
    pub fn announce(self, headers: &mut HeaderMap, guarded: &[&HeaderName]) {
        if let Some(names) = announced(&self.announced, guarded) {
            headers.insert(TRAILER, names);
        }
    }
}

/// Takes off everything that belongs to the caller's hop, and says that trailers are taken where
/// the caller takes them.
///
/// # Errors
/// `bad-request` where `Connection` names a field that must reach the upstream, `key` among them: a
/// request that lost it would execute each time.
pub fn take_off_hop(headers: &mut HeaderMap, key: &HeaderName) -> Result<Trailers, Problem> {
    if members(headers, &CONNECTION).any(|member| member.eq_ignore_ascii_case(key.as_str())) {
        return Err(nominated(key.as_str()));
    }
    let trailers = Trailers {
        taken: members(headers, &TE).any(|member| member.eq_ignore_ascii_case("trailers")),
        announced: headers.get_all(TRAILER).iter().cloned().collect(),
    };
    strip_hop(headers).map_err(|found| nominated(&found.0))?;
    if trailers.taken {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        // TE is for one hop, and says so (RFC 9110, 10.1.4).
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
    Ok(trailers)
}

fn nominated(name: &str) -> Problem {
    let detail = format!(
        "The field Connection names {name}, which must reach the upstream. Send it without."
    );
    Problem::new(Slug::BadRequest, detail)
}

/// The members of a list field over all its lines.
fn members<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter();
    let members = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    members.filter_map(|member| std::str::from_utf8(member.trim_ascii()).ok())
}
