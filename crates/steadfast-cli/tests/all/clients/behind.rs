//! What is lost between the gateway and the service.

use super::relay::Relay;
use super::{CLIENTS, Client, Order, Seen, Stand, answered_once, each};
use crate::stage::until;

/// What a client may be left with at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The service's answer.
    Answered,
    /// The word that nobody knows; so many effects stand in the ledger.
    Unknown { effects: usize },
}

/// How the service treats the attempts under a key, and what that leaves.
const PLANS: [(&str, Left); 10] = [
    ("ok", Left::Answered),
    ("slow", Left::Answered),
    ("503-0,503", Left::Answered),
    ("503-1", Left::Answered),
    ("lost", Left::Unknown { effects: 1 }),
    ("lost-reset", Left::Unknown { effects: 1 }),
    ("cut", Left::Unknown { effects: 1 }),
    ("500", Left::Unknown { effects: 1 }),
    ("reset", Left::Unknown { effects: 0 }),
    ("503,lost", Left::Unknown { effects: 1 }),
];

/// Of a client that is to leave before the answer comes, in seconds.
const IMPATIENT: &str = "0.5";

fn cases(plans: &[(&'static str, Left)]) -> Vec<(Client, &'static str, Left)> {
    let row = |(plan, left): &(&'static str, Left)| CLIENTS.map(|client| (client, *plan, *left));
    plans.iter().flat_map(row).collect()
}

/// Runs the client through the gateway. A slow answer comes when the client has left once and asks
/// again; whoever still gave up is told to ask once more, as its script says.
fn through(stand: &Stand, path: &str, client: Client, order: &Order, plan: &str) -> Seen {
    if plan != "slow" {
        return ask(stand, path, client, order, plan);
    }
    let relay = Relay::open(stand.gateway.data, &[]);
    let url = format!("http://{}{path}?plan={plan}", relay.address);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            relay.until_connections(2);
            stand.service.release(&order.key);
        });
        until("an answer", || {
            stand.run(client, &url, order, Some(IMPATIENT))
        })
    })
}

/// Runs the client, which has patience.
fn ask(stand: &Stand, path: &str, client: Client, order: &Order, plan: &str) -> Seen {
    let url = format!("http://{}{path}?plan={plan}", stand.gateway.data);
    let seen = stand.run(client, &url, order, None);
    seen.unwrap_or_else(|| panic!("{client:?}, {plan}: no answer"))
}

// Without the gateway the same scripts do what this is all about: so the losses are real.
#[test]
fn straight_at_the_service_every_client_orders_twice() {
    let stand = Stand::open();
    let plans = ["lost", "slow", "cut"].map(|plan| (plan, Left::Answered));
    each(&cases(&plans), |(client, plan, _)| {
        let order = Order::new();
        let url = format!("http://{}/orders?plan={plan}", stand.service.address);
        let seconds = (*plan == "slow").then_some(IMPATIENT);
        let seen = until("an answer", || stand.run(*client, &url, &order, seconds));
        let account = stand.account(&order);
        if seen.status == 201 && account.effects.len() > 1 {
            return Ok(());
        }
        Err(format!("{seen:?}, {account:?}"))
    });
}

// rule: every-client-has-one-effect-per-key
#[test]
fn every_client_gets_one_effect_per_key_whatever_is_lost() {
    let stand = Stand::open();
    each(&cases(&PLANS), |(client, plan, left)| {
        let order = Order::new();
        let mut seen = through(&stand, "/orders", *client, &order, plan);
        if let Left::Unknown { effects } = left {
            let account = stand.account(&order);
            if !seen.is_unknown() || account.effects.len() != *effects {
                return Err(format!("not unknown: {seen:?}, {account:?}"));
            }
            // Once a person has looked, the same again gives the answer.
            stand.settle(&order);
            seen = ask(&stand, "/orders", *client, &order, plan);
        }
        answered_once(&seen, &stand.account(&order), &order)
    });
}

// Under "repeat" the gateway may ask a service again that may have done it already: whoever sets it
// says that the service itself does one thing once. A service that did not would do it twice.
#[test]
fn under_repeat_every_client_gets_the_answer_from_a_service_that_honours_keys() {
    let stand = Stand::open();
    let said = ["slow", "503-1", "lost", "cut", "500", "reset"];
    let plans = PLANS.iter().filter(|(plan, _)| said.contains(plan));
    let plans: Vec<_> = plans.copied().collect();
    each(&cases(&plans), |(client, plan, left)| {
        let order = Order::new();
        let mut seen = through(&stand, "/keyed/orders", *client, &order, plan);
        if *plan == "500" && seen.status != 201 {
            // It is an answer, and not every client repeats it. The next same request does.
            if seen.status != 500 || !seen.is_unknown() {
                return Err(format!("not the service's own: {seen:?}"));
            }
            seen = ask(&stand, "/keyed/orders", *client, &order, plan);
        }
        let account = stand.account(&order);
        if account.asked < 2 && *left != Left::Answered {
            return Err(format!("not asked again: {seen:?}, {account:?}"));
        }
        answered_once(&seen, &account, &order)
    });
}
