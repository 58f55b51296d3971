//! An answer on its way out over a stream: its head as HTTP/2 has it, its body as fast as the
//! caller opens its window.
//!
//! A caller who opens no window within the limit has its stream reset. So only as much is given to
//! the parser as the windows have room for: what lies there already could not be taken back.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TRAILER};
use http::{Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use steadfast::clock;
use steadfast_core::fields::strip_hop_of_answer;
use steadfast_core::time::WallTime;

use super::SEND_BUFFER;

/// The caller is gone, or was sent away. Nothing more can be said to it.
#[derive(Debug)]
pub(super) struct Gone;

impl From<h2::Error> for Gone {
    fn from(error: h2::Error) -> Gone {
        tracing::debug!(%error, "an answer found its stream over");
        Gone
    }
}

/// Sends a whole answer; `head_only` where the request's method wants no body of it.
pub(super) async fn send<B>(
    respond: &mut SendResponse<Bytes>,
    response: Response<B>,
    head_only: bool,
    stall: Duration,
) -> Result<(), Gone>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (mut parts, body) = response.into_parts();
    let announced = dress(&mut parts.headers);
    let bodiless = matches!(
        parts.status,
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
    );
    if let Some(length) = body.size_hint().exact().filter(|_| !bodiless) {
        let known = parts.headers.contains_key(CONTENT_LENGTH);
        // Of an empty body, a HEAD's answer says nothing: the length is that of a GET's.
        if !(known || head_only && length == 0) {
            parts
                .headers
                .insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
    }
    let ends = head_only || bodiless || body.is_end_stream();
    let stream = respond.send_response(Response::from_parts(parts, ()), ends)?;
    match ends {
        true => Ok(()),
        false => send_body(stream, body, &announced, stall).await,
    }
}

async fn send_body<B>(
    mut stream: SendStream<Bytes>,
    mut body: B,
    announced: &[HeaderName],
    stall: Duration,
) -> Result<(), Gone>
where
    B: Body<Data = Bytes> + Unpin,
{
    loop {
        let Some(frame) = next(&mut stream, &mut body).await? else {
            return Ok(stream.send_data(Bytes::new(), true)?);
        };
        let frame = frame.map_err(|_| {
            // A part must never look like the whole.
            stream.send_reset(Reason::INTERNAL_ERROR);
            Gone
        })?;
        match frame.into_data() {
            Ok(data) => {
                let last = body.is_end_stream();
                send_data(&mut stream, data, last, stall).await?;
                if last {
                    return Ok(());
                }
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                return end_with(&mut stream, trailers, announced);
            }
        }
    }
}

/// The head's fields as HTTP/2 has them: no field of a connection, one Date. Returns the trailers
/// that it announces.
fn dress(headers: &mut HeaderMap) -> Vec<HeaderName> {
    let lines: Vec<HeaderValue> = headers.get_all(TRAILER).iter().cloned().collect();
    strip_hop_of_answer(headers);
    let mut announced = Vec::new();
    for line in lines {
        let names = line.as_bytes().split(|byte| *byte == b',');
        let names = names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
        announced.extend(names);
        headers.append(TRAILER, line);
    }
    if !headers.contains_key(DATE) {
        let since = clock::wall_now().since(WallTime::from_unix_ms(0));
        let date = httpdate::fmt_http_date(UNIX_EPOCH + since);
        if let Ok(date) = HeaderValue::from_str(&date) {
            headers.insert(DATE, date);
        }
    }
    announced
}

/// The body's next frame, unless the caller leaves before.
async fn next<B: Body<Data = Bytes> + Unpin>(
    stream: &mut SendStream<Bytes>,
    body: &mut B,
) -> Result<Option<Result<Frame<Bytes>, B::Error>>, Gone> {
    let mut frame = body.frame();
    poll_fn(|cx| match stream.poll_reset(cx) {
        Poll::Ready(_) => Poll::Ready(Err(Gone)),
        Poll::Pending => std::pin::Pin::new(&mut frame).poll(cx).map(Ok),
    })
    .await
}

async fn send_data(
    stream: &mut SendStream<Bytes>,
    mut data: Bytes,
    last: bool,
    stall: Duration,
) -> Result<(), Gone> {
    if data.is_empty() {
        return Ok(stream.send_data(data, last)?);
    }
    while !data.is_empty() {
        stream.reserve_capacity(data.len().min(SEND_BUFFER));
        let Ok(room) = clock::within(stall, room(stream)).await else {
            tracing::debug!("a caller opened no window for its answer; its stream is reset");
            stream.send_reset(Reason::CANCEL);
            return Err(Gone);
        };
        let piece = data.split_to(room?.min(data.len()));
        stream.send_data(piece, last && data.is_empty())?;
    }
    Ok(())
}

/// Bytes that both windows have room for: at least one.
async fn room(stream: &mut SendStream<Bytes>) -> Result<usize, Gone> {
    poll_fn(|cx| {
        if stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Gone));
        }
        loop {
            match stream.capacity() {
                0 => match std::task::ready!(stream.poll_capacity(cx)) {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Poll::Ready(Err(error.into())),
                    None => return Poll::Ready(Err(Gone)),
                },
                room => return Poll::Ready(Ok(room)),
            }
        }
    })
    .await
}

/// Ends the answer with those of its trailers that its head announced, as HTTP/1.1 does.
fn end_with(
    stream: &mut SendStream<Bytes>,
    mut trailers: HeaderMap,
    announced: &[HeaderName],
) -> Result<(), Gone> {
    let names: Vec<HeaderName> = trailers.keys().cloned().collect();
    for name in names.iter().filter(|name| !announced.contains(name)) {
        trailers.remove(name);
    }
    match trailers.is_empty() {
        true => stream.send_data(Bytes::new(), true)?,
        false => stream.send_trailers(trailers)?,
    }
    Ok(())
}
