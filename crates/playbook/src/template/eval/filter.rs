//! Which filter does what.

use std::cmp::Ordering;
use std::sync::Arc;

use noetl_types::Json;
use noetl_types::digest::sha256;

use super::path::Path;
use super::ranking::By;
use super::run::{Run, is_true};
use super::value::Value;
use crate::template::error::{Outcome, Stop};
use crate::template::number::{self, Rounding};
use crate::template::truthy;
use crate::template::vocabulary::Filter;

/// Arguments of a filter, by position in its signature.
struct Args<'a> {
    run: &'a Run<'a>,
    given: &'a [Option<Value>],
}

impl Args<'_> {
    /// An argument that is given and not null.
    fn get(&self, at: usize) -> Outcome<Option<Json>> {
        let given = self.given.get(at).cloned().flatten();
        let value = given.map(|value| self.run.settle(value)).transpose()?;
        Ok(value.filter(|value| !value.is_null()))
    }

    fn is_true(&self, at: usize) -> Outcome<bool> {
        Ok(self.get(at)?.is_some_and(|value| is_true(&value)))
    }

    fn text(&self, at: usize) -> Outcome<Option<Arc<str>>> {
        let value = self.get(at)?;
        value
            .map(|value| self.run.printed(&value).map(Arc::from))
            .transpose()
    }

    /// A number, else the first argument, else 0.
    fn or_default(&self, number: Option<Json>) -> Outcome<Json> {
        match number {
            Some(number) => Ok(number),
            None => Ok(self.get(0)?.unwrap_or(Json::Int(0))),
        }
    }

    /// An argument that counts something; a negative one is none.
    fn count(&self, at: usize) -> Outcome<Option<usize>> {
        let Some(value) = self.get(at)? else {
            return Ok(None);
        };
        let wrong = || {
            Stop::failed(format!(
                "expected an integer, found a {}",
                value.type_name()
            ))
        };
        let count = number::integer(&value).ok_or_else(wrong)?;
        Ok(usize::try_from(count).ok())
    }

    /// Spends the work of reading a text.
    fn scan(&self, value: &Json) -> Outcome<()> {
        self.run.meter.scan(value.as_str().map_or(0, str::len))
    }

    fn int(&self, value: &Json) -> Outcome<Json> {
        let base = self.count(1)?.unwrap_or(10);
        self.scan(value)?;
        let number = match value {
            Json::Str(text) if base == 10 => {
                number::parse(text).and_then(|value| number::truncated(&value))
            }
            Json::Str(text) => in_base(text, base),
            Json::Bool(value) => Some(Json::Int((*value).into())),
            Json::Int(_) | Json::UInt(_) | Json::Float(_) => number::truncated(value),
            Json::Null | Json::List(_) | Json::Map(_) => None,
        };
        self.or_default(number)
    }

    fn float(&self, value: Json) -> Outcome<Json> {
        self.scan(&value)?;
        let number = match &value {
            Json::Str(text) => number::parse(text),
            Json::Bool(value) => Some(Json::Int((*value).into())),
            Json::Int(_) | Json::UInt(_) | Json::Float(_) => Some(value),
            Json::Null | Json::List(_) | Json::Map(_) => None,
        };
        self.or_default(number)
    }

    fn round(&self, value: &Json) -> Outcome<Json> {
        let digits = match self.get(0)? {
            Some(digits) => digits
                .as_i64()
                .ok_or_else(|| Stop::failed("a precision is an integer"))?,
            None => 0,
        };
        let digits = i32::try_from(digits.clamp(-400, 400)).unwrap_or_default();
        let rounding = match self.text(1)?.as_deref() {
            None | Some("common") => Rounding::Common,
            Some("ceil") => Rounding::Up,
            Some("floor") => Rounding::Down,
            Some(_) => return Err(Stop::failed("a rounding is common, ceil or floor")),
        };
        number::round(value, digits, rounding)
            .map_err(|error| Stop::failed(format!("round of a {}: {error}", value.type_name())))
    }
}

impl Run<'_> {
    /// Applies a filter to a value.
    pub(super) fn filter(
        &self,
        filter: Filter,
        value: Value,
        given: &[Option<Value>],
    ) -> Outcome<Value> {
        self.meter.work(1)?;
        let args = Args { run: self, given };
        if filter == Filter::Get {
            let default = given.get(1).cloned().flatten();
            return self.get(&value, &args.get(0)?.unwrap_or_default(), default);
        }
        let value = self.settle(value)?;
        if filter == Filter::Default {
            let replaced = value.is_null() || (args.is_true(1)? && !is_true(&value));
            let default = given.first().cloned().flatten();
            return Ok(if replaced {
                default.unwrap_or_else(|| Value::text(""))
            } else {
                value.into()
            });
        }
        if matches!(filter, Filter::First | Filter::Last) {
            return self.end(&value, filter == Filter::Last);
        }
        if matches!(filter, Filter::Min | Filter::Max) {
            let by = By::new(args.get(1)?.as_ref(), args.is_true(0)?, &self.meter)?;
            let wanted = if filter == Filter::Min {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            return self.extreme(&self.items(&value)?, &by, wanted);
        }
        self.plain(filter, value, &args).map(Value::Json)
    }

    /// Filters that always yield something.
    fn plain(&self, filter: Filter, value: Json, args: &Args<'_>) -> Outcome<Json> {
        match filter {
            Filter::Get
            | Filter::Default
            | Filter::First
            | Filter::Last
            | Filter::Min
            | Filter::Max
            | Filter::Safe => Ok(value),
            Filter::Int => args.int(&value),
            Filter::Float => args.float(value),
            Filter::Bool => {
                args.scan(&value)?;
                Ok(Json::Bool(truthy(&value)))
            }
            Filter::Abs => number::absolute(&value)
                .map_err(|error| Stop::failed(format!("abs of a {}: {error}", value.type_name()))),
            Filter::Round => args.round(&value),
            Filter::Length => self.length(&value),
            Filter::Keys => self.map_keys(&value),
            Filter::Values => self.values(&value),
            Filter::Items => self.pairs(&value),
            Filter::Reverse => self.reversed(&value),
            Filter::List => Ok(Json::List(self.items(&value)?)),
            Filter::Sum => {
                let start = args.get(1)?.unwrap_or(Json::Int(0));
                self.sum(&value, args.get(0)?.as_ref(), start)
            }
            Filter::Sort => {
                let by = By::new(args.get(2)?.as_ref(), args.is_true(1)?, &self.meter)?;
                self.sort(&self.items(&value)?, &by, args.is_true(0)?)
            }
            Filter::Unique => {
                let by = By::new(args.get(1)?.as_ref(), args.is_true(0)?, &self.meter)?;
                self.unique(&self.items(&value)?, &by)
            }
            Filter::GroupBy => {
                let mut by = By::new(args.get(0)?.as_ref(), args.is_true(2)?, &self.meter)?;
                by.default = args.get(1)?;
                self.group(&self.items(&value)?, &by)
            }
            Filter::FromJson => match &value {
                Json::Str(text) => self.read_json(text),
                other => Err(Stop::failed(format!(
                    "fromjson takes a text, not a {}",
                    other.type_name()
                ))),
            },
            Filter::Split => {
                let text = self.printed(&value)?;
                self.split(&text, args.text(0)?.as_deref(), args.count(1)?)
            }
            Filter::B64Decode => self.base64_decode(&self.printed(&value)?),
            Filter::Join => self.join(&value, args),
            Filter::String
            | Filter::Lower
            | Filter::Upper
            | Filter::Title
            | Filter::Trim
            | Filter::Replace
            | Filter::ToJson
            | Filter::B64Encode
            | Filter::UrlEncode
            | Filter::Sha256 => self.to_text(filter, &value, args).map(Json::Str),
        }
    }

    /// Filters that make a text, most of them from the printed form of any value.
    fn to_text(&self, filter: Filter, value: &Json, args: &Args<'_>) -> Outcome<Arc<str>> {
        if filter == Filter::ToJson {
            return self.to_json(value, args.count(0)?);
        }
        if filter == Filter::UrlEncode {
            return self.url_encode(value);
        }
        if let (Filter::String, Json::Str(text)) = (filter, value) {
            return Ok(Arc::clone(text));
        }
        let text = self.printed(value)?;
        match filter {
            Filter::Lower => self.lower(&text),
            Filter::Upper => self.upper(&text),
            Filter::Title => self.title(&text),
            Filter::Trim => self.trim(&text, args.text(0)?.as_deref()),
            Filter::Replace => {
                let old = args.text(0)?.unwrap_or_default();
                let new = args.text(1)?.unwrap_or_default();
                self.replace(&text, [&old, &new], args.count(2)?)
            }
            Filter::B64Encode => self.base64_encode(text.as_bytes()),
            Filter::Sha256 => {
                self.meter.scan(text.len())?;
                Ok(sha256(text.as_bytes()).to_string().into())
            }
            // `string`: the caller knows which filters make texts.
            _ => Ok(text.into()),
        }
    }

    /// The member under a key or position, else the default.
    pub(super) fn get(&self, value: &Value, key: &Json, default: Option<Value>) -> Outcome<Value> {
        match (self.index(value, key)?, default) {
            (Value::Undefined, Some(default)) => Ok(default),
            (found, _) => Ok(found),
        }
    }

    fn join(&self, value: &Json, args: &Args<'_>) -> Outcome<Json> {
        let between = args.text(0)?.unwrap_or_default();
        let items = self.items(value)?;
        let Some(attribute) = args.get(1)? else {
            return self
                .joined(&items, &between)
                .map(|text| Json::Str(text.into()));
        };
        let path = Path::parse(&attribute, &self.meter)?;
        self.meter.list(items.len())?;
        let parts: Vec<_> = items
            .iter()
            .map(|item| path.get(item).unwrap_or_default())
            .collect();
        self.joined(&parts, &between)
            .map(|text| Json::Str(text.into()))
    }
}

/// Reads a whole number in another base, with or without the prefix of that base.
fn in_base(text: &str, base: usize) -> Option<Json> {
    let radix = u32::try_from(base)
        .ok()
        .filter(|radix| (2..=36).contains(radix))?;
    // More digits than this are more than 64 bits in any base.
    let text = text.trim();
    if text.len() > 80 {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (sign, digits) = lower
        .strip_prefix('-')
        .map_or((1, lower.as_str()), |digits| (-1, digits));
    let prefix = match radix {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let digits = digits.strip_prefix(prefix).unwrap_or(digits);
    Json::from_i128(sign * i128::from_str_radix(digits, radix).ok()?).ok()
}
