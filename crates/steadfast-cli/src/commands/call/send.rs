//! One attempt: a connection, the request on it, the answer to its end.

use std::io;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use steadfast::client::pool::{NeverSent, Pool, Ready, RequestBody, Reuse, SendEnd, UpstreamBody};
use steadfast::client::{Attempts, Leave};
use steadfast::clock;
use steadfast_core::attempt::{AttemptEnd, Failure};
use steadfast_core::deadline::{Deadline, REQUEST_TIMEOUT_MS, travels};
use steadfast_core::policy::RoutePolicy;
use steadfast_core::replay;
use steadfast_core::retry::Signs;
use steadfast_core::upstream::Refused;

use super::answer::{Answer, Output};
use super::ask::Asking;
use super::story::Story;

/// Bytes of an answer that are kept back until it has come whole, so that one that is cut can be
/// asked for again. What is longer is passed on as it comes.
const HELD_BACK: usize = 4 * 1024 * 1024;

/// How an attempt ended, and what came of it.
pub struct Attempted {
    pub end: AttemptEnd,
    /// Seen of the failure, for people.
    pub detail: Option<String>,
    /// The answer, or what came of it.
    pub answer: Option<Answer>,
}

/// Sends attempts.
pub struct Sender<'a> {
    pub pool: Pool,
    pub asking: &'a Asking,
    /// The attempt before failed on a connection that had been used before.
    pub after_reused: bool,
}

impl Sender<'_> {
    /// One attempt under `leave`; refused where the budget does not pay for it. Fails only where
    /// the answer cannot be written or the story cannot be told.
    pub async fn attempt(
        &mut self,
        attempts: &mut Attempts,
        mut leave: Leave,
        story: &mut Story<'_>,
        output: &mut Output<'_>,
    ) -> io::Result<Result<(Attempted, Signs), Refused>> {
        story.attempt_begins(attempts.number());
        let ready = match self.connection(attempts).await {
            Ok(ready) => ready,
            Err(NeverSent { failure, detail }) => {
                return Ok(Ok(failed(leave, failure, detail, false)));
            }
        };
        if let Err(by) = leave.pay() {
            return Ok(Err(by));
        }
        let (limits, deadline) = (self.asking.rules.timeouts, attempts.deadline());
        let request = self.request(attempts.number(), deadline);
        story.sends(request.headers())?;
        let reused = ready.is_reused();
        self.after_reused = false;
        let (response, request_written) = match ready.send(request, &limits, deadline).await {
            SendEnd::Head {
                response,
                request_written,
            } => (response, request_written),
            SendEnd::Failed { failure, detail } | SendEnd::CallerLeft { failure, detail } => {
                self.after_reused = reused;
                let stale = reused && failure == Failure::NotWritten;
                return Ok(Ok(failed(leave, failure, detail, stale)));
            }
        };
        story.head(response.status(), response.headers())?;
        let read = self.read(response, attempts, output).await?;
        let (answer, cut) = match read {
            Ok(answer) => (answer, None),
            Err((answer, failure, detail)) => (answer, Some((failure, detail))),
        };
        let problem = problem_type(&answer.headers, &answer.body);
        let problem = problem.as_deref();
        let now = clock::wall_now();
        let honoured = self.asking.honours_key();
        let signs = replay::signs(answer.status, &answer.headers, problem, honoured, now);
        if let Some((failure, detail)) = cut {
            let (mut attempted, _) = failed(leave, failure, detail, false);
            attempted.answer = Some(answer);
            return Ok(Ok((attempted, Signs::NONE)));
        }
        let read = replay::read(answer.status, &answer.headers, problem, request_written);
        let end = AttemptEnd::Answered(read);
        leave.ended(&end, false);
        let attempted = Attempted {
            end,
            detail: None,
            answer: Some(answer),
        };
        Ok(Ok((attempted, signs)))
    }

    /// A connection; a write takes none that has rested for long, since a stale one could not be
    /// told from one that carried it.
    async fn connection(&self, attempts: &Attempts) -> Result<Ready, NeverSent> {
        let reuse = match self.asking.method.is_idempotent() {
            _ if self.after_reused => Reuse::Fresh,
            true => Reuse::Safe,
            false => Reuse::Unsafe,
        };
        let (target, limits) = (&self.asking.target, &self.asking.rules.timeouts);
        let deadline = attempts.deadline();
        self.pool.acquire(target, reuse, limits, deadline).await
    }

    /// The request of one attempt: with what remains for it (T4), and its number.
    fn request(&self, number: u32, deadline: Deadline) -> Request<RequestBody> {
        let asking = self.asking;
        let body = Full::new(asking.body.clone()).map_err(|never| match never {});
        let mut request = Request::new(body.boxed_unsync());
        *request.method_mut() = asking.method.clone();
        *request.uri_mut() = asking.uri.clone();
        let headers = request.headers_mut();
        *headers = asking.headers.clone();
        let left = deadline.remaining(clock::mono_now());
        let left = left.min(asking.rules.timeouts.attempt);
        let ms = travels(left, RoutePolicy::default().margin).unwrap_or(1);
        headers.insert(REQUEST_TIMEOUT_MS, HeaderValue::from(ms));
        headers.insert("steadfast-attempt", HeaderValue::from(number));
        request
    }

    /// Reads the answer's body. What is held back is in the answer; what is longer has been passed
    /// on. `Err` is an answer that was cut, with what came of it.
    async fn read(
        &self,
        response: Response<UpstreamBody>,
        attempts: &mut Attempts,
        output: &mut Output<'_>,
    ) -> io::Result<Result<Answer, (Answer, Failure, String)>> {
        let (parts, mut body) = response.into_parts();
        let mut answer = Answer {
            status: parts.status,
            headers: parts.headers,
            body: Bytes::new(),
            passed_on: false,
        };
        let mut held = BytesMut::new();
        loop {
            match Pin::new(&mut body).frame().await {
                None => {
                    answer.body = held.freeze();
                    return Ok(Ok(answer));
                }
                Some(Err(error)) => {
                    answer.body = held.freeze();
                    return Ok(Err((answer, error.failure(), error.to_string())));
                }
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else {
                        continue;
                    };
                    held.extend_from_slice(&data);
                    if held.len() > HELD_BACK && output.streams() {
                        attempts.passed_on();
                        output.pass_on(&mut answer, &held.split())?;
                    }
                }
            }
        }
    }
}

fn failed(leave: Leave, failure: Failure, detail: String, stale: bool) -> (Attempted, Signs) {
    let end = AttemptEnd::Failed(failure);
    leave.ended(&end, stale);
    let attempted = Attempted {
        end,
        detail: Some(detail),
        answer: None,
    };
    let signs = Signs {
        stale,
        ..Signs::NONE
    };
    (attempted, signs)
}

/// The `type` of a problem body (RFC 9457).
fn problem_type(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    if !replay::is_problem(headers) {
        return None;
    }
    let problem: serde_json::Value = serde_json::from_slice(body).ok()?;
    problem.get("type")?.as_str().map(str::to_owned)
}
