//! One route's upstream as a way to an effect: the pool's two calls, and what is written on the way
//! out.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Uri};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use steadfast::body::{Body, Cut, full};
use steadfast::client::pool::{
    BodyError, CallerLeft, NeverSent, Pool, Ready, RequestBody, Reuse, SendEnd, UpstreamBody,
};
use steadfast::client::{SharedUpstream, Target};
use steadfast::clock;
use steadfast::event::{Observer, RouteId};
use steadfast::server::{AttemptNumber, Execute, Executed, Failed};
use steadfast_core::deadline::{
    Deadline, ENVOY_EXPECTED_MS, GRPC_TIMEOUT, REQUEST_TIMEOUT_MS, travels, write_grpc,
};
use steadfast_core::policy::RoutePolicy;

/// The attempt count, to the upstream.
const ATTEMPT: HeaderName = HeaderName::from_static("steadfast-attempt");

/// Everything that one request needs of its route's upstream.
#[derive(Clone)]
pub struct Upstream {
    /// The connections.
    pub pool: Pool,
    /// Its budget and its breaker.
    pub shared: SharedUpstream,
    /// Where to.
    pub target: Target,
    /// The route's rules.
    pub policy: Arc<RoutePolicy>,
    /// The attempt count that a trusted caller sent; one otherwise.
    pub incoming_attempt: u32,
    /// The route, for whoever observes.
    pub route: RouteId,
    /// Who observes.
    pub observer: Arc<dyn Observer>,
}

impl Upstream {
    /// A connection, made where none is at hand. Nothing is sent.
    pub async fn acquire(&self, reuse: Reuse, deadline: Deadline) -> Result<Ready, NeverSent> {
        self.pool
            .acquire(&self.target, reuse, &self.policy.timeouts, deadline)
            .await
    }

    /// Sends once over `ready`: the attempt `number` of this gateway's, from 1 on.
    pub async fn send(
        &self,
        ready: Ready,
        mut request: Request<RequestBody>,
        deadline: Deadline,
        number: u32,
    ) -> SendEnd {
        self.write_hop_fields(request.headers_mut(), deadline, number);
        *request.uri_mut() = origin_form(request.uri());
        ready.send(request, &self.policy.timeouts, deadline).await
    }

    /// The fields of the next hop: what remains of the deadline for this attempt, and its number.
    fn write_hop_fields(&self, headers: &mut HeaderMap, deadline: Deadline, number: u32) {
        let left = deadline
            .remaining(clock::mono_now())
            .min(self.policy.timeouts.attempt);
        let ms = travels(left, self.policy.margin).unwrap_or(1);
        headers.insert(REQUEST_TIMEOUT_MS, HeaderValue::from(ms));
        if headers.contains_key(ENVOY_EXPECTED_MS) {
            headers.insert(ENVOY_EXPECTED_MS, HeaderValue::from(ms));
        }
        if headers.contains_key(GRPC_TIMEOUT)
            && let Ok(value) = HeaderValue::from_str(&write_grpc(ms))
        {
            headers.insert(GRPC_TIMEOUT, value);
        }
        let attempt = self
            .incoming_attempt
            .saturating_add(number.saturating_sub(1));
        headers.insert(ATTEMPT, HeaderValue::from(attempt));
        // 100-continue is between two hops: ours has the body already, or asks for it itself.
        headers.remove(header::EXPECT);
    }
}

/// The target as an origin takes it: path and query as they came.
fn origin_form(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from_static("/"),
    }
}

impl Execute for Upstream {
    type Ready = Ready;

    fn upstream(&self) -> Option<&SharedUpstream> {
        Some(&self.shared)
    }

    fn only_unsent(&self) -> bool {
        self.policy.honor_attempts && self.incoming_attempt > 1
    }

    fn is_reused(ready: &Ready) -> bool {
        ready.is_reused()
    }

    async fn prepare_new(&self, deadline: Deadline) -> Result<Ready, Failed> {
        self.acquire(Reuse::Fresh, deadline)
            .await
            .map_err(|NeverSent { failure, detail }| Failed { failure, detail })
    }

    fn at_hand(&self) -> Option<Ready> {
        self.pool.idle(&self.target, Reuse::Unsafe)
    }

    async fn prepare(&self, deadline: Deadline) -> Result<Ready, Failed> {
        self.acquire(Reuse::Unsafe, deadline)
            .await
            .map_err(|NeverSent { failure, detail }| Failed { failure, detail })
    }

    async fn run(
        &self,
        ready: Ready,
        request: Request<Bytes>,
        deadline: Deadline,
    ) -> Result<Executed, Failed> {
        let (mut parts, body) = request.into_parts();
        let number = parts.extensions.get::<AttemptNumber>();
        let number = number.map_or(1, |number| number.0);
        // The whole body is in hand, so its length is ours to say.
        parts.headers.remove(header::CONTENT_LENGTH);
        let request = Request::from_parts(parts, whole(body));
        match self.send(ready, request, deadline, number).await {
            SendEnd::Head {
                response,
                request_written,
            } => Ok(Executed {
                response: response.map(answer_body),
                request_written,
            }),
            SendEnd::Failed { failure, detail } | SendEnd::CallerLeft { failure, detail } => {
                Err(Failed { failure, detail })
            }
        }
    }
}

fn whole(body: Bytes) -> RequestBody {
    full(body)
        .map_err(|_| CallerLeft {
            detail: "a body in hand does not fail".to_owned(),
        })
        .boxed_unsync()
}

fn answer_body(body: UpstreamBody) -> Body {
    Body::new(saying_how_cut(body))
}

/// An upstream's body as one that says how it was cut.
pub fn saying_how_cut(
    body: UpstreamBody,
) -> impl HttpBody<Data = Bytes, Error = Cut> + Send + Unpin + 'static {
    body.map_err(|error: BodyError| Cut(error.failure()))
}
