//! Many callers, few keys, an upstream that ends each attempt as chance has it: whatever happens,
//! no key has a second effect, and nobody is told two stories.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use steadfast::clock;
use steadfast::store::Store;
use steadfast::store::sqlite::Sqlite;

use super::caller::{Answer, call};
use super::running::{Gateway, config, fresh};
use super::upstream::{Exchange, Kept, Upstream, answer};

const KEYS: u64 = 12;
const CALLERS: u64 = 10;

/// Numbers that a seed gives again (SplitMix64).
fn mixed(seed: u64, at: u64) -> u64 {
    let mut z = seed.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One end of an attempt. A 503 says that nothing was executed; everything else may have been.
async fn chance(seed: u64, mut exchange: Exchange) -> Kept {
    let made = format!("made {}", exchange.number);
    match mixed(seed, exchange.number as u64) % 8 {
        0 => exchange.reply_and_close("").await,
        1 => {
            exchange.read().await;
            exchange.reset()
        }
        2 => {
            exchange
                .reply_and_close("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\ncut")
                .await
        }
        3 => {
            exchange
                .reply(answer("500 Internal Server Error", "", &made))
                .await
        }
        4 | 5 => {
            exchange
                .reply(answer("503 Service Unavailable", "", ""))
                .await
        }
        6 => {
            exchange
                .reply_and_close(answer("201 Created", "", &made))
                .await
        }
        _ => exchange.reply(answer("201 Created", "", &made)).await,
    }
}

fn key(seed: u64, at: u64) -> String {
    format!(
        "{:016x}{:016x}",
        mixed(seed, 1_000 + at),
        mixed(seed, 2_000 + at)
    )
}

/// Asserts what holds of all answers to one key, given whether it may have been executed.
fn is_one_story(answers: &[&Answer], case: &str) {
    let of = |status: u16| answers.iter().filter(move |answer| answer.status == status);
    for status in [201, 500] {
        let mut bodies: Vec<_> = of(status).map(|answer| &answer.body).collect();
        bodies.dedup();
        assert!(bodies.len() <= 1, "{case}: {bodies:?}");
        let executing = of(status).filter(|answer| answer.replayed() == Some("false"));
        assert!(executing.count() <= 1, "{case}");
    }
    let kinds = [201, 500, 504, 409].map(|status| of(status).count() > 0);
    assert!(
        !(kinds[0] && (kinds[1] || kinds[2] || kinds[3])),
        "{case}: {answers:?}"
    );
    for answer in answers {
        assert!(
            [201, 500, 503, 504, 409].contains(&answer.status),
            "{case}: {answer:?}"
        );
        let unknown = matches!(answer.status, 500 | 504 | 409);
        assert_eq!(
            answer.effect() == Some("unknown"),
            unknown,
            "{case}: {answer:?}"
        );
    }
}

async fn storm(seed: u64, store: Arc<dyn Store>) {
    let upstream = Upstream::start(move |exchange| chance(seed, exchange)).await;
    let gateway = Gateway::over(&config(upstream.addr, ""), store).await;
    let mut answers: HashMap<String, Vec<Answer>> = HashMap::new();
    for _ in 0..3 {
        let calls = (0..KEYS * CALLERS).map(|at| key(seed, at % KEYS));
        let sent = calls.map(async |key| {
            let call = call("POST", "/v1/charges").key(&key).body("{}");
            (key, gateway.send(&call).await)
        });
        for (key, answer) in join_all(sent).await {
            answers.entry(key).or_default().push(answer);
        }
    }
    let mut executed: HashMap<String, usize> = HashMap::new();
    for (at, seen) in upstream.seen().iter().enumerate() {
        let none = matches!(mixed(seed, at as u64 + 1) % 8, 4 | 5);
        *executed
            .entry(seen.one("idempotency-key").to_owned())
            .or_default() += usize::from(!none);
    }
    for (key, answers) in &answers {
        let case = format!("seed {seed:#x}, key {key}");
        assert!(executed[key] <= 1, "{case}: {} effects", executed[key]);
        is_one_story(&answers.iter().collect::<Vec<_>>(), &case);
    }
    let records = gateway.records().await;
    assert_eq!(records.len() as u64, KEYS, "seed {seed:#x}");
}

// rule: whatever-ends-an-attempt-no-key-has-a-second-effect
#[tokio::test]
async fn whatever_ends_an_attempt_no_key_has_a_second_effect() {
    let dir = tempfile::tempdir().expect("a folder");
    for (at, seed) in [1, 2, u64::from_le_bytes(clock::random())]
        .into_iter()
        .enumerate()
    {
        storm(seed, fresh()).await;
        let sqlite = Sqlite::open(dir.path().join(format!("{at}.db"))).expect("a store");
        storm(seed, Arc::new(sqlite)).await;
    }
}
