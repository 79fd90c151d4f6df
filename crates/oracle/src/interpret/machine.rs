//! The state of a run, and the loop that drives it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_playbook::model::{Playbook, Step};
use noetl_types::{EventType, ExecutionStatus, Json, JsonMap};

use super::Schedule;
use super::looping::LoopRun;
use crate::names::{StepValue, View};
use crate::outcome::{ErrorKind, Outcomes};
use crate::pipeline::{Command, execute};
use crate::reach::find;
use crate::result::{Happening, RunResult, Skip, StepResult, StepStatus};
use crate::rng::Rng;
use crate::writes::{Write, put, touch_ctx};

/// The whole state of a run. Steps are numbered in document order.
#[derive(Clone)]
pub(super) struct Machine<'p> {
    pub(super) playbook: &'p Playbook,
    outcomes: &'p dyn Outcomes,
    dice: Option<Rng>,
    pub(super) workload: Json,
    pub(super) ctx: JsonMap,
    pub(super) steps: Vec<StepState>,
    /// Steps with arrivals, in order of the first arrival of each.
    pub(super) waiting: Vec<Waiting>,
    /// Steps that were entered and have not exited.
    pub(super) running: BTreeMap<usize, Running>,
    /// Commands in order of issue.
    pub(super) open: Vec<Command<'p>>,
    /// Uncaught failures, in order.
    pub(super) failures: Vec<(usize, ErrorKind)>,
    pub(super) skipped: Vec<Skip>,
    /// Data of the last step that exited without taking an arc.
    pub(super) dead_end: Json,
    /// The final step is running: the failure that led to it no longer stops anything.
    pub(super) ending: bool,
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
}

impl<'p> Machine<'p> {
    pub(super) fn new(
        playbook: &'p Playbook,
        workload: Json,
        outcomes: &'p dyn Outcomes,
        schedule: Schedule,
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
            failures: Vec::new(),
            skipped: Vec::new(),
            dead_end: Json::Null,
            ending: false,
            history: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> RunResult {
        self.log_playbook(EventType::PlaybookStarted);
        if let Some(entry) = self
            .playbook
            .entry()
            .and_then(|step| find(self.playbook, &step.name.value))
        {
            let event = event("playbook.started", "", self.workload.clone());
            self.arrive(
                entry,
                Arrival {
                    event,
                    data: Json::Null,
                },
            );
        }
        self.drain();
        self.run_final_step();
        let failed = !self.failures.is_empty();
        self.log_playbook(if failed {
            EventType::PlaybookFailed
        } else {
            EventType::PlaybookCompleted
        });
        self.result()
    }

    /// The run ends when no step is active; what waits after an uncaught failure is never entered.
    fn drain(&mut self) {
        self.enter_all();
        while !self.open.is_empty() {
            let at = self
                .dice
                .as_mut()
                .map_or(0, |dice| dice.below(self.open.len()));
            let command = self.open.remove(at);
            self.carry_out(&command);
            self.enter_all();
        }
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

    /// One worker takes a command and carries it to its end.
    fn carry_out(&mut self, command: &Command<'p>) {
        let Some(step) = find(self.playbook, &command.step.name.value) else {
            return;
        };
        let index = command.item.as_ref().map(|item| item.index);
        let closed = execute(command, self.outcomes);
        self.log_command(EventType::CommandClaimed, step, index);
        self.log_command(EventType::CommandStarted, step, index);
        for _ in 0..closed.retried {
            self.log_command(EventType::CallError, step, index);
        }
        let (call, end) = match &closed.outcome {
            Ok(_) => (EventType::CallDone, EventType::CommandCompleted),
            Err(_) => (EventType::CallError, EventType::CommandFailed),
        };
        self.log_command(call, step, index);
        self.log_command(end, step, index);
        // Writes of tasks reach the server with the closing event, also those of a failed one.
        self.write_ctx(step, &closed.writes);
        if let Some(run) = self.running.get_mut(&step) {
            write_vars(&mut run.vars, &closed.writes);
        }
        if let Some(index) = index {
            self.iteration_done(step, index, closed.outcome);
            return;
        }
        if let Some(run) = self.running.get_mut(&step) {
            run.iter = closed.iter;
        }
        match closed.outcome {
            Ok(done) => self.succeed(step, "call.done", done.value),
            Err(failed) => self.fail(step, failed),
        }
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

    fn log_playbook(&mut self, event: EventType) {
        let node = Arc::clone(self.playbook.path());
        self.history.push(Happening {
            event,
            node,
            index: None,
        });
    }

    fn status(&self) -> ExecutionStatus {
        if self.failures.is_empty() {
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
            error_kind: self.failures.first().map(|(_, kind)| *kind),
            steps: (0..self.steps.len())
                .map(|step| (name(step), self.steps[step].result()))
                .collect(),
            failed_steps: self.failures.iter().map(|(step, _)| name(*step)).collect(),
            result: self.final_data(),
            skipped: self.skipped,
            ctx: Json::from(self.ctx),
            workload: self.workload,
            history: self.history,
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
