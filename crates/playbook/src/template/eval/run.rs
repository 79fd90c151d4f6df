//! What one render knows: its scope, its meter, and whether it has touched a secret.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use super::value::Value;
use crate::template::error::{Limit, Outcome, Stop};
use crate::template::meter::Meter;
use crate::template::number::integer;
use crate::template::print;
use crate::template::scope::{Binding, Scope};

pub(super) struct Run<'r> {
    pub(super) scope: &'r dyn Scope,
    pub(super) meter: Meter,
    /// Whether a secret has steered the render: all that follows may tell something of it.
    pub(super) tainted: Cell<bool>,
    /// What was made from secrets and went into the text.
    pub(super) told: RefCell<Vec<Json>>,
}

impl<'r> Run<'r> {
    pub(super) fn new(scope: &'r dyn Scope) -> Self {
        Self {
            scope,
            meter: Meter::new(scope.limits()),
            tainted: Cell::new(false),
            told: RefCell::default(),
        }
    }

    /// A name of the scope.
    pub(super) fn root(&self, name: &str) -> Outcome<Value> {
        self.bound(self.scope.lookup(name))
    }

    fn bound(&self, binding: Option<Binding>) -> Outcome<Value> {
        match binding {
            None => Ok(Value::Undefined),
            Some(Binding::Value(value)) => Ok(Value::Json(value)),
            Some(Binding::Secret(value)) => {
                self.tainted.set(true);
                Ok(Value::Json(value))
            }
            Some(Binding::Needs(need)) => Err(Stop::needs(need)),
            Some(
                binding @ (Binding::Output(_)
                | Binding::Step(_)
                | Binding::External(_)
                | Binding::Overlay(_)
                | Binding::Map(_)
                | Binding::Layers(_)
                | Binding::Members(_)),
            ) => Ok(Value::Bound(binding)),
        }
    }

    /// The plain value of anything; undefined is null.
    pub(super) fn settle(&self, value: Value) -> Outcome<Json> {
        match value {
            Value::Undefined => Ok(Json::Null),
            Value::Json(value) => Ok(value),
            Value::Bound(binding) => {
                let (value, secret) = binding.settle(self.scope).map_err(Stop::needs)?;
                if secret {
                    self.tainted.set(true);
                }
                if matches!(
                    binding,
                    Binding::Map(_) | Binding::Layers(_) | Binding::Members(_)
                ) {
                    self.meter.map(value.as_map().map_or(0, JsonMap::len))?;
                }
                Ok(value)
            }
            Value::Namespace(members) => {
                self.meter.map(members.borrow().len())?;
                Ok(Json::from(members.borrow().clone()))
            }
            Value::Loop(state) => Ok(state.as_json()),
        }
    }

    /// `value.key`; anything of undefined or null is undefined.
    pub(super) fn attribute(&self, value: &Value, key: &str) -> Outcome<Value> {
        match value {
            Value::Undefined => Ok(Value::Undefined),
            Value::Json(value) => Ok(member(value, key).cloned().into()),
            Value::Bound(binding) => {
                self.bound(binding.member(key, self.scope).map_err(Stop::needs)?)
            }
            Value::Namespace(members) => Ok(members.borrow().get(key).cloned().into()),
            Value::Loop(state) => Ok(state.attribute(key)),
        }
    }

    /// `value[index]`
    pub(super) fn index(&self, value: &Value, index: &Json) -> Outcome<Value> {
        if let Json::Str(key) = index {
            return self.attribute(value, key);
        }
        let Some(number) = integer(index) else {
            return Ok(Value::Undefined);
        };
        match value {
            Value::Undefined | Value::Loop(_) => Ok(Value::Undefined),
            Value::Json(value) => self.item(value, number),
            Value::Bound(_) | Value::Namespace(_) => {
                self.item(&self.settle(value.clone())?, number)
            }
        }
    }

    /// An item of a list, a character of a text, or what a map has under the digits of a number.
    fn item(&self, value: &Json, number: i128) -> Outcome<Value> {
        match value {
            Json::List(items) => {
                let at = from_end(number, items.len()).and_then(|at| items.get(at));
                Ok(at.cloned().into())
            }
            Json::Str(text) => {
                self.meter.scan(text.len())?;
                let at = from_end(number, text.chars().count());
                let found = at.and_then(|at| text.chars().nth(at));
                Ok(found.map(|c| Json::from(c.to_string())).into())
            }
            Json::Map(map) => Ok(map.get(number.to_string().as_str()).cloned().into()),
            Json::Null | Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => {
                Ok(Value::Undefined)
            }
        }
    }

    /// Whether a value counts as true inside of an expression.
    pub(super) fn is_true(&self, value: &Value) -> Outcome<bool> {
        let settled;
        let value = match value {
            Value::Undefined => return Ok(false),
            Value::Loop(_) => return Ok(true),
            Value::Json(value) => value,
            Value::Bound(_) | Value::Namespace(_) => {
                settled = self.settle(value.clone())?;
                &settled
            }
        };
        Ok(is_true(value))
    }

    /// The items that a value yields: those of a list, the keys of a map, the characters of a
    /// text, nothing for undefined and null.
    pub(super) fn items(&self, value: &Json) -> Outcome<Arc<Vec<Json>>> {
        match value {
            Json::Null => Ok(Arc::default()),
            Json::List(items) => Ok(Arc::clone(items)),
            Json::Map(map) => {
                self.meter.list(map.len())?;
                Ok(Arc::new(
                    map.keys().map(|key| Json::Str(Arc::clone(key))).collect(),
                ))
            }
            Json::Str(text) => {
                self.meter.scan(text.len())?;
                self.meter.texts(text.chars().count(), text.len())?;
                Ok(Arc::new(
                    text.chars().map(|c| Json::from(c.to_string())).collect(),
                ))
            }
            Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => Err(Stop::failed(
                format!("a {} has no items", value.type_name()),
            )),
        }
    }

    /// The text that a value prints as.
    pub(super) fn printed<'v>(&self, value: &'v Json) -> Outcome<Cow<'v, str>> {
        match value {
            Json::Null => Ok(Cow::Borrowed("")),
            Json::Bool(true) => Ok(Cow::Borrowed("True")),
            Json::Bool(false) => Ok(Cow::Borrowed("False")),
            Json::Str(text) => Ok(Cow::Borrowed(text)),
            Json::Int(value) => Ok(Cow::Owned(value.to_string())),
            Json::UInt(_) | Json::Float(_) => Ok(Cow::Owned(value.to_string())),
            Json::List(_) | Json::Map(_) => self.meter.canonical(value).map(Cow::Owned),
        }
    }

    /// The printed texts of several values, one after the other with `between` in the gaps.
    pub(super) fn joined(&self, values: &[Json], between: &str) -> Outcome<String> {
        let most = self.meter.limits.output;
        self.meter.work(values.len())?;
        let mut total: usize = 0;
        for value in values {
            // Stops at the first value too many, however large the others are.
            let len = print::printed_len(value, most.saturating_sub(total))
                .ok_or_else(|| Stop::limit(Limit::Output, most))?;
            total = total.saturating_add(len).saturating_add(between.len());
        }
        let total = total.saturating_sub(between.len());
        self.meter.text(total)?;
        let mut text = String::with_capacity(total);
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                text.push_str(between);
            }
            print::push_printed(value, total, &mut text);
        }
        Ok(text)
    }
}

/// What a plain value has under a key.
pub(super) fn member<'v>(value: &'v Json, key: &str) -> Option<&'v Json> {
    match value {
        Json::Map(map) => map.get(key),
        // A pair that `groupby` makes also answers to the names that Jinja gives its parts.
        Json::List(items) => match (items.as_slice(), key) {
            ([grouper, Json::List(_)], "grouper") => Some(grouper),
            ([_, list @ Json::List(_)], "list") => Some(list),
            _ => None,
        },
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_) => None,
    }
}

/// A position that may count from the end.
fn from_end(number: i128, len: usize) -> Option<usize> {
    let number = if number < 0 {
        number + i128::try_from(len).ok()?
    } else {
        number
    };
    usize::try_from(number).ok()
}

/// Whether a plain value counts as true inside of an expression.
pub(super) fn is_true(value: &Json) -> bool {
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
