//! The items of a loop.

use noetl_types::Json;
use noetl_types::json::parse;

/// Maximum number of items of a loop.
pub const MAX_LOOP_ITEMS: usize = 1_000_000;

/// The error of a value that cannot be looped over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoopItemsError {
    /// The value has no items.
    #[error("a {found} has no items to loop over")]
    NotIterable {
        /// Type of the value.
        found: &'static str,
    },
    /// The value has too many items.
    #[error("a loop over {count} items is too long; the maximum is {MAX_LOOP_ITEMS}")]
    TooMany {
        /// Number of items.
        count: u64,
    },
}

/// Returns the items of a loop: the items of a list, the entries of a map as `{key, value}`, the
/// parts of a text, or the integers below a number.
pub fn loop_items(value: &Json) -> Result<Vec<Json>, LoopItemsError> {
    let items = match value {
        Json::List(items) => items.to_vec(),
        Json::Map(map) => map
            .iter()
            .map(|(key, value)| {
                Json::object([("key", Json::Str(key.clone())), ("value", value.clone())])
            })
            .collect(),
        Json::Str(text) => split_text_items(text),
        Json::Int(count) => integers_below(u64::try_from(*count).unwrap_or_default())?,
        Json::UInt(count) => integers_below(*count)?,
        Json::Null | Json::Bool(_) | Json::Float(_) => {
            return Err(LoopItemsError::NotIterable { found: value.type_name() });
        }
    };
    if items.len() > MAX_LOOP_ITEMS {
        return Err(LoopItemsError::TooMany { count: items.len() as u64 });
    }
    Ok(items)
}

fn integers_below(count: u64) -> Result<Vec<Json>, LoopItemsError> {
    if count > MAX_LOOP_ITEMS as u64 {
        return Err(LoopItemsError::TooMany { count });
    }
    Ok((0..count).map(Json::from).collect())
}

/// Splits a text at commas and line ends, unless it is a JSON list.
fn split_text_items(text: &str) -> Vec<Json> {
    if text.trim_start().starts_with('[')
        && let Ok(Json::List(items)) = parse(text.as_bytes())
    {
        return items.to_vec();
    }
    text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty()).map(Json::from).collect()
}
