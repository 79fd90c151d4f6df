//! Rendering of text, outputs, branches, loops and assignments.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use noetl_types::Json;

use super::evaluator::Evaluator;
use super::value::{LoopState, Value};
use crate::template::program::{AssignTarget, ForBlock, SetBlock, TemplateNode};
use crate::template::render_error::{EvalError, EvalResult};

impl Evaluator<'_> {
    pub(super) fn render_nodes(&mut self, nodes: &[TemplateNode]) -> EvalResult<()> {
        nodes.iter().try_for_each(|node| self.render_node(node))
    }

    fn render_node(&mut self, node: &TemplateNode) -> EvalResult<()> {
        self.context.meter.charge_fuel(1)?;
        match node {
            TemplateNode::Text(text) => self.emit_text(text),
            TemplateNode::Output(expr) => {
                let was_tainted = self.context.is_tainted.get();
                let value = self.eval_json(expr)?;
                let text = self
                    .context
                    .print_value(&value)
                    .map_err(|error| error.at_offset(expr.span.start()))?;
                // Only this output is secret, not the text next to it.
                if self.context.is_tainted.replace(was_tainted) {
                    self.context.secret_parts.borrow_mut().push(Json::from(&*text));
                }
                self.emit_text(&text).map_err(|error| error.at_offset(expr.span.start()))
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
                self.assign_target(target, value)
                    .map_err(|error| error.at_offset(expr.span.start()))
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
        let mut value = Value::from_text(text);
        for filter in &block.filters {
            value = self
                .apply_link(value, &filter.kind)
                .map_err(|error| error.at_offset(filter.span.start()))?;
        }
        self.assign_target(&block.target, value)
    }

    fn render_for(&mut self, looping: &ForBlock) -> EvalResult<()> {
        let items = self.eval_json(&looping.items)?;
        let offset = looping.items.span.start();
        let mut items = self.context.to_items(&items).map_err(|error| error.at_offset(offset))?;
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
            Rc::new(LoopState { items, index: Cell::new(0), last_changed: RefCell::new(None) });
        for (index, item) in state.items.iter().enumerate() {
            self.context.meter.charge_fuel(1)?;
            state.index.set(index);
            self.clear_iteration(looping);
            self.slots[looping.loop_slot] = Some(Value::Loop(Rc::clone(&state)));
            self.assign_target(&looping.target, item.clone().into())
                .map_err(|error| error.at_offset(offset))?;
            self.render_nodes(&looping.body)?;
        }
        self.clear_iteration(looping);
        if state.items.is_empty() { self.render_nodes(&looping.else_body) } else { Ok(()) }
    }

    /// Clears the variables of an iteration.
    fn clear_iteration(&mut self, looping: &ForBlock) {
        self.slots[looping.slots.clone()].fill(None);
    }

    fn assign_target(&mut self, target: &AssignTarget, value: Value) -> EvalResult<()> {
        match target {
            AssignTarget::Slot(slot) => {
                self.slots[*slot] = Some(value);
                Ok(())
            }
            AssignTarget::Several(targets, span) => {
                let value = self.context.convert_to_json(value)?;
                let items = match &value {
                    Json::List(items) if items.len() == targets.len() => items,
                    _ => {
                        let count = targets.len();
                        let message = format!("expected a list of {count} items to unpack");
                        return Err(EvalError::operation_failed(message).at_offset(span.start()));
                    }
                };
                let pairs = targets.iter().zip(items.iter());
                pairs
                    .into_iter()
                    .try_for_each(|(target, item)| self.assign_target(target, item.clone().into()))
            }
            AssignTarget::Member { namespace, key } => {
                let Value::Namespace(members) = self.eval_expr(namespace)? else {
                    return Err(EvalError::operation_failed("only a namespace can be assigned to")
                        .at_offset(namespace.span.start()));
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
