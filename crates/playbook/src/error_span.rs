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
mod tests {
    use super::*;
    use crate::{CheckOptions, Document, check};

    const FLOW_PLAYBOOK: &str = "\
workflow:
  - step: keep
    tool:
      - { name: table, kind: sqlite, database: a.db, command: CREATE TABLE a (b) }
      - name: rows
        kind: sqlite
        database: a.db
        query: INSERT INTO a VALUES (1)
";

    /// Returns the text at the position reported for an error.
    fn text_at_error(flow: &str, step: &str, error: &TaskError) -> String {
        let text =
            format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: flow }}\n{flow}");
        let Some(Document::Playbook(playbook)) = check(&text, &CheckOptions::default()).document
        else {
            panic!("a playbook")
        };
        let span = find_error_span(&text, playbook.find_step(step).unwrap(), error);
        text[span.start as usize..span.end as usize].to_owned()
    }

    fn task_error(kind: TaskErrorKind, task: &str) -> TaskError {
        TaskError { task: Some(task.into()), ..TaskError::new(kind, "why") }
    }

    #[test]
    fn locates_statement_or_task() {
        let at_kind = task_error(TaskErrorKind::Connection, "rows");
        assert_eq!(text_at_error(FLOW_PLAYBOOK, "keep", &at_kind), "sqlite");
        let rejected = task_error(TaskErrorKind::DbError, "rows");
        assert_eq!(text_at_error(FLOW_PLAYBOOK, "keep", &rejected), "query");
        let rejected = task_error(TaskErrorKind::DbConstraint, "table");
        assert_eq!(text_at_error(FLOW_PLAYBOOK, "keep", &rejected), "command");
        let without_task = TaskError::new(TaskErrorKind::Routing, "why");
        assert_eq!(text_at_error(FLOW_PLAYBOOK, "keep", &without_task), "keep");
    }

    #[test]
    fn locates_key_that_message_names() {
        let flow = "workflow:\n  - step: load\n    tool:\n      kind: python\n      auth: pg_main\n      script: { uri: a.py }\n      input: { day: 1 }\n      set: { ctx.rows: 1 }\n";
        let at = |kind, message: &str| {
            text_at_error(
                flow,
                "load",
                &TaskError { message: message.into(), ..task_error(kind, "load") },
            )
        };
        let schema = TaskErrorKind::Schema;
        assert_eq!(at(schema, "'script.uri' is missing"), "script");
        assert_eq!(at(TaskErrorKind::Limit, "set: `ctx.rows` has 300000 bytes"), "ctx.rows");
        assert_eq!(at(TaskErrorKind::Auth, "no credential 'pg_main'"), "pg_main");
        assert_eq!(at(schema, "'auth' must be a map"), "pg_main");
        assert_eq!(at(schema, "it's what 'other' says"), "python");
    }

    #[test]
    fn locates_line_of_code() {
        let flow = "workflow:\n  - step: count\n    tool:\n      kind: python\n      code: |\n        x = 1\n\n        y = x / 0\n";
        let failed = |line: u64| TaskError {
            details: Some(Json::object([("line", Json::from(line))])),
            ..task_error(TaskErrorKind::Transform, "count")
        };
        assert_eq!(text_at_error(flow, "count", &failed(3)), "y = x / 0");
        // An empty or missing line falls back to the task.
        assert_eq!(text_at_error(flow, "count", &failed(2)), "python");
        assert_eq!(text_at_error(flow, "count", &failed(9)), "python");
    }
}
