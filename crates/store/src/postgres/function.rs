//! The append as a function of the database.
//!
//! One statement that says everything at once is set up by the server from the beginning each time,
//! which takes longer than the writing itself; the statements inside of a function are set up once
//! for each connection, and only those that an append needs are run.
//!
//! The function belongs to this program, not to the tables: its name is a digest of its text, and
//! who opens the database makes it if it is not there. So programs of two releases can work on one
//! database, each with its own.

use std::sync::LazyLock;

use noetl_types::sha256;
use tokio_postgres::GenericClient;

use super::record::definition;
use crate::row::{
    ANSWERED, CACHE, COMMAND, DEDUP, ERRAND, EVENT, EXECUTION, EXECUTION_CHANGING, Kind,
    NEW_OUTBOX, PATCH, RESULT, SLOT, TIMER, Table, WAIT,
};

/// A row of a parameter, column by column.
type Columns = &'static [(&'static str, Kind)];

/// What an item says besides the columns of its execution.
const EXPECTED: Columns = &[
    ("expected", Kind::Int),
    ("expected_chain", Kind::Bytes),
    ("starts", Kind::Bool),
    ("is_audit", Kind::Bool),
];

/// The execution of a fence, before what the fence says.
const OF_EXECUTION: Columns = &[("execution_id", Kind::Int)];

/// The statement about a lease, as columns.
pub(super) const FENCE: Columns = &[
    ("place", Kind::Int),
    ("command_id", Kind::Int),
    ("attempt", Kind::Int),
    ("token", Kind::Bytes),
    ("worker", Kind::Text),
    ("expired_by", Kind::Time),
];

/// What becomes of a row that executions share.
const ACT: Columns = &[("act", Kind::Text)];

/// The execution of a row that may name another one itself.
const BY_EXECUTION: Columns = &[("of_execution", Kind::Int)];

/// The clock of a request.
const NOW: Columns = &[("now", Kind::Time)];

/// The parameters that are rows: the end of the name of each type, and its columns.
fn parameters() -> [(&'static str, Vec<Columns>); 8] {
    [
        ("item", vec![EXPECTED, EXECUTION.columns]),
        ("event", vec![EVENT.columns]),
        ("fence", vec![OF_EXECUTION, FENCE]),
        ("command", vec![COMMAND.columns]),
        ("patch", vec![PATCH.columns]),
        ("timer", vec![TIMER.columns]),
        ("result", vec![RESULT.columns]),
        ("outbox", vec![NEW_OUTBOX.columns]),
    ]
}

/// Those of groups that touch what executions share, besides.
fn shared_parameters() -> [(&'static str, Vec<Columns>); 6] {
    [
        ("wait", vec![ACT, WAIT.columns]),
        ("errand", vec![ACT, ERRAND.columns]),
        ("slot", vec![ACT, SLOT.columns]),
        ("cached", vec![BY_EXECUTION, CACHE.columns]),
        ("request", vec![NOW, ANSWERED.columns]),
        ("message", vec![DEDUP.columns]),
    ]
}

/// The function that appends.
pub(super) static APPEND: LazyLock<Function> = LazyLock::new(|| Function::append(Sharing::Nothing));

/// The function that appends and touches what executions share.
pub(super) static APPEND_SHARED: LazyLock<Function> =
    LazyLock::new(|| Function::append(Sharing::Something));

/// Whether a function is for groups that touch what executions share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Nothing,
    Something,
}

impl Sharing {
    /// The lines of a text that are for it.
    fn cut(self, text: &str) -> String {
        let mut cut = String::new();
        let mut is_wanted = true;
        for line in text.lines() {
            match line {
                "--if shared" => is_wanted = self == Self::Something,
                "--end" => is_wanted = true,
                line if is_wanted => {
                    cut.push_str(line);
                    cut.push('\n');
                }
                _ => {}
            }
        }
        cut
    }
}

/// Places in the text for the columns of a table that executions share.
fn columns_of(place: &str, table: &Table, row: &str) -> [(String, String); 3] {
    [
        (format!("{{{place}_columns}}"), table.list()),
        (format!("{{new_{place}_columns}}"), table.list_of(row)),
        (
            format!("{{excluded_{place}_columns}}"),
            table.list_of("excluded."),
        ),
    ]
}

/// A function of the database that belongs to this program.
#[derive(Debug)]
pub(super) struct Function {
    name: String,
    definition: String,
    /// The statement that calls it.
    pub(super) call: String,
}

impl Function {
    fn append(sharing: Sharing) -> Self {
        let mut parameters = parameters().to_vec();
        // Behind the rows come the ids of commands, and behind shared rows the keys of claims.
        let mut count = parameters.len() + 1;
        if sharing == Sharing::Something {
            let shared = shared_parameters();
            count += shared.len() + 1;
            parameters.extend(shared);
        }
        let mut text = String::new();
        for (suffix, columns) in parameters {
            let columns = definition(&columns);
            text.push_str(&format!("CREATE TYPE {{name}}_{suffix} AS ({columns});\n"));
        }
        text.push_str(&sharing.cut(include_str!("sql/append.sql")));
        for (place, columns) in [
            columns_of("wait", &WAIT, "new_wait."),
            columns_of("errand", &ERRAND, "new_errand."),
            columns_of("slot", &SLOT, "new_slot."),
            columns_of("cache", &CACHE, "new_cache."),
            columns_of("request", &ANSWERED, "request."),
            columns_of("message", &DEDUP, "message."),
        ]
        .into_iter()
        .flatten()
        {
            text = text.replace(&place, &columns);
        }
        for (place, columns) in [
            ("{execution_columns}", EXECUTION.list()),
            ("{item_execution_columns}", EXECUTION.list_of("item.")),
            ("{changing_columns}", EXECUTION_CHANGING.list()),
            (
                "{item_changing_columns}",
                EXECUTION_CHANGING.list_of("item."),
            ),
            ("{event_columns}", EVENT.list()),
            ("{new_event_columns}", EVENT.list_of("new_event.")),
            ("{command_columns}", COMMAND.list()),
            ("{new_command_columns}", COMMAND.list_of("new_command.")),
            ("{result_columns}", RESULT.list()),
            ("{new_result_columns}", RESULT.list_of("new_result.")),
        ] {
            text = text.replace(place, &columns);
        }
        let places: Vec<_> = (1..=count).map(|place| format!("${place}")).collect();
        let digest = sha256(&text).to_string();
        let name = format!("append_{}", digest.get(..16).unwrap_or(&digest));
        Self {
            definition: text.replace("{name}", &name),
            call: format!("SELECT * FROM {name}({})", places.join(", ")),
            name,
        }
    }

    /// Makes it where it is missing. The caller holds the lock under which tables change.
    pub(super) async fn ensure(
        &self,
        client: &impl GenericClient,
    ) -> Result<(), tokio_postgres::Error> {
        let exists = "SELECT EXISTS (
            SELECT
            FROM pg_proc
            WHERE proname = $1 AND pronamespace = current_schema()::regnamespace
        )";
        let row = client.query_one(exists, &[&self.name]).await?;
        if !row.try_get::<_, bool>(0)? {
            client.batch_execute(&self.definition).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_complete() {
        for function in [&*APPEND, &*APPEND_SHARED] {
            let Function {
                name, definition, ..
            } = function;
            assert!(definition.contains(&format!("CREATE FUNCTION {name}(")));
            let is_left = |word: &str| word.starts_with(['{', '(']) && word.contains("_columns}");
            let left: Vec<_> = definition
                .split_whitespace()
                .filter(|it| is_left(it) || it.starts_with("--if") || it.starts_with("--end"))
                .collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }

    #[test]
    fn most_appends_know_nothing_of_what_is_shared() {
        for table in [&WAIT, &ERRAND, &SLOT, &CACHE, &ANSWERED, &DEDUP] {
            let into = format!("INSERT INTO {} (", table.name);
            assert!(!APPEND.definition.contains(&into), "{into}");
            assert!(APPEND_SHARED.definition.contains(&into), "{into}");
        }
    }
}
