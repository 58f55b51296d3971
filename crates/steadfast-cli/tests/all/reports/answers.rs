//! Reports about what of an answer came through, and what came again.

use crate::gateway::caller::{call, charge, get, keyed_charge};
use crate::gateway::running::Gateway;
use crate::gateway::upstream::{Upstream, answer};

// ncr/rack-proxy#130: an answer that came compressed went on with another length than its body.
// gofiber/fiber#4693: values with commas were taken apart, and repeated ones put together.
#[tokio::test]
async fn an_answer_in_a_coding_nobody_asked_for_is_replayed_in_it_byte_for_byte() {
    let zipped = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xff\xff";
    let head = format!(
        "HTTP/1.1 201 Created\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n\
         Vary: Origin, Accept\r\nExpires: Thu, 01 Jan 1970 00:00:00 GMT\r\nETag: \"a,b\"\r\n\
         Content-Length: {}\r\n\r\n",
        zipped.len()
    );
    let bytes = [head.as_bytes(), zipped].concat();
    let upstream = Upstream::start(move |exchange| exchange.reply(bytes.clone())).await;
    let gateway = Gateway::to(upstream.addr).await;
    for (coding, marker) in [("gzip", "false"), ("br", "true"), ("identity", "true")] {
        let call = keyed_charge().with("Accept-Encoding", coding);
        let answer = gateway.send(&call).await;
        assert_eq!((answer.status, answer.replayed()), (201, Some(marker)));
        assert_eq!(answer.body, zipped);
        assert_eq!(answer.field("content-encoding"), Some("gzip"));
        assert_eq!(answer.field("content-length"), Some("12"));
        assert_eq!(answer.field("etag"), Some("\"a,b\""));
        let vary: Vec<_> = answer.headers.get_all("vary").iter().collect();
        assert_eq!(vary, ["Accept-Encoding", "Origin, Accept"]);
    }
    assert_eq!(upstream.count(), 1);
}

// novuhq/novu#12451: the stored 503 came back as a 500.
// EveryInc/proof-sdk#10, resonatehq/resonate#99: the stored 201 came back as a 200.
#[tokio::test]
async fn a_stored_answer_comes_back_under_its_own_status_whatever_that_is() {
    for status in [
        200, 201, 202, 203, 206, 226, 299, 303, 404, 409, 418, 499, 500, 511, 599,
    ] {
        let upstream = Upstream::saying(&answer(&format!("{status} So"), "", "body")).await;
        let gateway = Gateway::to(upstream.addr).await;
        for marker in ["false", "true"] {
            let answer = gateway.send(&keyed_charge()).await;
            assert_eq!(
                (answer.status, answer.replayed(), answer.text()),
                (status, Some(marker), "body")
            );
        }
        assert_eq!(upstream.count(), 1, "{status}");
    }
}

// ncr/rack-proxy#130: answers that have no body left the connection to the service broken.
#[tokio::test]
async fn an_answer_without_body_is_replayed_without_one_and_the_connection_goes_on() {
    for status in ["204 No Content", "304 Not Modified", "205 Reset Content"] {
        let bytes = match status {
            "205 Reset Content" => format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"),
            status => format!("HTTP/1.1 {status}\r\nETag: \"1\"\r\n\r\n"),
        };
        let upstream = Upstream::saying(&bytes).await;
        let gateway = Gateway::to(upstream.addr).await;
        let mut caller = gateway.connect().await;
        for marker in ["false", "true", "true"] {
            let answer = caller.ask(&keyed_charge()).await;
            assert!(status.starts_with(&answer.status.to_string()), "{answer:?}");
            assert_eq!((answer.replayed(), answer.text()), (Some(marker), ""));
            assert_eq!(answer.field("transfer-encoding"), None);
        }
        assert_eq!(upstream.count(), 1);
    }
}

// golang/go#46313: an empty first Connection line kept all later ones from being looked at.
#[tokio::test]
async fn an_empty_first_connection_line_hides_no_later_one_on_either_way() {
    let head = "Connection:\r\nConnection: X-One\r\nConnection: , ,x-two ,\r\nX-One: 1\r\n\
                X-Two: 2\r\nX-Three: 3\r\n";
    let upstream = Upstream::saying(&answer("200 OK", head, "")).await;
    let gateway = Gateway::to(upstream.addr).await;
    for base in [keyed_charge(), charge(), get("/")] {
        let call = base
            .with("Connection", "")
            .with("Connection", "X-One")
            .with("Connection", ", ,x-two ,")
            .with("X-One", "1")
            .with("X-Two", "2")
            .with("X-Three", "3");
        let answer = gateway.send(&call).await;
        assert_eq!(answer.field("x-three"), Some("3"));
        let seen = upstream.seen().pop().expect("one");
        assert_eq!(seen.one("x-three"), "3");
        for name in ["x-one", "x-two"] {
            assert_eq!(answer.field(name), None, "{answer:?}");
            assert!(seen.values(name).is_empty(), "{seen:?}");
        }
    }
    // The second caller of the key is given none of it either.
    let replayed = gateway.send(&keyed_charge()).await;
    assert_eq!(replayed.replayed(), Some("true"));
    assert_eq!(
        (replayed.field("x-one"), replayed.field("x-two")),
        (None, None)
    );
}

// nginx/nginx#1427: an answer 1xx that was not known was taken for the last one, so that the real
// answer became the next request's.
// ratpack/ratpack#1559: 100 was passed on as the answer.
#[tokio::test]
async fn whatever_is_informational_is_not_the_answer_and_the_next_answer_is_the_next_request_s() {
    let upstream = Upstream::start(|exchange| async move {
        let number = exchange.number;
        let real = answer("200 OK", "", &number.to_string());
        let all = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                   HTTP/1.1 199 Odd\r\nX: y\r\n\r\n";
        exchange.reply(format!("{all}{real}")).await
    })
    .await;
    let gateway = Gateway::to(upstream.addr).await;
    let mut caller = gateway.connect().await;
    let calls = [
        get("/"),
        charge(),
        keyed_charge(),
        call("DELETE", "/1"),
        get("/"),
    ];
    for (at, call) in calls.iter().enumerate() {
        let answer = caller.ask(call).await;
        let number = (at + 1).to_string();
        assert_eq!((answer.status, answer.text()), (200, number.as_str()));
        assert_eq!((answer.field("link"), answer.field("x")), (None, None));
    }
}

// freeunitorg/freeunit#165: a length that a service said twice, as a list, went on as it was.
// envoyproxy/envoy#3648: to refuse such answers broke old services, which say it twice and mean it.
#[tokio::test]
async fn a_length_that_was_said_twice_goes_on_once() {
    for lengths in ["4, 4", "4,4 ,4", "4\r\nContent-Length: 4"] {
        let bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {lengths}\r\n\r\n");
        let upstream = Upstream::start(move |exchange| {
            let bodiless = exchange.seen().method == "HEAD";
            let body = if bodiless { "" } else { "made" };
            exchange.reply(format!("{bytes}{body}"))
        })
        .await;
        let gateway = Gateway::to(upstream.addr).await;
        let mut caller = gateway.connect().await;
        let head = caller.ask(&call("HEAD", "/")).await;
        assert_eq!(head.field("content-length"), Some("4"), "{lengths}");
        for call in [get("/"), keyed_charge(), keyed_charge(), charge()] {
            let answer = caller.ask(&call).await;
            assert_eq!((answer.status, answer.text()), (200, "made"));
            assert_eq!(answer.field("content-length"), Some("4"), "{lengths}");
        }
        assert_eq!(upstream.count(), 4);
    }
}
