//! An append as rows.
//!
//! Whoever appends makes them, before a writer sees the append: what a writer does is what all
//! others wait for.

use super::cell::Cell;
use super::event::event_row;
#[cfg(feature = "postgres")]
use super::event::is_lean;
use super::tables::{command_row, execution_row, patch_row, result_row};
use crate::model::{AppendRefused, CommandChange, Fence, Head, TimerChange};
use crate::seal::Sealed;

type Row = Vec<Cell>;

/// An append that is ready to be written.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) execution_id: noetl_types::ExecutionId,
    /// Where the log must stand.
    pub(crate) expected: Head,
    /// Where it stands afterwards.
    pub(crate) head: Head,
    /// Whether it makes the execution.
    pub(crate) starts: bool,
    /// Whether the events may follow the end of the execution.
    pub(crate) is_audit: bool,
    pub(crate) fences: Vec<Fence>,
    pub(crate) timers: Vec<TimerChange>,
    pub(crate) execution: Row,
    pub(crate) events: Vec<Row>,
    /// Whether the events have nothing but the usual columns.
    #[cfg(feature = "postgres")]
    pub(crate) is_lean: bool,
    pub(crate) issued: Vec<Row>,
    /// Changes of commands, each with the number of its command.
    pub(crate) patches: Vec<(i64, Row)>,
    pub(crate) results: Vec<Row>,
    /// About how many bytes all of it has.
    pub(crate) bytes: usize,
}

/// Takes sealed appends apart.
pub(crate) fn rows_of(
    sealed: Vec<Result<Sealed, AppendRefused>>,
) -> Vec<Result<Rows, AppendRefused>> {
    sealed
        .into_iter()
        .map(|sealed| sealed.map(Rows::of))
        .collect()
}

impl Rows {
    fn of(mut sealed: Sealed) -> Self {
        let execution_id = sealed.append.execution_id;
        let execution = execution_row(&sealed);
        let events: Vec<_> = sealed.events.iter().map(event_row).collect();
        let results = sealed.append.results.iter();
        let results: Vec<_> = results.map(|result| result_row(&sealed, result)).collect();
        let mut issued = Vec::new();
        let mut patches = Vec::new();
        for change in std::mem::take(&mut sealed.append.commands) {
            if let Some(patch) = change.patch() {
                let row = patch_row(execution_id, &patch);
                patches.push((patch.command_id.get(), row));
            } else if let CommandChange::Issue(command) = change {
                issued.push(command_row(&command.into_command(execution_id)));
            }
        }
        let size = |rows: &[Row]| rows.iter().flatten().map(Cell::bytes_about).sum::<usize>();
        Self {
            bytes: size(&events) + size(&issued) + size(&results),
            execution_id,
            expected: sealed.append.expected,
            head: sealed.head,
            starts: sealed.append.start.is_some(),
            is_audit: sealed.is_audit,
            #[cfg(feature = "postgres")]
            is_lean: events.iter().all(|row| is_lean(row)),
            fences: sealed.append.fences,
            timers: sealed.append.timers,
            execution,
            events,
            issued,
            patches,
            results,
        }
    }
}
