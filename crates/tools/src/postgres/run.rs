//! Statements of a task, run in order on one connection.

use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use noetl_playbook::sql::split_rendered;
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use super::bind::{Bound, bound};
use super::decode::{Raw, value};
use super::fault;
use crate::config::{Config, missing, wrong};
use crate::source::Sources;
use crate::sql::{Answer, Room, Shape, quoted, texts};

/// Settings of a session that a task may choose; all of them are durations.
const OPTIONS: [&str; 3] = [
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
];

/// What a task asks for.
pub(super) struct Order {
    statements: Vec<String>,
    params: Vec<Json>,
    shape: Shape,
    in_transaction: bool,
    session: Vec<(String, String)>,
}

impl Order {
    pub(super) async fn read(config: Config<'_>, sources: &Sources) -> Result<Self, TaskError> {
        let mut statements = Vec::new();
        for text in texts(config, sources).await? {
            let ranges = split_rendered(&text);
            statements.extend(ranges.into_iter().map(|range| text[range].to_owned()));
        }
        if statements.is_empty() {
            return Err(missing("a statement"));
        }
        let params = match config.get("params") {
            Some(Json::List(params)) => params.to_vec(),
            Some(other) => return Err(wrong("params", "a list, for $1, $2 and so on", other)),
            None => Vec::new(),
        };
        if !params.is_empty() && statements.len() > 1 {
            let message = format!(
                "'params' go with one statement, and here are {}",
                statements.len()
            );
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        Ok(Self {
            statements,
            params,
            shape: if config.flag("as_objects")?.unwrap_or(true) {
                Shape::Objects
            } else {
                Shape::Lists
            },
            in_transaction: config.flag("transaction")?.unwrap_or(false),
            session: session(config)?,
        })
    }

    /// Whether a connection is as before once the usual has been undone. Statements that are
    /// prepared by name survive that.
    pub(super) fn leaves_no_traces(&self) -> bool {
        let prepares = |text: &String| text.to_ascii_lowercase().contains("prepare");
        !self.statements.iter().any(prepares)
    }

    /// Runs the statements until one fails. What went well before stays, unless all of them are in
    /// one transaction.
    pub(super) async fn run(
        &self,
        client: &Client,
        mut room: Room,
    ) -> (Vec<Answer>, Option<TaskError>) {
        let mut answers = Vec::new();
        let ran = self.run_into(client, &mut room, &mut answers).await;
        let Err(mut error) = ran else {
            return (answers, None);
        };
        if self.in_transaction {
            // A connection that cannot even do that is closed, which comes to the same.
            client.batch_execute("ROLLBACK").await.ok();
        }
        if self.statements.len() > 1 {
            let mut details = error.details.as_ref().and_then(Json::as_map).cloned();
            let details = details.get_or_insert_default();
            details.insert("statement".into(), Json::from(answers.len()));
            error.details = Some(std::mem::take(details).into());
        }
        (answers, Some(error))
    }

    async fn run_into(
        &self,
        client: &Client,
        room: &mut Room,
        answers: &mut Vec<Answer>,
    ) -> Result<(), TaskError> {
        set_up(client, &self.session).await?;
        if self.in_transaction {
            client
                .batch_execute("BEGIN")
                .await
                .map_err(fault::of_statement)?;
        }
        for statement in &self.statements {
            answers.push(self.one(client, statement, room).await?);
        }
        if self.in_transaction {
            client
                .batch_execute("COMMIT")
                .await
                .map_err(fault::of_statement)?;
        }
        Ok(())
    }

    async fn one(&self, client: &Client, text: &str, room: &mut Room) -> Result<Answer, TaskError> {
        let statement = client.prepare(text).await.map_err(fault::of_statement)?;
        let params = bind_all(&self.params, statement.params())?;
        let columns = columns(&statement);
        let stream = client
            .query_raw(&statement, params)
            .await
            .map_err(fault::of_statement)?;
        let mut stream = pin!(stream);
        let mut rows = Vec::new();
        while let Some(row) = stream.try_next().await.map_err(fault::of_statement)? {
            let row = self.shape.row(&columns, values(&row)?);
            room.take(&row)?;
            rows.push(row);
        }
        Ok(if columns.is_empty() {
            Answer::Count(stream.rows_affected().unwrap_or(0))
        } else {
            Answer::Rows { columns, rows }
        })
    }
}

/// The names of what a statement gives.
pub(super) fn columns(statement: &Statement) -> Vec<Arc<str>> {
    let names = statement.columns().iter();
    names.map(|column| Arc::from(column.name())).collect()
}

/// The values of a row, in the order of its columns.
pub(super) fn values(row: &Row) -> Result<Vec<Json>, TaskError> {
    let cells = row.columns().iter().enumerate().map(|(index, column)| {
        let raw: Raw<'_> = row.try_get(index).map_err(fault::of_statement)?;
        Ok(value(column.type_(), raw.0))
    });
    cells.collect()
}

/// Values for all parameters of a statement.
pub(super) fn bind_all(params: &[Json], types: &[Type]) -> Result<Vec<Bound>, TaskError> {
    if params.len() != types.len() {
        let message = format!(
            "the statement has {} parameters, but 'params' has {} values",
            types.len(),
            params.len()
        );
        return Err(TaskError::new(TaskErrorKind::Schema, message));
    }
    let pairs = params.iter().zip(types).enumerate();
    pairs
        .map(|(index, (param, ty))| bound(&format!("params[{index}]"), param, ty))
        .collect()
}

/// The settings that a task wants its session to have.
fn session(config: Config<'_>) -> Result<Vec<(String, String)>, TaskError> {
    let mut session = Vec::new();
    if let Some(schema) = config.text("schema")? {
        let path: Vec<String> = schema.split(',').map(|name| quoted(name.trim())).collect();
        session.push(("search_path".to_owned(), path.join(", ")));
    }
    let none = JsonMap::new();
    for (name, value) in config.map("options")?.unwrap_or(&none) {
        if !OPTIONS.contains(&&**name) {
            let message = format!("'options.{name}' is not known; use {}", OPTIONS.join(", "));
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        let time = Millis::from_json(value)
            .map_err(|error| TaskError::new(TaskErrorKind::Schema, error.to_string()))?;
        session.push((name.to_string(), time.as_ms().to_string()));
    }
    Ok(session)
}

async fn set_up(client: &Client, session: &[(String, String)]) -> Result<(), TaskError> {
    for (name, value) in session {
        client
            .execute("SELECT set_config($1, $2, false)", &[name, value])
            .await
            .map_err(fault::of_statement)?;
    }
    Ok(())
}
