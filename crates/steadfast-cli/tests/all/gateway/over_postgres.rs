//! The gateway over PostgreSQL: all that it does over other stores, and what a database adds.

use std::process::Command;
use std::sync::Arc;

use futures_util::future::join_all;
use steadfast::store::Store;
use steadfast::store::postgres::{Address, Postgres};

use super::caller::{OTHER_KEY, charge, get, keyed_charge};
use super::running::{DATABASES, Gateway, config};
use super::upstream::{Upstream, answer};
use super::{printed, ran};
use crate::database::{Server, shared};
use crate::listen::raw::soon;

fn open(url: &str) -> Arc<dyn Store> {
    let address = Address::parse(url).expect("an address");
    Arc::new(Postgres::open(&address).expect("the store"))
}

/// Tests that make a store of another kind, or none.
const OTHERS: [&str; 5] = [
    "gateway::over_postgres",
    "gateway::process",
    "gateway::stores",
    "gateway::routes",
    "gateway::http2",
];

// rule: the-keyed-gateway-is-the-same-over-postgres
#[tokio::test]
async fn all_that_the_gateway_does_with_keys_it_does_over_postgres() {
    let mut again = Command::new(std::env::current_exe().expect("this binary"));
    again
        .arg("gateway::")
        .env(DATABASES, shared().port.to_string());
    for other in OTHERS {
        again.args(["--skip", other]);
    }
    let output = ran(again).await;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("gateway::storm::whatever_ends_an_attempt"),
        "{said}"
    );
}

#[tokio::test]
async fn forty_identical_requests_to_two_gateways_over_one_database_have_one_effect() {
    let (upstream, gate) = Upstream::held(&answer("201 Created", "", "{\"charge\":1}")).await;
    let url = shared().database();
    let text = config(upstream.addr, "");
    let one = Gateway::over(&text, open(&url)).await;
    let other = Gateway::over(&text, open(&url)).await;
    let call = keyed_charge();
    let asked = join_all((0..40).map(|at| match at % 2 {
        0 => one.send(&call),
        _ => other.send(&call),
    }));
    let goes = async {
        upstream.until_count(1).await;
        gate.add_permits(40);
    };
    let (answers, ()) = tokio::join!(asked, goes);
    let executed = answers.iter().filter(|a| a.replayed() == Some("false"));
    assert_eq!(executed.count(), 1);
    for answer in &answers {
        assert_eq!((answer.status, answer.text()), (201, "{\"charge\":1}"));
    }
    assert_eq!(upstream.count(), 1);
}

// rule: a-database-that-is-gone-or-frozen-refuses-keys-in-bounded-time-and-recovers
#[tokio::test]
async fn without_its_database_keys_are_refused_the_rest_flows_and_it_recovers_by_itself() {
    for outage in ["stopped", "frozen"] {
        let mut server = Server::start();
        let upstream = Upstream::charging().await;
        let route = "idempotency = { store_timeout = \"300ms\" }";
        let gateway = Gateway::over(&config(upstream.addr, route), open(&server.database())).await;
        assert_eq!(gateway.send(&keyed_charge()).await.status, 201, "{outage}");
        match outage {
            "stopped" => server.stop(),
            _ => server.freeze(),
        }
        for _ in 0..3 {
            let fresh = charge().key(OTHER_KEY);
            let refused = soon("the refusal", gateway.send(&fresh)).await;
            refused.is_problem(503, "store-unavailable", "none");
            assert_eq!(gateway.send(&charge()).await.status, 201, "{outage}");
        }
        assert_eq!(upstream.count(), 4, "{outage}");
        match outage {
            "stopped" => server.resume(),
            _ => server.thaw(),
        }
        let back = async {
            loop {
                let again = gateway.send(&charge().key(OTHER_KEY)).await;
                if again.status == 201 {
                    return again;
                }
                again.is_problem(503, "store-unavailable", "none");
            }
        };
        let again = soon("the database is back", back).await;
        assert_eq!(again.replayed(), Some("false"), "{outage}");
        let replay = gateway.send(&keyed_charge()).await;
        assert_eq!(replay.replayed(), Some("true"), "{outage}: nothing is lost");
        assert_eq!(upstream.count(), 5, "{outage}");
        assert_eq!(gateway.operate(get("/readyz")).await.status, 200);
    }
}

fn steadfast(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(words).env_clear();
    command
}

/// What a refused command says; never a password.
async fn refused(words: &[&str]) -> String {
    let output = ran(steadfast(words)).await;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(!said.contains("hunter2"), "{said}");
    said
}

// rule: a-gateway-refuses-a-database-that-is-not-ready-and-names-the-command
#[tokio::test]
async fn a_database_that_is_not_ready_is_refused_and_migrate_makes_it_ready() {
    let url = shared().empty();
    let gateway = ["gateway", "--to", "http://127.0.0.1:9", "--store", &url];
    let status = ["store", "status", "--json", "--store", &url];
    let migrate = ["store", "migrate", "--json", "--store", &url];
    for words in [&gateway[..], &status[..]] {
        let said = refused(words).await;
        assert!(said.contains("run `steadfast store migrate`"), "{said}");
    }
    let made = printed(&ran(steadfast(&migrate)).await);
    assert!(made.contains("\"guarantee\": \"durable\""), "{made}");
    assert_eq!(
        printed(&ran(steadfast(&migrate)).await),
        made,
        "once is enough"
    );
    assert_eq!(printed(&ran(steadfast(&status)).await), made);

    for (spoil, says) in [
        ("version = 99", "schema is version 99"),
        ("version = 0", "needs 1; run `steadfast store migrate`"),
        ("moving_to = 1", "to version 1 was begun"),
    ] {
        shared().sql(&url, &format!("UPDATE steadfast.meta SET {spoil}"));
        let said = refused(&gateway).await;
        assert!(said.contains(says), "{said}");
    }
}

#[tokio::test]
async fn what_print_shows_prepares_and_undoes_a_database() {
    for partitions in ["0", "3"] {
        let url = shared().empty();
        let print = [
            "store",
            "migrate",
            "--print",
            "--store",
            &url,
            "--partitions",
            partitions,
        ];
        let up = printed(&ran(steadfast(&print)).await);
        shared().sql(&url, &up);
        printed(&ran(steadfast(&["store", "migrate", "--store", &url])).await);
        let parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = \
                     'steadfast.records'::regclass";
        assert_eq!(shared().sql(&url, parts), partitions);
        let mut down = print.to_vec();
        down.push("--down");
        let down = printed(&ran(steadfast(&down)).await);
        shared().sql(&url, &down);
        let left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'steadfast'";
        assert_eq!(shared().sql(&url, left), "0");
    }
}

#[tokio::test]
async fn wrong_credentials_databases_addresses_and_read_only_servers_are_told_apart() {
    let url = shared().database();
    let (server, database) = url.rsplit_once('/').expect("a database");
    let name = database.replace('t', "r");
    shared().sql(&url, &format!("CREATE ROLE {name} LOGIN"));
    let other = server.replace("owner@", &format!("{name}:hunter2@"));
    let unable = format!("{other}/{database}");
    let nobody = server.replace("owner@", "nobody_at_all:hunter2@");
    for (url, says) in [
        (format!("{nobody}/{database}"), "does not take this user"),
        (
            format!("{other}/no_such_database"),
            "make it with `createdb`",
        ),
        (
            "postgres://owner:hunter2@127.0.0.1:1/x".to_owned(),
            "cannot be reached",
        ),
        (unable.clone(), "refuses this user"),
    ] {
        let said = refused(&["store", "status", "--store", &url]).await;
        assert!(said.contains(says), "{url}: {said}");
    }
    let read_only = format!("ALTER ROLE {name} SET default_transaction_read_only = on");
    shared().sql(&url, &read_only);
    let said = refused(&["store", "status", "--store", &unable]).await;
    assert!(said.contains("takes no writes"), "{said}");
}
