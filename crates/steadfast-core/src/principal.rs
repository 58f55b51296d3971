//! Whose request it is.
//!
//! Decides which part of a request proves its principal, and when there is no telling. It hashes
//! nothing and looks nothing up: what comes out is the proof itself, to be hashed by the core and
//! never shown. Rule: where two readings are possible the request is refused, for a wrong principal
//! would be shown another's answers. Sources: docs/keyed-requests.md, "Principal"; I2,
//! S1; RFC 6265 section 4.2.

use std::fmt;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName};

use crate::fields::is_of_hop_or_protected;

/// How a route finds the principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PrincipalRule {
    /// The `Authorization` field, whole.
    #[default]
    Authorization,
    /// A field that a trusted peer has set.
    Header(HeaderName),
    /// A cookie, by its name.
    Cookie(String),
    /// Everybody is one principal.
    Anonymous,
}

/// Why a text is no rule. The configuration's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No rule is spelt so.
    Unknown,
    /// A rule that this build does not act on.
    NotYetSupported,
    /// Behind `header:` or `cookie:` stands no name, or one that means something else already.
    Name,
}

impl PrincipalRule {
    /// Reads a rule: `authorization`, `header:NAME`, `cookie:NAME`, `anonymous`.
    pub fn parse(text: &str) -> Result<PrincipalRule, RuleError> {
        match text.split_once(':') {
            None if text == "authorization" => Ok(PrincipalRule::Authorization),
            None if text == "anonymous" => Ok(PrincipalRule::Anonymous),
            None if text == "tls" => Err(RuleError::NotYetSupported),
            Some(("jwt", _)) => Err(RuleError::NotYetSupported),
            Some(("header", name)) => match name.parse::<HeaderName>() {
                // Such a field is gone, or is somebody else's, before a principal is looked for.
                Ok(name) if is_of_hop_or_protected(name.as_str()) => Err(RuleError::Name),
                Ok(name) => Ok(PrincipalRule::Header(name)),
                Err(_) => Err(RuleError::Name),
            },
            // A cookie's name is a token, as a field's name is (RFC 6265, 4.1.1).
            Some(("cookie", name)) if name.parse::<HeaderName>().is_ok() => {
                Ok(PrincipalRule::Cookie(name.to_owned()))
            }
            Some(("cookie", _)) => Err(RuleError::Name),
            _ => Err(RuleError::Unknown),
        }
    }

    /// The field that only trusted peers may set, for its removal from everybody else's requests.
    pub fn guarded_field(&self) -> Option<&HeaderName> {
        match self {
            PrincipalRule::Header(name) => Some(name),
            _ => None,
        }
    }

    /// The principal of a request with these fields, from a peer that may or may not name
    /// principals.
    pub fn evaluate(
        &self,
        fields: &HeaderMap,
        peer_is_trusted: bool,
    ) -> Result<Principal, PrincipalError> {
        match self {
            PrincipalRule::Anonymous => Ok(Principal::Anonymous),
            PrincipalRule::Authorization => match single(fields, &AUTHORIZATION)? {
                Some(value) => Ok(self.proven(value)),
                None if fields.contains_key(COOKIE) => Err(PrincipalError::CookieOnly),
                None => Ok(Principal::Anonymous),
            },
            PrincipalRule::Header(name) if peer_is_trusted => {
                let value = single(fields, name)?;
                let value = value.ok_or_else(|| PrincipalError::Absent(self.clone()))?;
                Ok(self.proven(value))
            }
            PrincipalRule::Header(_) => Err(PrincipalError::UntrustedPeer),
            PrincipalRule::Cookie(name) => {
                let value = cookie(fields, name)?;
                let value = value.ok_or_else(|| PrincipalError::Absent(self.clone()))?;
                Ok(self.proven(value))
            }
        }
    }

    fn proven(&self, value: &[u8]) -> Principal {
        Principal::Proven {
            kind: self.to_string(),
            value: value.to_vec(),
        }
    }
}

/// The rule as it is written in configuration and records.
impl fmt::Display for PrincipalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrincipalRule::Authorization => f.write_str("authorization"),
            PrincipalRule::Header(name) => write!(f, "header:{name}"),
            PrincipalRule::Cookie(name) => write!(f, "cookie:{name}"),
            PrincipalRule::Anonymous => f.write_str("anonymous"),
        }
    }
}

/// Who sent a request, as far as it shows.
#[derive(Clone, PartialEq, Eq)]
pub enum Principal {
    /// Nobody in particular.
    Anonymous,
    /// Whoever holds this value.
    Proven {
        /// What kind of value, the rule's text: equal values of two kinds are two principals.
        kind: String,
        /// The value, as it came. A credential: to be hashed, never kept.
        value: Vec<u8>,
    },
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Anonymous => f.write_str("Anonymous"),
            Principal::Proven { kind, .. } => write!(f, "Proven({kind}, …)"),
        }
    }
}

/// Why there is no telling whose request it is. The caller's fault, or the route's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrincipalError {
    /// A cookie, but no `Authorization`: the cookie may be the credential. `principal-unknown`.
    CookieOnly,
    /// What the rule asks for is not there, or is empty. `principal-unknown`.
    Absent(PrincipalRule),
    /// The field or the cookie came more than once. `bad-request`.
    Repeated(String),
    /// The peer may not name principals. Status 403.
    UntrustedPeer,
}

/// For `detail`; ends with the next step, and repeats no value.
impl fmt::Display for PrincipalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrincipalError::CookieOnly => f.write_str(
                "The request has a cookie and no Authorization, so it does not show whose it is; \
                 set `principal = \"cookie:NAME\"` or `principal = \"anonymous\"` on this route.",
            ),
            PrincipalError::Absent(PrincipalRule::Cookie(name)) => write!(
                f,
                "The request has no cookie `{name}`, which says whose it is here; send it.",
            ),
            PrincipalError::Absent(PrincipalRule::Header(name)) => write!(
                f,
                "The request has no field `{name}`, which says whose it is here; let the peer \
                 that calls this gateway set it.",
            ),
            PrincipalError::Absent(rule) => write!(
                f,
                "The request does not show whose it is by the rule `{rule}`; send what it asks \
                 for.",
            ),
            PrincipalError::Repeated(what) => write!(
                f,
                "The request has more than one {what}, so it does not show whose it is; send one.",
            ),
            PrincipalError::UntrustedPeer => f.write_str(
                "This route takes the word of trusted peers only, and the connection is not from \
                 one; call through the peer that sets the principal.",
            ),
        }
    }
}

impl std::error::Error for PrincipalError {}

/// The value of a field that may come once; none where it is absent or empty.
fn single<'a>(
    fields: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a [u8]>, PrincipalError> {
    let mut values = fields.get_all(name).iter();
    let value = values.next().map(|value| value.as_bytes().trim_ascii());
    if values.next().is_some() {
        return Err(PrincipalError::Repeated(format!("`{name}` field")));
    }
    Ok(value.filter(|value| !value.is_empty()))
}

/// The value of a cookie, over all `Cookie` fields; none where it is absent or empty.
fn cookie<'a>(fields: &'a HeaderMap, name: &str) -> Result<Option<&'a [u8]>, PrincipalError> {
    let fields = fields.get_all(COOKIE).iter();
    let pairs = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
    let mut values = pairs.filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let is_it = pair[..at].trim_ascii() == name.as_bytes();
        is_it.then(|| pair[at + 1..].trim_ascii())
    });
    let value = values.next();
    if values.next().is_some() {
        return Err(PrincipalError::Repeated(format!("cookie `{name}`")));
    }
    Ok(value.filter(|value| !value.is_empty()))
}

#[cfg(test)]
mod tests;
