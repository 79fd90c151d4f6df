//! Evaluates a program to its value.
//!
//! Owns the meaning of all operators, filters, tests, functions and methods. It has no clock, no
//! randomness, no environment variables and no I/O: all inputs come from the template environment,
//! and all costs are charged to the meter first.

mod call;
mod collection;
mod context;
mod expression;
mod text;
pub(super) mod vocabulary;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use noetl_types::Json;

use self::context::{LoopState, RenderContext, Value};
use super::environment::TemplateEnvironment;
use super::error::{ErrorLocation, EvalError, EvalResult};
use super::program::{AssignTarget, ForBlock, SetBlock, TemplateBody, TemplateNode};

pub(super) use self::call::FunctionFn;
pub(super) use self::context::is_true;

/// The outcome of a render.
pub(super) struct RenderOutcome {
    pub(super) value: Json,
    /// True if a secret influenced the whole value, so that any part may reveal it.
    pub(super) is_tainted: bool,
    /// The parts of the text that were made from secrets.
    pub(super) secret_parts: Vec<Json>,
}

/// The state of one render: the template's variables and the output text.
pub(super) struct Evaluator<'r> {
    context: &'r RenderContext<'r>,
    slots: Vec<Option<Value>>,
    output: String,
}

/// Evaluates a program with this number of variable slots.
pub(super) fn evaluate_body(
    body: &TemplateBody,
    slots: usize,
    environment: &dyn TemplateEnvironment,
) -> EvalResult<RenderOutcome> {
    if let TemplateBody::Literal(value) = body {
        let value = value.clone();
        return Ok(RenderOutcome { value, is_tainted: false, secret_parts: Vec::new() });
    }
    let context = RenderContext::new(environment);
    let value = evaluate_value(body, slots, &context);
    if let Some(budget) = environment.budget() {
        context.meter.settle_budget(budget);
    }
    let value = value?;
    let is_tainted = context.is_tainted.get();
    Ok(RenderOutcome { value, is_tainted, secret_parts: context.secret_parts.take() })
}

fn evaluate_value(
    body: &TemplateBody,
    slots: usize,
    context: &RenderContext<'_>,
) -> EvalResult<Json> {
    let mut evaluator = Evaluator { context, slots: vec![None; slots], output: String::new() };
    Ok(match body {
        TemplateBody::Literal(value) => value.clone(),
        TemplateBody::Value(expr) => {
            let value = evaluator.eval_expr(expr)?;
            let value = context.convert_to_json(value)?;
            context.meter.check_output(&value)?;
            value
        }
        TemplateBody::Text(nodes) => {
            evaluator.render_nodes(nodes)?;
            Json::text(evaluator.output)?
        }
    })
}

impl Evaluator<'_> {
    /// Appends to the output. The buffer grows in steps that never exceed the limit, because half
    /// of a doubled buffer may be wasted.
    fn emit_text(&mut self, text: &str) -> EvalResult<()> {
        let limit = self.context.meter.limits.output;
        let len = self.output.len().saturating_add(text.len());
        if len > limit {
            return Err(self.context.meter.output_exceeded());
        }
        self.context.meter.charge_text_growth(text.len())?;
        if len > self.output.capacity() {
            let capacity = (self.output.capacity() * 2).clamp(len, limit);
            self.output.reserve_exact(capacity - self.output.len());
        }
        self.output.push_str(text);
        Ok(())
    }

    fn render_nodes(&mut self, nodes: &[TemplateNode]) -> EvalResult<()> {
        nodes.iter().try_for_each(|node| self.render_node(node))
    }

    fn render_node(&mut self, node: &TemplateNode) -> EvalResult<()> {
        self.context.meter.charge_fuel(1)?;
        match node {
            TemplateNode::Text(text) => self.emit_text(text),
            TemplateNode::Output(expr) => {
                let was_tainted = self.context.is_tainted.get();
                let value = self.eval_json(expr)?;
                let text = self.context.print_value(&value).at(expr.span)?;
                // Only this output is secret, not the text next to it.
                if self.context.is_tainted.replace(was_tainted) {
                    self.context.secret_parts.borrow_mut().push(Json::from(&*text));
                }
                self.emit_text(&text).at(expr.span)
            }
            TemplateNode::If(branches, otherwise) => {
                for (test, body) in branches {
                    if self.eval_true(test)? {
                        return self.render_nodes(body);
                    }
                }
                self.render_nodes(otherwise)
            }
            TemplateNode::For(looping) => self.render_for(looping),
            TemplateNode::Set(set) => {
                let (target, expr) = &**set;
                let value = self.eval_expr(expr)?;
                self.assign_target(target, value).at(expr.span)
            }
            TemplateNode::SetBlock(block) => self.render_set_block(block),
        }
    }

    fn render_set_block(&mut self, block: &SetBlock) -> EvalResult<()> {
        let outer = std::mem::take(&mut self.output);
        let secrets_before = self.context.secret_parts.borrow().len();
        self.render_nodes(&block.body)?;
        if self.context.secret_parts.borrow().len() > secrets_before {
            self.context.is_tainted.set(true);
        }
        let text = std::mem::replace(&mut self.output, outer);
        let mut value = Value::Json(Json::Str(text.into()));
        for filter in &block.filters {
            value = self.apply_link(value, &filter.kind).at(filter.span)?;
        }
        self.assign_target(&block.target, value)
    }

    fn render_for(&mut self, looping: &ForBlock) -> EvalResult<()> {
        let items = self.eval_json(&looping.items)?;
        let span = looping.items.span;
        let mut items = self.context.to_items(&items).at(span)?;
        if let Some(condition) = &looping.filter {
            self.context.meter.charge_list(items.len())?;
            let mut filtered = Vec::with_capacity(items.len());
            for item in items.iter() {
                self.assign_target(&looping.target, item.clone().into())?;
                if self.eval_true(condition)? {
                    filtered.push(item.clone());
                }
            }
            items = Arc::new(filtered);
        }
        let state =
            Rc::new(LoopState { items, index: Cell::new(0), last_changed: RefCell::default() });
        for (index, item) in state.items.iter().enumerate() {
            self.context.meter.charge_fuel(1)?;
            state.index.set(index);
            self.slots[looping.slots.clone()].fill(None);
            self.slots[looping.loop_slot] = Some(Value::Loop(Rc::clone(&state)));
            self.assign_target(&looping.target, item.clone().into()).at(span)?;
            self.render_nodes(&looping.body)?;
        }
        self.slots[looping.slots.clone()].fill(None);
        if state.items.is_empty() { self.render_nodes(&looping.else_body) } else { Ok(()) }
    }

    fn assign_target(&mut self, target: &AssignTarget, value: Value) -> EvalResult<()> {
        match target {
            AssignTarget::Slot(slot) => {
                self.slots[*slot] = Some(value);
                Ok(())
            }
            AssignTarget::Several(targets, span) => {
                let value = self.context.convert_to_json(value)?;
                let count = targets.len();
                let items =
                    value.as_list().filter(|items| items.len() == count).ok_or_else(|| {
                        let message = format!("expected a list of {count} items to unpack");
                        EvalError::failed(message).at(*span)
                    })?;
                let mut pairs = targets.iter().zip(items);
                pairs.try_for_each(|(target, item)| self.assign_target(target, item.clone().into()))
            }
            AssignTarget::Member { namespace, key } => {
                let Value::Namespace(members) = self.eval_expr(namespace)? else {
                    let error = EvalError::failed("only a namespace can be assigned to");
                    return Err(error.at(namespace.span));
                };
                let value = self.context.convert_to_json(value)?;
                self.context.meter.check_nesting(&value, 2)?;
                self.context.meter.charge_map(1)?;
                members.borrow_mut().insert(Arc::clone(key), value);
                Ok(())
            }
        }
    }
}
