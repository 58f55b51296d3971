//! `call`: one request, sent safely, and the story of each attempt.
//!
//! A driver as the gateway is one: it asks [`Attempts`] what each end means, and the pool for
//! connections and evidence. Results go to standard output, the story to standard error.

mod answer;
mod ask;
mod defer;
mod end;
mod lookup;
mod send;
mod story;

use std::io::{self, Write};

use steadfast::client::{Attempts, Rules, SharedUpstream};
use steadfast::clock;
use steadfast_core::breaker::BreakerPolicy;
use steadfast_core::budget::BudgetPolicy;
use steadfast_core::deadline::Deadline;
use steadfast_core::retry::{Decision, Next, Signs};
use steadfast_core::upstream::Refused;

use crate::args::CallArgs;
use crate::run::Exit;
use crate::settings::environment::Environment;
use answer::Output;
use ask::Asking;
use end::Ended;
use send::{Attempted, Sender};
use story::Story;

/// Runs the command; results go to `out`, the story to `err`.
pub fn run(
    args: &CallArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Exit> {
    let asking = match Asking::read(args) {
        Ok(asking) => asking,
        Err(wrong) => {
            writeln!(err, "error: {wrong}")?;
            return Ok(Exit::Usage);
        }
    };
    if args.defer {
        return defer::run(args, &asking, environment, (out, err));
    }
    let lookup = match lookup::asking(args, &asking) {
        Ok(lookup) => lookup,
        Err(wrong) => {
            writeln!(err, "error: --lookup: {wrong}; nothing was sent")?;
            return Ok(Exit::Usage);
        }
    };
    let mut output = Output::new(args, out);
    if let Err(wrong) = output.open() {
        writeln!(err, "error: {wrong}; nothing was sent")?;
        return Ok(Exit::Failed);
    }
    let runtime = super::runtime()?;
    let mut story = Story::new(args, &asking, err);
    story.begins()?;
    let ended = runtime.block_on(async {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => None,
            ended = go(&asking, &mut story, &mut output) => Some(ended),
        }
    });
    let ended = match ended {
        Some(ended) => ended?,
        None => Ended::interrupted(story.may_have_been_sent(), &asking),
    };
    story.ends(&ended)?;
    let ended = match lookup.filter(|_| ended.exit() == Exit::Unknown && !ended.interrupted) {
        Some(lookup) => runtime.block_on(lookup::ask(&lookup, ended, &mut story, &mut output))?,
        None => ended,
    };
    output.finish(&ended, &story)?;
    Ok(ended.exit())
}

/// Attempts until one of them is the last.
async fn go(asking: &Asking, story: &mut Story<'_>, output: &mut Output<'_>) -> io::Result<Ended> {
    let pool = asking.pool.clone();
    let upstream = SharedUpstream::new(BudgetPolicy::default(), BreakerPolicy::default());
    let deadline = Deadline::after(clock::mono_now(), asking.deadline);
    let rules: Rules = asking.rules.clone();
    let mut attempts = Attempts::new(rules, asking.asked.clone(), deadline, upstream);
    let mut sender = Sender {
        pool,
        asking,
        after_reused: false,
    };
    let mut before: Option<(Attempted, Signs)> = None;
    loop {
        let ended = match attempts.admit() {
            Ok(leave) => sender.attempt(&mut attempts, leave, story, output).await?,
            Err(shut) => Err(Refused::Open(shut)),
        };
        let (attempted, signs) = match (ended, before.take()) {
            (Ok(ended), _) => ended,
            // The retry was refused at the last moment: what came before it stands.
            (Err(by), Some((attempted, signs))) => {
                let decision = attempts.refused(&attempted.end, &signs, by);
                story.decided(&decision)?;
                return Ok(Ended::of(decision, attempted));
            }
            (Err(_), None) => unreachable!("a first attempt is not refused: the state is new"),
        };
        let decision: Decision = attempts.decide(&attempted.end, &signs);
        story.decided(&decision)?;
        if !matches!(decision.next, Next::Retry { .. }) {
            return Ok(Ended::of(decision, attempted));
        }
        before = Some((attempted, signs));
        attempts.wait(&decision).await;
    }
}
