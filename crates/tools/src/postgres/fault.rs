//! What the server or the way to it says went wrong, as the error of a task.

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use tokio_postgres::error::{DbError, ErrorPosition};

/// The error of a statement.
#[expect(
    clippy::needless_pass_by_value,
    reason = "this is what `map_err` hands over"
)]
pub(super) fn of_statement(error: tokio_postgres::Error) -> TaskError {
    if let Some(said) = error.as_db_error() {
        return said_by_server(said);
    }
    let cause = cause(&error);
    let is_io = cause.is_some_and(|cause| cause.downcast_ref::<std::io::Error>().is_some());
    if is_io || error.is_closed() {
        let why = cause.map_or_else(|| "it was closed".to_owned(), ToString::to_string);
        let message = format!("the connection to the server broke: {why}");
        return TaskError::new(TaskErrorKind::DbConnection, message);
    }
    let message = match cause {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    TaskError::new(TaskErrorKind::DbError, message)
}

/// The error of a connection that was not made.
pub(super) fn of_login(server: &str, error: &tokio_postgres::Error) -> TaskError {
    if let Some(said) = error.as_db_error() {
        return said_by_server(said);
    }
    let message = match cause(error) {
        Some(cause) => format!("{server} cannot be used: {error}: {cause}"),
        None => format!("{server} cannot be used: {error}"),
    };
    TaskError::new(TaskErrorKind::DbConnection, message)
}

/// The SQLSTATE of an error, where the server gave one.
pub(super) fn sqlstate(error: Option<&TaskError>) -> Json {
    error
        .and_then(|error| error.code.clone())
        .unwrap_or_default()
}

fn cause(error: &tokio_postgres::Error) -> Option<&(dyn std::error::Error + 'static)> {
    std::error::Error::source(error)
}

/// The kind of an SQLSTATE.
fn kind(code: &str) -> TaskErrorKind {
    match (code.get(..2), code) {
        // The server is going down, coming up or full: the same as one that is not there.
        (Some("08"), _) | (_, "57P01" | "57P02" | "57P03" | "53300") => TaskErrorKind::DbConnection,
        (Some("23"), _) => TaskErrorKind::DbConstraint,
        (_, "40001" | "40P01") => TaskErrorKind::DbDeadlock,
        (_, "57014" | "55P03") => TaskErrorKind::DbTimeout,
        // The credential is wrong; to send it again changes nothing.
        (Some("28"), _) => TaskErrorKind::Auth,
        (_, _) => TaskErrorKind::DbError,
    }
}

fn said_by_server(said: &DbError) -> TaskError {
    let code = said.code().code();
    let mut message = format!("{}: {} (SQLSTATE {code})", said.severity(), said.message());
    let mut details = JsonMap::from([
        ("severity".into(), Json::from(said.severity())),
        ("message".into(), Json::from(said.message())),
    ]);
    for (label, name, text) in [
        ("Detail", "detail", said.detail()),
        ("Hint", "hint", said.hint()),
    ] {
        if let Some(text) = text {
            message.push_str(&format!("\n{label}: {text}"));
            details.insert(name.into(), Json::from(text));
        }
    }
    for (name, text) in [
        ("schema", said.schema()),
        ("table", said.table()),
        ("column", said.column()),
        ("constraint", said.constraint()),
        ("where", said.where_()),
    ] {
        if let Some(text) = text {
            details.insert(name.into(), Json::from(text));
        }
    }
    if let Some(ErrorPosition::Original(position)) = said.position() {
        details.insert("position".into(), Json::from(*position));
    }
    TaskError {
        code: Some(Json::from(code)),
        details: Some(details.into()),
        ..TaskError::new(kind(code), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_kind() {
        for (code, expected) in [
            ("08006", TaskErrorKind::DbConnection),
            ("23505", TaskErrorKind::DbConstraint),
            ("40001", TaskErrorKind::DbDeadlock),
            ("40P01", TaskErrorKind::DbDeadlock),
            ("40002", TaskErrorKind::DbError),
            ("57014", TaskErrorKind::DbTimeout),
            ("55P03", TaskErrorKind::DbTimeout),
            ("57P01", TaskErrorKind::DbConnection),
            ("53300", TaskErrorKind::DbConnection),
            ("28P01", TaskErrorKind::Auth),
            ("42601", TaskErrorKind::DbError),
            ("", TaskErrorKind::DbError),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }
}
