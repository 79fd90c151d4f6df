//! Operators, lookups and literals.

use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use super::evaluator::Evaluator;
use super::value::Value;
use crate::template::number::{self, MathError};
use crate::template::order;
use crate::template::program::{
    ChainLink, CompareOp, Expr, ExprKind, LinkKind, MathOp, NameExpr, Params,
};
use crate::template::render_error::{EvalError, EvalResult};

impl Evaluator<'_> {
    /// Evaluates an expression.
    pub(super) fn eval_expr(&mut self, expr: &Expr) -> EvalResult<Value> {
        self.context
            .meter
            .charge_fuel(1)
            .and_then(|()| self.eval_kind(&expr.kind))
            .map_err(|error| error.at_offset(expr.span.start()))
    }

    /// Evaluates an expression to a plain value. Undefined becomes null.
    pub(super) fn eval_json(&mut self, expr: &Expr) -> EvalResult<Json> {
        let value = self.eval_expr(expr)?;
        self.context.convert_to_json(value).map_err(|error| error.at_offset(expr.span.start()))
    }

    fn eval_kind(&mut self, kind: &ExprKind) -> EvalResult<Value> {
        match kind {
            ExprKind::Const(value) => Ok(Value::Json(value.clone())),
            ExprKind::Name(name) => self.eval_name(name),
            ExprKind::Chain(base, links) => self.eval_chain(base, links),
            ExprKind::Not(inner) => Ok(Value::from_bool(!self.eval_true(inner)?)),
            ExprKind::Negate(inner) => {
                let value = self.eval_json(inner)?;
                number::negate_number(&value).map(Value::Json).map_err(|error| match error {
                    MathError::NotANumber => EvalError::operation_failed(format!(
                        "cannot negate a {}",
                        value.type_name()
                    )),
                    MathError::DivisionByZero | MathError::InvalidResult(_) => {
                        EvalError::operation_failed(error.to_string())
                    }
                })
            }
            ExprKind::Math(first, rest) => self.eval_math(first, rest).map(Value::Json),
            ExprKind::Compare(first, rest) => {
                self.eval_comparison(first, rest).map(Value::from_bool)
            }
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
            ExprKind::Call(function, args) => self.call_function(*function, args),
        }
    }

    pub(super) fn eval_true(&mut self, expr: &Expr) -> EvalResult<bool> {
        let value = self.eval_expr(expr)?;
        self.context.is_true_value(&value).map_err(|error| error.at_offset(expr.span.start()))
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
            if self
                .context
                .is_true_value(&value)
                .map_err(|error| error.at_offset(operand.span.start()))?
                == deciding_value
            {
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
                Err(EvalError::operation_failed(format!("a {} cannot be a key", key.type_name())))
            }
            Json::Null | Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => {
                self.context.print_value(key).map(Arc::from)
            }
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
            left = self
                .apply_binary(*op, &left, &right)
                .map_err(|error| error.at_offset(operand.span.start()))?;
        }
        Ok(left)
    }

    /// Concatenates `a ~ b ~ c` into one text, without intermediate texts.
    fn eval_concat(&mut self, first: &Expr, rest: &[(MathOp, Expr)]) -> EvalResult<Json> {
        let mut parts = vec![self.eval_json(first)?];
        for (_, operand) in rest {
            parts.push(self.eval_json(operand)?);
        }
        self.context.join_printed(&parts, "").map(|text| Json::Str(text.into()))
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
            _ => number::apply_operator(op, left, right).map_err(|error| match error {
                MathError::NotANumber => operand_type_error(op, left, right),
                MathError::DivisionByZero | MathError::InvalidResult(_) => {
                    EvalError::operation_failed(error.to_string())
                }
            }),
        }
    }

    fn repeat_value(&self, value: &Json, count: &Json) -> EvalResult<Json> {
        let Some(count) = number::as_integer(count) else {
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
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::Map(_) => Ok(value.clone()),
        }
    }

    fn eval_comparison(&mut self, first: &Expr, rest: &[(CompareOp, Expr)]) -> EvalResult<bool> {
        let mut left = self.eval_expr(first)?;
        for (op, operand) in rest {
            let right = self.eval_expr(operand)?;
            let holds = self
                .context
                .eval_comparison_op(*op, &left, &right)
                .map_err(|error| error.at_offset(operand.span.start()))?;
            if !holds {
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
            value = self
                .apply_link(value, &link.kind)
                .map_err(|error| error.at_offset(link.span.start()))?;
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
                self.context.call_method(*method, value, params)
            }
            LinkKind::Filter(filter, params) => {
                let params = self.eval_params(params)?;
                self.context.apply_filter(*filter, value, &params)
            }
            LinkKind::ItemFilter(item_filter) => self.apply_item_filter(value, item_filter),
            LinkKind::Test { test, params, negated } => {
                let params = self.eval_params(params)?;
                let passes = self.context.eval_test(
                    *test,
                    &value,
                    params.first().and_then(Option::as_ref),
                )?;
                Ok(Value::from_bool(passes != *negated))
            }
            LinkKind::LoopCycle(items) => self.eval_loop_cycle(&value, items),
            LinkKind::LoopChanged(items) => self.eval_loop_changed(&value, items),
        }
    }

    /// Evaluates arguments. An argument that is not given stays `None`.
    pub(super) fn eval_params(&mut self, params: &Params) -> EvalResult<Vec<Option<Value>>> {
        params
            .iter()
            .map(|param| param.as_ref().map(|param| self.eval_expr(param)).transpose())
            .collect()
    }

    fn eval_loop_cycle(&mut self, value: &Value, items: &[Expr]) -> EvalResult<Value> {
        let Value::Loop(state) = value else {
            return Ok(Value::Undefined);
        };
        let index = state.index.get().checked_rem(items.len());
        index
            .and_then(|index| items.get(index))
            .map_or(Ok(Value::Undefined), |item| self.eval_expr(item))
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
        Ok(Value::from_bool(!is_same))
    }
}

fn operand_type_error(op: MathOp, left: &Json, right: &Json) -> EvalError {
    let (left, right) = (left.type_name(), right.type_name());
    EvalError::operation_failed(match op {
        MathOp::Add => format!("cannot add {right} to {left}"),
        MathOp::Sub => format!("cannot subtract {right} from {left}"),
        MathOp::Mul => format!("cannot multiply {left} by {right}"),
        MathOp::Div | MathOp::FloorDiv | MathOp::Rem => format!("cannot divide {left} by {right}"),
        MathOp::Pow => format!("cannot raise {left} to {right}"),
        MathOp::Concat => format!("cannot join {left} and {right}"),
    })
}
