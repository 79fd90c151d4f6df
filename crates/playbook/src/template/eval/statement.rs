//! Text, outputs, branches, loops and assignments.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use noetl_types::Json;

use super::machine::Machine;
use super::value::{LoopState, Value};
use crate::template::error::{Outcome, Stop};
use crate::template::program::{For, Node, SetBlock, Target};

impl Machine<'_> {
    pub(super) fn nodes(&mut self, nodes: &[Node]) -> Outcome<()> {
        nodes.iter().try_for_each(|node| self.node(node))
    }

    fn node(&mut self, node: &Node) -> Outcome<()> {
        self.run.meter.work(1)?;
        match node {
            Node::Text(text) => self.emit(text),
            Node::Output(expr) => {
                let before = self.run.tainted.get();
                let value = self.eval_json(expr)?;
                let text = self
                    .run
                    .printed(&value)
                    .map_err(|stop| stop.at(expr.span.start()))?;
                // What stands beside a secret is none.
                if self.run.tainted.replace(before) {
                    self.run.told.borrow_mut().push(Json::from(&*text));
                }
                self.emit(&text).map_err(|stop| stop.at(expr.span.start()))
            }
            Node::If(branches, otherwise) => {
                for (test, body) in branches {
                    if self.eval_true(test)? {
                        return self.nodes(body);
                    }
                }
                self.nodes(otherwise)
            }
            Node::For(looping) => self.for_each(looping),
            Node::Set(set) => {
                let (target, expr) = &**set;
                let value = self.eval(expr)?;
                self.assign(target, value)
                    .map_err(|stop| stop.at(expr.span.start()))
            }
            Node::SetBlock(block) => self.set_block(block),
        }
    }

    fn set_block(&mut self, block: &SetBlock) -> Outcome<()> {
        let outer = std::mem::take(&mut self.out);
        let told = self.run.told.borrow().len();
        self.nodes(&block.body)?;
        if self.run.told.borrow().len() > told {
            self.run.tainted.set(true);
        }
        let text = std::mem::replace(&mut self.out, outer);
        let mut value = Value::text(text);
        for filter in &block.filters {
            value = self
                .link(value, &filter.kind)
                .map_err(|stop| stop.at(filter.span.start()))?;
        }
        self.assign(&block.target, value)
    }

    fn for_each(&mut self, looping: &For) -> Outcome<()> {
        let items = self.eval_json(&looping.items)?;
        let at = looping.items.span.start();
        let mut items = self.run.items(&items).map_err(|stop| stop.at(at))?;
        if let Some(keep) = &looping.keep {
            self.run.meter.list(items.len())?;
            let mut kept = Vec::with_capacity(items.len());
            for item in items.iter() {
                self.assign(&looping.target, item.clone().into())?;
                if self.eval_true(keep)? {
                    kept.push(item.clone());
                }
            }
            items = Arc::new(kept);
        }
        let state = Rc::new(LoopState {
            items,
            index: Cell::new(0),
            seen: RefCell::new(None),
        });
        for (index, item) in state.items.iter().enumerate() {
            self.run.meter.work(1)?;
            state.index.set(index);
            self.forget(looping);
            self.slots[looping.loop_slot] = Some(Value::Loop(Rc::clone(&state)));
            self.assign(&looping.target, item.clone().into())
                .map_err(|stop| stop.at(at))?;
            self.nodes(&looping.body)?;
        }
        self.forget(looping);
        if state.items.is_empty() {
            self.nodes(&looping.otherwise)
        } else {
            Ok(())
        }
    }

    /// Variables of an iteration end with it.
    fn forget(&mut self, looping: &For) {
        self.slots[looping.slots.clone()].fill(None);
    }

    fn assign(&mut self, target: &Target, value: Value) -> Outcome<()> {
        match target {
            Target::Slot(slot) => {
                self.slots[*slot] = Some(value);
                Ok(())
            }
            Target::Several(targets, span) => {
                let value = self.run.settle(value)?;
                let items = match &value {
                    Json::List(items) if items.len() == targets.len() => items,
                    _ => {
                        let wanted = targets.len();
                        let message = format!("expected a list of {wanted} to take apart");
                        return Err(Stop::failed(message).at(span.start()));
                    }
                };
                let pairs = targets.iter().zip(items.iter());
                pairs
                    .into_iter()
                    .try_for_each(|(target, item)| self.assign(target, item.clone().into()))
            }
            Target::Member { namespace, key } => {
                let Value::Namespace(members) = self.eval(namespace)? else {
                    return Err(Stop::failed("only a namespace can be assigned to")
                        .at(namespace.span.start()));
                };
                let value = self.run.settle(value)?;
                self.run.meter.nest(&value, 2)?;
                self.run.meter.map(1)?;
                members.borrow_mut().insert(Arc::clone(key), value);
                Ok(())
            }
        }
    }
}
