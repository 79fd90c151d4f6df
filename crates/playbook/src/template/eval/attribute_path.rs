//! Attribute paths that filters take as text: `name`, `a.b`, `0.id`.

use noetl_types::Json;

use super::context::plain_member;
use crate::template::render_error::{EvalError, EvalResult};
use crate::template::render_meter::RenderMeter;

/// A path to a part of an item.
pub(super) struct AttributePath(Vec<Json>);

impl AttributePath {
    /// Parses an attribute: a text with dots, or a position.
    pub(super) fn parse(attribute: &Json, meter: &RenderMeter) -> EvalResult<Self> {
        match attribute {
            Json::Str(text) => {
                meter.charge_text_list(text.matches('.').count() + 1, text.len())?;
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
                Err(EvalError::operation_failed(format!(
                    "an attribute must be a text or an integer, not a {found}"
                )))
            }
        }
    }

    /// Returns the part of an item at this path.
    pub(super) fn get(&self, item: &Json) -> Option<Json> {
        let found = self.0.iter().try_fold(item, |value, key| match (key, value) {
            (Json::Str(key), Json::List(items)) => match key.parse::<usize>() {
                Ok(index) => items.get(index),
                Err(_) => plain_member(value, key),
            },
            (Json::Str(key), _) => plain_member(value, key),
            (key, Json::List(items)) => items.get(usize::try_from(key.as_i64()?).ok()?),
            (key, _) => plain_member(value, &key.to_string()),
        });
        found.cloned()
    }
}
