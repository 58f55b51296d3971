//! Paths against patterns: every rule of the header, and every disguise of a dot segment.

use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn path(text: &str) -> RequestPath {
    RequestPath::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_pattern_matches_the_path_as_sent() {
    let table = [
        ("/v1/charges", "/v1/charges", true),
        ("/v1/charges", "/v1/charges/", false),
        ("/v1/charges", "/v1/Charges", false),
        ("/v1/charges", "/v1//charges", false),
        ("/v1/charges/", "/v1/charges/", true),
        ("/v1/{id}", "/v1/7", true),
        ("/v1/{id}", "/v1/", false),
        ("/v1/{id}", "/v1", false),
        ("/v1/{id}", "/v1/7/x", false),
        ("/v1/{id}", "/v1/a%2Fb", true),
        ("/v1/a/b", "/v1/a%2Fb", false),
        ("/v1/{id}/x", "/v1/7/x", true),
        ("/v1/{*rest}", "/v1/", true),
        ("/v1/{*rest}", "/v1", false),
        ("/v1/{*rest}", "/v1/a/b//c", true),
        ("/{*rest}", "/", true),
        ("/{*rest}", "//", true),
        ("/", "/", true),
        ("/", "/a", false),
        ("/~ann", "/%7Eann", true),
        ("/%7eann", "/~ann", true),
        ("/a%2fb", "/a%2Fb", true),
        ("/100%25", "/100%25", true),
        ("/a", "/%2541", false),
    ];
    for (text, sent, matched) in table {
        assert_eq!(pattern(text).matches(&path(sent)), matched, "{text} {sent}");
    }
}

#[test]
fn an_escape_without_two_digits_is_refused() {
    for text in ["/%zz", "/%", "/a%2", "/%4g/x"] {
        assert_eq!(RequestPath::parse(text), Err(PathError::Escape), "{text}");
    }
}

#[test]
fn a_path_that_others_read_in_another_way_says_how() {
    let table = [
        ("/v1/charges", None),
        ("/v1/charges/", None),
        ("//v1/charges", Some("/v1/charges")),
        ("/v1//charges/", Some("/v1/charges/")),
        ("/v1/charges;x", Some("/v1/charges")),
        ("/v1;a=b/charges%3Bx", Some("/v1/charges")),
        ("/v1%2Fcharges", Some("/v1/charges")),
        ("/v1%5ccharges", Some("/v1/charges")),
        ("//v1%2Fcharges;x", Some("/v1/charges")),
    ];
    for (sent, other) in table {
        let found = path(sent).other_readings();
        assert_eq!(found.last().cloned(), other.map(path), "{sent}");
    }
    // Each alone as well: a server may do one and not the other.
    let both = path("//v1/a;x").other_readings();
    assert!(both.contains(&path("/v1/a;x")) && both.contains(&path("//v1/a")));
}

#[test]
fn the_first_route_whose_path_and_method_match_wins() {
    let only = |methods: &[Method]| Methods::Only(methods.to_vec());
    let routes = [
        (pattern("/v1/charges"), only(&[Method::POST])),
        (pattern("/v1/{id}"), only(&[Method::GET])),
        (pattern("/{*rest}"), Methods::Any),
    ];
    let find = |method, sent| {
        let routes = routes.iter().map(|(pattern, methods)| (pattern, methods));
        first_match(routes, &path(sent), &method)
    };
    assert_eq!(find(Method::POST, "/v1/charges"), Some(0));
    assert_eq!(find(Method::GET, "/v1/charges"), Some(1));
    assert_eq!(find(Method::HEAD, "/v1/charges"), Some(2));
    assert_eq!(first_match([], &path("/"), &Method::GET), None);
}

#[test]
fn a_path_that_walks_is_refused_in_every_disguise() {
    for sent in [
        "/.",
        "/..",
        "/a/../b",
        "/a/./b",
        "/a/%2e%2E/b",
        "/a/.%2e",
        "/a/..;x=1/b",
        "/a/..%3bx/b",
        "/a%2f..%2Fb",
        "/a%5C..%5cb",
        "/a\\..\\b",
        "/.;",
    ] {
        assert_eq!(
            RequestPath::parse(sent),
            Err(PathError::DotSegment),
            "{sent}"
        );
    }
    for sent in [
        "/a..b",
        "/...",
        "/.well-known/x",
        "/a.",
        "/%252e%252e",
        "/;..",
    ] {
        assert!(RequestPath::parse(sent).is_ok(), "{sent}");
    }
    for sent in ["", "*", "a", "http://h/"] {
        assert_eq!(RequestPath::parse(sent), Err(PathError::NotAPath), "{sent}");
    }
}

#[test]
fn what_is_no_pattern_is_refused() {
    let long = format!("/{}", "a".repeat(LONGEST_PATTERN));
    let table = [
        ("", PatternError::NoSlash),
        ("v1", PatternError::NoSlash),
        (&long, PatternError::TooLong),
        ("/a?b", PatternError::NotAPath),
        ("/a#b", PatternError::NotAPath),
        ("/a b", PatternError::NotAPath),
        ("/é", PatternError::NotAPath),
        ("/a/../b", PatternError::DotSegment),
        ("/%2e", PatternError::DotSegment),
        ("/{id}.json", PatternError::Place),
        ("/{}", PatternError::Place),
        ("/{*}", PatternError::Place),
        ("/{1}", PatternError::Place),
        ("/{a", PatternError::Place),
        ("/a}", PatternError::Place),
        ("/{*rest}/a", PatternError::RestNotLast),
        ("/{*rest}/", PatternError::RestNotLast),
        ("/{a}/{a}", PatternError::NameTwice),
    ];
    for (text, error) in table {
        assert_eq!(PathPattern::parse(text), Err(error), "{text}");
    }
}

#[test]
fn a_pattern_covers_what_it_leaves_nothing_of() {
    let table = [
        ("/{*rest}", "/", true),
        ("/{*rest}", "/v1/{id}", true),
        ("/{*rest}", "/{*other}", true),
        ("/v1/{*rest}", "/v1", false),
        ("/v1/{*rest}", "/v1/{id}/x", true),
        ("/v1/{id}", "/v1/charges", true),
        ("/v1/{id}", "/v1/", false),
        ("/v1/{id}", "/v1/{*rest}", false),
        ("/v1/charges", "/v1/{id}", false),
        ("/v1/%7Ea", "/v1/~a", true),
    ];
    for (upper, lower, covered) in table {
        assert_eq!(
            pattern(upper).covers(&pattern(lower)),
            covered,
            "{upper} {lower}"
        );
    }
    let get = Methods::Only(vec![Method::GET]);
    assert!(Methods::Any.covers(&get) && get.covers(&get) && !get.covers(&Methods::Any));
}

fn some_pattern() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec!["a", "b", "", "{x}"]);
    let rest = prop::sample::select(vec!["", "/{*rest}", "/a"]);
    (prop::collection::vec(segment, 1..3), rest).prop_filter_map("names once", |(parts, rest)| {
        let text = format!("/{}{rest}", parts.join("/"));
        PathPattern::parse(&text).is_ok().then_some(text)
    })
}

proptest! {
    #[test]
    fn what_covers_matches_whatever_the_covered_matches(
        upper in some_pattern(),
        lower in some_pattern(),
        sent in "(/[ab]?){1,4}",
    ) {
        let (upper, lower, sent) = (pattern(&upper), pattern(&lower), path(&sent));
        if upper.covers(&lower) && lower.matches(&sent) {
            prop_assert!(upper.matches(&sent));
        }
    }

    #[test]
    fn no_text_panics(text in ".*") {
        let _ = PathPattern::parse(&text);
        let _ = RequestPath::parse(&text);
    }

    #[test]
    fn the_spelling_of_an_unreserved_character_does_not_matter(
        text in "[a-z0-9_~-]{1,8}",
        at in 0usize..8,
    ) {
        let at = at.min(text.len() - 1);
        let byte = text.as_bytes()[at];
        for escape in [format!("%{byte:02x}"), format!("%{byte:02X}")] {
            let spelt = format!("/{}{escape}{}", &text[..at], &text[at + 1..]);
            prop_assert_eq!(RequestPath::parse(&spelt), RequestPath::parse(&format!("/{text}")));
        }
    }
}
