//! Attributes that filters take as text: `name`, `a.b`, `0.id`.

use noetl_types::Json;

use super::run::member;
use crate::template::error::{Outcome, Stop};
use crate::template::meter::Meter;

/// A way into an item.
pub(super) struct Path(Vec<Json>);

impl Path {
    /// Reads an attribute: a text with dots, or a position.
    pub(super) fn parse(attribute: &Json, meter: &Meter) -> Outcome<Self> {
        match attribute {
            Json::Str(text) => {
                meter.texts(text.matches('.').count() + 1, text.len())?;
                Ok(Self(text.split('.').map(Json::from).collect()))
            }
            Json::Int(_) => Ok(Self(vec![attribute.clone()])),
            Json::Null
            | Json::Bool(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::List(_)
            | Json::Map(_) => {
                let found = attribute.type_name();
                Err(Stop::failed(format!(
                    "an attribute is a text or an integer, not a {found}"
                )))
            }
        }
    }

    /// What an item has there.
    pub(super) fn get(&self, item: &Json) -> Option<Json> {
        let found = self
            .0
            .iter()
            .try_fold(item, |value, key| match (key, value) {
                (Json::Str(key), Json::List(items)) => match key.parse::<usize>() {
                    Ok(at) => items.get(at),
                    Err(_) => member(value, key),
                },
                (Json::Str(key), _) => member(value, key),
                (key, Json::List(items)) => items.get(usize::try_from(key.as_i64()?).ok()?),
                (key, _) => member(value, &key.to_string()),
            });
        found.cloned()
    }
}
