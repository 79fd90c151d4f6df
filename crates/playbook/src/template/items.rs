//! What a loop goes over.

use noetl_types::Json;
use noetl_types::json::parse;

/// More items than any loop may have.
pub const MAX_LOOP_ITEMS: usize = 1_000_000;

/// A value that a loop cannot go over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoopItemsError {
    /// The value has no items.
    #[error("a {found} has no items to loop over")]
    NotIterable {
        /// What it is.
        found: &'static str,
    },
    /// There are too many of them.
    #[error("a loop over {count} items is too long; there may be {MAX_LOOP_ITEMS}")]
    TooMany {
        /// How many there are.
        count: u64,
    },
}

/// The items of a loop: those of a list, the entries of a map as `{key, value}`, the parts of a text,
/// or the numbers below a number.
pub fn loop_items(value: &Json) -> Result<Vec<Json>, LoopItemsError> {
    let items = match value {
        Json::List(items) => items.to_vec(),
        Json::Map(map) => map
            .iter()
            .map(|(key, value)| {
                Json::object([("key", Json::Str(key.clone())), ("value", value.clone())])
            })
            .collect(),
        Json::Str(text) => parts(text),
        Json::Int(count) => numbers(u64::try_from(*count).unwrap_or_default())?,
        Json::UInt(count) => numbers(*count)?,
        Json::Null | Json::Bool(_) | Json::Float(_) => {
            return Err(LoopItemsError::NotIterable {
                found: value.type_name(),
            });
        }
    };
    if items.len() > MAX_LOOP_ITEMS {
        return Err(LoopItemsError::TooMany {
            count: items.len() as u64,
        });
    }
    Ok(items)
}

fn numbers(count: u64) -> Result<Vec<Json>, LoopItemsError> {
    if count > MAX_LOOP_ITEMS as u64 {
        return Err(LoopItemsError::TooMany { count });
    }
    Ok((0..count).map(Json::from).collect())
}

/// A text that is a JSON list, else its parts between commas or line ends.
fn parts(text: &str) -> Vec<Json> {
    if text.trim_start().starts_with('[')
        && let Ok(Json::List(items)) = parse(text.as_bytes())
    {
        return items.to_vec();
    }
    text.split([',', '\n'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(Json::from)
        .collect()
}
