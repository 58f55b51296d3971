//! Every rule against requests that it can be misread by.

use http::HeaderValue;

use super::*;

type Fields<'a> = &'a [(&'static str, &'a str)];

fn evaluate(
    rule: &str,
    fields: Fields<'_>,
    peer_is_trusted: bool,
) -> Result<String, PrincipalError> {
    let rule = PrincipalRule::parse(rule).expect("a rule");
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(*name, HeaderValue::from_str(value).expect("a field value"));
    }
    Ok(match rule.evaluate(&map, peer_is_trusted)? {
        Principal::Anonymous => "anonymous".to_owned(),
        Principal::Proven { kind, value } => {
            format!("{kind} {}", String::from_utf8_lossy(&value))
        }
    })
}

fn repeated(what: &str) -> Result<String, PrincipalError> {
    Err(PrincipalError::Repeated(what.to_owned()))
}

fn absent(rule: &str) -> Result<String, PrincipalError> {
    Err(PrincipalError::Absent(
        PrincipalRule::parse(rule).expect("a rule"),
    ))
}

#[test]
fn a_rule_tells_whose_request_it_is_or_refuses() {
    let (inside, outside) = (true, false);
    let ok = |text: &str| Ok(text.to_owned());
    let table: &[(&str, Fields<'_>, bool, Result<String, PrincipalError>)] = &[
        (
            "authorization",
            &[("authorization", "Bearer a")],
            outside,
            ok("authorization Bearer a"),
        ),
        ("authorization", &[], outside, ok("anonymous")),
        (
            "authorization",
            &[("authorization", "")],
            outside,
            ok("anonymous"),
        ),
        (
            "authorization",
            &[("cookie", "a=b")],
            outside,
            Err(PrincipalError::CookieOnly),
        ),
        (
            "authorization",
            &[("authorization", ""), ("cookie", "a=b")],
            outside,
            Err(PrincipalError::CookieOnly),
        ),
        (
            "authorization",
            &[("authorization", "x"), ("cookie", "a=b")],
            outside,
            ok("authorization x"),
        ),
        (
            "authorization",
            &[("authorization", "x"), ("authorization", "x")],
            outside,
            repeated("`authorization` field"),
        ),
        (
            "anonymous",
            &[("cookie", "a=b"), ("authorization", "x")],
            outside,
            ok("anonymous"),
        ),
        (
            "header:X-Tenant",
            &[("x-tenant", "t")],
            inside,
            ok("header:x-tenant t"),
        ),
        ("header:X-Tenant", &[], inside, absent("header:x-tenant")),
        (
            "header:X-Tenant",
            &[("x-tenant", " ")],
            inside,
            absent("header:x-tenant"),
        ),
        (
            "header:X-Tenant",
            &[("x-tenant", "t"), ("x-tenant", "t")],
            inside,
            repeated("`x-tenant` field"),
        ),
        (
            "header:X-Tenant",
            &[("x-tenant", "t")],
            outside,
            Err(PrincipalError::UntrustedPeer),
        ),
        (
            "header:X-Tenant",
            &[],
            outside,
            Err(PrincipalError::UntrustedPeer),
        ),
        (
            "cookie:sid",
            &[("cookie", "a=b; sid=x=y ;c")],
            outside,
            ok("cookie:sid x=y"),
        ),
        (
            "cookie:sid",
            &[("cookie", "a=b"), ("cookie", "sid=x")],
            outside,
            ok("cookie:sid x"),
        ),
        (
            "cookie:sid",
            &[("cookie", "SID=x; sidx=1; xsid=2; sid")],
            outside,
            absent("cookie:sid"),
        ),
        (
            "cookie:sid",
            &[("cookie", "sid=")],
            outside,
            absent("cookie:sid"),
        ),
        (
            "cookie:sid",
            &[("cookie", "sid=x; sid=y")],
            outside,
            repeated("cookie `sid`"),
        ),
        (
            "cookie:sid",
            &[("cookie", "sid=x"), ("cookie", "sid=x")],
            outside,
            repeated("cookie `sid`"),
        ),
        (
            "cookie:sid",
            &[("authorization", "x")],
            outside,
            absent("cookie:sid"),
        ),
    ];
    for (rule, fields, peer, expected) in table {
        assert_eq!(
            &evaluate(rule, fields, *peer),
            expected,
            "{rule} {fields:?} {peer}"
        );
    }
}

#[test]
fn a_rule_is_read_back_from_its_own_text() {
    for text in [
        "authorization",
        "anonymous",
        "header:x-tenant",
        "cookie:Sid",
    ] {
        let rule = PrincipalRule::parse(text).expect("a rule");
        assert_eq!(rule.to_string(), text);
    }
    let table = [
        ("", RuleError::Unknown),
        ("Authorization", RuleError::Unknown),
        ("ip:x", RuleError::Unknown),
        ("tls", RuleError::NotYetSupported),
        ("jwt:sub", RuleError::NotYetSupported),
        ("header:", RuleError::Name),
        ("header:a b", RuleError::Name),
        ("cookie:", RuleError::Name),
        ("cookie:a=b", RuleError::Name),
    ];
    for (text, error) in table {
        assert_eq!(PrincipalRule::parse(text), Err(error), "{text}");
    }
}

#[test]
fn no_debug_form_shows_a_credential() {
    let rule = PrincipalRule::Authorization;
    let shown = format!("{:?}", rule.proven(b"Bearer hunter2"));
    assert!(!shown.contains("hunter2"));
}
