//! Messages that must not pass, with the rule that each breaks.

use steadfast_cli::gateway::framing::{
    MAX_FIELDS, MAX_HEAD, MAX_SIZE_LINE, MAX_TRAILER_FIELDS, MAX_TRAILERS, Violation,
};

type Table = Vec<(Violation, Vec<u8>)>;

/// Whole heads whose mistake is in the bytes shown. `{H}` stands for a Host line.
const HEADS: &[(Violation, &str)] = &[
    // Lines.
    (Violation::BareLf, "GET / HTTP/1.1\nHost: a\n\n"),
    (Violation::BareLf, "GET / HTTP/1.1\r\nHost: a\n\r\n"),
    (Violation::BareLf, "GET / HTTP/1.1\r\nHost: a\r\n\n"),
    (Violation::BareLf, "\nGET / HTTP/1.1\r\n{H}\r\n"),
    (Violation::BareCr, "GET / HTTP/1.1\r\n{H}X: a\rb\r\n\r\n"),
    (Violation::BareCr, "GET / HTTP/1.1\r\n{H}X: a\r\r\n\r\n"),
    (Violation::BareCr, "GET / HTTP/1.1\rHost: a\r\r"),
    (
        Violation::ControlByte,
        "GET / HTTP/1.1\r\n{H}X: a\0b\r\n\r\n",
    ),
    (
        Violation::ControlByte,
        "GET / HTTP/1.1\r\n{H}X: \x0b\r\n\r\n",
    ),
    (
        Violation::ControlByte,
        "GET / HTTP/1.1\r\n{H}X: \x7f\r\n\r\n",
    ),
    (
        Violation::ControlByte,
        "\x16\x03\x01\x02\0\x01\0\x01\u{7c}\x03\x03",
    ),
    (Violation::EmptyLines, "\r\n\r\nGET / HTTP/1.1\r\n{H}\r\n"),
    (
        Violation::ObsFold,
        "GET / HTTP/1.1\r\n{H}X: a\r\n b\r\n\r\n",
    ),
    (
        Violation::ObsFold,
        "GET / HTTP/1.1\r\n{H}X: a\r\n\tb\r\n\r\n",
    ),
    (Violation::ObsFold, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    (
        Violation::ObsFold,
        "GET / HTTP/1.1\r\n{H}Transfer-Encoding:\r\n chunked\r\n\r\n",
    ),
    // The request line.
    (Violation::RequestLine, "GET  / HTTP/1.1\r\n{H}\r\n"),
    (Violation::RequestLine, "GET /\r\n{H}\r\n"),
    (Violation::RequestLine, "GET\t/ HTTP/1.1\r\n{H}\r\n"),
    (Violation::RequestLine, " GET / HTTP/1.1\r\n{H}\r\n"),
    (Violation::RequestLine, "G(T / HTTP/1.1\r\n{H}\r\n"),
    (Violation::RequestLine, "GET / HTTP/1.1 \r\n{H}\r\n"),
    (Violation::Version, "GET / HTTP/2.0\r\n{H}\r\n"),
    (Violation::Version, "GET / HTTP/0.9\r\n{H}\r\n"),
    (Violation::Version, "GET / HTTP/1.2\r\n{H}\r\n"),
    (Violation::Version, "GET / http/1.1\r\n{H}\r\n"),
    (Violation::Version, "GET / a HTTP/1.1\r\n{H}\r\n"),
    (Violation::Http2Preface, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    (
        Violation::Connect,
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
    ),
    (Violation::Connect, "CONNECT / HTTP/1.1\r\n{H}\r\n"),
    (Violation::Target, "GET * HTTP/1.1\r\n{H}\r\n"),
    (Violation::Target, "GET a:80 HTTP/1.1\r\n{H}\r\n"),
    (Violation::Target, "GET a HTTP/1.1\r\n{H}\r\n"),
    (Violation::Target, "GET /a#b HTTP/1.1\r\n{H}\r\n"),
    (Violation::Target, "GET /\u{e4} HTTP/1.1\r\n{H}\r\n"),
    (Violation::Target, "GET ftp://a/ HTTP/1.1\r\n{H}\r\n"),
    (Violation::Target, "OPTIONS ** HTTP/1.1\r\n{H}\r\n"),
    (
        Violation::TargetAuthority,
        "GET http://b/ HTTP/1.1\r\n{H}\r\n",
    ),
    (
        Violation::TargetAuthority,
        "GET http://u@a/ HTTP/1.1\r\n{H}\r\n",
    ),
    (
        Violation::TargetAuthority,
        "GET http://a:81/ HTTP/1.1\r\n{H}\r\n",
    ),
    // Names and values.
    (Violation::FieldName, "GET / HTTP/1.1\r\n{H}X : a\r\n\r\n"),
    (Violation::FieldName, "GET / HTTP/1.1\r\n{H}X\t: a\r\n\r\n"),
    (Violation::FieldName, "GET / HTTP/1.1\r\n{H}X a\r\n\r\n"),
    (Violation::FieldName, "GET / HTTP/1.1\r\n{H}: a\r\n\r\n"),
    (Violation::FieldName, "GET / HTTP/1.1\r\n{H}X(: a\r\n\r\n"),
    (
        Violation::FieldName,
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        Violation::LookAlike,
        "POST / HTTP/1.1\r\n{H}Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        Violation::LookAlike,
        "POST / HTTP/1.1\r\n{H}content_length: 5\r\n\r\n",
    ),
    // Host.
    (Violation::HostMissing, "GET / HTTP/1.1\r\n\r\n"),
    (Violation::HostRepeated, "GET / HTTP/1.1\r\n{H}{H}\r\n"),
    (
        Violation::HostRepeated,
        "GET / HTTP/1.0\r\n{H}Host: b\r\n\r\n",
    ),
    (Violation::HostInvalid, "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    (
        Violation::HostInvalid,
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    ),
    (
        Violation::HostInvalid,
        "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
    ),
    (
        Violation::HostInvalid,
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    ),
    (
        Violation::HostInvalid,
        "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n",
    ),
    (
        Violation::HostInvalid,
        "GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n",
    ),
    (
        Violation::HostInvalid,
        "GET / HTTP/1.1\r\nHost: a:+80\r\n\r\n",
    ),
    // Two ways to end a body.
    (
        Violation::TwoLengths,
        "POST / HTTP/1.1\r\n{H}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        Violation::TwoLengths,
        "POST / HTTP/1.1\r\n{H}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    ),
    (
        Violation::TwoLengths,
        "POST / HTTP/1.0\r\n{H}Content-Length: 5\r\nTransfer-Encoding: x\r\n\r\nabcde",
    ),
    // Content-Length.
    (
        Violation::LengthRepeated,
        "{L}5\r\nContent-Length: 5\r\n\r\nabcde",
    ),
    (
        Violation::LengthRepeated,
        "{L}5\r\nContent-Length: 6\r\n\r\nabcdef",
    ),
    (Violation::LengthRepeated, "{L}5, 5\r\n\r\nabcde"),
    (Violation::LengthRepeated, "{L}5,\r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}+5\r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}-5\r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}5 5\r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}5 \r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}\t5\r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}\r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}0x5\r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}5.0\r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}\u{665}\r\n\r\nabcde"),
    (Violation::LengthInvalid, "{L}9223372036854775808\r\n\r\n"),
    (
        Violation::LengthInvalid,
        "{L}18446744073709551621\r\n\r\nabcde",
    ),
    // Transfer-Encoding.
    (Violation::Encoding, "{T}identity\r\n\r\n0\r\n\r\n"),
    (Violation::Encoding, "{T}gzip, chunked\r\n\r\n0\r\n\r\n"),
    (Violation::Encoding, "{T}chunked, chunked\r\n\r\n0\r\n\r\n"),
    (Violation::Encoding, "{T}chunked, identity\r\n\r\n0\r\n\r\n"),
    (
        Violation::Encoding,
        "{T}chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        Violation::Encoding,
        "{T}chunked\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
    ),
    (Violation::Encoding, "{T}\tchunked\r\n\r\n0\r\n\r\n"),
    (Violation::Encoding, "{T}chunked\t\r\n\r\n0\r\n\r\n"),
    (Violation::Encoding, "{T}chunked \r\n\r\n0\r\n\r\n"),
    (Violation::Encoding, "{T}\"chunked\"\r\n\r\n0\r\n\r\n"),
    (Violation::Encoding, "{T}chunked;q=1\r\n\r\n0\r\n\r\n"),
    (Violation::Encoding, "{T}xchunked\r\n\r\n0\r\n\r\n"),
    (Violation::Encoding, "{T}\r\n\r\n0\r\n\r\n"),
    (
        Violation::EncodingVersion,
        "POST / HTTP/1.0\r\n{H}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
];

/// Chunked bodies whose mistake comes after a right head.
const BODIES: &[(Violation, &str)] = &[
    (Violation::ChunkSize, "g\r\nabc\r\n0\r\n\r\n"),
    (Violation::ChunkSize, "\r\n0\r\n\r\n"),
    (Violation::ChunkSize, "-1\r\n0\r\n\r\n"),
    (Violation::ChunkSize, "+3\r\nabc\r\n0\r\n\r\n"),
    (Violation::ChunkSize, "0x3\r\nabc\r\n0\r\n\r\n"),
    (Violation::ChunkSize, " 3\r\nabc\r\n0\r\n\r\n"),
    (Violation::ChunkSize, "3 \r\nabc\r\n0\r\n\r\n"),
    (Violation::ChunkSize, "3\t;a\r\nabc\r\n0\r\n\r\n"),
    (Violation::ChunkSize, "3\r\r\nabc\r\n0\r\n\r\n"),
    (Violation::ChunkSize, "3;a\x0b\r\nabc\r\n0\r\n\r\n"),
    (Violation::ChunkSize, "8000000000000000\r\nabc"),
    (
        Violation::ChunkSize,
        "10000000000000003\r\nabc\r\n0\r\n\r\n",
    ),
    (Violation::BareLf, "3\nabc\r\n0\r\n\r\n"),
    (Violation::BareLf, "3;a\nabc\r\n0\r\n\r\n"),
    (Violation::ChunkEnd, "3\r\nabcd\r\n0\r\n\r\n"),
    (Violation::ChunkEnd, "3\r\nabc\n0\r\n\r\n"),
    (Violation::ChunkEnd, "3\r\nabc0\r\n\r\n"),
    (Violation::ChunkEnd, "3\r\nabc\r0\r\n\r\n"),
    (Violation::BareCr, "0\r\n\rX"),
    (Violation::BareLf, "0\r\nx: 1\n\r\n"),
    (Violation::ControlByte, "0\r\nx: \0\r\n\r\n"),
    (Violation::ObsFold, "0\r\nx: 1\r\n 2\r\n\r\n"),
    (Violation::FieldName, "0\r\nx : 1\r\n\r\n"),
    (Violation::FieldName, "0\r\nGET / HTTP/1.1\r\n\r\n"),
    (Violation::TrailerField, "0\r\nContent-Length: 5\r\n\r\n"),
    (
        Violation::TrailerField,
        "0\r\ntransfer_encoding: chunked\r\n\r\n",
    ),
    (Violation::TrailerField, "0\r\nHost: b\r\n\r\n"),
];

/// Heads, and heads that are too large.
pub fn heads() -> Table {
    let write = |text: &str| {
        text.replace("{L}", "POST / HTTP/1.1\r\n{H}Content-Length: ")
            .replace("{T}", "POST / HTTP/1.1\r\n{H}Transfer-Encoding: ")
            .replace("{H}", "Host: a\r\n")
            .into_bytes()
    };
    let mut table: Table = HEADS
        .iter()
        .map(|(violation, text)| (*violation, write(text)))
        .collect();
    let long = format!("GET / HTTP/1.1\r\n{{H}}x: {}\r\n\r\n", "y".repeat(MAX_HEAD));
    let endless = format!("GET /{}", "y".repeat(MAX_HEAD));
    let many = format!(
        "GET / HTTP/1.1\r\n{{H}}{}\r\n",
        "x: y\r\n".repeat(MAX_FIELDS)
    );
    let too_long = Violation::HeadTooLong(MAX_HEAD);
    table.push((too_long, write(&long)));
    table.push((too_long, write(&endless)));
    table.push((Violation::TooManyFields(MAX_FIELDS), write(&many)));
    table
}

/// Right heads with bodies that are not, or are too large.
pub fn bodies() -> Table {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n";
    let write = |text: &str| [head, text].concat().into_bytes();
    let mut table: Table = BODIES
        .iter()
        .map(|(violation, text)| (*violation, write(text)))
        .collect();
    let extension = format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(MAX_SIZE_LINE));
    let endless = "0".repeat(MAX_SIZE_LINE);
    let trailer = format!("0\r\nx: {}\r\n\r\n", "y".repeat(MAX_TRAILERS));
    let many = format!("0\r\n{}\r\n", "x: y\r\n".repeat(MAX_TRAILER_FIELDS + 1));
    let too_long = Violation::ChunkExtension(MAX_SIZE_LINE);
    table.push((too_long, write(&extension)));
    table.push((too_long, write(&endless)));
    table.push((Violation::TrailerTooLong(MAX_TRAILERS), write(&trailer)));
    table.push((Violation::TooManyTrailers(MAX_TRAILER_FIELDS), write(&many)));
    table
}

/// Everything.
pub fn table() -> Table {
    [heads(), bodies()].concat()
}
