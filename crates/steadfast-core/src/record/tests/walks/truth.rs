//! What is true of the holds, and what the record must therefore say.

use super::*;

/// What is true of one hold.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) hold: Hold,
    pub(super) doubted: bool,
    pub(super) marked: bool,
    pub(super) sent: bool,
    pub(super) ended: Option<AttemptEnd>,
    pub(super) renewed_ms: u64,
    /// An operator said since that it did nothing, or gave the answer.
    pub(super) forgiven: bool,
}

impl Holder {
    /// It sent, and nothing proves that it had no effect.
    pub(super) fn may_have_executed(&self) -> bool {
        let harmless = |end: &AttemptEnd| {
            let alone = verdict(end, &Statuses::default(), Earlier::default());
            alone.effect == Effect::None
        };
        self.sent && !self.forgiven && !self.ended.as_ref().is_some_and(harmless)
    }
}

impl Walk {
    /// What holds after every step.
    pub(super) fn check(&self, before: Option<&Record>, step: Step) {
        let now = self.bench.row.as_ref();
        if let Some(before) = before {
            let expired = before.is_expired(self.bench.now) && self.expiry_is_trusted();
            if before.standing.state == State::Completed && !expired {
                assert_eq!(now, Some(before), "{step:?}: completed is final");
            }
            match now {
                Some(now) if now != before => {
                    assert_eq!(now.version, before.version + 1, "{step:?}");
                    assert!(expired || now.id == before.id, "{step:?}");
                }
                Some(_) => {}
                None => {
                    let forgotten = self.of(before.id).any(Holder::may_have_executed);
                    assert!(expired || !forgotten, "{step:?}: an execution was removed");
                }
            }
        }
        let Some(row) = now else { return };
        assert!(row.history.len() <= HISTORY_MAX);
        let current = self.holders.iter().filter(|h| row.is_held_by(h.hold));
        assert_eq!(current.count(), usize::from(row.is_held()), "{step:?}");
        if self.of(row.id).any(Holder::may_have_executed) {
            self.check_not_forgotten(row, step);
        }
    }

    /// While something that was sent may have executed, the row says so.
    fn check_not_forgotten(&self, row: &Record, step: Step) {
        let standing = &row.standing;
        let repeats = standing.on_unknown == OnUnknown::Repeat || standing.honours_key;
        match standing.state {
            State::Completed => {
                // The queue's own ends say that it was never executed.
                let own = ["deferral-expired", "dropped"].contains(&&*standing.reason);
                assert!(
                    !own,
                    "{step:?}: what may have executed counts as not executed"
                );
            }
            State::Dispatched => {}
            State::Unknown => assert_eq!(standing.effect, Effect::Unknown, "{step:?}"),
            State::Reserved => assert!(standing.ambiguous && repeats, "{step:?}"),
            // The queue may send it again only where the upstream honours the key.
            State::Deferred => assert!(standing.ambiguous && repeats, "{step:?}"),
            State::Released => {
                panic!("{step:?}: what may have executed counts as not executed")
            }
        }
        // Whoever holds it now, a refusal alone does not settle what another may have done.
        let others = self.of(row.id).filter(|h| h.hold.owner != standing.owner);
        if row.is_held() && others.into_iter().any(Holder::may_have_executed) {
            assert!(row.earlier().ambiguous, "{step:?}");
        }
    }
}
