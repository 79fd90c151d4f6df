//! Appending: the verdict first, then everything at once.

use noetl_types::{FeedPosition, StoredEvent, Version};

use super::shared::Sharing;
use super::state::State;
use crate::model::{AppendRefused, Appended, CommandChange, Execution, NewResult, TimerChange};
use crate::seal::Sealed;

impl State {
    pub(super) fn append(&mut self, sealed: Sealed) -> Result<Appended, AppendRefused> {
        self.judge(&sealed)?;
        let head = sealed.head;
        self.write_execution(&sealed);
        let feed = self.write_events(&sealed);
        self.outlets.append(&sealed);
        let execution_id = sealed.append.execution_id;
        let tenant_id = sealed.tenant_id.clone();
        for change in sealed.append.commands {
            self.change_command(execution_id, change);
        }
        for result in sealed.append.results {
            let key = (execution_id, result.result_id);
            let result = result.into_stored(execution_id, head.ingest_time);
            self.results.insert(key, result);
        }
        for change in sealed.append.timers {
            match change {
                TimerChange::Arm { timer_id, fire_at } => {
                    self.timers.insert((execution_id, timer_id), fire_at);
                }
                TimerChange::Disarm { timer_id } => {
                    self.timers.remove(&(execution_id, timer_id));
                }
            }
        }
        self.shared.append(Sharing {
            tenant_id,
            execution_id,
            ingest_time: head.ingest_time,
            waits: sealed.append.waits,
            errands: sealed.append.errands,
            slots: sealed.append.slots,
            cached: sealed.append.cached,
            dedup: sealed.append.dedup,
            idempotency: sealed.append.idempotency,
        });
        Ok(Appended { head, feed })
    }

    /// The order of these questions is part of what all backends agree on.
    fn judge(&self, sealed: &Sealed) -> Result<(), AppendRefused> {
        let append = &sealed.append;
        if self.is_gone(append.execution_id) {
            return Err(AppendRefused::Gone);
        }
        let execution = self.executions.get(&append.execution_id);
        match (execution, &append.start) {
            (Some(_), Some(_)) => return Err(AppendRefused::AlreadyExists),
            (None, None) => return Err(AppendRefused::NotFound),
            (None, Some(_)) => {}
            (Some(execution), None) => {
                let head = execution.head;
                let expected = append.expected;
                if head.version != expected.version || head.chain != expected.chain {
                    return Err(AppendRefused::Conflict {
                        actual: head.version,
                    });
                }
                if execution.view.status.is_terminal() && !sealed.is_audit {
                    return Err(AppendRefused::Terminal);
                }
            }
        }
        for fence in &append.fences {
            let holds = self.commands.get(&fence.command_id).is_some_and(|command| {
                command.execution_id == append.execution_id && fence.holds(command)
            });
            if !holds {
                return Err(AppendRefused::Fenced {
                    command_id: fence.command_id,
                });
            }
        }
        self.shared.judge(sealed)?;
        self.check_ids(sealed)
    }

    fn check_ids(&self, sealed: &Sealed) -> Result<(), AppendRefused> {
        let log = self.logs.get(&sealed.append.execution_id);
        let mut ids = std::collections::BTreeSet::new();
        let events_are_new = sealed.events.iter().all(|event| {
            let id = event.record.event.event_id;
            ids.insert(id) && !log.is_some_and(|log| log.by_id.contains_key(&id))
        });
        let commands_are_new = sealed.append.commands.iter().all(|change| match change {
            CommandChange::Issue(command) => !self.commands.contains_key(&command.command_id),
            CommandChange::Run { .. }
            | CommandChange::Close { .. }
            | CommandChange::Requeue { .. }
            | CommandChange::Hold { .. } => true,
        });
        let execution_id = sealed.append.execution_id;
        let is_new = |result: &NewResult| {
            let key = (execution_id, result.result_id);
            !self.results.contains_key(&key)
        };
        let results_are_new = sealed.append.results.iter().all(is_new);
        if events_are_new && commands_are_new && results_are_new {
            Ok(())
        } else {
            Err(AppendRefused::IdTaken)
        }
    }

    fn write_execution(&mut self, sealed: &Sealed) {
        let Some((last_event_id, last_event_type)) = sealed.last_event() else {
            return;
        };
        let append = &sealed.append;
        if let Some(facts) = &append.start {
            self.executions.insert(
                append.execution_id,
                Execution {
                    execution_id: append.execution_id,
                    head: sealed.head,
                    facts: facts.clone(),
                    view: append.view.clone(),
                    last_event_id,
                    last_event_type: last_event_type.clone(),
                },
            );
        } else if let Some(execution) = self.executions.get_mut(&append.execution_id) {
            execution.head = sealed.head;
            execution.view = append.view.clone();
            execution.last_event_id = last_event_id;
            execution.last_event_type = last_event_type.clone();
        }
    }

    fn write_events(&mut self, sealed: &Sealed) -> FeedPosition {
        let log = self.logs.entry(sealed.append.execution_id).or_default();
        for event in &sealed.events {
            self.last_position += 1;
            let feed = FeedPosition {
                tx: 0,
                position: self.last_position,
            };
            let version = Version::from(event.record.seq);
            log.by_id.insert(event.record.event.event_id, version);
            log.events.push(StoredEvent {
                record: event.record.clone(),
                chain: event.chain,
                feed,
            });
            self.feed
                .insert(feed, (sealed.append.execution_id, version));
        }
        FeedPosition {
            tx: 0,
            position: self.last_position,
        }
    }

    fn change_command(&mut self, execution_id: noetl_types::ExecutionId, change: CommandChange) {
        match (change.patch(), change) {
            (Some(patch), _) => {
                let command = self.commands.get_mut(&patch.command_id);
                if let Some(command) = command.filter(|it| it.execution_id == execution_id) {
                    patch.apply(command);
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
