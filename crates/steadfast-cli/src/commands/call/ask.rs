//! What is asked: the request and its rules, read before anything is sent.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Uri};
use steadfast::client::pool::{Pool, PoolSettings};
use steadfast::client::{Asked, Rules, Scheme, Target, TlsFiles, UpstreamTls};
use steadfast_core::backoff::{Backoff, Curve};
use steadfast_core::key::{Key, KeyRules};
use steadfast_core::policy::Statuses;
use steadfast_core::repeat::{BodyKind, KeyUse};
use steadfast_core::retry::RetryPolicy;
use steadfast_core::timeouts::Timeouts;

use super::super::keys::fresh_key;
use crate::args::{CallArgs, RetryAfter};

/// The field that carries the key.
pub const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A longer body is not kept in memory so that it can be sent again.
const LARGEST_BODY: u64 = 256 * 1024 * 1024;

/// One request and the rules of its attempts.
pub struct Asking {
    pub method: Method,
    pub target: Target,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// As it is sent; for the caller alone.
    pub key: Option<String>,
    pub deadline: Duration,
    pub rules: Rules,
    pub asked: Asked,
    pub pool: Pool,
}

impl Asking {
    /// Reads it whole: files and standard input, too. `Err` says what is wrong and what to do.
    pub fn read(args: &CallArgs) -> Result<Asking, String> {
        let (target, uri) = place(&args.url)?;
        let rules = rules(args)?;
        let pool = match target.scheme() {
            Scheme::Https => {
                let tls = UpstreamTls::new(&TlsFiles {
                    ca: args.cacert.clone(),
                    ..TlsFiles::default()
                });
                let tls = tls.map_err(|error| error.to_string())?;
                Pool::with_tls(PoolSettings::default(), tls)
            }
            _ => Pool::new(PoolSettings::default()),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &args.headers {
            headers.append(name, value.clone());
        }
        let key = key(args, &mut headers)?;
        let body = body(&args.data)?;
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        if !args.data.is_empty() {
            headers.entry(CONTENT_TYPE).or_insert(form);
        }
        let name = concat!("steadfast/", env!("CARGO_PKG_VERSION"));
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(name));
        headers
            .entry(ACCEPT)
            .or_insert(HeaderValue::from_static("*/*"));
        let conditional = ["if-match", "if-unmodified-since"];
        let asked = Asked {
            method: args.method.clone(),
            key: match (&key, args.key.is_some()) {
                (Some(_), true) => KeyUse::Honoured,
                (Some(_), false) => KeyUse::Carried,
                (None, _) => KeyUse::None,
            },
            body: BodyKind::Whole,
            conditional: conditional.iter().any(|name| headers.contains_key(*name)),
        };
        Ok(Asking {
            method: args.method.clone(),
            target,
            uri,
            headers,
            body,
            key,
            deadline: args.deadline.unwrap_or(Duration::from_secs(30)),
            rules,
            asked,
            pool,
        })
    }

    /// The endpoint was said to honour the key.
    pub fn honours_key(&self) -> bool {
        self.asked.key == KeyUse::Honoured
    }
}

/// Where the request goes, and the path and query that it asks for.
fn place(url: &str) -> Result<(Target, Uri), String> {
    let text = url.split('#').next().unwrap_or_default();
    let uri: Uri = text
        .parse()
        .map_err(|_| format!("`{text}` is no URL; write http://HOST/PATH"))?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(format!("`{text}` is no whole URL; write http://HOST/PATH"));
    };
    let target = Target::parse(&format!("{scheme}://{authority}"));
    let target = target.map_err(|error| error.to_string())?;
    Ok((target, uri))
}

fn rules(args: &CallArgs) -> Result<Rules, String> {
    let usual = RetryPolicy::default();
    let base = args.base.unwrap_or(usual.backoff.base());
    let cap = args.cap.unwrap_or(usual.backoff.cap().max(base));
    let jitter = args.jitter.unwrap_or(usual.backoff.jitter());
    let backoff = Backoff::new(Curve::Exponential, base, cap, jitter);
    let limits = Timeouts::default();
    let attempt = args.attempt_timeout.unwrap_or(limits.attempt);
    // Whoever gives an attempt more time than usual means its answer, too.
    let response = limits.response.max(attempt);
    let limits = Timeouts {
        attempt,
        response,
        ..limits
    };
    let deadline = args.deadline.unwrap_or(Duration::from_secs(30));
    Ok(Rules {
        retry: Arc::new(RetryPolicy {
            max_attempts: args.max_attempts.unwrap_or(usual.max_attempts),
            backoff: backoff.map_err(|wrong| format!("--cap: {wrong}"))?,
            obey_retry_after: args.retry_after == RetryAfter::Obey,
            ..usual
        }),
        statuses: Arc::new(Statuses::default()),
        timeouts: limits.within(deadline),
        may_defer: false,
    })
}

/// The key that is sent, once for all attempts (I1): a new one, the one that was typed, or the one
/// in a field, of which nothing says that the endpoint honours it.
fn key(args: &CallArgs, headers: &mut HeaderMap) -> Result<Option<String>, String> {
    let in_field = headers.get(&KEY).cloned();
    let Some(typed) = &args.key else {
        let text = in_field.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        return Ok(text);
    };
    if in_field.is_some() {
        return Err("--key and -H 'Idempotency-Key: …' name two keys; leave one out".to_owned());
    }
    let text = match typed.as_str() {
        "auto" => fresh_key(),
        typed => typed.to_owned(),
    };
    let shape = KeyRules {
        min_entropy_bits: 0,
        ..KeyRules::default()
    };
    let mut value = HeaderValue::from_str(&text).map_err(
        |_| "--key: it has characters that no field can carry; `steadfast keys new` makes one",
    )?;
    Key::parse([value.as_bytes()], &shape).map_err(|error| format!("--key: {error}"))?;
    value.set_sensitive(true);
    headers.insert(KEY, value);
    Ok(Some(text))
}

fn body(data: &[String]) -> Result<Bytes, String> {
    let mut whole = Vec::new();
    for (at, part) in data.iter().enumerate() {
        if at > 0 {
            whole.push(b'&');
        }
        let read = |from: &mut dyn Read, name: &str| {
            let mut bytes = Vec::new();
            let read = from.take(LARGEST_BODY + 1).read_to_end(&mut bytes);
            read.map_err(|error| format!("--data: {name} cannot be read: {error}"))?;
            Ok::<_, String>(bytes)
        };
        match part.strip_prefix('@') {
            Some(path) => {
                let mut file = std::fs::File::open(path)
                    .map_err(|error| format!("--data: {path} cannot be opened: {error}"))?;
                whole.extend(read(&mut file, path)?);
            }
            None if part == "-" => whole.extend(read(&mut std::io::stdin(), "standard input")?),
            None => whole.extend(part.as_bytes()),
        }
        if whole.len() as u64 > LARGEST_BODY {
            let most = LARGEST_BODY / (1024 * 1024);
            return Err(format!(
                "--data: the body is larger than {most}MiB and cannot be kept to be sent again; \
                 send it another way"
            ));
        }
    }
    Ok(whole.into())
}
