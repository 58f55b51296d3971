//! How the front opens, answers, lingers and ends connections, over real sockets.

mod bodies;
mod drain;
mod early;
mod leaving;
mod limits;
pub mod raw;

use std::convert::Infallible;
use std::future::pending;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use steadfast_cli::gateway::framing::{HeadLimits, Violation};
use steadfast_cli::gateway::listen::{BodyError, Drained, Handler, Limits, Peer, RequestBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tower::service_fn;

/// Longer than any test runs.
pub const NEVER: Duration = Duration::from_secs(3600);

/// So short that it is over before anything can be sent.
pub const AT_ONCE: Duration = Duration::from_millis(1);

pub const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST_OF_5: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";

/// Limits of time that no test meets unless it sets them.
pub fn patient() -> Limits {
    Limits {
        head_time: NEVER,
        idle: NEVER,
        write_stall: NEVER,
        linger_time: NEVER,
        drain: NEVER,
        ..Limits::default()
    }
}

pub fn text(status: u16, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status.try_into().expect("a status");
    response
}

/// Answers at once and reads nothing.
pub fn answering(status: u16) -> impl Handler {
    service_fn(
        move |_: Request<RequestBody>| async move { Ok::<_, Infallible>(text(status, "answer")) },
    )
}

/// A service that is called, and answers only when it is told.
pub fn waiting() -> (impl Handler, Arc<Notify>, Arc<Notify>) {
    let (called, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (called.clone(), go.clone());
    let service = service_fn(move |_: Request<RequestBody>| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.notified().await;
            Ok::<_, Infallible>(text(200, "answer"))
        }
    });
    (service, called, go)
}

/// Counts when it is dropped.
pub struct OnDrop(pub mpsc::UnboundedSender<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}
