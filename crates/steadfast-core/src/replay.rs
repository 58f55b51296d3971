//! What an upstream's answer says, and what of it later callers are given.
//!
//! Decides the evidence in a response head ([`read`]) and the headers that a replay or an executing
//! answer carries. Refuses to know records: which answer is given is [`crate::record`]'s.
//! Source: docs/keyed-requests.md, "What an attempt's end means" and "Duplicates".

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::attempt::Answered;
use crate::effect::Effect;
use crate::fields::{replayable, strip_hop_of_answer, strip_ours_from_answer};
use crate::fingerprint::essence;
use crate::record::StoredAnswer;
use crate::retry::Signs;
use crate::retry_after;
use crate::time::WallTime;

/// Says whether an answer is the executing one (`false`) or a stored or joined one (`true`).
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Says what the server may have done.
pub const EFFECT: HeaderName = HeaderName::from_static("steadfast-effect");
/// The fence of one keyed attempt, to the upstream.
pub const FENCE: HeaderName = HeaderName::from_static("idempotency-fence");

/// `Server` products that relay requests: their 503 may come after the request was sent on.
const RELAYS: [&str; 3] = ["envoy", "istio-envoy", "varnish"];

/// Proxy-Status errors of a connection (RFC 9209 2.3). Also those that tell of one that was never
/// made: they speak of the intermediary's last try, and an earlier one may have carried the
/// request.
const RELAY_ERRORS: [&str; 8] = [
    "connection_terminated",
    "connection_timeout",
    "connection_read_timeout",
    "connection_write_timeout",
    "connection_refused",
    "connection_limit_reached",
    "http_response_incomplete",
    "http_response_timeout",
];

/// Reads what a response head says. `problem_type` is the `type` member of a problem body, where
/// the driver has one at hand.
pub fn read(
    status: StatusCode,
    headers: &HeaderMap,
    problem_type: Option<&str>,
    request_written: bool,
) -> Answered {
    Answered {
        status,
        request_written,
        through_intermediary: through_intermediary(headers),
        says_unknown: says_unknown(headers, problem_type),
    }
}

/// What else an answer's head shows that bears on repeating the request it answers, received at
/// `now`. `key_honoured` says that the request carried a key and its endpoint honours it: then a
/// 409 with `Retry-After` means that the first request is still running.
pub fn signs(
    status: StatusCode,
    headers: &HeaderMap,
    problem_type: Option<&str>,
    key_honoured: bool,
    now: WallTime,
) -> Signs {
    let says = |name: HeaderName, word: &[u8]| {
        let mut lines = headers.get_all(name).iter();
        lines.any(|line| line.as_bytes().trim_ascii() == word)
    };
    let retry_after = retry_after::read(headers, now);
    let conflict = status == StatusCode::CONFLICT;
    let waits = key_honoured && retry_after.wait().is_some();
    let running = problem_type == Some("urn:steadfast:problem:in-progress");
    Signs {
        retry_after,
        replayed: says(REPLAYED, b"true"),
        says_none: says(EFFECT, b"none"),
        in_progress: conflict && (running || waits),
        stale: false,
    }
}

fn says_unknown(headers: &HeaderMap, problem_type: Option<&str>) -> bool {
    // Any line counts: an intermediary may have added its own.
    let mut effects = headers.get_all(EFFECT).iter();
    let effect = effects.any(|v| v.as_bytes().trim_ascii() == b"unknown");
    let problem = problem_type.is_some_and(|urn| {
        urn == "urn:steadfast:problem:in-progress" || urn == "urn:steadfast:problem:outcome-unknown"
    });
    effect || problem
}

fn through_intermediary(headers: &HeaderMap) -> bool {
    let relay = headers.get_all("server").iter().any(|server| {
        let product = server.as_bytes().split(|b| matches!(b, b'/' | b' ')).next();
        product.is_some_and(|p| RELAYS.iter().any(|r| p.eq_ignore_ascii_case(r.as_bytes())))
    });
    let proxy_error = headers.get_all("proxy-status").iter().any(|value| {
        let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        RELAY_ERRORS.iter().any(|error| {
            text.split([';', ','])
                .any(|p| p.trim().strip_prefix("error=") == Some(error))
        })
    });
    headers.contains_key("via") || relay || proxy_error
}

/// Whether a `Content-Type` says problem details, so that the driver reads their `type`.
pub fn is_problem(headers: &HeaderMap) -> bool {
    media_type(headers) == b"application/problem+json"
}

/// Whether the answer goes out as it comes, because it has no end that could be waited for.
pub fn is_stream(headers: &HeaderMap) -> bool {
    let media_type = media_type(headers);
    media_type == b"text/event-stream" || media_type.starts_with(b"application/grpc")
}

/// The essence of `Content-Type`, in lower case; empty where there is none.
fn media_type(headers: &HeaderMap) -> Vec<u8> {
    let value = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    essence(value.unwrap_or_default()).to_ascii_lowercase()
}

/// What is kept of an answer for later callers.
pub fn kept(status: StatusCode, headers: &HeaderMap, body: Bytes) -> StoredAnswer {
    StoredAnswer {
        status,
        headers: replayable(headers),
        body,
    }
}

/// The headers of the executing answer: the upstream's, less what is the hop's and what only
/// steadfast says, plus `Idempotent-Replayed: false`, plus the effect where it had to be
/// interpreted.
pub fn executing_headers(mut headers: HeaderMap, effect: Option<Effect>) -> HeaderMap {
    strip_hop_of_answer(&mut headers);
    strip_ours_from_answer(&mut headers);
    mark(&mut headers, false, effect);
    headers
}

/// The headers of a replayed or joined answer.
pub fn replayed_headers(stored: &StoredAnswer, effect: Option<Effect>) -> HeaderMap {
    let mut headers = stored.headers.clone();
    mark(&mut headers, true, effect);
    headers
}

fn mark(headers: &mut HeaderMap, replayed: bool, effect: Option<Effect>) {
    headers.insert(
        REPLAYED,
        HeaderValue::from_static(if replayed { "true" } else { "false" }),
    );
    if let Some(effect) = effect {
        headers.insert(EFFECT, HeaderValue::from_static(effect.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(name: &'static str, value: &'static str) -> Answered {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        read(StatusCode::SERVICE_UNAVAILABLE, &headers, None, true)
    }

    #[test]
    fn an_intermediary_shows_itself_by_via_server_or_proxy_status() {
        for (name, value, relayed) in [
            ("via", "1.1 cache", true),
            ("server", "envoy", true),
            ("server", "istio-envoy", true),
            ("server", "Varnish/7.1", true),
            ("server", "nginx", false),
            ("server", "envoyish", false),
            (
                "proxy-status",
                "edge; error=connection_terminated; details=\"x\"",
                true,
            ),
            ("proxy-status", "edge; error=http_request_error", false),
            ("x-served-by", "envoy", false),
        ] {
            assert_eq!(
                evidence(name, value).through_intermediary,
                relayed,
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn an_upstream_says_unknown_by_its_effect_field_or_its_problem() {
        assert!(evidence("steadfast-effect", "unknown").says_unknown);
        assert!(!evidence("steadfast-effect", "none").says_unknown);
        let urn = |slug: &str| format!("urn:steadfast:problem:{slug}");
        for (slug, says) in [
            ("in-progress", true),
            ("outcome-unknown", true),
            ("key-reused", false),
        ] {
            let got = read(
                StatusCode::CONFLICT,
                &HeaderMap::new(),
                Some(&urn(slug)),
                true,
            );
            assert_eq!(got.says_unknown, says, "{slug}");
        }
    }

    #[test]
    fn upstream_s_own_marks_are_never_passed_on() {
        let mut headers = HeaderMap::new();
        headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
        headers.insert("steadfast-effect", HeaderValue::from_static("none"));
        headers.insert("steadfast-attempts", HeaderValue::from_static("7"));
        let out = executing_headers(headers, None);
        assert_eq!(out.get("idempotent-replayed").unwrap(), "false");
        assert_eq!(out.len(), 1);
    }

    // rule: every-proxy-status-connection-error-leaves-the-effect-unknown
    #[test]
    fn every_connection_error_that_an_intermediary_tells_leaves_the_effect_unknown() {
        for error in RELAY_ERRORS {
            for line in [
                format!("edge; error={error}"),
                format!("edge;error={error};next-hop=\"a\""),
                format!("inner, edge; error={}", error.to_uppercase()),
            ] {
                let mut headers = HeaderMap::new();
                headers.append("proxy-status", HeaderValue::from_static("inner"));
                headers.append("proxy-status", HeaderValue::from_str(&line).unwrap());
                let got = read(StatusCode::SERVICE_UNAVAILABLE, &headers, None, true);
                assert!(got.through_intermediary, "{line}");
            }
        }
        for line in [
            "edge; error=dns_error",
            "edge; error=connection_refused_x",
            "edge",
        ] {
            assert!(
                !evidence("proxy-status", line).through_intermediary,
                "{line}"
            );
        }
    }

    #[test]
    fn an_effect_that_any_line_says_is_unknown_is_unknown() {
        let mut headers = HeaderMap::new();
        headers.append(EFFECT, HeaderValue::from_static("none"));
        headers.append(EFFECT, HeaderValue::from_static(" unknown "));
        assert!(read(StatusCode::OK, &headers, None, true).says_unknown);
        assert!(!evidence("steadfast-effect", "unknowns").says_unknown);
    }

    // rule: a-replay-is-the-stored-answer-marked
    #[test]
    fn a_replay_is_the_stored_status_body_and_headers_marked_as_a_replay() {
        let mut headers = HeaderMap::new();
        headers.insert("location", HeaderValue::from_static("/orders/1"));
        headers.insert("set-cookie", HeaderValue::from_static("a=b"));
        headers.insert("idempotent-replayed", HeaderValue::from_static("false"));
        headers.insert("steadfast-effect", HeaderValue::from_static("none"));
        let body = Bytes::from_static(b"\x00{}\xff");
        let stored = kept(StatusCode::CREATED, &headers, body.clone());
        assert_eq!((stored.status, &stored.body), (StatusCode::CREATED, &body));
        let given = replayed_headers(&stored, None);
        assert_eq!(given.get(REPLAYED).unwrap(), "true");
        assert_eq!(given.get("location").unwrap(), "/orders/1");
        assert_eq!(given.len(), 2);
        let unknown = replayed_headers(&stored, Some(Effect::Unknown));
        assert_eq!(unknown.get(EFFECT).unwrap(), "unknown");
        assert_eq!(unknown.get_all(EFFECT).iter().count(), 1);
    }

    #[test]
    fn an_executing_answer_keeps_what_only_a_later_caller_must_not_see() {
        let mut headers = HeaderMap::new();
        headers.insert("set-cookie", HeaderValue::from_static("a=b"));
        headers.insert("date", HeaderValue::from_static("now"));
        headers.insert("connection", HeaderValue::from_static("x-hop"));
        headers.insert("x-hop", HeaderValue::from_static("1"));
        let given = executing_headers(headers, Some(Effect::Unknown));
        let mut names: Vec<_> = given.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected = [
            "date",
            "idempotent-replayed",
            "set-cookie",
            "steadfast-effect",
        ];
        assert_eq!(names, expected);
        assert_eq!(given.get(REPLAYED).unwrap(), "false");
    }

    #[test]
    fn what_an_answer_asks_is_read_from_its_head() {
        let now = WallTime::from_unix_ms(0);
        let mut headers = HeaderMap::new();
        let read = |headers: &HeaderMap, problem, honoured| {
            signs(StatusCode::CONFLICT, headers, problem, honoured, now)
        };
        assert_eq!(read(&headers, None, true), Signs::NONE);
        let running = Some("urn:steadfast:problem:in-progress");
        assert!(read(&headers, running, false).in_progress);
        headers.insert("retry-after", HeaderValue::from_static("1"));
        assert!(!read(&headers, None, false).in_progress);
        assert!(read(&headers, None, true).in_progress);
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        headers.insert(EFFECT, HeaderValue::from_static("none"));
        let read = read(&headers, None, true);
        assert!(read.replayed && read.says_none);
    }

    #[test]
    fn streams_and_problems_are_known_by_the_essence_of_their_type() {
        for (value, stream, problem) in [
            ("text/event-stream", true, false),
            ("Text/Event-Stream; charset=utf-8", true, false),
            ("application/grpc", true, false),
            ("application/grpc+proto", true, false),
            ("application/problem+json", false, true),
            ("Application/Problem+JSON ; a=b", false, true),
            ("application/json", false, false),
            ("text/plain; x=text/event-stream", false, false),
            ("", false, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_static(value));
            assert_eq!(is_stream(&headers), stream, "{value}");
            assert_eq!(is_problem(&headers), problem, "{value}");
        }
        assert!(!is_stream(&HeaderMap::new()) && !is_problem(&HeaderMap::new()));
    }
}
