//! Field names that a service may take for others.
//!
//! Decides by name alone which fields of a request do not pass since a service of the CGI kind
//! (WSGI, PHP) gives its program `-` and `_` alike, and would take them for fields that were
//! checked, taken off or written here. It knows no values. Rule: of two names that read alike
//! behind such a service only the one with a meaning passes; other names with `_` pass. Sources:
//! RFC 9110 17.10; docs/keyed-requests.md, "Scope"; S3.

use http::header::{HeaderMap, HeaderName};

use crate::trailers::is_of_the_head;

/// Removes every look-alike of a field that has a meaning here. `configured` are the fields that
/// the configuration gives one: their own spelling passes.
pub fn strip_look_alikes(headers: &mut HeaderMap, configured: &[&HeaderName]) {
    let found = headers.keys().filter(|name| reads_alike(name, configured));
    let found: Vec<HeaderName> = found.cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

fn reads_alike(name: &HeaderName, configured: &[&HeaderName]) -> bool {
    if configured.contains(&name) {
        return false;
    }
    let spelt_so = |name: &HeaderName| name.as_str().contains('_');
    if !spelt_so(name) {
        // It reads as it is spelt, so only another spelling of it could be meant.
        let mut others = configured.iter().filter(|own| spelt_so(own));
        return others.any(|own| dashed(own) == name.as_str());
    }
    let read = dashed(name);
    is_of_the_head(&read) || configured.iter().any(|own| dashed(own) == read)
}

/// A name as such a service reads it.
pub(crate) fn dashed(name: &HeaderName) -> String {
    name.as_str().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn left(names: &[&str], configured: &[&str]) -> Vec<String> {
        let parse = |name: &&str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        let configured: Vec<HeaderName> = configured.iter().map(parse).collect();
        let mut headers = HeaderMap::new();
        for name in names {
            headers.append(parse(name), HeaderValue::from_static("v"));
        }
        strip_look_alikes(&mut headers, &configured.iter().collect::<Vec<_>>());
        let names = headers.keys().map(|name| name.as_str().to_owned());
        names.collect()
    }

    // rule: look-alikes-do-not-pass
    #[test]
    fn a_name_that_reads_like_one_with_a_meaning_is_removed_and_others_stay() {
        for name in [
            "Idempotency_Key",
            "idempotency_fence",
            "Steadfast_Attempt",
            "X_Forwarded_For",
            "X-Forwarded_Host",
            "X_Real_IP",
            "If_Match",
            "Content_Type",
            "Request_Timeout_Ms",
        ] {
            assert!(left(&[name], &[]).is_empty(), "{name}");
            let own = name.replace('_', "-").to_lowercase();
            assert_eq!(left(&[name, &own], &[]), [own]);
        }
        let others = [
            "x_order",
            "session_id",
            "idempotency-key",
            "x-forwarded-for",
        ];
        assert_eq!(left(&others, &[]), others);
    }

    #[test]
    fn a_configured_name_passes_in_its_own_spelling_alone() {
        let spelt = ["x-tenant", "x_tenant"];
        assert_eq!(left(&spelt, &["X-Tenant"]), ["x-tenant"]);
        assert_eq!(left(&spelt, &["X_Tenant"]), ["x_tenant"]);
        let keys = ["idempotency-key", "idempotency_key"];
        assert_eq!(left(&keys, &["Idempotency_Key"]), ["idempotency_key"]);
    }
}
