//! Is this a request target that only one service can be meant by?
//!
//! Origin form, absolute form with the Host's own authority, or `*` for OPTIONS (RFC 9112 section
//! 3.2). Authority form belongs to CONNECT, and CONNECT to tunnels; this is none.

use http::uri::Authority;
use http::{Method, Uri};

use super::Violation;

pub(super) fn check(method: &Method, target: &str, host: Option<&str>) -> Result<(), Violation> {
    if *method == Method::CONNECT {
        return Err(Violation::Connect);
    }
    if target == "*" {
        return match *method {
            Method::OPTIONS => Ok(()),
            _ => Err(Violation::Target),
        };
    }
    // `Uri` drops a fragment without a word, and takes bytes beyond ASCII.
    if !target
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#')
    {
        return Err(Violation::Target);
    }
    let uri: Uri = target.parse().map_err(|_| Violation::Target)?;
    if target.starts_with('/') {
        return Ok(());
    }
    match (uri.scheme_str(), uri.authority(), host) {
        (Some("http" | "https"), Some(named), Some(host)) => named
            .as_str()
            .eq_ignore_ascii_case(host)
            .then_some(())
            .ok_or(Violation::TargetAuthority),
        (Some("http" | "https"), Some(named), None) if is_authority(named.as_str()) => Ok(()),
        _ => Err(Violation::Target),
    }
}

/// `name` or `name:port`, with something in it and nobody's name before an `@`.
pub(super) fn is_authority(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else {
        return false;
    };
    let port = &text[authority.host().len().min(text.len())..];
    let port_is_right = match port.strip_prefix(':') {
        // Digits alone: the parser of numbers takes a sign, too.
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.is_empty() || digits.parse::<u16>().is_ok()
        }
        Some(_) => false,
        None => port.is_empty(),
    };
    text.is_ascii() && !text.contains('@') && !authority.host().is_empty() && port_is_right
}
