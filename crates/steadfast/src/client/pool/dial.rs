//! From a target to a connection: ask for its addresses, let them race, then speak.
//!
//! Nothing is written here, so every failure is a proof that nothing was sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use steadfast_core::timeouts::Timeouts;
use tokio::net::lookup_host;

use super::NeverSent;
use super::connection::Link;
use super::race::race;
use super::secure::Secure;
use super::shared::Shared;
use crate::client::{Scheme, Target, UpstreamTls};
use crate::clock::{self, Elapsed};

/// Addresses tried per connection at most: more than any service has of one name, and still an end.
const MAX_ADDRESSES: usize = 16;

/// A new connection: one that carries a request at a time, or one that many share.
pub(super) enum Dialed {
    Alone(Link),
    Shared(Arc<Shared>),
}

/// A connection to the first address that takes one, before `ends`.
pub(super) async fn dial(
    target: &Target,
    (tls, offers_http2): (Option<&UpstreamTls>, bool),
    timeouts: &Timeouts,
    ends: Deadline,
) -> Result<Dialed, NeverSent> {
    let secure = match target.scheme() {
        Scheme::Http => None,
        Scheme::Https => Some(Secure::to(target, tls, offers_http2)?),
    };
    let addresses = addresses(target, timeouts, ends).await?;
    let refused = |why: String| NeverSent {
        failure: Failure::Connect,
        detail: format!(
            "{target}: {why}; check that the service runs and that the target's port is its own"
        ),
    };
    let (tcp, address) = race(addresses, timeouts.connect, ends)
        .await
        .map_err(refused)?;
    if let Some(secure) = secure {
        return secure
            .shake_hands(tcp, address, share(timeouts.tls, ends))
            .await;
    }
    let linked = Link::plain(tcp, address).await;
    let linked = linked.map(Dialed::Alone);
    linked.map_err(|error| refused(format!("{address} could not be used ({error})")))
}

async fn addresses(
    target: &Target,
    timeouts: &Timeouts,
    ends: Deadline,
) -> Result<Vec<SocketAddr>, NeverSent> {
    if let Some(address) = target.address() {
        return Ok(vec![SocketAddr::new(address, target.port())]);
    }
    let refused = |why: String| NeverSent {
        failure: Failure::Resolve,
        detail: format!("{target}: {why}; check the target's name and this machine's resolver"),
    };
    let limit = share(timeouts.resolve, ends);
    match clock::within(limit, lookup_host((target.host(), target.port()))).await {
        Err(Elapsed) => Err(refused(format!(
            "its name did not resolve within {limit:?}"
        ))),
        Ok(Err(error)) => Err(refused(format!("its name did not resolve ({error})"))),
        Ok(Ok(found)) => {
            let found: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
            match found.is_empty() {
                true => Err(refused("its name has no address".to_owned())),
                false => Ok(found),
            }
        }
    }
}

/// `limit`, or what is left until `ends` where that is less.
pub(super) fn share(limit: Duration, ends: Deadline) -> Duration {
    limit.min(ends.remaining(clock::mono_now()))
}
