//! Tests, comparisons and slices.

use std::cmp::Ordering;

use noetl_types::Json;

use super::run::Run;
use super::value::Value;
use crate::template::error::{Outcome, Stop};
use crate::template::number::integer;
use crate::template::order;
use crate::template::program::CompareOp;
use crate::template::vocabulary::Test;

impl Run<'_> {
    /// Whether a comparison holds.
    pub(super) fn holds(&self, op: CompareOp, left: &Value, right: &Value) -> Outcome<bool> {
        match op {
            CompareOp::In | CompareOp::NotIn => {
                let container = self.settle(right.clone())?;
                let item = self.settle(left.clone())?;
                let found = order::contains(&container, &item, &self.meter)?;
                Ok(found == (op == CompareOp::In))
            }
            CompareOp::Eq => self.order(left, right).map(Ordering::is_eq),
            CompareOp::Ne => self.order(left, right).map(Ordering::is_ne),
            CompareOp::Lt => self.order(left, right).map(Ordering::is_lt),
            CompareOp::Le => self.order(left, right).map(Ordering::is_le),
            CompareOp::Gt => self.order(left, right).map(Ordering::is_gt),
            CompareOp::Ge => self.order(left, right).map(Ordering::is_ge),
        }
    }

    /// Undefined comes before everything and equals only itself.
    fn order(&self, left: &Value, right: &Value) -> Outcome<Ordering> {
        let undefined = |value: &Value| matches!(value, Value::Undefined);
        match (undefined(left), undefined(right)) {
            (true, true) => Ok(Ordering::Equal),
            (true, false) => Ok(Ordering::Less),
            (false, true) => Ok(Ordering::Greater),
            (false, false) => {
                let left = self.settle(left.clone())?;
                let right = self.settle(right.clone())?;
                order::compare(&left, &right, &self.meter)
            }
        }
    }

    /// Whether a value passes a test.
    pub(super) fn test(&self, test: Test, value: &Value, param: Option<&Value>) -> Outcome<bool> {
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
                let (text, part) = (self.settle(value.clone())?, self.settle(other.clone())?);
                let (Json::Str(text), Json::Str(part)) = (&text, &part) else {
                    return Ok(false);
                };
                self.meter.scan(part.len())?;
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
                return Ok(has_type(test, &self.settle(value.clone())?));
            }
        };
        self.holds(compare, value, other)
    }

    /// `value[start:stop:step]`, with the rules of Python.
    pub(super) fn slice(&self, value: Value, [start, stop, step]: [&Json; 3]) -> Outcome<Value> {
        let step = match step {
            Json::Null => 1,
            step => integer(step).ok_or_else(not_a_position)?,
        };
        if step == 0 {
            return Err(Stop::failed("a slice cannot have a step of 0"));
        }
        let value = self.settle(value)?;
        match &value {
            Json::Null => Ok(Value::Undefined),
            Json::List(items) => {
                let picked = Picked::new(items.len(), start, stop, step)?;
                self.meter.list(picked.count)?;
                let mut list = Vec::with_capacity(picked.count);
                list.extend(picked.positions().filter_map(|at| items.get(at).cloned()));
                Ok(Json::from(list).into())
            }
            Json::Str(text) => {
                self.meter.scan(text.len())?;
                let picked = Picked::new(text.chars().count(), start, stop, step)?;
                self.slice_text(text, &picked).map(Value::text)
            }
            Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) | Json::Map(_) => Err(
                Stop::failed(format!("a {} cannot be sliced", value.type_name())),
            ),
        }
    }

    fn slice_text(&self, text: &str, picked: &Picked) -> Outcome<String> {
        let offset = |at: usize| {
            text.char_indices()
                .nth(at)
                .map_or(text.len(), |(offset, _)| offset)
        };
        if picked.step == 1 {
            let start = usize::try_from(picked.start).unwrap_or_default();
            let part = &text[offset(start)..offset(start + picked.count)];
            self.meter.text(part.len())?;
            return Ok(part.to_owned());
        }
        // A character takes four bytes while the positions are looked up.
        self.meter.text(text.len().saturating_mul(8))?;
        let characters: Vec<char> = text.chars().collect();
        let mut part = String::with_capacity(text.len());
        part.extend(picked.positions().filter_map(|at| characters.get(at)));
        Ok(part)
    }
}

fn not_a_position() -> Stop {
    Stop::failed("a slice takes integers")
}

/// The positions that a slice picks.
struct Picked {
    start: i128,
    step: i128,
    count: usize,
}

impl Picked {
    fn new(len: usize, start: &Json, stop: &Json, step: i128) -> Outcome<Self> {
        let len = i128::try_from(len).unwrap_or(i128::MAX);
        let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
        let bound = |bound: &Json, missing: i128| -> Outcome<i128> {
            if bound.is_null() {
                return Ok(missing);
            }
            let at = integer(bound).ok_or_else(not_a_position)?;
            Ok((if at < 0 { at + len } else { at }).clamp(lowest, highest))
        };
        let (first, last) = if step > 0 {
            (lowest, highest)
        } else {
            (highest, lowest)
        };
        let (start, stop) = (bound(start, first)?, bound(stop, last)?);
        let distance = if step > 0 { stop - start } else { start - stop };
        let count = (distance.max(0) + step.abs() - 1) / step.abs();
        Ok(Self {
            start,
            step,
            count: usize::try_from(count).unwrap_or_default(),
        })
    }

    fn positions(&self) -> impl Iterator<Item = usize> {
        let Self { start, step, .. } = *self;
        (0_i128..)
            .take(self.count)
            .filter_map(move |at| usize::try_from(start + at * step).ok())
    }
}

fn has_type(test: Test, value: &Json) -> bool {
    let whole = integer(value);
    match test {
        Test::None => value.is_null(),
        Test::True => *value == Json::Bool(true),
        Test::False => *value == Json::Bool(false),
        Test::Boolean => matches!(value, Json::Bool(_)),
        Test::Number => value.as_f64().is_some(),
        Test::Integer => whole.is_some(),
        Test::Float => matches!(value, Json::Float(_)),
        Test::String => matches!(value, Json::Str(_)),
        Test::Mapping => matches!(value, Json::Map(_)),
        Test::Sequence => matches!(value, Json::List(_)),
        Test::Iterable => matches!(value, Json::Str(_) | Json::List(_) | Json::Map(_)),
        Test::Odd => whole.is_some_and(|value| value % 2 != 0),
        Test::Even => whole.is_some_and(|value| value % 2 == 0),
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
