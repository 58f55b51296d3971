//! The story of a call: a line for each attempt, on standard error as it happens, and as JSON.

use std::io::{self, Write};
use std::time::Duration;

use http::StatusCode;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, PROXY_AUTHORIZATION, SET_COOKIE};
use serde_json::{Value, json};
use steadfast::clock;
use steadfast_core::effect::Effect;
use steadfast_core::retry::{Decision, Next, Reason};
use steadfast_core::time::MonoTime;

use super::ask::{Asking, KEY};
use super::end::Ended;
use crate::args::CallArgs;
use crate::settings::value::show_length;

/// What is told.
pub struct Story<'a> {
    asking: &'a Asking,
    verbose: bool,
    err: &'a mut dyn Write,
    began: MonoTime,
    attempts: Vec<Told>,
}

/// One attempt.
struct Told {
    number: u32,
    began: MonoTime,
    ended: Option<MonoTime>,
    /// Bytes of it may have gone out.
    sending: bool,
    status: Option<StatusCode>,
    decision: Option<Decision>,
}

impl<'a> Story<'a> {
    /// Nothing has happened yet.
    pub fn new(args: &CallArgs, asking: &'a Asking, err: &'a mut dyn Write) -> Story<'a> {
        Story {
            asking,
            verbose: args.verbose,
            err,
            began: clock::mono_now(),
            attempts: Vec::new(),
        }
    }

    /// Tells the key that was made: whoever has to ask again needs it.
    pub fn begins(&mut self) -> io::Result<()> {
        match &self.asking.key {
            Some(key) if self.asking.honours_key() => {
                writeln!(self.err, "key: {key} (the same for every attempt)")
            }
            _ => Ok(()),
        }
    }

    /// An attempt begins.
    pub fn attempt_begins(&mut self, number: u32) {
        self.attempts.push(Told {
            number,
            began: clock::mono_now(),
            ended: None,
            sending: false,
            status: None,
            decision: None,
        });
    }

    /// A connection is in hand, and the request goes out.
    pub fn sends(&mut self, headers: &HeaderMap) -> io::Result<()> {
        if let Some(last) = self.attempts.last_mut() {
            last.sending = true;
        }
        if self.verbose {
            let (method, uri) = (&self.asking.method, &self.asking.uri);
            let path = uri.path_and_query().map_or("/", |path| path.as_str());
            writeln!(self.err, "> {method} {path}")?;
            self.fields('>', headers)?;
        }
        Ok(())
    }

    /// The head of an answer came.
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap) -> io::Result<()> {
        if let Some(last) = self.attempts.last_mut() {
            last.status = Some(status);
        }
        if self.verbose {
            writeln!(self.err, "< {status}")?;
            self.fields('<', headers)?;
        }
        Ok(())
    }

    /// The attempt ended, and this was decided.
    pub fn decided(&mut self, decision: &Decision) -> io::Result<()> {
        let now = clock::mono_now();
        let most = self.asking.rules.retry.max_attempts;
        let Some(last) = self.attempts.last_mut() else {
            return Ok(());
        };
        // Refused at the last moment, an attempt's line has been told already.
        if last.ended.is_some() {
            last.decision = Some(*decision);
            return Ok(());
        }
        last.ended = Some(now);
        last.decision = Some(*decision);
        let took = show(now.since(last.began));
        let number = last.number;
        let what = match last.status {
            Some(status) => status.as_u16().to_string(),
            None => "no answer".to_owned(),
        };
        write!(self.err, "attempt {number} of {most}: {what} after {took}")?;
        match decision.next {
            Next::Retry { wait, .. } => writeln!(
                self.err,
                "; again in {}. {}",
                show(wait),
                decision.reason.why()
            ),
            _ => writeln!(self.err),
        }
    }

    /// Bytes of a request may have gone out.
    pub fn may_have_been_sent(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.sending)
    }

    /// Tells how it ended, and what to do.
    pub fn ends(&mut self, ended: &Ended) -> io::Result<()> {
        let Decision {
            next,
            effect,
            reason,
        } = ended.decision;
        if ended.interrupted {
            writeln!(self.err, "interrupted")?;
        }
        if let Some(detail) = &ended.detail {
            writeln!(self.err, "{detail}")?;
        }
        let unknown = next == Next::Unknown || (effect == Effect::Unknown && !ended.whole);
        if next != Next::Finish || reason != Reason::Answered {
            writeln!(self.err, "{}: {}", reason.as_str(), reason.why())?;
        }
        if unknown {
            writeln!(self.err, "{}", self.what_to_do())?;
        } else if ended.status().is_none() {
            writeln!(self.err, "Nothing was executed.")?;
        }
        Ok(())
    }

    /// It is asked whether it happened.
    pub fn looks_up(&mut self) -> io::Result<()> {
        writeln!(self.err, "looking up whether it happened")
    }

    /// What looking it up told.
    pub fn looked_up(&mut self, what: &str) -> io::Result<()> {
        writeln!(self.err, "{what}")
    }

    /// The next step where the outcome is unknown.
    fn what_to_do(&self) -> String {
        match &self.asking.key {
            Some(key) => format!(
                "The outcome is unknown: it may have been executed. Send the same request with \
                 --key {key} again, or look up whether it happened."
            ),
            None => "The outcome is unknown: it may have been executed. Look up whether it \
                     happened before you send it again; --key auto makes it safe to repeat where \
                     the endpoint honours keys."
                .to_owned(),
        }
    }

    fn fields(&mut self, mark: char, headers: &HeaderMap) -> io::Result<()> {
        let secret = [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SET_COOKIE, KEY];
        for (name, value) in headers {
            let shown = match secret.contains(name) {
                true => "(not shown)".into(),
                false => String::from_utf8_lossy(value.as_bytes()),
            };
            writeln!(self.err, "{mark} {name}: {shown}")?;
        }
        Ok(())
    }

    /// The story as JSON, without the answer's fields and body.
    pub fn as_json(&self, ended: &Ended) -> Value {
        let ms = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let attempt = |told: &Told| {
            let took = told.ended.unwrap_or(told.began).since(told.began);
            let wait = match told.decision.map(|decision| decision.next) {
                Some(Next::Retry { wait, .. }) => Some(ms(wait)),
                _ => None,
            };
            json!({
                "attempt": told.number,
                "start_ms": ms(told.began.since(self.began)),
                "took_ms": ms(took),
                "status": told.status.map(|status| status.as_u16()),
                "decision": told.decision.map(|decision| decision.next.as_str()),
                "reason": told.decision.map(|decision| decision.reason.as_str()),
                "wait_ms": wait,
            })
        };
        let decision = ended.decision;
        json!({
            "outcome": ended.outcome(),
            "status": ended.status().map(|status| status.as_u16()),
            "effect": decision.effect.as_str(),
            "reason": decision.reason.as_str(),
            "key": self.asking.key,
            "attempts": self.attempts.iter().map(attempt).collect::<Vec<_>>(),
        })
    }
}

/// A length as people read it: whole milliseconds, or less than one.
fn show(length: Duration) -> String {
    match length < Duration::from_millis(1) {
        true => "less than 1ms".to_owned(),
        false => show_length(Duration::from_millis(
            u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
        )),
    }
}
