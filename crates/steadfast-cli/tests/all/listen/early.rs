//! Answers given before the request was read: the caller reads them whole.

use super::raw::{Running, answers, rest, soon};
use super::*;

#[tokio::test]
async fn a_caller_who_still_sends_6_mib_reads_the_whole_early_answer() {
    let front = Running::start(answering(413), patient()).await;
    let mut stream = front.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6291456\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("a head");
    let body = vec![b'x'; 6 * 1024 * 1024];
    let sent = soon("the body to be taken", stream.write_all(&body)).await;
    sent.expect("no reset while the body is sent");
    let answer = &answers(&rest(&mut stream).await)[0];
    assert_eq!(answer.status, 413);
    assert_eq!(answer.body, b"answer");
    assert_eq!(answer.headers["connection"], "close");
}

#[tokio::test]
async fn a_chunked_upload_refused_at_once_gets_its_answer_too() {
    let front = Running::start(answering(413), patient()).await;
    let mut stream = front.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let all = [head, &chunk.repeat(64), "0\r\n\r\n"].concat();
    let sent = soon("the body to be taken", stream.write_all(all.as_bytes())).await;
    sent.expect("no reset while the body is sent");
    assert_eq!(answers(&rest(&mut stream).await)[0].status, 413);
}

#[tokio::test]
async fn a_malformed_head_in_front_of_a_long_body_is_answered_without_reset() {
    let front = Running::start(answering(200), patient()).await;
    let mut stream = front.connect().await;
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +6000000\r\n\r\n";
    let all = [head.as_slice(), &vec![b'x'; 6_000_000]].concat();
    let sent = soon("the body to be taken", stream.write_all(&all)).await;
    sent.expect("no reset while the body is sent");
    assert_eq!(answers(&rest(&mut stream).await)[0].status, 400);
}

#[tokio::test]
async fn lingering_ends_with_its_limit_of_bytes_and_of_time() {
    let few = Limits {
        linger_bytes: 1,
        ..patient()
    };
    let short = Limits {
        linger_time: AT_ONCE,
        ..patient()
    };
    for limits in [few, short] {
        let front = Running::start(answering(413), limits).await;
        let mut stream = front.connect().await;
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n";
        stream.write_all(head).await.expect("a head");
        let block = vec![b'x'; 64 * 1024];
        let refused = async { while stream.write_all(&block).await.is_ok() {} };
        soon("the connection to be cut", refused).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_shows_the_early_answer_with_and_without_expect() {
    let front = Running::start(answering(413), patient()).await;
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("upload");
    std::fs::write(&file, vec![b'x'; 6 * 1024 * 1024]).expect("a file");
    for expect in ["Expect:", "Expect: 100-continue"] {
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "-m",
            "60",
            "-H",
            expect,
            "-w",
            " %{http_code}",
            "--data-binary",
        ]);
        curl.arg(format!("@{}", file.display()));
        curl.arg(format!("http://{}/", front.addr));
        let ran = tokio::task::spawn_blocking(move || curl.output()).await;
        let output = ran.expect("a task").expect("curl is installed");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "answer 413",
            "{output:?}"
        );
    }
}
