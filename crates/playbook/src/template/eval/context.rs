//! The context of one render, and the intermediate values of its evaluation.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use crate::template::environment::{Binding, TemplateEnvironment};
use crate::template::error::{EvalError, EvalResult};
use crate::template::meter::RenderMeter;
use crate::template::number::as_integer;
use crate::template::print;

/// The value of an expression during evaluation.
#[derive(Debug, Clone)]
pub(in crate::template) enum Value {
    /// A name or key that does not exist.
    Undefined,
    Json(Json),
    /// A name whose members are looked up by rules.
    Bound(Binding),
    /// The result of `namespace()`, the only mutable value of a template.
    Namespace(Rc<RefCell<JsonMap>>),
    Loop(Rc<LoopState>),
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Json(Json::Bool(value))
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
pub(in crate::template) struct LoopState {
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
            "previtem" => return self.item_at(index.checked_sub(1)),
            "nextitem" => return self.item_at(Some(index + 1)),
            _ => return Value::Undefined,
        };
        Value::Json(value)
    }

    fn item_at(&self, index: Option<usize>) -> Value {
        index.and_then(|index| self.items.get(index)).cloned().into()
    }

    /// The counters, if `loop` itself is used as a value.
    pub(super) fn to_json(&self) -> Json {
        let keys = ["index", "index0", "first", "last", "length"];
        Json::object(keys.into_iter().filter_map(|key| match self.loop_attribute(key) {
            Value::Json(value) => Some((key, value)),
            _ => None,
        }))
    }
}

pub(in crate::template) struct RenderContext<'r> {
    pub(super) environment: &'r dyn TemplateEnvironment,
    pub(super) meter: RenderMeter,
    /// True if a secret has influenced the render, so that all that follows may reveal it.
    pub(super) is_tainted: Cell<bool>,
    /// Secret fragments that were written to the output.
    pub(super) secret_parts: RefCell<Vec<Json>>,
}

impl<'r> RenderContext<'r> {
    pub(super) fn new(environment: &'r dyn TemplateEnvironment) -> Self {
        Self {
            environment,
            meter: RenderMeter::new(environment.limits(), environment.budget()),
            is_tainted: Cell::new(false),
            secret_parts: RefCell::default(),
        }
    }

    /// Looks up a name of the environment.
    pub(super) fn lookup_root(&self, name: &str) -> EvalResult<Value> {
        self.resolve_binding(self.environment.lookup_name(name))
    }

    fn resolve_binding(&self, binding: Option<Binding>) -> EvalResult<Value> {
        match binding {
            None => Ok(Value::Undefined),
            Some(Binding::Value(value)) => Ok(Value::Json(value)),
            Some(Binding::Secret(value)) => {
                self.is_tainted.set(true);
                Ok(Value::Json(value))
            }
            Some(Binding::Needs(need)) => Err(need.into()),
            Some(binding) => Ok(Value::Bound(binding)),
        }
    }

    /// Converts any value to a plain value. Undefined becomes null.
    pub(super) fn convert_to_json(&self, value: Value) -> EvalResult<Json> {
        match value {
            Value::Undefined => Ok(Json::Null),
            Value::Json(value) => Ok(value),
            Value::Bound(binding) => {
                let (value, secret) = binding.to_value(self.environment)?;
                if secret {
                    self.is_tainted.set(true);
                }
                if matches!(binding, Binding::Map(_) | Binding::Layers(_) | Binding::Members(_)) {
                    self.meter.charge_map(value.as_map().map_or(0, JsonMap::len))?;
                }
                Ok(value)
            }
            Value::Namespace(members) => {
                self.meter.charge_map(members.borrow().len())?;
                Ok(Json::from(members.borrow().clone()))
            }
            Value::Loop(state) => Ok(state.to_json()),
        }
    }

    /// `value.key`. Members of undefined and null are undefined.
    pub(super) fn get_attribute(&self, value: &Value, key: &str) -> EvalResult<Value> {
        match value {
            Value::Undefined => Ok(Value::Undefined),
            Value::Json(value) => Ok(plain_member(value, key).cloned().into()),
            Value::Bound(binding) => {
                self.resolve_binding(binding.get_member(key, self.environment)?)
            }
            Value::Namespace(members) => Ok(members.borrow().get(key).cloned().into()),
            Value::Loop(state) => Ok(state.loop_attribute(key)),
        }
    }

    /// `value[index]`
    pub(super) fn get_index(&self, value: &Value, index: &Json) -> EvalResult<Value> {
        if let Json::Str(key) = index {
            return self.get_attribute(value, key);
        }
        let Some(number) = as_integer(index) else {
            return Ok(Value::Undefined);
        };
        match value {
            Value::Undefined | Value::Loop(_) => Ok(Value::Undefined),
            Value::Json(value) => self.get_item(value, number),
            Value::Bound(_) | Value::Namespace(_) => {
                self.get_item(&self.convert_to_json(value.clone())?, number)
            }
        }
    }

    /// An item of a list, a character of a text, or the map entry whose key is the number's digits.
    fn get_item(&self, value: &Json, number: i128) -> EvalResult<Value> {
        match value {
            Json::List(items) => {
                let index = normalize_index(number, items.len());
                Ok(index.and_then(|index| items.get(index)).cloned().into())
            }
            Json::Str(text) => {
                self.meter.charge_scan(text.len())?;
                let index = normalize_index(number, text.chars().count());
                let character = index.and_then(|index| text.chars().nth(index));
                Ok(character.map(|c| Json::from(c.to_string())).into())
            }
            Json::Map(map) => Ok(map.get(number.to_string().as_str()).cloned().into()),
            _ => Ok(Value::Undefined),
        }
    }

    /// Returns true if a value counts as true inside an expression.
    pub(super) fn is_true_value(&self, value: &Value) -> EvalResult<bool> {
        let converted;
        let value = match value {
            Value::Undefined => return Ok(false),
            Value::Loop(_) => return Ok(true),
            Value::Json(value) => value,
            Value::Bound(_) | Value::Namespace(_) => {
                converted = self.convert_to_json(value.clone())?;
                &converted
            }
        };
        Ok(is_true(value))
    }

    /// The items of a value: the items of a list, the keys of a map, the characters of a text.
    /// Undefined and null have no items.
    pub(super) fn to_items(&self, value: &Json) -> EvalResult<Arc<Vec<Json>>> {
        match value {
            Json::Null => Ok(Arc::default()),
            Json::List(items) => Ok(Arc::clone(items)),
            Json::Map(map) => {
                self.meter.charge_list(map.len())?;
                Ok(Arc::new(map.keys().map(|key| Json::Str(Arc::clone(key))).collect()))
            }
            Json::Str(text) => {
                self.meter.charge_scan(text.len())?;
                self.meter.charge_text_list(text.chars().count(), text.len())?;
                Ok(Arc::new(text.chars().map(|c| Json::from(c.to_string())).collect()))
            }
            _ => Err(EvalError::failed(format!("a {} has no items", value.type_name()))),
        }
    }

    /// The printed text of a value.
    pub(super) fn print_value<'v>(&self, value: &'v Json) -> EvalResult<Cow<'v, str>> {
        match value {
            Json::Null => Ok(Cow::Borrowed("")),
            Json::Bool(true) => Ok(Cow::Borrowed("True")),
            Json::Bool(false) => Ok(Cow::Borrowed("False")),
            Json::Str(text) => Ok(Cow::Borrowed(text)),
            Json::Int(value) => Ok(Cow::Owned(value.to_string())),
            Json::UInt(_) | Json::Float(_) => Ok(Cow::Owned(value.to_string())),
            Json::List(_) | Json::Map(_) => self.meter.to_canonical_text(value).map(Cow::Owned),
        }
    }

    /// The printed texts of several values, separated by `separator`.
    pub(super) fn join_printed(&self, values: &[Json], separator: &str) -> EvalResult<Json> {
        let limit = self.meter.limits.output;
        self.meter.charge_fuel(values.len())?;
        let mut total: usize = 0;
        for value in values {
            // Stops at the first value that exceeds the limit, without measuring the rest.
            let len = print::printed_len(value, limit.saturating_sub(total))
                .ok_or_else(|| self.meter.output_exceeded())?;
            total = total.saturating_add(len).saturating_add(separator.len());
        }
        let total = total.saturating_sub(separator.len());
        self.meter.charge_text(total)?;
        let mut text = String::with_capacity(total);
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                text.push_str(separator);
            }
            print::push_printed(value, &mut text);
        }
        Ok(Json::Str(text.into()))
    }
}

/// The member of a plain value under a key.
pub(super) fn plain_member<'v>(value: &'v Json, key: &str) -> Option<&'v Json> {
    match value {
        Json::Map(map) => map.get(key),
        // Jinja names the parts of a `groupby` pair `grouper` and `list`.
        Json::List(items) => match (items.as_slice(), key) {
            ([grouper, Json::List(_)], "grouper") => Some(grouper),
            ([_, list @ Json::List(_)], "list") => Some(list),
            _ => None,
        },
        _ => None,
    }
}

/// Converts a position that may count from the end.
fn normalize_index(number: i128, len: usize) -> Option<usize> {
    let number = if number < 0 { number + i128::try_from(len).ok()? } else { number };
    usize::try_from(number).ok()
}

/// Returns true if a plain value counts as true inside an expression.
pub(in crate::template) fn is_true(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Int(value) => *value != 0,
        Json::UInt(_) | Json::Float(_) => true,
        Json::Str(text) => !text.is_empty(),
        Json::List(items) => !items.is_empty(),
        Json::Map(map) => !map.is_empty(),
    }
}
