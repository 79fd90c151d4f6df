//! Limits on values that leave a worker or enter the event log, measured without serializing them.

use std::borrow::Cow;

use noetl_types::limits::MAX_JSON_DEPTH;
use noetl_types::{Json, TaskError, Text};

/// Maximum nesting depth of a value. Events and snapshots wrap the value in a few more levels and
/// must still be parseable.
pub const MAX_VALUE_DEPTH: usize = MAX_JSON_DEPTH - 12;

/// Maximum total size of the values of one `set`. Larger values belong in the data of a step, which
/// can be stored by reference.
pub const MAX_SET_BYTES: usize = 256 << 10;

/// Returns the size of a value as canonical JSON if it is at most `budget` bytes. Traversal stops
/// when the budget is exceeded. The size is an estimate: escapes are not counted, and a float
/// counts as one of average length.
pub fn size_within(value: &Json, budget: usize) -> Option<usize> {
    subtract_size(value, budget).map(|remaining| budget - remaining)
}

/// True if the size of a value is at most `budget` bytes.
pub fn fits_within(value: &Json, budget: usize) -> bool {
    subtract_size(value, budget).is_some()
}

fn subtract_size(value: &Json, remaining: usize) -> Option<usize> {
    match value {
        Json::Null | Json::Bool(_) => remaining.checked_sub(5),
        Json::Int(number) => remaining.checked_sub(decimal_digits(number.unsigned_abs())),
        Json::UInt(number) => remaining.checked_sub(decimal_digits(*number)),
        Json::Float(_) => remaining.checked_sub(17),
        Json::Str(text) => remaining.checked_sub(text.len() + 2),
        Json::List(items) => items.iter().try_fold(remaining.checked_sub(2)?, |remaining, item| {
            subtract_size(item, remaining)?.checked_sub(1)
        }),
        Json::Map(map) => {
            map.iter().try_fold(remaining.checked_sub(2)?, |remaining, (key, member)| {
                subtract_size(member, remaining.checked_sub(key.len() + 3)?)?.checked_sub(1)
            })
        }
    }
}

fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// True if lists and maps are nested at most `levels` deep.
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

/// Maximum size of an error message.
const MAX_MESSAGE_BYTES: usize = 8 << 10;
/// Maximum size of the details and of the code of an error.
const MAX_DETAILS_BYTES: usize = 16 << 10;

/// Limits the size and depth of an error for the event log. Several events contain the error, and
/// it may be the cause of other errors, so it must stay small for any tool.
pub fn bounded_error(error: TaskError) -> TaskError {
    let bounded = |part: Json| {
        let fits = fits_within(&part, MAX_DETAILS_BYTES) && is_shallow(&part, MAX_VALUE_DEPTH / 2);
        if fits { part } else { Json::from("omitted: too large") }
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

/// Maximum size of each output stream of a task that is stored in the event log with its data.
pub const MAX_OUTPUT_BYTES: usize = 16 << 10;

/// Returns the end of a task's output, limited in size for the event log. Omitted output is
/// replaced by a note.
pub fn tail_of_output(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_OUTPUT_BYTES {
        return Cow::Borrowed(text);
    }
    let excess = text.len() - MAX_OUTPUT_BYTES + OMISSION_NOTE_BYTES;
    let cut = text.ceil_char_boundary(excess);
    // A line without its beginning is misleading, so it is dropped, unless it is so long that
    // little else would remain.
    let line = text[cut..].find('\n').filter(|end| *end < MAX_DROPPED_LINE_BYTES);
    let cut = line.map_or(cut, |end| cut + end + '\n'.len_utf8());
    let tail = &text[cut..];
    Cow::Owned(format!("[{cut} earlier bytes omitted]\n{tail}"))
}

/// Reserved size of the note that replaces the omitted output.
const OMISSION_NOTE_BYTES: usize = 64;
/// Maximum size of a partial line that is dropped.
const MAX_DROPPED_LINE_BYTES: usize = 1 << 10;

#[cfg(test)]
mod tests;
