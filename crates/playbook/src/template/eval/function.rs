//! Calls of functions.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use super::evaluator::Evaluator;
use super::value::Value;
use crate::template::number::as_integer;
use crate::template::program::CallArg;
use crate::template::render_error::{EvalError, EvalResult, RenderLimit};
use crate::template::vocabulary::Function;

impl Evaluator<'_> {
    pub(super) fn call_function(
        &mut self,
        function: Function,
        args: &[CallArg],
    ) -> EvalResult<Value> {
        let unavailable =
            |name: &str| EvalError::operation_failed(format!("{name}() is not available here"));
        match function {
            Function::Now => {
                let now = self.context.environment.now().ok_or_else(|| unavailable("now"))?;
                Ok(Value::Json(Json::from(now)))
            }
            Function::Random => {
                let random =
                    self.context.environment.next_random().ok_or_else(|| unavailable("random"))?;
                Ok(Value::Json(Json::from_f64(random)?))
            }
            Function::Uuid => {
                let uuid =
                    self.context.environment.next_uuid().ok_or_else(|| unavailable("uuid"))?;
                Ok(Value::Json(Json::text(uuid)?))
            }
            Function::Range => {
                let args = args.iter().map(|arg| match arg {
                    CallArg::Positional(expr)
                    | CallArg::Named(_, expr)
                    | CallArg::Spread(expr)
                    | CallArg::SpreadNamed(expr) => self.eval_json(expr),
                });
                let args = args.collect::<EvalResult<Vec<_>>>()?;
                self.eval_range(&args).map(Value::Json)
            }
            Function::Dict => self.collect_dict_args(args).map(|map| Json::from(map).into()),
            Function::Namespace => {
                let members = self.collect_dict_args(args)?;
                Ok(Value::Namespace(Rc::new(RefCell::new(members))))
            }
        }
    }

    /// `range(stop)`, `range(start, stop)` or `range(start, stop, step)`.
    fn eval_range(&self, args: &[Json]) -> EvalResult<Json> {
        let number = |value: &Json| {
            as_integer(value).ok_or_else(|| {
                EvalError::operation_failed(format!(
                    "range takes integers, not a {}",
                    value.type_name()
                ))
            })
        };
        let (start, stop, step) = match args {
            [stop] => (0, number(stop)?, 1),
            [start, stop] => (number(start)?, number(stop)?, 1),
            [start, stop, step] => (number(start)?, number(stop)?, number(step)?),
            _ => {
                return Err(EvalError::operation_failed("range takes one to three integers"));
            }
        };
        if step == 0 {
            return Err(EvalError::operation_failed("range cannot have a step of 0"));
        }
        let distance = if step > 0 { stop - start } else { start - stop };
        let count = (distance.max(0) + step.abs() - 1) / step.abs();
        let limit = self.context.meter.limits.range;
        let count = u64::try_from(count).ok().filter(|count| *count <= limit);
        let count = count.ok_or_else(|| EvalError::limit_exceeded(RenderLimit::Range, limit))?;
        self.context.meter.charge_list(usize::try_from(count).unwrap_or(usize::MAX))?;
        let numbers = (0..count).map(|index| Json::from_i128(start + i128::from(index) * step));
        Ok(Json::from(numbers.collect::<Result<Vec<_>, _>>()?))
    }

    /// The entries of a map or of a list of pairs, followed by the named arguments.
    fn collect_dict_args(&mut self, args: &[CallArg]) -> EvalResult<JsonMap> {
        let mut map = JsonMap::new();
        for arg in args {
            match arg {
                CallArg::Named(name, expr) => {
                    let value = self.eval_json(expr)?;
                    self.insert_entry(&mut map, Arc::clone(name), value)?;
                }
                CallArg::Positional(expr) | CallArg::SpreadNamed(expr) => {
                    let value = self.eval_json(expr)?;
                    self.insert_entries(&mut map, &value)
                        .map_err(|error| error.at_offset(expr.span.start()))?;
                }
                CallArg::Spread(expr) => {
                    let value = self.eval_json(expr)?;
                    for item in self.context.to_items(&value)?.iter() {
                        self.insert_entries(&mut map, item)
                            .map_err(|error| error.at_offset(expr.span.start()))?;
                    }
                }
            }
        }
        Ok(map)
    }

    fn insert_entries(&self, map: &mut JsonMap, value: &Json) -> EvalResult<()> {
        match value {
            Json::Null => Ok(()),
            Json::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                self.insert_entry(map, Arc::clone(key), value.clone())
            }),
            Json::List(pairs) => pairs.iter().try_for_each(|pair| match pair.as_list() {
                Some([key, value]) => self.insert_entry(map, self.map_key(key)?, value.clone()),
                Some(_) | None => {
                    Err(EvalError::operation_failed("dict takes a map or a list of pairs"))
                }
            }),
            Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) | Json::Str(_) => {
                Err(EvalError::operation_failed(format!(
                    "dict cannot be made from a {}",
                    value.type_name()
                )))
            }
        }
    }

    fn insert_entry(&self, map: &mut JsonMap, key: Arc<str>, value: Json) -> EvalResult<()> {
        self.context.meter.charge_map(1)?;
        self.context.meter.check_nesting(&value, 2)?;
        map.insert(key, value);
        Ok(())
    }
}
