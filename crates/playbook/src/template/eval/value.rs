//! Intermediate values of an evaluation.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use crate::template::environment::Binding;

/// The value of an expression during evaluation.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A name or key that does not exist.
    Undefined,
    Json(Json),
    /// A name whose members are looked up by rules.
    Bound(Binding),
    /// The result of `namespace()`, the only mutable value of a template.
    Namespace(Rc<RefCell<JsonMap>>),
    Loop(Rc<LoopState>),
}

impl Value {
    pub(super) fn from_bool(value: bool) -> Self {
        Self::Json(Json::Bool(value))
    }

    pub(super) fn from_text(value: impl Into<Arc<str>>) -> Self {
        Self::Json(Json::Str(value.into()))
    }
}

impl From<Json> for Value {
    fn from(value: Json) -> Self {
        Self::Json(value)
    }
}

impl From<Option<Json>> for Value {
    fn from(value: Option<Json>) -> Self {
        value.map_or(Self::Undefined, Self::Json)
    }
}

/// The variable `loop` of a `for`.
#[derive(Debug)]
pub(super) struct LoopState {
    pub(super) items: Arc<Vec<Json>>,
    pub(super) index: Cell<usize>,
    /// The arguments of the last `loop.changed()`.
    pub(super) last_changed: RefCell<Option<Json>>,
}

impl LoopState {
    /// `loop.<key>`
    pub(super) fn loop_attribute(&self, key: &str) -> Value {
        let index = self.index.get();
        let len = self.items.len();
        let value = match key {
            "index" => Json::from(index + 1),
            "index0" => Json::from(index),
            "revindex" => Json::from(len - index),
            "revindex0" => Json::from(len - index - 1),
            "first" => Json::Bool(index == 0),
            "last" => Json::Bool(index + 1 == len),
            "length" => Json::from(len),
            // Loops do not recurse, so the depth is constant.
            "depth" => Json::from(1),
            "depth0" => Json::from(0),
            "previtem" => {
                return index
                    .checked_sub(1)
                    .and_then(|index| self.items.get(index))
                    .cloned()
                    .into();
            }
            "nextitem" => return self.items.get(index + 1).cloned().into(),
            _ => return Value::Undefined,
        };
        Value::Json(value)
    }

    /// The counters, if `loop` itself is used as a value.
    pub(super) fn to_json(&self) -> Json {
        let keys = ["index", "index0", "first", "last", "length"];
        Json::object(keys.into_iter().filter_map(|key| match self.loop_attribute(key) {
            Value::Json(value) => Some((key, value)),
            Value::Undefined | Value::Bound(_) | Value::Namespace(_) | Value::Loop(_) => None,
        }))
    }
}
