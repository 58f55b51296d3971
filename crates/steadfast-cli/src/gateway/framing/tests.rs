//! Properties of the framer over any stream and any cut of it, and its bounds.

use proptest::prelude::*;

use super::*;

/// Feeds `stream` in the pieces that `cuts` make, as a connection does: what passed is taken away,
/// what arrives is appended.
fn feed(stream: &[u8], cuts: &[usize]) -> (Vec<u8>, Option<Violation>) {
    let mut framer = Framer::new(HeadLimits::default());
    let (mut held, mut passed) = (Vec::new(), Vec::new());
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    for piece in cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]) {
        held.extend_from_slice(piece);
        loop {
            match framer.advance(&held) {
                Ok(0) => break,
                Ok(bytes) => passed.extend(held.drain(..bytes)),
                Err(violation) => {
                    assert_eq!(framer.advance(&held), Err(violation), "for good");
                    return (passed, Some(violation));
                }
            }
        }
    }
    (passed, None)
}

/// A request that passes, in some of the ways in which requests differ.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["GET", "POST", "DELETE", "PROPFIND", "OPTIONS"]);
    let target = prop::sample::select(vec!["/", "/a/b?c=%20&d", "//x", "http://h.example:80/p"]);
    let field = "[a-zA-Z][a-zA-Z0-9-]{0,20}: ?[ -~]{0,40}";
    let fields = prop::collection::vec(field, 0..6);
    (method, target, fields, body()).prop_map(|(method, target, fields, body)| {
        let mut text = format!("{method} {target} HTTP/1.1\r\nhOsT: h.example:80\r\n");
        for field in fields.iter().map(|field| format!("x-{field}\r\n")) {
            text.push_str(&field);
        }
        [text.as_bytes(), &body].concat()
    })
}

/// The end of a head and what follows it.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let chunk = (bytes(), "(;[a-z]{1,5}(=[a-z0-9]{1,5})?)?");
    let trailers = prop::collection::vec("t-[a-z]{1,5}: [ -~]{0,20}", 0..3);
    let chunked = (prop::collection::vec(chunk, 0..5), trailers).prop_map(|(chunks, trailers)| {
        let mut body = b"Transfer-Encoding: Chunked\r\n\r\n".to_vec();
        for (data, extension) in chunks.iter().filter(|(data, _)| !data.is_empty()) {
            body.extend(format!("{:X}{extension}\r\n", data.len()).bytes());
            body.extend(data);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\n");
        for trailer in trailers {
            body.extend(format!("{trailer}\r\n").bytes());
        }
        [body, b"\r\n".to_vec()].concat()
    });
    prop_oneof![
        Just(b"\r\n".to_vec()),
        bytes().prop_map(|body| {
            let head = format!("Content-Length: {}\r\n\r\n", body.len());
            [head.as_bytes(), &body].concat()
        }),
        chunked,
    ]
}

/// Requests one behind the other, with a few bytes changed: nearly right, which is what is hard.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(b"\r\n \t:;,0f\x00\x0b\x7f\xff".to_vec());
    let byte = prop_oneof![special, any::<u8>()];
    let damage = prop::collection::vec((any::<prop::sample::Index>(), byte), 0..4);
    let stream = prop::collection::vec(request(), 1..4).prop_map(|all| all.concat());
    (stream, damage).prop_map(|(mut stream, damage)| {
        for (index, byte) in damage {
            let at = index.index(stream.len());
            stream[at] = byte;
        }
        stream
    })
}

proptest! {
    #[test]
    fn valid_requests_pass_unchanged_however_they_are_cut(
        requests in prop::collection::vec(request(), 1..5),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let stream = requests.concat();
        prop_assert_eq!(feed(&stream, &cuts), (stream, None));
    }

    #[test]
    fn the_verdict_does_not_depend_on_how_the_stream_is_cut(
        stream in damaged(),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let every_byte: Vec<usize> = (0..stream.len()).collect();
        let whole = feed(&stream, &[]);
        prop_assert_eq!(&feed(&stream, &cuts), &whole);
        prop_assert_eq!(&feed(&stream, &every_byte), &whole);
        prop_assert!(stream.starts_with(&whole.0));
    }

    #[test]
    fn any_bytes_are_judged_without_panic(stream in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = feed(&stream, &[]);
    }
}

/// The framer counts bodies itself, so that what stands behind one is judged as strictly.
#[test]
fn a_request_behind_a_body_is_judged_too() {
    let first = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                 3\r\nabc\r\n0\r\nt: 1\r\n\r\n";
    let second = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\
                  Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let (passed, violation) = feed(&[first, second].concat().into_bytes(), &[]);
    assert_eq!(passed, first.as_bytes());
    assert_eq!(violation, Some(Violation::TwoLengths));
}

#[test]
fn one_empty_line_before_a_request_passes_and_two_do_not() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let one = format!("{request}\r\n{request}");
    assert_eq!(feed(one.as_bytes(), &[]), (one.clone().into_bytes(), None));
    let two = format!("\r\n\r\n{request}");
    assert_eq!(feed(two.as_bytes(), &[]).1, Some(Violation::EmptyLines));
}

#[test]
fn a_head_of_exactly_the_limit_passes_and_one_byte_more_does_not() {
    let head = |bytes: usize| {
        let (before, after) = ("GET / HTTP/1.1\r\nHost: a\r\nx: ", "\r\n\r\n");
        let filler = "y".repeat(bytes - before.len() - after.len());
        format!("{before}{filler}{after}")
    };
    assert_eq!(feed(head(MAX_HEAD).as_bytes(), &[]).1, None);
    let over = feed(head(MAX_HEAD + 1).as_bytes(), &[]).1;
    assert_eq!(over, Some(Violation::HeadTooLong(MAX_HEAD)));
}

#[test]
fn extensions_of_a_whole_body_are_bounded_together() {
    let mut body = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    let chunk = format!("1;{}\r\nx\r\n", "e".repeat(200));
    let within = MAX_EXTENSIONS / 201;
    body.push_str(&chunk.repeat(within));
    assert_eq!(feed(body.as_bytes(), &[]).1, None);
    body.push_str(&chunk);
    let over = Some(Violation::ChunkExtension(MAX_EXTENSIONS));
    assert_eq!(feed(body.as_bytes(), &[]).1, over);
}
