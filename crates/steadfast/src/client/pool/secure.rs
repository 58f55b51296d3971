//! The TLS handshake: from a connected socket to a connection that speaks HTTP.
//!
//! Decides whether a handshake that failed refused somebody's identity, which no repeating mends,
//! or was merely cut. Never by an error's text.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use steadfast_core::attempt::Failure;
use steadfast_core::deadline::Deadline;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::NeverSent;
use super::connection::Link;
use super::counted::{Counted, Evidence};
use super::dial::Dialed;
use super::shared::Shared;
use super::wire::{Secured, Wire, identity_refused};
use crate::client::{Target, UpstreamTls};
use crate::clock::{self, Elapsed};

/// All that is needed to shake hands with a target.
pub(super) struct Secure<'a> {
    target: &'a Target,
    connector: TlsConnector,
    name: ServerName<'static>,
    offers_http2: bool,
}

impl<'a> Secure<'a> {
    /// # Errors
    /// [`Failure::TlsIdentity`] where nothing could be verified: no certificate carries the host's
    /// name, or the pool was made without TLS.
    pub(super) fn to(
        target: &'a Target,
        tls: Option<&UpstreamTls>,
        offers_http2: bool,
    ) -> Result<Secure<'a>, NeverSent> {
        let unverifiable = |why: &str| NeverSent {
            failure: Failure::TlsIdentity,
            detail: format!("{target}: {why}"),
        };
        let tls = tls.ok_or_else(|| {
            unverifiable("the pool was made without TLS; make it, or the client, `with_tls`")
        })?;
        let name = ServerName::try_from(target.host()).map_err(|_| {
            unverifiable("no certificate can be for this host; write the target's name otherwise")
        })?;
        Ok(Secure {
            target,
            connector: TlsConnector::from(tls.config()),
            name,
            offers_http2,
        })
    }

    /// Shakes hands on `tcp` within `limit`. Nothing of a request is written.
    pub(super) async fn shake_hands(
        self,
        tcp: TcpStream,
        address: SocketAddr,
        limit: Duration,
    ) -> Result<Dialed, NeverSent> {
        let ends = Deadline::after(clock::mono_now(), limit);
        let (tcp, evidence) = (Arc::new(tcp), Evidence::default());
        let under = Counted::under_tls(Arc::clone(&tcp), evidence.clone());
        let name = self.name.clone();
        let shaking = match self.offers_http2 {
            true => self.connector.connect(name, under),
            false => {
                let http1 = vec![b"http/1.1".to_vec()];
                self.connector.with_alpn(http1).connect(name, under)
            }
        };
        let stream: TlsStream<Counted> = match clock::within(limit, shaking).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.failed(address, &error)),
            Err(Elapsed) => {
                return Err(self.cut(format!("{address} did not end it within {limit:?}")));
            }
        };
        let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let secured = Secured::new(stream, evidence.clone());
        if !speaks_http2 {
            let linked = Link::over(Wire::Tls(Box::new(secured)), tcp, evidence, address).await;
            let linked = linked.map(Dialed::Alone);
            let refused = |error| self.cut(format!("{address} could not be used ({error})"));
            return linked.map_err(refused);
        }
        let greeted = Shared::over(secured, &tcp, address);
        match clock::within(ends.remaining(clock::mono_now()), greeted).await {
            Ok(Ok(shared)) => Ok(Dialed::Shared(shared)),
            Ok(Err(why)) => Err(match &evidence.seen().identity {
                Some(why) => self.distrusted(address, why),
                None => self.cut(format!("{address}: {why}")),
            }),
            Err(Elapsed) => Err(self.cut(format!("{address} did not greet within {limit:?}"))),
        }
    }

    fn failed(&self, address: SocketAddr, error: &io::Error) -> NeverSent {
        match identity_refused(error) {
            Some(why) => self.distrusted(address, &why),
            None => self.cut(format!("{address} broke it off ({error})")),
        }
    }

    fn distrusted(&self, address: SocketAddr, why: &str) -> NeverSent {
        let target = self.target;
        NeverSent {
            failure: Failure::TlsIdentity,
            detail: format!(
                "{target}: {address} and we do not trust each other's certificate: {why}; \
                 correct the certificate, the target's name, or what is trusted"
            ),
        }
    }

    fn cut(&self, why: String) -> NeverSent {
        let target = self.target;
        NeverSent {
            failure: Failure::TlsHandshake,
            detail: format!(
                "{target}: the TLS handshake failed: {why}; check that the target's port speaks TLS"
            ),
        }
    }
}
