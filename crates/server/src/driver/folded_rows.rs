//! The rows that a log implies, to be compared with the stored ones.

use std::collections::{BTreeMap, BTreeSet};

use noetl_engine::event::{EventKind, PlaybookStarted};
use noetl_store::{
    Command, DueTimer, Execution, ExecutionFacts, ExecutionOrigin, NewCommand, OpenWait,
};
use noetl_types::limits::Priority;
use noetl_types::{CommandId, PoolName, StoredEvent, Text, Timestamp};

use super::Driver;
use super::loaded_execution::{LoadedExecution, encode_state, snapshot_key};
use super::queue_delta::{FoldedCommand, FoldedQueue, QueueDefaults};
use crate::error::{Result, error_chain};

/// The fold of the log of an execution that this system drives.
pub(crate) struct FoldedRows {
    execution: LoadedExecution,
    queue: FoldedQueue,
    started: Option<PlaybookStarted>,
}

/// The stored rows that the log of an execution implies, in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct StoredRows {
    pub(crate) commands: Vec<Command>,
    pub(crate) timers: Vec<DueTimer>,
    pub(crate) waits: Vec<OpenWait>,
}

/// A stored value that differs from the fold of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowDifference {
    /// Table and key of the row, or the column of an execution.
    pub(crate) subject: Text,
    pub(crate) stored: Text,
    pub(crate) folded: Text,
}

/// Collects differences.
#[derive(Debug, Default)]
pub(crate) struct Differences(pub(crate) Vec<RowDifference>);

/// Formats a value for people. An optional value that is present looks like any other.
fn format_value(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    let inner = text.strip_prefix("Some(").and_then(|text| text.strip_suffix(')'));
    inner.map_or(text.clone(), str::to_owned)
}

impl Differences {
    pub(crate) fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        subject: impl Into<Text>,
        stored: &T,
        folded: &T,
    ) {
        if stored != folded {
            self.add(subject, format_value(stored), format_value(folded));
        }
    }

    pub(crate) fn add(
        &mut self,
        subject: impl Into<Text>,
        stored: impl Into<Text>,
        folded: impl Into<Text>,
    ) {
        let (subject, stored, folded) = (subject.into(), stored.into(), folded.into());
        self.0.push(RowDifference { subject, stored, folded });
    }
}

impl FoldedRows {
    /// Creates the fold of no events.
    pub(crate) async fn without_events(driver: &Driver, execution: &Execution) -> Result<Self> {
        Ok(Self {
            execution: LoadedExecution::without_events(driver, execution).await?,
            queue: FoldedQueue::new(),
            started: None,
        })
    }

    /// Folds the next event. The error is the reason that it does not fit the log before it.
    pub(crate) fn apply_event(&mut self, stored: &StoredEvent) -> Result<(), String> {
        let applied = self.execution.apply_event(stored);
        let event = applied.map_err(|error| error_chain(&*error))?;
        let defaults =
            QueueDefaults { pool: &self.execution.pool, priority: self.execution.priority };
        self.queue.add_event(&event, &self.execution.state, &defaults);
        if let EventKind::PlaybookStarted(started) = event.kind {
            self.started.get_or_insert(*started);
        }
        Ok(())
    }

    /// Returns the state as a snapshot contains it, if the key is one of the driver's snapshots.
    pub(crate) fn snapshot_bytes(&self, key: &noetl_store::SnapshotKey) -> Option<Vec<u8>> {
        (*key == snapshot_key()).then(|| encode_state(&self.execution.state)).flatten()
    }

    /// Compares the row of the execution with the log up to the row's version.
    pub(crate) fn compare_execution(&self, row: &Execution, differences: &mut Differences) {
        let view = self.execution.list_view();
        differences.compare("execution.status", &row.view.status, &view.status);
        differences.compare("execution.paused", &row.view.paused, &view.paused);
        let (stored, folded) = (&row.view.last_node_name, &view.last_node_name);
        differences.compare("execution.last_node_name", stored, folded);
        differences.compare("execution.ended_at", &row.view.ended_at, &view.ended_at);
        differences.compare("execution.error", &row.view.error, &view.error);
        match &self.started {
            Some(started) => compare_facts(&row.facts, started, differences),
            None => differences.add("execution", "an execution", "no start event"),
        }
    }

    /// Compares the other rows of the execution with the log.
    pub(crate) fn compare_rows(&self, rows: &StoredRows, differences: &mut Differences) {
        self.compare_commands(&rows.commands, differences);
        let key = |timer: &DueTimer| (timer.timer_id.clone(), timer.fire_at);
        let stored: BTreeMap<Text, Timestamp> = rows.timers.iter().map(key).collect();
        compare_maps("timer", &stored, &self.execution.open_timers(), differences);
        self.compare_waits(&rows.waits, differences);
    }

    fn compare_commands(&self, rows: &[Command], differences: &mut Differences) {
        let mut open: BTreeSet<CommandId> = BTreeSet::new();
        for row in rows {
            let subject = format!("command {}", row.command_id);
            match self.queue.rows().get(&row.command_id) {
                Some(FoldedCommand::Open(command)) => {
                    open.insert(row.command_id);
                    compare_open_command(&subject, row, command, differences);
                }
                Some(FoldedCommand::Ended { step, end, at, error }) => {
                    let stored = (row.status, row.completed_at, &row.error);
                    let folded = (end.status(), Some(*at), error);
                    differences.compare(&*subject, &stored, &folded);
                    let subject = format!("{subject}.step_name");
                    differences.compare(subject, &row.instance.step_name, step);
                }
                None => differences.add(subject, row.status.as_str(), "no such command"),
            }
        }
        for (command_id, command) in self.queue.rows() {
            if matches!(command, FoldedCommand::Open(_)) && !open.contains(command_id) {
                differences.add(format!("command {command_id}"), "no row", "an open command");
            }
        }
    }

    fn compare_waits(&self, rows: &[OpenWait], differences: &mut Differences) {
        let mut stored: BTreeMap<CommandId, Vec<&OpenWait>> = BTreeMap::new();
        for row in rows {
            stored.entry(row.position.command_id).or_default().push(row);
        }
        let folded = self.execution.open_waits();
        for (command_id, wait) in &folded {
            let subject = format!("wait {command_id}");
            let Some(rows) = stored.remove(command_id) else {
                differences.add(subject, "no row", "an open wait");
                continue;
            };
            let names = rows.iter().map(|row| (row.position.number, row.awaited.clone()));
            let (names, folded): (Vec<_>, Vec<_>) =
                (names.collect(), (0..).zip(wait.names.iter().cloned()).collect());
            differences.compare(format!("{subject}.name"), &names, &folded);
            for row in rows {
                let stored = (row.kind, &row.step, row.index, row.until, &row.detail);
                let folded = (wait.kind, &wait.step, wait.index, wait.until, &wait.detail);
                differences.compare(&*subject, &stored, &folded);
            }
        }
        for command_id in stored.into_keys() {
            differences.add(format!("wait {command_id}"), "an open wait", "no such wait");
        }
    }
}

/// Compares the attributes that the start event records.
fn compare_facts(row: &ExecutionFacts, started: &PlaybookStarted, differences: &mut Differences) {
    let origin = ExecutionOrigin::Driven;
    differences.compare("execution.origin", &row.origin, &origin);
    differences.compare("execution.catalog_id", &row.catalog_id, &Some(started.catalog_id));
    differences.compare("execution.path", &row.path.as_ref(), &Some(&started.path));
    let version = Some(started.version);
    differences.compare("execution.playbook_version", &row.playbook_version, &version);
    let definition = Some(started.definition_sha256);
    differences.compare("execution.definition_sha256", &row.definition_sha256, &definition);
    let (stored, folded) = (&row.parent_execution_id, &started.parent_execution_id);
    differences.compare("execution.parent_execution_id", stored, folded);
    let pool = started.execution_pool.clone().unwrap_or_else(PoolName::shared);
    differences.compare("execution.pool", &row.pool, &pool);
    let priority = Priority::clamped(started.priority.unwrap_or_default().into());
    differences.compare("execution.priority", &row.priority, &priority);
}

fn compare_open_command(
    subject: &str,
    row: &Command,
    command: &NewCommand,
    differences: &mut Differences,
) {
    if row.status.is_terminal() {
        differences.add(format!("{subject}.status"), row.status.as_str(), "an open command");
    }
    let stored = (&row.instance, &row.tool_kind, &row.pool, row.priority);
    let folded = (&command.instance, &command.tool_kind, &command.pool, command.priority);
    differences.compare(subject, &stored, &folded);
    let stored = (row.max_attempts, row.deadline, row.held);
    let folded = (command.max_attempts, command.deadline, command.held);
    differences.compare(subject, &stored, &folded);
}

fn compare_maps<V: PartialEq + ToString>(
    table: &str,
    stored: &BTreeMap<Text, V>,
    folded: &BTreeMap<Text, V>,
    differences: &mut Differences,
) {
    let text = |value: Option<&V>| value.map_or("no row".to_owned(), V::to_string);
    let keys: BTreeSet<&Text> = stored.keys().chain(folded.keys()).collect();
    for key in keys {
        let (stored, folded) = (stored.get(key), folded.get(key));
        if stored != folded {
            differences.add(format!("{table} {key}"), text(stored), text(folded));
        }
    }
}
