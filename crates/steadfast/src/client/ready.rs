//! The ready client: safe repeats over the pool, one budget and breaker for each target.
//!
//! Decides where a request goes and whose upstream it is; the rest is the loop's. Clones share
//! connections, budgets and breakers, so a program has one client and clones it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Request, Response, Uri};
use steadfast_core::effect::Effect;
use steadfast_core::policy::RoutePolicy;
use steadfast_core::retry::{Decision, Next, Reason};

use super::answer_body::AnswerBody;
use super::ended::{Account, Ended};
use super::over_pool::OverPool;
use super::pool::{Pool, PoolSettings, Reuse, UpstreamBody};
use super::redirect;
use super::request_body::RequestBody;
use super::run::Run;
use super::settings::{Prepared, Settings};
use super::story::Story;
use super::target::Target;
use super::tls::UpstreamTls;
use crate::attempts::SharedUpstream;

/// Targets whose budget and breaker are remembered while nobody uses them. A program that asks more
/// services than this forgets those that it does not ask now.
const REMEMBERED: usize = 1024;

/// A client for any number of services. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

struct Shared {
    settings: Settings,
    pool: Pool,
    redirects: u32,
    upstreams: Mutex<HashMap<Target, SharedUpstream>>,
}

/// The body of a ready client's answer.
pub type ClientBody = AnswerBody<UpstreamBody>;

/// Makes a [`Client`].
#[derive(Clone, Debug)]
#[must_use = "it is not built yet"]
pub struct ClientBuilder {
    settings: Settings,
    pool: PoolSettings,
    tls: Option<UpstreamTls>,
    redirects: u32,
}

impl ClientBuilder {
    /// The endpoints honour idempotency keys: a `POST` or `PATCH` (the policy's
    /// `idempotency.methods`) gets a key where it has none, the same for all its attempts, and is
    /// repeated under it. Say so only of services that do; of others it would be executed twice.
    pub fn endpoints_honour_keys(mut self) -> Self {
        self.settings.honours_keys = true;
        self
    }

    /// Requests go out without `Request-Timeout-Ms` and `Steadfast-Attempt`.
    pub fn without_hop_fields(mut self) -> Self {
        self.settings.hop_fields = false;
        self
    }

    /// An answer of up to `bytes` is read whole before it counts as one, so that a body which is
    /// cut can be asked for again. A longer one is passed on from there as it comes.
    pub fn with_whole_answers(mut self, bytes: usize) -> Self {
        self.settings.whole_answers = Some(bytes);
        self
    }

    /// Follows up to `most` redirects of an operation, within its deadline: 303 by `GET`, 307 and
    /// 308 as they are, 301 and 302 of a safe method. Never from https to http, and never with a
    /// key or credentials to another origin; what cannot be followed so is the answer.
    pub fn follow_redirects(mut self, most: u32) -> Self {
        self.redirects = most;
        self
    }

    /// How long connections rest, and how many there are.
    pub fn with_pool(mut self, pool: PoolSettings) -> Self {
        self.pool = pool;
        self
    }

    /// `https:` URLs are spoken to as `tls` says, in HTTP/2 where the service agrees to it. Without
    /// it they are refused before anything is sent.
    pub fn with_tls(mut self, tls: UpstreamTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The client.
    pub fn build(self) -> Client {
        let pool = match self.tls {
            Some(tls) => Pool::with_tls(self.pool, tls),
            None => Pool::new(self.pool),
        };
        Client(Arc::new(Shared {
            settings: self.settings,
            pool,
            redirects: self.redirects,
            upstreams: Mutex::default(),
        }))
    }
}

impl Client {
    /// A client with these rules, for endpoints that honour no keys.
    pub fn new(policy: RoutePolicy) -> Client {
        Client::builder(policy).build()
    }

    /// More than the rules can be chosen.
    pub fn builder(policy: RoutePolicy) -> ClientBuilder {
        ClientBuilder {
            settings: Settings::new(policy),
            pool: PoolSettings::default(),
            tls: None,
            redirects: 0,
        }
    }

    /// Sends `request`, whose URL is absolute, and repeats it as far as that is safe and within its
    /// limits.
    ///
    /// Its deadline is the policy's, or what is [carried](super::Carried) in its extensions, if
    /// that is earlier; it covers every attempt, every wait and the reading of the answer's body.
    /// Dropping the future ends the operation and leaves nothing behind.
    pub async fn send<R: Into<RequestBody>>(&self, request: Request<R>) -> Ended<ClientBody> {
        let shared = &*self.0;
        let mut operation = shared.settings.prepare(request.map(Into::into));
        let (mut story, mut followed) = (Story::default(), 0);
        loop {
            let target = match target_of(&operation.head.uri) {
                Ok(target) => target,
                Err(detail) => return refused(&operation, story, detail),
            };
            let mut run = self.run(&mut operation, target, story);
            let (answer, account) = match run.until_its_end().await {
                Ended::Done { answer, account } => (answer, account),
                other => return other,
            };
            let step = match followed < shared.redirects {
                true => redirect::step(&operation, &answer),
                false => None,
            };
            let Some(step) = step else {
                return Ended::Done { answer, account };
            };
            step.take(&mut operation, &shared.settings.policy.idempotency.header);
            story = account.story;
            followed += 1;
        }
    }

    /// The budget and breaker of `target`, which all clones share.
    pub fn upstream(&self, target: &Target) -> SharedUpstream {
        let upstreams = self.0.upstreams.lock();
        let mut upstreams = upstreams.unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = upstreams.get(target) {
            return known.clone();
        }
        if upstreams.len() >= REMEMBERED {
            upstreams.retain(|_, upstream| upstream.is_shared());
        }
        let policy = &self.0.settings.policy;
        let upstream = SharedUpstream::new(policy.budget, policy.breaker);
        upstreams.insert(target.clone(), upstream.clone());
        upstream
    }

    /// Its connections.
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    fn run<'a>(
        &'a self,
        operation: &'a mut Prepared,
        target: Target,
        story: Story,
    ) -> Run<'a, OverPool> {
        let settings = &self.0.settings;
        let way = OverPool {
            pool: self.0.pool.clone(),
            timeouts: settings.policy.timeouts,
            deadline: operation.deadline,
            reuse: match operation.may_be_repeated(settings) {
                true => Reuse::Safe,
                false => Reuse::Unsafe,
            },
            target: target.clone(),
        };
        Run::new(settings, operation, self.upstream(&target), way).after(story)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("pool", &self.0.pool)
            .finish_non_exhaustive()
    }
}

/// Where `uri` is served. The reason never shows more of it than scheme, host and port.
fn target_of(uri: &Uri) -> Result<Target, String> {
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("the request's URL is not absolute; write http://HOST:PORT/PATH".to_owned());
    };
    Target::parse(&format!("{scheme}://{authority}")).map_err(|error| error.to_string())
}

/// The request itself cannot be sent.
fn refused(operation: &Prepared, story: Story, detail: String) -> Ended<ClientBody> {
    let decision = Decision {
        next: Next::GiveUp,
        effect: Effect::None,
        reason: Reason::CallerLeft,
    };
    let account = Account {
        effect: decision.effect,
        reason: decision.reason,
        key: operation.key.clone(),
        story,
        detail: Some(detail),
        retry_after: None,
    };
    Ended::new(decision, None::<Response<ClientBody>>, account)
}
