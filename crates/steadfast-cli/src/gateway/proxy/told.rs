//! What the caller of a request without a key is told where there is no answer to pass on.

use std::time::Duration;

use http::StatusCode;
use steadfast_core::attempt::Failure;
use steadfast_core::breaker::Shut;
use steadfast_core::effect::Effect;
use steadfast_core::problem::{Problem, Slug};
use steadfast_core::retry::{Decision, Next, Reason};

/// The deadline ended it.
pub fn too_late(effect: Effect) -> Problem {
    let detail = "The deadline passed before a whole answer came. Send it again with more time.";
    Problem::new(Slug::DeadlineExceeded, detail).with_effect(effect)
}

/// The upstream's breaker is open; nothing was sent.
pub fn shut(by: Shut) -> Problem {
    let seconds = whole_seconds(by.retry_after);
    let detail = format!(
        "Too many of the upstream's last answers failed, so it is not asked for now, and nothing \
         was sent. Send it again in {seconds} s."
    );
    Problem::new(Slug::CircuitOpen, detail).retry_after(seconds)
}

/// The last attempt ended in `failure`, and `decision` says that none follows. `sent` says that
/// one of them was sent.
pub fn failed(failure: Failure, decision: Decision, sent: bool) -> Problem {
    let (effect, slug) = (decision.effect, failure.slug());
    let stopped = stopped(decision.reason);
    match decision.next {
        Next::GiveUp if decision.reason == Reason::Deadline => too_late(effect),
        Next::GiveUp if failure.never_sent() && !sent => {
            let detail = format!(
                "The upstream could not be reached ({slug}), so nothing was sent.{stopped} Send it \
                 again."
            );
            Problem::new(Slug::UpstreamUnreachable, detail)
        }
        Next::GiveUp => {
            let status = match failure {
                Failure::ReadTimeout | Failure::Idle => StatusCode::GATEWAY_TIMEOUT,
                _ => StatusCode::BAD_GATEWAY,
            };
            let detail = format!(
                "The request was sent and no whole answer came ({slug}).{stopped} Sending it again \
                 is safe."
            );
            Problem::new(Slug::UpstreamFailed, detail)
                .with_effect(effect)
                .with_status(status)
        }
        _ => {
            let detail = format!(
                "The request was sent and no whole answer came ({slug}), so it may have been \
                 executed. Look up at the service itself whether it happened; with an \
                 Idempotency-Key it could have been sent again safely."
            );
            Problem::new(Slug::OutcomeUnknown, detail).with_status(StatusCode::GATEWAY_TIMEOUT)
        }
    }
}

/// What kept another attempt from going out, where it was ours.
fn stopped(reason: Reason) -> String {
    match reason {
        Reason::Budget | Reason::CircuitOpen | Reason::OuterLayer => format!(" {}", reason.why()),
        _ => String::new(),
    }
}

/// Never early: rounded up, and at least a second, which is the least that the field says.
fn whole_seconds(length: Duration) -> u64 {
    let more = u64::from(length.subsec_nanos() > 0);
    length.as_secs().saturating_add(more).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_in_whole_seconds_and_never_too_short() {
        let table = [
            (0, 1),
            (1, 1),
            (999, 1),
            (1000, 1),
            (1001, 2),
            (4999, 5),
            (5000, 5),
        ];
        for (ms, seconds) in table {
            assert_eq!(whole_seconds(Duration::from_millis(ms)), seconds, "{ms}");
        }
    }
}
