//! One stream: a request, from its head to the end of its answer.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use steadfast::clock;

use super::body::{StreamBody, Talk};
use super::pipe::{self, Gone};
use crate::gateway::framing::{Violation, check_http2};
use crate::gateway::listen::{Front, Handler, Peer, RequestBody};

/// How a stream ended, for its connection to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With an answer, whole or not.
    Answered,
    /// By its caller, before there was an answer.
    Left,
}

/// Answers one request; the service's future is dropped where the caller leaves before. `held` is
/// kept for as long as somebody reads the request's body.
pub(super) async fn run<S: Handler>(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    front: Front<S>,
    peer: SocketAddr,
    held: Arc<()>,
) -> Ended {
    let (mut parts, stream) = request.into_parts();
    let head_only = parts.method == Method::HEAD;
    let (refuse, limits) = (front.refuse, front.limits);
    let talk = Arc::new(Talk::new(parts.headers.contains_key(EXPECT)));
    let answered = match check_http2(&mut parts, limits.head) {
        Err(violation) => Some(Err(violation)),
        Ok(()) => {
            parts.extensions.insert(Peer(peer));
            let length = length(&parts);
            let mut body = StreamBody::new(stream, Arc::clone(&talk), length, limits.idle, held);
            let served = async {
                let empty = clock::within(limits.head_time, body.is_empty_as_announced());
                if !empty.await.unwrap_or(false) {
                    return None;
                }
                let request = Request::from_parts(parts, RequestBody::http2(body));
                Some(front.service.handle(request).await)
            };
            answer(served, &talk, &mut respond).await
        }
    };
    let response = match answered {
        Some(Ok(response)) => response.map(Either::Left),
        Some(Err(violation)) => {
            tracing::debug!(?violation, "refused the framing of a request");
            refuse(&violation).map(|body| Either::Right(Full::new(body)))
        }
        None => return Ended::Left,
    };
    // Whoever leaves inside its answer was answered.
    let (Ok(()) | Err(Gone)) =
        pipe::send(&mut respond, response, head_only, limits.write_stall).await;
    talk.end();
    Ended::Answered
}

/// The length that the caller announced, which the parser has compared with what comes.
fn length(parts: &Parts) -> Option<u64> {
    let value = parts.headers.get(CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

/// Waits for the service's answer, for a refusal of the body, or for the caller's leaving (`None`,
/// as where the service was not called for want of a whole request), and asks
/// the caller for its body where it waits for that.
async fn answer<B>(
    service: impl Future<Output = Option<Response<B>>>,
    talk: &Talk,
    respond: &mut SendResponse<Bytes>,
) -> Option<Result<Response<B>, Violation>> {
    let mut service = pin!(service);
    poll_fn(|cx| {
        talk.listen(cx.waker());
        let polled = service.as_mut().poll(cx);
        if let Some(violation) = talk.violation() {
            return Poll::Ready(Some(Err(violation)));
        }
        if let Poll::Ready(response) = polled {
            return Poll::Ready(response.map(Ok));
        }
        if talk.take_asked() {
            let mut go_on = Response::new(());
            *go_on.status_mut() = StatusCode::CONTINUE;
            // It fails where the stream is over, which shows below.
            let _ = respond.send_informational(go_on);
        }
        // An error is the connection's end.
        respond.poll_reset(cx).map(|_| None)
    })
    .await
}
