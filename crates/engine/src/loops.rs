//! Items and results of loops.

use std::sync::Arc;

use noetl_playbook::template::{LoopItemsError, MAX_LOOP_ITEMS, loop_items};
use noetl_types::{Json, JsonMap};

use crate::event::{IterationError, LoopStats, errors_json, stats_json};

/// The items of a loop. A count needs no list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoopItems {
    /// The integers from 0 to this number, exclusive.
    Count(u32),
    /// An explicit list.
    List(Arc<Vec<Json>>),
}

impl LoopItems {
    /// Converts the value of `loop.in` to items.
    pub fn from_value(value: &Json) -> Result<Self, LoopItemsError> {
        match value {
            Json::Int(count) => Self::from_count(u64::try_from(*count).unwrap_or_default()),
            Json::UInt(count) => Self::from_count(*count),
            Json::List(items) if items.len() <= MAX_LOOP_ITEMS => Ok(Self::List(Arc::clone(items))),
            Json::List(_)
            | Json::Map(_)
            | Json::Str(_)
            | Json::Null
            | Json::Bool(_)
            | Json::Float(_) => loop_items(value).map(|items| Self::List(Arc::new(items))),
        }
    }

    fn from_count(count: u64) -> Result<Self, LoopItemsError> {
        match u32::try_from(count) {
            Ok(small) if count <= MAX_LOOP_ITEMS as u64 => Ok(Self::Count(small)),
            Ok(_) | Err(_) => Err(LoopItemsError::TooMany { count }),
        }
    }

    /// Returns the number of items.
    pub fn len(&self) -> u32 {
        match self {
            Self::Count(count) => *count,
            // At most a million by construction.
            Self::List(items) => u32::try_from(items.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item at an index.
    pub fn get(&self, index: u32) -> Json {
        match self {
            Self::Count(_) => Json::from(index),
            Self::List(items) => items.get(index as usize).cloned().unwrap_or_default(),
        }
    }

    /// Converts the items to their form in the log: a list or a number.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Count(count) => Json::from(*count),
            Self::List(items) => Json::List(Arc::clone(items)),
        }
    }
}

/// Builds the data of a loop from the results of its iterations, in order.
pub(crate) fn loop_data(results: Vec<Json>, stats: LoopStats, errors: &[IterationError]) -> Json {
    let mut data = JsonMap::from([
        ("results".into(), Json::from(results)),
        ("stats".into(), stats_json(stats)),
    ]);
    if !errors.is_empty() {
        data.insert("errors".into(), errors_json(errors));
    }
    Json::from(data)
}

#[cfg(test)]
mod tests;
