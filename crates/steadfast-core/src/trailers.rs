//! Which fields may stand behind a body.
//!
//! Decides by name alone what of an announcement (`Trailer`) goes on to the next hop; who writes a
//! body writes no trailer that is not announced. It knows no values. Rule: a field that frames,
//! routes, authenticates or steers, or that steadfast writes or takes off in a head, does not pass
//! behind a body, since a service that puts both together would take it for the gateway's word.
//! Sources: RFC 9110 6.5.1; docs/keyed-requests.md, "Scope"; S3.

use http::header::{HeaderName, HeaderValue};

use crate::deadline::{ENVOY_EXPECTED_MS, GRPC_TIMEOUT, REQUEST_TIMEOUT_MS};
use crate::fields::is_of_hop_or_protected;
use crate::look_alikes::dashed;

/// Fields of the head alone, besides those of the hop and the protected ones.
const OF_THE_HEAD: [&str; 21] = [
    ENVOY_EXPECTED_MS,
    GRPC_TIMEOUT,
    REQUEST_TIMEOUT_MS,
    "age",
    "cache-control",
    "content-range",
    "date",
    "expect",
    "expires",
    "if-modified-since",
    "if-range",
    "location",
    "max-forwards",
    "pragma",
    "range",
    "retry-after",
    "set-cookie",
    "vary",
    "via",
    "www-authenticate",
    "x-real-ip",
];

/// Names that steadfast writes or takes off begin so.
const OF_THE_HEAD_PREFIXES: [&str; 3] = ["idempoten", "steadfast-", "x-forwarded-"];

/// What of the `Trailer` lines of a message is announced to the next hop, as one line; `None` where
/// nothing is left. `guarded` are the fields that the configuration gives a meaning.
pub fn announced<'a>(
    lines: impl IntoIterator<Item = &'a HeaderValue>,
    guarded: &[&HeaderName],
) -> Option<HeaderValue> {
    let members = lines
        .into_iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let names = members.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
    let kept: Vec<HeaderName> = names
        .filter(|name| !is_of_the_head(&dashed(name)) && !reads_like_one_of(name, guarded))
        .collect();
    let line = kept
        .iter()
        .map(HeaderName::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    HeaderValue::from_str(&line)
        .ok()
        .filter(|line| !line.is_empty())
}

fn reads_like_one_of(name: &HeaderName, guarded: &[&HeaderName]) -> bool {
    guarded.iter().any(|own| dashed(own) == dashed(name))
}

/// Whether a field, by its name in lower case, is one that only a head may say.
pub(crate) fn is_of_the_head(name: &str) -> bool {
    is_of_hop_or_protected(name)
        || OF_THE_HEAD.contains(&name)
        || OF_THE_HEAD_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(of: &[&str]) -> Option<String> {
        let lines: Vec<HeaderValue> = of
            .iter()
            .map(|line| HeaderValue::from_str(line).unwrap())
            .collect();
        let line = announced(&lines, &[&HeaderName::from_static("x-tenant")])?;
        Some(line.to_str().unwrap().to_owned())
    }

    // rule: what-only-a-head-may-say-does-not-trail
    #[test]
    fn a_field_of_the_head_is_not_announced_behind_a_body() {
        let of_the_head = [
            "Idempotency-Fence",
            "Idempotency-Key",
            "Idempotent-Replayed",
            "Steadfast-Attempt",
            "Steadfast-Effect",
            "X-Tenant",
            "X_Tenant",
            "Idempotency_Fence",
            "Authorization",
            "Cookie",
            "Set-Cookie",
            "Host",
            "Connection",
            "Transfer-Encoding",
            "Trailer",
            "Content-Length",
            "Content-Type",
            "If-Match",
            "X-Forwarded-For",
            "X-Forwarded-Proto",
            "Forwarded",
            "Via",
            "Request-Timeout-Ms",
        ];
        for name in of_the_head {
            assert_eq!(line(&[name]), None, "{name}");
            let among = format!("X-One,{name} , x-two");
            assert_eq!(line(&[&among]).as_deref(), Some("x-one, x-two"));
        }
        for name in OF_THE_HEAD {
            assert_eq!(line(&[name]), None, "{name}");
        }
    }

    #[test]
    fn checksums_signatures_and_states_are_announced_in_their_order_and_what_is_no_name_is_not() {
        let of = ["Digest, Grpc-Status", "", ", a b,(", "Server-Timing"];
        let kept = "digest, grpc-status, server-timing";
        assert_eq!(line(&of).as_deref(), Some(kept));
        assert_eq!(line(&["", ","]), None);
        assert_eq!(line(&[]), None);
    }
}
