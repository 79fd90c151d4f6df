//! Calls of filters, methods, tests and functions, and those that belong to no other file.

use std::sync::Arc;

use noetl_types::json::JsonValueError;
use noetl_types::{Json, JsonMap};

use super::Evaluator;
use super::context::{RenderContext, Value, is_true};
use super::vocabulary::{Filter, Function, Method, Test};
use crate::template::environment::TemplateEnvironment;
use crate::template::error::{ErrorLocation, EvalError, EvalResult, RenderLimit};
use crate::template::is_truthy;
use crate::template::number::{self, MathError, RoundingMode, as_integer};
use crate::template::program::{CallArg, CompareOp};

/// Implementation of a filter or method, by the form of the value that it takes.
#[derive(Debug)]
pub(in crate::template) enum CallFn {
    /// Takes any value.
    Value(fn(&CallArgs<'_>, &Value) -> EvalResult<Value>),
    /// A filter takes a plain value, a method takes a map.
    Json(fn(&CallArgs<'_>, &Json) -> EvalResult<Json>),
    /// A filter takes the printed text of any value, a method takes a text.
    Text(fn(&CallArgs<'_>, &str) -> EvalResult<Json>),
}

/// Implementation of a test.
#[derive(Debug)]
pub(in crate::template) enum TestFn {
    /// Tests whether the value is defined.
    Defined(bool),
    /// Tests a plain value. Undefined fails.
    Json(fn(&Json) -> bool),
    /// Compares the value with the argument.
    Compare(CompareOp),
    /// Compares two texts. Anything else fails.
    Texts(fn(&str, &str) -> bool),
}

/// Implementation of a function, by its arguments and inputs.
#[derive(Debug)]
pub(in crate::template) enum FunctionFn {
    /// Reads an input of the environment.
    Input(InputFn),
    /// Reads an input that is only available when an execution starts.
    StartInput(InputFn),
    /// Takes positional arguments.
    Positional(fn(&RenderContext<'_>, &[Json]) -> EvalResult<Json>),
    /// Takes the entries of a map, as arguments of any name.
    Entries(fn(JsonMap) -> Value),
}

type InputFn = fn(&dyn TemplateEnvironment) -> Option<Result<Json, JsonValueError>>;

/// Arguments of a filter or method, by position in its signature.
pub(in crate::template) struct CallArgs<'a> {
    pub(super) context: &'a RenderContext<'a>,
    pub(super) values: &'a [Option<Value>],
    /// Name of the method. Methods accept only texts where filters print other values.
    method: Option<&'static str>,
}

impl CallArgs<'_> {
    /// Returns an argument if it is given and not null.
    pub(super) fn value_at(&self, index: usize) -> EvalResult<Option<Json>> {
        let arg = self.values.get(index).cloned().flatten();
        let value = arg.map(|value| self.context.convert_to_json(value)).transpose()?;
        Ok(value.filter(|value| !value.is_null()))
    }

    pub(super) fn is_true_at(&self, index: usize) -> EvalResult<bool> {
        Ok(self.value_at(index)?.is_some_and(|value| is_true(&value)))
    }

    pub(super) fn text_at(&self, index: usize) -> EvalResult<Option<Arc<str>>> {
        match self.value_at(index)? {
            None => Ok(None),
            Some(Json::Str(text)) => Ok(Some(text)),
            Some(other) if self.method.is_some() => {
                Err(EvalError::failed(format!("expected a text, found a {}", other.type_name())))
            }
            Some(other) => Ok(Some(self.context.print_value(&other)?.into())),
        }
    }

    /// A required text. A filter takes null as the empty text.
    pub(super) fn required_text_at(&self, index: usize) -> EvalResult<Arc<str>> {
        match self.text_at(index)? {
            None if self.method.is_some() => Err(EvalError::failed("expected a text, found null")),
            text => Ok(text.unwrap_or_default()),
        }
    }

    /// An argument that is a count. A negative count is treated as absent.
    pub(super) fn count_at(&self, index: usize) -> EvalResult<Option<usize>> {
        let Some(value) = self.value_at(index)? else {
            return Ok(None);
        };
        let count = as_integer(&value).ok_or_else(|| {
            EvalError::failed(format!("expected an integer, found a {}", value.type_name()))
        })?;
        Ok(usize::try_from(count).ok())
    }

    /// The number, or else the first argument, or else 0.
    fn number_or_default(&self, number: Option<Json>) -> EvalResult<Json> {
        match number {
            Some(number) => Ok(number),
            None => Ok(self.value_at(0)?.unwrap_or(Json::Int(0))),
        }
    }

    /// Charges the scan of a text value.
    fn charge_scan(&self, value: &Json) -> EvalResult<()> {
        self.context.meter.charge_scan(value.as_str().map_or(0, str::len))
    }

    fn no_method_error(&self, value: &Json) -> EvalError {
        let name = self.method.unwrap_or_default();
        EvalError::failed(format!("a {} has no method {name}", value.type_name()))
    }
}

impl RenderContext<'_> {
    /// Applies a filter to a value.
    pub(super) fn apply_filter(
        &self,
        filter: &Filter,
        value: Value,
        params: &[Option<Value>],
    ) -> EvalResult<Value> {
        self.meter.charge_fuel(1)?;
        let args = CallArgs { context: self, values: params, method: None };
        match filter.apply {
            CallFn::Value(apply) => apply(&args, &value),
            CallFn::Json(apply) => apply(&args, &self.convert_to_json(value)?).map(Value::Json),
            CallFn::Text(apply) => {
                let value = self.convert_to_json(value)?;
                apply(&args, &self.print_value(&value)?).map(Value::Json)
            }
        }
    }

    /// Calls a method. On undefined and null it yields undefined, as a lookup does.
    pub(super) fn call_method(
        &self,
        method: &Method,
        value: Value,
        params: &[Option<Value>],
    ) -> EvalResult<Value> {
        self.meter.charge_fuel(1)?;
        let args = CallArgs { context: self, values: params, method: Some(method.name()) };
        if let CallFn::Value(apply) = method.apply {
            return apply(&args, &value);
        }
        let value = self.convert_to_json(value)?;
        match (&method.apply, &value) {
            (_, Json::Null) => Ok(Value::Undefined),
            (CallFn::Json(apply), Json::Map(_)) => apply(&args, &value).map(Value::Json),
            (CallFn::Text(apply), Json::Str(text)) => apply(&args, text).map(Value::Json),
            _ => Err(args.no_method_error(&value)),
        }
    }

    /// Evaluates a test.
    pub(super) fn eval_test(
        &self,
        test: &Test,
        value: &Value,
        params: &[Option<Value>],
    ) -> EvalResult<bool> {
        let is_undefined = matches!(value, Value::Undefined);
        let other = params.first().and_then(Option::as_ref).unwrap_or(&Value::Undefined);
        match test.apply {
            TestFn::Defined(defined) => Ok(defined != is_undefined),
            TestFn::Compare(op) => self.compare(op, value, other),
            TestFn::Json(_) if is_undefined => Ok(false),
            TestFn::Json(holds) => Ok(holds(&self.convert_to_json(value.clone())?)),
            TestFn::Texts(holds) => {
                let text = self.convert_to_json(value.clone())?;
                let part = self.convert_to_json(other.clone())?;
                let (Json::Str(text), Json::Str(part)) = (&text, &part) else {
                    return Ok(false);
                };
                self.meter.charge_scan(part.len())?;
                Ok(holds(text, part))
            }
        }
    }
}

// Filters and methods on any value.

/// `default`: the value, or else the first argument.
pub(super) fn default(args: &CallArgs<'_>, value: &Value) -> EvalResult<Value> {
    let value = args.context.convert_to_json(value.clone())?;
    if !value.is_null() && (!args.is_true_at(1)? || is_true(&value)) {
        return Ok(value.into());
    }
    let default = args.values.first().cloned().flatten();
    Ok(default.unwrap_or_else(|| Value::Json(Json::from(""))))
}

/// `get`: the member under a key or index, or else the second argument.
pub(super) fn get(args: &CallArgs<'_>, value: &Value) -> EvalResult<Value> {
    let key = args.value_at(0)?.unwrap_or_default();
    if let Value::Json(value) = value
        && args.method.is_some()
        && !matches!(value, Json::Null | Json::Map(_))
    {
        return Err(args.no_method_error(value));
    }
    match (args.context.get_index(value, &key)?, args.values.get(1)) {
        (Value::Undefined, Some(Some(default))) => Ok(default.clone()),
        (found, _) => Ok(found),
    }
}

/// `isoformat`: times are texts already.
pub(super) fn isoformat(args: &CallArgs<'_>, value: &Value) -> EvalResult<Value> {
    match args.context.convert_to_json(value.clone())? {
        Json::Null => Ok(Value::Undefined),
        text @ Json::Str(_) => Ok(text.into()),
        other => Err(args.no_method_error(&other)),
    }
}

/// `string`
pub(super) fn string(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    match value {
        Json::Str(_) => Ok(value.clone()),
        _ => Ok(Json::Str(args.context.print_value(value)?.into())),
    }
}

/// `bool`
pub(super) fn bool(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    args.charge_scan(value)?;
    Ok(Json::Bool(is_truthy(value)))
}

/// `int`
pub(super) fn int(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let base = args.count_at(1)?.unwrap_or(10);
    args.charge_scan(value)?;
    args.number_or_default(match value {
        Json::Str(text) if base == 10 => {
            number::parse_number(text).and_then(|value| number::truncate_number(&value))
        }
        Json::Str(text) => number::parse_in_base(text, base),
        Json::Bool(value) => Some(Json::Int((*value).into())),
        _ => number::truncate_number(value),
    })
}

/// `float`
pub(super) fn float(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    args.charge_scan(value)?;
    args.number_or_default(match value {
        Json::Str(text) => number::parse_number(text),
        Json::Bool(value) => Some(Json::Int((*value).into())),
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => Some(value.clone()),
        _ => None,
    })
}

/// `abs`
pub(super) fn abs(_: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    number::absolute_value(value).map_err(|error| number_filter_error("abs", value, error))
}

/// `round`
pub(super) fn round(args: &CallArgs<'_>, value: &Json) -> EvalResult<Json> {
    let digits = match args.value_at(0)? {
        Some(digits) => digits
            .as_i64()
            .ok_or_else(|| EvalError::failed("the precision of round must be an integer"))?,
        None => 0,
    };
    let digits = i32::try_from(digits.clamp(-400, 400)).unwrap_or_default();
    let rounding = match args.text_at(1)?.as_deref() {
        None | Some("common") => RoundingMode::Common,
        Some("ceil") => RoundingMode::Up,
        Some("floor") => RoundingMode::Down,
        Some(_) => {
            return Err(EvalError::failed("the method of round must be common, ceil or floor"));
        }
    };
    number::round_number(value, digits, rounding)
        .map_err(|error| number_filter_error("round", value, error))
}

fn number_filter_error(name: &str, value: &Json, error: MathError) -> EvalError {
    EvalError::failed(format!("{name} of a {}: {error}", value.type_name()))
}

// Functions.

/// `range(stop)`, `range(start, stop)` or `range(start, stop, step)`.
pub(super) fn range(context: &RenderContext<'_>, args: &[Json]) -> EvalResult<Json> {
    let number = |value: &Json| {
        as_integer(value).ok_or_else(|| {
            EvalError::failed(format!("range takes integers, not a {}", value.type_name()))
        })
    };
    let (start, stop, step) = match args {
        [stop] => (0, number(stop)?, 1),
        [start, stop] => (number(start)?, number(stop)?, 1),
        [start, stop, step] => (number(start)?, number(stop)?, number(step)?),
        _ => return Err(EvalError::failed("range takes one to three integers")),
    };
    if step == 0 {
        return Err(EvalError::failed("range cannot have a step of 0"));
    }
    let distance = if step > 0 { stop - start } else { start - stop };
    let count = (distance.max(0) + step.abs() - 1) / step.abs();
    let limit = context.meter.limits.range;
    let count = u64::try_from(count).ok().filter(|count| *count <= limit);
    let count = count.ok_or_else(|| EvalError::limit_exceeded(RenderLimit::Range, limit))?;
    context.meter.charge_list(usize::try_from(count).unwrap_or(usize::MAX))?;
    let numbers = (0..count).map(|index| Json::from_i128(start + i128::from(index) * step));
    Ok(Json::from(numbers.collect::<Result<Vec<_>, _>>()?))
}

impl Evaluator<'_> {
    pub(super) fn call_function(
        &mut self,
        function: &Function,
        args: &[CallArg],
    ) -> EvalResult<Value> {
        match function.apply {
            FunctionFn::Input(read) | FunctionFn::StartInput(read) => {
                let input = read(self.context.environment).ok_or_else(|| {
                    EvalError::failed(format!("{}() is not available here", function.name()))
                })?;
                Ok(Value::Json(input?))
            }
            FunctionFn::Positional(call) => {
                let args = args.iter().map(|arg| self.eval_json(arg.value()));
                let args = args.collect::<EvalResult<Vec<_>>>()?;
                call(self.context, &args).map(Value::Json)
            }
            FunctionFn::Entries(build) => self.collect_dict_args(args).map(build),
        }
    }

    /// The entries of a map or of a list of pairs, followed by the named arguments.
    fn collect_dict_args(&mut self, args: &[CallArg]) -> EvalResult<JsonMap> {
        let mut map = JsonMap::new();
        for arg in args {
            let value = self.eval_json(arg.value())?;
            let span = arg.value().span;
            match arg {
                CallArg::Named(name, _) => self.insert_entry(&mut map, name, value)?,
                CallArg::Positional(_) | CallArg::SpreadNamed(_) => {
                    self.insert_entries(&mut map, &value).at(span)?;
                }
                CallArg::Spread(_) => {
                    for item in self.context.to_items(&value)?.iter() {
                        self.insert_entries(&mut map, item).at(span)?;
                    }
                }
            }
        }
        Ok(map)
    }

    fn insert_entries(&self, map: &mut JsonMap, value: &Json) -> EvalResult<()> {
        match value {
            Json::Null => Ok(()),
            Json::Map(entries) => entries
                .iter()
                .try_for_each(|(key, value)| self.insert_entry(map, key, value.clone())),
            Json::List(pairs) => pairs.iter().try_for_each(|pair| match pair.as_list() {
                Some([key, value]) => self.insert_entry(map, &self.map_key(key)?, value.clone()),
                _ => Err(EvalError::failed("dict takes a map or a list of pairs")),
            }),
            _ => {
                let message = format!("dict cannot be made from a {}", value.type_name());
                Err(EvalError::failed(message))
            }
        }
    }

    fn insert_entry(&self, map: &mut JsonMap, key: &Arc<str>, value: Json) -> EvalResult<()> {
        self.context.meter.charge_map(1)?;
        self.context.meter.check_nesting(&value, 2)?;
        map.insert(Arc::clone(key), value);
        Ok(())
    }
}
