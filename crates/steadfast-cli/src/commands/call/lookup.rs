//! `call --lookup`: after an unknown end, asking whether it happened.

use std::io;
use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE};
use http::{Method, StatusCode};
use steadfast::clock;
use steadfast_core::effect::Effect;
use steadfast_core::retry::{Decision, Next, Reason};

use super::answer::Output;
use super::ask::{Asking, KEY};
use super::end::Ended;
use super::go;
use super::story::Story;
use crate::args::CallArgs;

/// Between two questions: a service may take a moment to know what it is about to do.
const AGAIN: Duration = Duration::from_secs(1);

/// The question, read before anything is sent; `None` where none was asked for.
pub(super) fn asking(args: &CallArgs, first: &Asking) -> Result<Option<Asking>, String> {
    let Some(url) = &args.lookup else {
        return Ok(None);
    };
    let url = match (&first.key, url.contains("{key}")) {
        (Some(key), _) => url.replace("{key}", &escaped(key)),
        (None, true) => return Err("{key} stands for a key, and none is sent; add --key".into()),
        (None, false) => url.clone(),
    };
    let mut asks = CallArgs {
        method: Method::GET,
        url,
        data: Vec::new(),
        key: None,
        lookup: None,
        ..args.clone()
    };
    asks.headers.retain(|(name, _)| *name != KEY);
    let mut question = Asking::read(&asks)?;
    // A credential is for the service that it was given for.
    if question.target != first.target {
        question.headers.remove(AUTHORIZATION);
        question.headers.remove(COOKIE);
    }
    Ok(Some(question))
}

/// A key as a part of a path or a query (RFC 3986, 2.3).
fn escaped(key: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let part = |b: u8| match plain(b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    };
    key.bytes().map(part).collect()
}

/// Asks, and gives what is known then: the answer that was found, that nothing was executed, or
/// `ended` as it was. That it is absent counts twice in a row.
pub(super) async fn ask(
    question: &Asking,
    ended: Ended,
    story: &mut Story<'_>,
    output: &mut Output<'_>,
) -> io::Result<Ended> {
    let mut absent = 0;
    loop {
        story.looks_up()?;
        let found = go(question, story, output).await?;
        match found.status() {
            Some(status) if status.is_success() => {
                story.looked_up("it was done, and this is what is known of it")?;
                return Ok(found);
            }
            Some(StatusCode::NOT_FOUND) => absent += 1,
            _ => {
                story.looked_up("that tells nothing; the outcome stays unknown")?;
                return Ok(ended);
            }
        }
        if absent == 2 {
            story.looked_up("it is not there, twice: nothing was executed")?;
            return Ok(Ended {
                decision: Decision {
                    next: Next::GiveUp,
                    effect: Effect::None,
                    reason: Reason::Answered,
                },
                answer: None,
                whole: false,
                detail: None,
                interrupted: false,
            });
        }
        clock::sleep(AGAIN).await;
    }
}
