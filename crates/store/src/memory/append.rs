//! Appends: all checks first, then all writes.

use noetl_types::{ExecutionVersion, FeedPosition, StoredEvent};

use super::coordination_state::CoordinationChanges;
use super::state::MemoryState;
use crate::model::{AppendError, AppendReceipt, CommandChange, Execution, NewResult, TimerChange};
use crate::prepare_append::PreparedAppend;

impl MemoryState {
    pub(super) fn apply_append(
        &mut self,
        prepared: PreparedAppend,
    ) -> Result<AppendReceipt, AppendError> {
        self.check_preconditions(&prepared)?;
        let head = prepared.head;
        self.write_execution(&prepared);
        let feed = self.write_events(&prepared);
        self.publishing.append_outbox_rows(&prepared);
        let execution_id = prepared.append.execution_id;
        let tenant_id = prepared.tenant_id.clone();
        for change in prepared.append.commands {
            self.change_command(execution_id, change);
        }
        for result in prepared.append.results {
            let key = (execution_id, result.result_id);
            let result = result.into_stored(execution_id, head.ingest_time);
            self.results.insert(key, result);
        }
        for change in prepared.append.timers {
            match change {
                TimerChange::Arm { timer_id, fire_at } => {
                    self.timers.insert((execution_id, timer_id), fire_at);
                }
                TimerChange::Disarm { timer_id } => {
                    self.timers.remove(&(execution_id, timer_id));
                }
            }
        }
        self.coordination.apply_changes(CoordinationChanges {
            tenant_id,
            execution_id,
            ingest_time: head.ingest_time,
            waits: prepared.append.waits,
            follow_ups: prepared.append.follow_ups,
            slots: prepared.append.slots,
            cache_puts: prepared.append.cache_puts,
            dedup: prepared.append.dedup,
            idempotency: prepared.append.idempotency,
        });
        Ok(AppendReceipt { head, feed })
    }

    /// All backends make these checks in the same order.
    fn check_preconditions(&self, prepared: &PreparedAppend) -> Result<(), AppendError> {
        let append = &prepared.append;
        if self.is_dropped(append.execution_id) {
            return Err(AppendError::Dropped);
        }
        let execution = self.executions.get(&append.execution_id);
        match (execution, &append.start) {
            (Some(_), Some(_)) => return Err(AppendError::AlreadyExists),
            (None, None) => return Err(AppendError::NotFound),
            (None, Some(_)) => {}
            (Some(execution), None) => {
                let head = execution.head;
                let expected = append.expected_head;
                if head.version != expected.version || head.chain != expected.chain {
                    return Err(AppendError::Conflict { actual: head.version });
                }
                if execution.view.status.is_terminal() && !prepared.is_audit {
                    return Err(AppendError::Terminal);
                }
            }
        }
        for fence in &append.fences {
            let is_satisfied = self.commands.get(&fence.command_id).is_some_and(|command| {
                command.execution_id == append.execution_id && fence.is_satisfied_by(command)
            });
            if !is_satisfied {
                return Err(AppendError::Fenced { command_id: fence.command_id });
            }
        }
        self.coordination.check_keys(prepared)?;
        self.check_ids(prepared)
    }

    fn check_ids(&self, prepared: &PreparedAppend) -> Result<(), AppendError> {
        let log = self.logs.get(&prepared.append.execution_id);
        let mut ids = std::collections::BTreeSet::new();
        let events_are_new = prepared.events.iter().all(|event| {
            let id = event.record.event.event_id;
            ids.insert(id) && !log.is_some_and(|log| log.by_id.contains_key(&id))
        });
        let commands_are_new = prepared.append.commands.iter().all(|change| match change {
            CommandChange::Issue(command) => !self.commands.contains_key(&command.command_id),
            CommandChange::Run { .. }
            | CommandChange::Close { .. }
            | CommandChange::Requeue { .. }
            | CommandChange::Hold { .. } => true,
        });
        let execution_id = prepared.append.execution_id;
        let is_new = |result: &NewResult| {
            let key = (execution_id, result.result_id);
            !self.results.contains_key(&key)
        };
        let results_are_new = prepared.append.results.iter().all(is_new);
        if events_are_new && commands_are_new && results_are_new {
            Ok(())
        } else {
            Err(AppendError::IdTaken)
        }
    }

    fn write_execution(&mut self, prepared: &PreparedAppend) {
        let Some((last_event_id, last_event_type)) = prepared.last_event() else {
            return;
        };
        let append = &prepared.append;
        if let Some(facts) = &append.start {
            self.executions.insert(
                append.execution_id,
                Execution {
                    execution_id: append.execution_id,
                    head: prepared.head,
                    facts: facts.clone(),
                    view: append.view.clone(),
                    last_event_id,
                    last_event_type: last_event_type.clone(),
                },
            );
        } else if let Some(execution) = self.executions.get_mut(&append.execution_id) {
            execution.head = prepared.head;
            execution.view = append.view.clone();
            execution.last_event_id = last_event_id;
            execution.last_event_type = last_event_type.clone();
        }
    }

    fn write_events(&mut self, prepared: &PreparedAppend) -> FeedPosition {
        let log = self.logs.entry(prepared.append.execution_id).or_default();
        for event in &prepared.events {
            self.last_position += 1;
            let feed = FeedPosition { tx: 0, position: self.last_position };
            let version = ExecutionVersion::from(event.record.seq);
            log.by_id.insert(event.record.event.event_id, version);
            log.events.push(StoredEvent { record: event.record.clone(), chain: event.chain, feed });
            self.feed.insert(feed, (prepared.append.execution_id, version));
        }
        FeedPosition { tx: 0, position: self.last_position }
    }

    fn change_command(&mut self, execution_id: noetl_types::ExecutionId, change: CommandChange) {
        match (change.to_patch(), change) {
            (Some(patch), _) => {
                let command = self.commands.get_mut(&patch.command_id);
                if let Some(command) = command.filter(|it| it.execution_id == execution_id) {
                    patch.apply_to(command);
                }
            }
            (None, CommandChange::Issue(command)) => {
                let command = command.into_command(execution_id);
                self.commands.insert(command.command_id, command);
            }
            (
                None,
                CommandChange::Run { .. }
                | CommandChange::Close { .. }
                | CommandChange::Requeue { .. }
                | CommandChange::Hold { .. },
            ) => {}
        }
    }
}
