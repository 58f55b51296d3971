//! `keys stats` and `keys sweep`, on stores whose rows were made long ago, and what a release says
//! of records that it cannot release.

use std::time::Duration;

use serde_json::json;
use steadfast::clock;
use steadfast::store::conformance::rows;
use steadfast::store::sqlite::Sqlite;
use steadfast::store::{Op, Store};
use steadfast_core::key::Tenant;
use steadfast_core::record::{Record, Start};

use crate::stage::{Config, Folder, Gateway, Honours, Ledger, Ran, Request, until};

const STORE: [&str; 2] = ["--store", "sqlite:records.db"];

fn keys(folder: &Folder, words: &[&str]) -> Ran {
    folder.run(&[&["keys"], words, &STORE].concat())
}

fn put(folder: &Folder, records: impl IntoIterator<Item = Record>) {
    let store = Sqlite::open(folder.path("records.db")).expect("a store");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let insert = |record| store.apply(Op::Insert(Box::new(record)));
    let written = futures_util::future::join_all(records.into_iter().map(insert));
    for end in runtime.expect("a runtime").block_on(written) {
        end.expect("a record is written");
    }
}

/// Two reservations and a dispatch whose leases are over, and three records past their expiry:
/// tenant n owns row n.
fn overdue() -> Folder {
    let folder = Folder::new();
    let dispatched = rows::started(3, 3, Start::Dispatched, rows::DATE);
    let held = [rows::reserved(1), rows::reserved(2), dispatched];
    let owned = (1..).zip(held.into_iter().chain((4..7).map(rows::completed)));
    put(&folder, owned.map(|(n, row)| of_tenant(n, row)));
    folder
}

fn of_tenant(n: u64, row: Record) -> Record {
    let tenant = Tenant::from_stored(&format!("{n:032x}")).expect("a hash");
    Record { tenant, ..row }
}

fn id(record: &Record) -> String {
    record.id.to_string()
}

#[test]
fn stats_count_by_state_and_tenant_and_say_what_is_due() {
    let folder = overdue();
    // A tenant with two records that count, beside those with one.
    let again = of_tenant(2, rows::reserved(8));
    let tenant = again.tenant.as_str().to_owned();
    put(&folder, [again]);
    let stats = folder.json(&[&["keys", "stats", "--json"], &STORE[..]].concat());
    assert_eq!(stats["records"]["reserved"], 3);
    assert_eq!(stats["records"]["dispatched"], 1);
    assert_eq!(stats["records"]["completed"], 3);
    assert_eq!(stats["records"]["unknown"], 0);
    assert_eq!(stats["oldest"]["completed"], rows::DATE.rfc3339());
    assert_eq!(stats["oldest"]["unknown"], json!(null));
    assert_eq!(
        (&stats["leases_over"], &stats["expired"]),
        (&json!(4), &json!(3))
    );
    assert!(stats["expiry_lag_ms"].as_u64() > Some(0), "{stats}");
    assert!(stats["bytes"].as_u64() > Some(4096), "{stats}");
    let tenants = stats["tenants"].as_array().expect("tenants");
    assert_eq!(
        tenants.len(),
        3,
        "expired records do not count: {tenants:?}"
    );
    assert_eq!(tenants[0], json!({ "tenant": tenant, "live": 2 }));
    let one = folder.json(&[&["keys", "stats", "--json", "--top", "1"], &STORE[..]].concat());
    assert_eq!(one["tenants"], json!([tenants[0]]));
    let told = keys(&folder, &["stats"]);
    assert_eq!(told.code, 0);
    for line in [
        "reserved    3  oldest unchanged for ",
        "unknown     0\n",
        "leases over 4\n",
        "expired     3, expiry lag ",
        &format!("{tenant}  2\n"),
    ] {
        assert!(told.out.contains(line), "{line} in {}", told.out);
    }
}

#[test]
fn a_sweep_counts_and_asks_before_it_changes_anything() {
    let folder = overdue();
    let before = keys(&folder, &["list", "--json"]).out;
    let asked = keys(&folder, &["sweep"]);
    let err = "error: this would write 3 lost leases down and remove 3 expired records; repeat it \
               with --yes to do so\n";
    assert_eq!((asked.code, asked.err.as_str()), (1, err));
    assert_eq!(
        keys(&folder, &["list", "--json"]).out,
        before,
        "nothing was changed"
    );
}

#[test]
fn a_sweep_writes_lost_leases_down_and_removes_what_has_expired_until_nothing_is_due() {
    let folder = overdue();
    // More than one round of the sweeper takes.
    put(&folder, (1000..6000).map(rows::completed));
    let swept = folder.json(&[&["keys", "sweep", "--yes", "--json"], &STORE[..]].concat());
    let all = json!({ "recovered": 3, "expired": 5003, "expiry_stopped": false });
    assert_eq!(swept, all);
    let left = folder.json(&[&["keys", "list", "--json"], &STORE[..]].concat());
    let left = left.as_array().expect("a list");
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(
        (&left[0]["state"], &left[0]["attempts"]),
        (&json!("unknown"), &json!(1))
    );
    // Nothing is due any more, so nothing is asked.
    let again = keys(&folder, &["sweep"]);
    let nothing = "leases written down  0\nrecords removed      0\n";
    assert_eq!(
        (again.code, again.out.as_str(), again.err.as_str()),
        (0, nothing, "")
    );
}

#[test]
fn a_sweep_removes_nothing_while_the_store_s_date_is_ahead_of_the_clock() {
    let folder = overdue();
    let ahead = clock::wall_now().plus(Duration::from_secs(3600));
    put(&folder, [rows::started(9, 9, Start::Reserved, ahead)]);
    let swept = keys(&folder, &["sweep", "--yes"]);
    let out = "leases written down  3\nrecords removed      0\n";
    assert_eq!((swept.code, swept.out.as_str()), (0, out));
    assert!(swept.err.contains("expiry stands still: "), "{}", swept.err);
    let completed = keys(&folder, &["list", "--state", "completed"]);
    assert_eq!(completed.out.lines().count(), 3, "{}", completed.out);
    let told = folder.json(&[&["keys", "sweep", "--json"], &STORE[..]].concat());
    let nothing = json!({ "recovered": 0, "expired": 0, "expiry_stopped": true });
    assert_eq!(told, nothing, "nothing is left to do, so nothing is asked");
}

/// A gateway with one order at work, which the service has and does not answer.
fn at_work() -> (Folder, Ledger, Gateway, std::thread::JoinHandle<u16>) {
    let (folder, ledger) = (Folder::new(), Ledger::open(Honours::Nothing));
    ledger.hold();
    let config = Config {
        to: &ledger,
        top: "",
        idempotency: "",
    };
    folder.write("s.toml", config.text());
    let gateway = folder.gateway();
    let data = gateway.data;
    let caller = std::thread::spawn(move || {
        let caller = crate::stage::Caller::to(data).expect("the gateway");
        let key = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
        caller.ask(&Request::order(key)).expect("an answer").status
    });
    until("the order at the service", || {
        (ledger.effects() == 1).then_some(())
    });
    (folder, ledger, gateway, caller)
}

#[test]
fn beside_a_gateway_a_sweep_leaves_work_alone_and_executes_nothing() {
    let (folder, ledger, gateway, caller) = at_work();
    put(
        &folder,
        [
            rows::started(3, 3, Start::Dispatched, rows::DATE),
            rows::completed(4),
        ],
    );
    // The gateway's own sweeper may be first with these; nothing is due afterwards either way.
    let swept = keys(&folder, &["sweep", "--yes"]);
    assert_eq!(swept.code, 0, "{swept:?}");
    let stats = folder.json(&[&["keys", "stats", "--json"], &STORE[..]].concat());
    assert_eq!(
        (&stats["leases_over"], &stats["expired"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        stats["records"]["dispatched"], 1,
        "the order is still at work"
    );
    ledger.answer();
    assert_eq!(caller.join().expect("the caller"), 201);
    assert_eq!(ledger.effects(), 1);
    drop(gateway);
}

#[test]
fn a_release_of_what_is_at_work_is_refused_and_says_until_when() {
    let (folder, ledger, gateway, caller) = at_work();
    let filter = keys(&folder, &["release", "--state", "dispatched", "--yes"]);
    let err = "error: 1 record matches, but it cannot be released: it is settled, or at work until \
               its lease is over; `steadfast keys list` shows more, and `steadfast keys sweep` \
               writes lost leases down. Nothing was changed\n";
    assert_eq!((filter.code, filter.err.as_str()), (1, err));
    let at_work = folder.json(&[&["keys", "list", "--json"], &STORE[..]].concat());
    let id = at_work[0]["id"].as_str().expect("an id");
    let named = keys(&folder, &["release", id, "--yes"]);
    let begins = format!("error: {id}: the record is dispatched: it is at work, and held until ");
    assert!(
        named.code == 1 && named.err.starts_with(&begins),
        "{named:?}"
    );
    ledger.answer();
    assert_eq!(caller.join().expect("the caller"), 201);
    drop(gateway);
}

#[test]
fn a_release_of_a_reservation_whose_lease_is_over_says_that_the_sweeper_removes_it() {
    let folder = overdue();
    let id = id(&rows::reserved(1));
    let refused = keys(&folder, &["release", &id, "--yes"]);
    let err = format!(
        "error: {id}: the record is reserved and its lease is over: nothing was sent, so there is \
         nothing to settle; the sweeper of a gateway removes it, or `steadfast keys sweep`, and \
         then its key may run again\n"
    );
    assert_eq!((refused.code, refused.err), (1, err));
    // A filter means what can be released: the dispatch whose lease is over, and nothing else.
    let released = keys(&folder, &["release", "--expired-lease", "--yes"]);
    let line = format!(
        "released {}\n",
        self::id(&rows::started(3, 3, Start::Dispatched, rows::DATE))
    );
    assert_eq!((released.code, released.out), (0, line));
}
