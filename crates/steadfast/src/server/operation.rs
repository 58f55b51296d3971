//! What a handler may know of the operation that it performs.

use std::time::Duration;

use steadfast_core::deadline::Deadline;
use steadfast_core::key::Key;

use crate::clock;

/// The keyed operation that a handler performs, as a request extension.
#[derive(Clone, Debug)]
pub struct KeyedOperation {
    /// The caller's key, to be passed on to whatever honours it.
    pub key: Key,
    /// The fence of this attempt, to be checked by whatever is written to. `None` where the
    /// operation runs unprotected, its store having failed.
    pub fence: Option<u64>,
    /// By when the operation has to end.
    pub deadline: Deadline,
}

impl KeyedOperation {
    /// What remains for the operation.
    pub fn remaining(&self) -> Duration {
        self.deadline.remaining(clock::mono_now())
    }
}

/// Why a request that passed the layer has no operation, as a request extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Keyless {
    /// It came without a key, in the field of this name.
    NoKey(http::HeaderName),
    /// The layer honours no keys on its method.
    NotHonoured,
}
