//! Tasks that wait without a worker: what each waits for, and what ends it.
//!
//! The server renders such a task when its command is issued, and evaluates its policy when it is
//! answered. Between two attempts the command stays open and rests.

use std::sync::Arc;

use noetl_playbook::model::{Task, ToolKind};
use noetl_types::{EventType, Json, JsonMap, Millis, Timestamp};

use super::machine::{Machine, write_vars};
use super::waits::{Approving, Child, Heard, Wanted};
use super::{moment, time_of};
use crate::outcome::{Answer, ErrorKind, TaskError};
use crate::pipeline::{Attempt, Closed, Command, Next, Pipeline, Prepared, Reached, awaits_child};
use crate::reach::find;
use crate::script::{child_end, started};
use crate::writes::{Write, put};

/// Time for a child that its task does not bound.
const CHILD_TIMEOUT: u64 = 300_000;

/// A command of the server that is open.
#[derive(Debug, Clone)]
pub(super) struct Parked<'p> {
    pub(super) command: Command<'p>,
    attempt: u64,
    input: JsonMap,
    /// When the attempt began.
    pub(super) since: u64,
    /// When its timer fires.
    pub(super) timer: Option<u64>,
    pub(super) what: Parking,
    /// What rules of earlier attempts wrote; it reaches the execution when the command is closed.
    writes: Vec<Write>,
}

/// What a command waits for.
#[derive(Debug, Clone)]
pub(super) enum Parking {
    /// For its timer.
    Sleep,
    /// For signals.
    Wait(Wanted),
    /// For people.
    Approval(Approving),
    /// For the end of a child.
    Child(Child),
    /// For its next attempt.
    Rest,
    /// For nothing.
    Answered(Answer),
}

impl<'p> Machine<'p> {
    /// Opens a command of the server.
    pub(super) fn park(&mut self, command: Command<'p>) {
        let parked = Parked {
            command,
            attempt: 1,
            input: JsonMap::new(),
            since: self.now,
            timer: None,
            what: Parking::Rest,
            writes: Vec::new(),
        };
        self.begin_attempt(parked);
    }

    /// Renders the task anew and begins to wait.
    fn begin_attempt(&mut self, mut parked: Parked<'p>) {
        let task = parked.task();
        parked.command.view = self.view_of(&parked);
        parked.since = self.now;
        parked.timer = None;
        let prepared = Pipeline::new(&parked.command, self.outcomes).prepare(task, parked.attempt);
        parked.what = match prepared {
            Err(unprepared) => {
                parked.input = unprepared.input.clone();
                Parking::Answered(unprepared.answer())
            }
            Ok(Prepared { input, config }) => {
                parked.input = input;
                let (what, timer) = self.waits_for(&parked, &config);
                parked.timer = timer;
                what
            }
        };
        if parked.timer.is_some() {
            self.log(EventType::TimerStarted, self.step_of(&parked.command));
        }
        self.look_back(&mut parked);
        match parked.what.clone() {
            // Choice: the command is closed where it is issued, and what follows from that waits
            // until everything has entered that enters with it.
            Parking::Answered(answer) => {
                if let Some((command, closed)) = self.answered(parked, answer) {
                    if closed.outcome.is_err() {
                        self.stop_issuing(&command);
                    }
                    self.closed.push((command, closed));
                }
            }
            Parking::Sleep
            | Parking::Wait(_)
            | Parking::Approval(_)
            | Parking::Child(_)
            | Parking::Rest => self.parked.push(parked),
        }
    }

    /// What a rendered task waits for, and when its timer fires.
    fn waits_for(&self, parked: &Parked<'p>, config: &JsonMap) -> (Parking, Option<u64>) {
        let task = parked.task();
        let own = task.spec.timeout.map(Millis::as_ms);
        let until = |timeout: u64| self.now + timeout;
        let broken = |message: &str| {
            let error = TaskError::new(ErrorKind::Schema, message);
            (Parking::Answered(Answer::Error(error)), None)
        };
        match task.kind.value {
            ToolKind::Sleep => match self.wakes(config) {
                Ok(at) => (Parking::Sleep, Some(at)),
                Err(message) => broken(&message),
            },
            ToolKind::Wait => Wanted::of(config).map_or_else(
                || broken("there is nothing to wait for"),
                |wanted| (Parking::Wait(wanted), own.map(until)),
            ),
            ToolKind::Approval => (Parking::Approval(Approving::of(config)), own.map(until)),
            ToolKind::Playbook if awaits_child(task) => {
                let end = child_end(&Json::from(parked.input.clone()), parked.attempt);
                let timeout = own.unwrap_or(CHILD_TIMEOUT);
                let child = Child::of(config, end);
                (Parking::Child(child), Some(until(timeout)))
            }
            _ => {
                let data = started(&Json::from(config.clone()));
                (Parking::Answered(Answer::Ok(data)), None)
            }
        }
    }

    /// When a `sleep` is over; for a time that has passed that is at once.
    fn wakes(&self, config: &JsonMap) -> Result<u64, String> {
        if let Some(length) = config.get("for") {
            let length = Millis::from_json(length).map_err(|error| error.to_string())?;
            return Ok(self.now + length.as_ms());
        }
        let until = config.get("until").and_then(Json::as_str);
        let until = Timestamp::parse(until.unwrap_or_default());
        let until = until.map_err(|error| error.to_string())?;
        Ok(time_of(until))
    }

    /// A wait that looks back takes what came before it, the oldest first.
    fn look_back(&mut self, parked: &mut Parked<'p>) {
        let Parking::Wait(wanted) = &mut parked.what else {
            return;
        };
        let Some(since) = wanted.looks_back_to(self.now) else {
            return;
        };
        let step = find(self.playbook, &parked.command.step.name.value).unwrap_or_default();
        for heard in self.kept.clone() {
            if heard.at >= since && !wanted.is_met() && wanted.take(&heard) {
                self.kept.retain(|kept| *kept != heard);
                self.log(EventType::SignalReceived, step);
            }
        }
        if wanted.is_met() {
            parked.what = Parking::Answered(Answer::Ok(wanted.data()));
        }
    }

    /// A signal comes: the wait that has waited longest for it takes it, else it is kept.
    pub(super) fn signalled(&mut self, heard: Heard) {
        let mut waits: Vec<usize> = (0..self.parked.len()).collect();
        waits.sort_by_key(|at| self.parked[*at].command.number);
        for at in waits {
            let Parking::Wait(wanted) = &mut self.parked[at].what else {
                continue;
            };
            if !wanted.take(&heard) {
                continue;
            }
            let met = wanted.is_met().then(|| wanted.data());
            let step = self.step_of(&self.parked[at].command);
            self.log(EventType::SignalReceived, step);
            if let Some(data) = met {
                let parked = self.parked.remove(at);
                self.come_to(parked, Answer::Ok(data));
            }
            return;
        }
        self.log_playbook(EventType::SignalReceived);
        self.kept.push(heard);
    }

    /// The next of the people who are asked says what he thinks.
    pub(super) fn next_decision(&mut self, command: u64) {
        let now = self.now;
        let Some(at) = self.parked_at(command) else {
            return;
        };
        let Parking::Approval(approving) = &mut self.parked[at].what else {
            return;
        };
        let Some((is_heard, data)) = approving.hear_next(now) else {
            return;
        };
        if is_heard {
            let step = self.step_of(&self.parked[at].command);
            self.log(EventType::SignalReceived, step);
        }
        if let Some(data) = data {
            let parked = self.parked.remove(at);
            self.come_to(parked, Answer::Ok(data));
        }
    }

    /// A child has ended.
    pub(super) fn child_ended(&mut self, command: u64) {
        let Some(at) = self.parked_at(command) else {
            return;
        };
        let parked = self.parked.remove(at);
        let Parking::Child(child) = &parked.what else {
            return;
        };
        let answer = child.answer();
        self.log(EventType::SignalReceived, self.step_of(&parked.command));
        self.come_to(parked, answer);
    }

    /// The timer of a command fires.
    pub(super) fn timer_fired(&mut self, command: u64) {
        let Some(at) = self.parked_at(command) else {
            return;
        };
        let mut parked = self.parked.remove(at);
        self.log(EventType::TimerFired, self.step_of(&parked.command));
        let timeout = || Answer::Error(TaskError::new(ErrorKind::Timeout, "it took too long"));
        let answer = match &parked.what {
            Parking::Sleep => Answer::Ok(Json::object([
                ("slept_ms", Json::from(self.now - parked.since)),
                ("fired_at", moment(self.now)),
            ])),
            Parking::Approval(approving) => match approving.on_timeout(self.now) {
                Some(data) => Answer::Ok(data),
                None => timeout(),
            },
            Parking::Wait(_) | Parking::Child(_) => timeout(),
            Parking::Rest => {
                parked.attempt += 1;
                self.begin_attempt(parked);
                return;
            }
            Parking::Answered(answer) => answer.clone(),
        };
        self.come_to(parked, answer);
    }

    /// Lets follow what follows from the first command that was closed where it was issued. Whether
    /// there was one.
    pub(super) fn close_next(&mut self) -> bool {
        if self.closed.is_empty() {
            return false;
        }
        let (command, closed) = self.closed.remove(0);
        self.close(&command, closed);
        true
    }

    /// An attempt of a command that waited has come to something.
    fn come_to(&mut self, parked: Parked<'p>, answer: Answer) {
        if let Some((command, closed)) = self.answered(parked, answer) {
            self.close(&command, closed);
        }
    }

    /// The policy of the task says what follows an attempt: the command is closed, or rests.
    fn answered(
        &mut self,
        mut parked: Parked<'p>,
        answer: Answer,
    ) -> Option<(Command<'p>, Closed)> {
        let step = self.step_of(&parked.command);
        let index = parked.command.item.as_ref().map(|item| item.index);
        parked.command.view = self.view_of(&parked);
        let command = parked.command.clone();
        let attempt = Attempt {
            task: parked.task(),
            number: parked.attempt,
            input: parked.input.clone(),
            answer,
        };
        let stopped = self.stopped();
        let mut pipeline = Pipeline::new(&command, self.outcomes);
        let mut settled = pipeline.settle(&attempt);
        let again = match settled {
            // After an uncaught failure no attempt is begun any more.
            Ok(Next::Again(_)) if stopped => {
                settled = Err(pipeline.not_again(&attempt));
                None
            }
            Ok(Next::Again(delay)) => Some(delay),
            Ok(Next::Continue | Next::Jump(_) | Next::Break) | Err(_) => None,
        };
        let outcome = settled.map(|next| pipeline.after(next));
        let Closed {
            outcome,
            writes,
            progress,
            retried,
        } = pipeline.closed(outcome);
        parked.writes.extend(writes);
        if let Some(delay) = again {
            self.log_command(EventType::CallError, step, index);
            parked.command.progress = progress;
            self.rest(parked, delay);
            return None;
        }
        self.log_closing(step, index, &outcome);
        let closed = Closed {
            outcome,
            writes: parked.writes,
            progress,
            retried,
        };
        Some((command, closed))
    }

    /// A command rests before its next attempt.
    ///
    /// Choice: it does so by a timer of its own, also where there is nothing to wait for.
    fn rest(&mut self, mut parked: Parked<'p>, delay: u64) {
        parked.what = Parking::Rest;
        parked.timer = Some(self.now + delay);
        self.log(EventType::TimerStarted, self.step_of(&parked.command));
        self.parked.push(parked);
    }

    /// A command is done with: its writes reach the execution, and the pipeline goes on or ends.
    pub(super) fn close(&mut self, command: &Command<'p>, closed: Closed) {
        let step = self.step_of(command);
        let index = command.item.as_ref().map(|item| item.index);
        // Writes of tasks reach the server with the closing event, also those of a failed one.
        self.write_ctx(step, &closed.writes);
        if let Some(run) = self.running.get_mut(&step) {
            write_vars(&mut run.vars, &closed.writes);
        }
        let ended = match closed.outcome {
            Ok(Reached::Task(at)) => {
                if self.stopped() {
                    self.cut(step, index);
                } else {
                    let mut progress = closed.progress;
                    progress.at = at;
                    self.issue(step, command.item.clone(), progress);
                }
                return;
            }
            Ok(Reached::End(value)) => Ok(value),
            Err(failed) => Err(failed),
        };
        if let Some(index) = index {
            self.iteration_done(step, index, ended);
            return;
        }
        if let Some(run) = self.running.get_mut(&step) {
            run.iter = closed.progress.iter;
        }
        match ended {
            Ok(value) => self.succeed(step, "call.done", value),
            Err(failed) => self.fail(step, failed),
        }
    }

    /// An uncaught failure cancels what waits for a time, a signal or a person; children finish.
    pub(super) fn cancel_parked(&mut self) {
        let mut parked = std::mem::take(&mut self.parked);
        parked.sort_by_key(|parked| parked.command.number);
        for parked in parked {
            match parked.what {
                Parking::Child(_) | Parking::Answered(_) => self.parked.push(parked),
                Parking::Sleep | Parking::Wait(_) | Parking::Approval(_) | Parking::Rest => {
                    self.cancel(&parked);
                }
            }
        }
    }

    fn cancel(&mut self, parked: &Parked<'p>) {
        let step = self.step_of(&parked.command);
        let index = parked.command.item.as_ref().map(|item| item.index);
        self.log_command(EventType::CommandCancelled, step, index);
        self.cut(step, index);
    }

    fn parked_at(&self, command: u64) -> Option<usize> {
        self.parked
            .iter()
            .position(|parked| parked.command.number == command)
    }

    /// What the templates of a command of the server see now, what it wrote itself included.
    fn view_of(&self, parked: &Parked<'p>) -> crate::names::View {
        let step = self.step_of(&parked.command);
        let run = self.running.get(&step).cloned().unwrap_or_default();
        let mut view = self.view(&run);
        for write in &parked.writes {
            match write {
                Write::Ctx(path, value) => put(&mut view.ctx, path, value.clone()),
                Write::Step(path, value) => put(&mut view.vars, path, value.clone()),
                Write::Iter(..) | Write::Pipeline(..) => {}
            }
        }
        view
    }

    /// The number of the step of a command.
    pub(super) fn step_of(&self, command: &Command<'p>) -> usize {
        let name: &Arc<str> = &command.step.name.value;
        find(self.playbook, name).unwrap_or_default()
    }
}

impl<'p> Parked<'p> {
    fn task(&self) -> &'p Task {
        &self.command.step.tool.tasks()[self.command.progress.at]
    }
}
