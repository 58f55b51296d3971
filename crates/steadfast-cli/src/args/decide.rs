//! What can be typed after `steadfast plan` and `steadfast explain`: a policy, and a situation.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::{Method, StatusCode};
use steadfast_core::backoff::{Curve, Jitter};

use crate::settings::value::length_of;

/// Most attempts that can be planned.
pub const MOST_ATTEMPTS: u32 = 1000;

/// `steadfast plan`
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// The whole operation, such as 900ms; without it there is no deadline
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub deadline: Option<Duration>,
    /// Attempts, the first one included [default: 3]
    #[arg(long, value_name = "N", value_parser = attempts)]
    pub max_attempts: Option<NonZeroU32>,
    /// The limit of one attempt; without it attempts take no time
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub attempt_timeout: Option<Duration>,
    /// An attempt with less than this left is not started [default: 0ms]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub min_attempt: Option<Duration>,
    /// How waits grow: exponential or fixed [default: exponential]
    #[arg(long, value_name = "CURVE", value_parser = curve)]
    pub backoff: Option<Curve>,
    /// The first wait [default: 100ms]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub base: Option<Duration>,
    /// The longest wait [default: 5s, or the base where that is longer]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub cap: Option<Duration>,
    /// How waits are spread: full, none, equal or decorrelated [default: full]
    #[arg(long, value_name = "JITTER", value_parser = jitter)]
    pub jitter: Option<Jitter>,
    /// Plan a route of this configuration; what is typed weighs more
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The route's name; needed where there are several
    #[arg(long, value_name = "NAME", requires = "config")]
    pub route: Option<String>,
    /// The worst case of stacked layers: attempts of each, outermost first, such as 3,3
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = attempts)]
    #[arg(conflicts_with = "layers_retries")]
    pub layers: Vec<NonZeroU32>,
    /// As --layers, for libraries that count retries: urllib3's total=3 is 4 attempts
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = retries)]
    pub layers_retries: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `steadfast explain`
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// The method, such as POST
    #[arg(long, value_name = "METHOD", value_parser = method)]
    pub method: Method,
    /// The answer's status
    #[arg(long, value_name = "STATUS", value_parser = status)]
    #[arg(required_unless_present = "error", conflicts_with = "error")]
    pub status: Option<StatusCode>,
    /// How the attempt failed
    #[arg(long, value_name = "ERROR", value_enum)]
    pub error: Option<ErrorName>,
    /// With --error goaway: whether the peer may have processed the request
    #[arg(long, value_name = "WHETHER", value_enum, default_value = "unknown")]
    pub processed: Processed,
    /// It carries a key that the endpoint honours
    #[arg(long)]
    pub key: bool,
    /// It carries a condition on what it changes, such as If-Match
    #[arg(long)]
    pub conditional: bool,
    /// Whether its body can be sent again
    #[arg(long, value_name = "KIND", value_enum, default_value = "whole")]
    pub body: BodyName,
    /// The raw value of the answer's Retry-After; an invalid one is ignored, as on the wire
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub retry_after: Option<String>,
    /// The date at which the answer came: RFC 3339, or an HTTP date [default: now]
    #[arg(long, value_name = "DATE")]
    pub now: Option<String>,
    /// The number of the attempt that ended so, from 1 on [default: 1, after another one 2]
    #[arg(long, value_name = "N", value_parser = attempts)]
    pub attempt: Option<NonZeroU32>,
    /// Attempts, the first one included [default: 3]
    #[arg(long, value_name = "N", value_parser = attempts)]
    pub max_attempts: Option<NonZeroU32>,
    /// What is left of the deadline [default: 30s]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub remaining: Option<Duration>,
    /// How an earlier attempt of the same operation failed
    #[arg(long, value_name = "ERROR", value_enum)]
    pub after: Option<ErrorName>,
    /// A part of the answer has been passed on already
    #[arg(long)]
    pub passed_on: bool,
    /// What does not fit the deadline may be deferred
    #[arg(long)]
    pub defer: bool,
    /// Explain a route of this configuration; what is typed weighs more
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The route's name; needed where there are several
    #[arg(long, value_name = "NAME", requires = "config")]
    pub route: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How an attempt can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ErrorName {
    /// The name did not resolve
    Resolve,
    /// Refused, unreachable, or not within its limit
    Connect,
    /// A certificate, a hostname or trust was refused
    Tls,
    /// The handshake was cut, no identity having been refused
    TlsHandshake,
    /// A write failed after the first byte
    Write,
    /// The connection ended before a byte of the request was written
    NotWritten,
    /// The request was written, and no answer came in time
    ReadTimeout,
    /// The connection ended after the first byte, before an answer
    Reset,
    /// HTTP/2: the peer refused the stream before it processed it
    RefusedStream,
    /// HTTP/2: the peer went away; see --processed
    Goaway,
    /// The answer's body paused for too long
    Idle,
    /// The answer's body ended before its announced end
    Truncated,
}

/// Whether a peer that went away may have processed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Processed {
    /// Its stream is among those that may have been processed
    Yes,
    /// Its stream is above the last one
    No,
    /// The peer did not say
    Unknown,
}

/// Whether a body can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BodyName {
    /// None, or kept whole
    Whole,
    /// Read while it is sent
    Streamed,
}

pub(super) fn length(text: &str) -> Result<Duration, String> {
    length_of(text).map_err(|wrong| format!("{}; {}", wrong.reason, wrong.next))
}

pub(super) fn attempts(text: &str) -> Result<NonZeroU32, String> {
    let number = text.parse().ok().and_then(NonZeroU32::new);
    number
        .filter(|number| number.get() <= MOST_ATTEMPTS)
        .ok_or_else(|| {
            format!(
                "it is no count of attempts; write a number from 1 (the first) to {MOST_ATTEMPTS}"
            )
        })
}

fn retries(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number < MOST_ATTEMPTS);
    number.ok_or_else(|| format!("write a number from 0 to {}", MOST_ATTEMPTS - 1))
}

fn curve(text: &str) -> Result<Curve, String> {
    Curve::parse(text).ok_or_else(|| "write exponential or fixed".to_owned())
}

pub(super) fn jitter(text: &str) -> Result<Jitter, String> {
    Jitter::parse(text).ok_or_else(|| "write full, none, equal or decorrelated".to_owned())
}

pub(super) fn method(text: &str) -> Result<Method, String> {
    // Methods are case-sensitive, and nobody means another one by `post`.
    let upper = text.to_ascii_uppercase();
    Method::from_bytes(upper.as_bytes()).map_err(|_| "write a method, such as POST".to_owned())
}

fn status(text: &str) -> Result<StatusCode, String> {
    let status = text.parse().ok().filter(|code| (200..600).contains(code));
    let status = status.and_then(|code: u16| StatusCode::from_u16(code).ok());
    status.ok_or_else(|| "write the status of a final answer, from 200 to 599".to_owned())
}
