//! The state of one render: the template's variables and the output text.

use noetl_types::Json;

use super::context::RenderContext;
use super::value::Value;
use crate::template::environment::TemplateEnvironment;
use crate::template::program::TemplateBody;
use crate::template::render_error::{EvalError, EvalResult, RenderLimit};

/// The outcome of a render.
pub(in crate::template) struct RenderOutcome {
    pub(in crate::template) value: Json,
    /// True if a secret influenced the whole value, so that any part may reveal it.
    pub(in crate::template) is_tainted: bool,
    /// The parts of the text that were made from secrets.
    pub(in crate::template) secret_parts: Vec<Json>,
}

/// Evaluates a program with this number of variable slots.
pub(in crate::template) fn evaluate_body(
    body: &TemplateBody,
    slots: usize,
    environment: &dyn TemplateEnvironment,
) -> EvalResult<RenderOutcome> {
    if let TemplateBody::Literal(value) = body {
        return Ok(RenderOutcome {
            value: value.clone(),
            is_tainted: false,
            secret_parts: Vec::new(),
        });
    }
    let context = RenderContext::new(environment);
    let mut evaluator = Evaluator { context: &context, slots: Vec::new(), output: String::new() };
    evaluator.slots.resize_with(slots, || None);
    let value = match body {
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
    };
    Ok(RenderOutcome {
        value,
        is_tainted: context.is_tainted.get(),
        secret_parts: context.secret_parts.take(),
    })
}

pub(super) struct Evaluator<'r> {
    pub(super) context: &'r RenderContext<'r>,
    pub(super) slots: Vec<Option<Value>>,
    pub(super) output: String,
}

impl Evaluator<'_> {
    /// Appends to the output. The buffer grows in steps that never exceed the limit, because half
    /// of a doubled buffer may be wasted.
    pub(super) fn emit_text(&mut self, text: &str) -> EvalResult<()> {
        let limit = self.context.meter.limits.output;
        let len = self.output.len().saturating_add(text.len());
        if len > limit {
            return Err(EvalError::limit_exceeded(RenderLimit::Output, limit));
        }
        self.context.meter.charge_text_growth(text.len())?;
        if len > self.output.capacity() {
            let capacity = (self.output.capacity() * 2).clamp(len, limit);
            self.output.reserve_exact(capacity - self.output.len());
        }
        self.output.push_str(text);
        Ok(())
    }
}
