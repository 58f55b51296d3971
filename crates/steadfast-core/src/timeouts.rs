//! The limits of one attempt's phases, each with the two instants it runs between.
//!
//! Decides which limit applies and that none is infinite (requirement T1). It refuses to measure: a
//! driver runs the clock and reports a [`crate::attempt::Failure`].

use std::time::Duration;

/// Limits of one attempt. Every field has a finite default; the reasons are in `docs/defaults.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the question to the resolver until its answer.
    pub resolve: Duration,
    /// From the first SYN to one address until the connection stands.
    pub connect: Duration,
    /// From the connected socket until the handshake is done.
    pub tls: Duration,
    /// From the first byte offered until the request is written in full; progress does not extend
    /// it.
    pub write: Duration,
    /// From the last byte written until the whole response head.
    pub response: Duration,
    /// Between two chunks of a response body.
    pub idle: Duration,
    /// From the start of the attempt until its response head.
    pub attempt: Duration,
    /// From asking the pool until a connection or the leave to open one.
    pub pool: Duration,
    /// An attempt with less than this left is not started.
    pub min_attempt: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            resolve: Duration::from_secs(2),
            connect: Duration::from_secs(2),
            tls: Duration::from_secs(3),
            write: Duration::from_secs(10),
            response: Duration::from_secs(20),
            idle: Duration::from_secs(20),
            attempt: Duration::from_secs(20),
            pool: Duration::from_secs(2),
            min_attempt: Duration::ZERO,
        }
    }
}

impl Timeouts {
    /// The same limits, none longer than `deadline`: a limit that can never be reached is cut, so
    /// that what is shown is what holds (docs/reference.md, "Configuration").
    pub fn within(self, deadline: Duration) -> Timeouts {
        Timeouts {
            resolve: self.resolve.min(deadline),
            connect: self.connect.min(deadline),
            tls: self.tls.min(deadline),
            write: self.write.min(deadline),
            response: self.response.min(deadline),
            idle: self.idle.min(deadline),
            attempt: self.attempt.min(deadline),
            pool: self.pool.min(deadline),
            min_attempt: self.min_attempt,
        }
    }
}
