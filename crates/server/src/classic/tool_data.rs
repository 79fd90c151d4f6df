//! The data of each tool kind: from the form of published workers to that of our own.

use std::sync::Arc;

use noetl_playbook::command_machine::ToolResult;
use noetl_playbook::model::{Task, ToolKind};
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind};

use crate::classic::envelope::{ReportedResult, last_line, with_kind};

/// Converts the data of a report to the form that our own workers report.
pub(super) fn to_own_form(report: &ReportedResult, task: &Task, error: Option<&TaskError>) -> Json {
    let data = &report.data;
    match task.kind.value {
        ToolKind::Shell | ToolKind::Container => program_data(report),
        ToolKind::Script => script_data(report, error.is_some()),
        ToolKind::Python => python_data(report, error),
        ToolKind::Http => http_data(report),
        ToolKind::Postgres | ToolKind::Sqlite => sql_data(data, task, error),
        _ => data.clone(),
    }
}

/// Returns the error that the data of some kinds contains. Without a kind, the form of the data is
/// unknown.
pub(super) fn error_in_data(data: &Json, kind: Option<ToolKind>) -> Option<TaskError> {
    match kind? {
        ToolKind::Http => {
            let status = http_status(data).filter(|status| !(200..300).contains(status))?;
            let kind = TaskErrorKind::from_http_status(status).unwrap_or(TaskErrorKind::Unknown);
            Some(TaskError {
                code: Some(Json::from(u32::from(status))),
                status: Some(status),
                ..TaskError::new(kind, format!("HTTP {status} response"))
            })
        }
        kind @ (ToolKind::Postgres | ToolKind::Sqlite | ToolKind::Mcp) => {
            data.get("status").and_then(Json::as_str).filter(|status| *status == "error")?;
            let message = ["message", "error", "text"].into_iter().find_map(|key| data.get(key));
            let error = TaskError::from_json(message.unwrap_or(&Json::Null));
            let default = if kind == ToolKind::Mcp {
                TaskErrorKind::Transform
            } else {
                TaskErrorKind::DbError
            };
            Some(with_kind(error, default))
        }
        _ => None,
    }
}

/// Derives the kind of an error that names none from the tool.
pub(super) fn with_kind_of_tool(
    error: TaskError,
    kind: ToolKind,
    report: &ReportedResult,
) -> TaskError {
    let text = Json::from(&error.message);
    match kind {
        _ if error.message.contains("timed out") => with_kind(error, TaskErrorKind::Timeout),
        ToolKind::Python => {
            let traceback = [Some(&text), report.stderr.as_ref()].into_iter().flatten();
            let raised = traceback.filter_map(last_line).find_map(|line| exception_name(&line));
            let message = last_line(&text).map_or(error.message.clone(), Into::into);
            let code = error.code.clone().or(raised.map(Json::from));
            TaskError { code, message, ..with_kind(error, TaskErrorKind::Transform) }
        }
        ToolKind::Shell
        | ToolKind::Container
        | ToolKind::Script
        | ToolKind::Mcp
        | ToolKind::Rhai => with_kind(error, TaskErrorKind::Transform),
        ToolKind::Postgres | ToolKind::Sqlite => {
            let sqlstate = find_sqlstate(&error);
            let kind = sqlstate.as_deref().map_or(TaskErrorKind::DbError, sqlstate_kind);
            let code = sqlstate.map(Json::from).or(error.code.clone());
            TaskError { code, ..with_kind(error, kind) }
        }
        _ => error,
    }
}

/// Adds the members of `output` besides the data, and the requested delay of a retry.
pub(super) fn add_extras(report: &ReportedResult, kind: Option<ToolKind>, result: &mut ToolResult) {
    match kind {
        Some(ToolKind::Http) => {
            let retry_after =
                result.data.get("headers").and_then(|headers| headers.get("retry-after"));
            let seconds =
                retry_after.and_then(Json::as_str).and_then(|text| text.trim().parse().ok());
            let status = result.data.get("status_code").and_then(Json::as_u64);
            result.retry_after =
                seconds.filter(|_| matches!(status, Some(429 | 503))).map(Millis::from_secs);
        }
        Some(ToolKind::Python) if report.stdout.is_some() || report.stderr.is_some() => {
            let output = Json::from(output_texts(report));
            result.extras.insert("py".into(), output);
        }
        Some(ToolKind::Postgres | ToolKind::Sqlite) => {
            if let Some(code) = result.error.as_ref().and_then(|error| error.code.clone()) {
                let pg = Json::object([("code", code.clone()), ("sqlstate", code)]);
                result.extras.insert("pg".into(), pg);
            }
        }
        Some(_) | None => {}
    }
}

fn output_texts(report: &ReportedResult) -> JsonMap {
    let text = |key: &str, text: &Option<Json>| {
        let text = text.clone().or_else(|| report.data.get(key).cloned());
        (key.into(), text.unwrap_or_else(|| Json::from("")))
    };
    JsonMap::from([text("stdout", &report.stdout), text("stderr", &report.stderr)])
}

fn exit_code(report: &ReportedResult) -> Json {
    let code = report.exit_code.map(Json::from);
    code.or_else(|| report.data.get("exit_code").cloned()).unwrap_or_else(|| Json::from(0))
}

fn program_data(report: &ReportedResult) -> Json {
    if report.has_timed_out {
        return Json::Null;
    }
    let mut output = output_texts(report);
    if report.stdout.is_none() && report.data.as_str().is_some() {
        output.insert("stdout".into(), report.data.clone());
    }
    output.insert("exit_code".into(), exit_code(report));
    Json::from(output)
}

fn script_data(report: &ReportedResult, has_failed: bool) -> Json {
    let output = report.data.get("output").cloned().unwrap_or_else(|| {
        let texts = output_texts(report);
        let texts = ["stdout", "stderr"].map(|key| texts.get(key).and_then(Json::as_str));
        Json::from(texts.into_iter().flatten().collect::<String>())
    });
    Json::object([
        ("status", Json::from(if has_failed { "failed" } else { "completed" })),
        ("output", output),
        ("exit_code", exit_code(report)),
        ("execution_time", elapsed_seconds(report, "execution_time")),
    ])
}

/// Duration of the call in seconds: as the data has it, or as the report does.
fn elapsed_seconds(report: &ReportedResult, key: &str) -> Json {
    if let Some(seconds) = report.data.get(key) {
        return seconds.clone();
    }
    let milliseconds = report.data.get("elapsed_ms").and_then(Json::as_u64).or(report.duration_ms);
    let seconds = milliseconds.map(|ms| Json::from_f64(Millis::from_ms(ms).as_secs_f64()));
    seconds.and_then(Result::ok).unwrap_or_default()
}

fn python_data(report: &ReportedResult, error: Option<&TaskError>) -> Json {
    if !report.data.is_null() {
        return report.data.clone();
    }
    let mut output = output_texts(report);
    if let Some(error) = error {
        output.insert("error".into(), Json::from(&error.message));
    }
    Json::from(output)
}

/// Returns the name of the exception in the last line of a traceback.
fn exception_name(line: &str) -> Option<String> {
    let name = line.split(':').next()?.trim();
    let is_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.');
    let is_exception = ["Error", "Exception", "Exit", "Interrupt", "Iteration"]
        .iter()
        .any(|suffix| name.ends_with(suffix));
    (is_exception && name.chars().all(is_name)).then(|| name.to_owned())
}

fn http_status(data: &Json) -> Option<u16> {
    let status = ["status_code", "status"].into_iter().find_map(|key| data.get(key)?.as_u64())?;
    u16::try_from(status).ok()
}

fn http_data(report: &ReportedResult) -> Json {
    let data = &report.data;
    let Some(status) = http_status(data) else {
        // Only the body is known.
        return data.clone();
    };
    let headers = data.get("headers").and_then(Json::as_map).into_iter().flatten();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    let body = ["body", "data", "json", "text"].into_iter().find_map(|key| data.get(key));
    let body = body.cloned().unwrap_or_default();
    Json::object([
        ("status_code", Json::from(u32::from(status))),
        ("headers", Json::object(headers)),
        ("data", body.clone()),
        ("body", body),
        ("url", data.get("url").cloned().unwrap_or_default()),
        ("elapsed", elapsed_seconds(report, "elapsed")),
    ])
}

/// Builds the data of SQL statements. A worker that reports only the last one gives its result.
fn sql_data(data: &Json, task: &Task, error: Option<&TaskError>) -> Json {
    let is_statement = |key: &str| key.starts_with("command_");
    let mut statements: JsonMap = data
        .as_map()
        .into_iter()
        .flatten()
        .filter(|(key, part)| is_statement(key) && part.as_map().is_some())
        .map(|(key, part)| (Arc::clone(key), part.clone()))
        .collect();
    if let Some(error) = error {
        let failed = [("status", Json::from("error")), ("message", Json::from(&error.message))];
        statements.extend(failed.map(|(key, value)| (key.into(), value)));
        return Json::from(statements);
    }
    let last = statements
        .len()
        .checked_sub(1)
        .and_then(|last| statements.get(&*format!("command_{last}")));
    let has_result =
        data.as_list().is_some() || RESULT_KEYS.iter().any(|key| data.get(key).is_some());
    let source = if has_result { Some(data) } else { last };
    let Some(fields) = source.and_then(|source| statement_fields(source, task)) else {
        return data.clone();
    };
    if statements.is_empty() {
        let mut entry = fields.clone();
        for list in ["columns", "rows"] {
            entry.entry(list.into()).or_insert_with(|| Json::list([]));
        }
        let count = fields.get("row_count").and_then(Json::as_u64).unwrap_or_default();
        let noun = if count == 1 { "row" } else { "rows" };
        let verb = if fields.contains_key("rows") { "returned" } else { "affected" };
        entry.insert("message".into(), Json::from(format!("{count} {noun} {verb}")));
        statements.insert("command_0".into(), Json::from(entry));
    }
    statements.extend(fields);
    Json::from(statements)
}

/// Keys that contain the result of a statement.
const RESULT_KEYS: [&str; 5] = ["rows", "result", "data", "affected_rows", "rows_affected"];

fn statement_fields(source: &Json, task: &Task) -> Option<JsonMap> {
    let rows = source.as_list().or_else(|| {
        ["rows", "result", "data"].into_iter().find_map(|key| source.get(key)?.as_list())
    });
    let status = ("status".into(), Json::from("success"));
    let affected = ["affected_rows", "rows_affected"].into_iter().find_map(|key| source.get(key));
    if let Some(affected) = affected.filter(|_| rows.is_none_or(<[Json]>::is_empty)) {
        let count = ["affected_rows", "row_count"].map(|key| (key.into(), affected.clone()));
        return Some([status].into_iter().chain(count).collect());
    }
    let rows = rows?;
    let columns: Vec<Json> = match source.get("columns").and_then(Json::as_list) {
        Some(columns) => columns.iter().map(column_name).collect(),
        None => rows
            .first()
            .and_then(Json::as_map)
            .into_iter()
            .flatten()
            .map(|(name, _)| Json::Str(Arc::clone(name)))
            .collect(),
    };
    let as_lists = task.config.get("as_objects").and_then(|field| field.value.as_const());
    let as_lists = as_lists.and_then(Json::as_bool) == Some(false);
    let rows = rows.iter().map(|row| match row.as_list() {
        Some(values) if !as_lists && values.len() == columns.len() => {
            let names = columns.iter().map(|name| name.as_str().unwrap_or_default());
            Json::object(names.zip(values.iter().cloned()))
        }
        _ => row.clone(),
    });
    Some(JsonMap::from([
        status,
        ("row_count".into(), Json::from(rows.len())),
        ("rows".into(), Json::list(rows)),
        ("columns".into(), Json::from(columns)),
    ]))
}

/// A column is its name, or a map that has it.
fn column_name(column: &Json) -> Json {
    column.get("name").unwrap_or(column).clone()
}

/// Finds the SQLSTATE of a database error: in its code, or after that word in its message.
fn find_sqlstate(error: &TaskError) -> Option<String> {
    let is_state = |text: &str| {
        text.len() == 5
            && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    };
    let code = error.code.as_ref().and_then(Json::as_str).filter(|code| is_state(code));
    let (_, rest) = error.message.split_once("SQLSTATE").unwrap_or_default();
    let named =
        rest.split(|char: char| !char.is_ascii_alphanumeric()).find(|word| !word.is_empty());
    code.or(named.filter(|word| is_state(word))).map(str::to_owned)
}

fn sqlstate_kind(sqlstate: &str) -> TaskErrorKind {
    match sqlstate {
        "40001" | "40P01" => TaskErrorKind::DbDeadlock,
        "57014" | "55P03" => TaskErrorKind::DbTimeout,
        _ if sqlstate.starts_with("08") => TaskErrorKind::DbConnection,
        _ if sqlstate.starts_with("23") => TaskErrorKind::DbConstraint,
        _ => TaskErrorKind::DbError,
    }
}
