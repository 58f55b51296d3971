//! What the end of a sending proves.
//!
//! The one door from what the libraries and the socket said to the words of the core. Decided by
//! counted bytes and by types, never by an error's text.

use steadfast_core::attempt::Failure;

use super::counted::Seen;
use super::limits::Limit;
use super::request::Unsendable;
use super::send::SendEnd;
use super::stream::Ended;

/// Why it stopped without an answer.
pub(super) enum Short {
    /// The connection or the stream did.
    Ended(Ended),
    /// The answer was no final one.
    NoAnswer(&'static str),
    CallerLeft,
    Limit(Limit),
}

/// How it ended. Where `is_final` does not hold, some of the request may still go out.
pub(super) fn judge(short: Short, seen: &Seen, is_final: bool, is_reused: bool) -> SendEnd {
    if let Some(refused) = identity_refused(seen, is_reused) {
        return refused;
    }
    let written = seen.bytes_written;
    let detail = match (&short, &seen.caller_left) {
        (Short::CallerLeft, Some(left)) => left.to_string(),
        (Short::CallerLeft, None) => "the request's body did not come whole".to_owned(),
        (Short::Ended(Ended { why, .. }), _) => {
            format!("the connection ended without an answer: {why}")
        }
        (Short::NoAnswer(why), _) => (*why).to_owned(),
        (Short::Limit(limit), _) => format!("{} ended first", limit.as_str()),
    };
    let detail = format!("{detail} ({written} bytes written)");
    let failure = match &short {
        _ if written == 0 && is_final => Failure::NotWritten,
        _ if seen.write_failed.is_some() => Failure::Write,
        Short::CallerLeft | Short::Limit(Limit::Write) => Failure::Write,
        Short::Limit(Limit::Response | Limit::Whole) => Failure::ReadTimeout,
        Short::Ended(Ended { promised, .. }) => promised.unwrap_or(Failure::Reset),
        Short::NoAnswer(_) => Failure::Reset,
    };
    match short {
        Short::CallerLeft => SendEnd::CallerLeft { failure, detail },
        _ => SendEnd::Failed { failure, detail },
    }
}

pub(super) fn unsent(unsendable: Unsendable) -> SendEnd {
    SendEnd::CallerLeft {
        failure: Failure::NotWritten,
        detail: format!("the request was not sent: {unsendable}"),
    }
}

/// The connection was seen to have ended before anything was offered.
pub(super) fn ended_before(seen: &Seen, is_reused: bool) -> SendEnd {
    identity_refused(seen, is_reused).unwrap_or_else(|| SendEnd::Failed {
        failure: Failure::NotWritten,
        detail: "the connection took no more requests (0 bytes written)".to_owned(),
    })
}

/// The peer refused our certificate. With TLS 1.3 it says so only when our side of the handshake is
/// done (RFC 8446, 4.4.3), so it meets the first request; the peer cannot have read that request,
/// since for it the handshake never ended.
pub(super) fn identity_refused(seen: &Seen, is_reused: bool) -> Option<SendEnd> {
    let why = seen.identity.as_ref().filter(|_| !is_reused)?;
    Some(SendEnd::Failed {
        failure: Failure::TlsIdentity,
        detail: format!("the upstream refused our certificate: {why}"),
    })
}
