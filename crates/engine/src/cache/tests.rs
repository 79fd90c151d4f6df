use super::*;

fn cache_key(scope: CacheScope, key_text: &str, path: &str) -> CacheKey {
    let path = PlaybookPath::new(path).unwrap();
    CacheKey::new(scope, key_text, sha256("step"), &path)
}

#[test]
fn cache_is_shared_within_its_scope() {
    let (own, wide) = (CacheScope::Playbook, CacheScope::Tenant);
    assert_eq!(cache_key(own, "k", "a"), cache_key(own, "k", "a"));
    assert_ne!(cache_key(own, "k", "a"), cache_key(own, "k", "b"));
    assert_ne!(cache_key(own, "k", "a"), cache_key(own, "l", "a"));
    assert_eq!(cache_key(wide, "k", "a"), cache_key(wide, "k", "b"));
}

#[test]
fn cached_result_round_trips() {
    let reference = Json::object([("ref", Json::from("noetl://x"))]);
    for result in [
        CachedResult::default(),
        CachedResult { data: EventData::Inline(Json::from(3)), labels: Some(Json::empty_map()) },
        CachedResult {
            data: EventData::External(Reference::new(reference).unwrap()),
            labels: None,
        },
    ] {
        assert_eq!(CachedResult::from_json(&result.to_json()), Ok(result));
    }
    assert_eq!(CachedResult::from_json(&Json::empty_map()), Err(InvalidCachedResult));
}
