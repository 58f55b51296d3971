//! Which header fields belong to one hop, which only steadfast may say, and which must not be given
//! to a later caller.
//!
//! Decides by name alone. Sources: RFC 9110 7.6.1 (hop-by-hop); docs/keyed-requests.md, "Scope"
//! (what is removed from every request) and "Duplicates" (what is not replayed); S3.

use http::header::{self, HeaderMap, HeaderName};

/// Fields that end at each hop even where `Connection` does not name them.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields on which framing, routing or identity hang: a `Connection` that names one asks a proxy to
/// drop it, which is an attack or a mistake.
const PROTECTED: [&str; 12] = [
    "authorization",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "forwarded",
    "host",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "x-forwarded-for",
];

/// Fields of one exchange, which would mislead a later caller: cookies and challenges are the first
/// caller's; dates, ids and rate limits were true then.
const NOT_REPLAYED: [&str; 25] = [
    "age",
    "b3",
    "cf-ray",
    "content-length",
    "date",
    "ratelimit",
    "request-id",
    "server-timing",
    "set-cookie",
    "traceparent",
    "tracestate",
    "www-authenticate",
    "x-amz-cf-id",
    "x-amz-request-id",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-spanid",
    "x-b3-traceid",
    "x-cloud-trace-context",
    "x-correlation-id",
    "x-request-id",
    "x-runtime",
    "x-trace-id",
];

const NOT_REPLAYED_PREFIXES: [&str; 3] = ["ratelimit-", "x-ratelimit-", "x-rate-limit-"];

/// A `Connection` field that names a field on which framing, routing or identity hang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedNomination(pub String);

/// Removes everything that belongs to the hop the message came over: the listed fields and every
/// field that `Connection` names. Of `TE`, `trailers` alone may be passed on, which is the caller's
/// to add.
///
/// Fails, changing nothing, where a request's `Connection` names a protected field.
pub fn strip_hop(headers: &mut HeaderMap) -> Result<(), ProtectedNomination> {
    let nominated = nominated(headers);
    if let Some(name) = nominated
        .iter()
        .find(|name| PROTECTED.contains(&name.as_str()))
    {
        return Err(ProtectedNomination(name.to_string()));
    }
    remove_where(headers, |name| HOP_BY_HOP.contains(&name));
    for name in nominated {
        headers.remove(name);
    }
    Ok(())
}

/// The same for an answer: a nomination of a protected field is ignored, since there is no one to
/// refuse it to.
pub fn strip_hop_of_answer(headers: &mut HeaderMap) {
    for name in nominated(headers) {
        if !PROTECTED.contains(&name.as_str()) {
            headers.remove(name);
        }
    }
    remove_where(headers, |name| HOP_BY_HOP.contains(&name));
}

/// The fields that all `Connection` lines together name; an empty line or member names none.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|b| *b == b','))
        .filter_map(|member| HeaderName::from_bytes(member.trim_ascii()).ok())
        .collect()
}

/// Whether a field, by its name in lower case, ends at each hop or must not be dropped at one.
pub fn is_of_hop_or_protected(name: &str) -> bool {
    HOP_BY_HOP.contains(&name) || PROTECTED.contains(&name)
}

/// Removes what only steadfast says from an answer on its way to the caller. It is read before. A
/// status address of another gateway behind this one leads nowhere here, so it goes as well.
pub fn strip_ours_from_answer(headers: &mut HeaderMap) {
    let address = headers.get(header::LOCATION).map(|value| value.as_bytes());
    if address.is_some_and(|address| address.starts_with(b"/.steadfast/")) {
        headers.remove(header::LOCATION);
    }
    remove_where(headers, |name| {
        name == "idempotent-replayed" || name.starts_with("steadfast-")
    });
}

/// Removes what only steadfast says from a request: a caller's fence never passes, an attempt count
/// only from a trusted peer. Spelt with `_` neither does: services behind CGI, WSGI and the like
/// read both spellings as one field (RFC 3875, 4.1.18), and trusted peers do not write so.
pub fn strip_ours_from_request(headers: &mut HeaderMap, peer_is_trusted: bool) {
    remove_where(headers, |name| match name {
        "idempotency-fence" => true,
        "steadfast-attempt" => !peer_is_trusted,
        name if name.contains('_') => {
            let read = name.replace('_', "-");
            ["idempotency-fence", "steadfast-attempt"].contains(&read.as_str())
        }
        _ => false,
    });
}

/// What of an answer's headers is kept for later callers.
pub fn replayable(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    strip_hop_of_answer(&mut kept);
    strip_ours_from_answer(&mut kept);
    remove_where(&mut kept, |name| {
        let mut prefixes = NOT_REPLAYED_PREFIXES.iter();
        NOT_REPLAYED.contains(&name) || prefixes.any(|prefix| name.starts_with(prefix))
    });
    kept
}

/// One pass over what is there: a message has fewer fields than there are names to look for.
fn remove_where(headers: &mut HeaderMap, goes: impl Fn(&str) -> bool) {
    let names = headers.keys().filter(|name| goes(name.as_str()));
    let found: Vec<HeaderName> = names.cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    // rule: hop-by-hop-fields-end-here
    #[test]
    fn every_field_that_any_connection_line_names_ends_at_this_hop() {
        let mut headers = map(&[
            ("connection", ""),
            ("connection", "X-One , keep-alive"),
            ("connection", "close,,x-two"),
            ("keep-alive", "timeout=5"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("te", "gzip"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
        ]);
        strip_hop(&mut headers).unwrap();
        assert_eq!(headers, map(&[("x-three", "3")]));
    }

    #[test]
    fn a_status_address_of_another_gateway_is_not_passed_on() {
        let mut inner = map(&[("location", "/.steadfast/operations/1")]);
        strip_ours_from_answer(&mut inner);
        assert!(inner.is_empty());
        let mut made = map(&[("location", "/orders/1")]);
        strip_ours_from_answer(&mut made);
        assert_eq!(made.len(), 1);
    }

    #[test]
    fn a_request_that_nominates_a_protected_field_is_refused_unchanged() {
        for name in PROTECTED {
            let mut headers = HeaderMap::new();
            headers.insert(
                "connection",
                HeaderValue::from_str(&name.to_uppercase()).unwrap(),
            );
            headers.insert(name, HeaderValue::from_static("v"));
            assert_eq!(
                strip_hop(&mut headers),
                Err(ProtectedNomination(name.to_owned()))
            );
            assert_eq!(headers.len(), 2, "{name}");
        }
    }

    // rule: replayed-fields
    #[test]
    fn a_replay_keeps_the_representation_and_drops_what_was_the_exchange_s() {
        let kept = map(&[
            ("content-type", "application/json"),
            ("location", "/orders/1"),
            ("etag", "\"1\""),
            ("link", "<a>; rel=b"),
            ("link", "<c>; rel=d"),
            ("x-custom", "a, b"),
        ]);
        let mut all = kept.clone();
        for name in NOT_REPLAYED.into_iter().chain(HOP_BY_HOP) {
            all.insert(name, HeaderValue::from_static("v"));
        }
        for name in [
            "x-ratelimit-remaining",
            "ratelimit-limit",
            "steadfast-effect",
        ] {
            all.insert(name, HeaderValue::from_static("v"));
        }
        all.insert("idempotent-replayed", HeaderValue::from_static("true"));
        assert_eq!(replayable(&all), kept);
    }

    // rule: spoofed-fence-does-not-pass
    #[test]
    fn a_caller_s_fence_never_passes_and_its_attempt_count_only_from_a_trusted_peer() {
        let sent = map(&[("idempotency-fence", "9"), ("steadfast-attempt", "2")]);
        let mut stranger = sent.clone();
        strip_ours_from_request(&mut stranger, false);
        assert!(stranger.is_empty());
        let mut trusted = sent;
        strip_ours_from_request(&mut trusted, true);
        assert_eq!(trusted, map(&[("steadfast-attempt", "2")]));
    }

    #[test]
    fn a_name_that_cgi_reads_as_ours_never_passes() {
        let sent = map(&[
            ("idempotency_fence", "9"),
            ("steadfast_attempt", "2"),
            ("x_custom", "1"),
        ]);
        for trusted in [false, true] {
            let mut left = sent.clone();
            strip_ours_from_request(&mut left, trusted);
            assert_eq!(left, map(&[("x_custom", "1")]), "trusted: {trusted}");
        }
    }

    #[test]
    fn an_answer_that_nominates_a_protected_field_keeps_it() {
        let mut headers = map(&[
            ("connection", "content-type, x-one"),
            ("content-type", "text/plain"),
            ("x-one", "1"),
            ("proxy-authenticate", "Basic"),
            ("trailer", "x-sum"),
        ]);
        strip_hop_of_answer(&mut headers);
        assert_eq!(headers, map(&[("content-type", "text/plain")]));
    }

    #[test]
    fn what_a_connection_line_of_the_answer_names_is_not_kept_for_later_callers() {
        let all = map(&[("connection", "x-hop"), ("x-hop", "1"), ("x-kept", "2")]);
        assert_eq!(replayable(&all), map(&[("x-kept", "2")]));
    }

    #[test]
    fn a_nomination_that_is_no_field_name_harms_nothing() {
        let mut headers = map(&[("connection", "a b, (, \"x\", x-one"), ("x-one", "1")]);
        strip_hop(&mut headers).unwrap();
        assert!(headers.is_empty());
    }
}
