//! The state of one render: the variables of the template and the text so far.

use noetl_types::Json;

use super::run::Run;
use super::value::Value;
use crate::template::error::{Limit, Outcome, Stop};
use crate::template::program::Body;
use crate::template::scope::Scope;

/// What a render yields.
pub(in crate::template) struct Done {
    pub(in crate::template) value: Json,
    /// A secret had a say in all of it, so that any part may tell something of it.
    pub(in crate::template) is_steered: bool,
    /// The parts of a text that were made from secrets.
    pub(in crate::template) told: Vec<Json>,
}

/// Renders a program that has so many variables.
pub(in crate::template) fn evaluate(body: &Body, slots: usize, scope: &dyn Scope) -> Outcome<Done> {
    if let Body::Literal(value) = body {
        return Ok(Done {
            value: value.clone(),
            is_steered: false,
            told: Vec::new(),
        });
    }
    let run = Run::new(scope);
    let mut machine = Machine {
        run: &run,
        slots: Vec::new(),
        out: String::new(),
    };
    machine.slots.resize_with(slots, || None);
    let value = match body {
        Body::Literal(value) => value.clone(),
        Body::Value(expr) => {
            let value = machine.eval(expr)?;
            let value = run.settle(value)?;
            run.meter.outcome(&value)?;
            value
        }
        Body::Text(nodes) => {
            machine.nodes(nodes)?;
            Json::text(machine.out)?
        }
    };
    Ok(Done {
        value,
        is_steered: run.tainted.get(),
        told: run.told.take(),
    })
}

pub(super) struct Machine<'r> {
    pub(super) run: &'r Run<'r>,
    pub(super) slots: Vec<Option<Value>>,
    pub(super) out: String,
}

impl Machine<'_> {
    /// Adds to the text. The room for it grows in steps that never pass the limit, since half of a
    /// doubled buffer may be wasted.
    pub(super) fn emit(&mut self, text: &str) -> Outcome<()> {
        let most = self.run.meter.limits.output;
        let len = self.out.len().saturating_add(text.len());
        if len > most {
            return Err(Stop::limit(Limit::Output, most));
        }
        self.run.meter.more(text.len())?;
        if len > self.out.capacity() {
            let room = (self.out.capacity() * 2).clamp(len, most);
            self.out.reserve_exact(room - self.out.len());
        }
        self.out.push_str(text);
        Ok(())
    }
}
