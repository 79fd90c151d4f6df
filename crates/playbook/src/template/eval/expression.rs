//! Operators, lookups, slices and literals.

use std::cmp::Ordering;
use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use super::Evaluator;
use super::context::{RenderContext, Value};
use crate::template::error::{ErrorLocation, EvalError, EvalResult};
use crate::template::number::{self, MathError, as_integer, operand_type_error};
use crate::template::order;
use crate::template::program::{
    ChainLink, CompareOp, Expr, ExprKind, LinkKind, MathOp, NameExpr, Params,
};

impl Evaluator<'_> {
    /// Evaluates an expression.
    pub(super) fn eval_expr(&mut self, expr: &Expr) -> EvalResult<Value> {
        let charge = self.context.meter.charge_fuel(1);
        charge.and_then(|()| self.eval_kind(&expr.kind)).at(expr.span)
    }

    /// Evaluates an expression to a plain value. Undefined becomes null.
    pub(super) fn eval_json(&mut self, expr: &Expr) -> EvalResult<Json> {
        let value = self.eval_expr(expr)?;
        self.context.convert_to_json(value).at(expr.span)
    }

    fn eval_kind(&mut self, kind: &ExprKind) -> EvalResult<Value> {
        match kind {
            ExprKind::Const(value) => Ok(Value::Json(value.clone())),
            ExprKind::Name(name) => self.eval_name(name),
            ExprKind::Chain(base, links) => self.eval_chain(base, links),
            ExprKind::Not(inner) => Ok(Value::from(!self.eval_true(inner)?)),
            ExprKind::Negate(inner) => {
                let value = self.eval_json(inner)?;
                number::negate_number(&value).map(Value::Json).map_err(|error| match error {
                    MathError::NotANumber => {
                        EvalError::failed(format!("cannot negate a {}", value.type_name()))
                    }
                    _ => EvalError::failed(error.to_string()),
                })
            }
            ExprKind::Math(first, rest) => self.eval_math(first, rest).map(Value::Json),
            ExprKind::Compare(first, rest) => self.eval_comparison(first, rest).map(Value::from),
            ExprKind::And(operands) => self.eval_and_or(operands, false),
            ExprKind::Or(operands) => self.eval_and_or(operands, true),
            ExprKind::Conditional(choice) => {
                if self.eval_true(&choice.test)? {
                    self.eval_expr(&choice.yes)
                } else {
                    choice.no.as_ref().map_or(Ok(Value::Undefined), |no| self.eval_expr(no))
                }
            }
            ExprKind::List(items) => self.eval_list(items).map(Value::Json),
            ExprKind::Map(entries) => self.eval_map(entries).map(Value::Json),
            ExprKind::Call(function, args) => self.call_function(function, args),
        }
    }

    pub(super) fn eval_true(&mut self, expr: &Expr) -> EvalResult<bool> {
        let value = self.eval_expr(expr)?;
        self.context.is_true_value(&value).at(expr.span)
    }

    fn eval_name(&self, name: &NameExpr) -> EvalResult<Value> {
        let local = name.slots.iter().find_map(|slot| self.slots.get(*slot)?.clone());
        local.map_or_else(|| self.context.lookup_root(&name.text), Ok)
    }

    /// Returns the operand that decides `and` or `or`.
    fn eval_and_or(&mut self, operands: &[Expr], deciding_value: bool) -> EvalResult<Value> {
        let mut value = Value::Undefined;
        for operand in operands {
            value = self.eval_expr(operand)?;
            if self.context.is_true_value(&value).at(operand.span)? == deciding_value {
                break;
            }
        }
        Ok(value)
    }

    fn eval_list(&mut self, items: &[Expr]) -> EvalResult<Json> {
        self.context.meter.charge_list(items.len())?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval_json(item)?;
            self.context.meter.check_nesting(&value, 2)?;
            values.push(value);
        }
        Ok(Json::from(values))
    }

    fn eval_map(&mut self, entries: &[(Expr, Expr)]) -> EvalResult<Json> {
        self.context.meter.charge_map(entries.len())?;
        let mut map = JsonMap::new();
        for (key, value) in entries {
            let key = self.eval_json(key)?;
            let value = self.eval_json(value)?;
            self.context.meter.check_nesting(&value, 2)?;
            map.insert(self.map_key(&key)?, value);
        }
        Ok(Json::from(map))
    }

    /// Converts a value to the text of a map key.
    pub(super) fn map_key(&self, key: &Json) -> EvalResult<Arc<str>> {
        match key {
            Json::Str(key) => Ok(Arc::clone(key)),
            Json::List(_) | Json::Map(_) => {
                Err(EvalError::failed(format!("a {} cannot be a key", key.type_name())))
            }
            _ => self.context.print_value(key).map(Arc::from),
        }
    }

    fn eval_math(&mut self, first: &Expr, rest: &[(MathOp, Expr)]) -> EvalResult<Json> {
        if let Some((MathOp::Concat, _)) = rest.first() {
            return self.eval_concat(first, rest);
        }
        let mut left = self.eval_json(first)?;
        for (op, operand) in rest {
            self.context.meter.charge_fuel(1)?;
            let right = self.eval_json(operand)?;
            left = self.apply_binary(*op, &left, &right).at(operand.span)?;
        }
        Ok(left)
    }

    /// Concatenates `a ~ b ~ c` into one text, without intermediate texts.
    fn eval_concat(&mut self, first: &Expr, rest: &[(MathOp, Expr)]) -> EvalResult<Json> {
        let mut parts = vec![self.eval_json(first)?];
        for (_, operand) in rest {
            parts.push(self.eval_json(operand)?);
        }
        self.context.join_printed(&parts, "")
    }

    fn apply_binary(&self, op: MathOp, left: &Json, right: &Json) -> EvalResult<Json> {
        match (op, left, right) {
            (MathOp::Add, Json::Str(left), Json::Str(right)) => {
                self.context.meter.charge_text(left.len().saturating_add(right.len()))?;
                Ok(Json::Str([&**left, &**right].concat().into()))
            }
            (MathOp::Add, Json::List(left), Json::List(right)) => {
                self.context.meter.charge_list(left.len() + right.len())?;
                Ok(Json::from([left.as_slice(), right.as_slice()].concat()))
            }
            (MathOp::Mul, Json::Str(_) | Json::List(_), count) => self.repeat_value(left, count),
            (MathOp::Mul, count, Json::Str(_) | Json::List(_)) => self.repeat_value(right, count),
            _ => number::apply_operator(op, left, right),
        }
    }

    fn repeat_value(&self, value: &Json, count: &Json) -> EvalResult<Json> {
        let Some(count) = as_integer(count) else {
            return Err(operand_type_error(MathOp::Mul, value, count));
        };
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        match value {
            Json::Str(text) => {
                self.context.meter.charge_text(text.len().saturating_mul(count))?;
                Ok(Json::Str(text.repeat(count).into()))
            }
            Json::List(items) => {
                let total = items.len().saturating_mul(count);
                self.context.meter.charge_list(total)?;
                let mut repeated = Vec::with_capacity(total);
                while repeated.len() < total {
                    repeated.extend_from_slice(items);
                }
                Ok(Json::from(repeated))
            }
            _ => Ok(value.clone()),
        }
    }

    fn eval_comparison(&mut self, first: &Expr, rest: &[(CompareOp, Expr)]) -> EvalResult<bool> {
        let mut left = self.eval_expr(first)?;
        for (op, operand) in rest {
            let right = self.eval_expr(operand)?;
            if !self.context.compare(*op, &left, &right).at(operand.span)? {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn eval_chain(&mut self, base: &Expr, links: &[ChainLink]) -> EvalResult<Value> {
        let mut value = self.eval_expr(base)?;
        for link in links {
            self.context.meter.charge_fuel(1)?;
            value = self.apply_link(value, &link.kind).at(link.span)?;
        }
        Ok(value)
    }

    pub(super) fn apply_link(&mut self, value: Value, link: &LinkKind) -> EvalResult<Value> {
        match link {
            LinkKind::Attribute(key) => self.context.get_attribute(&value, key),
            LinkKind::Index(index) => {
                let index = self.eval_json(index)?;
                self.context.get_index(&value, &index)
            }
            LinkKind::Slice(slice) => {
                let mut bound = |expr: &Option<Expr>| {
                    expr.as_ref().map_or(Ok(Json::Null), |expr| self.eval_json(expr))
                };
                let (start, stop) = (bound(&slice.start)?, bound(&slice.stop)?);
                let step = bound(&slice.step)?;
                self.context.slice_value(value, [&start, &stop, &step])
            }
            LinkKind::Method(method, params) => {
                let params = self.eval_params(params)?;
                self.context.call_method(method, value, &params)
            }
            LinkKind::Filter(filter, params) => {
                let params = self.eval_params(params)?;
                self.context.apply_filter(filter, value, &params)
            }
            LinkKind::ItemFilter(item_filter) => self.apply_item_filter(value, item_filter),
            LinkKind::Test { test, params, negated } => {
                let params = self.eval_params(params)?;
                let passes = self.context.eval_test(test, &value, &params)?;
                Ok(Value::from(passes != *negated))
            }
            LinkKind::LoopCycle(items) => self.eval_loop_cycle(&value, items),
            LinkKind::LoopChanged(items) => self.eval_loop_changed(&value, items),
        }
    }

    /// Evaluates arguments. An argument that is not given stays `None`.
    pub(super) fn eval_params(&mut self, params: &Params) -> EvalResult<Vec<Option<Value>>> {
        let mut eval_param = |param: &Option<Expr>| match param {
            Some(param) => self.eval_expr(param).map(Some),
            None => Ok(None),
        };
        params.iter().map(&mut eval_param).collect()
    }

    fn eval_loop_cycle(&mut self, value: &Value, items: &[Expr]) -> EvalResult<Value> {
        let Value::Loop(state) = value else {
            return Ok(Value::Undefined);
        };
        let index = state.index.get().checked_rem(items.len());
        let item = index.and_then(|index| items.get(index));
        item.map_or(Ok(Value::Undefined), |item| self.eval_expr(item))
    }

    fn eval_loop_changed(&mut self, value: &Value, items: &[Expr]) -> EvalResult<Value> {
        let current = self.eval_list(items)?;
        let Value::Loop(state) = value else {
            return Ok(Value::Undefined);
        };
        let previous = state.last_changed.replace(Some(current.clone()));
        let is_same = match previous {
            Some(previous) => order::values_equal(&previous, &current, &self.context.meter)?,
            None => false,
        };
        Ok(Value::from(!is_same))
    }
}

impl RenderContext<'_> {
    /// Evaluates a comparison.
    pub(super) fn compare(&self, op: CompareOp, left: &Value, right: &Value) -> EvalResult<bool> {
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
        match (left, right) {
            (Value::Undefined, Value::Undefined) => Ok(Ordering::Equal),
            (Value::Undefined, _) => Ok(Ordering::Less),
            (_, Value::Undefined) => Ok(Ordering::Greater),
            _ => {
                let left = self.convert_to_json(left.clone())?;
                let right = self.convert_to_json(right.clone())?;
                order::compare_values(&left, &right, &self.meter)
            }
        }
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
            return Err(EvalError::failed("a slice cannot have a step of 0"));
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
                self.slice_text(text, &slice).map(|part| Value::Json(Json::Str(part.into())))
            }
            _ => Err(EvalError::failed(format!("a {} cannot be sliced", value.type_name()))),
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
    EvalError::failed("a slice takes integers")
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
