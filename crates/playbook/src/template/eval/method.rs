//! Which method does what: the read-only ones that Python has on texts and maps.

use std::sync::Arc;

use noetl_types::Json;

use super::run::Run;
use super::value::Value;
use crate::template::error::{Outcome, Stop};
use crate::template::number::integer;
use crate::template::vocabulary::Method;

impl Run<'_> {
    /// Calls a method; on undefined and null it yields undefined, as a lookup does.
    pub(super) fn method(
        &self,
        method: Method,
        value: Value,
        params: Vec<Option<Value>>,
    ) -> Outcome<Value> {
        self.meter.work(1)?;
        let mut params = params.into_iter();
        if method == Method::Get {
            let (key, default) = (params.next().flatten(), params.next().flatten());
            return self.get_of_map(&value, key.unwrap_or(Value::Undefined), default);
        }
        let value = self.settle(value)?;
        if value.is_null() {
            return Ok(Value::Undefined);
        }
        let mut next = || {
            params
                .next()
                .flatten()
                .map(|value| self.settle(value))
                .transpose()
        };
        let args = [next()?, next()?, next()?];
        match method {
            Method::Keys => self.of_map(&value, "keys", Self::map_keys),
            Method::Values => self.of_map(&value, "values", Self::values),
            Method::Items => self.of_map(&value, "items", Self::pairs),
            Method::Lower => of_text(&value, "lower", |text| self.lower(text)),
            Method::Upper => of_text(&value, "upper", |text| self.upper(text)),
            Method::IsoFormat => of_text(&value, "isoformat", |text| Ok(Arc::clone(text))),
            Method::Strip => {
                let characters = optional_text(args[0].as_ref())?;
                of_text(&value, "strip", |text| self.trim(text, characters))
            }
            Method::Replace => {
                let (old, new) = (
                    required_text(args[0].as_ref())?,
                    required_text(args[1].as_ref())?,
                );
                let most = optional_count(args[2].as_ref())?;
                of_text(&value, "replace", |text| {
                    self.replace(text, [old, new], most)
                })
            }
            Method::Split => {
                let text = as_text(&value, "split")?;
                let most = optional_count(args[1].as_ref())?;
                self.split(text, optional_text(args[0].as_ref())?, most)
                    .map(Value::Json)
            }
            Method::Join => {
                let between = as_text(&value, "join")?;
                let items = self.items(args[0].as_ref().unwrap_or(&Json::Null))?;
                self.joined(&items, between).map(Value::text)
            }
            Method::StartsWith => {
                self.affix(&value, "startswith", args[0].as_ref(), |text, part| {
                    text.starts_with(part)
                })
            }
            Method::EndsWith => self.affix(&value, "endswith", args[0].as_ref(), |text, part| {
                text.ends_with(part)
            }),
            Method::Get => Ok(Value::Undefined),
        }
    }

    /// `map.get(key, default)`
    fn get_of_map(&self, value: &Value, key: Value, default: Option<Value>) -> Outcome<Value> {
        let key = self.settle(key)?;
        match value {
            Value::Json(
                value @ (Json::Bool(_)
                | Json::Int(_)
                | Json::UInt(_)
                | Json::Float(_)
                | Json::Str(_)
                | Json::List(_)),
            ) => Err(no_method("get", value)),
            Value::Json(Json::Null | Json::Map(_))
            | Value::Undefined
            | Value::Bound(_)
            | Value::Namespace(_)
            | Value::Loop(_) => self.get(value, &key, default),
        }
    }

    fn of_map(
        &self,
        value: &Json,
        name: &str,
        apply: impl Fn(&Self, &Json) -> Outcome<Json>,
    ) -> Outcome<Value> {
        match value {
            Json::Map(_) => apply(self, value).map(Value::Json),
            _ => Err(no_method(name, value)),
        }
    }

    /// Whether a text starts or ends with a text, or with one of several.
    fn affix(
        &self,
        value: &Json,
        name: &str,
        parts: Option<&Json>,
        holds: impl Fn(&str, &str) -> bool,
    ) -> Outcome<Value> {
        let text = as_text(value, name)?;
        let parts = match parts {
            Some(Json::List(parts)) => parts.as_slice(),
            Some(part) => std::slice::from_ref(part),
            None => &[],
        };
        self.meter.work(parts.len())?;
        for part in parts {
            let part = part
                .as_str()
                .ok_or_else(|| Stop::failed(format!("{name} takes texts")))?;
            self.meter.scan(part.len())?;
            if holds(text, part) {
                return Ok(Value::bool(true));
            }
        }
        Ok(Value::bool(false))
    }
}

fn of_text(
    value: &Json,
    name: &str,
    apply: impl Fn(&Arc<str>) -> Outcome<Arc<str>>,
) -> Outcome<Value> {
    match value {
        Json::Str(text) => apply(text).map(Value::text),
        _ => Err(no_method(name, value)),
    }
}

fn no_method(name: &str, value: &Json) -> Stop {
    Stop::failed(format!("a {} has no method {name}", value.type_name()))
}

fn as_text<'v>(value: &'v Json, name: &str) -> Outcome<&'v str> {
    value.as_str().ok_or_else(|| no_method(name, value))
}

fn required_text(param: Option<&Json>) -> Outcome<&str> {
    optional_text(param)?.ok_or_else(|| Stop::failed("expected a text, found null"))
}

fn optional_text(param: Option<&Json>) -> Outcome<Option<&str>> {
    match param {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Str(text)) => Ok(Some(text)),
        Some(other) => Err(Stop::failed(format!(
            "expected a text, found a {}",
            other.type_name()
        ))),
    }
}

/// A number of times; a negative one means always.
fn optional_count(param: Option<&Json>) -> Outcome<Option<usize>> {
    match param {
        None | Some(Json::Null) => Ok(None),
        Some(value) => {
            let count = integer(value).ok_or_else(|| {
                Stop::failed(format!(
                    "expected an integer, found a {}",
                    value.type_name()
                ))
            })?;
            Ok(usize::try_from(count).ok())
        }
    }
}
