//! Random appends.

use noetl_types::limits::Priority;
use noetl_types::{CommandId, EventType, ExecutionVersion, LeaseToken, Millis, Text};

use super::super::fixture::{TestExecution, lease_terms, worker_id};
use super::super::result::new_result;
use super::RandomHistory;
use crate::{
    AppendError, AppendRequest, CommandChange, CommandEnd, Fence, LeaseCondition, LogHead, Store,
    TimerChange,
};

impl RandomHistory {
    pub(super) async fn start_execution(&mut self, store: &dyn Store) {
        // Sometimes starts an execution that already exists.
        if self.runs.is_empty() || !self.rng.one_in(5) {
            self.runs.push(TestExecution::new(self.next_run));
            self.next_run += 1;
        }
        let index = self.runs.len() - 1;
        let mut run = TestExecution::new(self.next_run - 1);
        let mut append = run.start_request();
        if self.rng.one_in(4) {
            append.results = vec![new_result(self.next_result, b"[]")];
            self.next_result += 1;
        }
        append.now = self.now;
        append.use_outbox = self.rng.one_in(2);
        if self.rng.one_in(3) {
            append.dedup = Some(self.random_dedup_reservation());
        }
        if self.rng.one_in(4) {
            self.add_coordination(&mut append);
        }
        let result = run.append_to(store, append).await;
        if result.is_ok() {
            self.runs[index] = run;
        }
        let failed = matches!(result, Err(AppendError::Store(_)));
        self.record_answer(&result.map(|it| it.head));
        if failed {
            self.reload_head(store, index).await;
        }
    }

    pub(super) async fn append_random(&mut self, store: &dyn Store) {
        if self.runs.is_empty() {
            return;
        }
        let index = self.random_index(self.runs.len());
        let (mut run, append) = self.random_append(index);
        let result = run.append_to(store, append).await;
        self.runs[index] = run;
        let failed = matches!(result, Err(AppendError::Store(_)));
        self.record_answer(&result.map(|it| it.head));
        if failed {
            self.reload_head(store, index).await;
        }
    }

    /// Several appends in one call, some of them of the same run.
    pub(super) async fn append_batch(&mut self, store: &dyn Store) {
        if self.runs.is_empty() {
            return;
        }
        let mut indexes = Vec::new();
        let mut appends = Vec::new();
        for _ in 0..=self.rng.next_below(3) {
            let index = self.random_index(self.runs.len());
            let (run, mut append) = self.random_append(index);
            // Outbox rows of several executions of one call have no defined order.
            append.use_outbox &= appends.is_empty();
            self.runs[index] = run;
            indexes.push(index);
            appends.push(append);
        }
        let results = store.append_events(appends).await;
        for (index, result) in indexes.into_iter().zip(results) {
            if let Ok(appended) = &result {
                self.runs[index].head = appended.head;
            }
            let failed = matches!(result, Err(AppendError::Store(_)));
            self.record_answer(&result.map(|it| it.head));
            if failed {
                self.reload_head(store, index).await;
            }
        }
    }

    /// Reads the head after a failure with an unknown outcome. If that fails too, the next append
    /// is stale.
    async fn reload_head(&mut self, store: &dyn Store, index: usize) {
        let execution = store.find_execution(self.runs[index].id).await;
        if let Ok(found) = &execution {
            self.runs[index].head = found.as_ref().map_or(LogHead::START, |it| it.head);
        }
        self.record_answer(&execution);
    }

    fn random_append(&mut self, index: usize) -> (TestExecution, AppendRequest) {
        let mut run = self.runs[index].clone();
        let mut append = match self.rng.next_below(9) {
            0..=2 => self.issue_commands(&mut run, index),
            3 | 4 => self.change_command(&mut run, index),
            5 => AppendRequest { timers: self.random_timers(), ..run.step_request() },
            6 if self.rng.one_in(6) => run.end_request(),
            7 => self.append_with_results(&mut run),
            _ => run.step_request(),
        };
        append.now = self.now;
        append.use_outbox = self.rng.one_in(2);
        if self.rng.one_in(12) {
            append.expected_head.version =
                ExecutionVersion::new(append.expected_head.version.get() + 1).unwrap();
        }
        if self.rng.one_in(3) {
            self.add_coordination(&mut append);
        }
        if self.rng.one_in(12) {
            append.events[0].stack_trace = Some(Text::from("rare"));
            append.keep_checksums = true;
        }
        (run, append)
    }

    fn issue_commands(&mut self, run: &mut TestExecution, index: usize) -> AppendRequest {
        let mut events = Vec::new();
        let mut commands = Vec::new();
        for _ in 0..=self.rng.next_below(3) {
            let (event, mut command) = run.new_command();
            command.pool = self.lane_pool();
            command.priority = Priority::clamped(self.random_below(3));
            command.held = self.rng.one_in(8);
            if self.rng.one_in(4) {
                command.not_before = Some(self.random_time_within(Millis::from_secs(5)));
            }
            if self.rng.one_in(6) {
                command.deadline = Some(Millis::from_secs(20));
            }
            if self.rng.one_in(5) {
                command.eager_lease = Some(lease_terms(&self.worker_name(1), 1));
            }
            self.commands.push((index, command.command_id));
            events.push(event);
            commands.push(CommandChange::Issue(Box::new(command)));
        }
        AppendRequest { commands, ..run.append_request(events) }
    }

    fn change_command(&mut self, run: &mut TestExecution, index: usize) -> AppendRequest {
        let event = run.next_event(EventType::CommandCompleted);
        let mut append = run.append_request(vec![event]);
        // Sometimes it is a command of another run.
        let any_run = self.rng.one_in(16);
        let candidates: Vec<_> = self
            .commands
            .iter()
            .filter(|(owner, _)| *owner == index || any_run)
            .map(|(_, command_id)| *command_id)
            .collect();
        if candidates.is_empty() {
            return append;
        }
        let command_id = candidates[self.random_index(candidates.len())];
        append.commands = vec![match self.rng.next_below(5) {
            0 => CommandChange::Requeue { command_id, not_before: Some(self.now) },
            1 => CommandChange::Hold { command_id, held: self.rng.one_in(2) },
            2 => CommandChange::Run { command_id, at: self.now },
            _ => CommandChange::Close {
                command_id,
                end: CommandEnd::Failed,
                at: self.now,
                error: Some(Text::from("it's over")),
            },
        }];
        if self.rng.one_in(2) {
            append.fences = vec![self.random_fence(command_id)];
        }
        append
    }

    pub(super) fn random_fence(&mut self, command_id: CommandId) -> Fence {
        Fence {
            command_id,
            attempt: u32::try_from(self.rng.next_below(3)).unwrap(),
            condition: match self.rng.next_below(4) {
                0 => LeaseCondition::ExpiredBy(self.now),
                1 => LeaseCondition::Worker(worker_id(&self.worker_name(1))),
                _ => LeaseCondition::Token(LeaseToken::from_bytes([1; 16])),
            },
        }
    }

    fn random_timers(&mut self) -> Vec<TimerChange> {
        let timer_id = Text::from(format!("t{}-{}", self.lane, self.rng.next_below(3)));
        if self.rng.one_in(3) {
            vec![TimerChange::Disarm { timer_id }]
        } else {
            let fire_at = self.random_time_within(Millis::from_secs(60));
            vec![TimerChange::Arm { timer_id, fire_at }]
        }
    }

    /// Adds one or two results. Sometimes an id was used before.
    fn append_with_results(&mut self, run: &mut TestExecution) -> AppendRequest {
        let mut results = Vec::new();
        for _ in 0..=self.rng.next_below(2) {
            let number = if self.rng.one_in(6) {
                1 + self.random_below(u64::try_from(self.next_result).unwrap())
            } else {
                self.next_result += 1;
                self.next_result - 1
            };
            let text = "x".repeat(self.random_index(3_000));
            results.push(new_result(number, text.as_bytes()));
        }
        AppendRequest { results, ..run.step_request() }
    }
}
