//! A holder that stood still while others found out, an operator, and a look-up, all at once.

use super::{KEY, LOOKUP, record, wait_for};
use crate::stage::{CLERK, Caller, Clerk, Folder, Post, Request, until};

fn race(by_hand: bool) {
    let (folder, clerk) = (Folder::new(), Clerk::open(&[Post::Late]));
    folder.write("token", CLERK);
    // The attempt outlasts the pause of its process.
    let config = clerk.config(LOOKUP).replace("1500ms", "15s");
    folder.write("s.toml", config);
    let holder = folder.gateway();
    let mut first = Caller::to(holder.data).expect("a connection");
    first.send(&Request::order(KEY));
    until("the effect", || (clerk.effects() == 1).then_some(()));
    holder.signal("STOP");
    clerk.hold();
    let other = folder.gateway();
    until("a look-up", || (!clerk.asked().is_empty()).then_some(()));
    let id = record(&other)["id"].as_str().expect("an id").to_owned();
    std::thread::scope(|scope| {
        if by_hand {
            let words = [
                "keys", "resolve", &id, "--status", "202", "--yes", "--config", "s.toml",
            ];
            let folder = &folder;
            // Whether it was the first is not asserted: only that one of the three was.
            scope.spawn(move || folder.run(&words));
        }
        scope.spawn(|| clerk.answer());
        clerk.answer_late();
        holder.signal("CONT");
    });
    let told = first.answer().expect("an answer");
    let row = wait_for(&other, "completed");
    assert_eq!(row["effect"], "applied");
    for gateway in [&holder, &other] {
        let given = gateway.ask(&Request::order(KEY)).expect("an answer");
        assert_eq!(given.essence(), told.essence());
        assert_eq!(given.replayed(), Some("true"));
    }
    assert_eq!(record(&other), row, "what is completed stays so");
    assert_eq!(clerk.effects(), 1);
}

// rule: of-operator-look-up-and-late-holder-one-completes
#[test]
fn of_operator_look_up_and_late_holder_one_completes_and_all_are_told_the_same() {
    for by_hand in [false, true, false, true] {
        race(by_hand);
    }
}
