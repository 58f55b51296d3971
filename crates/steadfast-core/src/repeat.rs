//! Whether an operation may be sent again at all: its method, its key, its contract, its body.
//!
//! Decides the operation first, before any error is judged (requirement R1): what an attempt may
//! have done is given ([`Did`]), whether it is worth sending again, and whether anything is left to
//! send it with, is [`crate::retry`]'s. The table is R2's; a body is resent byte for byte or not at
//! all (R10). A client may repeat a method that is not idempotent only where it knows that the
//! first was never applied or that repeating it is harmless (RFC 9110, 9.2.2): evidence, or a key
//! that the endpoint honours, is that knowledge.

use http::Method;

use crate::attempt::{AttemptEnd, Failure};
use crate::effect::Effect;

/// Whether a request carries a key, and what is known of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyUse {
    /// No key.
    None,
    /// A key, and nothing says that the endpoint honours it.
    Carried,
    /// A key that the endpoint honours: a repeat is answered with the first answer.
    Honoured,
}

/// Whether the request's body can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyKind {
    /// There is none, or every byte of it is kept.
    Whole,
    /// It is read once, while it is sent.
    Streamed,
}

/// What is known of an operation before its first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The method.
    pub method: &'a Method,
    /// Its key.
    pub key: KeyUse,
    /// Its body.
    pub body: BodyKind,
    /// It carries a condition on the state that it changes: `If-Match` or `If-Unmodified-Since`.
    pub conditional: bool,
}

/// What an endpoint's contract says beyond its methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Repeating is safe, or is not, whatever the method says.
    pub safe_to_repeat: Option<bool>,
    /// A write without a key goes again where it was provably never sent.
    pub unsent_writes: bool,
}

impl Default for Contract {
    fn default() -> Self {
        Contract {
            safe_to_repeat: None,
            unsent_writes: true,
        }
    }
}

impl Operation<'_> {
    /// Sending it twice does what sending it once does, by its contract and without a key.
    pub fn is_repeatable(&self, contract: Contract) -> bool {
        match contract.safe_to_repeat {
            Some(says) => says,
            None => self.method.is_idempotent(),
        }
    }

    /// It changes nothing at the server, whatever becomes of it (RFC 9110, 9.2.1).
    pub fn is_safe(&self) -> bool {
        self.method.is_safe()
    }
}

/// What the last attempt did, as far as repeating goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// The evidence says that it was never sent; whether a byte of the body was taken.
    NotSent {
        /// The body was not touched: there was no connection yet.
        body_untouched: bool,
    },
    /// The upstream's status promises that it did nothing.
    SaidNothing,
    /// It may have been executed, or was.
    Maybe,
}

impl Did {
    /// What `end`, whose effect alone is `effect`, did. `ambiguous` says that an earlier attempt of
    /// the operation may have been executed.
    pub fn by(end: &AttemptEnd, effect: Effect, ambiguous: bool) -> Did {
        let untouched = |failure: &Failure| {
            matches!(
                failure,
                Failure::Resolve
                    | Failure::Connect
                    | Failure::Pool
                    | Failure::TlsIdentity
                    | Failure::TlsHandshake
            )
        };
        match (end, effect) {
            _ if ambiguous => Did::Maybe,
            (AttemptEnd::Failed(failure), _) if failure.never_sent() => Did::NotSent {
                body_untouched: untouched(failure),
            },
            (_, Effect::None) => Did::SaidNothing,
            _ => Did::Maybe,
        }
    }
}

/// Why it may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grounds {
    /// Nothing reached the server.
    NeverSent,
    /// The method is safe.
    Safe,
    /// The method is idempotent, or the contract says that repeating is safe.
    Idempotent,
    /// The endpoint honours the key.
    KeyHonoured,
}

/// Why it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It may have been executed, and nothing says that repeating it is safe.
    MaybeExecuted,
    /// A write without an honoured key, that a status says was not executed: a promise is no
    /// evidence.
    Unkeyed,
    /// Never sent, and writes without a key are not to go again even so.
    UnsentWrites,
    /// The body was read while it was sent, and is gone.
    BodyStreamed,
}

/// Whether `operation` may be sent again after an attempt that did `did`.
///
/// # Errors
/// The [`Obstacle`].
pub fn may_repeat(
    operation: Operation<'_>,
    contract: Contract,
    did: Did,
) -> Result<Grounds, Obstacle> {
    let grounds = grounds(operation, contract, did)?;
    let gone = !matches!(
        did,
        Did::NotSent {
            body_untouched: true
        }
    );
    match operation.body {
        BodyKind::Streamed if gone => Err(Obstacle::BodyStreamed),
        _ => Ok(grounds),
    }
}

fn grounds(operation: Operation<'_>, contract: Contract, did: Did) -> Result<Grounds, Obstacle> {
    match (operation.key, did) {
        (KeyUse::Honoured, Did::NotSent { .. }) => Ok(Grounds::NeverSent),
        (KeyUse::Honoured, _) => Ok(Grounds::KeyHonoured),
        // A record stands for it: what it may have done is the record's, whatever the method.
        (KeyUse::Carried, Did::NotSent { .. }) => Ok(Grounds::NeverSent),
        (KeyUse::Carried, Did::SaidNothing) => Err(Obstacle::Unkeyed),
        (KeyUse::Carried, Did::Maybe) => Err(Obstacle::MaybeExecuted),
        (KeyUse::None, Did::NotSent { .. }) => {
            let write = !operation.is_repeatable(contract);
            match write && !contract.unsent_writes {
                true => Err(Obstacle::UnsentWrites),
                false => Ok(Grounds::NeverSent),
            }
        }
        (KeyUse::None, did) => match (operation.is_repeatable(contract), did) {
            (true, _) if operation.is_safe() => Ok(Grounds::Safe),
            (true, _) => Ok(Grounds::Idempotent),
            (false, Did::SaidNothing) => Err(Obstacle::Unkeyed),
            (false, _) => Err(Obstacle::MaybeExecuted),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_SENT: Did = Did::NotSent {
        body_untouched: true,
    };

    fn may(method: Method, key: KeyUse, did: Did) -> Result<Grounds, Obstacle> {
        let operation = Operation {
            method: &method,
            key,
            body: BodyKind::Whole,
            conditional: false,
        };
        may_repeat(operation, Contract::default(), did)
    }

    // rule: unkeyed-writes-go-again-only-when-never-sent
    #[test]
    fn a_write_without_key_goes_again_on_evidence_alone() {
        for method in [Method::POST, Method::PATCH] {
            let may = |did| may(method.clone(), KeyUse::None, did);
            assert_eq!(may(NOT_SENT), Ok(Grounds::NeverSent));
            assert_eq!(may(Did::SaidNothing), Err(Obstacle::Unkeyed));
            assert_eq!(may(Did::Maybe), Err(Obstacle::MaybeExecuted));
        }
    }

    // rule: repeatable-by-method
    #[test]
    fn safe_and_idempotent_methods_go_again_whatever_they_did() {
        for did in [NOT_SENT, Did::SaidNothing, Did::Maybe] {
            for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
                assert!(may(method, KeyUse::None, did).is_ok());
            }
            for method in [Method::PUT, Method::DELETE] {
                assert!(may(method, KeyUse::None, did).is_ok());
            }
        }
        let after = may(Method::PUT, KeyUse::None, Did::Maybe);
        assert_eq!(after, Ok(Grounds::Idempotent));
    }

    // rule: repeatable-by-honoured-key
    #[test]
    fn a_key_lets_a_write_go_again_only_where_the_endpoint_honours_it() {
        let may = |key, did| may(Method::POST, key, did);
        assert_eq!(may(KeyUse::Honoured, Did::Maybe), Ok(Grounds::KeyHonoured));
        let said = may(KeyUse::Honoured, Did::SaidNothing);
        assert_eq!(said, Ok(Grounds::KeyHonoured));
        assert_eq!(may(KeyUse::Carried, NOT_SENT), Ok(Grounds::NeverSent));
        let carried = may(KeyUse::Carried, Did::Maybe);
        assert_eq!(carried, Err(Obstacle::MaybeExecuted));
    }

    // rule: a-streamed-body-is-not-resent
    #[test]
    fn a_body_that_was_read_while_sent_is_not_sent_again() {
        let operation = Operation {
            method: &Method::PUT,
            key: KeyUse::None,
            body: BodyKind::Streamed,
            conditional: false,
        };
        let may = |did| may_repeat(operation, Contract::default(), did);
        assert_eq!(may(Did::Maybe), Err(Obstacle::BodyStreamed));
        assert_eq!(may(NOT_SENT), Ok(Grounds::NeverSent));
        let taken = Did::NotSent {
            body_untouched: false,
        };
        assert_eq!(may(taken), Err(Obstacle::BodyStreamed));
    }

    // rule: contract-over-method
    #[test]
    fn the_contract_counts_over_the_method_and_can_keep_unsent_writes() {
        let may = |method: &Method, contract, did| {
            let operation = Operation {
                method,
                key: KeyUse::None,
                body: BodyKind::Whole,
                conditional: false,
            };
            may_repeat(operation, contract, did)
        };
        let not_safe = Contract {
            safe_to_repeat: Some(false),
            ..Contract::default()
        };
        let put = may(&Method::PUT, not_safe, Did::Maybe);
        assert_eq!(put, Err(Obstacle::MaybeExecuted));
        let search = Contract {
            safe_to_repeat: Some(true),
            ..Contract::default()
        };
        let post = may(&Method::POST, search, Did::Maybe);
        assert_eq!(post, Ok(Grounds::Idempotent));
        let strict = Contract {
            unsent_writes: false,
            ..Contract::default()
        };
        let unsent = may(&Method::POST, strict, NOT_SENT);
        assert_eq!(unsent, Err(Obstacle::UnsentWrites));
        assert!(may(&Method::PUT, strict, NOT_SENT).is_ok());
    }

    #[test]
    fn after_an_ambiguous_attempt_no_later_one_counts_as_never_sent() {
        let end = AttemptEnd::Failed(Failure::Connect);
        assert_eq!(Did::by(&end, Effect::Unknown, true), Did::Maybe);
        assert_eq!(Did::by(&end, Effect::None, false), NOT_SENT);
    }
}
