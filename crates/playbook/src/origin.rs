//! Where in a playbook an error comes from.

use noetl_types::{Json, TaskError, TaskErrorKind};

use crate::check::STATEMENT_KEYS;
use crate::model::{Step, Task};
use crate::source::Span;

/// The code or the statement that failed, or else the task that it belongs to, or else the step.
pub fn origin(text: &str, step: &Step, error: &TaskError) -> Span {
    let task = error.task.as_ref().and_then(|label| {
        let mut tasks = step.tool.tasks().iter();
        tasks.find(|task| *task.label.value == **label)
    });
    let Some(task) = task else {
        return step.name.span;
    };
    let inside = line_of_code(text, task, error).or_else(|| statement(task, error));
    inside.unwrap_or(task.kind.span)
}

/// The line of its code that an error names.
fn line_of_code(text: &str, task: &Task, error: &TaskError) -> Option<Span> {
    let line = error.details.as_ref()?.get("line").and_then(Json::as_u64)?;
    line_of_block(text, task.config.get("code")?.name.span, line)
}

/// The statements that a database refused; which one of several is not known.
fn statement(task: &Task, error: &TaskError) -> Option<Span> {
    let is_refused = matches!(
        error.kind,
        TaskErrorKind::DbError | TaskErrorKind::DbConstraint
    );
    let mut keys = STATEMENT_KEYS.iter().filter(|_| is_refused);
    keys.find_map(|key| Some(task.config.get(key)?.name.span))
}

/// A line, the first being 1, of the block of text that is written under a key.
fn line_of_block(text: &str, key: Span, line: u64) -> Option<Span> {
    let mut from = key.end as usize;
    let mut lines = text.get(from..)?.split_inclusive('\n');
    let header = lines.next()?;
    if !header
        .trim_start_matches([':', ' '])
        .starts_with(['|', '>'])
    {
        return None;
    }
    from += header.len();
    for _ in 1..line {
        from += lines.next()?.len();
    }
    let found = lines.next()?;
    let code = found.trim();
    let from = from + (found.len() - found.trim_start().len());
    (!code.is_empty()).then(|| Span::new(from, from + code.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckOptions, Document, check};

    const FLOW: &str = "\
workflow:
  - step: keep
    tool:
      - { name: table, kind: sqlite, database: a.db, command: CREATE TABLE a (b) }
      - name: rows
        kind: sqlite
        database: a.db
        query: INSERT INTO a VALUES (1)
";

    /// The text that an error is shown at.
    fn shown(flow: &str, step: &str, error: &TaskError) -> String {
        let text =
            format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: flow }}\n{flow}");
        let Some(Document::Playbook(playbook)) = check(&text, &CheckOptions::default()).document
        else {
            panic!("a playbook")
        };
        let span = origin(&text, playbook.step(step).unwrap(), error);
        text[span.start as usize..span.end as usize].to_owned()
    }

    fn error(kind: TaskErrorKind, task: &str) -> TaskError {
        TaskError {
            task: Some(task.into()),
            ..TaskError::new(kind, "why")
        }
    }

    #[test]
    fn a_refused_statement_is_shown_and_what_has_no_other_place_at_its_task() {
        let at_kind = error(TaskErrorKind::Connection, "rows");
        assert_eq!(shown(FLOW, "keep", &at_kind), "sqlite");
        let refused = error(TaskErrorKind::DbError, "rows");
        assert_eq!(shown(FLOW, "keep", &refused), "query");
        let refused = error(TaskErrorKind::DbConstraint, "table");
        assert_eq!(shown(FLOW, "keep", &refused), "command");
        let nowhere = TaskError::new(TaskErrorKind::Routing, "why");
        assert_eq!(shown(FLOW, "keep", &nowhere), "keep");
    }

    #[test]
    fn a_line_of_code_is_shown_where_it_is_written() {
        let flow = "workflow:\n  - step: count\n    tool:\n      kind: python\n      code: |\n        x = 1\n\n        y = x / 0\n";
        let failed = |line: u64| TaskError {
            details: Some(Json::object([("line", Json::from(line))])),
            ..error(TaskErrorKind::Transform, "count")
        };
        assert_eq!(shown(flow, "count", &failed(3)), "y = x / 0");
        // A line that is empty or not there shows nothing.
        assert_eq!(shown(flow, "count", &failed(2)), "python");
        assert_eq!(shown(flow, "count", &failed(9)), "python");
    }
}
