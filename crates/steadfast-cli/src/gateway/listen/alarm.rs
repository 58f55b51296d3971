//! One limit of time at a time, for futures that are polled by hand.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use steadfast::clock;

/// A limit that runs, and what is awaited within it.
pub(super) struct Alarm<A> {
    awaited: A,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Starts the limit when something else was awaited before, and looks whether it is over.
pub(super) fn poll_alarm<A: Copy + PartialEq>(
    alarm: &mut Option<Alarm<A>>,
    awaited: A,
    limit: Duration,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if alarm.as_ref().is_none_or(|alarm| alarm.awaited != awaited) {
        *alarm = None;
    }
    let alarm = alarm.get_or_insert_with(|| Alarm {
        awaited,
        over: Box::pin(clock::sleep(limit)),
    });
    alarm.over.as_mut().poll(cx)
}
