//! Functions.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use super::machine::Machine;
use super::value::Value;
use crate::template::error::{Limit, Outcome, Stop};
use crate::template::number::integer;
use crate::template::program::Arg;
use crate::template::vocabulary::Function;

impl Machine<'_> {
    pub(super) fn call(&mut self, function: Function, args: &[Arg]) -> Outcome<Value> {
        let absent = |name: &str| Stop::failed(format!("{name}() has no value here"));
        match function {
            Function::Now => {
                let now = self.run.scope.now().ok_or_else(|| absent("now"))?;
                Ok(Value::Json(Json::from(now)))
            }
            Function::Random => {
                let random = self.run.scope.random().ok_or_else(|| absent("random"))?;
                Ok(Value::Json(Json::from_f64(random)?))
            }
            Function::Uuid => {
                let uuid = self.run.scope.uuid().ok_or_else(|| absent("uuid"))?;
                Ok(Value::Json(Json::text(uuid)?))
            }
            Function::Range => {
                let args = args.iter().map(|arg| match arg {
                    Arg::Positional(expr)
                    | Arg::Named(_, expr)
                    | Arg::Spread(expr)
                    | Arg::SpreadNamed(expr) => self.eval_json(expr),
                });
                let args = args.collect::<Outcome<Vec<_>>>()?;
                self.range(&args).map(Value::Json)
            }
            Function::Dict => self.entries(args).map(|map| Json::from(map).into()),
            Function::Namespace => {
                let members = self.entries(args)?;
                Ok(Value::Namespace(Rc::new(RefCell::new(members))))
            }
        }
    }

    /// `range(stop)`, `range(start, stop)` or `range(start, stop, step)`.
    fn range(&self, args: &[Json]) -> Outcome<Json> {
        let number = |value: &Json| {
            integer(value).ok_or_else(|| {
                Stop::failed(format!("range takes integers, not a {}", value.type_name()))
            })
        };
        let (start, stop, step) = match args {
            [stop] => (0, number(stop)?, 1),
            [start, stop] => (number(start)?, number(stop)?, 1),
            [start, stop, step] => (number(start)?, number(stop)?, number(step)?),
            _ => return Err(Stop::failed("range takes one to three integers")),
        };
        if step == 0 {
            return Err(Stop::failed("range cannot have a step of 0"));
        }
        let distance = if step > 0 { stop - start } else { start - stop };
        let count = (distance.max(0) + step.abs() - 1) / step.abs();
        let most = self.run.meter.limits.range;
        let count = u64::try_from(count).ok().filter(|count| *count <= most);
        let count = count.ok_or_else(|| Stop::limit(Limit::Range, most))?;
        self.run
            .meter
            .list(usize::try_from(count).unwrap_or(usize::MAX))?;
        let numbers = (0..count).map(|index| Json::from_i128(start + i128::from(index) * step));
        Ok(Json::from(numbers.collect::<Result<Vec<_>, _>>()?))
    }

    /// The entries of a map or of a list of pairs, then those that are named.
    fn entries(&mut self, args: &[Arg]) -> Outcome<JsonMap> {
        let mut map = JsonMap::new();
        for arg in args {
            match arg {
                Arg::Named(name, expr) => {
                    let value = self.eval_json(expr)?;
                    self.enter(&mut map, Arc::clone(name), value)?;
                }
                Arg::Positional(expr) | Arg::SpreadNamed(expr) => {
                    let value = self.eval_json(expr)?;
                    self.enter_all(&mut map, &value)
                        .map_err(|stop| stop.at(expr.span.start()))?;
                }
                Arg::Spread(expr) => {
                    let value = self.eval_json(expr)?;
                    for item in self.run.items(&value)?.iter() {
                        self.enter_all(&mut map, item)
                            .map_err(|stop| stop.at(expr.span.start()))?;
                    }
                }
            }
        }
        Ok(map)
    }

    fn enter_all(&self, map: &mut JsonMap, value: &Json) -> Outcome<()> {
        match value {
            Json::Null => Ok(()),
            Json::Map(entries) => entries
                .iter()
                .try_for_each(|(key, value)| self.enter(map, Arc::clone(key), value.clone())),
            Json::List(pairs) => pairs.iter().try_for_each(|pair| match pair.as_list() {
                Some([key, value]) => self.enter(map, self.key(key)?, value.clone()),
                Some(_) | None => Err(Stop::failed("dict takes a map or a list of pairs")),
            }),
            Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) | Json::Str(_) => Err(
                Stop::failed(format!("dict cannot be made from a {}", value.type_name())),
            ),
        }
    }

    fn enter(&self, map: &mut JsonMap, key: Arc<str>, value: Json) -> Outcome<()> {
        self.run.meter.map(1)?;
        self.run.meter.nest(&value, 2)?;
        map.insert(key, value);
        Ok(())
    }
}
