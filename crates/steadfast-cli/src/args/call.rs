//! What can be typed after `steadfast call`: as one would type it for curl.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::{HeaderName, HeaderValue, Method};
use steadfast_core::backoff::Jitter;

use super::decide::{attempts, jitter, length, method};

/// `steadfast call`
#[derive(Args, Clone, Debug)]
pub struct CallArgs {
    /// The method, such as POST
    #[arg(value_name = "METHOD", value_parser = method)]
    pub method: Method,
    /// Where to, such as http://127.0.0.1:8080/orders
    #[arg(value_name = "URL")]
    pub url: String,
    /// A field of the request, such as 'Authorization: Bearer abc'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body: the text, @FILE, or - for standard input; several are joined with &
    ///
    /// Sent byte for byte, as a form unless a Content-Type in -H says otherwise.
    #[arg(
        short = 'd',
        long = "data",
        value_name = "DATA",
        allow_hyphen_values = true
    )]
    pub data: Vec<String>,
    /// Write the answer's body to this file
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the answer's status and fields before its body
    #[arg(short = 'i', long = "include")]
    pub include: bool,
    /// Tell the fields that are sent and received; credentials and keys are not shown
    #[arg(short = 'v', long = "verbose")]
    pub verbose: bool,
    /// Send an Idempotency-Key, a new one (auto) or this; says that the endpoint honours keys
    #[arg(long, value_name = "auto|KEY")]
    pub key: Option<String>,
    /// Trust the certificates in this file, too (PEM)
    ///
    /// The system's are trusted anyway. Nothing switches the verification off.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// The whole operation [default: 30s]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub deadline: Option<Duration>,
    /// Attempts, the first one included [default: 3]
    #[arg(long, value_name = "N", value_parser = attempts)]
    pub max_attempts: Option<NonZeroU32>,
    /// The limit of one attempt [default: 20s]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub attempt_timeout: Option<Duration>,
    /// The first wait [default: 100ms]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub base: Option<Duration>,
    /// The longest wait [default: 5s, or the base where that is longer]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    pub cap: Option<Duration>,
    /// How waits are spread: full, none, equal or decorrelated [default: full]
    #[arg(long, value_name = "JITTER", value_parser = jitter)]
    pub jitter: Option<Jitter>,
    /// Whether Retry-After is obeyed
    #[arg(long, value_name = "WHETHER", value_enum, default_value = "obey")]
    pub retry_after: RetryAfter,
    /// Hand it to the queue in --store, durably, and send nothing now: `deferred run` does
    ///
    /// Under the key of --key, which says that the endpoint honours keys, or one that is made and
    /// printed. Credentials in -H are not kept: give them to `deferred run`. Ends with 9.
    #[arg(long, requires = "store", conflicts_with = "lookup")]
    pub defer: bool,
    /// The store of the queue, such as sqlite:outbox.db; it is made where it is not there
    #[arg(long, value_name = "URL", requires = "defer")]
    pub store: Option<String>,
    /// Where to ask after an unknown end; {key} stands for the key
    ///
    /// 2xx says that it was done, and is the answer; 404, twice in a row, that nothing was
    /// executed; anything else tells nothing.
    #[arg(long, value_name = "URL")]
    pub lookup: Option<String>,
    /// Print JSON: what came of it, the story, the answer
    #[arg(long)]
    pub json: bool,
}

/// Whether `Retry-After` is obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RetryAfter {
    /// In full, or the operation ends
    Obey,
    /// One's own waits only
    Ignore,
}

/// A field as curl takes it: `Name: value`.
pub(super) fn field(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let help = "write it as 'Name: value'";
    let (name, value) = text.split_once(':').ok_or(help)?;
    let name = HeaderName::from_bytes(name.trim().as_bytes());
    let value = HeaderValue::from_str(value.trim());
    match (name, value) {
        (Ok(name), Ok(mut value)) => {
            // What may be a credential shows itself nowhere.
            value.set_sensitive(true);
            Ok((name, value))
        }
        _ => Err(help.to_owned()),
    }
}
