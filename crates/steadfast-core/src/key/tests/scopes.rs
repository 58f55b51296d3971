//! Scope, principal and operation.

use http::Method;

use super::*;

const SECRET: ScopeSecret = ScopeSecret::new([7; 32]);

fn scope(tenant: &Tenant, operation: &Operation, key: &str, kind: ScopeKind) -> ScopeHash {
    let key = Key::from_stored(key).expect("printable");
    scope_hash(&SECRET, tenant, operation, &key, kind)
}

#[test]
fn an_operation_is_method_and_path_normalised_in_escapes_only() {
    let table = [
        ("/v1/charges", "/v1/charges"),
        ("/v1/charges?x=1", "/v1/charges"),
        ("/%7Euser/%41%2d%2E%5f", "/~user/A-._"),
        ("/a%2fb", "/a%2Fb"),
        ("/a%2Fb", "/a%2Fb"),
        ("/%2541", "/%2541"),
        ("/%3f%c3%a9", "/%3F%C3%A9"),
        ("/%zz%4", "/%zz%4"),
        ("/%%30a", "/%%30a"),
        ("/%7ea%", "/%7ea%"),
        ("/%\u{e9}%", "/%\u{e9}%"),
        ("/a//b/../c/", "/a//b/../c/"),
        ("/A", "/A"),
        ("/a+b", "/a+b"),
    ];
    for (sent, path) in table {
        let operation = Operation::new(&Method::POST, sent);
        assert_eq!(operation.to_string(), format!("POST {path}"));
        assert_eq!(
            Operation::from_stored(&operation.to_string()),
            Some(operation)
        );
    }
    for wrong in ["POST", "POST /a?b", "P(OST /a", "POST /%7e", " /a"] {
        assert_eq!(Operation::from_stored(wrong), None, "{wrong}");
    }
}

#[test]
fn a_scope_is_principal_operation_and_key() {
    let ann = Tenant::of(&SECRET, "authorization", b"Bearer a");
    let bob = Tenant::of(&SECRET, "authorization", b"Bearer b");
    let charge = Operation::new(&Method::POST, "/v1/charges");
    let refund = Operation::new(&Method::POST, "/v1/refunds");
    let patch = Operation::new(&Method::PATCH, "/v1/charges");
    let first = scope(&ann, &charge, "key", ScopeKind::Operation);
    assert_eq!(first, scope(&ann, &charge, "key", ScopeKind::Operation));
    assert_eq!(first, ScopeHash::from_bytes(*first.as_bytes()));
    let others = [
        scope(&bob, &charge, "key", ScopeKind::Operation),
        scope(&ann, &refund, "key", ScopeKind::Operation),
        scope(&ann, &patch, "key", ScopeKind::Operation),
        scope(&ann, &charge, "KEY", ScopeKind::Operation),
        scope(&ann, &charge, "key", ScopeKind::Principal),
        scope_hash(
            &ScopeSecret::new([8; 32]),
            &ann,
            &charge,
            &Key::from_stored("key").unwrap(),
            ScopeKind::Operation,
        ),
    ];
    for (place, other) in others.iter().enumerate() {
        assert_ne!(first, *other, "{place}");
    }
}

#[test]
fn scope_principal_is_one_key_whatever_the_path() {
    let ann = Tenant::of(&SECRET, "authorization", b"Bearer a");
    let charge = Operation::new(&Method::POST, "/v1/charges");
    let refund = Operation::new(&Method::POST, "/v1/refunds");
    let hash = |operation, key| scope(&ann, operation, key, ScopeKind::Principal);
    assert_eq!(hash(&charge, "key"), hash(&refund, "key"));
    assert_ne!(hash(&charge, "key"), hash(&charge, "other"));
}

/// Live records are found by this hash: it may never change.
#[test]
fn the_scope_hash_of_version_1_stays_as_it_is() {
    let operation = Operation::new(&Method::POST, "/v1/charges");
    let hash = scope(&Tenant::anonymous(), &operation, UUID, ScopeKind::Operation);
    let pinned = "f58f1c3a73d31b994def0827d29c9e21df25b301d21ec2ab4944e6b18f6ff97b";
    assert_eq!(hash.to_string(), pinned);
    let tenant = Tenant::of(&SECRET, "authorization", b"Bearer a");
    assert_eq!(tenant.as_str(), "9970da3fa68c66401d25270b2ca6977c");
}

#[test]
fn a_principal_is_128_bits_of_a_hash_or_anonymous() {
    let tenant = Tenant::of(&SECRET, "authorization", b"Bearer a");
    assert_eq!(tenant.as_str().len(), 32);
    assert_ne!(tenant, Tenant::of(&SECRET, "cookie:a", b"Bearer a"));
    assert_ne!(
        Tenant::of(&SECRET, "a", b"bc"),
        Tenant::of(&SECRET, "ab", b"c")
    );
    for known in [tenant, Tenant::anonymous()] {
        assert_eq!(Tenant::from_stored(known.as_str()), Some(known));
    }
    let upper = "AB".repeat(16);
    for wrong in ["", "Anonymous", "abc", upper.as_str()] {
        assert_eq!(Tenant::from_stored(wrong), None);
    }
}

#[test]
fn secrets_are_not_shown() {
    assert_eq!(format!("{SECRET:?}"), "ScopeSecret(…)");
}

proptest! {
    #[test]
    fn normalising_a_path_twice_changes_nothing(path in "/[a-zA-Z0-9%/~-]{0,40}") {
        let once = Operation::new(&Method::POST, &path);
        let twice = Operation::new(&Method::POST, once.path());
        prop_assert_eq!(twice.path(), once.path());
    }
}
