//! What filters and methods do to lists and maps.

use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use super::machine::Machine;
use super::path::Path;
use super::run::Run;
use super::value::Value;
use crate::template::error::{Outcome, Stop};
use crate::template::number::{self, MathError};
use crate::template::program::{Each, MathOp};

impl Machine<'_> {
    /// Filters that do something to every item.
    pub(super) fn each(&mut self, value: Value, each: &Each) -> Outcome<Value> {
        let run = self.run;
        let value = run.settle(value)?;
        let items = run.items(&value)?;
        run.meter.list(items.len())?;
        let mut list = Vec::with_capacity(items.len());
        match each {
            Each::MapAttribute { path, default } => {
                let path = Path::parse(&self.eval_json(path)?, &run.meter)?;
                let default = match default {
                    Some(default) => self.eval_json(default)?,
                    None => Json::Null,
                };
                list.extend(
                    items
                        .iter()
                        .map(|item| path.get(item).unwrap_or_else(|| default.clone())),
                );
            }
            Each::MapFilter(filter, params) => {
                let params = self.params(params)?;
                for item in items.iter() {
                    let mapped = run.filter(*filter, item.clone().into(), &params)?;
                    let mapped = run.settle(mapped)?;
                    run.meter.nest(&mapped, 2)?;
                    list.push(mapped);
                }
            }
            Each::Keep {
                attribute,
                test,
                when,
            } => {
                let path = match attribute {
                    Some(attribute) => Some(Path::parse(&self.eval_json(attribute)?, &run.meter)?),
                    None => None,
                };
                let test = match test {
                    Some((test, params)) => Some((*test, self.params(params)?)),
                    None => None,
                };
                for item in items.iter() {
                    let tested: Value = match &path {
                        Some(path) => path.get(item).into(),
                        None => item.clone().into(),
                    };
                    let passes = match &test {
                        Some((test, params)) => {
                            run.test(*test, &tested, params.first().and_then(Option::as_ref))?
                        }
                        None => run.is_true(&tested)?,
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

impl Run<'_> {
    /// How many characters, items or entries there are.
    pub(super) fn length(&self, value: &Json) -> Outcome<Json> {
        match value {
            Json::Null => Ok(Json::Int(0)),
            Json::Str(text) => {
                self.meter.scan(text.len())?;
                Ok(Json::from(text.chars().count()))
            }
            Json::List(items) => Ok(Json::from(items.len())),
            Json::Map(map) => Ok(Json::from(map.len())),
            Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => Err(Stop::failed(
                format!("a {} has no length", value.type_name()),
            )),
        }
    }

    /// The first or last item or character.
    pub(super) fn end(&self, value: &Json, last: bool) -> Outcome<Value> {
        if let Json::Str(text) = value {
            let found = if last {
                text.chars().next_back()
            } else {
                text.chars().next()
            };
            return Ok(found.map(|c| Json::from(c.to_string())).into());
        }
        let items = self.items(value)?;
        let found = if last { items.last() } else { items.first() };
        Ok(found.cloned().into())
    }

    /// The values of a map; undefined and null have none.
    pub(super) fn values(&self, value: &Json) -> Outcome<Json> {
        self.entries(value, |_, value| value.clone())
    }

    /// The keys of a map.
    pub(super) fn map_keys(&self, value: &Json) -> Outcome<Json> {
        self.entries(value, |key, _| Json::Str(Arc::clone(key)))
    }

    /// The entries of a map as pairs.
    pub(super) fn pairs(&self, value: &Json) -> Outcome<Json> {
        for item in value.as_map().into_iter().flat_map(|map| map.values()) {
            self.meter.nest(item, 3)?;
        }
        // Each pair is a list of its own.
        self.meter
            .list(4 * value.as_map().map_or(0, JsonMap::len))?;
        self.entries(value, |key, value| {
            Json::list([Json::Str(Arc::clone(key)), value.clone()])
        })
    }

    fn entries(&self, value: &Json, pick: impl Fn(&Arc<str>, &Json) -> Json) -> Outcome<Json> {
        match value {
            Json::Null => Ok(Json::from(Vec::new())),
            Json::Map(map) => {
                self.meter.list(map.len())?;
                let mut list = Vec::with_capacity(map.len());
                list.extend(map.iter().map(|(key, value)| pick(key, value)));
                Ok(Json::from(list))
            }
            Json::Bool(_)
            | Json::Int(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::Str(_)
            | Json::List(_) => Err(Stop::failed(format!("a {} has no keys", value.type_name()))),
        }
    }

    pub(super) fn reversed(&self, value: &Json) -> Outcome<Json> {
        if let Json::Str(text) = value {
            self.meter.text(text.len())?;
            let mut reversed = String::with_capacity(text.len());
            reversed.extend(text.chars().rev());
            return Ok(Json::Str(reversed.into()));
        }
        let items = self.items(value)?;
        self.meter.list(items.len())?;
        Ok(Json::from(items.iter().rev().cloned().collect::<Vec<_>>()))
    }

    /// The sum of numbers, or of one attribute of each item.
    pub(super) fn sum(&self, value: &Json, attribute: Option<&Json>, start: Json) -> Outcome<Json> {
        let items = self.items(value)?;
        self.meter.work(items.len())?;
        let path = match attribute {
            None | Some(Json::Null) => None,
            Some(attribute) => Some(Path::parse(attribute, &self.meter)?),
        };
        let mut sum = start;
        for item in items.iter() {
            let summand = match &path {
                Some(path) => path.get(item).unwrap_or_default(),
                None => item.clone(),
            };
            sum = number::apply(MathOp::Add, &sum, &summand).map_err(|error| match error {
                MathError::NotANumber => Stop::failed(format!(
                    "cannot add {} to {}",
                    summand.type_name(),
                    sum.type_name()
                )),
                MathError::DivisionByZero | MathError::Refused(_) => {
                    Stop::failed(error.to_string())
                }
            })?;
        }
        Ok(sum)
    }
}
