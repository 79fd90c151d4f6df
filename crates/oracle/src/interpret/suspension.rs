//! Suspended tasks: tasks that wait without a worker.
//!
//! The server renders such a task when its command is issued, and evaluates its policy when the
//! task ends. Between two attempts the command stays open and waits for the retry delay.

use std::sync::Arc;

use noetl_playbook::model::{Task, ToolKind};
use noetl_types::{EventType, Json, JsonMap, Millis, Timestamp};

use super::interpreter::{Interpreter, write_vars};
use super::waits::{AwaitedChild, PendingApproval, ReceivedSignal, SignalWait};
use super::{format_run_time, millis_since_start};
use crate::outcome::{ErrorKind, TaskError, ToolAnswer};
use crate::pipeline::{
    ClosedCommand, Command, NextAction, PipelineExecutor, PipelinePosition, PreparedAttempt,
    TaskAttempt, awaits_child,
};
use crate::reachability::find_step;
use crate::script::{parse_child_end, started_child_data};
use crate::writes::{VariableWrite, write_at_path};

/// Default timeout of a child, in milliseconds.
const DEFAULT_CHILD_TIMEOUT_MS: u64 = 300_000;

/// An open command that the server executes.
#[derive(Debug, Clone)]
pub(super) struct SuspendedCommand<'p> {
    pub(super) command: Command<'p>,
    attempt: u64,
    input: JsonMap,
    /// Start time of the attempt.
    pub(super) started_at: u64,
    /// Time at which its timer fires.
    pub(super) timer_at: Option<u64>,
    pub(super) kind: SuspensionKind,
    /// Writes of the rules of earlier attempts. They are applied to the execution when the command
    /// closes.
    writes: Vec<VariableWrite>,
}

/// Reason for which a command is suspended.
#[derive(Debug, Clone)]
pub(super) enum SuspensionKind {
    /// Its timer.
    Sleep,
    /// Signals.
    Wait(SignalWait),
    /// Decisions of approvers.
    Approval(PendingApproval),
    /// The end of a child.
    Child(AwaitedChild),
    /// The delay before its next attempt.
    RetryDelay,
    /// Nothing: the answer is known.
    Answered(ToolAnswer),
}

impl<'p> Interpreter<'p> {
    /// Opens a suspended command.
    pub(super) fn suspend_command(&mut self, command: Command<'p>) {
        let suspended = SuspendedCommand {
            command,
            attempt: 1,
            input: JsonMap::new(),
            started_at: self.now,
            timer_at: None,
            kind: SuspensionKind::RetryDelay,
            writes: Vec::new(),
        };
        self.begin_attempt(suspended);
    }

    /// Renders the task again and begins to wait.
    fn begin_attempt(&mut self, mut suspended: SuspendedCommand<'p>) {
        let task = suspended.current_task();
        suspended.command.view = self.command_view(&suspended);
        suspended.started_at = self.now;
        suspended.timer_at = None;
        let prepared = PipelineExecutor::new(&suspended.command, self.outcomes)
            .prepare_attempt(task, suspended.attempt);
        suspended.kind = match prepared {
            Err(error) => {
                suspended.input = error.input.clone();
                SuspensionKind::Answered(error.to_answer())
            }
            Ok(PreparedAttempt { input, config }) => {
                suspended.input = input;
                let (kind, timer) = self.suspension_of(&suspended, &config);
                suspended.timer_at = timer;
                kind
            }
        };
        if suspended.timer_at.is_some() {
            self.log_step(EventType::TimerStarted, self.command_step(&suspended.command));
        }
        self.accept_buffered_signals(&mut suspended);
        match suspended.kind.clone() {
            // Choice: the command is closed as soon as it is issued. The consequences are applied
            // after every step that enters together with this one has been entered.
            SuspensionKind::Answered(answer) => {
                if let Some((command, closed)) = self.evaluate_attempt(suspended, answer) {
                    if closed.outcome.is_err() {
                        self.stop_issuing(&command);
                    }
                    self.closed_on_issue.push((command, closed));
                }
            }
            SuspensionKind::Sleep
            | SuspensionKind::Wait(_)
            | SuspensionKind::Approval(_)
            | SuspensionKind::Child(_)
            | SuspensionKind::RetryDelay => self.suspended_commands.push(suspended),
        }
    }

    /// Returns what a rendered task waits for, and the time at which its timer fires.
    fn suspension_of(
        &self,
        suspended: &SuspendedCommand<'p>,
        config: &JsonMap,
    ) -> (SuspensionKind, Option<u64>) {
        let task = suspended.current_task();
        let task_timeout = task.spec.timeout.map(Millis::as_ms);
        let until = |timeout: u64| self.now + timeout;
        let schema_error = |message: &str| {
            let error = TaskError::new(ErrorKind::Schema, message);
            (SuspensionKind::Answered(ToolAnswer::Error(error)), None)
        };
        match task.kind.value {
            ToolKind::Sleep => match self.sleep_end(config) {
                Ok(at) => (SuspensionKind::Sleep, Some(at)),
                Err(message) => schema_error(&message),
            },
            ToolKind::Wait => SignalWait::from_config(config).map_or_else(
                || schema_error("there is nothing to wait for"),
                |wait| (SuspensionKind::Wait(wait), task_timeout.map(until)),
            ),
            ToolKind::Approval => (
                SuspensionKind::Approval(PendingApproval::from_config(config)),
                task_timeout.map(until),
            ),
            ToolKind::Playbook if awaits_child(task) => {
                let end = parse_child_end(&Json::from(suspended.input.clone()), suspended.attempt);
                let timeout = task_timeout.unwrap_or(DEFAULT_CHILD_TIMEOUT_MS);
                let child = AwaitedChild::from_config(config, end);
                (SuspensionKind::Child(child), Some(until(timeout)))
            }
            _ => {
                let data = started_child_data(&Json::from(config.clone()));
                (SuspensionKind::Answered(ToolAnswer::Ok(data)), None)
            }
        }
    }

    /// Returns the time at which a `sleep` ends. A time in the past ends at once.
    fn sleep_end(&self, config: &JsonMap) -> Result<u64, String> {
        if let Some(length) = config.get("for") {
            let length = Millis::from_json(length).map_err(|error| error.to_string())?;
            return Ok(self.now + length.as_ms());
        }
        let until = config.get("until").and_then(Json::as_str);
        let until = Timestamp::parse(until.unwrap_or_default());
        let until = until.map_err(|error| error.to_string())?;
        Ok(millis_since_start(until))
    }

    /// Accepts signals that were received before the wait, oldest first.
    fn accept_buffered_signals(&mut self, suspended: &mut SuspendedCommand<'p>) {
        let SuspensionKind::Wait(wait) = &mut suspended.kind else {
            return;
        };
        let Some(since) = wait.lookback_start(self.now) else {
            return;
        };
        let step = find_step(self.playbook, &suspended.command.step.name.value).unwrap_or_default();
        for signal in self.buffered_signals.clone() {
            if signal.received_at >= since && !wait.is_satisfied() && wait.accept_signal(&signal) {
                self.buffered_signals.retain(|buffered| *buffered != signal);
                self.log_step(EventType::SignalReceived, step);
            }
        }
        if wait.is_satisfied() {
            suspended.kind = SuspensionKind::Answered(ToolAnswer::Ok(wait.received_data()));
        }
    }

    /// Delivers a signal to the wait that has waited longest for it, or buffers it.
    pub(super) fn deliver_signal(&mut self, signal: ReceivedSignal) {
        let mut waits: Vec<usize> = (0..self.suspended_commands.len()).collect();
        waits.sort_by_key(|index| self.suspended_commands[*index].command.number);
        for index in waits {
            let SuspensionKind::Wait(wait) = &mut self.suspended_commands[index].kind else {
                continue;
            };
            if !wait.accept_signal(&signal) {
                continue;
            }
            let received = wait.is_satisfied().then(|| wait.received_data());
            let step = self.command_step(&self.suspended_commands[index].command);
            self.log_step(EventType::SignalReceived, step);
            if let Some(data) = received {
                let suspended = self.suspended_commands.remove(index);
                self.finish_attempt(suspended, ToolAnswer::Ok(data));
            }
            return;
        }
        self.log_playbook(EventType::SignalReceived);
        self.buffered_signals.push(signal);
    }

    /// Applies the next decision about an approval.
    pub(super) fn apply_approval_decision(&mut self, command: u64) {
        let now = self.now;
        let Some(index) = self.suspended_index(command) else {
            return;
        };
        let SuspensionKind::Approval(approval) = &mut self.suspended_commands[index].kind else {
            return;
        };
        let Some((counts, data)) = approval.apply_next_decision(now) else {
            return;
        };
        if counts {
            let step = self.command_step(&self.suspended_commands[index].command);
            self.log_step(EventType::SignalReceived, step);
        }
        if let Some(data) = data {
            let suspended = self.suspended_commands.remove(index);
            self.finish_attempt(suspended, ToolAnswer::Ok(data));
        }
    }

    /// Ends the child of a command.
    pub(super) fn end_child(&mut self, command: u64) {
        let Some(index) = self.suspended_index(command) else {
            return;
        };
        let suspended = self.suspended_commands.remove(index);
        let SuspensionKind::Child(child) = &suspended.kind else {
            return;
        };
        let answer = child.to_answer();
        self.log_step(EventType::SignalReceived, self.command_step(&suspended.command));
        self.finish_attempt(suspended, answer);
    }

    /// Fires the timer of a command.
    pub(super) fn fire_command_timer(&mut self, command: u64) {
        let Some(index) = self.suspended_index(command) else {
            return;
        };
        let mut suspended = self.suspended_commands.remove(index);
        self.log_step(EventType::TimerFired, self.command_step(&suspended.command));
        let timeout = || ToolAnswer::Error(TaskError::new(ErrorKind::Timeout, "it took too long"));
        let answer = match &suspended.kind {
            SuspensionKind::Sleep => ToolAnswer::Ok(Json::object([
                ("slept_ms", Json::from(self.now - suspended.started_at)),
                ("fired_at", format_run_time(self.now)),
            ])),
            SuspensionKind::Approval(approval) => match approval.on_timeout(self.now) {
                Some(data) => ToolAnswer::Ok(data),
                None => timeout(),
            },
            SuspensionKind::Wait(_) | SuspensionKind::Child(_) => timeout(),
            SuspensionKind::RetryDelay => {
                suspended.attempt += 1;
                self.begin_attempt(suspended);
                return;
            }
            SuspensionKind::Answered(answer) => answer.clone(),
        };
        self.finish_attempt(suspended, answer);
    }

    /// Applies the consequences of the first command that was closed on issue. Returns false if
    /// no command is left.
    pub(super) fn close_next_command(&mut self) -> bool {
        if self.closed_on_issue.is_empty() {
            return false;
        }
        let (command, closed) = self.closed_on_issue.remove(0);
        self.close_command(&command, closed);
        true
    }

    /// Ends an attempt of a suspended command with an answer.
    fn finish_attempt(&mut self, suspended: SuspendedCommand<'p>, answer: ToolAnswer) {
        if let Some((command, closed)) = self.evaluate_attempt(suspended, answer) {
            self.close_command(&command, closed);
        }
    }

    /// Evaluates the policy of the task after an attempt: the command closes, or waits for a retry.
    fn evaluate_attempt(
        &mut self,
        mut suspended: SuspendedCommand<'p>,
        answer: ToolAnswer,
    ) -> Option<(Command<'p>, ClosedCommand)> {
        let step = self.command_step(&suspended.command);
        let index = suspended.command.item.as_ref().map(|item| item.index);
        suspended.command.view = self.command_view(&suspended);
        let command = suspended.command.clone();
        let attempt = TaskAttempt {
            task: suspended.current_task(),
            number: suspended.attempt,
            input: suspended.input.clone(),
            answer,
        };
        let stopped = self.is_stopped();
        let mut pipeline = PipelineExecutor::new(&command, self.outcomes);
        let mut next_action = pipeline.process_attempt(&attempt);
        let retry_delay = match next_action {
            // After an uncaught failure no further attempt begins.
            Ok(NextAction::Retry(_)) if stopped => {
                next_action = Err(pipeline.interrupted_failure(&attempt));
                None
            }
            Ok(NextAction::Retry(delay)) => Some(delay),
            Ok(NextAction::Continue | NextAction::Jump(_) | NextAction::Break) | Err(_) => None,
        };
        let outcome = next_action.map(|next| pipeline.position_after(next));
        let ClosedCommand { outcome, writes, progress, retry_count } =
            pipeline.into_closed(outcome);
        suspended.writes.extend(writes);
        if let Some(delay) = retry_delay {
            self.log_command(EventType::CallError, step, index);
            suspended.command.progress = progress;
            self.schedule_retry(suspended, delay);
            return None;
        }
        self.log_command_closed(step, index, &outcome);
        let closed = ClosedCommand { outcome, writes: suspended.writes, progress, retry_count };
        Some((command, closed))
    }

    /// Schedules the next attempt of a command.
    ///
    /// Choice: this always starts a timer, even if the delay is zero.
    fn schedule_retry(&mut self, mut suspended: SuspendedCommand<'p>, delay: u64) {
        suspended.kind = SuspensionKind::RetryDelay;
        suspended.timer_at = Some(self.now + delay);
        self.log_step(EventType::TimerStarted, self.command_step(&suspended.command));
        self.suspended_commands.push(suspended);
    }

    /// Closes a command: applies its writes to the execution, and continues or ends the pipeline.
    pub(super) fn close_command(&mut self, command: &Command<'p>, closed: ClosedCommand) {
        let step = self.command_step(command);
        let index = command.item.as_ref().map(|item| item.index);
        // Writes of tasks reach the server with the closing event, even those of a failed task.
        self.write_ctx(step, &closed.writes);
        if let Some(pass) = self.running.get_mut(&step) {
            write_vars(&mut pass.vars, &closed.writes);
        }
        let outcome = match closed.outcome {
            Ok(PipelinePosition::Task(task_index)) => {
                if self.is_stopped() {
                    self.end_interrupted(step, index);
                } else {
                    let mut progress = closed.progress;
                    progress.task_index = task_index;
                    self.issue_command(step, command.item.clone(), progress);
                }
                return;
            }
            Ok(PipelinePosition::End(value)) => Ok(value),
            Err(failure) => Err(failure),
        };
        if let Some(index) = index {
            self.finish_iteration(step, index, outcome);
            return;
        }
        if let Some(pass) = self.running.get_mut(&step) {
            pass.iter = closed.progress.iter;
        }
        match outcome {
            Ok(value) => self.complete_step(step, "call.done", value),
            Err(failure) => self.fail_step(step, failure),
        }
    }

    /// Cancels the commands that wait for a timer, a signal or an approval after an uncaught
    /// failure. Children finish.
    pub(super) fn cancel_suspended(&mut self) {
        let mut suspended = std::mem::take(&mut self.suspended_commands);
        suspended.sort_by_key(|suspended| suspended.command.number);
        for suspended in suspended {
            match suspended.kind {
                SuspensionKind::Child(_) | SuspensionKind::Answered(_) => {
                    self.suspended_commands.push(suspended);
                }
                SuspensionKind::Sleep
                | SuspensionKind::Wait(_)
                | SuspensionKind::Approval(_)
                | SuspensionKind::RetryDelay => {
                    self.cancel_suspended_command(&suspended);
                }
            }
        }
    }

    fn cancel_suspended_command(&mut self, suspended: &SuspendedCommand<'p>) {
        let step = self.command_step(&suspended.command);
        let index = suspended.command.item.as_ref().map(|item| item.index);
        self.log_command(EventType::CommandCancelled, step, index);
        self.end_interrupted(step, index);
    }

    fn suspended_index(&self, command: u64) -> Option<usize> {
        self.suspended_commands.iter().position(|suspended| suspended.command.number == command)
    }

    /// Returns what the templates of a suspended command see now, including its own writes.
    fn command_view(&self, suspended: &SuspendedCommand<'p>) -> crate::names::ExecutionView {
        let step = self.command_step(&suspended.command);
        let pass = self.running.get(&step).cloned().unwrap_or_default();
        let mut view = self.execution_view(&pass);
        for write in &suspended.writes {
            match write {
                VariableWrite::Ctx(path, value) => {
                    write_at_path(&mut view.ctx, path, value.clone());
                }
                VariableWrite::Step(path, value) => {
                    write_at_path(&mut view.vars, path, value.clone());
                }
                VariableWrite::Iter(..) | VariableWrite::Pipeline(..) => {}
            }
        }
        view
    }

    /// Returns the index of the step of a command.
    pub(super) fn command_step(&self, command: &Command<'p>) -> usize {
        let name: &Arc<str> = &command.step.name.value;
        find_step(self.playbook, name).unwrap_or_default()
    }
}

impl<'p> SuspendedCommand<'p> {
    fn current_task(&self) -> &'p Task {
        &self.command.step.tool.tasks()[self.command.progress.task_index]
    }
}
