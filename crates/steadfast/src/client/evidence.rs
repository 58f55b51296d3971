//! From a foreign error to what it proves: the one door.
//!
//! Decides nothing by an error's text. What a service's own error type says may be translated by
//! whoever knows it ([`Evidence`]); all else may have been executed, since only proof makes an
//! attempt "never sent" (requirement R3).

use std::error::Error;
use std::fmt;

use steadfast_core::attempt::Failure;

use super::pool::NeverSent;
use crate::body::{BoxError, Cut};

/// How an attempt failed, as far as is known. The error of a service that knows; it is recognised
/// wherever it stands among an error's sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it proves.
    pub failure: Failure,
    /// It met a connection that had been used before, and wrote nothing on it.
    pub stale: bool,
    /// What was seen, for people. No body, credential or key may stand in it (S2).
    pub detail: Option<String>,
}

impl From<Failure> for Seen {
    fn from(failure: Failure) -> Seen {
        Seen {
            failure,
            stale: false,
            detail: None,
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => f.write_str(detail),
            None => write!(f, "the attempt failed ({})", self.failure.slug()),
        }
    }
}

impl Error for Seen {}

/// What an error of type `E` proves. Any `Fn(&E) -> Failure` is one.
///
/// Name a failure that was never sent ([`Failure::never_sent`]) only where the error is proof:
/// a refused connection is, a connection that was closed before an answer came is not.
pub trait Evidence<E> {
    /// What `error` proves.
    fn seen(&self, error: E) -> Seen;
}

impl<E, F> Evidence<E> for F
where
    F: Fn(&E) -> Failure,
{
    fn seen(&self, error: E) -> Seen {
        Seen::from(self(&error))
    }
}

/// Recognises steadfast's own errors among an error's sources: [`Seen`], the pool's [`NeverSent`],
/// a body that was [`Cut`]. Any other error may have been executed, and reads as a reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnErrors;

impl<E: Into<BoxError>> Evidence<E> for OwnErrors {
    fn seen(&self, error: E) -> Seen {
        let error: BoxError = error.into();
        let mut next: Option<&(dyn Error + 'static)> = Some(&*error);
        while let Some(error) = next {
            if let Some(seen) = recognised(error) {
                return seen;
            }
            next = error.source();
        }
        Seen::from(Failure::Reset)
    }
}

fn recognised(error: &(dyn Error + 'static)) -> Option<Seen> {
    if let Some(seen) = error.downcast_ref::<Seen>() {
        return Some(seen.clone());
    }
    if let Some(unsent) = error.downcast_ref::<NeverSent>() {
        return Some(Seen::from(unsent.clone()));
    }
    error.downcast_ref::<Cut>().map(|cut| Seen::from(cut.0))
}

impl From<NeverSent> for Seen {
    fn from(unsent: NeverSent) -> Seen {
        Seen {
            failure: unsent.failure,
            stale: false,
            detail: Some(unsent.detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Wrapped(BoxError);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("connection refused before anything was sent")
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&*self.0)
        }
    }

    #[test]
    fn our_own_errors_are_recognised_among_an_error_s_sources_and_texts_prove_nothing() {
        let unsent = NeverSent {
            failure: Failure::Connect,
            detail: "refused".to_owned(),
        };
        let own = Wrapped(Box::new(Wrapped(Box::new(unsent))));
        assert_eq!(OwnErrors.seen(own).failure, Failure::Connect);
        let cut: BoxError = Box::new(Cut(Failure::Idle));
        assert_eq!(OwnErrors.seen(cut).failure, Failure::Idle);
        // Its text says that nothing was sent; that is no proof.
        let foreign = Wrapped(Box::new(std::io::Error::other("not sent")));
        assert_eq!(OwnErrors.seen(foreign), Seen::from(Failure::Reset));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(OwnErrors.seen(refused).failure, Failure::Reset);
    }

    #[test]
    fn who_knows_an_error_may_say_what_it_proves() {
        let door = |error: &std::io::Error| match error.kind() {
            std::io::ErrorKind::ConnectionRefused => Failure::Connect,
            _ => Failure::Reset,
        };
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(door.seen(refused).failure, Failure::Connect);
    }
}
