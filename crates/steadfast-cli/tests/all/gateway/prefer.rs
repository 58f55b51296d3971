//! What callers prefer, over sockets: acted on for duplicates, and the service's own to read.

use super::caller::keyed_charge;
use super::running::Gateway;
use super::upstream::{Upstream, answer};

// rule: prefer-passes-to-the-service
#[tokio::test]
async fn a_preference_passes_to_the_service_and_chooses_for_duplicates_of_what_is_at_work() {
    let head = "Preference-Applied: return=minimal\r\n";
    let (upstream, gate) = Upstream::held(&answer("201 Created", head, "made")).await;
    let gateway = Gateway::to(upstream.addr).await;
    let prefers = |what: &str| keyed_charge().with("Prefer", what);
    let all = "return=minimal, respond-async, wait=5";
    let mut first = gateway.connect().await;
    first.write(prefers(all).bytes()).await;
    upstream.until_count(1).await;
    let accepted = gateway.send(&prefers("respond-async")).await;
    assert_eq!(accepted.status, 202);
    assert_eq!(accepted.field("preference-applied"), Some("respond-async"));
    let address = accepted.field("location").expect("an address");
    assert!(address.ends_with(&accepted.operation_id()), "{address}");
    let refused = gateway.send(&prefers("wait=0")).await;
    refused.is_problem(409, "in-progress", "unknown");
    assert_eq!(refused.field("preference-applied"), Some("wait=0"));
    gate.add_permits(1);
    // The service acted on what it was told, and says so; nothing of it was the gateway's doing.
    let made = first.answer().await;
    assert_eq!((made.status, made.replayed()), (201, Some("false")));
    assert_eq!(made.field("preference-applied"), Some("return=minimal"));
    let replayed = gateway.send(&prefers(all)).await;
    assert_eq!((replayed.status, replayed.replayed()), (201, Some("true")));
    assert_eq!(replayed.field("preference-applied"), Some("return=minimal"));
    assert_eq!(upstream.only().one("prefer"), all, "as it came");
}
