//! The state of a run, and the loop that drives it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_playbook::model::{Playbook, Step};
use noetl_types::{EventType, ExecutionStatus, Json, JsonMap};

use super::Schedule;
use super::cursor::FrameRun;
use super::looping::LoopRun;
use super::parking::Parked;
use super::slots::Want;
use super::waits::Heard;
use crate::names::{StepValue, View};
use crate::outcome::{ErrorKind, Outcomes};
use crate::pipeline::{Closed, Command, Failed, Reached, execute};
use crate::reach::find;
use crate::result::{Cached, Happening, RunResult, Skip, StepResult, StepStatus};
use crate::rng::Rng;
use crate::script::World;
use crate::writes::{Write, put, touch_ctx};

/// The whole state of a run. Steps are numbered in document order.
#[derive(Clone)]
pub(super) struct Machine<'p> {
    pub(super) playbook: &'p Playbook,
    pub(super) outcomes: &'p dyn Outcomes,
    pub(super) world: World,
    dice: Option<Rng>,
    /// Milliseconds since the run began.
    pub(super) now: u64,
    pub(super) workload: Json,
    pub(super) ctx: JsonMap,
    pub(super) steps: Vec<StepState>,
    /// Steps with arrivals, in order of the first arrival of each.
    pub(super) waiting: Vec<Waiting>,
    /// Steps that were entered and have not exited.
    pub(super) running: BTreeMap<usize, Running>,
    /// Commands of workers in order of issue.
    pub(super) open: Vec<Command<'p>>,
    /// Commands of the server.
    pub(super) parked: Vec<Parked<'p>>,
    /// Commands of the server that were closed where they were issued.
    pub(super) closed: Vec<(Command<'p>, Closed)>,
    /// How many commands were issued.
    issued: u64,
    /// Signals that came and that no wait has taken, the oldest first.
    pub(super) kept: Vec<Heard>,
    /// The number of the signal that comes next.
    pub(super) next_signal: usize,
    /// The slot that the run itself waits for.
    pub(super) gate: Option<Want>,
    /// Results that steps have left to those with the same key.
    pub(super) cache: Vec<Cached>,
    /// The step that was just given a slot.
    pub(super) granted: Option<usize>,
    /// Uncaught failures, in order.
    pub(super) failures: Vec<(usize, ErrorKind)>,
    pub(super) skipped: Vec<Skip>,
    /// Data of the last step that exited without taking an arc.
    pub(super) dead_end: Json,
    /// The final step is running: the failure that led to it no longer stops anything.
    pub(super) ending: bool,
    /// The time of the whole run is over.
    pub(super) timed_out: bool,
    history: Vec<Happening>,
}

/// What is known of a step.
#[derive(Debug, Clone)]
pub(super) struct StepState {
    /// Times that it was entered or skipped by its guard or admission.
    pub(super) passes: u64,
    /// Times that it was entered.
    pub(super) runs: u64,
    pub(super) status: StepStatus,
    /// Data of its latest successful run.
    pub(super) value: Option<StepValue>,
    /// Data and error of its latest run.
    pub(super) last_data: Json,
    pub(super) last_error: Json,
    pub(super) error_kind: Option<ErrorKind>,
}

/// A step that waits to enter.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) step: usize,
    /// When the first arrival came.
    pub(super) since: u64,
    /// The slot that it waits for, once nothing else keeps it.
    pub(super) wants: Option<Want>,
    pub(super) arrivals: Vec<Arrival>,
}

/// What came along an arc.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrival {
    /// The event of the step that led here.
    pub(super) event: Json,
    /// Its data.
    pub(super) data: Json,
}

/// A run of a step.
#[derive(Debug, Clone, Default)]
pub(super) struct Running {
    /// What led to it.
    pub(super) came_with: Arrival,
    /// What `set: step.x` wrote.
    pub(super) vars: JsonMap,
    /// What `set: iter.x` wrote, outside of loops.
    pub(super) iter: JsonMap,
    pub(super) looping: Option<LoopRun>,
    pub(super) frames: Option<FrameRun>,
    /// When the first arrival came, and when the step was entered.
    pub(super) arrived_at: u64,
    pub(super) entered_at: u64,
    /// The key of the slot that it holds.
    pub(super) slot: Option<String>,
    /// The key under which its result is left to others.
    pub(super) cache_key: Option<String>,
}

impl<'p> Machine<'p> {
    pub(super) fn new(
        playbook: &'p Playbook,
        workload: Json,
        outcomes: &'p dyn Outcomes,
        schedule: Schedule,
        cache: Vec<Cached>,
    ) -> Self {
        let fresh = StepState {
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
            world: World::of(&workload),
            now: 0,
            dice: match schedule {
                Schedule::InOrder => None,
                Schedule::Seeded(seed) => Some(Rng::new(seed)),
            },
            workload,
            ctx: JsonMap::new(),
            steps: vec![fresh; playbook.workflow.len()],
            waiting: Vec::new(),
            running: BTreeMap::new(),
            open: Vec::new(),
            parked: Vec::new(),
            closed: Vec::new(),
            issued: 0,
            kept: Vec::new(),
            next_signal: 0,
            gate: None,
            cache,
            granted: None,
            failures: Vec::new(),
            skipped: Vec::new(),
            dead_end: Json::Null,
            ending: false,
            timed_out: false,
            history: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> RunResult {
        self.log_playbook(EventType::PlaybookStarted);
        // Choice: a key of the whole run that cannot be rendered keeps nobody waiting.
        self.gate = self.root_slot().unwrap_or_default();
        if self.gate.is_none() {
            self.arrive_at_entry();
        }
        self.drain();
        if !self.timed_out && !self.is_active() {
            self.run_final_step();
        }
        if self.is_active() {
            // Nothing will ever come to it.
            return self.result();
        }
        let failed = self.timed_out || !self.failures.is_empty();
        self.log_playbook(if failed {
            EventType::PlaybookFailed
        } else {
            EventType::PlaybookCompleted
        });
        self.result()
    }

    fn arrive_at_entry(&mut self) {
        let entry = self.playbook.entry();
        let Some(entry) = entry.and_then(|step| find(self.playbook, &step.name.value)) else {
            return;
        };
        let event = event("playbook.started", "", self.workload.clone());
        let data = Json::Null;
        self.arrive(entry, Arrival { event, data });
    }

    /// The run ends when no step is active; what waits after an uncaught failure is never entered.
    ///
    /// What is due comes before any work, and time passes only when there is no work.
    fn drain(&mut self) {
        loop {
            self.settle();
            if self.timed_out || !self.is_active() {
                return;
            }
            match self.next_due() {
                Some((at, due)) if at <= self.now || self.open.is_empty() => self.happen(at, due),
                Some(_) | None if self.open.is_empty() => return,
                Some(_) | None => self.work(),
            }
        }
    }

    /// Lets everything follow that needs nobody from outside.
    fn settle(&mut self) {
        loop {
            // What waits for a slot is looked at anew: its guard may have changed, or its key.
            for waiting in &mut self.waiting {
                waiting.wants = None;
            }
            self.enter_all();
            self.granted = None;
            if !self.close_next() && !self.grant() {
                return;
            }
        }
    }

    /// Gives a slot to whoever is next. Whether there was one to give.
    fn grant(&mut self) -> bool {
        if self.stopped() {
            return false;
        }
        if self.gate.as_ref().is_some_and(|want| self.is_free(want)) {
            self.gate = None;
            self.arrive_at_entry();
            return true;
        }
        let Some(step) = self.next_granted() else {
            return false;
        };
        self.granted = Some(step);
        true
    }

    fn is_active(&self) -> bool {
        let is_waiting = !self.waiting.is_empty() || self.gate.is_some();
        !self.running.is_empty() || (is_waiting && !self.stopped())
    }

    /// One worker takes a command and carries it to its end.
    fn work(&mut self) {
        let at = self
            .dice
            .as_mut()
            .map_or(0, |dice| dice.below(self.open.len()));
        let command = self.open.remove(at);
        if let Some(frame) = command.frame {
            self.carry_out_frame(&command, frame);
            return;
        }
        let closed = execute(&command, self.outcomes);
        let index = command.item.as_ref().map(|item| item.index);
        self.log_work(self.step_of(&command), index, &closed);
        self.close(&command, closed);
    }

    /// `final_step` runs once when the run would end, whichever way.
    fn run_final_step(&mut self) {
        let name = self.playbook.executor.spec.final_step.as_ref();
        let Some(step) = name.and_then(|name| find(self.playbook, &name.value)) else {
            return;
        };
        self.ending = true;
        self.waiting.clear();
        let status = Json::from(self.status().as_str());
        let event = event("run.ending", "", Json::object([("status", status)]));
        self.arrive(
            step,
            Arrival {
                event,
                data: Json::Null,
            },
        );
        self.drain();
    }

    /// What a worker tells of a command.
    pub(super) fn log_work(&mut self, step: usize, index: Option<usize>, closed: &Closed) {
        self.log_command(EventType::CommandClaimed, step, index);
        self.log_command(EventType::CommandStarted, step, index);
        for _ in 0..closed.retried {
            self.log_command(EventType::CallError, step, index);
        }
        self.log_closing(step, index, &closed.outcome);
    }

    /// How a command was closed.
    pub(super) fn log_closing(
        &mut self,
        step: usize,
        index: Option<usize>,
        outcome: &Result<Reached, Failed>,
    ) {
        let (call, end) = match outcome {
            Ok(_) => (EventType::CallDone, EventType::CommandCompleted),
            Err(_) => (EventType::CallError, EventType::CommandFailed),
        };
        self.log_command(call, step, index);
        self.log_command(end, step, index);
    }

    /// The place of the next command in the order of issue.
    pub(super) fn next_number(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    /// When the time of a step that was entered is over.
    pub(super) fn step_ends(&self, step: usize, run: &Running) -> Option<u64> {
        let spec = &self.step(step).spec;
        let timeout = spec.timeout.map(|timeout| run.entered_at + timeout.as_ms());
        let deadline = spec.policy.lifecycle.deadline;
        let deadline = deadline.map(|deadline| run.arrived_at + deadline.as_ms());
        timeout.into_iter().chain(deadline).min()
    }

    /// Steps that were entered and have not exited, or wait to enter.
    pub(super) fn active(&self) -> BTreeSet<usize> {
        self.running
            .keys()
            .copied()
            .chain(self.waiting.iter().map(|waiting| waiting.step))
            .collect()
    }

    /// After an uncaught failure nothing is entered, issued or skipped any more, but for the final step.
    pub(super) fn stopped(&self) -> bool {
        !self.failures.is_empty() && !self.ending
    }

    pub(super) fn step(&self, step: usize) -> &'p Step {
        &self.playbook.workflow[step]
    }

    /// What templates of a run can see at this moment.
    pub(super) fn view(&self, run: &Running) -> View {
        let names = self
            .playbook
            .workflow
            .iter()
            .map(|step| Arc::clone(&step.name.value));
        let named = || names.clone().zip(&self.steps);
        View {
            path: Arc::clone(self.playbook.path()),
            workload: self.workload.clone(),
            ctx: self.ctx.clone(),
            data: named()
                .filter_map(|(name, state)| Some((name, state.value.clone()?)))
                .collect(),
            steps: named()
                .filter(|(_, state)| state.status != StepStatus::Pending)
                .map(|(name, state)| (name, state.as_json()))
                .collect(),
            result: run.came_with.data.clone(),
            vars: run.vars.clone(),
        }
    }

    /// Applies the writes of one `set` group to the variables of the execution.
    pub(super) fn write_ctx(&mut self, step: usize, writes: &[Write]) {
        for write in writes {
            if let Write::Ctx(path, value) = write {
                put(&mut self.ctx, path, value.clone());
            }
        }
        if touch_ctx(writes) {
            self.log(EventType::CtxUpdated, step);
        }
    }

    pub(super) fn log(&mut self, event: EventType, step: usize) {
        self.log_command(event, step, None);
    }

    pub(super) fn log_command(&mut self, event: EventType, step: usize, index: Option<usize>) {
        let node = Arc::clone(&self.step(step).name.value);
        self.history.push(Happening { event, node, index });
    }

    pub(super) fn log_playbook(&mut self, event: EventType) {
        let node = Arc::clone(self.playbook.path());
        self.history.push(Happening {
            event,
            node,
            index: None,
        });
    }

    fn status(&self) -> ExecutionStatus {
        if self.is_active() {
            ExecutionStatus::Running
        } else if self.failures.is_empty() && !self.timed_out {
            ExecutionStatus::Completed
        } else {
            ExecutionStatus::Failed
        }
    }

    /// Data of `final_step`, else of `end` if it ran, else of the last step that exited without
    /// taking an arc.
    ///
    /// Choice: only a successful run counts as one that ran, also where the run as a whole failed.
    fn final_data(&self) -> Json {
        let data_of = |name: &str| {
            let step = find(self.playbook, name)?;
            self.steps[step]
                .value
                .as_ref()
                .map(|value| value.data.clone())
        };
        let final_step = self.playbook.executor.spec.final_step.as_ref();
        let of_final = final_step.and_then(|name| data_of(&name.value));
        of_final
            .or_else(|| data_of("end"))
            .unwrap_or_else(|| self.dead_end.clone())
    }

    fn result(self) -> RunResult {
        let name = |step: usize| Arc::clone(&self.step(step).name.value);
        RunResult {
            status: self.status(),
            error_kind: if self.timed_out {
                Some(ErrorKind::Timeout)
            } else {
                self.failures.first().map(|(_, kind)| *kind)
            },
            steps: (0..self.steps.len())
                .map(|step| (name(step), self.steps[step].result()))
                .collect(),
            failed_steps: self.failures.iter().map(|(step, _)| name(*step)).collect(),
            result: self.final_data(),
            skipped: self.skipped,
            ctx: Json::from(self.ctx),
            workload: self.workload,
            history: self.history,
            left: self.cache,
        }
    }
}

impl StepState {
    /// What `steps.<name>` shows.
    fn as_json(&self) -> Json {
        Json::object([
            ("status", Json::from(self.status.as_str())),
            ("data", self.last_data.clone()),
            ("error", self.last_error.clone()),
            ("run", Json::from(self.runs)),
        ])
    }

    fn result(&self) -> StepResult {
        StepResult {
            runs: self.runs,
            status: self.status,
            data: self
                .value
                .as_ref()
                .map(|value| value.data.clone())
                .unwrap_or_default(),
            error_kind: self.error_kind,
        }
    }
}

/// What `event` holds.
pub(super) fn event(name: &str, step: &str, payload: Json) -> Json {
    Json::object([
        ("name", Json::from(name)),
        ("step", Json::from(step)),
        ("payload", payload),
    ])
}

/// Applies writes to the variables of a run.
pub(super) fn write_vars(vars: &mut JsonMap, writes: &[Write]) {
    for write in writes {
        if let Write::Step(path, value) = write {
            put(vars, path, value.clone());
        }
    }
}
