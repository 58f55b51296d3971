//! Clients that keep a connection which the gateway, or somebody on the way, does not.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Stdio};

use super::relay::{Fate, Relay};
use super::{Client, Order, Stand, tools};
use crate::stage::until;
use crate::tidy::root;

/// A client at work, and where it writes its answers.
struct Keeping {
    child: Child,
    order: Order,
    relay: Relay,
}

/// Clients with a pool of connections; curl has none that outlives it.
const POOLED: [Client; 4] = [Client::Requests, Client::Httpx, Client::Fetch, Client::Got];

impl Keeping {
    fn start(stand: &Stand, client: Client, fate: Fate) -> Keeping {
        let (order, relay) = (Order::new(), Relay::open(stand.gateway.data, &[fate]));
        let (program, script, word) = match client {
            Client::Requests => (tools::requests(), "kept.py", "requests_client"),
            Client::Httpx => (tools::httpx(), "kept.py", "httpx_client"),
            Client::Fetch => (tools::node(), "kept.cjs", "fetch"),
            Client::Got => (tools::got(), "kept.cjs", "got"),
            Client::Curl => panic!("keeps no connection"),
        };
        let program = program.to_str().expect("a path in UTF-8");
        let mut command = stand.folder.command(program);
        let scripts = root().join("crates/steadfast-cli/tests/all/clients");
        command.arg(scripts.join(script)).arg(word);
        command.arg(format!("http://{}/orders", relay.address));
        command.arg(&order.key).arg(order.file(&stand.folder));
        command.env("PYTHONPATH", root().join("examples/clients"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("NODE_PATH", tools::NODE_PATH);
        let out = File::create(stand.folder.path(&order.key)).expect("a file");
        // What it says of connections that broke is not what is looked at.
        command
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(Stdio::null());
        let child = command.spawn().expect("the client runs");
        Keeping {
            child,
            order,
            relay,
        }
    }

    /// Waits for its answer of this number, from 1.
    fn answer(&self, stand: &Stand, number: usize) -> String {
        until("a client's answer", || {
            let told = stand.folder.read(&self.order.key);
            let told = String::from_utf8(told).expect("UTF-8");
            let mut lines = told
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            lines.nth(number - 1).map(|line| line.trim().to_owned())
        })
    }

    fn go_on(&mut self) {
        let to = self.child.stdin.as_mut().expect("its input");
        to.write_all(b"\n").expect("the client reads");
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_kept_connection_that_is_gone_costs_no_client_a_second_effect() {
    let mut stand = Stand::open();
    let fates = [Fate::Pass, Fate::Forgotten];
    let pairs = fates
        .into_iter()
        .flat_map(|fate| POOLED.map(|client| (client, fate)));
    let mut all: Vec<_> = pairs
        .map(|(client, fate)| (client, fate, Keeping::start(&stand, client, fate)))
        .collect();
    let expect = |stand: &Stand, all: &[(Client, Fate, Keeping)], number, mark| {
        for (client, fate, keeping) in all {
            let told = keeping.answer(stand, number);
            let account = stand.account(&keeping.order);
            let [(_, answer)] = &account.effects[..] else {
                panic!("{client:?}, {fate:?}: {account:?}");
            };
            assert_eq!(told, format!("201 {mark} {answer}"), "{client:?}, {fate:?}");
        }
    };
    expect(&stand, &all, 1, false);
    // Another process over the same records, behind the address that the clients know.
    stand.gateway.terminate();
    assert!(stand.gateway.ended().success());
    stand.gateway = stand.folder.gateway();
    for (_, _, keeping) in &mut all {
        keeping.relay.lead_to(stand.gateway.data);
        keeping.go_on();
    }
    expect(&stand, &all, 2, true);
}
