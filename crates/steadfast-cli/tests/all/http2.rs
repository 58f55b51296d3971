//! HTTP/2 in clear text at the front, frame by frame over real sockets.

mod drain;
pub mod frames;
mod leaving;
mod limits;
mod malformed;
mod opening;

use std::convert::Infallible;
use std::future::pending;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::{Body as _, Frame as BodyFrame};
use http_body_util::{BodyExt, Full, StreamBody};
use steadfast_cli::gateway::framing::{MAX_FIELDS, MAX_HEAD, Violation};
use steadfast_cli::gateway::listen::{
    BodyError, Drained, Handler, Http2Limits, Limits, RequestBody,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tower::service_fn;

use crate::listen::raw::{Count, Running, soon};
use crate::listen::{
    AT_ONCE, GET, NEVER, OnDrop, answering, patient as patient_http1, text, waiting,
};

/// No ping that no test asks for.
fn quiet() -> Http2Limits {
    Http2Limits {
        ping_every: NEVER,
        ping_answer: NEVER,
        ..Http2Limits::default()
    }
}

fn patient() -> Limits {
    Limits {
        http2: Some(quiet()),
        ..patient_http1()
    }
}
