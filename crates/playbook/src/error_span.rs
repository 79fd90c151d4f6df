//! Locates the part of a playbook that caused an error.

use noetl_types::{Json, TaskError, TaskErrorKind};

use crate::check::STATEMENT_KEYS;
use crate::model::{Step, Task};
use crate::source::Span;

/// Returns the position of the failed code or statement, or else of its task, or else of the step.
pub fn find_error_span(text: &str, step: &Step, error: &TaskError) -> Span {
    let task = error.task.as_ref().and_then(|label| {
        let mut tasks = step.tool.tasks().iter();
        tasks.find(|task| *task.label.value == **label)
    });
    let Some(task) = task else {
        return step.name.span;
    };
    let span = code_line_span(text, task, error)
        .or_else(|| statement_span(task, error))
        .or_else(|| named_key_span(task, error))
        .or_else(|| auth_span(task).filter(|_| error.kind == TaskErrorKind::Auth));
    span.unwrap_or(task.kind.span)
}

/// Returns the position of the first key or variable that the message names in quotes, such as
/// `'script.uri'` or `` `ctx.rows` ``.
fn named_key_span(task: &Task, error: &TaskError) -> Option<Span> {
    let message = error.message.as_str();
    let mut quoted = message.split(['\'', '`']).skip(1).filter(|name| !name.is_empty());
    quoted.find_map(|name| {
        let root = name.split(['.', '[']).next().unwrap_or(name);
        let field = task.config.get(root).or_else(|| task.input.get(name));
        let mut writes = task.set.0.iter();
        let write = writes.find(|write| write.target.value.key() == *name);
        let auth = auth_span(task).filter(|_| root == "auth");
        field.map(|field| field.name.span).or(auth).or(write.map(|write| write.target.span))
    })
}

fn auth_span(task: &Task) -> Option<Span> {
    task.auth.is_some().then_some(task.auth_span.span)
}

/// Returns the position of the code line that the error names.
fn code_line_span(text: &str, task: &Task, error: &TaskError) -> Option<Span> {
    let line = error.details.as_ref()?.get("line").and_then(Json::as_u64)?;
    block_line_span(text, task.config.get("code")?.name.span, line)
}

/// Returns the position of the statements if a database rejected one. Among several statements the
/// failed one is not identified.
fn statement_span(task: &Task, error: &TaskError) -> Option<Span> {
    let is_rejected = matches!(error.kind, TaskErrorKind::DbError | TaskErrorKind::DbConstraint);
    let mut keys = STATEMENT_KEYS.iter().filter(|_| is_rejected);
    keys.find_map(|key| Some(task.config.get(key)?.name.span))
}

/// Returns the position of a line, counted from 1, of the block scalar under a key.
fn block_line_span(text: &str, key: Span, line: u64) -> Option<Span> {
    let mut from = key.end as usize;
    let mut lines = text.get(from..)?.split_inclusive('\n');
    let header = lines.next()?;
    if !header.trim_start_matches([':', ' ']).starts_with(['|', '>']) {
        return None;
    }
    from += header.len();
    for _ in 1..line {
        from += lines.next()?.len();
    }
    let line_text = lines.next()?;
    let code = line_text.trim();
    let from = from + (line_text.len() - line_text.trim_start().len());
    (!code.is_empty()).then(|| Span::new(from, from + code.len()))
}

#[cfg(test)]
mod tests;
