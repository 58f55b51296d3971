//! `examples/axum_three_hops.rs`: one deadline over three services.

use std::io::Write;
use std::net::TcpStream;

use super::program::{Answer, Program};

fn ask(program: &Program, work_ms: u64, left_ms: u64) -> Answer {
    let mut stream = TcpStream::connect(program.address).expect("it takes connections");
    let request = format!(
        "GET /?work_ms={work_ms} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Request-Timeout-Ms: {left_ms}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    Answer::read(stream)
}

// rule: a-deadline-crosses-hops
#[test]
fn each_hop_has_less_than_the_one_before_and_the_last_starts_nothing_that_does_not_fit() {
    let program = Program::start("axum_three_hops", None);
    let answer = ask(&program, 1, 20_000);
    assert_eq!(answer.status, 200, "{answer:?}");
    // The body comes in chunks or whole; the lines tell what each hop had.
    let left: Vec<u64> = answer
        .body
        .lines()
        .filter_map(|line| {
            line.split_once(" had ")?
                .1
                .strip_suffix(" ms")?
                .parse()
                .ok()
        })
        .collect();
    assert_eq!(left.len(), 3, "{answer:?}");
    assert!(
        20_000 >= left[0] && left[0] > left[1] && left[1] > left[2],
        "{left:?}"
    );
    assert!(
        left[0] - left[2] >= 2 * 5,
        "each hop keeps its margin: {left:?}"
    );

    let answer = ask(&program, 60_000, 20_000);
    assert_eq!(answer.status, 504, "{answer:?}");
    assert!(
        answer
            .body
            .contains("back starts no work that does not fit"),
        "{answer:?}"
    );
    let answer = ask(&program, 1, 0);
    assert_eq!(answer.status, 504, "{answer:?}");
    assert!(answer.body.contains("Nothing was sent"), "{answer:?}");
}
