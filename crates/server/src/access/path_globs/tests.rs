use super::*;

#[test]
fn single_star_matches_within_one_segment() {
    for (glob, path, expected) in [
        ("etl/daily", "etl/daily", true),
        ("etl/daily", "etl/daily2", false),
        ("etl/*", "etl/daily", true),
        ("etl/*", "etl/a/b", false),
        ("etl/*", "etl/", true),
        ("etl/*", "other/daily", false),
        ("etl/**", "etl/a/b/c", true),
        ("etl/**", "etl", false),
        ("**", "a/b", true),
        ("*", "a/b", false),
        ("*/b", "a/b", true),
        ("**/b", "a/x/b", true),
        ("a*c/d*", "abbc/d", true),
        ("a*c", "abcb", false),
    ] {
        assert_eq!(glob_matches(glob, path), expected, "{glob} {path}");
    }
    // The run time of a pattern is bounded by its length.
    let glob = "a*".repeat(128);
    assert!(!glob_matches(&glob, &"a".repeat(127)));
}

#[test]
fn rejects_invalid_globs() {
    let is_valid = |globs: &[&str]| {
        let globs: Vec<Text> = globs.iter().map(|glob| Text::from(*glob)).collect();
        validate_globs(&globs).is_ok()
    };
    assert!(is_valid(&["etl/*", "**"]));
    assert!(!is_valid(&[]));
    assert!(!is_valid(&[""]));
    assert!(!is_valid(&["a b"]));
    assert!(!is_valid(&["[a-z]"]));
    assert!(!is_valid(&[&"a".repeat(257)]));
}
