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
    let Some(Document::Playbook(playbook)) = check(&text, &CheckOptions::default()).document else {
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
