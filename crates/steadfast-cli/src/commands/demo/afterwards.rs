//! What a used key is good for: a repeat, not another request, and not for ever.

use http::StatusCode;
use serde_json::json;

use super::client::{self, Post, Seen};
use super::front::{Front, RECEIPT_RETENTION};
use super::keyed::{RECEIPTS, receipt};
use super::plan::{Fate, ORDERS, Plan};
use super::play::Order;
use super::service::Service;
use super::stop::Stop;
use super::story::Story;

/// The same body again is a replay, another one is refused, and the order stays charged once.
pub async fn changed_body(
    story: &mut Story<'_>,
    plan: &Plan,
    service: &Service,
    front: &Front,
    orders: &[Order],
) -> Result<(), Stop> {
    story.step("Another body under a used key").await;
    let number = plan.example(Fate::Answered);
    let Some(order) = orders.iter().find(|order| Some(order.number) == number) else {
        return Err(Stop::Ours(
            "no order of the plan is answered at once".to_owned(),
        ));
    };
    let (same, mut other) = (order.body(), order.body());
    other["amount_cents"] = json!(6000);
    for (name, body) in [("the same body", same), ("another amount", other)] {
        let post = Post {
            path: "/charges",
            key: Some(&order.key),
            body: &body,
        };
        let end = client::send(front.callers, post).await.pop();
        let Some(Seen::Answer(answer)) = end else {
            return Err(Stop::Ours(format!("{name} was not answered: {end:?}")));
        };
        let replayed = answer.replayed() == Some("true");
        let marked = if replayed {
            ", Idempotent-Replayed: true"
        } else {
            ""
        };
        let seen = Seen::Answer(answer.clone());
        story.say(format_args!(
            "order {}, {name}: {seen}{marked}",
            order.number
        ));
        let expected = match name {
            "the same body" => answer.status == StatusCode::CREATED && replayed,
            _ => answer.problem().as_deref() == Some("key-reused"),
        };
        Stop::unless(expected, || format!("{name} was answered with {seen}"))?;
    }
    service.at_rest().await?;
    let charges = service.ledger.charges_of(order.number).len();
    story.say(format_args!("The service charged it {charges} time."));
    Stop::unless(charges == 1, || {
        format!("a used key led to {charges} charges")
    })
}

/// The records of the receipts expire and are swept; the orders' stay, and no effect is undone.
pub async fn clean_up(
    story: &mut Story<'_>,
    service: &Service,
    front: &Front,
    receipts: &[String],
) -> Result<(), Stop> {
    story.step("Expiry and clean-up").await;
    story.say(format_args!(
        "The receipts made {RECEIPTS} records, kept for {} s; those of orders are kept for 24 h.",
        RECEIPT_RETENTION.as_secs()
    ));
    let gone = front.records_once("/receipts", "the sweeper", |rows| rows.is_empty());
    let left = gone.await?.len();
    let orders = front.records("/charges").await?.len();
    story.say(format_args!(
        "Swept: the store has {left} records of receipts and {orders} of orders."
    ));
    Stop::unless(orders as u64 == ORDERS, || {
        format!("{ORDERS} orders left {orders} records")
    })?;
    let sent = service.ledger.receipts();
    story.say(format_args!(
        "The service has {sent} receipts in its books as before: clean-up undoes nothing."
    ));
    let end = match receipts.first() {
        Some(key) => receipt(front, key).await,
        None => None,
    };
    let replayed = end
        .as_ref()
        .and_then(Seen::success)
        .and_then(|answer| answer.replayed());
    Stop::unless(replayed == Some("false"), || {
        format!("an expired key gave {end:?}")
    })?;
    story.say(
        "The first of their keys again: 201, Idempotent-Replayed: false. It runs anew, which is\n\
         why a client repeats within the retention.",
    );
    Ok(())
}
