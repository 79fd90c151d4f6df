use super::matches_pattern;

#[test]
fn matches_key_patterns() {
    for (pattern, key) in [(">", "a.b"), ("a.*", "a.b"), ("a.>", "a.b.c"), ("a", "a")] {
        assert!(matches_pattern(pattern, key), "{pattern} {key}");
    }
    for (pattern, key) in [("a.*", "a"), ("a.*", "a.b.c"), ("a.>", "a"), ("b", "a")] {
        assert!(!matches_pattern(pattern, key), "{pattern} {key}");
    }
}
