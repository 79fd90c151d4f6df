//! Tests, comparisons and slices.

use std::cmp::Ordering;

use noetl_types::Json;

use super::context::RenderContext;
use super::value::Value;
use crate::template::number::as_integer;
use crate::template::order;
use crate::template::program::CompareOp;
use crate::template::render_error::{EvalError, EvalResult};
use crate::template::vocabulary::Test;

impl RenderContext<'_> {
    /// Evaluates a comparison.
    pub(super) fn eval_comparison_op(
        &self,
        op: CompareOp,
        left: &Value,
        right: &Value,
    ) -> EvalResult<bool> {
        match op {
            CompareOp::In | CompareOp::NotIn => {
                let container = self.convert_to_json(right.clone())?;
                let item = self.convert_to_json(left.clone())?;
                let found = order::contains_value(&container, &item, &self.meter)?;
                Ok(found == (op == CompareOp::In))
            }
            CompareOp::Eq => self.order_values(left, right).map(Ordering::is_eq),
            CompareOp::Ne => self.order_values(left, right).map(Ordering::is_ne),
            CompareOp::Lt => self.order_values(left, right).map(Ordering::is_lt),
            CompareOp::Le => self.order_values(left, right).map(Ordering::is_le),
            CompareOp::Gt => self.order_values(left, right).map(Ordering::is_gt),
            CompareOp::Ge => self.order_values(left, right).map(Ordering::is_ge),
        }
    }

    /// Orders two values. Undefined sorts before everything and equals only itself.
    fn order_values(&self, left: &Value, right: &Value) -> EvalResult<Ordering> {
        let is_undefined = |value: &Value| matches!(value, Value::Undefined);
        match (is_undefined(left), is_undefined(right)) {
            (true, true) => Ok(Ordering::Equal),
            (true, false) => Ok(Ordering::Less),
            (false, true) => Ok(Ordering::Greater),
            (false, false) => {
                let left = self.convert_to_json(left.clone())?;
                let right = self.convert_to_json(right.clone())?;
                order::compare_values(&left, &right, &self.meter)
            }
        }
    }

    /// Evaluates a test.
    pub(super) fn eval_test(
        &self,
        test: Test,
        value: &Value,
        param: Option<&Value>,
    ) -> EvalResult<bool> {
        let other = param.unwrap_or(&Value::Undefined);
        let compare = match test {
            Test::Defined => return Ok(!matches!(value, Value::Undefined)),
            Test::Undefined => return Ok(matches!(value, Value::Undefined)),
            Test::In => CompareOp::In,
            Test::Eq => CompareOp::Eq,
            Test::Ne => CompareOp::Ne,
            Test::Lt => CompareOp::Lt,
            Test::Le => CompareOp::Le,
            Test::Gt => CompareOp::Gt,
            Test::Ge => CompareOp::Ge,
            Test::StartingWith | Test::EndingWith => {
                let (text, part) =
                    (self.convert_to_json(value.clone())?, self.convert_to_json(other.clone())?);
                let (Json::Str(text), Json::Str(part)) = (&text, &part) else {
                    return Ok(false);
                };
                self.meter.charge_scan(part.len())?;
                return Ok(if test == Test::StartingWith {
                    text.starts_with(&**part)
                } else {
                    text.ends_with(&**part)
                });
            }
            Test::None
            | Test::True
            | Test::False
            | Test::Boolean
            | Test::Number
            | Test::Integer
            | Test::Float
            | Test::String
            | Test::Mapping
            | Test::Sequence
            | Test::Iterable
            | Test::Odd
            | Test::Even => {
                if matches!(value, Value::Undefined) {
                    return Ok(false);
                }
                return Ok(matches_type_test(test, &self.convert_to_json(value.clone())?));
            }
        };
        self.eval_comparison_op(compare, value, other)
    }

    /// `value[start:stop:step]`, with the rules of Python.
    pub(super) fn slice_value(
        &self,
        value: Value,
        [start, stop, step]: [&Json; 3],
    ) -> EvalResult<Value> {
        let step = match step {
            Json::Null => 1,
            step => as_integer(step).ok_or_else(slice_bound_error)?,
        };
        if step == 0 {
            return Err(EvalError::operation_failed("a slice cannot have a step of 0"));
        }
        let value = self.convert_to_json(value)?;
        match &value {
            Json::Null => Ok(Value::Undefined),
            Json::List(items) => {
                let slice = SlicePositions::new(items.len(), start, stop, step)?;
                self.meter.charge_list(slice.count)?;
                let mut list = Vec::with_capacity(slice.count);
                list.extend(slice.positions().filter_map(|index| items.get(index).cloned()));
                Ok(Json::from(list).into())
            }
            Json::Str(text) => {
                self.meter.charge_scan(text.len())?;
                let slice = SlicePositions::new(text.chars().count(), start, stop, step)?;
                self.slice_text(text, &slice).map(Value::from_text)
            }
            Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) | Json::Map(_) => Err(
                EvalError::operation_failed(format!("a {} cannot be sliced", value.type_name())),
            ),
        }
    }

    fn slice_text(&self, text: &str, slice: &SlicePositions) -> EvalResult<String> {
        let offset =
            |index: usize| text.char_indices().nth(index).map_or(text.len(), |(offset, _)| offset);
        if slice.step == 1 {
            let start = usize::try_from(slice.start).unwrap_or_default();
            let part = &text[offset(start)..offset(start + slice.count)];
            self.meter.charge_text(part.len())?;
            return Ok(part.to_owned());
        }
        // A `char` takes four bytes, and the result is allocated too.
        self.meter.charge_text(text.len().saturating_mul(8))?;
        let characters: Vec<char> = text.chars().collect();
        let mut part = String::with_capacity(text.len());
        part.extend(slice.positions().filter_map(|index| characters.get(index)));
        Ok(part)
    }
}

fn slice_bound_error() -> EvalError {
    EvalError::operation_failed("a slice takes integers")
}

/// The positions that a slice selects.
struct SlicePositions {
    start: i128,
    step: i128,
    count: usize,
}

impl SlicePositions {
    fn new(len: usize, start: &Json, stop: &Json, step: i128) -> EvalResult<Self> {
        let len = i128::try_from(len).unwrap_or(i128::MAX);
        let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
        let bound = |bound: &Json, default: i128| -> EvalResult<i128> {
            if bound.is_null() {
                return Ok(default);
            }
            let index = as_integer(bound).ok_or_else(slice_bound_error)?;
            Ok((if index < 0 { index + len } else { index }).clamp(lowest, highest))
        };
        let (first, last) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
        let (start, stop) = (bound(start, first)?, bound(stop, last)?);
        let distance = if step > 0 { stop - start } else { start - stop };
        let count = (distance.max(0) + step.abs() - 1) / step.abs();
        Ok(Self { start, step, count: usize::try_from(count).unwrap_or_default() })
    }

    fn positions(&self) -> impl Iterator<Item = usize> {
        let Self { start, step, .. } = *self;
        (0_i128..)
            .take(self.count)
            .filter_map(move |index| usize::try_from(start + index * step).ok())
    }
}

fn matches_type_test(test: Test, value: &Json) -> bool {
    let integral = as_integer(value);
    match test {
        Test::None => value.is_null(),
        Test::True => *value == Json::Bool(true),
        Test::False => *value == Json::Bool(false),
        Test::Boolean => matches!(value, Json::Bool(_)),
        Test::Number => value.as_f64().is_some(),
        Test::Integer => integral.is_some(),
        Test::Float => matches!(value, Json::Float(_)),
        Test::String => matches!(value, Json::Str(_)),
        Test::Mapping => matches!(value, Json::Map(_)),
        Test::Sequence => matches!(value, Json::List(_)),
        Test::Iterable => matches!(value, Json::Str(_) | Json::List(_) | Json::Map(_)),
        Test::Odd => integral.is_some_and(|value| value % 2 != 0),
        Test::Even => integral.is_some_and(|value| value % 2 == 0),
        Test::Defined
        | Test::Undefined
        | Test::In
        | Test::Eq
        | Test::Ne
        | Test::Lt
        | Test::Le
        | Test::Gt
        | Test::Ge
        | Test::StartingWith
        | Test::EndingWith => false,
    }
}
