//! What a client was told about an endpoint, and an operation made ready by it.
//!
//! Decides before the first attempt, once and for all of them: the deadline, the key, and what the
//! operation is (requirements T4, I1). A key is made here and nowhere else, outside of the loop of
//! attempts, so no repeat can have another one.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, IF_MATCH, IF_UNMODIFIED_SINCE};
use http::request::Parts;
use http::{Method, Request};
use steadfast_core::deadline::Deadline;
use steadfast_core::deferral::Defer;
use steadfast_core::key::{Key, KeyRules};
use steadfast_core::policy::RoutePolicy;
use steadfast_core::repeat::KeyUse;
use steadfast_core::time::MonoTime;

use super::hop::Carried;
use super::request_body::RequestBody;
use crate::attempts::SharedUpstream;
use crate::attempts::{Asked, Attempts, Rules};
use crate::clock;

/// What holds for every operation of a client.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) rules: Arc<Rules>,
    pub(super) policy: RoutePolicy,
    /// The endpoint honours keys: writes get one, and repeats under it are safe.
    pub(super) honours_keys: bool,
    /// What remains and the attempt's number are written into each request.
    pub(super) hop_fields: bool,
    /// Answers up to so many bytes are read whole before they count as answers.
    pub(super) whole_answers: Option<usize>,
}

/// An operation before its first attempt.
pub(super) struct Prepared {
    pub(super) head: Parts,
    pub(super) body: RequestBody,
    pub(super) key: Option<Key>,
    pub(super) key_use: KeyUse,
    pub(super) carried: Carried,
    pub(super) began: MonoTime,
    pub(super) deadline: Deadline,
}

impl Settings {
    pub(super) fn new(policy: RoutePolicy) -> Settings {
        Settings {
            rules: Arc::new(Rules::of(&policy)),
            policy,
            honours_keys: false,
            hop_fields: true,
            whole_answers: None,
        }
    }

    /// Fixes the operation's deadline and key.
    pub(super) fn prepare(&self, request: Request<RequestBody>) -> Prepared {
        let (mut head, body) = request.into_parts();
        let began = clock::mono_now();
        let carried = head.extensions.remove::<Carried>().unwrap_or_default();
        let own = Deadline::after(began, self.policy.deadline);
        let deadline = carried.deadline().map_or(own, |came| came.earlier(own));
        let (key, key_use) = self.key_of(&mut head);
        Prepared {
            head,
            body,
            key,
            key_use,
            carried,
            began,
            deadline,
        }
    }

    /// The key that the request has, or one that it gets, and what it is good for.
    fn key_of(&self, head: &mut Parts) -> (Option<Key>, KeyUse) {
        let rules = &self.policy.idempotency;
        let given = given_key(&head.headers, &rules.header);
        let listed = rules.methods.contains(&head.method);
        match given {
            Given::Key(key) if self.honours_keys && listed => (Some(key), KeyUse::Honoured),
            Given::Key(key) => (Some(key), KeyUse::Carried),
            // It goes as it is, and nothing is built on it.
            Given::Unreadable => (None, KeyUse::Carried),
            Given::None if self.honours_keys && listed => {
                let key = Key::random(clock::random_bits());
                let value = key.forward(rules.forward_as);
                head.headers.insert(rules.header.clone(), value);
                (Some(key), KeyUse::Honoured)
            }
            Given::None => (None, KeyUse::None),
        }
    }
}

impl Prepared {
    /// The attempts of the operation at `upstream`.
    pub(super) fn attempts(&self, settings: &Settings, upstream: SharedUpstream) -> Attempts {
        let asked = Asked {
            method: self.head.method.clone(),
            key: self.key_use,
            body: self.body.kind(),
            conditional: is_conditional(&self.head.headers),
        };
        // Without a key there is nothing under which it could be sent later.
        let rules = match settings.policy.defer != Defer::Never && self.key.is_some() {
            true => Arc::new(Rules {
                may_defer: true,
                ..(*settings.rules).clone()
            }),
            false => Arc::clone(&settings.rules),
        };
        let attempts = Attempts::new(rules, asked, self.deadline, upstream);
        match settings.policy.honor_attempts && self.carried.attempt() > 1 {
            true => attempts.only_unsent(),
            false => attempts,
        }
    }

    /// The same method, with what was said of repeating it.
    pub(super) fn may_be_repeated(&self, settings: &Settings) -> bool {
        let method = &self.head.method;
        let contract = settings.rules.retry.contract;
        let by_contract = contract
            .safe_to_repeat
            .unwrap_or_else(|| Method::is_idempotent(method));
        match self.key_use {
            KeyUse::Honoured => true,
            KeyUse::Carried => false,
            KeyUse::None => by_contract,
        }
    }
}

fn is_conditional(headers: &HeaderMap) -> bool {
    headers.contains_key(IF_MATCH) || headers.contains_key(IF_UNMODIFIED_SINCE)
}

enum Given {
    None,
    Key(Key),
    Unreadable,
}

/// What the caller put into the key's field. Its strength is the caller's affair.
fn given_key(headers: &HeaderMap, name: &HeaderName) -> Given {
    let any = KeyRules {
        length: 1..=255,
        min_entropy_bits: 0,
    };
    let lines = headers.get_all(name).iter().map(|line| line.as_bytes());
    match Key::parse(lines, &any) {
        Ok(None) => Given::None,
        Ok(Some(key)) => Given::Key(key),
        Err(_) => Given::Unreadable,
    }
}
