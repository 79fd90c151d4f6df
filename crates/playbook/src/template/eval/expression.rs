//! Operators, lookups and literals.

use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use super::machine::Machine;
use super::value::Value;
use crate::template::error::{Outcome, Stop};
use crate::template::number::{self, MathError};
use crate::template::order;
use crate::template::program::{CompareOp, Expr, ExprKind, Link, LinkKind, MathOp, Name, Params};

impl Machine<'_> {
    /// The value of an expression.
    pub(super) fn eval(&mut self, expr: &Expr) -> Outcome<Value> {
        self.run
            .meter
            .work(1)
            .and_then(|()| self.eval_kind(&expr.kind))
            .map_err(|stop| stop.at(expr.span.start()))
    }

    /// The plain value of an expression; undefined is null.
    pub(super) fn eval_json(&mut self, expr: &Expr) -> Outcome<Json> {
        let value = self.eval(expr)?;
        self.run
            .settle(value)
            .map_err(|stop| stop.at(expr.span.start()))
    }

    fn eval_kind(&mut self, kind: &ExprKind) -> Outcome<Value> {
        match kind {
            ExprKind::Const(value) => Ok(Value::Json(value.clone())),
            ExprKind::Name(name) => self.name(name),
            ExprKind::Chain(base, links) => self.chain(base, links),
            ExprKind::Not(inner) => Ok(Value::bool(!self.eval_true(inner)?)),
            ExprKind::Negative(inner) => {
                let value = self.eval_json(inner)?;
                number::negative(&value)
                    .map(Value::Json)
                    .map_err(|error| match error {
                        MathError::NotANumber => {
                            Stop::failed(format!("cannot negate a {}", value.type_name()))
                        }
                        MathError::DivisionByZero | MathError::Refused(_) => {
                            Stop::failed(error.to_string())
                        }
                    })
            }
            ExprKind::Math(first, rest) => self.math(first, rest).map(Value::Json),
            ExprKind::Compare(first, rest) => self.compare(first, rest).map(Value::bool),
            ExprKind::And(operands) => self.first_that(operands, false),
            ExprKind::Or(operands) => self.first_that(operands, true),
            ExprKind::Choose(choice) => {
                if self.eval_true(&choice.test)? {
                    self.eval(&choice.yes)
                } else {
                    choice
                        .no
                        .as_ref()
                        .map_or(Ok(Value::Undefined), |no| self.eval(no))
                }
            }
            ExprKind::List(items) => self.list(items).map(Value::Json),
            ExprKind::Map(entries) => self.map(entries).map(Value::Json),
            ExprKind::Call(function, args) => self.call(*function, args),
        }
    }

    pub(super) fn eval_true(&mut self, expr: &Expr) -> Outcome<bool> {
        let value = self.eval(expr)?;
        self.run
            .is_true(&value)
            .map_err(|stop| stop.at(expr.span.start()))
    }

    fn name(&self, name: &Name) -> Outcome<Value> {
        let local = name
            .slots
            .iter()
            .find_map(|slot| self.slots.get(*slot)?.clone());
        local.map_or_else(|| self.run.root(&name.text), Ok)
    }

    /// `and` and `or` yield the operand that decides.
    fn first_that(&mut self, operands: &[Expr], wanted: bool) -> Outcome<Value> {
        let mut value = Value::Undefined;
        for operand in operands {
            value = self.eval(operand)?;
            if self
                .run
                .is_true(&value)
                .map_err(|stop| stop.at(operand.span.start()))?
                == wanted
            {
                break;
            }
        }
        Ok(value)
    }

    fn list(&mut self, items: &[Expr]) -> Outcome<Json> {
        self.run.meter.list(items.len())?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval_json(item)?;
            self.run.meter.nest(&value, 2)?;
            values.push(value);
        }
        Ok(Json::from(values))
    }

    fn map(&mut self, entries: &[(Expr, Expr)]) -> Outcome<Json> {
        self.run.meter.map(entries.len())?;
        let mut map = JsonMap::new();
        for (key, value) in entries {
            let key = self.eval_json(key)?;
            let value = self.eval_json(value)?;
            self.run.meter.nest(&value, 2)?;
            map.insert(self.key(&key)?, value);
        }
        Ok(Json::from(map))
    }

    /// The key of a map is the text of a value.
    pub(super) fn key(&self, key: &Json) -> Outcome<Arc<str>> {
        match key {
            Json::Str(key) => Ok(Arc::clone(key)),
            Json::List(_) | Json::Map(_) => Err(Stop::failed(format!(
                "a {} cannot be a key",
                key.type_name()
            ))),
            Json::Null | Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => {
                self.run.printed(key).map(Arc::from)
            }
        }
    }

    fn math(&mut self, first: &Expr, rest: &[(MathOp, Expr)]) -> Outcome<Json> {
        if let Some((MathOp::Concat, _)) = rest.first() {
            return self.concat(first, rest);
        }
        let mut left = self.eval_json(first)?;
        for (op, operand) in rest {
            self.run.meter.work(1)?;
            let right = self.eval_json(operand)?;
            left = self
                .binary(*op, &left, &right)
                .map_err(|stop| stop.at(operand.span.start()))?;
        }
        Ok(left)
    }

    /// `a ~ b ~ c` makes one text, not two.
    fn concat(&mut self, first: &Expr, rest: &[(MathOp, Expr)]) -> Outcome<Json> {
        let mut parts = vec![self.eval_json(first)?];
        for (_, operand) in rest {
            parts.push(self.eval_json(operand)?);
        }
        self.run
            .joined(&parts, "")
            .map(|text| Json::Str(text.into()))
    }

    fn binary(&self, op: MathOp, left: &Json, right: &Json) -> Outcome<Json> {
        match (op, left, right) {
            (MathOp::Add, Json::Str(left), Json::Str(right)) => {
                self.run
                    .meter
                    .text(left.len().saturating_add(right.len()))?;
                Ok(Json::Str([&**left, &**right].concat().into()))
            }
            (MathOp::Add, Json::List(left), Json::List(right)) => {
                self.run.meter.list(left.len() + right.len())?;
                Ok(Json::from([left.as_slice(), right.as_slice()].concat()))
            }
            (MathOp::Mul, Json::Str(_) | Json::List(_), count) => self.repeated(left, count),
            (MathOp::Mul, count, Json::Str(_) | Json::List(_)) => self.repeated(right, count),
            _ => number::apply(op, left, right).map_err(|error| match error {
                MathError::NotANumber => cannot(op, left, right),
                MathError::DivisionByZero | MathError::Refused(_) => {
                    Stop::failed(error.to_string())
                }
            }),
        }
    }

    fn repeated(&self, value: &Json, count: &Json) -> Outcome<Json> {
        let Some(count) = number::integer(count) else {
            return Err(cannot(MathOp::Mul, value, count));
        };
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        match value {
            Json::Str(text) => {
                self.run.meter.text(text.len().saturating_mul(count))?;
                Ok(Json::Str(text.repeat(count).into()))
            }
            Json::List(items) => {
                let total = items.len().saturating_mul(count);
                self.run.meter.list(total)?;
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

    fn compare(&mut self, first: &Expr, rest: &[(CompareOp, Expr)]) -> Outcome<bool> {
        let mut left = self.eval(first)?;
        for (op, operand) in rest {
            let right = self.eval(operand)?;
            let holds = self
                .run
                .holds(*op, &left, &right)
                .map_err(|stop| stop.at(operand.span.start()))?;
            if !holds {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn chain(&mut self, base: &Expr, links: &[Link]) -> Outcome<Value> {
        let mut value = self.eval(base)?;
        for link in links {
            self.run.meter.work(1)?;
            value = self
                .link(value, &link.kind)
                .map_err(|stop| stop.at(link.span.start()))?;
        }
        Ok(value)
    }

    pub(super) fn link(&mut self, value: Value, link: &LinkKind) -> Outcome<Value> {
        match link {
            LinkKind::Attribute(key) => self.run.attribute(&value, key),
            LinkKind::Index(index) => {
                let index = self.eval_json(index)?;
                self.run.index(&value, &index)
            }
            LinkKind::Slice(slice) => {
                let mut bound = |expr: &Option<Expr>| {
                    expr.as_ref()
                        .map_or(Ok(Json::Null), |expr| self.eval_json(expr))
                };
                let (start, stop) = (bound(&slice.start)?, bound(&slice.stop)?);
                let step = bound(&slice.step)?;
                self.run.slice(value, [&start, &stop, &step])
            }
            LinkKind::Method(method, params) => {
                let params = self.params(params)?;
                self.run.method(*method, value, params)
            }
            LinkKind::Filter(filter, params) => {
                let params = self.params(params)?;
                self.run.filter(*filter, value, &params)
            }
            LinkKind::Each(each) => self.each(value, each),
            LinkKind::Test {
                test,
                params,
                negated,
            } => {
                let params = self.params(params)?;
                let passes =
                    self.run
                        .test(*test, &value, params.first().and_then(Option::as_ref))?;
                Ok(Value::bool(passes != *negated))
            }
            LinkKind::LoopCycle(items) => self.loop_cycle(&value, items),
            LinkKind::LoopChanged(items) => self.loop_changed(&value, items),
        }
    }

    /// Arguments as values; one that is not given stays so.
    pub(super) fn params(&mut self, params: &Params) -> Outcome<Vec<Option<Value>>> {
        params
            .iter()
            .map(|param| param.as_ref().map(|param| self.eval(param)).transpose())
            .collect()
    }

    fn loop_cycle(&mut self, value: &Value, items: &[Expr]) -> Outcome<Value> {
        let Value::Loop(state) = value else {
            return Ok(Value::Undefined);
        };
        let index = state.index.get().checked_rem(items.len());
        index
            .and_then(|index| items.get(index))
            .map_or(Ok(Value::Undefined), |item| self.eval(item))
    }

    fn loop_changed(&mut self, value: &Value, items: &[Expr]) -> Outcome<Value> {
        let now = self.list(items)?;
        let Value::Loop(state) = value else {
            return Ok(Value::Undefined);
        };
        let before = state.seen.replace(Some(now.clone()));
        let same = match before {
            Some(before) => order::equal(&before, &now, &self.run.meter)?,
            None => false,
        };
        Ok(Value::bool(!same))
    }
}

fn cannot(op: MathOp, left: &Json, right: &Json) -> Stop {
    let (left, right) = (left.type_name(), right.type_name());
    Stop::failed(match op {
        MathOp::Add => format!("cannot add {right} to {left}"),
        MathOp::Sub => format!("cannot subtract {right} from {left}"),
        MathOp::Mul => format!("cannot multiply {left} by {right}"),
        MathOp::Div | MathOp::FloorDiv | MathOp::Rem => format!("cannot divide {left} by {right}"),
        MathOp::Pow => format!("cannot raise {left} to {right}"),
        MathOp::Concat => format!("cannot join {left} and {right}"),
    })
}
