//! Dispatch and implementation of filters.

use std::cmp::Ordering;
use std::sync::Arc;

use noetl_types::Json;
use noetl_types::digest::sha256;

use super::attribute_path::AttributePath;
use super::context::{RenderContext, is_true};
use super::sorting::SortKey;
use super::value::Value;
use crate::template::is_truthy;
use crate::template::number::{self, RoundingMode};
use crate::template::render_error::{EvalError, EvalResult};
use crate::template::vocabulary::Filter;

/// Arguments of a filter, by position in its signature.
struct FilterArgs<'a> {
    context: &'a RenderContext<'a>,
    values: &'a [Option<Value>],
}

impl FilterArgs<'_> {
    /// Returns an argument if it is given and not null.
    fn value_at(&self, index: usize) -> EvalResult<Option<Json>> {
        let arg = self.values.get(index).cloned().flatten();
        let value = arg.map(|value| self.context.convert_to_json(value)).transpose()?;
        Ok(value.filter(|value| !value.is_null()))
    }

    fn is_true_at(&self, index: usize) -> EvalResult<bool> {
        Ok(self.value_at(index)?.is_some_and(|value| is_true(&value)))
    }

    fn text_at(&self, index: usize) -> EvalResult<Option<Arc<str>>> {
        let value = self.value_at(index)?;
        value.map(|value| self.context.print_value(&value).map(Arc::from)).transpose()
    }

    /// The number, or else the first argument, or else 0.
    fn number_or_default(&self, number: Option<Json>) -> EvalResult<Json> {
        match number {
            Some(number) => Ok(number),
            None => Ok(self.value_at(0)?.unwrap_or(Json::Int(0))),
        }
    }

    /// An argument that is a count. A negative count is treated as absent.
    fn count_at(&self, index: usize) -> EvalResult<Option<usize>> {
        let Some(value) = self.value_at(index)? else {
            return Ok(None);
        };
        let type_error = || {
            EvalError::operation_failed(format!(
                "expected an integer, found a {}",
                value.type_name()
            ))
        };
        let count = number::as_integer(&value).ok_or_else(type_error)?;
        Ok(usize::try_from(count).ok())
    }

    /// Charges the scan of a text value.
    fn charge_scan(&self, value: &Json) -> EvalResult<()> {
        self.context.meter.charge_scan(value.as_str().map_or(0, str::len))
    }

    fn to_int(&self, value: &Json) -> EvalResult<Json> {
        let base = self.count_at(1)?.unwrap_or(10);
        self.charge_scan(value)?;
        let number = match value {
            Json::Str(text) if base == 10 => {
                number::parse_number(text).and_then(|value| number::truncate_number(&value))
            }
            Json::Str(text) => parse_in_base(text, base),
            Json::Bool(value) => Some(Json::Int((*value).into())),
            Json::Int(_) | Json::UInt(_) | Json::Float(_) => number::truncate_number(value),
            Json::Null | Json::List(_) | Json::Map(_) => None,
        };
        self.number_or_default(number)
    }

    fn to_float(&self, value: Json) -> EvalResult<Json> {
        self.charge_scan(&value)?;
        let number = match &value {
            Json::Str(text) => number::parse_number(text),
            Json::Bool(value) => Some(Json::Int((*value).into())),
            Json::Int(_) | Json::UInt(_) | Json::Float(_) => Some(value),
            Json::Null | Json::List(_) | Json::Map(_) => None,
        };
        self.number_or_default(number)
    }

    fn round_value(&self, value: &Json) -> EvalResult<Json> {
        let digits = match self.value_at(0)? {
            Some(digits) => digits.as_i64().ok_or_else(|| {
                EvalError::operation_failed("the precision of round must be an integer")
            })?,
            None => 0,
        };
        let digits = i32::try_from(digits.clamp(-400, 400)).unwrap_or_default();
        let rounding = match self.text_at(1)?.as_deref() {
            None | Some("common") => RoundingMode::Common,
            Some("ceil") => RoundingMode::Up,
            Some("floor") => RoundingMode::Down,
            Some(_) => {
                return Err(EvalError::operation_failed(
                    "the method of round must be common, ceil or floor",
                ));
            }
        };
        number::round_number(value, digits, rounding).map_err(|error| {
            EvalError::operation_failed(format!("round of a {}: {error}", value.type_name()))
        })
    }
}

impl RenderContext<'_> {
    /// Applies a filter to a value.
    pub(super) fn apply_filter(
        &self,
        filter: Filter,
        value: Value,
        params: &[Option<Value>],
    ) -> EvalResult<Value> {
        self.meter.charge_fuel(1)?;
        let args = FilterArgs { context: self, values: params };
        if filter == Filter::Get {
            let default = params.get(1).cloned().flatten();
            return self.get_or_default(&value, &args.value_at(0)?.unwrap_or_default(), default);
        }
        let value = self.convert_to_json(value)?;
        if filter == Filter::Default {
            let uses_default = value.is_null() || (args.is_true_at(1)? && !is_true(&value));
            let default = params.first().cloned().flatten();
            return Ok(if uses_default {
                default.unwrap_or_else(|| Value::from_text(""))
            } else {
                value.into()
            });
        }
        if matches!(filter, Filter::First | Filter::Last) {
            return self.first_or_last(&value, filter == Filter::Last);
        }
        if matches!(filter, Filter::Min | Filter::Max) {
            let sort_key =
                SortKey::new(args.value_at(1)?.as_ref(), args.is_true_at(0)?, &self.meter)?;
            let ordering = if filter == Filter::Min { Ordering::Less } else { Ordering::Greater };
            return self.extreme_item(&self.to_items(&value)?, &sort_key, ordering);
        }
        self.apply_value_filter(filter, value, &args).map(Value::Json)
    }

    /// Applies a filter that always yields a defined value.
    fn apply_value_filter(
        &self,
        filter: Filter,
        value: Json,
        args: &FilterArgs<'_>,
    ) -> EvalResult<Json> {
        match filter {
            Filter::Get
            | Filter::Default
            | Filter::First
            | Filter::Last
            | Filter::Min
            | Filter::Max
            | Filter::Safe => Ok(value),
            Filter::Int => args.to_int(&value),
            Filter::Float => args.to_float(value),
            Filter::Bool => {
                args.charge_scan(&value)?;
                Ok(Json::Bool(is_truthy(&value)))
            }
            Filter::Abs => number::absolute_value(&value).map_err(|error| {
                EvalError::operation_failed(format!("abs of a {}: {error}", value.type_name()))
            }),
            Filter::Round => args.round_value(&value),
            Filter::Length => self.value_length(&value),
            Filter::Keys => self.map_keys(&value),
            Filter::Values => self.map_values(&value),
            Filter::Items => self.map_items(&value),
            Filter::Reverse => self.reverse_value(&value),
            Filter::List => Ok(Json::List(self.to_items(&value)?)),
            Filter::Sum => {
                let start = args.value_at(1)?.unwrap_or(Json::Int(0));
                self.sum_items(&value, args.value_at(0)?.as_ref(), start)
            }
            Filter::Sort => {
                let sort_key =
                    SortKey::new(args.value_at(2)?.as_ref(), args.is_true_at(1)?, &self.meter)?;
                self.sort_items(&self.to_items(&value)?, &sort_key, args.is_true_at(0)?)
            }
            Filter::Unique => {
                let sort_key =
                    SortKey::new(args.value_at(1)?.as_ref(), args.is_true_at(0)?, &self.meter)?;
                self.unique_items(&self.to_items(&value)?, &sort_key)
            }
            Filter::GroupBy => {
                let mut sort_key =
                    SortKey::new(args.value_at(0)?.as_ref(), args.is_true_at(2)?, &self.meter)?;
                sort_key.default = args.value_at(1)?;
                self.group_items(&self.to_items(&value)?, &sort_key)
            }
            Filter::FromJson => match &value {
                Json::Str(text) => self.decode_json(text),
                other => Err(EvalError::operation_failed(format!(
                    "fromjson takes a text, not a {}",
                    other.type_name()
                ))),
            },
            Filter::Split => {
                let text = self.print_value(&value)?;
                self.split_text(&text, args.text_at(0)?.as_deref(), args.count_at(1)?)
            }
            Filter::B64Decode => self.base64_decode(&self.print_value(&value)?),
            Filter::Join => self.join_items(&value, args),
            Filter::String
            | Filter::Lower
            | Filter::Upper
            | Filter::Title
            | Filter::Trim
            | Filter::Replace
            | Filter::ToJson
            | Filter::B64Encode
            | Filter::UrlEncode
            | Filter::Sha256 => self.apply_text_filter(filter, &value, args).map(Json::Str),
        }
    }

    /// Applies a filter that yields a text, usually from the printed form of any value.
    fn apply_text_filter(
        &self,
        filter: Filter,
        value: &Json,
        args: &FilterArgs<'_>,
    ) -> EvalResult<Arc<str>> {
        if filter == Filter::ToJson {
            return self.encode_json(value, args.count_at(0)?);
        }
        if filter == Filter::UrlEncode {
            return self.url_encode(value);
        }
        if let (Filter::String, Json::Str(text)) = (filter, value) {
            return Ok(Arc::clone(text));
        }
        let text = self.print_value(value)?;
        match filter {
            Filter::Lower => self.lowercase_text(&text),
            Filter::Upper => self.uppercase_text(&text),
            Filter::Title => self.title_case(&text),
            Filter::Trim => self.trim_text(&text, args.text_at(0)?.as_deref()),
            Filter::Replace => {
                let old = args.text_at(0)?.unwrap_or_default();
                let new = args.text_at(1)?.unwrap_or_default();
                self.replace_text(&text, [&old, &new], args.count_at(2)?)
            }
            Filter::B64Encode => self.base64_encode(text.as_bytes()),
            Filter::Sha256 => {
                self.meter.charge_scan(text.len())?;
                Ok(sha256(text.as_bytes()).to_string().into())
            }
            // `string`: the caller passes only filters that yield texts.
            _ => Ok(text.into()),
        }
    }

    /// The member under a key or index, or else the default.
    pub(super) fn get_or_default(
        &self,
        value: &Value,
        key: &Json,
        default: Option<Value>,
    ) -> EvalResult<Value> {
        match (self.get_index(value, key)?, default) {
            (Value::Undefined, Some(default)) => Ok(default),
            (found, _) => Ok(found),
        }
    }

    fn join_items(&self, value: &Json, args: &FilterArgs<'_>) -> EvalResult<Json> {
        let separator = args.text_at(0)?.unwrap_or_default();
        let items = self.to_items(value)?;
        let Some(attribute) = args.value_at(1)? else {
            return self.join_printed(&items, &separator).map(|text| Json::Str(text.into()));
        };
        let path = AttributePath::parse(&attribute, &self.meter)?;
        self.meter.charge_list(items.len())?;
        let parts: Vec<_> = items.iter().map(|item| path.get(item).unwrap_or_default()).collect();
        self.join_printed(&parts, &separator).map(|text| Json::Str(text.into()))
    }
}

/// Parses an integer in another base, with or without the prefix of that base.
fn parse_in_base(text: &str, base: usize) -> Option<Json> {
    let radix = u32::try_from(base).ok().filter(|radix| (2..=36).contains(radix))?;
    // More digits than this exceed 64 bits in any base.
    let text = text.trim();
    if text.len() > 80 {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (sign, digits) = lower.strip_prefix('-').map_or((1, lower.as_str()), |digits| (-1, digits));
    let prefix = match radix {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        _ => "",
    };
    let digits = digits.strip_prefix(prefix).unwrap_or(digits);
    Json::from_i128(sign * i128::from_str_radix(digits, radix).ok()?).ok()
}
