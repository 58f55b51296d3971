//! The tables of R2 read like the tables; then the order of the decision; then what holds always.

use http::{Method, StatusCode};
use proptest::prelude::*;

use super::*;
use crate::backoff::{Backoff, Curve, Jitter};
use crate::breaker::{BreakerPolicy, Shut};
use crate::budget::BudgetPolicy;
use crate::deadline::Deadline;
use crate::repeat::{BodyKind, Contract};
use crate::time::MonoTime;
use crate::upstream::{Outcome, Upstream};
use crate::window::Ratio;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A case, with what `explain` assumes of it.
#[derive(Clone)]
struct Case {
    method: Method,
    key: KeyUse,
    body: BodyKind,
    conditional: bool,
    policy: RetryPolicy,
    course: Course,
    remaining: Duration,
    signs: Signs,
    passed_on: bool,
    may_defer: bool,
}

fn case(method: Method, key: KeyUse) -> Case {
    Case {
        method,
        key,
        body: BodyKind::Whole,
        conditional: false,
        policy: RetryPolicy::default(),
        course: Course::FIRST,
        remaining: Duration::from_secs(30),
        signs: Signs::NONE,
        passed_on: false,
        may_defer: false,
    }
}

impl Case {
    fn decide(
        &self,
        end: AttemptEnd,
        may_go: impl FnOnce(Duration) -> Result<(), Refused>,
    ) -> Decision {
        let situation = Situation {
            operation: Operation {
                method: &self.method,
                key: self.key,
                body: self.body,
                conditional: self.conditional,
            },
            policy: &self.policy,
            statuses: &Statuses::default(),
            course: self.course,
            remaining: self.remaining,
            attempt_limit: Duration::from_secs(20),
            min_attempt: Duration::ZERO,
            passed_on: self.passed_on,
            may_defer: self.may_defer,
        };
        let draw = || Draw::from_bits(0);
        on_end(&situation, &end, &self.signs, draw, may_go)
    }

    fn status(&self, status: u16) -> Decision {
        self.decide(answered(status), |_| Ok(()))
    }

    fn failed(&self, failure: Failure) -> Decision {
        self.decide(AttemptEnd::Failed(failure), |_| Ok(()))
    }
}

fn answered(status: u16) -> AttemptEnd {
    AttemptEnd::Answered(Answered {
        status: StatusCode::from_u16(status).expect("a status"),
        request_written: true,
        through_intermediary: false,
        says_unknown: false,
    })
}

fn says(decision: Decision) -> (&'static str, Effect, Reason) {
    (decision.next.as_str(), decision.effect, decision.reason)
}

const FAILURES: [Failure; 15] = [
    Failure::Resolve,
    Failure::Connect,
    Failure::Pool,
    Failure::TlsIdentity,
    Failure::TlsHandshake,
    Failure::NotWritten,
    Failure::Write,
    Failure::ReadTimeout,
    Failure::Reset,
    Failure::RefusedStream,
    Failure::AboveGoaway,
    Failure::BelowGoaway,
    Failure::Idle,
    Failure::Truncated,
    Failure::Abandoned,
];

// rule: r2-worked-examples
#[test]
fn the_worked_examples_of_the_starting_table() {
    let worked = [
        (Method::GET, KeyUse::None, 503, "retry"),
        (Method::POST, KeyUse::None, 504, "unknown"),
        (Method::POST, KeyUse::Honoured, 504, "retry"),
        (Method::POST, KeyUse::Honoured, 400, "finish"),
    ];
    for (method, key, status, next) in worked {
        let got = case(method.clone(), key).status(status);
        assert_eq!(got.next.as_str(), next, "{method} {key:?} {status}");
    }
}

// rule: r2-starting-table-statuses
#[test]
fn the_starting_table_by_status() {
    use KeyUse::{Carried, Honoured, None as No};
    // method, key ->  408       425       429       500        502        503       504
    let table: &[(Method, KeyUse, [&str; 7])] = &[
        (Method::GET, No, ["retry"; 7]),
        (Method::HEAD, No, ["retry"; 7]),
        (Method::OPTIONS, No, ["retry"; 7]),
        (Method::PUT, No, ["retry"; 7]),
        (Method::DELETE, No, ["retry"; 7]),
        (Method::POST, Honoured, ["retry"; 7]),
        (Method::PATCH, Honoured, ["retry"; 7]),
        (
            Method::POST,
            No,
            [
                "unknown", "finish", "finish", "unknown", "unknown", "finish", "unknown",
            ],
        ),
        (
            Method::POST,
            Carried,
            [
                "unknown", "finish", "finish", "unknown", "unknown", "finish", "unknown",
            ],
        ),
    ];
    let statuses = [408, 425, 429, 500, 502, 503, 504];
    for (method, key, row) in table {
        for (status, next) in statuses.into_iter().zip(row) {
            let got = case(method.clone(), *key).status(status);
            assert_eq!(got.next.as_str(), *next, "{method} {key:?} {status}");
        }
    }
}

// rule: r2-starting-table-errors
#[test]
fn the_starting_table_by_failure() {
    use Failure::*;
    for failure in FAILURES {
        let repeated = !matches!(failure, TlsIdentity | Pool | Abandoned);
        for method in [
            Method::GET,
            Method::HEAD,
            Method::OPTIONS,
            Method::PUT,
            Method::DELETE,
        ] {
            let got = case(method.clone(), KeyUse::None).failed(failure);
            let next = if repeated { "retry" } else { "give_up" };
            assert_eq!(got.next.as_str(), next, "{method} {failure:?}");
        }
        let unkeyed = case(Method::POST, KeyUse::None).failed(failure);
        let next = match failure {
            TlsIdentity | Pool => "give_up",
            _ if failure.never_sent() => "retry",
            _ => "unknown",
        };
        assert_eq!(unkeyed.next.as_str(), next, "POST {failure:?}");
        let keyed = case(Method::POST, KeyUse::Honoured).failed(failure);
        let next = match failure {
            TlsIdentity | Pool => "give_up",
            Abandoned => "unknown",
            _ => "retry",
        };
        assert_eq!(keyed.next.as_str(), next, "keyed POST {failure:?}");
    }
}

// rule: client-errors-are-never-repeated
#[test]
fn other_client_errors_stand_on_any_method_with_any_key() {
    for method in [Method::GET, Method::PUT, Method::POST, Method::PATCH] {
        for key in [KeyUse::None, KeyUse::Carried, KeyUse::Honoured] {
            for status in (400..500).filter(|s| ![408, 425, 429].contains(s)) {
                let got = says(case(method.clone(), key).status(status));
                assert_eq!(got, ("finish", Effect::None, Reason::Answered), "{status}");
            }
        }
    }
}

// rule: identity-failures-are-never-repeated
#[test]
fn a_refused_identity_is_never_repeated_whatever_the_method_and_the_policy() {
    for method in [Method::GET, Method::PUT, Method::POST] {
        for key in [KeyUse::None, KeyUse::Honoured] {
            let got = says(case(method.clone(), key).failed(Failure::TlsIdentity));
            let never = ("give_up", Effect::None, Reason::IdentityRefused);
            assert_eq!(got, never);
        }
    }
}

// rule: unknown-is-not-failed
#[test]
fn what_may_have_been_executed_and_is_not_repeated_is_unknown_and_not_failed() {
    for failure in [
        Failure::ReadTimeout,
        Failure::Reset,
        Failure::Write,
        Failure::Truncated,
    ] {
        for method in [Method::POST, Method::PATCH] {
            let got = says(case(method, KeyUse::None).failed(failure));
            assert_eq!(got, ("unknown", Effect::Unknown, Reason::MaybeExecuted));
        }
    }
    // A key that is honoured, and nothing left to go again with.
    let mut last = case(Method::POST, KeyUse::Honoured);
    last.course.attempts = 3;
    let got = says(last.failed(Failure::ReadTimeout));
    assert_eq!(got, ("unknown", Effect::Unknown, Reason::AttemptsUsed));
    let got = says(last.status(503));
    assert_eq!(got, ("give_up", Effect::None, Reason::AttemptsUsed));
    // A record stands for what carries a key, whatever the method.
    last.method = Method::PUT;
    let got = says(last.failed(Failure::ReadTimeout));
    assert_eq!(got, ("unknown", Effect::Unknown, Reason::AttemptsUsed));
}

// rule: an-effect-of-none-needs-evidence
#[test]
fn an_effect_of_none_is_told_only_of_what_was_never_sent_or_changes_nothing() {
    for failure in FAILURES {
        for method in [Method::GET, Method::PUT, Method::DELETE, Method::POST] {
            for key in [KeyUse::None, KeyUse::Carried, KeyUse::Honoured] {
                let got = case(method.clone(), key).failed(failure);
                let harmless = method.is_safe() && key == KeyUse::None;
                let none = failure.never_sent() || harmless;
                assert_eq!(got.effect == Effect::None, none, "{method} {failure:?}");
            }
        }
    }
}

// rule: truncated-answers
#[test]
fn an_answer_that_was_cut_is_repeated_for_reads_and_honoured_keys_alone() {
    let mut get = case(Method::GET, KeyUse::None);
    assert_eq!(get.failed(Failure::Truncated).next.as_str(), "retry");
    get.passed_on = true;
    let got = says(get.failed(Failure::Truncated));
    assert_eq!(got, ("give_up", Effect::None, Reason::PassedOn));
    let keyed = case(Method::POST, KeyUse::Honoured).failed(Failure::Truncated);
    assert_eq!(says(keyed), ("retry", Effect::Unknown, Reason::KeyHonoured));
    let unkeyed = case(Method::POST, KeyUse::None).failed(Failure::Truncated);
    assert_eq!(unkeyed.next.as_str(), "unknown");
}

// rule: retry-after-is-obeyed-in-full
#[test]
fn a_valid_retry_after_is_obeyed_in_full_or_not_at_all() {
    let mut told = case(Method::GET, KeyUse::None);
    told.signs.retry_after = Advice::Wait(Duration::from_secs(7));
    let Next::Retry { wait, limit, .. } = told.status(503).next else {
        panic!("it fits");
    };
    assert_eq!((wait, limit), (MS(7_000), MS(20_000)));

    told.signs.retry_after = Advice::Wait(Duration::from_secs(120));
    told.remaining = Duration::from_secs(10);
    let got = says(told.status(503));
    assert_eq!(got, ("give_up", Effect::None, Reason::RetryAfter));
    told.may_defer = true;
    let not_before = Duration::from_secs(120);
    assert_eq!(told.status(503).next, Next::Defer { not_before });

    told.may_defer = false;
    told.policy.obey_retry_after = false;
    assert_eq!(told.status(503).next.as_str(), "retry");

    let mut endless = case(Method::GET, KeyUse::None);
    endless.signs.retry_after = Advice::Wait(Duration::from_secs(u64::MAX));
    assert_eq!(endless.status(429).reason, Reason::RetryAfter);
    endless.policy.max_wait = Some(Duration::from_secs(60));
    assert_eq!(endless.status(429).reason, Reason::MaxWait);
    endless.signs.retry_after = Advice::Invalid;
    assert_eq!(endless.status(429).next.as_str(), "retry", "ignored");
}

// rule: in-progress-to-our-own-key-is-a-wait
#[test]
fn an_answer_that_our_own_key_is_at_work_is_waited_for() {
    let mut keyed = case(Method::POST, KeyUse::Carried);
    keyed.signs.in_progress = true;
    let end = AttemptEnd::Answered(Answered {
        status: StatusCode::CONFLICT,
        request_written: true,
        through_intermediary: false,
        says_unknown: true,
    });
    let got = keyed.decide(end, |_| Ok(()));
    assert_eq!(says(got), ("retry", Effect::Unknown, Reason::InProgress));
    // Without a key of ours it is a conflict as any other.
    let mut unkeyed = keyed.clone();
    unkeyed.key = KeyUse::None;
    assert_eq!(unkeyed.status(409).next.as_str(), "finish");
    // `outcome-unknown` is no wait.
    keyed.signs.in_progress = false;
    let got = says(keyed.decide(end, |_| Ok(())));
    assert_eq!(got, ("unknown", Effect::Unknown, Reason::SaysUnknown));
}

// rule: a-replay-is-not-repeated
#[test]
fn an_answer_that_is_marked_as_a_replay_is_repeated_only_where_it_says_effect_none() {
    let mut replayed = case(Method::POST, KeyUse::Honoured);
    replayed.signs.replayed = true;
    let got = says(replayed.status(503));
    assert_eq!(got, ("finish", Effect::None, Reason::Replayed));
    let got = says(replayed.status(500));
    assert_eq!(got, ("unknown", Effect::Unknown, Reason::Replayed));
    replayed.signs.says_none = true;
    assert_eq!(replayed.status(503).next.as_str(), "retry");
}

// rule: r11-reading-a-repeat
#[test]
fn after_an_ambiguous_attempt_nothing_to_delete_means_deleted_and_a_false_condition_is_unknown() {
    let mut again = case(Method::DELETE, KeyUse::None);
    for status in [404, 410] {
        let first = says(again.status(status));
        assert_eq!(first, ("finish", Effect::None, Reason::Answered));
    }
    again.course.attempts = 2;
    again.course.earlier.ambiguous = true;
    for status in [404, 410] {
        let got = says(again.status(status));
        let read = ("finish", Effect::Applied, Reason::RepeatedDelete);
        assert_eq!(got, read);
    }
    again.method = Method::PUT;
    let got = says(again.status(404));
    assert_eq!(got.1, Effect::Unknown, "it is no DELETE");
    again.conditional = true;
    let got = says(again.status(412));
    assert_eq!(got, ("finish", Effect::Unknown, Reason::RepeatedCondition));
}

#[test]
fn after_an_ambiguous_attempt_what_is_never_sent_is_as_unknown_as_before() {
    let mut again = case(Method::POST, KeyUse::Honoured);
    again.course.attempts = 3;
    again.course.earlier.ambiguous = true;
    let got = says(again.failed(Failure::Connect));
    assert_eq!(got, ("unknown", Effect::Unknown, Reason::AttemptsUsed));
    let got = says(again.status(401));
    assert_eq!(got, ("unknown", Effect::Unknown, Reason::MaybeExecuted));
    let got = says(again.status(422));
    assert_eq!(got, ("finish", Effect::None, Reason::Answered));
    assert_eq!(again.status(201).effect, Effect::Applied);
}

// rule: outer-layer-owns-retries
#[test]
fn behind_an_outer_layer_only_what_was_never_sent_goes_again() {
    let mut inner = case(Method::GET, KeyUse::None);
    inner.course.only_unsent = true;
    let got = says(inner.status(503));
    assert_eq!(got, ("finish", Effect::None, Reason::OuterLayer));
    assert_eq!(
        inner.failed(Failure::ReadTimeout).reason,
        Reason::OuterLayer
    );
    assert_eq!(inner.failed(Failure::Connect).next.as_str(), "retry");
}

// rule: a-stale-connection-costs-nothing
#[test]
fn a_resend_after_a_stale_connection_waits_for_nothing_and_asks_nobody() {
    let mut stale = case(Method::POST, KeyUse::None);
    stale.signs.stale = true;
    let shut = Refused::Budget;
    let got = stale.decide(AttemptEnd::Failed(Failure::NotWritten), |_| Err(shut));
    let resend = Next::Retry {
        wait: Duration::ZERO,
        limit: MS(20_000),
        sends: Sends::Resend,
    };
    assert_eq!((got.next, got.reason), (resend, Reason::StaleConnection));
    stale.course.attempts = 3;
    let got = stale.failed(Failure::NotWritten);
    assert_eq!(got.reason, Reason::AttemptsUsed, "it counts as an attempt");
}

// rule: a-streamed-body-is-the-reason
#[test]
fn a_streamed_body_makes_an_operation_not_repeatable_and_is_the_reason_given() {
    let mut streamed = case(Method::PUT, KeyUse::None);
    streamed.body = BodyKind::Streamed;
    let got = says(streamed.failed(Failure::ReadTimeout));
    assert_eq!(got, ("give_up", Effect::Unknown, Reason::BodyStreamed));
    let got = says(streamed.status(503));
    assert_eq!(got, ("finish", Effect::None, Reason::BodyStreamed));
    assert_eq!(streamed.failed(Failure::Connect).next.as_str(), "retry");
    streamed.method = Method::POST;
    streamed.key = KeyUse::Honoured;
    let got = says(streamed.failed(Failure::ReadTimeout));
    assert_eq!(got, ("unknown", Effect::Unknown, Reason::BodyStreamed));
}

#[test]
fn what_a_policy_does_not_list_is_not_repeated() {
    let mut listed = case(Method::PUT, KeyUse::None);
    listed.policy.methods = Some(vec![Method::GET]);
    let got = says(listed.status(503));
    assert_eq!(got, ("finish", Effect::None, Reason::MethodNotListed));
    listed.policy.methods = None;
    listed.policy.on_error = ErrorSet::none();
    let got = says(listed.failed(Failure::Reset));
    assert_eq!(got, ("give_up", Effect::Unknown, Reason::ErrorNotListed));
    listed.policy.on_status = StatusSet::from_iter([]);
    let got = says(listed.status(500));
    assert_eq!(got.0, "finish", "an answer stands");
    let mut post = case(Method::POST, KeyUse::None);
    post.policy.contract.unsent_writes = false;
    let got = says(post.failed(Failure::Connect));
    assert_eq!(got, ("give_up", Effect::None, Reason::UnsentWrites));
}

// rule: order-of-the-decision
#[test]
fn each_check_comes_before_the_next_and_the_budget_last() {
    let shut = Shut {
        retry_after: MS(5_000),
    };
    // Everything hinders it; what is named first is taken away, one by one.
    let mut all = case(Method::POST, KeyUse::None);
    all.policy.backoff = Backoff::new(Curve::Fixed, MS(100), MS(100), Jitter::None).expect("sound");
    all.course.attempts = 3;
    all.remaining = MS(50);
    all.signs.retry_after = Advice::Wait(MS(60));
    let open = |_: Duration| Err(Refused::Open(shut));
    let got = all.decide(AttemptEnd::Failed(Failure::TlsIdentity), open);
    assert_eq!(got.reason, Reason::IdentityRefused);
    let timed_out = AttemptEnd::Failed(Failure::ReadTimeout);
    assert_eq!(all.decide(timed_out, open).reason, Reason::MaybeExecuted);
    all.method = Method::PUT;
    all.policy.on_error = ErrorSet::none();
    assert_eq!(all.decide(timed_out, open).reason, Reason::ErrorNotListed);
    all.policy.on_error = ErrorSet::default();
    assert_eq!(all.decide(timed_out, open).reason, Reason::AttemptsUsed);
    all.course.attempts = 2;
    assert_eq!(all.decide(timed_out, open).reason, Reason::RetryAfter);
    all.signs.retry_after = Advice::Absent;
    assert_eq!(all.decide(timed_out, open).reason, Reason::Deadline);
    all.remaining = MS(500);
    assert_eq!(all.decide(timed_out, open).reason, Reason::CircuitOpen);
    let poor = all.decide(timed_out, |_| Err(Refused::Budget));
    assert_eq!(poor.reason, Reason::Budget);
    let got = all.decide(timed_out, |wait| {
        assert_eq!(wait, MS(100));
        Ok(())
    });
    assert_eq!(got.reason, Reason::Idempotent);
}

// rule: only-attempt
#[test]
fn of_an_only_attempt_time_that_is_over_is_said_and_an_answer_stands() {
    let post = Operation {
        method: &Method::POST,
        key: KeyUse::Carried,
        body: BodyKind::Whole,
        conditional: false,
    };
    let end = AttemptEnd::Failed(Failure::Connect);
    let late = on_only_end(&end, post, Duration::ZERO);
    assert_eq!(says(late), ("give_up", Effect::None, Reason::Deadline));
    let got = on_only_end(&end, post, MS(1));
    assert_eq!(says(got), ("give_up", Effect::None, Reason::AttemptsUsed));
}

/// One operation on virtual time, against an upstream that ends attempts as it is told.
struct Run {
    decisions: Vec<Decision>,
    /// When each attempt began, and whether it may have been executed.
    began: Vec<(u64, bool)>,
    ended_at: u64,
}

fn run(case: &Case, deadline: u64, ends: &[(u64, AttemptEnd, Advice)], up: &mut Upstream) -> Run {
    let at = |ms| MonoTime::from_origin(MS(ms));
    let until = Deadline::after(at(0), MS(deadline));
    let (mut now, mut course) = (0, Course::FIRST);
    let (mut decisions, mut began) = (vec![], vec![]);
    let (mut sends, mut limit) = (Sends::First, deadline.min(20_000));
    for (took, end, advice) in ends {
        let Ok(mut ticket) = up.admit(sends, at(now), MS(limit)) else {
            break;
        };
        if up.pay(&mut ticket, at(now)).is_err() {
            break;
        }
        // A driver ends an attempt at its limit.
        let (took, end) = match *took < limit {
            true => (*took, *end),
            false => (limit, AttemptEnd::Failed(Failure::ReadTimeout)),
        };
        began.push((now, !end.never_sent()));
        now += took;
        up.ended(ticket, Outcome::End(&end), at(now));
        let mut case = case.clone();
        case.course = course;
        case.remaining = until.remaining(at(now));
        case.signs.retry_after = *advice;
        let decision = case.decide(end, |wait| up.may_retry(at(now), wait));
        decisions.push(decision);
        let Next::Retry {
            wait,
            limit: next,
            sends: how,
        } = decision.next
        else {
            break;
        };
        now += wait.as_millis() as u64;
        (sends, limit) = (how, next.as_millis() as u64);
        course = course.again(&decision, wait);
    }
    Run {
        decisions,
        began,
        ended_at: now,
    }
}

fn any_end() -> impl Strategy<Value = AttemptEnd> {
    let statuses = [200, 201, 303, 400, 404, 409, 412, 429, 500, 502, 503, 504];
    prop_oneof![
        proptest::sample::select(statuses.to_vec()).prop_map(answered),
        proptest::sample::select(FAILURES.to_vec()).prop_map(AttemptEnd::Failed),
    ]
}

fn any_advice() -> impl Strategy<Value = Advice> {
    prop_oneof![
        Just(Advice::Absent),
        Just(Advice::Invalid),
        (0u64..40).prop_map(|s| Advice::Wait(Duration::from_secs(s))),
    ]
}

proptest! {
    // rule: what-holds-of-every-operation
    #[test]
    fn time_attempts_waits_and_repetitions_stay_within_their_bounds(
        method in proptest::sample::select(vec![
            Method::GET, Method::PUT, Method::DELETE, Method::POST, Method::PATCH,
        ]),
        key in proptest::sample::select(vec![KeyUse::None, KeyUse::Carried, KeyUse::Honoured]),
        max in 1u32..8, deadline in 1u64..60_000,
        ends in proptest::collection::vec((0u64..25_000, any_end(), any_advice()), 1..10),
    ) {
        let mut case = case(method, key);
        case.policy.max_attempts = std::num::NonZeroU32::new(max).expect("not zero");
        let rich = BudgetPolicy { floor_per_second: 1000, ..BudgetPolicy::default() };
        let mut up = Upstream::new(rich, BreakerPolicy::default());
        let run = run(&case, deadline, &ends, &mut up);
        prop_assert!(run.began.len() <= max as usize);
        prop_assert!(run.ended_at <= deadline);
        for (at, decision) in run.decisions.iter().enumerate() {
            let Next::Retry { wait, .. } = decision.next else { continue };
            if let Advice::Wait(told) = ends[at].2 {
                prop_assert!(wait >= told);
            }
            // Never a repeat of what may have happened unless key or method allows.
            let (_, maybe) = run.began[at];
            let allowed = case.key == KeyUse::Honoured
                || (case.key == KeyUse::None && case.method.is_idempotent());
            let said_nothing = decision.effect == Effect::None;
            prop_assert!(!maybe || allowed, "{decision:?} {said_nothing}");
        }
    }

    // rule: retries-of-all-callers-stay-within-the-budget
    #[test]
    fn retries_of_any_number_of_operations_stay_within_the_budget(
        ratio in 0u32..=1_000_000,
        all in proptest::collection::vec(
            proptest::collection::vec((1u64..50, any_end(), Just(Advice::Absent)), 1..6), 1..60),
    ) {
        let budget = BudgetPolicy {
            ratio: Ratio::of_millionths(ratio),
            floor_per_second: 0,
            window: Duration::from_secs(3600),
        };
        let never_opens = BreakerPolicy { min_requests: u32::MAX, ..BreakerPolicy::default() };
        let mut up = Upstream::new(budget, never_opens);
        let case = case(Method::GET, KeyUse::None);
        let (mut successes, mut retries) = (0u64, 0u64);
        for ends in &all {
            let run = run(&case, 30_000, ends, &mut up);
            retries += run.began.len() as u64 - 1;
            let succeeded = |(_, end, _): &&(u64, AttemptEnd, Advice)| {
                matches!(end, AttemptEnd::Answered(a) if a.status.as_u16() < 400)
            };
            successes += ends.iter().take(run.began.len()).filter(succeeded).count() as u64;
            prop_assert!(retries * u64::from(Ratio::ONE) <= successes * u64::from(ratio));
        }
    }
}

#[test]
fn a_contract_can_make_a_post_repeatable_and_its_unknown_end_a_failure() {
    let mut search = case(Method::POST, KeyUse::None);
    search.policy.contract = Contract {
        safe_to_repeat: Some(true),
        ..Contract::default()
    };
    assert_eq!(search.failed(Failure::ReadTimeout).next.as_str(), "retry");
    search.course.attempts = 3;
    let got = says(search.failed(Failure::ReadTimeout));
    assert_eq!(got, ("give_up", Effect::Unknown, Reason::AttemptsUsed));
}
