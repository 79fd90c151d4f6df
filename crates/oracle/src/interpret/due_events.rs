//! Due events: the clock, and everything that reaches a run from outside.
//!
//! The order of events due at the same time is a choice of the driver, not of the language:
//! signals, decisions and ends of children come first, in order of their targets. Slots of other
//! runs are released next. Timers fire last: first that of the execution, then those of steps, then
//! those of commands.

use noetl_types::{EventType, Millis};

use super::interpreter::Interpreter;
use super::suspension::SuspensionKind;
use super::waits::ReceivedSignal;
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::CommandFailure;

/// An event that is due. The variant order is the order of events due at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DueEvent {
    /// Signal with this index.
    Signal(usize),
    /// Next decision about this command.
    Decision(u64),
    /// End of the child of this command.
    ChildEnd(u64),
    /// Another run releases a slot.
    SlotReleased,
    /// Timeout of the execution.
    ExecutionTimeout,
    /// Timeout of this step.
    StepTimeout(usize),
    /// Timer of this command.
    CommandTimer(u64),
}

impl Interpreter<'_> {
    /// Returns the next due event and its time.
    pub(super) fn next_due_event(&self) -> Option<(u64, DueEvent)> {
        let mut due = Vec::new();
        let signal = self.external_inputs.signals.get(self.next_signal);
        due.extend(signal.map(|signal| (signal.at, DueEvent::Signal(self.next_signal))));
        for suspended in &self.suspended_commands {
            let command = suspended.command.number;
            due.extend(suspended.timer_at.map(|at| (at, DueEvent::CommandTimer(command))));
            match &suspended.kind {
                SuspensionKind::Approval(approval) => {
                    let next =
                        approval.next_decision_delay().map(|after| suspended.started_at + after);
                    due.extend(next.map(|at| (at, DueEvent::Decision(command))));
                }
                SuspensionKind::Child(child) => {
                    let end = child.end_delay().map(|after| suspended.started_at + after);
                    due.extend(end.map(|at| (at, DueEvent::ChildEnd(command))));
                }
                SuspensionKind::Sleep
                | SuspensionKind::Wait(_)
                | SuspensionKind::RetryDelay
                | SuspensionKind::Answered(_) => {}
            }
        }
        due.extend(self.next_slot_release().map(|at| (at, DueEvent::SlotReleased)));
        let timeout = self.playbook.executor.spec.timeout.map(Millis::as_ms);
        // Choice: final steps of generated playbooks end within the time of their own.
        let timeout = timeout.filter(|_| !self.is_ending);
        due.extend(timeout.map(|at| (at, DueEvent::ExecutionTimeout)));
        for (step, pass) in &self.running {
            due.extend(
                self.step_deadline(*step, pass).map(|at| (at, DueEvent::StepTimeout(*step))),
            );
        }
        due.into_iter().min()
    }

    /// Advances the clock and applies a due event.
    pub(super) fn apply_due_event(&mut self, at: u64, due: DueEvent) {
        self.now = self.now.max(at);
        match due {
            DueEvent::Signal(index) => {
                self.next_signal = index + 1;
                let signal = self.external_inputs.signals[index].clone();
                self.deliver_signal(ReceivedSignal {
                    received_at: self.now,
                    name: signal.name,
                    key: signal.key,
                    payload: signal.payload,
                });
            }
            DueEvent::Decision(command) => self.apply_approval_decision(command),
            DueEvent::ChildEnd(command) => self.end_child(command),
            // Waiting steps are checked for free slots once every ready step has been entered.
            DueEvent::SlotReleased => {}
            DueEvent::ExecutionTimeout => self.time_out_execution(),
            DueEvent::StepTimeout(step) => self.time_out_step(step),
            DueEvent::CommandTimer(command) => self.fire_command_timer(command),
        }
    }

    /// Fails the step and cancels its open commands. Arcs may catch the failure.
    fn time_out_step(&mut self, step: usize) {
        self.log_step(EventType::TimerFired, step);
        self.cancel_open_commands(Some(step));
        let error = TaskError::new(ErrorKind::Timeout, "the step took too long");
        self.fail_step(step, CommandFailure::from_task_error(&error));
    }

    /// Fails the execution and cancels all open commands. Nothing can catch the failure.
    fn time_out_execution(&mut self) {
        self.log_playbook(EventType::TimerFired);
        self.cancel_open_commands(None);
        self.timed_out = true;
        if self.has_final_step_ahead() {
            let mut active: Vec<usize> = self.running.keys().copied().collect();
            active.sort_unstable();
            for step in active {
                self.cancel_pass(step);
            }
        }
        self.running.clear();
        self.waiting.clear();
        self.awaited_execution_slot = None;
    }

    /// Cancels the open commands of a step, or all of them, in order of issue.
    fn cancel_open_commands(&mut self, only_step: Option<usize>) {
        let mut open = Vec::new();
        let suspended = self.suspended_commands.iter().map(|suspended| &suspended.command);
        for command in self.open_commands.iter().chain(suspended) {
            let step = self.command_step(command);
            if only_step.is_none_or(|only| only == step) {
                let index = command.item.as_ref().map(|item| item.index);
                open.push((command.number, step, index));
            }
        }
        open.sort_unstable();
        for (number, step, index) in open {
            self.open_commands.retain(|command| command.number != number);
            self.suspended_commands.retain(|suspended| suspended.command.number != number);
            self.log_command(EventType::CommandCancelled, step, index);
        }
    }
}
