//! One marked test a rule of docs/keyed-requests.md, "Deferral", as far as the queue decides it.

use http::HeaderValue;

use super::*;
use crate::effect::Effect;

const NOW: WallTime = WallTime::from_unix_ms(1_000_000);
const FAR: WallTime = WallTime::from_unix_ms(u64::MAX);

fn decision(next: Next, reason: Reason) -> Decision {
    Decision {
        next,
        effect: Effect::None,
        reason,
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A last attempt that was answered 503, with ten seconds left.
fn answered(decision: &Decision) -> Last<'_> {
    Last {
        decision,
        meaning: Meaning::Released,
        never_sent: false,
        ambiguous: false,
        retry_after: None,
        remaining: secs(10),
    }
}

// rule: deferral-begins-where-it-is-chosen
#[test]
fn the_queue_is_where_a_request_begins_whose_route_or_caller_says_so() {
    let table = [
        (Defer::Never, false, Begins::Now),
        (Defer::Never, true, Begins::Now),
        (Defer::Allowed, false, Begins::Now),
        (Defer::Allowed, true, Begins::Queued(Why::Asked)),
        (Defer::Always, false, Begins::Queued(Why::Always)),
        (Defer::Always, true, Begins::Queued(Why::Always)),
    ];
    for (defer, asked, expected) in table {
        assert_eq!(begins(defer, asked, false), expected, "{defer:?} {asked}");
    }
    let shut = Begins::Queued(Why::Unreachable);
    assert_eq!(begins(Defer::Allowed, false, true), shut);
    assert_eq!(begins(Defer::Never, false, true), Begins::Now);
}

// rule: deferral-on-the-way
#[test]
fn what_was_not_executed_and_does_not_fit_its_deadline_goes_on_in_the_queue() {
    let finish = decision(Next::Finish, Reason::UnkeyedWrite);
    let fits = Last {
        retry_after: Some(secs(9)),
        ..answered(&finish)
    };
    assert_eq!(on_the_way(Defer::Allowed, &fits), GoesOn::NotLater);
    let too_long = Last {
        retry_after: Some(secs(11)),
        ..answered(&finish)
    };
    let later = GoesOn::Later(Why::RetryAfter, secs(11));
    assert_eq!(on_the_way(Defer::Allowed, &too_long), later);
    assert_eq!(on_the_way(Defer::Never, &too_long), GoesOn::NotLater);
    let not_before = secs(2);
    let deferred = decision(Next::Defer { not_before }, Reason::Deadline);
    let unreachable = Last {
        never_sent: true,
        ..answered(&deferred)
    };
    let later = GoesOn::Later(Why::Unreachable, secs(2));
    assert_eq!(on_the_way(Defer::Allowed, &unreachable), later);
    for reason in [Reason::AttemptsUsed, Reason::CircuitOpen, Reason::Budget] {
        let stopped = decision(Next::GiveUp, reason);
        let never = Last {
            never_sent: true,
            ..answered(&stopped)
        };
        let later = GoesOn::Later(Why::Unreachable, Duration::ZERO);
        assert_eq!(on_the_way(Defer::Allowed, &never), later, "{reason:?}");
        let sent = answered(&stopped);
        assert_eq!(on_the_way(Defer::Allowed, &sent), GoesOn::NotLater);
    }
}

// rule: deferral-of-nothing-ambiguous
#[test]
fn what_may_have_been_executed_or_was_refused_for_what_it_is_does_not_go_on_in_the_queue() {
    let later = decision(
        Next::Defer {
            not_before: secs(60),
        },
        Reason::RetryAfter,
    );
    let unknown = Last {
        meaning: Meaning::Unknown,
        ..answered(&later)
    };
    assert_eq!(on_the_way(Defer::Allowed, &unknown), GoesOn::NotLater);
    let ambiguous = Last {
        ambiguous: true,
        never_sent: true,
        ..answered(&later)
    };
    assert_eq!(on_the_way(Defer::Allowed, &ambiguous), GoesOn::NotLater);
    let refused = decision(Next::GiveUp, Reason::IdentityRefused);
    let identity = Last {
        never_sent: true,
        ..answered(&refused)
    };
    assert_eq!(on_the_way(Defer::Allowed, &identity), GoesOn::NotLater);
}

// rule: deferral-backs-off-and-obeys
#[test]
fn runs_wait_ever_longer_and_never_less_than_the_service_asked_for() {
    let (rules, most) = (Deferral::default(), Draw::from_bits(u64::MAX));
    let wait = |runs, told| {
        due(&rules, runs, told, most, NOW, FAR)
            .since(NOW)
            .as_secs_f64()
            .round() as u64
    };
    let waits: Vec<u64> = [0, 1, 2, 3, 9, 10, 1000].map(|n| wait(n, None)).into();
    assert_eq!(waits, [1, 1, 2, 4, 256, 300, 300]);
    let least = due(&rules, 9, None, Draw::from_bits(0), NOW, FAR);
    assert_eq!(least, NOW, "spread over the whole wait");
    assert_eq!(wait(1, Some(secs(7200))), 7200);
    assert_eq!(wait(1000, Some(secs(1))), 300);
}

// rule: deferral-is-given-up-in-time
#[test]
fn no_run_is_due_after_the_date_on_which_the_operation_is_given_up() {
    let (rules, end) = (Deferral::default(), NOW.plus(secs(5)));
    let told = Some(secs(7200));
    assert_eq!(due(&rules, 1, told, Draw::from_bits(0), NOW, end), end);
}

fn request() -> HeaderMap {
    let fields = [
        ("accept", "*/*"),
        ("authorization", "Bearer caller"),
        ("connection", "close, x-hop"),
        ("content-type", "application/json"),
        ("cookie", "sid=1"),
        ("grpc-timeout", "5S"),
        ("if-match", "\"1\""),
        ("idempotency-key", "k-5b1e9a70c4d2"),
        ("prefer", "respond-async"),
        ("proxy-authorization", "Basic x"),
        ("request-timeout-ms", "900"),
        ("traceparent", "00-1-1-01"),
        ("x-api-key", "secret"),
        ("x-envoy-expected-rq-timeout-ms", "900"),
        ("x-hop", "1"),
        ("x-tenant", "acme"),
    ];
    let fields = fields.map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    fields.into_iter().collect()
}

fn names(fields: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    names
}

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TENANT: HeaderName = HeaderName::from_static("x-tenant");

// rule: deferral-keeps-no-credential
#[test]
fn a_kept_request_has_the_fields_that_go_from_end_to_end_and_no_credential() {
    let kept_fields = kept(&request(), &Deferral::default(), &KEY, Some(&TENANT));
    let expected = ["accept", "content-type", "if-match", "traceparent"];
    assert_eq!(names(&kept_fields), expected);
}

// rule: deferral-keeps-the-caller-s-credential-where-told
#[test]
fn with_keep_credential_the_caller_s_own_credentials_stay_and_nothing_else() {
    let rules = Deferral {
        keep_credential: true,
        ..Deferral::default()
    };
    let kept_fields = kept(&request(), &rules, &KEY, Some(&TENANT));
    let expected = [
        "accept",
        "authorization",
        "content-type",
        "cookie",
        "if-match",
        "traceparent",
        "x-api-key",
        "x-tenant",
    ];
    assert_eq!(names(&kept_fields), expected);
}

// rule: deferral-headers-are-of-each-run
#[test]
fn the_route_s_own_fields_are_sent_with_every_run_and_win() {
    let mut rules = Deferral::default();
    let ours = HeaderValue::from_static("Bearer ours");
    rules.headers.insert(header::AUTHORIZATION, ours.clone());
    let stored = kept(&request(), &rules, &KEY, None);
    assert!(!stored.contains_key(header::AUTHORIZATION), "never stored");
    assert_eq!(of_run(&stored, &rules)[header::AUTHORIZATION], ours);
    let of_caller = of_run(&request(), &rules);
    assert_eq!(of_caller.get_all(header::AUTHORIZATION).iter().count(), 1);
    assert_eq!(of_caller[header::AUTHORIZATION], ours);
}

#[test]
fn a_field_that_is_written_for_every_attempt_cannot_be_set() {
    for name in ["authorization", "cookie", "x-api-key", "x-source"] {
        assert!(may_be_set(&HeaderName::from_static(name)), "{name}");
    }
    for name in [
        "connection",
        "content-length",
        "host",
        "idempotency-fence",
        "transfer-encoding",
        "content-type",
        "request-timeout-ms",
    ] {
        assert!(!may_be_set(&HeaderName::from_static(name)), "{name}");
    }
}

#[test]
fn no_debug_form_of_the_queue_s_rules_shows_a_credential() {
    let mut rules = Deferral::default();
    let secret = HeaderValue::from_static("Bearer s3cret");
    rules.headers.insert(header::AUTHORIZATION, secret);
    let shown = format!("{rules:?}");
    assert!(
        shown.contains("authorization") && !shown.contains("s3cret"),
        "{shown}"
    );
}
