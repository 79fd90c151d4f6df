//! Filters and methods on lists and maps.

use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use super::attribute_path::AttributePath;
use super::context::RenderContext;
use super::evaluator::Evaluator;
use super::value::Value;
use crate::template::number::{self, MathError};
use crate::template::program::{ItemFilter, MathOp};
use crate::template::render_error::{EvalError, EvalResult};

impl Evaluator<'_> {
    /// Applies a filter to every item.
    pub(super) fn apply_item_filter(
        &mut self,
        value: Value,
        item_filter: &ItemFilter,
    ) -> EvalResult<Value> {
        let context = self.context;
        let value = context.convert_to_json(value)?;
        let items = context.to_items(&value)?;
        context.meter.charge_list(items.len())?;
        let mut list = Vec::with_capacity(items.len());
        match item_filter {
            ItemFilter::MapAttribute { path, default } => {
                let path = AttributePath::parse(&self.eval_json(path)?, &context.meter)?;
                let default = match default {
                    Some(default) => self.eval_json(default)?,
                    None => Json::Null,
                };
                list.extend(
                    items.iter().map(|item| path.get(item).unwrap_or_else(|| default.clone())),
                );
            }
            ItemFilter::MapFilter(filter, params) => {
                let params = self.eval_params(params)?;
                for item in items.iter() {
                    let mapped = context.apply_filter(*filter, item.clone().into(), &params)?;
                    let mapped = context.convert_to_json(mapped)?;
                    context.meter.check_nesting(&mapped, 2)?;
                    list.push(mapped);
                }
            }
            ItemFilter::Keep { attribute, test, when } => {
                let path = match attribute {
                    Some(attribute) => {
                        Some(AttributePath::parse(&self.eval_json(attribute)?, &context.meter)?)
                    }
                    None => None,
                };
                let test = match test {
                    Some((test, params)) => Some((*test, self.eval_params(params)?)),
                    None => None,
                };
                for item in items.iter() {
                    let tested: Value = match &path {
                        Some(path) => path.get(item).into(),
                        None => item.clone().into(),
                    };
                    let passes = match &test {
                        Some((test, params)) => context.eval_test(
                            *test,
                            &tested,
                            params.first().and_then(Option::as_ref),
                        )?,
                        None => context.is_true_value(&tested)?,
                    };
                    if passes == *when {
                        list.push(item.clone());
                    }
                }
            }
        }
        Ok(Json::from(list).into())
    }
}

impl RenderContext<'_> {
    /// The number of characters, items or entries.
    pub(super) fn value_length(&self, value: &Json) -> EvalResult<Json> {
        match value {
            Json::Null => Ok(Json::Int(0)),
            Json::Str(text) => {
                self.meter.charge_scan(text.len())?;
                Ok(Json::from(text.chars().count()))
            }
            Json::List(items) => Ok(Json::from(items.len())),
            Json::Map(map) => Ok(Json::from(map.len())),
            Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => {
                Err(EvalError::operation_failed(format!("a {} has no length", value.type_name())))
            }
        }
    }

    /// The first or last item or character.
    pub(super) fn first_or_last(&self, value: &Json, last: bool) -> EvalResult<Value> {
        if let Json::Str(text) = value {
            let found = if last { text.chars().next_back() } else { text.chars().next() };
            return Ok(found.map(|c| Json::from(c.to_string())).into());
        }
        let items = self.to_items(value)?;
        let found = if last { items.last() } else { items.first() };
        Ok(found.cloned().into())
    }

    /// The values of a map. Undefined and null have no values.
    pub(super) fn map_values(&self, value: &Json) -> EvalResult<Json> {
        self.collect_entries(value, |_, value| value.clone())
    }

    /// The keys of a map.
    pub(super) fn map_keys(&self, value: &Json) -> EvalResult<Json> {
        self.collect_entries(value, |key, _| Json::Str(Arc::clone(key)))
    }

    /// The entries of a map as pairs.
    pub(super) fn map_items(&self, value: &Json) -> EvalResult<Json> {
        for item in value.as_map().into_iter().flat_map(|map| map.values()) {
            self.meter.check_nesting(item, 3)?;
        }
        // Each pair is allocated as a separate list.
        self.meter.charge_list(4 * value.as_map().map_or(0, JsonMap::len))?;
        self.collect_entries(value, |key, value| {
            Json::list([Json::Str(Arc::clone(key)), value.clone()])
        })
    }

    fn collect_entries(
        &self,
        value: &Json,
        pick: impl Fn(&Arc<str>, &Json) -> Json,
    ) -> EvalResult<Json> {
        match value {
            Json::Null => Ok(Json::from(Vec::new())),
            Json::Map(map) => {
                self.meter.charge_list(map.len())?;
                let mut list = Vec::with_capacity(map.len());
                list.extend(map.iter().map(|(key, value)| pick(key, value)));
                Ok(Json::from(list))
            }
            Json::Bool(_)
            | Json::Int(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::Str(_)
            | Json::List(_) => {
                Err(EvalError::operation_failed(format!("a {} has no keys", value.type_name())))
            }
        }
    }

    pub(super) fn reverse_value(&self, value: &Json) -> EvalResult<Json> {
        if let Json::Str(text) = value {
            self.meter.charge_text(text.len())?;
            let mut reversed = String::with_capacity(text.len());
            reversed.extend(text.chars().rev());
            return Ok(Json::Str(reversed.into()));
        }
        let items = self.to_items(value)?;
        self.meter.charge_list(items.len())?;
        Ok(Json::from(items.iter().rev().cloned().collect::<Vec<_>>()))
    }

    /// The sum of numbers, or of one attribute of each item.
    pub(super) fn sum_items(
        &self,
        value: &Json,
        attribute: Option<&Json>,
        start: Json,
    ) -> EvalResult<Json> {
        let items = self.to_items(value)?;
        self.meter.charge_fuel(items.len())?;
        let path = match attribute {
            None | Some(Json::Null) => None,
            Some(attribute) => Some(AttributePath::parse(attribute, &self.meter)?),
        };
        let mut sum = start;
        for item in items.iter() {
            let summand = match &path {
                Some(path) => path.get(item).unwrap_or_default(),
                None => item.clone(),
            };
            sum = number::apply_operator(MathOp::Add, &sum, &summand).map_err(
                |error| match error {
                    MathError::NotANumber => EvalError::operation_failed(format!(
                        "cannot add {} to {}",
                        summand.type_name(),
                        sum.type_name()
                    )),
                    MathError::DivisionByZero | MathError::InvalidResult(_) => {
                        EvalError::operation_failed(error.to_string())
                    }
                },
            )?;
        }
        Ok(sum)
    }
}
