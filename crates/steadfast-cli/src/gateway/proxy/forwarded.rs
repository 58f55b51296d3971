//! The fields that tell an upstream who called.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue, Version};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The fields that tell an upstream who called: appended to what a trusted peer said, else set
/// anew. `version` is that of the request.
pub fn write_forwarded(
    headers: &mut HeaderMap,
    version: Version,
    peer: std::net::IpAddr,
    trusted: bool,
) {
    if !trusted {
        strip_forwarded(headers);
    }
    let lines = headers.get_all(FORWARDED_FOR).iter();
    let mut value = String::new();
    let said = lines.filter_map(|line| line.to_str().ok());
    for line in said.filter(|line| !line.is_empty()) {
        value.push_str(line);
        value.push_str(", ");
    }
    // Writing to a string does not fail.
    let _ = write!(value, "{peer}");
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(FORWARDED_FOR, value);
    }
    if !headers.contains_key(FORWARDED_PROTO) {
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
    let host = headers.get(http::header::HOST).cloned();
    if let Some(host) = host.filter(|_| !headers.contains_key(FORWARDED_HOST)) {
        headers.insert(FORWARDED_HOST, host);
    }
    // The protocol that the request came over, not the one that it goes on with (RFC 9110, 7.6.3).
    let via = match version {
        Version::HTTP_2 => "2.0 steadfast",
        Version::HTTP_10 => "1.0 steadfast",
        _ => "1.1 steadfast",
    };
    headers.append(http::header::VIA, HeaderValue::from_static(via));
}

/// What says where a request came from, under whatever name: not a stranger's to say.
fn strip_forwarded(headers: &mut HeaderMap) {
    let says =
        |name: &str| name.starts_with("x-forwarded-") || name == "forwarded" || name == "x-real-ip";
    let names = headers.keys().filter(|name| says(name.as_str()));
    let names: Vec<HeaderName> = names.cloned().collect();
    for name in names {
        headers.remove(name);
    }
}
