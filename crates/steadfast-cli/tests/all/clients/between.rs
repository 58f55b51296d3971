//! What is lost between a client and the gateway: the repeat gets the answer of the one execution.

use std::net::TcpListener;

use super::relay::{Fate, Relay};
use super::service::Service;
use super::{CLIENTS, Order, Stand, answered_once, config, each, run};
use crate::stage::{Folder, until};

/// How a client's connections fare, how long it waits, and whether the answer is a stored one.
const WAYS: [(&[Fate], Option<&str>, bool); 8] = [
    (&[Fate::Refused], None, false),
    (&[Fate::RequestCut], None, false),
    (&[Fate::AnswerLost], None, true),
    (&[Fate::AnswerReset], None, true),
    (&[Fate::HeadCut], None, true),
    (&[Fate::BodyCut], None, true),
    (
        &[Fate::AnswerLost, Fate::Refused, Fate::BodyCut],
        None,
        true,
    ),
    (&[Fate::Slow, Fate::AnswerReset], Some("0.5"), true),
];

#[test]
fn a_lost_answer_is_replayed_to_every_client_that_repeats_under_its_key() {
    let stand = Stand::open();
    let cases: Vec<_> = WAYS
        .iter()
        .flat_map(|way| CLIENTS.map(|client| (client, *way)))
        .collect();
    each(&cases, |(client, (fates, seconds, replayed))| {
        let (order, relay) = (Order::new(), Relay::open(stand.gateway.data, fates));
        let url = format!("http://{}/orders", relay.address);
        let seen = until("an answer", || stand.run(*client, &url, &order, *seconds));
        if seen.replayed != replayed.to_string() {
            return Err(format!("marked otherwise: {seen:?}"));
        }
        answered_once(&seen, &stand.account(&order), &order)
    });
}

#[test]
fn a_client_that_repeats_while_its_order_is_at_work_waits_as_long_as_it_is_told() {
    let stand = Stand::open();
    each(&CLIENTS, |client| {
        let (order, relay) = (Order::new(), Relay::open(stand.gateway.data, &[]));
        let url = format!("http://{}/conflict/orders?plan=slow", relay.address);
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                relay.until_passed(409);
                stand.service.release(&order.key);
            });
            until("an answer", || {
                let seen = stand.run(*client, &url, &order, Some("0.5"))?;
                // curl does not repeat a 409: it says so, and its user asks again.
                let told = seen.problem().as_deref() == Some("in-progress");
                (!told).then_some(seen)
            })
        });
        let account = stand.account(&order);
        if seen.replayed != "true" || account.asked != 1 {
            return Err(format!("asked again: {seen:?}, {account:?}"));
        }
        answered_once(&seen, &account, &order)
    });
}

#[test]
fn a_service_that_is_away_for_a_while_costs_every_client_only_time() {
    // A loopback address of its own, on which nobody else draws ports.
    let place = TcpListener::bind("127.0.0.2:0").and_then(|free| free.local_addr());
    let place = place.expect("a free port");
    let folder = Folder::new();
    folder.write("s.toml", config(place));
    let gateway = folder.gateway();
    let relays = CLIENTS.map(|client| (client, Order::new(), Relay::open(gateway.data, &[])));
    let (service, seen) = std::thread::scope(|scope| {
        let asking = relays.each_ref().map(|(client, order, relay)| {
            let url = format!("http://{}/orders", relay.address);
            let folder = &folder;
            let ask = move || {
                let seen = run(folder, *client, &url, order, None)?;
                (seen.status != 503).then_some(seen)
            };
            scope.spawn(move || until("an answer", ask))
        });
        for (_, _, relay) in &relays {
            relay.until_passed(503);
        }
        let service = Service::at(&place.to_string());
        (
            service,
            asking.map(|asking| asking.join().expect("no panic")),
        )
    });
    for ((client, order, _), seen) in relays.iter().zip(&seen) {
        let held = answered_once(seen, &service.account(&order.key), order);
        assert_eq!(held, Ok(()), "{client:?}");
    }
}
