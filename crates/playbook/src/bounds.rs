//! Bounds on values that leave a worker or enter the log, measured without writing them out.

use std::borrow::Cow;

use noetl_types::limits::MAX_JSON_DEPTH;
use noetl_types::{Json, TaskError, Text};

/// Levels of lists and maps in any one value of a run. An event and a snapshot wrap the value in a
/// few levels of their own, and must still be readable.
pub const MAX_VALUE_DEPTH: usize = MAX_JSON_DEPTH - 12;

/// Bytes of the values of one `set`. What is larger belongs into the data of a step, which can be
/// kept by reference.
pub const MAX_SET_BYTES: usize = 256 << 10;

/// The bytes that a value takes as canonical JSON, if they are within a budget; it is looked at no
/// further than the budget reaches. A text is counted without its escapes, a float as an average
/// one: near enough for a budget.
pub fn size_within(value: &Json, budget: usize) -> Option<usize> {
    spend(value, budget).map(|left| budget - left)
}

/// Whether a value is within a budget of bytes.
pub fn fits(value: &Json, budget: usize) -> bool {
    spend(value, budget).is_some()
}

fn spend(value: &Json, left: usize) -> Option<usize> {
    match value {
        Json::Null | Json::Bool(_) => left.checked_sub(5),
        Json::Int(number) => left.checked_sub(digits(number.unsigned_abs())),
        Json::UInt(number) => left.checked_sub(digits(*number)),
        Json::Float(_) => left.checked_sub(17),
        Json::Str(text) => left.checked_sub(text.len() + 2),
        Json::List(items) => items.iter().try_fold(left.checked_sub(2)?, |left, item| {
            spend(item, left)?.checked_sub(1)
        }),
        Json::Map(map) => map
            .iter()
            .try_fold(left.checked_sub(2)?, |left, (key, member)| {
                spend(member, left.checked_sub(key.len() + 3)?)?.checked_sub(1)
            }),
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Whether lists and maps are nested at most so many levels deep.
pub fn is_shallow(value: &Json, levels: usize) -> bool {
    match value {
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_) => true,
        Json::List(items) => levels > 0 && items.iter().all(|item| is_shallow(item, levels - 1)),
        Json::Map(map) => levels > 0 && map.values().all(|member| is_shallow(member, levels - 1)),
    }
}

/// Bytes of the message of an error.
const MAX_MESSAGE_BYTES: usize = 8 << 10;
/// Bytes of what else an error tells.
const MAX_DETAILS_BYTES: usize = 16 << 10;

/// The error as the log holds it: it is told by several events, and told as the cause of others, so
/// it stays small and flat whatever a tool put into it.
pub fn bounded_error(error: TaskError) -> TaskError {
    let bounded = |part: Json| {
        let fits = fits(&part, MAX_DETAILS_BYTES) && is_shallow(&part, MAX_VALUE_DEPTH / 2);
        if fits {
            part
        } else {
            Json::from("left out: too large")
        }
    };
    TaskError {
        message: bounded_message(error.message),
        details: error.details.map(bounded),
        code: error.code.map(bounded),
        ..error
    }
}

fn bounded_message(message: Text) -> Text {
    if message.len() <= MAX_MESSAGE_BYTES {
        return message;
    }
    let cut = message.floor_char_boundary(MAX_MESSAGE_BYTES);
    Text::from(format!("{}…", &message[..cut]))
}

/// Bytes of what a task wrote that the log keeps beside its data, of each of its two outputs.
pub const MAX_OUTPUT_BYTES: usize = 16 << 10;

/// The end of what a task wrote, small enough for the log; what is missing is said in its place.
pub fn end_of_output(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_OUTPUT_BYTES {
        return Cow::Borrowed(text);
    }
    let over = text.len() - MAX_OUTPUT_BYTES + CUT_MARK_BYTES;
    let cut = text.ceil_char_boundary(over);
    // A line that lost its beginning says something else than it did, but a very long one is better
    // than nothing.
    let line = text[cut..].find('\n').filter(|end| *end < LONGEST_LINE);
    let cut = line.map_or(cut, |end| cut + end + '\n'.len_utf8());
    let left = &text[cut..];
    Cow::Owned(format!("[{cut} bytes before this are not kept]\n{left}"))
}

/// Bytes for the mark at the place of what was cut off.
const CUT_MARK_BYTES: usize = 64;
/// Bytes of a line that is left out because its beginning is.
const LONGEST_LINE: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use noetl_types::TaskErrorKind;
    use noetl_types::json::{parse, to_canonical};

    use super::*;

    #[test]
    fn budgets_are_near_the_canonical_size() {
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
            assert!(fits(&value, size + 8), "{text}");
            assert!(size < 8 || !fits(&value, size - 4), "{text}");
        }
    }

    #[test]
    fn errors_stay_small_and_flat() {
        let deep = (0..40).fold(Json::Null, |inner, _| Json::list([inner]));
        let error = TaskError {
            details: Some(deep),
            code: Some(Json::from(7)),
            ..TaskError::new(TaskErrorKind::Transform, "é".repeat(6000))
        };
        let bounded = bounded_error(error);
        assert_eq!(bounded.message.len(), MAX_MESSAGE_BYTES + '…'.len_utf8());
        assert_eq!(bounded.details, Some(Json::from("left out: too large")));
        assert_eq!(bounded.code, Some(Json::from(7)));
        let small = TaskError::new(TaskErrorKind::Transform, "no");
        assert_eq!(bounded_error(small.clone()), small);
    }

    #[test]
    fn of_a_long_output_the_last_lines_are_kept() {
        assert_eq!(end_of_output("short\n"), "short\n");
        let long: String = (0..10_000).map(|line| format!("line {line} é\n")).collect();
        let kept = end_of_output(&long);
        assert!(kept.len() <= MAX_OUTPUT_BYTES);
        let (mark, lines) = kept.split_once('\n').unwrap();
        let missing = long.len() - lines.len();
        assert_eq!(mark, format!("[{missing} bytes before this are not kept]"));
        assert!(lines.starts_with("line ") && lines.ends_with("line 9999 é\n"));
        // It is small enough, so it stays as it is the next time.
        assert_eq!(end_of_output(&kept), *kept);
        let one_line = format!("{}\n", "é".repeat(MAX_OUTPUT_BYTES));
        let kept = end_of_output(&one_line).len();
        assert!((MAX_OUTPUT_BYTES / 2..=MAX_OUTPUT_BYTES).contains(&kept));
    }

    #[test]
    fn depth_counts_lists_and_maps() {
        let value = parse(br#"{"a":[[1]]}"#).unwrap();
        assert!(is_shallow(&value, 3));
        assert!(!is_shallow(&value, 2));
        assert!(is_shallow(&Json::Null, 0));
    }
}
