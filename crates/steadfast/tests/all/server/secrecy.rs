//! Nothing of a key, a body or a credential in what is logged or printed (S2).

use std::sync::Mutex;

use steadfast::core::attempt::Failure;
use tracing::field::{Field, Visit};
use tracing::span;

use super::faults::{Act, Fault};
use super::script::Turn;
use super::*;

/// Keeps every event as text.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<String>>);

impl Log {
    /// The lines so far that say `text`.
    pub fn lines(&self, text: &str) -> Vec<String> {
        let all = self.0.lock().unwrap();
        let lines = all.lines().filter(|line| line.contains(text));
        lines.map(str::to_owned).collect()
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = self.0.lock().unwrap();
        event.record(&mut Line(&mut text));
        text.push('\n');
    }
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}

// rule: no-key-body-or-credential-in-a-log
#[tokio::test(start_paused = true)]
async fn no_key_body_or_credential_reaches_a_log_line_a_history_or_a_debug_form() {
    let log = Log::default();
    let guard = tracing::subscriber::set_default(log.clone());
    let world = World::repeating().await;
    let ask = || charge(4711).with("authorization", "Bearer alice");
    let printed = format!("{:?}", world.call(ask()));
    for _ in 0..2 {
        world
            .store
            .fault(Act::Settle, Fault::Fails(faults::unavailable()));
    }
    world.script.then(Turn::Answer(500)).then(Turn::Panics);
    for _ in 0..2 {
        world.send(ask()).await;
    }
    world.script.then(Turn::Fails(Failure::Reset));
    world.send(ask()).await;
    pass(40 * SECOND).await;
    let rows = world.rows().await;
    drop(guard);
    let told = log.0.lock().unwrap().clone();
    assert!(told.contains("not recorded yet"), "the log is read: {told}");
    let histories: String = rows.iter().map(|row| format!("{row:?}")).collect();
    for text in [printed, told, histories] {
        for secret in [KEY, "4711", "alice", "effect\\\":"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
