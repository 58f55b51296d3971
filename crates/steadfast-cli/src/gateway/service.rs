//! One request through the gateway, in the order of docs/keyed-requests.md, "Order of checks".

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use steadfast::body::{Body, full};
use steadfast::client::SharedUpstream;
use steadfast::client::pool::Pool;
use steadfast::clock;
use steadfast::event::{RequestOutcome, RouteId};
use steadfast::server::admission::Admitted;
use steadfast::server::{Principal, Server, admission, problem, status};
use steadfast::store::StoreError;
use steadfast_core::deadline::Deadline;
use steadfast_core::effect::Effect;
use steadfast_core::fields::strip_ours_from_request;
use steadfast_core::look_alikes::strip_look_alikes;
use steadfast_core::policy::RoutePolicy;
use steadfast_core::principal::PrincipalRule;
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::record::OperationId;
use steadfast_core::time::MonoTime;

use super::incoming::{take_off_hop, told_deadline};
use super::proxy::{self, Places};
use super::route::{PathError, RequestPath, first_match};
use super::telling::Telling;
use super::upstream::Upstream;
use super::upstreams::{UpstreamNow, Upstreams};
use super::watch::{OWN, route_id};
use crate::settings::Settings;
use crate::settings::peers::TrustedPeers;
use crate::settings::routes::Route;

/// Where the state of an operation is asked.
const OPERATIONS: &str = "/.steadfast/operations/";

/// Paths under this segment are the gateway's own; none is passed on.
const OURS: &str = ".steadfast";

/// How long the state of an operation is looked up: as long as a keyed request asks the store.
const STATUS_LIMIT: Duration = Duration::from_secs(2);

/// The data port: routes, and the server side that they share. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

/// A route, its rules as requests share them, and its upstream.
struct Routed {
    route: Route,
    policy: Arc<RoutePolicy>,
    pool: Pool,
    shared: SharedUpstream,
}

struct Inner {
    routes: Vec<Routed>,
    upstreams: Upstreams,
    places: Places,
    trusted: TrustedPeers,
    guarded: Vec<HeaderName>,
    server: Server,
}

impl Gateway {
    /// The gateway of these settings over `server`. Routes share what
    /// [`Upstreams`] says.
    pub fn new(settings: &Settings, server: Server) -> Gateway {
        let mut upstreams = Upstreams::new(settings.upstream_tls.clone());
        let routed = settings.routes.iter().map(|route| {
            let (pool, shared) = upstreams.of(route);
            Routed {
                route: route.clone(),
                policy: Arc::new(route.policy.clone()),
                pool,
                shared,
            }
        });
        let routes = routed.collect();
        let guarded = settings
            .routes
            .iter()
            .filter_map(|route| route.principal.guarded_field());
        let guarded = guarded.cloned().collect();
        let trusted = settings.top.trusted_peers.clone();
        Gateway {
            inner: Arc::new(Inner {
                routes,
                upstreams,
                places: Places::new(),
                trusted,
                guarded,
                server,
            }),
        }
    }

    /// What stands at each upstream.
    pub fn upstreams(&self) -> Vec<UpstreamNow> {
        self.inner.upstreams.now()
    }

    /// Waits until no write is at work whose caller left, for `limit` at most; how many are then.
    pub async fn writes_ended(&self, limit: Duration) -> usize {
        self.inner.places.empty(limit).await
    }

    /// Answers one request from `peer`.
    pub async fn answer(&self, request: Request<Body>, peer: IpAddr) -> Response<Body> {
        let mut telling = Telling::begin(self.inner.server.observer(), clock::mono_now());
        match self.checked(request, peer, &mut telling).await {
            Ok((outcome, response)) => {
                telling.answered(outcome);
                response
            }
            Err(refused) => {
                telling.refused(&refused);
                problem(&refused)
            }
        }
    }

    async fn checked(
        &self,
        request: Request<Body>,
        peer: IpAddr,
        telling: &mut Telling,
    ) -> Result<(RequestOutcome, Response<Body>), Problem> {
        let (mut parts, body) = request.into_parts();
        known_spelling(&parts.method)?;
        let path = RequestPath::parse(parts.uri.path()).map_err(bad_path)?;
        if path.begins_with(OURS) {
            telling.of_route(OWN);
            let response = self.status(&parts, peer).await?;
            return Ok((RequestOutcome::of_status(response.status()), response));
        }
        let (route_id, routed) = self.route(&path, &parts.method)?;
        let Routed { route, policy, .. } = routed;
        telling.of_route(route_id);
        let deadline = deadline_of(&parts.headers, telling.came(), policy.deadline)?;
        let trusted = self.inner.trusted.trusts(peer);
        let trailers = take_off_hop(&mut parts.headers, &policy.idempotency.header)?;
        let attempt = if trusted {
            admission::attempt_of(&parts.headers)
        } else {
            1
        };
        let guarded = self.inner.guarded.iter();
        let configured: Vec<_> = guarded.chain([&policy.idempotency.header]).collect();
        strip_look_alikes(&mut parts.headers, &configured);
        strip_ours_from_request(&mut parts.headers, trusted);
        telling.keyed(&parts);
        let key = admission::key_of(&parts, &policy.idempotency, attempt)?;
        let principal = match key {
            Some(_) => {
                let (rule, fields) = (&route.principal, &parts.headers);
                Some(Principal::by_rule(rule, fields, trusted)?)
            }
            None => None,
        };
        self.strip_principal_fields(&mut parts.headers, trusted);
        proxy::write_forwarded(&mut parts.headers, parts.version, peer, trusted);
        let upstream = self.upstream(route_id, routed, attempt);
        let (Some(key), Some(principal)) = (key, principal) else {
            telling.keyed_no_more();
            let takes_trailers = trailers.taken;
            trailers.announce(&mut parts.headers, &configured);
            let request = Request::from_parts(parts, body);
            let places = &self.inner.places;
            return Ok(proxy::forward(upstream, request, deadline, takes_trailers, places).await);
        };
        let admitted = Admitted {
            target: admission::target_of(&parts.uri),
            parts,
            key,
            principal,
            policy: Arc::clone(policy),
            deadline,
            route: route_id,
        };
        let call = admitted.with_body(body).await?;
        telling.keyed_no_more();
        let answered = self.inner.server.answer(call, upstream).await;
        Ok((answered.request, answered.response))
    }

    /// What a request of this route needs, which came as its caller's attempt `attempt`.
    fn upstream(&self, route: RouteId, routed: &Routed, attempt: u32) -> Upstream {
        Upstream {
            pool: routed.pool.clone(),
            shared: routed.shared.clone(),
            target: routed.route.to.clone(),
            policy: Arc::clone(&routed.policy),
            incoming_attempt: attempt,
            route,
            observer: Arc::clone(self.inner.server.observer()),
        }
    }

    fn route(&self, path: &RequestPath, method: &Method) -> Result<(RouteId, &Routed), Problem> {
        let routes = &self.inner.routes;
        let first = |path: &RequestPath| {
            let all = routes
                .iter()
                .map(|routed| (&routed.route.path, &routed.route.methods));
            first_match(all, path, method)
        };
        let found = first(path);
        // A request must not slip past an earlier route's rules by a spelling that the upstream
        // reads as that route's path all the same.
        let earlier = |other: &RequestPath| {
            first(other).is_some_and(|at| found.is_none_or(|found| at < found))
        };
        if path.other_readings().iter().any(earlier) {
            return Err(bad_path(PathError::TwoReadings));
        }
        let found = found.map(|at| (route_id(at), &routes[at]));
        found.ok_or_else(|| {
            let detail = format!(
                "No route takes {method} on this path. Correct the request, or add a [[route]] to \
                 the gateway's configuration."
            );
            Problem::new(Slug::NoRoute, detail)
        })
    }

    /// Fields that name principals, on whatever route, pass from trusted peers only.
    fn strip_principal_fields(&self, headers: &mut HeaderMap, trusted: bool) {
        if !trusted {
            for name in &self.inner.guarded {
                headers.remove(name);
            }
        }
    }

    /// The status address: one's own operations only, by the rule that the record was made under. A
    /// missing and a foreign one are told apart by nothing.
    async fn status(&self, parts: &Parts, peer: IpAddr) -> Result<Response<Body>, Problem> {
        let rest = parts
            .uri
            .path()
            .strip_prefix(OPERATIONS)
            .unwrap_or_default();
        let (id, wants_answer) = match rest.strip_suffix("/response") {
            Some(id) => (id, true),
            None => (rest, false),
        };
        let not_found = || {
            let detail =
                "There is no such operation of this caller. Check the address and the credentials.";
            Problem::new(Slug::OperationNotFound, detail)
        };
        let id = OperationId::parse(id).filter(|_| parts.method == Method::GET);
        let id = id.ok_or_else(not_found)?;
        let server = &self.inner.server;
        let look = async {
            let row = server.store().by_id(id).await?;
            let is_gone = match &row {
                Some(row) => server.is_gone(row).await,
                None => true,
            };
            Ok::<_, StoreError>(row.filter(|_| !is_gone))
        };
        let Ok(Ok(row)) = clock::within(STATUS_LIMIT, look).await else {
            let detail = "The record store gave no answer. Ask again.";
            return Err(Problem::new(Slug::StoreUnavailable, detail));
        };
        let row = row.ok_or_else(not_found)?;
        let rule = PrincipalRule::parse(&row.principal_rule).map_err(|_| not_found())?;
        let trusted = self.inner.trusted.trusts(peer);
        let asks = Principal::by_rule(&rule, &parts.headers, trusted).map_err(|_| not_found())?;
        if self.inner.server.tenant(&asks) != row.tenant {
            return Err(not_found());
        }
        Ok(if wants_answer {
            status::answer(&server.as_given(row).await)
        } else {
            status::response(&row)
        })
    }
}

/// By when the caller wants its answer, within the route's ceiling.
fn deadline_of(
    headers: &HeaderMap,
    came: MonoTime,
    ceiling: Duration,
) -> Result<Deadline, Problem> {
    let told = told_deadline(headers);
    if told.is_some_and(|left| left.is_zero()) {
        let detail = "The caller's deadline has passed already, so nothing was done. Send it \
                      again with more time.";
        return Err(Problem::new(Slug::DeadlineExceeded, detail).with_effect(Effect::None));
    }
    let limit = told.map_or(ceiling, |left| left.min(ceiling));
    Ok(Deadline::after(came, limit))
}

/// Methods are case-sensitive (RFC 9110, 9.1), and many services are not: `patch` must not slip
/// past the rules of `PATCH`.
fn known_spelling(method: &Method) -> Result<(), Problem> {
    let upper = method.as_str().to_ascii_uppercase();
    let known = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE",
    ];
    if method.as_str() == upper || !known.contains(&upper.as_str()) {
        return Ok(());
    }
    let detail = format!("The method {method} is written {upper}. Send it so.");
    Err(Problem::new(Slug::BadRequest, detail))
}

fn bad_path(error: PathError) -> Problem {
    Problem::new(Slug::BadRequest, error.to_string())
}

/// A small answer in plain text.
pub fn text(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(full(text.to_owned()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, plain);
    response
}
