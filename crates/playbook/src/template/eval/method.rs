//! Dispatch and implementation of methods: the read-only methods of Python's texts and maps.

use std::sync::Arc;

use noetl_types::Json;

use super::context::RenderContext;
use super::value::Value;
use crate::template::number::as_integer;
use crate::template::render_error::{EvalError, EvalResult};
use crate::template::vocabulary::Method;

impl RenderContext<'_> {
    /// Calls a method. On undefined and null it yields undefined, as a lookup does.
    pub(super) fn call_method(
        &self,
        method: Method,
        value: Value,
        params: Vec<Option<Value>>,
    ) -> EvalResult<Value> {
        self.meter.charge_fuel(1)?;
        let mut params = params.into_iter();
        if method == Method::Get {
            let (key, default) = (params.next().flatten(), params.next().flatten());
            return self.call_get(&value, key.unwrap_or(Value::Undefined), default);
        }
        let value = self.convert_to_json(value)?;
        if value.is_null() {
            return Ok(Value::Undefined);
        }
        let mut next =
            || params.next().flatten().map(|value| self.convert_to_json(value)).transpose();
        let args = [next()?, next()?, next()?];
        match method {
            Method::Keys => self.call_on_map(&value, "keys", Self::map_keys),
            Method::Values => self.call_on_map(&value, "values", Self::map_values),
            Method::Items => self.call_on_map(&value, "items", Self::map_items),
            Method::Lower => call_on_text(&value, "lower", |text| self.lowercase_text(text)),
            Method::Upper => call_on_text(&value, "upper", |text| self.uppercase_text(text)),
            Method::IsoFormat => call_on_text(&value, "isoformat", |text| Ok(Arc::clone(text))),
            Method::Strip => {
                let characters = optional_text(args[0].as_ref())?;
                call_on_text(&value, "strip", |text| self.trim_text(text, characters))
            }
            Method::Replace => {
                let (old, new) =
                    (required_text(args[0].as_ref())?, required_text(args[1].as_ref())?);
                let limit = optional_count(args[2].as_ref())?;
                call_on_text(&value, "replace", |text| self.replace_text(text, [old, new], limit))
            }
            Method::Split => {
                let text = expect_text(&value, "split")?;
                let limit = optional_count(args[1].as_ref())?;
                self.split_text(text, optional_text(args[0].as_ref())?, limit).map(Value::Json)
            }
            Method::Join => {
                let separator = expect_text(&value, "join")?;
                let items = self.to_items(args[0].as_ref().unwrap_or(&Json::Null))?;
                self.join_printed(&items, separator).map(Value::from_text)
            }
            Method::StartsWith => {
                self.matches_affix(&value, "startswith", args[0].as_ref(), |text, part| {
                    text.starts_with(part)
                })
            }
            Method::EndsWith => {
                self.matches_affix(&value, "endswith", args[0].as_ref(), |text, part| {
                    text.ends_with(part)
                })
            }
            Method::Get => Ok(Value::Undefined),
        }
    }

    /// `map.get(key, default)`
    fn call_get(&self, value: &Value, key: Value, default: Option<Value>) -> EvalResult<Value> {
        let key = self.convert_to_json(key)?;
        match value {
            Value::Json(
                value @ (Json::Bool(_)
                | Json::Int(_)
                | Json::UInt(_)
                | Json::Float(_)
                | Json::Str(_)
                | Json::List(_)),
            ) => Err(no_method_error("get", value)),
            Value::Json(Json::Null | Json::Map(_))
            | Value::Undefined
            | Value::Bound(_)
            | Value::Namespace(_)
            | Value::Loop(_) => self.get_or_default(value, &key, default),
        }
    }

    fn call_on_map(
        &self,
        value: &Json,
        name: &str,
        apply: impl Fn(&Self, &Json) -> EvalResult<Json>,
    ) -> EvalResult<Value> {
        match value {
            Json::Map(_) => apply(self, value).map(Value::Json),
            _ => Err(no_method_error(name, value)),
        }
    }

    /// Tests a text against one prefix or suffix, or against several.
    fn matches_affix(
        &self,
        value: &Json,
        name: &str,
        parts: Option<&Json>,
        holds: impl Fn(&str, &str) -> bool,
    ) -> EvalResult<Value> {
        let text = expect_text(value, name)?;
        let parts = match parts {
            Some(Json::List(parts)) => parts.as_slice(),
            Some(part) => std::slice::from_ref(part),
            None => &[],
        };
        self.meter.charge_fuel(parts.len())?;
        for part in parts {
            let part = part
                .as_str()
                .ok_or_else(|| EvalError::operation_failed(format!("{name} takes texts")))?;
            self.meter.charge_scan(part.len())?;
            if holds(text, part) {
                return Ok(Value::from_bool(true));
            }
        }
        Ok(Value::from_bool(false))
    }
}

fn call_on_text(
    value: &Json,
    name: &str,
    apply: impl Fn(&Arc<str>) -> EvalResult<Arc<str>>,
) -> EvalResult<Value> {
    match value {
        Json::Str(text) => apply(text).map(Value::from_text),
        _ => Err(no_method_error(name, value)),
    }
}

fn no_method_error(name: &str, value: &Json) -> EvalError {
    EvalError::operation_failed(format!("a {} has no method {name}", value.type_name()))
}

fn expect_text<'v>(value: &'v Json, name: &str) -> EvalResult<&'v str> {
    value.as_str().ok_or_else(|| no_method_error(name, value))
}

fn required_text(param: Option<&Json>) -> EvalResult<&str> {
    optional_text(param)?.ok_or_else(|| EvalError::operation_failed("expected a text, found null"))
}

fn optional_text(param: Option<&Json>) -> EvalResult<Option<&str>> {
    match param {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Str(text)) => Ok(Some(text)),
        Some(other) => Err(EvalError::operation_failed(format!(
            "expected a text, found a {}",
            other.type_name()
        ))),
    }
}

/// An optional count. A negative one means no limit.
fn optional_count(param: Option<&Json>) -> EvalResult<Option<usize>> {
    match param {
        None | Some(Json::Null) => Ok(None),
        Some(value) => {
            let count = as_integer(value).ok_or_else(|| {
                EvalError::operation_failed(format!(
                    "expected an integer, found a {}",
                    value.type_name()
                ))
            })?;
            Ok(usize::try_from(count).ok())
        }
    }
}
