//! Who may ask the admin address, and who may change something there.
//!
//! Decides by host, token, origin and site; what is asked for is not its matter.

use http::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use subtle::ConstantTimeEq;

use super::Refused;

/// Nobody but the operator: by token where there is one, and never under a foreign host name, which
/// is how a page in a browser would come here.
pub(super) fn may_ask(parts: &Parts, names: &[String], token: Option<&str>) -> Result<(), Refused> {
    let host = host_name(&parts.headers);
    let ours = |name: &str| {
        ["localhost", "127.0.0.1", "[::1]"].contains(&name) || names.iter().any(|n| n == name)
    };
    if !host.as_deref().is_some_and(ours) && token.is_none() {
        let why = "The admin address answers under its own name only. Ask it as localhost or by \
                   its address.";
        return Err(Refused(StatusCode::FORBIDDEN, why.into()));
    }
    let Some(token) = token else {
        return Ok(());
    };
    let mut lines = parts.headers.get_all(AUTHORIZATION).iter();
    let given = lines.next().filter(|_| lines.next().is_none());
    let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    if given.is_some_and(|given| given.ct_eq(token.as_bytes()).into()) {
        return Ok(());
    }
    Err(Refused(
        StatusCode::UNAUTHORIZED,
        "Give the admin token: Authorization: Bearer … (admin_token in the configuration).".into(),
    ))
}

/// Changes come from the operator's own tools or from a page of this very address.
pub(super) fn may_change(parts: &Parts) -> Result<(), Refused> {
    let sites = parts.headers.get_all("sec-fetch-site").iter();
    let mut sites = sites.map(HeaderValue::as_bytes);
    let across = sites.any(|site| site != b"same-origin" && site != b"none");
    let host = parts.headers.get(HOST).map(HeaderValue::as_bytes);
    // What cannot be read is as foreign as what names another host.
    let authority = |origin: &HeaderValue| {
        let origin = origin.to_str().ok()?;
        let (_, authority) = origin.split_once("://")?;
        Some(authority.as_bytes().to_vec())
    };
    let mut origins = parts.headers.get_all(ORIGIN).iter();
    let foreign = origins.any(|origin| authority(origin).as_deref() != host);
    if across || foreign || parts.headers.get_all(ORIGIN).iter().count() > 1 {
        let why =
            "Changes are not taken from other sites. Use the command line, or a tool of your own.";
        return Err(Refused(StatusCode::FORBIDDEN, why.into()));
    }
    Ok(())
}

/// The name under which the request came, without its port; `None` where there is none or two.
fn host_name(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(HOST).iter();
    let host = lines.next()?.to_str().ok()?.to_ascii_lowercase();
    if lines.next().is_some() {
        return None;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name.to_owned(),
        _ => host,
    };
    Some(name)
}
