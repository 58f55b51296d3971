//! The request as it goes out: its framing is ours, its body is watched.
//!
//! Decides the framing once (RFC 9112, 6.3), so that a body is never dropped or cut without a word,
//! and notices when the body is whole and when it fails. A caller's body that fails is told apart
//! from an upstream that does.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Request, Uri, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;

use super::counted::Evidence;
use crate::client::Target;

/// A request's body: bytes as they come, or the news that whoever sent them is gone.
pub type RequestBody = UnsyncBoxBody<Bytes, CallerLeft>;

/// A request's own body failed: the caller hung up, was too slow, or sent other than it announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerLeft {
    /// What happened, for people.
    pub detail: String,
}

impl fmt::Display for CallerLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request's body did not come whole: {}", self.detail)
    }
}

impl Error for CallerLeft {}

/// A request that cannot be sent as it is. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsendable {
    /// A tunnel is no request.
    Connect,
    /// `Content-Length` is no number, or several that differ.
    LengthUnreadable,
    /// The body is known to be of another length than announced.
    LengthDiffers,
}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsendable::Connect => "CONNECT is not sent on; use another method",
            Unsendable::LengthUnreadable => {
                "its Content-Length is not one whole number; send one or leave it out"
            }
            Unsendable::LengthDiffers => {
                "its body is not as long as its Content-Length says; send what is announced"
            }
        })
    }
}

/// The request in origin form, with `Host` and one framing, and its body watched.
///
/// `Expect` goes: a 100 is not waited for here (the body is sent at once), so it would only be a
/// reason to answer 417. `Upgrade` goes: another protocol could not be spoken here.
pub(super) fn prepare(
    request: Request<RequestBody>,
    target: &Target,
    evidence: &Evidence,
) -> Result<Request<Watched>, Unsendable> {
    let (mut head, body) = request.into_parts();
    if head.method == Method::CONNECT {
        return Err(Unsendable::Connect);
    }
    head.version = Version::HTTP_11;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse::<Uri>().unwrap_or_default();
    if !head.headers.contains_key(HOST)
        && let Ok(host) = HeaderValue::from_str(&target.authority())
    {
        head.headers.insert(HOST, host);
    }
    head.headers.remove(EXPECT);
    head.headers.remove(UPGRADE);
    let left = frame(&mut head.headers, &head.method, &body)?;
    let watched = Watched::new(body, left, evidence.clone());
    let mut request = Request::from_parts(head, watched);
    let counted = evidence.clone();
    hyper::ext::on_informational(&mut request, move |_| counted.seen().informational += 1);
    Ok(request)
}

/// The request as HTTP/2 has it (RFC 9113, 8.2.2 and 8.3.1): the host in its URI, no field that is
/// of one connection, no framing but the announced length.
pub(super) fn prepare_shared(
    request: Request<RequestBody>,
    target: &Target,
    evidence: &Evidence,
) -> Result<Request<Watched>, Unsendable> {
    let (mut head, body) = request.into_parts();
    if head.method == Method::CONNECT {
        return Err(Unsendable::Connect);
    }
    head.version = Version::HTTP_2;
    let host = head.headers.remove(HOST);
    let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let own = || Authority::try_from(target.authority()).ok();
    let mut parts = head.uri.into_parts();
    parts.scheme = Some(http::uri::Scheme::HTTPS);
    parts.authority = host.or_else(own);
    parts.path_and_query = parts
        .path_and_query
        .or(Some(PathAndQuery::from_static("/")));
    head.uri = Uri::from_parts(parts).unwrap_or_default();
    let left = frame(&mut head.headers, &head.method, &body)?;
    remove_connection_fields(&mut head.headers);
    let watched = Watched::new(body, left, evidence.clone());
    Ok(Request::from_parts(head, watched))
}

fn remove_connection_fields(headers: &mut HeaderMap) {
    let listed = headers.get_all(CONNECTION).iter();
    let listed = listed.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let listed = listed.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
    let listed: Vec<HeaderName> = listed.collect();
    for name in listed {
        headers.remove(name);
    }
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE, EXPECT] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
    if headers.get(TE).is_some_and(|te| te != "trailers") {
        headers.remove(TE);
    }
}

/// Sets the framing; the announced length, `None` for chunked.
fn frame(
    headers: &mut HeaderMap,
    method: &Method,
    body: &RequestBody,
) -> Result<Option<u64>, Unsendable> {
    headers.remove(TRANSFER_ENCODING);
    let announced = announced(headers)?;
    let known = match body.is_end_stream() {
        true => Some(0),
        false => body.size_hint().exact(),
    };
    let expects_a_body = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    match (announced, known) {
        (Some(announced), Some(known)) if announced != known => Err(Unsendable::LengthDiffers),
        (Some(announced), _) => Ok(Some(announced)),
        (None, Some(0)) => {
            if expects_a_body {
                headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
            Ok(Some(0))
        }
        (None, Some(known)) => {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(known));
            Ok(Some(known))
        }
        (None, None) => {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            Ok(None)
        }
    }
}

/// The one length that `Content-Length` says, made one field.
fn announced(headers: &mut HeaderMap) -> Result<Option<u64>, Unsendable> {
    let mut one = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let digits = value.as_bytes();
        let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(digits)
            .ok()
            .and_then(|d| d.parse().ok());
        match (length.filter(|_| plain), one) {
            (None, _) => return Err(Unsendable::LengthUnreadable),
            (Some(length), Some(other)) if length != other => {
                return Err(Unsendable::LengthUnreadable);
            }
            (length, _) => one = length,
        }
    }
    if let Some(length) = one {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(one)
}

/// A request's body on its way out.
///
/// When it fails, hyper is not told: the failure is kept as evidence and the body stays pending, so
/// that an answer which is on its way may still be read.
pub(super) struct Watched {
    inner: RequestBody,
    /// Bytes that are still to come; `None` for chunked.
    left: Option<u64>,
    evidence: Evidence,
}

impl Watched {
    fn new(inner: RequestBody, left: Option<u64>, evidence: Evidence) -> Watched {
        if left == Some(0) {
            evidence.seen().body_ended = true;
        }
        Watched {
            inner,
            left,
            evidence,
        }
    }

    /// Takes `frame` off what is left; whether the body has now ended.
    fn take(&mut self, frame: &Frame<Bytes>) -> Result<bool, CallerLeft> {
        let length = frame.data_ref().map(|data| data.len() as u64);
        match (&mut self.left, length) {
            (Some(left), Some(length)) => {
                *left = left.checked_sub(length).ok_or_else(|| CallerLeft {
                    detail: "more bytes than its Content-Length says".to_owned(),
                })?;
                Ok(*left == 0)
            }
            (Some(left), None) => Ok(*left == 0),
            (None, Some(_)) => Ok(self.inner.is_end_stream()),
            (None, None) => Ok(true),
        }
    }

    fn ended(&mut self) -> Result<(), CallerLeft> {
        match self.left {
            Some(left) if left > 0 => Err(CallerLeft {
                detail: format!("{left} bytes fewer than its Content-Length says"),
            }),
            _ => Ok(()),
        }
    }

    fn failed(&mut self, why: CallerLeft) -> Poll<Option<Result<Frame<Bytes>, CallerLeft>>> {
        self.evidence.seen().caller_left = Some(why);
        Poll::Pending
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = CallerLeft;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CallerLeft>>> {
        let this = self.get_mut();
        if this.evidence.seen().caller_left.is_some() {
            return Poll::Pending;
        }
        match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
            Some(Ok(frame)) => match this.take(&frame) {
                Ok(last) => {
                    this.evidence.seen().body_ended |= last;
                    Poll::Ready(Some(Ok(frame)))
                }
                Err(why) => this.failed(why),
            },
            Some(Err(why)) => this.failed(why),
            None => match this.ended() {
                Ok(()) => {
                    this.evidence.seen().body_ended = true;
                    Poll::Ready(None)
                }
                Err(why) => this.failed(why),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.left {
            Some(left) => left == 0,
            None => self.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
