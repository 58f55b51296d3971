//! An answer as its caller sees it.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use steadfast::body::Body;

/// An answer, read to its end.
#[derive(Debug)]
pub struct Seen {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The body, or how it was cut.
    pub body: Result<Bytes, String>,
}

impl Seen {
    pub async fn of(response: Response<Body>) -> Seen {
        let (parts, body) = response.into_parts();
        let body = body.collect().await;
        Seen {
            status: parts.status,
            headers: parts.headers,
            body: body
                .map(|whole| whole.to_bytes())
                .map_err(|e| e.to_string()),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Status, `Idempotent-Replayed` and `Steadfast-Effect`.
    pub fn told(&self) -> (u16, Option<&str>, Option<&str>) {
        let (replayed, effect) = ("idempotent-replayed", "steadfast-effect");
        (
            self.status.as_u16(),
            self.header(replayed),
            self.header(effect),
        )
    }

    pub fn bytes(&self) -> &[u8] {
        self.body.as_ref().expect("a whole body")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(self.bytes()).expect("JSON")
    }

    /// Status and slug of a problem.
    pub fn problem(&self) -> (u16, String) {
        let body = self.json();
        assert!(!self.headers.contains_key("idempotent-replayed"));
        assert_eq!(body["status"], self.status.as_u16());
        let slug = body["type"].as_str().expect("a problem");
        let slug = slug.trim_start_matches("urn:steadfast:problem:");
        (self.status.as_u16(), slug.to_owned())
    }

    /// Asserts the problem, with its effect and whether asking again is sensible.
    #[track_caller]
    pub fn is_problem(&self, status: u16, slug: &str, effect: &str, retryable: bool) {
        assert_eq!(self.problem(), (status, slug.to_owned()));
        let body = self.json();
        assert_eq!(body["effect"], effect);
        assert_eq!(self.header("steadfast-effect"), Some(effect));
        assert_eq!(body["retryable"], retryable);
    }
}
