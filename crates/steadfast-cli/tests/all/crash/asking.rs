//! A gateway that ends between the steps of a look-up or of a compensation, at every write.

use super::{KEY, failing};
use crate::stage::{CLERK, Clerk, Folder, Post, Request, until};

const LOOKUP: &str = "on_unknown = \"lookup\"\n\
                      lookup = { path = \"/by/{key}\", settle = \"1s\", \
                      headers = { Authorization = { file = \"token\" } } }";
const UNDO: &str = "on_unknown = \"hold\"\ncompensate = { path = \"/undo\", settle = \"1s\" }";

/// Ends the gateway at its write `n` at `point`, restarts it, and gives whether the end came before
/// the outcome was settled.
fn crashed(rules: &str, post: Post, point: &str, n: u32) -> bool {
    let (folder, clerk) = (Folder::new(), Clerk::open(&[post]));
    folder.write("token", CLERK);
    folder.write("s.toml", clerk.config(rules));
    let case = format!("{rules} {post:?} crash:{point}:write:{n}");
    let plan = format!("crash:{point}:write:{n}");
    let Ok(mut gateway) = failing::start(&folder, &plan) else {
        return true;
    };
    let request = Request::order(KEY);
    gateway.ask(&request);
    let is_over = |state: &str| ["completed", "released"].contains(&state);
    let settled = until("the gateway's end, or the outcome's", || {
        if gateway.has_ended() {
            return Some(false);
        }
        let rows = gateway.seen_records()?;
        let state = rows.first()?["state"].as_str()?.to_owned();
        is_over(&state).then_some(true)
    });
    match settled {
        true => gateway.kill(),
        false => assert_eq!(gateway.ended().code(), None, "{case}: {}", gateway.log()),
    }
    let gateway = folder.gateway();
    // Where not even the reservation stood, the request is sent for the first time now.
    clerk.will(&[Post::Done]);
    let end = until("an end", || {
        let answer = gateway.ask(&request).expect("an answer");
        let waits = ["in-progress", "outcome-unknown"];
        let waits = answer
            .problem()
            .is_some_and(|slug| waits.contains(&slug.as_str()));
        (!waits).then_some(answer)
    });
    let effects = clerk.effects();
    let undone = clerk.undone();
    assert!(effects <= 1, "{case}: {effects} effects, {end:?}");
    assert!(
        undone.iter().all(|key| *key == undone[0]),
        "{case}: one key: {undone:?}"
    );
    match end.status {
        200 | 201 => assert_eq!((effects, undone.len()), (1, 0), "{case}: {end:?}"),
        _ => assert!(!undone.is_empty(), "{case}: {end:?}"),
    }
    !settled
}

/// At every write, until the outcome is settled before it.
/// All walks at the same time: each is mostly waiting for a turn that is over.
fn at_every_write(rules: &str, posts: &[Post]) {
    std::thread::scope(|scope| {
        for (post, point) in posts.iter().flat_map(|p| [(*p, "before"), (*p, "after")]) {
            scope.spawn(move || {
                let mut n = 1;
                while crashed(rules, post, point, n) {
                    n += 1;
                }
                assert!(n > 3, "{rules}: only {n} writes");
            });
        }
    });
}

// rule: a-crash-between-the-steps-of-a-look-up-makes-no-second-effect
#[test]
fn a_crash_between_the_steps_of_a_look_up_makes_no_second_effect() {
    at_every_write(LOOKUP, &[Post::Lost, Post::Ignored]);
}

// rule: a-crash-between-the-steps-of-a-compensation-undoes-under-one-key
#[test]
fn a_crash_between_the_steps_of_a_compensation_undoes_under_one_key() {
    at_every_write(UNDO, &[Post::Lost]);
}
