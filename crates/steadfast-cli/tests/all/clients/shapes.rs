//! What clients make of the same request: its framing, its version, its spelling.

use std::path::{Path, PathBuf};

use super::{CLIENTS, Order, Stand, each, run_file, tools};
use crate::stage::finish;
use crate::tidy::root;

/// The longest body of a keyed request, unless told otherwise.
const BODY_LIMIT: usize = 1 << 20;

/// How the order is sent.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// By curl, with these words before the URL. `@` stands for the key.
    Curl(&'static [&'static str]),
    /// By a library, without a length.
    Streamed(&'static str),
}

const PLAIN: Shape = Shape::Curl(&["-H", "Idempotency-Key: @"]);

const SHAPES: [Shape; 11] = [
    PLAIN,
    // curl does so by itself with long bodies. It is not to send before it is told to.
    Shape::Curl(&[
        "-H",
        "Idempotency-Key: @",
        "-H",
        "Expect: 100-continue",
        "--expect100-timeout",
        "300",
    ]),
    Shape::Curl(&[
        "-H",
        "Idempotency-Key: @",
        "-H",
        "Transfer-Encoding: chunked",
    ]),
    Shape::Curl(&["-H", "Idempotency-Key: @", "--http1.0"]),
    Shape::Curl(&["-H", "Idempotency-Key: @", "-H", "Connection: close"]),
    Shape::Curl(&["-H", "IDEMPOTENCY-KEY:@"]),
    Shape::Curl(&["-H", "idempotency-key: \"@\""]),
    Shape::Streamed("requests"),
    Shape::Streamed("httpx"),
    Shape::Streamed("fetch"),
    Shape::Streamed("got"),
];

/// Sends the file; what is given back is `BODY STATUS MARK`.
fn send(stand: &Stand, shape: Shape, url: &str, key: &str, file: &Path) -> String {
    let program = match shape {
        Shape::Curl(_) => tools::curl(),
        Shape::Streamed("requests") => tools::requests(),
        Shape::Streamed("httpx") => tools::httpx(),
        Shape::Streamed("got") => tools::got(),
        Shape::Streamed(_) => tools::node(),
    };
    let mut command = stand.folder.command(program.to_str().expect("UTF-8"));
    command.env("NODE_PATH", tools::NODE_PATH);
    match shape {
        Shape::Curl(words) => {
            let told = " %{http_code} %header{idempotent-replayed}";
            command.args(["-sS", "--max-time", "30", "-w", told]);
            command.args(words.iter().map(|word| word.replace('@', key)));
            command.args(["-H", "Content-Type: application/json", "--data-binary"]);
            command.arg(format!("@{}", file.display()));
            command.arg(url);
        }
        Shape::Streamed(library) => {
            let python = ["requests", "httpx"].contains(&library);
            let script = if python { "shapes.py" } else { "shapes.cjs" };
            let scripts = root().join("crates/steadfast-cli/tests/all/clients");
            command
                .arg(scripts.join(script))
                .args([library, url, key])
                .arg(file);
        }
    }
    let ran = finish(command);
    assert_eq!(ran.code, 0, "{shape:?}: {ran:?}");
    ran.out.trim().to_owned()
}

/// An order of exactly the longest body, or of more.
fn file(stand: &Stand, order: &Order, length: usize) -> PathBuf {
    let start = format!("{{\"order\":\"{}\",\"note\":\"", order.name);
    let text = format!("{start}{}\"}}", "n".repeat(length - start.len() - 2));
    stand.folder.write(&order.name, text);
    stand.folder.path(&order.name)
}

#[test]
fn however_a_client_frames_or_spells_its_request_it_is_the_same_request() {
    let stand = Stand::open();
    each(&SHAPES, |shape| {
        let order = Order::new();
        let file = file(&stand, &order, BODY_LIMIT);
        let url = format!("http://{}/orders", stand.gateway.data);
        let told =
            [*shape, PLAIN, *shape].map(|shape| send(&stand, shape, &url, &order.key, &file));
        let account = stand.account(&order);
        let [(_, answer)] = &account.effects[..] else {
            return Err(format!("{account:?}, {told:?}"));
        };
        let wanted = ["false", "true", "true"].map(|mark| format!("{answer} 201 {mark}"));
        // The service says what it read; so every byte of the body came, in its order.
        let straight = format!("http://{}/orders", stand.service.address);
        let other = send(&stand, PLAIN, &straight, &Order::new().key, &file);
        let digest = |answer: &str| {
            answer
                .split("sha256")
                .nth(1)
                .map(|rest| rest[..70].to_owned())
        };
        let same = digest(answer).is_some() && digest(answer) == digest(&other);
        if told == wanted && same {
            return Ok(());
        }
        Err(format!("{told:?}, not {wanted:?}; straight: {other}"))
    });
}

#[test]
fn every_client_is_told_that_its_body_is_too_large_and_nothing_is_done() {
    let stand = Stand::open();
    each(&CLIENTS, |client| {
        let order = Order::new();
        let url = format!("http://{}/orders", stand.gateway.data);
        let file = file(&stand, &order, 2 * BODY_LIMIT);
        let seen = run_file(&stand.folder, *client, &url, &order.key, &file, None);
        let told = seen
            .as_ref()
            .map(|seen| (seen.status, seen.problem(), seen.effect.as_str()));
        let wanted = (413, Some("body-too-large".to_owned()), "none");
        let account = stand.account(&order);
        if told == Some(wanted) && account.asked == 0 {
            return Ok(());
        }
        Err(format!("{seen:?}, {account:?}"))
    });
}
