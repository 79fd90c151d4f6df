//! Statements of a task, run in order on one connection.

use noetl_playbook::sql::split_rendered;
use noetl_types::{ByteSize, TaskError, TaskErrorKind};
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection, Statement};

use super::fault;
use super::stop::Stop;
use super::value::{Params, row};
use crate::config::{Config, missing};
use crate::source::Sources;
use crate::sql::{Answer, Room, Shape, Texts, texts};

/// What a task asks for.
pub(super) struct Order {
    texts: Texts,
    params: Params,
    shape: Shape,
    in_transaction: bool,
    cap: ByteSize,
}

impl Order {
    pub(super) async fn read(
        config: Config<'_>,
        sources: &Sources,
        cap: ByteSize,
    ) -> Result<Self, TaskError> {
        let texts = texts(config, sources).await?;
        let count: usize = texts.iter().map(|text| split_rendered(text).len()).sum();
        let params = Params::read(config.get("params"))?;
        if count == 0 {
            return Err(missing("a statement"));
        }
        if !params.is_empty() && count > 1 {
            let message = format!("'params' go with one statement, and here are {count}");
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        Ok(Self {
            texts,
            params,
            shape: if config.flag("as_objects")?.unwrap_or(true) {
                Shape::Objects
            } else {
                Shape::Lists
            },
            in_transaction: config.flag("transaction")?.unwrap_or(false),
            cap,
        })
    }

    /// Runs the statements until one fails. What went well before stays, unless all of them are in
    /// one transaction.
    pub(super) fn run(
        &self,
        connection: &mut Connection,
        stop: &Stop,
    ) -> (Vec<Answer>, Option<TaskError>) {
        let mut answers = Vec::new();
        let ran = stop
            .watch(connection)
            .map_err(fault::of)
            .and_then(|()| self.run_into(connection, stop, &mut answers));
        let left = stop.leave(connection).map_err(fault::of);
        if !connection.is_autocommit() {
            // A transaction that nobody ended ends like one of a connection that is closed.
            connection.execute_batch("ROLLBACK").ok();
        }
        (answers, ran.and(left).err())
    }

    fn run_into(
        &self,
        connection: &Connection,
        stop: &Stop,
        answers: &mut Vec<Answer>,
    ) -> Result<(), TaskError> {
        let mut room = Room::new(self.cap);
        if self.in_transaction {
            connection.execute_batch("BEGIN").map_err(fault::of)?;
        }
        for text in &self.texts {
            // The database itself cuts the text, one statement after the other has run.
            let mut statements = Batch::new(connection, text);
            while let Some(mut statement) = statements.next().map_err(fault::of)? {
                if stop.is_stopped() {
                    return Err(TaskError::new(
                        TaskErrorKind::Cancelled,
                        "the task was stopped",
                    ));
                }
                self.params.bind(&mut statement)?;
                answers.push(self.one(connection, &mut statement, &mut room)?);
            }
        }
        if self.in_transaction {
            connection.execute_batch("COMMIT").map_err(fault::of)?;
        }
        Ok(())
    }

    fn one(
        &self,
        connection: &Connection,
        statement: &mut Statement<'_>,
        room: &mut Room,
    ) -> Result<Answer, TaskError> {
        let names = statement.column_names();
        let columns: Vec<_> = names.into_iter().map(Into::into).collect();
        if columns.is_empty() {
            let before = connection.total_changes();
            statement.raw_execute().map_err(fault::of)?;
            // What changes no rows leaves the number of the statement before it.
            let changed = connection.total_changes() != before;
            return Ok(Answer::Count(if changed {
                connection.changes()
            } else {
                0
            }));
        }
        let mut found = statement.raw_query();
        let mut rows = Vec::new();
        while let Some(next) = found.next().map_err(fault::of)? {
            let row = self.shape.row(&columns, row(next, columns.len())?);
            room.take(&row)?;
            rows.push(row);
        }
        Ok(Answer::Rows { columns, rows })
    }
}
