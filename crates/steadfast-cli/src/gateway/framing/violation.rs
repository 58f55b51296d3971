//! Why a byte stream was refused, each with the sentence that its sender reads.

use std::fmt;

/// A rule of HTTP/1.1 framing that the caller's bytes broke. Nothing of the message was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The head did not end within so many bytes.
    HeadTooLong(usize),
    /// More header fields than this.
    TooManyFields(usize),
    /// The head took longer than the limit from its first byte to its end.
    HeadTooSlow,
    /// A line ended with LF alone.
    BareLf,
    /// A CR without LF.
    BareCr,
    /// A control byte other than a tab.
    ControlByte,
    /// Several empty lines before the request line.
    EmptyLines,
    /// The request line is not `METHOD SP TARGET SP VERSION`.
    RequestLine,
    /// A version other than HTTP/1.0 and HTTP/1.1.
    Version,
    /// HTTP/2's preface where HTTP/2 is not spoken, or not at the beginning of a connection.
    Http2Preface,
    /// CONNECT: there is no tunnel here.
    Connect,
    /// The target is not of a form that its method allows, or holds bytes that no target may.
    Target,
    /// The authority of an absolute target is not the Host.
    TargetAuthority,
    /// A field continues on a second line.
    ObsFold,
    /// A field line without a valid name directly before its colon.
    FieldName,
    /// A field value holds bytes that none may.
    FieldValue,
    /// A name that some services read as a framing field, such as `content_length`.
    LookAlike,
    /// No Host on HTTP/1.1.
    HostMissing,
    /// More than one Host.
    HostRepeated,
    /// A Host that is empty or is not `name[:port]`.
    HostInvalid,
    /// Content-Length and Transfer-Encoding in one message.
    TwoLengths,
    /// Content-Length more than once, or a list.
    LengthRepeated,
    /// A Content-Length that is not digits alone, or too large to count.
    LengthInvalid,
    /// Transfer-Encoding that is not exactly one `chunked`.
    Encoding,
    /// Transfer-Encoding on HTTP/1.0.
    EncodingVersion,
    /// A chunk's size is not hexadecimal digits alone, or too large to count.
    ChunkSize,
    /// A chunk's size line, or all chunk extensions together, are longer than this.
    ChunkExtension(usize),
    /// A chunk's data are not followed by CRLF.
    ChunkEnd,
    /// The trailer section is longer than this.
    TrailerTooLong(usize),
    /// More trailer fields than this.
    TooManyTrailers(usize),
    /// A framing or routing field in the trailers.
    TrailerField,
}

impl fmt::Display for Violation {
    /// What was wrong, and the next step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Violation::*;
        match self {
            HeadTooLong(most) => write!(
                f,
                "the request head is longer than {most} bytes; send fewer or shorter header fields"
            ),
            TooManyFields(most) => write!(
                f,
                "the request has more than {most} header fields; send fewer"
            ),
            ChunkExtension(most) => write!(
                f,
                "the chunk extensions are longer than {most} bytes; send chunks without them"
            ),
            TrailerTooLong(most) => write!(
                f,
                "the trailers are longer than {most} bytes; send fewer or shorter ones"
            ),
            TooManyTrailers(most) => {
                write!(f, "there are more than {most} trailer fields; send fewer")
            }
            other => f.write_str(other.text()),
        }
    }
}

impl Violation {
    fn text(&self) -> &'static str {
        use Violation::*;
        match self {
            HeadTooSlow => "the request head did not arrive in time; send it at once",
            BareLf => "a line of the request ends with LF alone; end every line with CRLF",
            BareCr => "the request holds a CR without LF; end every line with CRLF",
            ControlByte => "the request head holds a control byte; send plain HTTP/1.1",
            EmptyLines => "there are several empty lines before the request line; send none",
            RequestLine => "the request line is malformed; send METHOD SP TARGET SP HTTP/1.1",
            Version => "this version of HTTP is not spoken here; send HTTP/1.1",
            Http2Preface => {
                "HTTP/2 is not spoken here; send HTTP/1.1, or open a connection of its own with it"
            }
            Connect => "CONNECT is refused, this is not a tunnel; send the request itself",
            Target => {
                "the request target is malformed; send a path that begins with /, percent-encoded \
                 and without fragment (* only with OPTIONS)"
            }
            TargetAuthority => {
                "the target names another authority than Host; send the same one in both"
            }
            ObsFold => "a header field continues on a second line; send it on one line",
            FieldName => "a header line has no valid name directly before its colon; correct it",
            FieldValue => "a header value holds bytes that none may; encode them",
            LookAlike => {
                "a field name with _ can be taken for Content-Length, Transfer-Encoding or Host; \
                 rename it"
            }
            HostMissing => "there is no Host; send exactly one",
            HostRepeated => "there is more than one Host; send exactly one",
            HostInvalid => "the Host is empty or malformed; send name or name:port",
            TwoLengths => {
                "Content-Length and Transfer-Encoding contradict each other; send only one of them"
            }
            LengthRepeated => "there is more than one Content-Length; send exactly one",
            LengthInvalid => "the Content-Length is not a number of bytes; send digits alone",
            Encoding => "the Transfer-Encoding is not exactly one `chunked`; send that or none",
            EncodingVersion => {
                "Transfer-Encoding does not exist in HTTP/1.0; send Content-Length or HTTP/1.1"
            }
            ChunkSize => {
                "a chunk's size is not a hexadecimal number; send hexadecimal digits alone"
            }
            ChunkEnd => "a chunk's data do not end with CRLF; send as many bytes as its size says",
            TrailerField => {
                "the trailers hold Content-Length, Transfer-Encoding or Host; send them in the head"
            }
            HeadTooLong(_) | TooManyFields(_) | ChunkExtension(_) | TrailerTooLong(_)
            | TooManyTrailers(_) => "a limit was passed; send less",
        }
    }
}
