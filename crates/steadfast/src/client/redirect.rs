//! Redirects, where they were asked for.
//!
//! Decides whether an answer is followed and with what. A redirect is another request, so only what
//! may be sent to the place that it names goes there: no key and no credentials to another origin,
//! no method that changes on the way but by 303, nothing from https to http (RFC 9110, 15.4). What
//! cannot be followed so is the answer.

use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_LOCATION,
    CONTENT_TYPE, COOKIE, HOST, HeaderName, LOCATION, PROXY_AUTHORIZATION, TRAILER,
    TRANSFER_ENCODING,
};
use http::{Method, Response, StatusCode, Uri};
use iri_string::types::{UriAbsoluteString, UriReferenceStr};
use steadfast_core::repeat::KeyUse;

use super::request_body::RequestBody;
use super::settings::Prepared;

/// The next request of an operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    method: Method,
    uri: Uri,
    /// The body goes along.
    with_body: bool,
    /// Scheme, host and port are the same, so the service is the one that was asked.
    same_origin: bool,
}

/// Where `answer` leads, if it is to be followed.
pub(super) fn step<B>(operation: &Prepared, answer: &Response<B>) -> Option<Step> {
    let head = &operation.head;
    let (method, with_body) = match answer.status() {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND if head.method.is_safe() => {
            (head.method.clone(), true)
        }
        StatusCode::SEE_OTHER if head.method == Method::HEAD => (Method::HEAD, false),
        StatusCode::SEE_OTHER => (Method::GET, false),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
            (head.method.clone(), true)
        }
        _ => return None,
    };
    let mut locations = answer.headers().get_all(LOCATION).iter();
    let (location, None) = (locations.next()?, locations.next()) else {
        return None;
    };
    let uri = resolve(location.to_str().ok()?, &head.uri)?;
    let same_origin = origin(&uri)? == origin(&head.uri)?;
    let downgrade = head.uri.scheme_str() == Some("https") && uri.scheme_str() != Some("https");
    let keyed_away = with_body && !same_origin && operation.key_use != KeyUse::None;
    let body_gone = with_body && operation.body.is_gone();
    let followed = !downgrade && !keyed_away && !body_gone;
    followed.then_some(Step {
        method,
        uri,
        with_body,
        same_origin,
    })
}

impl Step {
    /// Makes the operation the next one.
    pub(super) fn take(self, operation: &mut Prepared, key_header: &HeaderName) {
        let head = &mut operation.head;
        head.method = self.method;
        head.uri = self.uri;
        // Fields that speak of a body, or of the host that was asked.
        head.headers.remove(HOST);
        if !self.with_body {
            for name in [
                CONTENT_ENCODING,
                CONTENT_LANGUAGE,
                CONTENT_LENGTH,
                CONTENT_LOCATION,
                CONTENT_TYPE,
                TRANSFER_ENCODING,
                TRAILER,
            ] {
                head.headers.remove(name);
            }
            head.headers.remove(key_header);
            operation.key_use = KeyUse::None;
            operation.body = RequestBody::empty();
        }
        if !self.same_origin {
            for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
                head.headers.remove(name);
            }
            head.headers.remove(key_header);
        }
    }
}

fn resolve(location: &str, base: &Uri) -> Option<Uri> {
    let location = UriReferenceStr::new(location).ok()?;
    let base = UriAbsoluteString::try_from(base.to_string()).ok()?;
    location.resolve_against(&base).to_string().parse().ok()
}

/// Scheme, host and port (RFC 6454, 4). `None` where there is no host, or credentials before it.
fn origin(uri: &Uri) -> Option<(String, String, u16)> {
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let port = match (uri.port_u16(), scheme) {
        (Some(port), _) => port,
        (None, "http") => 80,
        (None, "https") => 443,
        (None, _) => return None,
    };
    let host = authority.host().to_ascii_lowercase();
    let plain = !authority.as_str().contains('@');
    plain.then(|| (scheme.to_ascii_lowercase(), host, port))
}

#[cfg(test)]
mod tests {
    use http::Request;
    use steadfast_core::policy::RoutePolicy;

    use super::*;
    use crate::client::settings::Settings;

    fn asked(method: Method, uri: &'static str) -> Prepared {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("authorization", "Bearer x")
            .header("content-type", "text/plain")
            .header("accept", "*/*");
        let request = request.body(RequestBody::whole("a")).expect("a request");
        Settings::new(RoutePolicy::default()).prepare(request)
    }

    fn answer(status: u16, location: &'static str) -> Response<()> {
        let answer = Response::builder().status(status);
        answer
            .header(LOCATION, location)
            .body(())
            .expect("an answer")
    }

    // rule: redirects-keep-what-they-may
    #[tokio::test]
    async fn a_redirect_keeps_the_method_but_by_303_and_leads_nowhere_less_safe() {
        const HERE: &str = "http://a.test/x/y";
        let (get, post) = (Method::GET, Method::POST);
        for (method, uri, status, location, leads) in [
            (&get, HERE, 301, "/z?q", Some((&get, "http://a.test/z?q"))),
            (&get, HERE, 302, "z", Some((&get, "http://a.test/x/z"))),
            (&post, HERE, 301, "/z", None),
            (&post, HERE, 302, "/z", None),
            (&post, HERE, 303, "/z", Some((&get, "http://a.test/z"))),
            (
                &post,
                HERE,
                307,
                "//b.test/",
                Some((&post, "http://b.test/")),
            ),
            (&post, HERE, 308, "/z", Some((&post, "http://a.test/z"))),
            (&get, HERE, 300, "/z", None),
            (&get, HERE, 304, "/z", None),
            (&get, HERE, 201, "/z", None),
            (&get, "https://a.test/", 302, "http://a.test/", None),
            (
                &get,
                HERE,
                302,
                "https://a.test/",
                Some((&get, "https://a.test/")),
            ),
            (&get, HERE, 302, "http://me:secret@a.test/", None),
            (&get, HERE, 302, "ftp://a.test/", None),
            (&get, HERE, 302, "http://[", None),
        ] {
            let operation = asked(method.clone(), uri);
            let step = step(&operation, &answer(status, location));
            let got = step.map(|step| (step.method, step.uri.to_string()));
            let leads = leads.map(|(method, uri)| (method.clone(), uri.to_owned()));
            assert_eq!(got, leads, "{method} {status} {location}");
        }
    }

    // rule: no-key-and-no-credentials-to-another-origin
    #[tokio::test]
    async fn credentials_stay_at_their_origin_and_a_keyed_write_is_not_led_away() {
        let key = HeaderName::from_static("idempotency-key");
        for (location, kept) in [
            ("/z", true),
            ("http://A.test:80/z", true),
            ("http://a.test:81/z", false),
            ("https://a.test/z", false),
            ("http://b.test/z", false),
        ] {
            let mut operation = asked(Method::GET, "http://a.test/");
            let step = step(&operation, &answer(307, location)).expect("followed");
            step.take(&mut operation, &key);
            let headers = &operation.head.headers;
            assert_eq!(headers.contains_key("authorization"), kept, "{location}");
            assert!(headers.contains_key("accept"));
        }
        let mut operation = asked(Method::POST, "http://a.test/");
        operation.key_use = KeyUse::Honoured;
        assert_eq!(step(&operation, &answer(307, "http://b.test/")), None);
        assert!(step(&operation, &answer(307, "/z")).is_some());
        // A 303 is read by GET: what was asked for is done, and its key stays behind.
        let step = step(&operation, &answer(303, "http://b.test/")).expect("followed");
        step.take(&mut operation, &key);
        assert_eq!(operation.key_use, KeyUse::None);
        assert!(!operation.head.headers.contains_key("content-type"));
    }
}
