use noetl_types::TaskErrorKind;
use noetl_types::json::{parse, to_canonical};

use super::*;

#[test]
fn size_check_approximates_canonical_size() {
    for text in [
        "null",
        "true",
        "0",
        "-12",
        "18446744073709551615",
        "[]",
        "{}",
        "\"text\"",
        r#"{"a":[1,2,{"b":"c"}],"d":"0123456789"}"#,
    ] {
        let value = parse(text.as_bytes()).unwrap();
        let size = to_canonical(&value).len();
        assert!(fits_within(&value, size + 8), "{text}");
        assert!(size < 8 || !fits_within(&value, size - 4), "{text}");
    }
}

#[test]
fn errors_are_limited_in_size_and_depth() {
    let deep = (0..40).fold(Json::Null, |inner, _| Json::list([inner]));
    let error = TaskError {
        details: Some(deep),
        code: Some(Json::from(7)),
        ..TaskError::new(TaskErrorKind::Transform, "é".repeat(6000))
    };
    let bounded = bounded_error(error);
    assert_eq!(bounded.message.len(), MAX_MESSAGE_BYTES + '…'.len_utf8());
    assert_eq!(bounded.details, Some(Json::from("omitted: too large")));
    assert_eq!(bounded.code, Some(Json::from(7)));
    let small = TaskError::new(TaskErrorKind::Transform, "no");
    assert_eq!(bounded_error(small.clone()), small);
}

#[test]
fn long_output_keeps_last_lines() {
    assert_eq!(tail_of_output("short\n"), "short\n");
    let long: String = (0..10_000).map(|line| format!("line {line} é\n")).collect();
    let tail = tail_of_output(&long);
    assert!(tail.len() <= MAX_OUTPUT_BYTES);
    let (note, lines) = tail.split_once('\n').unwrap();
    let missing = long.len() - lines.len();
    assert_eq!(note, format!("[{missing} earlier bytes omitted]"));
    assert!(lines.starts_with("line ") && lines.ends_with("line 9999 é\n"));
    // The result is within the limit, so limiting it again does not change it.
    assert_eq!(tail_of_output(&tail), *tail);
    let one_line = format!("{}\n", "é".repeat(MAX_OUTPUT_BYTES));
    let tail = tail_of_output(&one_line).len();
    assert!((MAX_OUTPUT_BYTES / 2..=MAX_OUTPUT_BYTES).contains(&tail));
}

#[test]
fn depth_counts_lists_and_maps() {
    let value = parse(br#"{"a":[[1]]}"#).unwrap();
    assert!(is_shallow(&value, 3));
    assert!(!is_shallow(&value, 2));
    assert!(is_shallow(&Json::Null, 0));
}
