//! What an observer is told of a keyed request.

use std::sync::{Mutex, PoisonError};

use steadfast::event::{Event, Observer};

use super::*;

/// Writes down what it is told, in a word each.
#[derive(Default)]
struct Scribe(Mutex<Vec<String>>);

impl Observer for Scribe {
    fn on(&self, event: Event<'_>) {
        let word = match event {
            Event::Attempt(ended) => format!("attempt {:?} {}", ended.end, ended.effect),
            Event::Keyed(answered) => {
                let own = if answered.own_attempt {
                    " by itself"
                } else {
                    ""
                };
                format!("{}{own} {}", answered.outcome.as_str(), answered.status)
            }
            Event::WaitBegan => "waits".to_owned(),
            Event::HoldEnded(_) => "ends its hold".to_owned(),
            _ => return,
        };
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        words.push(word);
    }
}

// rule: an-observer-is-told-in-order
#[tokio::test(start_paused = true)]
async fn an_attempt_is_told_before_its_caller_has_the_answer_and_a_replay_has_none() {
    let mut world = World::new().await;
    let scribe = Arc::new(Scribe::default());
    world.server = world.server.with_observer(Arc::<Scribe>::clone(&scribe));
    world.send(charge(50)).await;
    tokio::task::yield_now().await;
    world.send(charge(50)).await;
    world.send(charge(60)).await;
    let mut told = scribe.0.lock().unwrap_or_else(PoisonError::into_inner);
    // The hold ends on the work's own task, before or after its caller was told.
    let holds = told.iter().filter(|word| *word == "ends its hold").count();
    assert_eq!(holds, 1, "{told:?}");
    told.retain(|word| word != "ends its hold");
    let expected = [
        "attempt Answered(201) applied",
        "executed by itself 201 Created",
        "replayed 201 Created",
        "mismatch 422 Unprocessable Entity",
    ];
    assert_eq!(*told, expected);
}
