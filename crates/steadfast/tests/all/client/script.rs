//! A service that does to each request what a script says, and notes what it was given.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use steadfast::body::BoxError;
use steadfast::client::{AttemptBody, Seen};
use steadfast::clock;
use steadfast::core::attempt::Failure;
use steadfast::core::time::MonoTime;
use tower::Service;

/// What it does to one request, once the request is read whole.
#[derive(Clone, Debug)]
pub enum Does {
    /// Answers with a status, fields and a body, after a time.
    Answers(
        Duration,
        u16,
        &'static [(&'static str, &'static str)],
        &'static str,
    ),
    /// Fails so, without having read the request.
    Fails(Failure),
    /// Answers a head whose body then does so.
    Body(u16, Gives),
    /// Never answers.
    Hangs,
    /// Is not ready, ever.
    IsBusy,
    /// Fails in its own words.
    Foreign,
}

/// What a body does behind its first chunk, `ok`.
#[derive(Clone, Copy, Debug)]
pub enum Gives {
    /// It pauses for ever.
    Nothing,
    /// A byte in each of these intervals, for ever.
    Bytes(Duration),
    /// It ends in an error.
    Error,
}

pub fn answers(status: u16) -> Does {
    Does::Answers(Duration::ZERO, status, &[], "an answer")
}

/// What it was given.
#[derive(Clone, Debug)]
pub struct Given {
    pub at: MonoTime,
    pub method: Method,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The service. Clones share script and notes; the last line of the script repeats.
#[derive(Clone)]
pub struct Script(Arc<Mutex<State>>);

struct State {
    script: VecDeque<Does>,
    given: Vec<Given>,
    inside: usize,
}

impl Script {
    pub fn of(script: impl IntoIterator<Item = Does>) -> Script {
        Script(Arc::new(Mutex::new(State {
            script: script.into_iter().collect(),
            given: Vec::new(),
            inside: 0,
        })))
    }

    pub fn given(&self) -> Vec<Given> {
        self.state().given.clone()
    }

    pub fn times(&self) -> usize {
        self.state().given.len()
    }

    /// Forgets what it was given.
    pub fn forget(&self) {
        self.state().given = Vec::new();
    }

    /// Requests that are being answered now.
    pub fn inside(&self) -> usize {
        self.state().inside
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    fn next(&self) -> Does {
        let mut state = self.state();
        match state.script.len() {
            0 => answers(200),
            1 => state.script[0].clone(),
            _ => state.script.pop_front().expect("more than one"),
        }
    }
}

/// One request inside.
struct Inside(Script);

impl Inside {
    fn of(script: &Script) -> Inside {
        script.state().inside += 1;
        Inside(script.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.state().inside -= 1;
    }
}

/// An error that is nobody's but its service's.
#[derive(Debug)]
struct InItsOwnWords;

impl fmt::Display for InItsOwnWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection refused, surely nothing was sent")
    }
}

impl std::error::Error for InItsOwnWords {}

impl Service<Request<AttemptBody>> for Script {
    type Response = Response<ScriptBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ScriptBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self.state().script.front() {
            Some(Does::IsBusy) => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<AttemptBody>) -> Self::Future {
        let (script, does) = (self.clone(), self.next());
        Box::pin(async move {
            let _inside = Inside::of(&script);
            let (head, body) = request.into_parts();
            let at = clock::mono_now();
            let mut given = Given {
                at,
                method: head.method,
                headers: head.headers,
                body: Bytes::new(),
            };
            if let Does::Fails(failure) = does {
                script.state().given.push(given);
                return Err(BoxError::from(Seen::from(failure)));
            }
            given.body = body.collect().await?.to_bytes();
            script.state().given.push(given);
            match does {
                Does::Answers(after, status, fields, body) => {
                    clock::sleep(after).await;
                    let mut answer = Response::builder().status(status);
                    for (name, value) in fields {
                        answer = answer.header(*name, *value);
                    }
                    Ok(answer.body(ScriptBody::whole(body)).expect("an answer"))
                }
                Does::Body(status, gives) => {
                    let answer = Response::builder().status(status);
                    Ok(answer.body(ScriptBody::then(gives)).expect("an answer"))
                }
                Does::Foreign => Err(BoxError::from(InItsOwnWords)),
                _ => std::future::pending().await,
            }
        })
    }
}

/// A body that does what it was told.
pub struct ScriptBody {
    first: Option<Bytes>,
    then: Option<Gives>,
    pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl ScriptBody {
    fn whole(text: &'static str) -> ScriptBody {
        ScriptBody {
            first: Some(Bytes::from_static(text.as_bytes())),
            then: None,
            pause: None,
        }
    }

    fn then(gives: Gives) -> ScriptBody {
        ScriptBody {
            then: Some(gives),
            ..ScriptBody::whole("ok")
        }
    }
}

impl Body for ScriptBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        match self.then {
            None => Poll::Ready(None),
            Some(Gives::Nothing) => Poll::Pending,
            Some(Gives::Error) => Poll::Ready(Some(Err(BoxError::from(InItsOwnWords)))),
            Some(Gives::Bytes(every)) => {
                let pause = self
                    .pause
                    .get_or_insert_with(|| Box::pin(clock::sleep(every)));
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b".")))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.then.is_none()
    }
}
