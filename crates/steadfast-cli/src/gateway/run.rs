//! A gateway from its start to its drained end.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use steadfast::body::Body;
use steadfast::clock;
use steadfast::event::{Event, Observer, nobody};
use steadfast::server::{Limits as ServerLimits, Server, queue_on, sweep_on};
use steadfast::store::{Store, StoreError};
use steadfast_core::fingerprint::FingerprintSecret;
use steadfast_core::problem::{Problem, Slug};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::admin::{Admin, Seen};
use super::framing::Violation;
use super::listen::{self, Front, Limits, Peer, RequestBody};
use super::service::Gateway;
use super::watch::Watch;
use crate::settings::Settings;

/// The gateway's two addresses, bound.
#[derive(Debug)]
pub struct Sockets {
    data: TcpListener,
    admin: TcpListener,
}

/// An address that cannot be bound.
#[derive(Debug)]
pub struct NotBound {
    /// The setting.
    pub setting: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// Why.
    pub error: io::Error,
}

impl std::fmt::Display for NotBound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NotBound {
            setting,
            address,
            error,
        } = self;
        let next = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another process listens there; stop it or choose another port"
            }
            io::ErrorKind::PermissionDenied => "this user may not; choose a port above 1023",
            io::ErrorKind::AddrNotAvailable => {
                "this machine has no such address; choose one it has"
            }
            _ => "choose another address",
        };
        write!(
            f,
            "{setting} = \"{address}\": cannot listen there ({error}): {next}"
        )
    }
}

impl std::error::Error for NotBound {}

impl Sockets {
    /// Binds both addresses of `settings`.
    pub async fn bind(settings: &Settings) -> Result<Sockets, NotBound> {
        let data = bind("listen", settings.top.listen).await?;
        let admin = bind("admin", settings.top.admin).await?;
        Ok(Sockets { data, admin })
    }

    /// Where callers and operators connect, ports resolved.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.data.local_addr()?, self.admin.local_addr()?))
    }
}

async fn bind(setting: &'static str, address: SocketAddr) -> Result<TcpListener, NotBound> {
    TcpListener::bind(address).await.map_err(|error| NotBound {
        setting,
        address,
        error,
    })
}

/// How a gateway ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Connections, and writes whose callers had left, that were cut at the end of the drain.
    pub cut: usize,
    /// Keyed works that were stopped and written down as unknown.
    pub stopped: usize,
}

/// A server side, and who is told what happens there.
pub struct Prepared {
    server: Server,
    watch: Arc<Watch>,
}

/// The server side of `settings` over `store`.
///
/// # Errors
/// Those of the store, and a configured secret that it does not know.
pub async fn prepare(settings: &Settings, store: Arc<dyn Store>) -> Result<Prepared, StoreError> {
    let leases = settings
        .routes
        .iter()
        .map(|route| route.policy.idempotency.lease);
    let defaults = ServerLimits::default();
    let lease = leases.min().unwrap_or(defaults.lease);
    let server = Server::new(store, ServerLimits { lease, ..defaults }).await?;
    let server = with_secret(server, settings)?;
    let watch = Arc::new(Watch::new(settings));
    let observer: Arc<dyn Observer> = Arc::<Watch>::clone(&watch);
    Ok(Prepared {
        server: server.with_observer(observer),
        watch,
    })
}

/// Serves until `stop` is ready, then drains: readiness goes first, what runs may end within
/// `drain`, and what is left is written down as unknown.
///
/// # Errors
/// Those of [`prepare`].
pub async fn run(
    settings: &Settings,
    store: Arc<dyn Store>,
    sockets: Sockets,
    stop: impl Future<Output = ()>,
) -> Result<Ended, StoreError> {
    let prepared = prepare(settings, store).await?;
    Ok(serve(settings, prepared, sockets, stop).await)
}

/// The same with what is prepared.
pub async fn serve(
    settings: &Settings,
    prepared: Prepared,
    sockets: Sockets,
    stop: impl Future<Output = ()>,
) -> Ended {
    let Prepared { server, watch } = prepared;
    let gateway = Gateway::new(settings, server.clone());
    let admin = Admin::new(
        Seen {
            server: server.clone(),
            gateway: gateway.clone(),
            watch,
        },
        settings.top.admin,
        settings
            .top
            .admin_token
            .as_ref()
            .map(|token| token.expose().to_owned()),
    );
    let sweeper = tokio::spawn(sweep_on(server.clone()));
    let queue = tokio::spawn(queue_on(server.clone(), gateway.clone()));
    let limits = Limits {
        drain: settings.top.drain,
        ..Limits::default()
    };
    let (end_admin, admin_ends) = watch::channel(false);
    let operators = tokio::spawn(operators(sockets.admin, admin.clone(), admin_ends));
    let drain = settings.top.drain;
    let (begin, mut begun) = watch::channel(false);
    let begun_too = begin.subscribe();
    let (leave, mut left) = watch::channel(false);
    let stop = async move {
        stop.await;
        admin.drain();
        begin.send_replace(true);
    };
    let works = async {
        let _ = begun.wait_for(|begun| *begun).await;
        // What waits there stays; what runs ends as any other work.
        queue.abort();
        let left = async { drop(left.wait_for(|left| *left).await) };
        server.drain_after(left, drain).await
    };
    let writes = writes(gateway.clone(), (begun_too, leave.subscribe()), drain);
    let observer = Arc::clone(server.observer());
    let answer = move |request, peer| {
        let gateway = gateway.clone();
        async move { gateway.answer(request, peer).await }
    };
    let callers = async {
        let front = front(service(answer), limits, observer);
        let drained = listen::serve(sockets.data, front, stop).await;
        leave.send_replace(true);
        drained
    };
    let (drained, stopped, writes) = tokio::join!(callers, works, writes);
    sweeper.abort();
    end_admin.send_replace(true);
    let _ = operators.await;
    Ended {
        cut: drained.cut + writes,
        stopped,
    }
}

/// Waits for the writes whose callers left, within what the drain that `begun` tells of leaves of
/// `drain` when all connections are `gone`; how many are left then.
async fn writes(
    gateway: Gateway,
    (mut begun, mut gone): (watch::Receiver<bool>, watch::Receiver<bool>),
    drain: Duration,
) -> usize {
    let _ = begun.wait_for(|begun| *begun).await;
    let from = clock::mono_now();
    let _ = gone.wait_for(|gone| *gone).await;
    let spent = clock::mono_now().since(from);
    gateway.writes_ended(drain.saturating_sub(spent)).await
}

/// Serves the admin address until it is told to end: last of all, so that a drain can be watched.
async fn operators(listener: TcpListener, admin: Admin, mut ends: watch::Receiver<bool>) {
    let answer = move |request, _| {
        let admin = admin.clone();
        async move { admin.answer(request).await }
    };
    let limits = Limits {
        drain: Duration::from_secs(1),
        // Operators' tools and probes speak HTTP/1.1; what is not spoken cannot be abused.
        http2: None,
        ..Limits::default()
    };
    let ended = async move {
        let _ = ends.wait_for(|ended| *ended).await;
    };
    // What comes to the admin address is no traffic.
    let front = front(service(answer), limits, nobody());
    listen::serve(listener, front, ended).await;
}

/// The configured fingerprint secret, which the store has to know: a record made with one that it
/// does not know could not be compared later.
fn with_secret(server: Server, settings: &Settings) -> Result<Server, StoreError> {
    let Some(secret) = &settings.top.secret else {
        return Ok(server);
    };
    let (id, _) = FingerprintSecret::of_text(secret.expose());
    server.with_secret(id).ok_or_else(|| {
        StoreError::Unavailable(
            "it does not know the configured `secret`; make it known with `steadfast store migrate \
             --config FILE`"
                .to_owned(),
        )
    })
}

fn front<S>(service: S, limits: Limits, observer: Arc<dyn Observer>) -> Front<S> {
    let refuse = move |violation: &Violation| {
        observer.on(Event::Malformed);
        refuse(violation)
    };
    Front {
        service,
        refuse: Arc::new(refuse),
        limits,
    }
}

/// What a caller is told whose bytes are not sound HTTP.
fn refuse(violation: &Violation) -> Response<Bytes> {
    let detail = format!("{}.", super::admin::sentence(&violation.to_string()));
    let problem = Problem::new(Slug::BadRequest, detail);
    let mut response = Response::new(Bytes::from(problem.body()));
    *response.status_mut() = problem.status;
    *response.headers_mut() = problem.headers();
    response
}

/// What answers requests, as the service that the listener calls.
fn service<F, A>(
    answer: F,
) -> impl tower::Service<
    Request<RequestBody>,
    Response = Response<Body>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ Unpin
+ 'static
where
    F: Fn(Request<Body>, IpAddr) -> A + Clone + Send + Unpin + 'static,
    A: Future<Output = Response<Body>> + Send,
{
    tower::service_fn(move |request: Request<RequestBody>| {
        let peer = peer(&request);
        answer(request.map(Body::new), peer).map(Ok::<_, Infallible>)
    })
}

fn peer(request: &Request<RequestBody>) -> IpAddr {
    let peer = request.extensions().get::<Peer>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip())
}
