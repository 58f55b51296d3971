//! What is unknown under `hold` is undone: once, under a key of its own.

use super::{ask, history, record, set, slug, unknown, wait_for};
use crate::stage::{Post, until};

const UNDO: &str = "on_unknown = \"hold\"\n\
                    compensate = { path = \"/undo/{key}\", settle = \"1s\", \
                    body = '{ \"amount\": {body:/amount} }' }";

#[test]
fn what_is_unknown_is_undone_under_one_key_until_it_is_done() {
    let (folder, clerk, gateway) = set(&[Post::Lost], UNDO);
    clerk.undoes(503);
    assert_eq!(slug(&ask(&gateway)), unknown(504));
    until("two that failed", || {
        (clerk.undone().len() >= 2).then_some(())
    });
    assert_eq!(record(&gateway)["state"], "unknown");
    clerk.undoes(204);
    let row = wait_for(&gateway, "completed");
    assert_eq!(row["effect"], "none");
    let keys = clerk.undone();
    assert!(
        keys.iter().all(|key| *key == keys[0] && key.len() == 64),
        "{keys:?}"
    );
    let told = history(&folder, &row);
    let events: Vec<&str> = told.iter().map(|(event, _, _)| &**event).collect();
    let last = events.len() - 2;
    assert_eq!(events[last..], ["compensating", "compensated"]);
    assert_eq!(told.last().expect("a line").2, "status 204");
    let answer = ask(&gateway);
    assert_eq!(slug(&answer), (409, Some("response-not-stored".to_owned())));
    assert_eq!(answer.field("steadfast-effect"), Some("none"));
    assert_eq!(clerk.undone().len(), keys.len(), "and not once more");
}
