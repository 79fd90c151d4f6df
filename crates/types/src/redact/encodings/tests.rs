use super::*;

fn match_end_from(pattern: &str, text: &str, start: usize) -> Option<usize> {
    PatternMatcher::new(text, &[pattern.into()], true).match_end(start)
}

fn match_end(pattern: &str, text: &str) -> Option<usize> {
    match_end_from(pattern, text, 0)
}

#[test]
fn matches_any_mix_of_escaped_and_plain_text() {
    for text in [
        r#"p@ß "1\/"#, r#"p@ß \"1\\\/"#, r#"p@\u00df \\\"1\\\\\\/"#, "p@%C3%9F%20%221%5C/",
        "p%40%c3%9f+%221%5c%2f", "p@ß\n \"1\\/", r#"p@\u00DF \"\n1\\/"#,
    ] {
        assert_eq!(match_end("p@ß \"1\\/", text), Some(text.len()), "{text}");
    }
    assert_eq!(match_end("\u{1F600}!", r"\ud83d\ude00!"), Some(13));
    assert_eq!(match_end("\u{1F600}!", "%F0%9F%98%80!"), Some(13));
    for text in ["p@ß", "p@ss", "p%4", r"p@\u00d", "P@ß \"1\\/", "\n", ""] {
        assert_eq!(match_end("p@ß \"1\\/", text), None, "{text}");
    }
}

#[test]
fn ambiguous_escapes_stay_linear() {
    let text = "\\".repeat(4000);
    assert!(match_end(&"\\".repeat(400), &text).is_some());
    assert_eq!(match_end(&format!("{}x", "\\".repeat(20)), &text), None);
}

#[test]
fn hides_rest_if_state_limit_is_exceeded() {
    let text = "\\".repeat(4000);
    let secret = format!("{}x", "\\".repeat(400));
    assert_eq!(match_end(&secret, &text), Some(text.len()));
}

#[test]
fn matches_many_escaped_backslashes() {
    let secret = format!("{}x", "\\".repeat(40));
    let text = format!("{}x", "\\".repeat(160));
    assert_eq!(match_end(&secret, &text), Some(text.len()));
}

#[test]
fn patterns_with_common_prefix_match() {
    let patterns = ["hunt", "hunter", "hunter%22", "hunting"].map(Arc::from);
    let end = |text: &str| PatternMatcher::new(text, &patterns, true).match_end(0);
    for (text, expected) in [
        ("hunter2", Some(6)),
        ("hunter%22", Some(9)),
        ("hunter%2522!", Some(11)),
        ("h%75nting", Some(9)),
        ("hun", None),
    ] {
        assert_eq!(end(text), expected, "{text}");
    }
}

#[test]
fn matches_secret_truncated_at_end_of_long_text() {
    let long = " ".repeat(MIN_TRUNCATED_BYTES);
    for (rest, is_truncated) in [
        ("canary-", true),
        ("canary-…", true),
        ("canary\u{FFFD}", true),
        ("canary%2", true),
        ("canary\\u00", true),
        ("canar", false),
        ("canaryX", false),
    ] {
        let text = format!("{long}{rest}");
        let found = match_end_from("canary-sings", &text, long.len());
        assert_eq!(found.is_some(), is_truncated, "{rest}");
    }
    assert_eq!(match_end("canary-sings", "canary-"), None);
}

#[test]
fn matches_secret_before_truncation_mark() {
    for (text, expected) in [
        ("canary-s…' is no duration", Some(8)),
        ("canary\u{FFFD} and more", Some(6)),
        ("canary%2…", Some(8)),
        ("canar…", None),
        ("canary-s' is no duration…", None),
    ] {
        assert_eq!(match_end("canary-sings", text), expected, "{text}");
        let pattern = [Arc::from("canary-sings")];
        let whole = PatternMatcher::new(text, &pattern, false).match_end(0);
        assert_eq!(whole, None, "{text}");
    }
}
