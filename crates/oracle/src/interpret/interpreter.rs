//! State of a run, and the loop that drives it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_playbook::model::{Playbook, Step};
use noetl_types::{EventType, ExecutionStatus, Json, JsonMap};

use super::CommandOrder;
use super::cursor::CursorState;
use super::loops::LoopState;
use super::slots::SlotRequest;
use super::suspension::SuspendedCommand;
use super::waits::ReceivedSignal;
use crate::names::{ExecutionView, StepValue};
use crate::outcome::{ErrorKind, ToolOutcomes};
use crate::pipeline::{ClosedCommand, Command, CommandFailure, PipelinePosition, execute_command};
use crate::reachability::find_step;
use crate::rng::SeededRng;
use crate::run_result::{
    CachedResult, HistoryEvent, RunResult, SkippedStep, StepResult, StepStatus,
};
use crate::script::ExternalInputs;
use crate::writes::{VariableWrite, write_at_path, writes_ctx};

/// Complete state of a run. Steps are numbered in document order.
#[derive(Clone)]
pub(super) struct Interpreter<'p> {
    pub(super) playbook: &'p Playbook,
    pub(super) outcomes: &'p dyn ToolOutcomes,
    pub(super) external_inputs: ExternalInputs,
    order_rng: Option<SeededRng>,
    /// Milliseconds since the start of the run.
    pub(super) now: u64,
    pub(super) workload: Json,
    pub(super) ctx: JsonMap,
    pub(super) steps: Vec<StepState>,
    /// Steps with arrivals, in order of their first arrival.
    pub(super) waiting: Vec<PendingArrivals>,
    /// Steps that were entered and have not exited.
    pub(super) running: BTreeMap<usize, StepPass>,
    /// Commands for workers, in order of issue.
    pub(super) open_commands: Vec<Command<'p>>,
    /// Suspended commands, which the server executes.
    pub(super) suspended_commands: Vec<SuspendedCommand<'p>>,
    /// Server commands that were closed as soon as they were issued.
    pub(super) closed_on_issue: Vec<(Command<'p>, ClosedCommand)>,
    /// Number of commands issued.
    issued_count: u64,
    /// Received signals that no wait has accepted, oldest first.
    pub(super) buffered_signals: Vec<ReceivedSignal>,
    /// Index of the next signal.
    pub(super) next_signal: usize,
    /// Slot that the execution itself waits for.
    pub(super) awaited_execution_slot: Option<SlotRequest>,
    /// Results that steps with the same key may reuse.
    pub(super) cache: Vec<CachedResult>,
    /// Step that was just granted a slot.
    pub(super) granted_step: Option<usize>,
    /// Uncaught failures, in order.
    pub(super) failures: Vec<(usize, ErrorKind)>,
    pub(super) skipped: Vec<SkippedStep>,
    /// Data of the last step that exited without taking an arc.
    pub(super) dead_end_data: Json,
    /// True while the final step runs. The failure that led to it no longer stops anything.
    pub(super) is_ending: bool,
    /// True if the timeout of the execution has elapsed.
    pub(super) timed_out: bool,
    history: Vec<HistoryEvent>,
}

/// State of a step.
#[derive(Debug, Clone)]
pub(super) struct StepState {
    /// Number of times it was entered, or skipped by its guard or admission rules.
    pub(super) passes: u64,
    /// Number of times it was entered.
    pub(super) runs: u64,
    pub(super) status: StepStatus,
    /// Data of its latest successful pass.
    pub(super) value: Option<StepValue>,
    /// Data and error of its latest pass.
    pub(super) last_data: Json,
    pub(super) last_error: Json,
    pub(super) error_kind: Option<ErrorKind>,
}

/// A step that waits to be entered.
#[derive(Debug, Clone)]
pub(super) struct PendingArrivals {
    pub(super) step: usize,
    /// Time of the first arrival.
    pub(super) since: u64,
    /// Slot that it waits for, if only the slot is missing.
    pub(super) slot_request: Option<SlotRequest>,
    pub(super) arrivals: Vec<ArcArrival>,
}

/// Arrival of a taken arc at its target.
#[derive(Debug, Clone, Default)]
pub(super) struct ArcArrival {
    /// Event of the source step.
    pub(super) event: Json,
    /// Data of the source step.
    pub(super) data: Json,
}

/// One pass through a step.
#[derive(Debug, Clone, Default)]
pub(super) struct StepPass {
    /// Arrival that led to it.
    pub(super) trigger: ArcArrival,
    /// Variables written by `set: step.x`.
    pub(super) vars: JsonMap,
    /// Variables written by `set: iter.x` outside of loops.
    pub(super) iter: JsonMap,
    pub(super) loop_state: Option<LoopState>,
    pub(super) cursor_state: Option<CursorState>,
    /// Time of the first arrival, and of the entry.
    pub(super) arrived_at: u64,
    pub(super) entered_at: u64,
    /// Key of the slot that it holds.
    pub(super) slot_key: Option<String>,
    /// Key under which its result is cached.
    pub(super) cache_key: Option<String>,
}

impl<'p> Interpreter<'p> {
    pub(super) fn new(
        playbook: &'p Playbook,
        workload: Json,
        outcomes: &'p dyn ToolOutcomes,
        order: CommandOrder,
        cache: Vec<CachedResult>,
    ) -> Self {
        let initial = StepState {
            passes: 0,
            runs: 0,
            status: StepStatus::Pending,
            value: None,
            last_data: Json::Null,
            last_error: Json::Null,
            error_kind: None,
        };
        Self {
            playbook,
            outcomes,
            external_inputs: ExternalInputs::from_workload(&workload),
            now: 0,
            order_rng: match order {
                CommandOrder::IssueOrder => None,
                CommandOrder::Seeded(seed) => Some(SeededRng::new(seed)),
            },
            workload,
            ctx: JsonMap::new(),
            steps: vec![initial; playbook.workflow.len()],
            waiting: Vec::new(),
            running: BTreeMap::new(),
            open_commands: Vec::new(),
            suspended_commands: Vec::new(),
            closed_on_issue: Vec::new(),
            issued_count: 0,
            buffered_signals: Vec::new(),
            next_signal: 0,
            awaited_execution_slot: None,
            cache,
            granted_step: None,
            failures: Vec::new(),
            skipped: Vec::new(),
            dead_end_data: Json::Null,
            is_ending: false,
            timed_out: false,
            history: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> RunResult {
        self.log_playbook(EventType::PlaybookStarted);
        // Choice: if the concurrency key of the execution cannot be rendered, the execution does
        // not wait.
        self.awaited_execution_slot = self.execution_slot_request().unwrap_or_default();
        if self.awaited_execution_slot.is_none() {
            self.arrive_at_entry();
        }
        self.drain_events();
        if !self.is_active() {
            self.run_final_step();
        }
        if self.is_active() {
            // The run waits for an event that never occurs.
            return self.into_result();
        }
        let failed = self.timed_out || !self.failures.is_empty();
        self.log_playbook(if failed {
            EventType::PlaybookFailed
        } else {
            EventType::PlaybookCompleted
        });
        self.into_result()
    }

    fn arrive_at_entry(&mut self) {
        let entry = self.playbook.entry_step();
        let Some(entry) = entry.and_then(|step| find_step(self.playbook, &step.name.value)) else {
            return;
        };
        let event = event_object("playbook.started", "", self.workload.clone());
        let data = Json::Null;
        self.add_arrival(entry, ArcArrival { event, data });
    }

    /// Runs until no step is active. Steps that wait after an uncaught failure are never entered.
    ///
    /// Due events come before any work, and time passes only when there is no work.
    fn drain_events(&mut self) {
        loop {
            self.apply_ready_work();
            if (self.timed_out && !self.is_ending) || !self.is_active() {
                return;
            }
            match self.next_due_event() {
                Some((at, due)) if at <= self.now || self.open_commands.is_empty() => {
                    self.apply_due_event(at, due);
                }
                Some(_) | None if self.open_commands.is_empty() => return,
                Some(_) | None => self.execute_next_command(),
            }
        }
    }

    /// Applies everything that follows without an external event.
    fn apply_ready_work(&mut self) {
        loop {
            // Reset slot requests: the guard or the key may have changed.
            for waiting in &mut self.waiting {
                waiting.slot_request = None;
            }
            self.enter_ready_steps();
            self.granted_step = None;
            if !self.close_next_command() && !self.grant_slot() {
                return;
            }
        }
    }

    /// Grants the next free slot. Returns false if none could be granted.
    fn grant_slot(&mut self) -> bool {
        if self.is_stopped() {
            return false;
        }
        if self.awaited_execution_slot.as_ref().is_some_and(|request| self.is_slot_free(request)) {
            self.awaited_execution_slot = None;
            self.arrive_at_entry();
            return true;
        }
        let Some(step) = self.next_step_to_grant() else {
            return false;
        };
        self.granted_step = Some(step);
        true
    }

    fn is_active(&self) -> bool {
        let is_waiting = !self.waiting.is_empty() || self.awaited_execution_slot.is_some();
        !self.running.is_empty() || (is_waiting && !self.is_stopped())
    }

    /// Executes one open command to its end.
    fn execute_next_command(&mut self) {
        let position =
            self.order_rng.as_mut().map_or(0, |rng| rng.number_below(self.open_commands.len()));
        let command = self.open_commands.remove(position);
        if let Some(frame) = command.frame {
            self.run_frame(&command, frame);
            return;
        }
        let closed = execute_command(&command, self.outcomes);
        let index = command.item.as_ref().map(|item| item.index);
        self.log_worker_events(self.command_step(&command), index, &closed);
        self.close_command(&command, closed);
    }

    /// True if `final_step` runs at the end. A run that entered no step has nothing to clean up.
    pub(super) fn has_final_step_ahead(&self) -> bool {
        let has_begun = self.steps.iter().any(|step| step.passes > 0);
        self.playbook.executor.spec.final_step.is_some() && !self.is_ending && has_begun
    }

    /// Runs `final_step` once when the run would end, for any outcome.
    fn run_final_step(&mut self) {
        if !self.has_final_step_ahead() {
            return;
        }
        let name = self.playbook.executor.spec.final_step.as_ref();
        let Some(step) = name.and_then(|name| find_step(self.playbook, &name.value)) else {
            return;
        };
        self.is_ending = true;
        self.waiting.clear();
        let status = Json::from(self.execution_status().as_str());
        let event = event_object("run.ending", "", Json::object([("status", status)]));
        self.add_arrival(step, ArcArrival { event, data: Json::Null });
        self.drain_events();
    }

    /// Logs the events that a worker reports for a command.
    pub(super) fn log_worker_events(
        &mut self,
        step: usize,
        index: Option<usize>,
        closed: &ClosedCommand,
    ) {
        self.log_command(EventType::CommandClaimed, step, index);
        self.log_command(EventType::CommandStarted, step, index);
        for _ in 0..closed.retry_count {
            self.log_command(EventType::CallError, step, index);
        }
        self.log_command_closed(step, index, &closed.outcome);
    }

    /// Logs the closing events of a command.
    pub(super) fn log_command_closed(
        &mut self,
        step: usize,
        index: Option<usize>,
        outcome: &Result<PipelinePosition, CommandFailure>,
    ) {
        let (call, end) = match outcome {
            Ok(_) => (EventType::CallDone, EventType::CommandCompleted),
            Err(_) => (EventType::CallError, EventType::CommandFailed),
        };
        self.log_command(call, step, index);
        self.log_command(end, step, index);
    }

    /// Returns the number of the next command in order of issue.
    pub(super) fn next_command_number(&mut self) -> u64 {
        self.issued_count += 1;
        self.issued_count
    }

    /// Returns the time at which an entered step times out.
    pub(super) fn step_deadline(&self, step: usize, pass: &StepPass) -> Option<u64> {
        let spec = &self.step_model(step).spec;
        let timeout = spec.timeout.map(|timeout| pass.entered_at + timeout.as_ms());
        let deadline = spec.policy.lifecycle.deadline;
        let deadline = deadline.map(|deadline| pass.arrived_at + deadline.as_ms());
        timeout.into_iter().chain(deadline).min()
    }

    /// Returns the steps that were entered and have not exited, or wait to be entered.
    pub(super) fn active_steps(&self) -> BTreeSet<usize> {
        self.running
            .keys()
            .copied()
            .chain(self.waiting.iter().map(|waiting| waiting.step))
            .collect()
    }

    /// True after an uncaught failure: nothing is entered, issued or skipped any more, except for
    /// the final step.
    pub(super) fn is_stopped(&self) -> bool {
        (self.timed_out || !self.failures.is_empty()) && !self.is_ending
    }

    pub(super) fn step_model(&self, step: usize) -> &'p Step {
        &self.playbook.workflow[step]
    }

    /// Returns what the templates of a step pass see now.
    pub(super) fn execution_view(&self, pass: &StepPass) -> ExecutionView {
        let names = self.playbook.workflow.iter().map(|step| Arc::clone(&step.name.value));
        let named_states = || names.clone().zip(&self.steps);
        ExecutionView {
            path: Arc::clone(self.playbook.path()),
            workload: self.workload.clone(),
            ctx: self.ctx.clone(),
            data: named_states()
                .filter_map(|(name, state)| Some((name, state.value.clone()?)))
                .collect(),
            steps: named_states()
                .filter(|(_, state)| state.status != StepStatus::Pending)
                .map(|(name, state)| (name, state.to_json()))
                .collect(),
            result: pass.trigger.data.clone(),
            vars: pass.vars.clone(),
        }
    }

    /// Applies the writes of one `set` group to the variables of the execution.
    pub(super) fn write_ctx(&mut self, step: usize, writes: &[VariableWrite]) {
        for write in writes {
            if let VariableWrite::Ctx(path, value) = write {
                write_at_path(&mut self.ctx, path, value.clone());
            }
        }
        if writes_ctx(writes) {
            self.log_step(EventType::CtxUpdated, step);
        }
    }

    pub(super) fn log_step(&mut self, event: EventType, step: usize) {
        self.log_command(event, step, None);
    }

    pub(super) fn log_command(&mut self, event: EventType, step: usize, index: Option<usize>) {
        let node = Arc::clone(&self.step_model(step).name.value);
        self.history.push(HistoryEvent { event, node, index });
    }

    pub(super) fn log_playbook(&mut self, event: EventType) {
        let node = Arc::clone(self.playbook.path());
        self.history.push(HistoryEvent { event, node, index: None });
    }

    fn execution_status(&self) -> ExecutionStatus {
        if self.is_active() {
            ExecutionStatus::Running
        } else if self.failures.is_empty() && !self.timed_out {
            ExecutionStatus::Completed
        } else {
            ExecutionStatus::Failed
        }
    }

    /// Returns the data of `final_step`, otherwise of `end` if it ran, otherwise of the last step
    /// that exited without taking an arc.
    ///
    /// Choice: only a successful pass counts as run, even if the execution failed.
    fn final_data(&self) -> Json {
        let step_data = |name: &str| {
            let step = find_step(self.playbook, name)?;
            self.steps[step].value.as_ref().map(|value| value.data.clone())
        };
        let final_step = self.playbook.executor.spec.final_step.as_ref();
        let final_step_data = final_step.and_then(|name| step_data(&name.value));
        final_step_data.or_else(|| step_data("end")).unwrap_or_else(|| self.dead_end_data.clone())
    }

    fn into_result(self) -> RunResult {
        let name = |step: usize| Arc::clone(&self.step_model(step).name.value);
        RunResult {
            status: self.execution_status(),
            error_kind: if self.timed_out {
                Some(ErrorKind::Timeout)
            } else {
                self.failures.first().map(|(_, kind)| *kind)
            },
            steps: (0..self.steps.len())
                .map(|step| (name(step), self.steps[step].to_result()))
                .collect(),
            failed_steps: self.failures.iter().map(|(step, _)| name(*step)).collect(),
            result: self.final_data(),
            skipped: self.skipped,
            ctx: Json::from(self.ctx),
            workload: self.workload,
            history: self.history,
            cached_results: self.cache,
        }
    }
}

impl StepState {
    /// Value of `steps.<name>`.
    fn to_json(&self) -> Json {
        Json::object([
            ("status", Json::from(self.status.as_str())),
            ("data", self.last_data.clone()),
            ("error", self.last_error.clone()),
            ("run", Json::from(self.runs)),
        ])
    }

    fn to_result(&self) -> StepResult {
        StepResult {
            runs: self.runs,
            status: self.status,
            data: self.value.as_ref().map(|value| value.data.clone()).unwrap_or_default(),
            error_kind: self.error_kind,
        }
    }
}

/// Builds the value of `event`.
pub(super) fn event_object(name: &str, step: &str, payload: Json) -> Json {
    Json::object([("name", Json::from(name)), ("step", Json::from(step)), ("payload", payload)])
}

/// Applies writes to the variables of a step pass.
pub(super) fn write_vars(vars: &mut JsonMap, writes: &[VariableWrite]) {
    for write in writes {
        if let VariableWrite::Step(path, value) = write {
            write_at_path(vars, path, value.clone());
        }
    }
}
