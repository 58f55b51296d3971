//! An outbox in a service: orders are written down durably before anybody is told that they will be
//! sent, and a queue in the same process sends each once, through failures and restarts.
//!
//!     cargo run -p steadfast --example outbox -- http://127.0.0.1:3000/orders [FILE]
//!
//! Hands three orders over, each under a key of its own, and sends them. Killed at any moment and
//! started again with the same FILE it goes on where it was.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Uri};
use steadfast::body::Body;
use steadfast::client::{Client, Ended};
use steadfast::clock;
use steadfast::core::attempt::{AttemptEnd, Failure};
use steadfast::core::deadline::Deadline;
use steadfast::core::key::{Key, Operation};
use steadfast::core::policy::{Idempotency, OnUnknown, RoutePolicy};
use steadfast::core::retry::RetryPolicy;
use steadfast::event::RouteId;
use steadfast::server::{
    Call, Execute, Executed, Failed, Principal, Routed, Routes, Server, hand_over, list_queued,
    queue_on,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url: Uri = arguments
        .next()
        .ok_or("usage: outbox URL [FILE]")?
        .parse()?;
    let file = arguments.next().unwrap_or_else(|| "outbox.db".to_owned());
    let server = Server::open(file).await?;
    let shop = Shop::new(url);

    let queue = tokio::spawn(queue_on(server.clone(), shop.clone()));
    for item in ["book", "pen", "lamp"] {
        let answer = hand_over(&server, shop.order(item), None).await;
        println!("{item}: {}", answer.status());
    }
    while !list_queued(&**server.store(), 1).await?.is_empty() {
        clock::sleep(Duration::from_millis(50)).await;
    }
    println!("the outbox is empty");
    queue.abort();
    server.drain(Duration::from_secs(35)).await;
    Ok(())
}

/// Where orders go: a service that honours keys.
#[derive(Clone)]
struct Shop {
    url: Uri,
    client: Client,
    policy: Arc<RoutePolicy>,
}

impl Shop {
    fn new(url: Uri) -> Shop {
        let policy = RoutePolicy {
            // A run that was cut is repeated under its key.
            idempotency: Idempotency {
                on_unknown: OnUnknown::Repeat,
                ..Idempotency::default()
            },
            ..RoutePolicy::default()
        };
        // The queue repeats: a client that did so as well would multiply the attempts.
        let once = RoutePolicy {
            retry: Arc::new(RetryPolicy::once()),
            ..policy.clone()
        };
        Shop {
            url,
            client: Client::new(once),
            policy: Arc::new(policy),
        }
    }

    /// The order as the outbox is asked to keep it.
    fn order(&self, item: &str) -> Call {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let (parts, ()) = request.into_parts();
        Call {
            target: self.url.path().to_owned(),
            parts,
            body: Bytes::from(format!("{{\"item\":\"{item}\"}}")),
            // In a service it is kept with the order, so that it is the same after a restart.
            key: Key::random(clock::random_bits()),
            principal: Principal {
                rule: "anonymous".to_owned(),
                kind: "anonymous".to_owned(),
                value: Bytes::new(),
            },
            policy: Arc::clone(&self.policy),
            deadline: Deadline::after(clock::mono_now(), Duration::from_secs(5)),
            route: RouteId::default(),
        }
    }
}

impl Routes for Shop {
    type Execute = Shop;

    fn of(&self, _: &Operation) -> Option<Routed<Shop>> {
        Some(Routed {
            route: RouteId::default(),
            policy: Arc::clone(&self.policy),
            execute: self.clone(),
        })
    }
}

impl Execute for Shop {
    type Ready = ();

    fn at_hand(&self) -> Option<()> {
        None
    }

    async fn prepare(&self, _: Deadline) -> Result<(), Failed> {
        Ok(())
    }

    async fn run(
        &self,
        (): (),
        mut request: Request<Bytes>,
        _: Deadline,
    ) -> Result<Executed, Failed> {
        // The queue keeps path and query; where they lead is this service's to know.
        *request.uri_mut() = self.url.clone();
        let ended = self.client.send(request).await;
        let last = ended.account().story.last().map(|told| told.end);
        match ended {
            Ended::Done { answer, .. }
            | Ended::Deferred {
                answer: Some(answer),
                ..
            }
            | Ended::Failed {
                answer: Some(answer),
                ..
            }
            | Ended::Unknown {
                answer: Some(answer),
                ..
            } => Ok(Executed {
                response: answer.map(Body::new),
                request_written: true,
            }),
            // The evidence says whether it may have been executed.
            Ended::Deferred { account, .. }
            | Ended::Failed { account, .. }
            | Ended::Unknown { account, .. } => Err(Failed {
                failure: match last {
                    Some(AttemptEnd::Failed(failure)) => failure,
                    _ => Failure::Abandoned,
                },
                detail: account.reason.as_str().to_owned(),
            }),
        }
    }
}
