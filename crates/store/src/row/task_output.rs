//! The table of task output.

use super::cell::Cell;
use super::table::{ColumnKind, CorruptRow, FromRow, RowCells, RowReader, Table, ToRow, table};
use crate::model::OutputChunk;

table! {
    TASK_OUTPUT = "task_output": OutputChunk {
        execution_id: Int,
        position: Int,
        command_id: Int,
        attempt: Int,
        number(chunk: Int),
        step_name: Text,
        iter_index: Int,
        task: Text,
        stdout: Text,
        stderr: Text,
        dropped_bytes: Int,
        is_last: Bool,
        created_at: Time,
        charge: Int,
        attempt_charge: Int,
        execution_charge: Int,
    }
}
