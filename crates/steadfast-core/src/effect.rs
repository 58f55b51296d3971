//! What the server may have done: none, unknown, applied.
//!
//! Decides the effect of one attempt from its end (the table of docs/keyed-requests.md, "What an
//! attempt's end means") and the effect of an operation as the worst over its attempts. It refuses
//! to know keys, records and policies beyond three sets of statuses. Requirements R3, I7, U1.

use std::fmt;

use http::Method;

use crate::attempt::{Answered, AttemptEnd, Failure};
use crate::policy::{Meaning, Statuses};

/// What the server may have done with an operation. `Unknown` is a result of its own, never a
/// failure (U1). The order is from best known to worst for the question "may it run again".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing happened.
    None,
    /// It may or may not have happened.
    Unknown,
    /// It happened.
    Applied,
}

impl Effect {
    /// The word in headers, records and problems.
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::None => "none",
            Effect::Unknown => "unknown",
            Effect::Applied => "applied",
        }
    }

    /// The effect that a word names.
    pub fn parse(word: &str) -> Option<Effect> {
        [Effect::None, Effect::Unknown, Effect::Applied]
            .into_iter()
            .find(|e| e.as_str() == word)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one attempt's end means for the operation's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What the server may have done, over all attempts so far.
    pub effect: Effect,
    /// Where the record goes.
    pub meaning: Meaning,
    /// The answer belongs into the record. False where there is none, or where it is only passed
    /// on.
    pub keep_answer: bool,
    /// The upstream showed that it honours keys, so it may be asked again with the same one.
    pub honours_key: bool,
}

/// What earlier attempts of the same operation left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// One of them may have executed.
    pub ambiguous: bool,
    /// The operation is repeated because the upstream honours its key.
    pub key_honoured: bool,
}

/// The verdict on an attempt's end. The effect of an operation is the worst over its attempts:
/// after one that may have executed, only a 2xx or 303 settles it — and, where the upstream honours
/// the key, also its final 4xx other than 409. Anything else leaves it unknown: passed on, never
/// stored as final, never releasing (docs/keyed-requests.md, "What an attempt's end means").
pub fn verdict(end: &AttemptEnd, statuses: &Statuses, earlier: Earlier) -> Verdict {
    let alone = match end {
        AttemptEnd::Failed(failure) => of_failure(*failure),
        AttemptEnd::Answered(answered) => of_answer(answered, statuses),
    };
    if !earlier.ambiguous || settles_ambiguity(end, &alone, earlier.key_honoured) {
        return alone;
    }
    Verdict {
        effect: Effect::Unknown,
        meaning: Meaning::Unknown,
        keep_answer: false,
        ..alone
    }
}

/// What the answer to a repeat says of the operation where an earlier attempt may have worked
/// (requirement R11): nothing left to delete means that it was deleted. A false condition leaves it
/// unknown, as [`verdict`] says. `None` where there is nothing to read.
pub fn of_repeat(method: &Method, end: &AttemptEnd, earlier: Earlier) -> Option<Effect> {
    let AttemptEnd::Answered(answered) = end else {
        return None;
    };
    let gone = matches!(answered.status.as_u16(), 404 | 410);
    let reads = earlier.ambiguous && gone && *method == Method::DELETE && !answered.says_unknown;
    reads.then_some(Effect::Applied)
}

fn settles_ambiguity(end: &AttemptEnd, alone: &Verdict, key_honoured: bool) -> bool {
    let AttemptEnd::Answered(answered) = end else {
        return false;
    };
    match answered.status.as_u16() {
        200..=299 | 303 => alone.meaning == Meaning::Final,
        409 => false,
        400..=499 => key_honoured && alone.meaning == Meaning::Final,
        _ => false,
    }
}

fn of_failure(failure: Failure) -> Verdict {
    let (effect, meaning) = if failure.never_sent() {
        (Effect::None, Meaning::Released)
    } else {
        (Effect::Unknown, Meaning::Unknown)
    };
    Verdict {
        effect,
        meaning,
        keep_answer: false,
        honours_key: false,
    }
}

fn of_answer(answered: &Answered, statuses: &Statuses) -> Verdict {
    if answered.says_unknown {
        let (effect, meaning) = (Effect::Unknown, Meaning::Unknown);
        return Verdict {
            effect,
            meaning,
            keep_answer: false,
            honours_key: true,
        };
    }
    let (effect, meaning) = match statuses.get(answered.status) {
        None => by_table(answered),
        Some(Meaning::Final) => (by_table(answered).0, Meaning::Final),
        Some(Meaning::Released) => (Effect::None, Meaning::Released),
        Some(Meaning::Unknown) => (Effect::Unknown, Meaning::Unknown),
    };
    Verdict {
        effect,
        meaning,
        keep_answer: true,
        honours_key: false,
    }
}

/// The table itself, one line a row.
fn by_table(answered: &Answered) -> (Effect, Meaning) {
    match answered.status.as_u16() {
        200..=299 | 303 => (Effect::Applied, Meaning::Final),
        307 | 308 => (Effect::None, Meaning::Released),
        300..=399 => (Effect::Unknown, Meaning::Final),
        401 | 403 | 407 | 421 | 423 | 425 | 428 | 429 | 431 => (Effect::None, Meaning::Released),
        408 if answered.request_written => (Effect::Unknown, Meaning::Unknown),
        408 => (Effect::None, Meaning::Released),
        400..=499 => (Effect::None, Meaning::Final),
        503 if answered.through_intermediary => (Effect::Unknown, Meaning::Unknown),
        503 => (Effect::None, Meaning::Released),
        _ => (Effect::Unknown, Meaning::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn answered(status: u16) -> Answered {
        Answered {
            status: StatusCode::from_u16(status).unwrap(),
            request_written: true,
            through_intermediary: false,
            says_unknown: false,
        }
    }

    fn first(end: AttemptEnd) -> (Effect, Meaning) {
        let verdict = verdict(&end, &Statuses::default(), Earlier::default());
        (verdict.effect, verdict.meaning)
    }

    // rule: attempt-end-table
    #[test]
    fn the_end_of_a_first_attempt_means_what_the_table_says() {
        use Effect::{Applied, None as Nothing, Unknown};
        use Meaning::{Final, Released};
        let table = [
            (200, Applied, Final),
            (201, Applied, Final),
            (204, Applied, Final),
            (303, Applied, Final),
            (301, Unknown, Final),
            (304, Unknown, Final),
            (307, Nothing, Released),
            (308, Nothing, Released),
            (400, Nothing, Final),
            (401, Nothing, Released),
            (402, Nothing, Final),
            (403, Nothing, Released),
            (404, Nothing, Final),
            (407, Nothing, Released),
            (408, Unknown, Meaning::Unknown),
            (409, Nothing, Final),
            (421, Nothing, Released),
            (422, Nothing, Final),
            (423, Nothing, Released),
            (425, Nothing, Released),
            (428, Nothing, Released),
            (429, Nothing, Released),
            (431, Nothing, Released),
            (500, Unknown, Meaning::Unknown),
            (502, Unknown, Meaning::Unknown),
            (503, Nothing, Released),
            (504, Unknown, Meaning::Unknown),
            (599, Unknown, Meaning::Unknown),
        ];
        for (status, effect, meaning) in table {
            assert_eq!(
                first(AttemptEnd::Answered(answered(status))),
                (effect, meaning),
                "{status}"
            );
        }
    }

    #[test]
    fn a_408_before_the_request_was_written_means_not_executed() {
        let early = Answered {
            request_written: false,
            ..answered(408)
        };
        assert_eq!(
            first(AttemptEnd::Answered(early)),
            (Effect::None, Meaning::Released)
        );
    }

    #[test]
    fn a_503_from_an_intermediary_that_may_have_sent_leaves_the_effect_unknown() {
        let relayed = Answered {
            through_intermediary: true,
            ..answered(503)
        };
        assert_eq!(
            first(AttemptEnd::Answered(relayed)),
            (Effect::Unknown, Meaning::Unknown)
        );
    }

    #[test]
    fn an_upstream_that_says_unknown_keeps_no_answer_and_honours_keys() {
        for status in [200, 409, 500, 504] {
            let says = Answered {
                says_unknown: true,
                ..answered(status)
            };
            let got = verdict(
                &AttemptEnd::Answered(says),
                &Statuses::default(),
                Earlier::default(),
            );
            assert_eq!(
                (got.effect, got.meaning),
                (Effect::Unknown, Meaning::Unknown)
            );
            assert!(!got.keep_answer && got.honours_key);
        }
    }

    // rule: never-sent-releases
    #[test]
    fn a_failure_releases_only_on_evidence_that_nothing_was_sent() {
        use Failure::*;
        for failure in [
            Resolve,
            Connect,
            Pool,
            TlsIdentity,
            TlsHandshake,
            NotWritten,
            RefusedStream,
            AboveGoaway,
        ] {
            assert_eq!(
                first(AttemptEnd::Failed(failure)),
                (Effect::None, Meaning::Released),
                "{failure:?}"
            );
        }
        for failure in [
            Write,
            ReadTimeout,
            Reset,
            BelowGoaway,
            Idle,
            Truncated,
            Abandoned,
        ] {
            assert_eq!(
                first(AttemptEnd::Failed(failure)),
                (Effect::Unknown, Meaning::Unknown),
                "{failure:?}"
            );
        }
    }

    // rule: worst-effect-over-attempts
    #[test]
    fn after_an_ambiguous_attempt_only_success_settles() {
        let earlier = Earlier {
            ambiguous: true,
            key_honoured: false,
        };
        for status in 200..=599 {
            let end = AttemptEnd::Answered(answered(status));
            let got = verdict(&end, &Statuses::default(), earlier);
            if status < 300 || status == 303 {
                assert_eq!(
                    (got.effect, got.meaning),
                    (Effect::Applied, Meaning::Final),
                    "{status}"
                );
            } else {
                assert_eq!(
                    (got.effect, got.meaning, got.keep_answer),
                    (Effect::Unknown, Meaning::Unknown, false),
                    "{status}"
                );
            }
        }
        let refused = verdict(
            &AttemptEnd::Failed(Failure::Connect),
            &Statuses::default(),
            earlier,
        );
        assert_eq!(refused.meaning, Meaning::Unknown);
    }

    #[test]
    fn under_repeat_a_final_4xx_other_than_409_settles_too() {
        let earlier = Earlier {
            ambiguous: true,
            key_honoured: true,
        };
        for (status, meaning) in [
            (400, Meaning::Final),
            (422, Meaning::Final),
            (404, Meaning::Final),
            (409, Meaning::Unknown),
            (401, Meaning::Unknown),
            (429, Meaning::Unknown),
            (500, Meaning::Unknown),
            (503, Meaning::Unknown),
        ] {
            let end = AttemptEnd::Answered(answered(status));
            assert_eq!(
                verdict(&end, &Statuses::default(), earlier).meaning,
                meaning,
                "{status}"
            );
        }
    }

    #[test]
    fn an_operator_can_move_a_status_between_the_sets() {
        let code = |s| StatusCode::from_u16(s).unwrap();
        let sets = Statuses::new(&[code(503)], &[code(500)], &[code(404)]).unwrap();
        let of = |s| {
            let got = verdict(
                &AttemptEnd::Answered(answered(s)),
                &sets,
                Earlier::default(),
            );
            (got.effect, got.meaning)
        };
        assert_eq!(of(503), (Effect::None, Meaning::Final));
        assert_eq!(of(500), (Effect::None, Meaning::Released));
        assert_eq!(of(404), (Effect::Unknown, Meaning::Unknown));
        assert!(Statuses::new(&[code(500)], &[code(500)], &[]).is_err());
    }

    #[test]
    fn a_success_that_an_operator_does_not_call_final_settles_no_ambiguity() {
        let code = |s| StatusCode::from_u16(s).unwrap();
        let earlier = Earlier {
            ambiguous: true,
            key_honoured: true,
        };
        for sets in [
            Statuses::new(&[], &[code(202), code(422)], &[]).unwrap(),
            Statuses::new(&[], &[], &[code(202), code(422)]).unwrap(),
        ] {
            for status in [202, 422] {
                let got = verdict(&AttemptEnd::Answered(answered(status)), &sets, earlier);
                assert_eq!(got.meaning, Meaning::Unknown, "{status}");
                assert_eq!((got.effect, got.keep_answer), (Effect::Unknown, false));
            }
        }
        // Nor does a failure or a gateway's 5xx that was called final.
        let sets = Statuses::new(&[code(500)], &[], &[]).unwrap();
        let got = verdict(&AttemptEnd::Answered(answered(500)), &sets, earlier);
        assert_eq!(got.meaning, Meaning::Unknown);
    }

    #[test]
    fn an_answer_that_says_unknown_settles_nothing_and_still_shows_that_the_key_is_honoured() {
        let earlier = Earlier {
            ambiguous: true,
            key_honoured: true,
        };
        for status in [200, 303, 409, 422] {
            let says = Answered {
                says_unknown: true,
                ..answered(status)
            };
            let got = verdict(&AttemptEnd::Answered(says), &Statuses::default(), earlier);
            assert_eq!(got.meaning, Meaning::Unknown, "{status}");
            assert!(got.honours_key && !got.keep_answer);
        }
    }
}
