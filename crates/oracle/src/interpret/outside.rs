//! Time, and what comes to a run from outside: nothing happens but by an arrival, and the clock goes
//! from one to the next.
//!
//! Of things that come at the same moment the order is a choice of whoever drives a run, and not of the
//! language: signals, decisions and ends of children come first, in order of what they answer; then the
//! slots of others are freed; then timers fire, that of the execution first and those of commands last.

use noetl_types::{EventType, Millis};

use super::machine::Machine;
use super::parking::Parking;
use super::waits::Heard;
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::Failed;

/// What comes next; the order is that of things at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The signal with this number.
    Signal(usize),
    /// Somebody decides about this command.
    Decision(u64),
    /// The child of this command ends.
    ChildEnd(u64),
    /// Somebody else gives a slot back.
    Slot,
    /// The time of the whole run is over.
    Execution,
    /// The time of this step is over.
    Step(usize),
    /// The timer of this command fires.
    Timer(u64),
}

impl Machine<'_> {
    /// What comes next, and when.
    pub(super) fn next_due(&self) -> Option<(u64, Due)> {
        let mut due = Vec::new();
        let signal = self.world.signals.get(self.next_signal);
        due.extend(signal.map(|signal| (signal.at, Due::Signal(self.next_signal))));
        for parked in &self.parked {
            let command = parked.command.number;
            due.extend(parked.timer.map(|at| (at, Due::Timer(command))));
            match &parked.what {
                Parking::Approval(approving) => {
                    let next = approving.next().map(|after| parked.since + after);
                    due.extend(next.map(|at| (at, Due::Decision(command))));
                }
                Parking::Child(child) => {
                    let end = child.ends().map(|after| parked.since + after);
                    due.extend(end.map(|at| (at, Due::ChildEnd(command))));
                }
                Parking::Sleep | Parking::Wait(_) | Parking::Rest | Parking::Answered(_) => {}
            }
        }
        due.extend(self.next_free_slot().map(|at| (at, Due::Slot)));
        let whole = self.playbook.executor.spec.timeout.map(Millis::as_ms);
        due.extend(whole.map(|at| (at, Due::Execution)));
        for (step, run) in &self.running {
            due.extend(self.step_ends(*step, run).map(|at| (at, Due::Step(*step))));
        }
        due.into_iter().min()
    }

    /// What comes next has come.
    pub(super) fn happen(&mut self, at: u64, due: Due) {
        self.now = self.now.max(at);
        match due {
            Due::Signal(number) => {
                self.next_signal = number + 1;
                let signal = self.world.signals[number].clone();
                self.signalled(Heard {
                    at: self.now,
                    name: signal.name,
                    key: signal.key,
                    payload: signal.payload,
                });
            }
            Due::Decision(command) => self.next_decision(command),
            Due::ChildEnd(command) => self.child_ended(command),
            // Who waits for it is asked when all that is to enter has entered.
            Due::Slot => {}
            Due::Execution => self.execution_timed_out(),
            Due::Step(step) => self.step_timed_out(step),
            Due::Timer(command) => self.timer_fired(command),
        }
    }

    /// The step fails with all that is open of it; arcs may catch it.
    fn step_timed_out(&mut self, step: usize) {
        self.log(EventType::TimerFired, step);
        self.cancel_open(Some(step));
        let error = TaskError::new(ErrorKind::Timeout, "the step took too long");
        self.fail(step, Failed::of(&error));
    }

    /// The run fails with all that is open of it; nothing catches it.
    fn execution_timed_out(&mut self) {
        self.log_playbook(EventType::TimerFired);
        self.cancel_open(None);
        self.timed_out = true;
        self.running.clear();
        self.waiting.clear();
        self.gate = None;
    }

    /// Cancels the open commands of a step, or all of them, in order of issue.
    fn cancel_open(&mut self, of: Option<usize>) {
        let mut open = Vec::new();
        let parked = self.parked.iter().map(|parked| &parked.command);
        for command in self.open.iter().chain(parked) {
            let step = self.step_of(command);
            if of.is_none_or(|of| of == step) {
                let index = command.item.as_ref().map(|item| item.index);
                open.push((command.number, step, index));
            }
        }
        open.sort_unstable();
        for (number, step, index) in open {
            self.open.retain(|command| command.number != number);
            self.parked.retain(|parked| parked.command.number != number);
            self.log_command(EventType::CommandCancelled, step, index);
        }
    }
}
