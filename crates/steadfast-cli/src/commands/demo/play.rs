//! The demonstration from its first step to its last.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::client::{self, ATTEMPTS_MAX, LIMIT, Post, Seen};
use super::front::Front;
use super::outcome::Outcome;
use super::plan::{ORDERS, Plan, SEED};
use super::service::Service;
use super::stop::Stop;
use super::story::Story;
use super::{afterwards, keyed};
use crate::commands::keys::fresh_key;

/// What stands at the end.
pub struct Scene {
    /// The service that was asked through the gateway.
    pub service: Service,
    /// The gateway.
    pub front: Front,
    /// What came of it.
    pub outcome: Outcome,
}

/// One order, and the key that its client made for it.
pub struct Order {
    /// From 1 on.
    pub number: u64,
    /// One key for the operation, the same for every repeat.
    pub key: String,
    /// Everything that its client saw through the gateway.
    pub seen: Vec<Seen>,
}

impl Order {
    /// What is asked for.
    pub fn body(&self) -> Value {
        json!({ "order": self.number, "amount_cents": 1000 + 10 * self.number })
    }

    /// Its client has a success in hand.
    pub fn is_answered(&self) -> bool {
        self.seen.last().and_then(Seen::success).is_some()
    }
}

/// Plays all of it. The gateway's records are kept in `folder`.
pub async fn play(story: &mut Story<'_>, folder: &Path) -> Result<Scene, Stop> {
    let plan = Arc::new(Plan::seeded(SEED, ORDERS));
    let mut orders: Vec<Order> = (1..=ORDERS)
        .map(|number| Order {
            number,
            key: fresh_key(),
            seen: Vec::new(),
        })
        .collect();
    let plain = open(&plan).await?;
    introduce(story, plain.address).await;
    without_keys(story, &plain, &orders).await?;
    let service = open(&plan).await?;
    let front = Front::open(service.address, folder).await?;
    let receipts = keyed::send(story, &service, &front, &mut orders).await?;
    keyed::three_truths(story, &plan, &service, &front, &orders).await?;
    let unknown = keyed::settle(story, &plan, &service, &front, &mut orders).await?;
    let outcome = Outcome::of(&plan, &plain.ledger, &service.ledger, unknown);
    afterwards::changed_body(story, &plan, &service, &front, &orders).await?;
    afterwards::clean_up(story, &service, &front, &receipts).await?;
    Ok(Scene {
        service,
        front,
        outcome,
    })
}

async fn open(plan: &Arc<Plan>) -> Result<Service, Stop> {
    let opened = Service::open(Arc::clone(plan)).await;
    opened.map_err(|error| Stop::machine(format!("no port on loopback ({error})")))
}

async fn introduce(story: &mut Story<'_>, address: SocketAddr) {
    story.step("A payment service").await;
    story.say(format_args!(
        "It listens on http://{address}, charges what it is asked to charge, and knows nothing\n\
         of keys. A plan with a fixed seed says what befalls each attempt at each of {ORDERS}\n\
         orders: most are answered; some get lost on the way, some fail before the charge,\n\
         and of some the charge is made and the answer is lost."
    ));
}

/// The orders straight to the service.
async fn without_keys(
    story: &mut Story<'_>,
    service: &Service,
    orders: &[Order],
) -> Result<(), Stop> {
    story.step("Straight to the service, without keys").await;
    story.say(format_args!(
        "The client repeats, as common libraries do, after {} s without an answer, a broken\n\
         connection, 502, 503 or 504; {ATTEMPTS_MAX} attempts at most.",
        LIMIT.as_secs()
    ));
    let sent = join_all(orders.iter().map(async |order| {
        let body = order.body();
        let post = Post {
            path: "/charges",
            key: None,
            body: &body,
        };
        client::send(service.address, post).await
    }));
    let seen = sent.await;
    service.at_rest().await?;
    let answered = seen
        .iter()
        .filter(|seen| seen.last().and_then(Seen::success).is_some());
    let requests: usize = seen.iter().map(Vec::len).sum();
    story.say(format_args!(
        "{ORDERS} orders, {requests} requests, {} answered 201.",
        answered.count()
    ));
    let mut times: BTreeMap<usize, usize> = BTreeMap::new();
    for order in orders {
        *times
            .entry(service.ledger.charges_of(order.number).len())
            .or_default() += 1;
    }
    let charges = service.ledger.charges().len();
    story.say(format_args!(
        "The service's ledger has {charges} charges; of the orders"
    ));
    for (times, orders) in times {
        let times = match times {
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            more => format!("{more} times"),
        };
        story.say(format_args!("  {orders:>2} charged {times}"));
    }
    Ok(())
}
