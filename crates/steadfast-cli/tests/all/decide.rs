//! `plan` and `explain`: the worked outputs of the reference, and what is refused.

mod table;

use serde_json::{Value, json};

use crate::stage::{Folder, Ran};

fn run(words: &str) -> Ran {
    Folder::new().run(&words.split_whitespace().collect::<Vec<_>>())
}

fn told(words: &str) -> Value {
    let ran = run(&format!("{words} --json"));
    assert_eq!(ran.code, 0, "{words}: {ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{words}: {error}: {ran:?}"))
}

// rule: plan-worked-outputs
#[test]
fn plan_gives_the_worked_attempts_waits_and_worst_cases() {
    let got = told(
        "plan --deadline 900ms --max-attempts 3 --attempt-timeout 500ms --backoff fixed \
         --base 100ms --jitter none",
    );
    let attempts = json!([
        { "attempt": 1, "start_ms": 0, "limit_ms": 500, "remaining_ms": 900 },
        { "attempt": 2, "start_ms": 600, "limit_ms": 300, "remaining_ms": 300 },
    ]);
    assert_eq!(got["attempts"], attempts);
    let skipped = json!([{ "attempt": 3, "reason": "deadline" }]);
    assert_eq!(got["skipped"], skipped);
    assert_eq!(got["waits_ms"], json!([100]));

    let got = told("plan --max-attempts 7 --base 500ms --cap 8s --jitter none");
    let waits = json!([500, 1000, 2000, 4000, 8000, 8000]);
    assert_eq!(got["waits_ms"], waits);
    assert_eq!(got["attempts"][6]["limit_ms"], Value::Null);
    assert_eq!(got["attempts"][6]["remaining_ms"], Value::Null);
    // With jitter they are the upper ends.
    let got = told("plan --max-attempts 7 --base 500ms --cap 8s");
    assert_eq!(got["waits_ms"], waits);

    let got = told("plan --layers 3,3");
    assert_eq!(got["worst_case_attempts"], 9);
    let got = told("plan --layers-retries 3,3");
    assert_eq!(got["worst_case_attempts"], 16);
    assert_eq!(got["owner"], 2);
    assert_eq!(got["switch_off"], json!([1]));

    let got = told("plan --max-attempts 1000 --jitter none");
    assert_eq!(got["attempts"].as_array().map(Vec::len), Some(1000));
}

// rule: explain-worked-outputs
#[test]
fn explain_gives_the_worked_decisions() {
    let table = [
        ("--method POST --status 504", "unknown", "unknown"),
        ("--method POST --status 504 --key", "retry", "unknown"),
        ("--method GET --status 503", "retry", "none"),
        ("--method POST --key --status 400", "finish", "none"),
        ("--method POST --status 503", "finish", "none"),
        ("--method GET --error tls", "give_up", "none"),
        ("--method POST --error connect", "retry", "none"),
        ("--method POST --error read-timeout", "unknown", "unknown"),
        (
            "--method GET --status 503 --retry-after 120 --remaining 10s",
            "give_up",
            "none",
        ),
        (
            "--method GET --status 503 --retry-after 120 --remaining 10s --defer",
            "defer",
            "none",
        ),
        ("--method POST --key --error truncated", "retry", "unknown"),
        ("--method POST --error truncated", "unknown", "unknown"),
        ("--method GET --error truncated", "retry", "none"),
        (
            "--method GET --error truncated --passed-on",
            "give_up",
            "none",
        ),
        (
            "--method POST --error goaway --processed no",
            "retry",
            "none",
        ),
        (
            "--method POST --error goaway --processed yes",
            "unknown",
            "unknown",
        ),
        ("--method POST --error goaway", "unknown", "unknown"),
        ("--method POST --error refused-stream", "retry", "none"),
        ("--method POST --error not-written", "retry", "none"),
        ("--method POST --error write", "unknown", "unknown"),
        ("--method PUT --error reset", "retry", "unknown"),
        (
            "--method DELETE --status 404 --after read-timeout",
            "finish",
            "applied",
        ),
        (
            "--method PUT --conditional --status 412 --after reset",
            "finish",
            "unknown",
        ),
        ("--method GET --status 503 --attempt 3", "give_up", "none"),
        (
            "--method PUT --status 503 --body streamed",
            "finish",
            "none",
        ),
    ];
    for (words, decision, effect) in table {
        let got = told(&format!("explain {words}"));
        assert_eq!(got["decision"], decision, "{words}: {got}");
        assert_eq!(got["effect"], effect, "{words}: {got}");
        let says = |name: &str| got[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(says("reason") && says("why"), "{words}: {got}");
        assert_eq!(
            got["wait_ms"].is_u64(),
            decision == "retry",
            "{words}: {got}"
        );
    }
}

#[test]
fn explain_judges_retry_after_as_on_the_wire() {
    let wait = |words: &str| {
        told(&format!("explain --method GET --status 503 {words}"))["wait_ms"].clone()
    };
    assert_eq!(wait("--retry-after 2"), 2000);
    assert_eq!(wait("--retry-after 0"), 100, "one's own wait");
    for invalid in ["-1", "1.5", "soon"] {
        assert_eq!(wait(&format!("--retry-after {invalid}")), 100, "{invalid}");
    }
    let folder = Folder::new();
    let date = [
        "explain",
        "--method",
        "GET",
        "--status",
        "503",
        "--json",
        "--retry-after",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "--now",
        "2015-10-21T07:27:53Z",
    ];
    let ran = folder.run(&date);
    let got: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(got["wait_ms"], 7000);
}

#[test]
fn a_route_of_a_configuration_is_planned_and_explained() {
    let folder = Folder::new();
    folder.write(
        "s.toml",
        "[[route]]\nname = \"held\"\npath = \"/a\"\nto = \"http://127.0.0.1:9\"\ndeadline = \"4s\"\n\
         [[route]]\nname = \"again\"\npath = \"/b\"\nto = \"http://127.0.0.1:9\"\n\
         idempotency = { on_unknown = \"repeat\" }\n",
    );
    let decided = |route: &str| {
        let words = format!(
            "explain --config s.toml --route {route} --method POST --key --error reset --json"
        );
        let ran = folder.run(&words.split_whitespace().collect::<Vec<_>>());
        let told: Value = serde_json::from_str(&ran.out).expect("JSON");
        told["decision"].clone()
    };
    assert_eq!(decided("held"), "unknown");
    assert_eq!(decided("again"), "retry");

    let ran = folder.run(&["plan", "--config", "s.toml", "--route", "held", "--json"]);
    let plan: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(plan["attempts"][0]["remaining_ms"], 4000);
    assert_eq!(plan["attempts"][0]["limit_ms"], 4000, "cut to the deadline");

    for (route, says) in [
        (
            &["--route", "nowhere"][..],
            "no route `nowhere`; write one of: held, again",
        ),
        (&[], "several routes; add --route with one of: held, again"),
    ] {
        let ran = folder.run(&[&["plan", "--config", "s.toml"], route].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(says), "{ran:?}");
    }
}

// rule: decisions-refuse-bad-words
#[test]
fn words_that_mean_nothing_are_refused_with_what_to_write() {
    for (words, says) in [
        (
            "plan --max-attempts 0",
            "write a number from 1 (the first) to 1000",
        ),
        (
            "plan --max-attempts 1001",
            "write a number from 1 (the first) to 1000",
        ),
        ("plan --deadline 900", "has no unit"),
        (
            "plan --base 2s --cap 1s",
            "the cap of 1s is shorter than the base of 2s",
        ),
        (
            "plan --jitter some",
            "write full, none, equal or decorrelated",
        ),
        ("plan --layers 3,0", "write a number from 1"),
        ("explain --method GET", "--status"),
        ("explain --method GET --status 99", "from 200 to 599"),
        (
            "explain --method GET --status 503 --error reset",
            "cannot be used with",
        ),
        ("explain --method GET --error late", "possible values"),
        (
            "explain --method GET --status 503 --now yesterday",
            "write a date",
        ),
    ] {
        let ran = run(words);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{words}: {ran:?}");
        assert!(ran.err.contains(says), "{words}: {ran:?}");
    }
}

#[test]
fn piped_a_plan_is_lines_and_an_explanation_a_sentence() {
    let ran = run("plan --deadline 1s --attempt-timeout 600ms --base 100ms --jitter none");
    let lines = "1\t0ms\t0ms\t600ms\t1s\n2\t100ms\t700ms\t300ms\t300ms\n3\tskipped\tdeadline\n";
    assert_eq!(ran.out, lines);
    let ran = run("explain --method POST --error read-timeout");
    let (first, rest) = ran.out.split_once('\n').expect("lines");
    assert_eq!(
        first,
        "unknown: the outcome is unknown, which is not failed"
    );
    assert!(
        rest.starts_with("effect: unknown\nreason: maybe-executed: "),
        "{rest}"
    );
}
