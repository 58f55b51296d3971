//! Where an upstream is: scheme, host and port, and nothing else.
//!
//! A path, a query or credentials in a target would be a rule about requests, which routes have; so
//! they are refused here rather than ignored.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use http::Uri;
use http::uri::Authority;

/// How an upstream is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// HTTP over plain TCP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    /// As it stands in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// An upstream's place. Two equal targets share their connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    scheme: Scheme,
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Host {
    Name(String),
    Address(IpAddr),
}

impl Target {
    /// Reads `http://host`, `http://host:port` or `http://[v6]:port`, with or without a last `/`;
    /// `https` likewise.
    ///
    /// # Errors
    /// [`TargetError`], a sentence with the reason and what to write instead.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let refused = |reason: &'static str| TargetError {
            text: text.to_owned(),
            reason,
        };
        if text.contains('#') {
            return Err(refused(
                "a fragment cannot be sent; leave out what follows `#`",
            ));
        }
        let uri: Uri = text
            .parse()
            .map_err(|_| refused("it is no URL; write http://HOST:PORT"))?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) => {
                return Err(refused(
                    "its scheme is neither http nor https; write http://HOST:PORT or https://HOST",
                ));
            }
            None => return Err(refused("it has no scheme; write http://HOST:PORT")),
        };
        if uri.query().is_some() {
            return Err(refused("a target has no query; leave out what follows `?`"));
        }
        if uri.path() != "/" && !uri.path().is_empty() {
            return Err(refused(
                "a target has no path, requests bring theirs; leave it out",
            ));
        }
        let authority = uri
            .authority()
            .ok_or_else(|| refused("it has no host; write http://HOST:PORT"))?;
        if authority.as_str().contains('@') {
            return Err(refused(
                "credentials in a target would be shown in logs; leave out what stands before `@`",
            ));
        }
        let host = read_host(authority.host())
            .ok_or_else(|| refused("its host is neither a name nor an address; write one"))?;
        let port = read_port(authority, scheme)
            .ok_or_else(|| refused("its port is not within 1 to 65535; write one that is"))?;
        Ok(Target { scheme, host, port })
    }

    /// How it is spoken to.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The port, from 1 on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What `Host` says: the host, and the port where it is not the scheme's own (RFC 9110, 7.2).
    pub fn authority(&self) -> String {
        let port = self.port;
        if port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{port}", self.host)
        }
    }

    /// The address, where the target names one, so that nobody need be asked for it.
    pub fn address(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Address(address) => Some(*address),
            Host::Name(_) => None,
        }
    }

    /// The host as a resolver or a certificate knows it: without brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Address(address) => address.to_string(),
            Host::Name(name) => name.clone(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Host::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Letters, digits, `-`, `_` and `.`; at most the 253 bytes that DNS carries (RFC 1035, 2.3.4).
fn read_host(text: &str) -> Option<Host> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let address: Ipv6Addr = bracketed.strip_suffix(']')?.parse().ok()?;
        return Some(Host::Address(IpAddr::V6(address)));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Host::Address(address));
    }
    let of_a_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let named = (1..=253).contains(&text.len()) && text.bytes().all(of_a_name);
    named.then(|| Host::Name(text.to_ascii_lowercase()))
}

fn read_port(authority: &Authority, scheme: Scheme) -> Option<u16> {
    match authority.as_str().strip_prefix(authority.host())? {
        "" => Some(scheme.default_port()),
        rest => {
            let digits = rest.strip_prefix(':')?;
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse().ok().filter(|port| plain && *port > 0)
        }
    }
}

/// A text that is no target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError {
    text: String,
    reason: &'static str,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` cannot be a target: {}",
            shown(&self.text),
            self.reason
        )
    }
}

impl std::error::Error for TargetError {}

/// What may be shown of a refused text: nothing before an `@`, where a password would stand.
fn shown(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_scheme_host_and_port() {
        for (text, authority, shown) in [
            (
                "http://127.0.0.1:8080",
                "127.0.0.1:8080",
                "http://127.0.0.1:8080",
            ),
            (
                "http://Orders.Example:8080/",
                "orders.example:8080",
                "http://orders.example:8080",
            ),
            ("http://orders:80", "orders", "http://orders"),
            ("http://orders", "orders", "http://orders"),
            ("HTTP://orders", "orders", "http://orders"),
            ("http://[::1]:9", "[::1]:9", "http://[::1]:9"),
            ("http://[::1]", "[::1]", "http://[::1]"),
            ("https://orders", "orders", "https://orders"),
            ("https://orders:443/", "orders", "https://orders"),
            ("https://orders:80", "orders:80", "https://orders:80"),
        ] {
            let target = Target::parse(text).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(target.authority(), authority, "{text}");
            assert_eq!(target.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn what_a_target_cannot_hold_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no URL"),
            ("orders", "no scheme"),
            ("orders:8080", "no scheme"),
            ("/orders", "no scheme"),
            ("ftp://orders", "neither http nor https"),
            ("http://", "no URL"),
            ("http://orders/v1", "no path"),
            ("http://orders//", "no path"),
            ("http://orders?a=1", "no query"),
            ("http://orders/?", "no query"),
            ("http://orders/#a", "fragment"),
            ("http://me:secret@orders", "credentials"),
            ("http://orders:", "port"),
            ("http://orders:0", "port"),
            ("http://orders:65536", "port"),
            ("http://orders:+80", "port"),
            ("http://a!b", "host"),
            ("http://[fe80::1%25eth0]", "host"),
            ("http://ordérs", "no URL"),
        ] {
            let error = Target::parse(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
