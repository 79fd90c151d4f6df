use super::*;

fn digest(text: &str) -> Digest {
    message_body_digest(Some(&serde_json::from_str(text).unwrap()))
}

#[test]
fn message_digest_ignores_delivery_fields() {
    let first = r#"{"message":{"id":1},"subscription":"s","n":7}"#;
    let redelivered = r#"{"message":{"id":1,"try":2},"subscription":"s","n":7}"#;
    let other = r#"{"message":{"id":1},"subscription":"s","n":8}"#;
    assert_eq!(digest(first), digest(redelivered));
    assert_ne!(digest(first), digest(other));
    assert_ne!(digest(r#"{"message":1}"#), digest(r#"{"message":2}"#));
}

#[test]
fn dedup_scope_without_parent_is_the_playbook() {
    let (tenant, path) = (TenantId::default(), |text| PlaybookPath::new(text).unwrap());
    let scope_of = |text| dedup_scope(None, &tenant, &path(text));
    assert!(scope_of("a") < 0);
    assert_eq!(scope_of("a"), scope_of("a"));
    assert_ne!(scope_of("a"), scope_of("b"));
    let parent = ExecutionId::new(7).unwrap();
    assert_eq!(dedup_scope(Some(parent), &tenant, &path("a")), 7);
}
