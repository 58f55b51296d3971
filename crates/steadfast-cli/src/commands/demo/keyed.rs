//! The same orders through the gateway, and what becomes of those whose answer was lost.

use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;
use serde_json::json;
use steadfast::server::operate;
use steadfast_core::record::Record;
use steadfast_core::replay;

use super::client::{self, ATTEMPTS_MAX, Post, Seen};
use super::front::{Front, RECEIPT_RETENTION};
use super::plan::{Fate, ORDERS, Plan};
use super::play::Order;
use super::service::Service;
use super::stop::Stop;
use super::story::Story;
use crate::commands::keys::fresh_key;

/// Who settles, in the records' histories.
const BY: &str = "operator (demo)";

/// Receipts sent before the orders.
pub const RECEIPTS: usize = 3;

/// The three truths behind one time-out, with what each is called.
const TRUTHS: [(Fate, &str); 3] = [
    (Fate::NeverArrived, "it never arrived"),
    (Fate::NotExecuted, "it arrived and was not executed"),
    (
        Fate::ChargedThenSilent,
        "it was executed and the answer was lost",
    ),
];

/// Sends the orders, each with its key. The keys of the receipts that went before them.
pub async fn send(
    story: &mut Story<'_>,
    service: &Service,
    front: &Front,
    orders: &mut [Order],
) -> Result<Vec<String>, Stop> {
    story
        .step("The same orders through the gateway, with a key for each")
        .await;
    story.say(format_args!(
        "The same plan, the same client, a fresh ledger. The gateway listens on\n\
         http://{} and keeps its records in\n{}.\n\
         {RECEIPTS} receipts go first, on a route that keeps records for {} s (step 7).",
        front.callers,
        front.url,
        RECEIPT_RETENTION.as_secs()
    ));
    let receipts = send_receipts(front).await?;
    send_unanswered(front, orders).await;
    let unknown = front.unknown().await?.len();
    service.at_rest().await?;
    let requests: usize = orders.iter().map(|order| order.seen.len()).sum();
    let answered = orders.iter().filter(|order| order.is_answered()).count();
    story.say(format_args!(
        "{ORDERS} orders, {requests} requests, {answered} answered 201."
    ));
    let twice = orders
        .iter()
        .find(|order| service.ledger.charges_of(order.number).len() > 1);
    Stop::unless(twice.is_none(), || {
        "an order with a key was charged twice".to_owned()
    })?;
    let charges = service.ledger.charges().len();
    story.say(format_args!(
        "The service's ledger has {charges} charges, none of them twice. What became of\n\
         {unknown} orders the gateway does not know. It says so, and did not pass their repeats\n\
         on (`on_unknown = \"hold\"`, the default)."
    ));
    Ok(receipts)
}

async fn send_receipts(front: &Front) -> Result<Vec<String>, Stop> {
    let keys: Vec<String> = (0..RECEIPTS).map(|_| fresh_key()).collect();
    for key in &keys {
        let seen = receipt(front, key).await;
        let sent = seen.as_ref().and_then(Seen::success).is_some();
        Stop::unless(sent, || format!("a receipt was not sent: {seen:?}"))?;
    }
    let rows = front.records("/receipts").await?.len();
    Stop::unless(rows == RECEIPTS, || {
        format!("{RECEIPTS} receipts made {rows} records")
    })?;
    Ok(keys)
}

/// Sends a receipt under `key`; how it ended.
pub async fn receipt(front: &Front, key: &str) -> Option<Seen> {
    let post = Post {
        path: "/receipts",
        key: Some(key),
        body: &json!({}),
    };
    client::send(front.callers, post).await.pop()
}

/// Each client that has no success in hand sends its order again, under the same key.
async fn send_unanswered(front: &Front, orders: &mut [Order]) {
    let open = orders.iter_mut().filter(|order| !order.is_answered());
    join_all(open.map(async |order| {
        let body = order.body();
        let post = Post {
            path: "/charges",
            key: Some(&order.key),
            body: &body,
        };
        let seen = client::send(front.callers, post).await;
        order.seen.extend(seen);
    }))
    .await;
}

/// One order of each truth: what its caller saw, and what was true.
pub async fn three_truths(
    story: &mut Story<'_>,
    plan: &Plan,
    service: &Service,
    front: &Front,
    orders: &[Order],
) -> Result<(), Stop> {
    story.step("Three truths behind the same time-out").await;
    let rows = front.unknown().await?;
    story.say("order  the caller saw                   arrived  charged  the record says");
    for (order, _, _) in examples(plan, orders) {
        let row = rows.iter().find(|row| row.key.as_str() == order.key);
        let state = row.map(|row| row.standing.state.as_str());
        let seen: Vec<String> = order.seen.iter().map(Seen::to_string).collect();
        let (seen, number) = (seen.join(", "), order.number);
        let arrived = yes(service.ledger.arrived(number) > 0);
        let charged = yes(!service.ledger.charges_of(number).is_empty());
        let state = state.unwrap_or("nothing");
        story.say(format_args!(
            "{number:>5}  {seen:<31}  {arrived:<7}  {charged:<7}  {state}"
        ));
        Stop::unless(state == "unknown", || {
            format!("the record of order {number} is not unknown but says {state}")
        })?;
    }
    for (order, fate, truth) in examples(plan, orders) {
        story.say(format_args!("  {}: {truth}", order.number));
        let (arrived, charged) = (fate != Fate::NeverArrived, fate.charges());
        let is = (
            service.ledger.arrived(order.number) > 0,
            !service.ledger.charges_of(order.number).is_empty(),
        );
        Stop::unless(is == (arrived, charged), || {
            format!("order {} is not as the plan has it", order.number)
        })?;
    }
    story.say("A caller cannot tell them apart, nor can the gateway. Only the service knows.");
    Ok(())
}

fn yes(it_is: bool) -> &'static str {
    if it_is { "yes" } else { "no" }
}

fn examples<'a>(
    plan: &'a Plan,
    orders: &'a [Order],
) -> impl Iterator<Item = (&'a Order, Fate, &'static str)> {
    TRUTHS.into_iter().filter_map(|(fate, truth)| {
        let number = plan.example(fate)?;
        let order = orders.iter().find(|order| order.number == number)?;
        Some((order, fate, truth))
    })
}

/// Settles every unknown outcome as an operator does, and lets the clients repeat, until each order
/// is answered. How many outcomes were unknown on the way.
pub async fn settle(
    story: &mut Story<'_>,
    plan: &Plan,
    service: &Service,
    front: &Front,
    orders: &mut [Order],
) -> Result<u64, Stop> {
    story.step("Settling what is unknown").await;
    story.say(
        "For each unknown record an operator asks the service for a charge of that order.\n\
         Found: `keys resolve` makes it the answer. Not found: `keys release` lets the key run\n\
         again. Then the clients repeat, each under its key.",
    );
    let mut settled = 0;
    // A round takes each order one attempt further, and no order of the plan needs more than three.
    for round in 1..=ATTEMPTS_MAX {
        let unknown = front.unknown().await?;
        // An order that is not found is only then not executed when nothing is on its way any more.
        service.at_rest().await?;
        let (mut found, mut absent) = (0, 0);
        for row in unknown {
            if settle_one(service, front, orders, &row).await? {
                found += 1;
            } else {
                absent += 1;
            }
        }
        settled += found + absent;
        send_unanswered(front, orders).await;
        let answered = orders.iter().filter(|order| order.is_answered()).count();
        story.say(format_args!(
            "  round {round}: {found} found, {absent} not; then {answered} of {ORDERS} answered 201"
        ));
        if answered == orders.len() {
            break;
        }
    }
    service.at_rest().await?;
    for (order, _, _) in examples(plan, orders) {
        let end = order.seen.last();
        let replayed = end
            .and_then(Seen::success)
            .and_then(client::Answer::replayed);
        let end = end.map_or_else(String::new, Seen::to_string);
        let how = match replayed {
            Some("true") => "resolved: its answer is replayed",
            _ => "released and executed",
        };
        let charges = service.ledger.charges_of(order.number).len();
        story.say(format_args!(
            "  order {:>2}: {end}, {how}; charges: {charges}",
            order.number
        ));
    }
    let open = orders.iter().find(|order| !order.is_answered());
    Stop::unless(open.is_none(), || "an order was never answered".to_owned())?;
    Ok(settled)
}

/// Settles one record by the service's own word; whether the charge was found.
async fn settle_one(
    service: &Service,
    front: &Front,
    orders: &[Order],
    row: &Record,
) -> Result<bool, Stop> {
    let order = orders.iter().find(|order| order.key == row.key.as_str());
    let number = order.map_or(0, |order| order.number);
    let answer = client::get(service.address, &format!("/charges/{number}")).await?;
    let done = match answer.status {
        StatusCode::OK => {
            let body = Bytes::clone(&answer.body);
            let answer = replay::kept(StatusCode::CREATED, &answer.headers, body);
            operate::resolve(&*front.store, row, answer, BY).await
        }
        StatusCode::NOT_FOUND => operate::release(&*front.store, row, BY).await,
        other => {
            return Err(Stop::Ours(format!(
                "the service answered a look-up with {other}"
            )));
        }
    };
    done.map_err(|error| Stop::Ours(error.to_string()))?;
    Ok(answer.status == StatusCode::OK)
}
