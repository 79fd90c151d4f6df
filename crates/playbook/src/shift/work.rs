//! The interpreter of a pipeline: one attempt after the other.

mod close;
mod frame;
mod handing;
mod keeping;
mod telling;
mod values;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use noetl_types::redact::{Hidden, secrets_of};
use noetl_types::{Digest, Json, JsonMap, Millis, TaskError, TaskErrorKind, Text};

use super::Moment;
use super::call::{Answer, Attempted, CallSpec};
use super::job::{Job, NoSuchStep};
use super::kinds::asks_for_everything;
use super::result::{Finished, RetriedCall, TaskReport};
use super::scope::{Bench, Item, TaskScope};
use crate::bounds::{bounded_error, fits};
use crate::model::{Playbook, SetTarget, Step, Task};
use crate::paths::{path_text, write};
use crate::policy::{self, Next, PolicyError, Ruling};
use crate::segments;
use crate::template::{Output, OutputPlace};
use crate::timeout;
use frame::Frame;
use values::{Writes, unrendered};

/// Retried attempts that are kept for the report.
const MAX_RETRIES: usize = 1000;

/// The work of one command.
pub(super) struct Work {
    pub(super) playbook: Arc<Playbook>,
    /// The place of the step in the playbook.
    step: usize,
    side: Side,
    /// The tasks that are this command's.
    stretch: Range<usize>,
    bench: Bench,
    key_of_command: Text,
    max_data: usize,
    max_task_runs: u32,
    phase: Phase,
    /// The task at hand, its attempt, its key and its input.
    at: usize,
    attempt: u32,
    idempotency_key: Text,
    input: JsonMap,
    /// How often each task was begun.
    runs: Vec<u32>,
    /// Attempts in all.
    attempts: u32,
    /// All writes, by the keys of their `set`.
    set: JsonMap,
    retries: VecDeque<RetriedCall>,
    reports: Vec<TaskReport>,
    /// The data of the task that ran last.
    last: Option<Json>,
    /// The rows that its tasks run for, in a loop over a cursor.
    frame: Option<Box<Frame>>,
    /// The label of the task whose data is `_prev`.
    before: Option<Arc<str>>,
    /// What must not be seen of it.
    pub(super) hidden: Hidden,
}

/// Who does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// A worker: it calls tools, and leaves a task that parks when it is begun.
    Worker,
    /// The server: it ends tasks that park.
    Server,
}

/// How far the attempt at hand is.
enum Phase {
    /// It is to be made, or being made.
    Call,
    /// It was made; the `set` of the task comes first.
    Set(Box<Attempted>),
    /// Then its policy.
    Rules(Box<Attempted>),
    /// It was only begun, and tells its end by itself.
    Parked(Json),
    /// What it needs cannot be had.
    Broken(TaskError),
}

/// What a turn comes to.
pub(super) enum Turn {
    On,
    Call(Box<CallSpec>),
    Wait(Millis),
    Fetch(Want),
    End(Option<TaskError>),
    /// The task at this place is another command's.
    Onward(usize),
    /// The task was begun; this is known of it.
    Park(Json),
}

/// What a template reads and has to be asked for.
pub(super) enum Want {
    /// A payload, by its address.
    Payload(Arc<str>),
    /// An entry of the keychain, by its name.
    Secret(Arc<str>),
}

/// Why something cannot be rendered, for now or at all.
pub(super) enum Stuck {
    Needs(Want),
    Broken(TaskError),
}

/// What the iteration of a loop is for.
fn item_of(step: &Step, job: &Job) -> Option<Item> {
    let (looping, (index, total)) = step.looping.as_ref().zip(job.iteration)?;
    let value = job.carried.values.get(&looping.iterator.value);
    Some(Item {
        iterator: Arc::clone(&looping.iterator.value),
        value: value.cloned().unwrap_or_default(),
        index,
        total,
    })
}

impl Work {
    pub(super) fn new(job: Job, side: Side) -> Result<Self, NoSuchStep> {
        let mut steps = job.playbook.workflow.iter();
        let Some(step) = steps.position(|step| *job.step == *step.name.value) else {
            return Err(NoSuchStep(job.step));
        };
        let of_playbook = job.playbook.executor.spec.policy.limits.max_payload_bytes;
        let max_data = of_playbook.map_or(job.max_data, |own| own.min(job.max_data));
        let model = &job.playbook.workflow[step];
        let frame = Frame::of(model, job.frame);
        let tasks = model.tool.tasks();
        let relay = job.carried.relay.as_ref();
        let from = relay.map_or(Some(0), |relay| relay.onward.place_in(tasks));
        let Some(from) = from else {
            return Err(NoSuchStep(job.step));
        };
        let (stretch, runs) = (segments::stretch(tasks, from), vec![0; tasks.len()]);
        let item = item_of(model, &job);
        let bench = Bench {
            execution_id: Text::from(job.execution_id.to_string()),
            command_id: job.command_id.map(|id| Text::from(id.to_string())),
            worker_id: job.worker_id.as_ref().map(Text::from),
            carried: job.carried,
            payloads: std::collections::BTreeMap::new(),
            secrets: std::collections::BTreeMap::new(),
            now: job.issued_at,
            limits: job.limits,
            frame_max_rows: job.frame,
            item,
            ctx: Json::empty_map(),
            iter: Json::empty_map(),
            step_variables: Json::empty_map(),
            pipeline: JsonMap::new(),
            results: JsonMap::new(),
            previous: Json::Null,
        };
        let mut work = Self {
            playbook: job.playbook,
            step,
            side,
            stretch,
            bench,
            key_of_command: job.idempotency_key,
            max_data: usize::try_from(max_data.as_bytes()).unwrap_or(usize::MAX),
            max_task_runs: job.max_task_runs,
            phase: Phase::Call,
            at: 0,
            attempt: 1,
            idempotency_key: Text::default(),
            input: JsonMap::new(),
            runs,
            attempts: 0,
            set: JsonMap::new(),
            retries: VecDeque::new(),
            reports: Vec::new(),
            last: None,
            frame,
            before: None,
            hidden: Hidden::default(),
        };
        let relay = work.bench.carried.relay.take();
        work.begin(from);
        if let Some(relay) = relay {
            work.take_over(relay);
        }
        Ok(work)
    }

    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        let step = &self.playbook.workflow[self.step];
        let task = step.tool.tasks().get(self.at);
        let label = task.map_or("end", |task| &*task.label.value);
        format!("{}/{label} attempt {}", step.name.value, self.attempt)
    }

    /// The digest of a payload that it needs, where that is known.
    pub(super) fn digest_of(&self, uri: &str) -> Option<Digest> {
        self.bench.carried.digest_of(uri)
    }

    /// Goes on until there is something to do.
    pub(super) fn turn(&mut self, moment: Moment) -> Turn {
        if self.is_claiming() {
            return self.claim();
        }
        match self.turn_of_task(moment) {
            Turn::End(error) => self.end_of_row(error),
            other => other,
        }
    }

    fn turn_of_task(&mut self, moment: Moment) -> Turn {
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step];
        let Some(task) = step.tool.tasks().get(self.at) else {
            return Turn::End(None);
        };
        match std::mem::replace(&mut self.phase, Phase::Call) {
            Phase::Call => self.call(step, task),
            Phase::Set(attempted) => self.apply_set(task, attempted),
            Phase::Rules(attempted) => self.apply_rules(step, task, attempted, moment),
            Phase::Parked(data) => Turn::Park(data),
            Phase::Broken(error) => Turn::End(Some(error)),
        }
    }

    /// Takes what a tool said.
    pub(super) fn called(&mut self, answer: Answer) {
        if self.is_claiming() {
            return self.claimed(answer);
        }
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step];
        if let Some(task) = step.tool.tasks().get(self.at) {
            self.attempted(task, answer);
        }
    }

    /// Takes what a tool said that was called elsewhere.
    pub(super) fn answered(&mut self, attempt: u32, answer: Answer) {
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step];
        self.attempt = attempt.max(1);
        if let Some(task) = step.tool.tasks().get(self.at) {
            // Rules may read the input. What cannot be rendered here was rendered where the tool was
            // called, or its failure is the answer.
            let _ = self.spec(step, task);
            self.attempted(task, answer);
        }
    }

    /// Takes a payload. Without it an attempt fails like any other, and rules cannot be followed.
    pub(super) fn fetched(&mut self, uri: Arc<str>, payload: Result<Json, TaskError>) {
        match payload {
            Ok(payload) => drop(self.bench.payloads.insert(uri, payload)),
            Err(error) => self.go_without(error),
        }
    }

    /// Takes an entry of the keychain; without it the same happens as without a payload.
    pub(super) fn unlocked(&mut self, name: Arc<str>, secret: Result<Json, TaskError>) {
        match secret {
            Ok(secret) => {
                self.hidden.add(&secrets_of(None, &secret));
                self.bench.secrets.insert(name, secret);
            }
            Err(error) => self.go_without(error),
        }
    }

    fn go_without(&mut self, error: TaskError) {
        match &self.phase {
            Phase::Call => self.called(Answer::failed(error)),
            Phase::Set(_) | Phase::Rules(_) | Phase::Parked(_) | Phase::Broken(_) => {
                self.phase = Phase::Broken(self.located(error));
            }
        }
    }

    /// Ends the work in the middle of a task.
    pub(super) fn stop(self: Box<Self>, error: TaskError) -> Finished {
        let error = self.located(error);
        self.close(Some(error))
    }

    /// The failure of a pipeline that does not end.
    fn over_limit(&self) -> Option<TaskError> {
        if self.attempts < self.max_task_runs {
            return None;
        }
        let message = format!(
            "the command has run its tasks {} times; a jump or a retry does not end",
            self.attempts
        );
        Some(self.located(TaskError::new(TaskErrorKind::Limit, message)))
    }

    /// Renders the task at hand, which somebody else carries out.
    pub(super) fn prepare(&mut self) -> Result<CallSpec, Stuck> {
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step];
        let Some(task) = step.tool.tasks().get(self.at) else {
            return Err(Stuck::Broken(unrendered("there is no task to begin with")));
        };
        match self.over_limit() {
            Some(error) => Err(Stuck::Broken(error)),
            None => self.spec(step, task),
        }
    }

    /// Renders the input of the task at hand again, for its rules. Where that is not possible they
    /// have none: then the attempt has failed with the reason already.
    pub(super) fn render_input(&mut self) -> Result<(), Arc<str>> {
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step];
        match step
            .tool
            .tasks()
            .get(self.at)
            .map(|task| self.inputs(step, task))
        {
            Some(Err(Stuck::Needs(Want::Payload(uri)))) => Err(uri),
            Some(Ok(()) | Err(Stuck::Needs(Want::Secret(_)) | Stuck::Broken(_))) | None => Ok(()),
        }
    }

    fn call(&mut self, step: &Step, task: &Task) -> Turn {
        if let Some(error) = self.over_limit() {
            return Turn::End(Some(error));
        }
        match self.spec(step, task) {
            Ok(spec) => Turn::Call(Box::new(spec)),
            Err(Stuck::Needs(want)) => Turn::Fetch(want),
            Err(Stuck::Broken(error)) => {
                self.attempted(task, Answer::failed(error));
                Turn::On
            }
        }
    }

    fn inputs(&mut self, step: &Step, task: &Task) -> Result<(), Stuck> {
        self.input = JsonMap::new();
        let scope = self.scope(task, None);
        let mut input = self.fields(&step.input, &scope)?;
        input.extend(self.fields(&task.input, &scope)?);
        self.input = input;
        Ok(())
    }

    /// Renders all that a call needs.
    fn spec(&mut self, step: &Step, task: &Task) -> Result<CallSpec, Stuck> {
        self.inputs(step, task)?;
        let scope = self.scope(task, None);
        let surroundings = if asks_for_everything(task) {
            let found = scope.surroundings();
            Some(Box::new(found.map_err(|need| self.stuck_on(&need, None))?))
        } else {
            None
        };
        let auth = task.auth.as_ref();
        Ok(CallSpec {
            kind: task.kind.value,
            label: Arc::clone(&task.label.value),
            config: self.config(task, &scope)?,
            auth: auth.map(|auth| self.auth(auth, &scope)).transpose()?,
            libs: task.libs.clone(),
            run: self.runs.get(self.at).copied().unwrap_or(1),
            attempt: self.attempt,
            timeout: timeout::of_task(&self.playbook, task),
            idempotency_key: self.idempotency_key.clone(),
            surroundings,
            input: self.input.clone(),
        })
    }

    fn scope<'s>(
        &'s self,
        task: &'s Task,
        attempted: Option<(&Attempted, OutputPlace)>,
    ) -> TaskScope<'s> {
        TaskScope {
            bench: &self.bench,
            label: &task.label.value,
            idempotency_key: &self.idempotency_key,
            attempt: self.attempt,
            input: Some(&self.input),
            output: attempted.map(|(attempted, place)| {
                Output::new(place, attempted.envelope.clone(), attempted.data.clone())
            }),
            error: attempted.map_or(Json::Null, |(attempted, _)| attempted.error_json()),
        }
    }

    /// Notes an attempt; what it writes and what follows come next.
    fn attempted(&mut self, task: &Task, mut answer: Answer) {
        self.select(task, &mut answer);
        if !fits(&answer.data, self.max_data) {
            answer.data = Json::Null;
            answer.error = Some(self.too_large());
        }
        answer.error = answer.error.map(|error| self.located(error));
        self.attempts = self.attempts.saturating_add(1);
        self.note(&task.label.value, &answer);
        if self.side == Side::Worker && answer.error.is_none() && segments::parks(task) {
            self.phase = Phase::Parked(answer.data);
            return;
        }
        self.last = Some(answer.data.clone());
        self.phase = Phase::Set(Box::new(Attempted::new(task, self.attempt, answer)));
    }

    fn too_large(&self) -> TaskError {
        let message = format!(
            "the data is larger than {} bytes; keep it elsewhere and yield where it is",
            self.max_data
        );
        TaskError::new(TaskErrorKind::Limit, message)
    }

    /// The error as one of the attempt at hand, small enough for the log.
    pub(super) fn located(&self, error: TaskError) -> TaskError {
        let step = &self.playbook.workflow[self.step];
        let task = step.tool.tasks().get(self.at);
        let label = match task {
            _ if self.is_claiming() => Some(Text::from(frame::CLAIM)),
            task => task.map(|task| Text::from(&*task.label.value)),
        };
        bounded_error(TaskError {
            task: label,
            attempt: Some(self.attempt),
            ..error
        })
    }

    fn apply_set(&mut self, task: &Task, attempted: Box<Attempted>) -> Turn {
        if attempted.error.is_none() && !task.set.is_empty() {
            let scope = self.scope(task, Some((&attempted, OutputPlace::Set)));
            match self.set_values(&task.set, &scope) {
                Ok(values) => self.write(values),
                Err(Stuck::Needs(want)) => {
                    self.phase = Phase::Set(attempted);
                    return Turn::Fetch(want);
                }
                Err(Stuck::Broken(error)) => return Turn::End(Some(self.located(error))),
            }
        }
        self.phase = Phase::Rules(attempted);
        Turn::On
    }

    fn apply_rules(
        &mut self,
        step: &Step,
        task: &Task,
        attempted: Box<Attempted>,
        moment: Moment,
    ) -> Turn {
        match self.ruling(task, &attempted, moment) {
            Ok((ruling, values)) => {
                self.write(values);
                self.follow(step, ruling, *attempted, moment)
            }
            Err(Stuck::Needs(want)) => {
                self.phase = Phase::Rules(attempted);
                Turn::Fetch(want)
            }
            Err(Stuck::Broken(error)) => Turn::End(Some(self.located(error))),
        }
    }

    fn ruling<'t>(
        &self,
        task: &'t Task,
        attempted: &Attempted,
        moment: Moment,
    ) -> Result<(Ruling<'t>, Writes), Stuck> {
        let attempt = policy::Attempt {
            is_ok: attempted.error.is_none(),
            number: self.attempt,
            retry_after: attempted.retry_after,
            dice: moment.dice,
        };
        let scope = self.scope(task, Some((attempted, OutputPlace::Rule)));
        let ruling = policy::rule(task.spec.policy.as_ref(), &attempt, &scope);
        let ruling = ruling.map_err(|broken| match &broken {
            PolicyError::Template { error, .. } => self.stuck(error, &broken.to_string()),
            PolicyError::Setting { .. } => Stuck::Broken(unrendered(&broken.to_string())),
        })?;
        let values = match ruling.set {
            Some(set) => self.set_values(set, &scope)?,
            None => Vec::new(),
        };
        Ok((ruling, values))
    }

    fn follow(
        &mut self,
        step: &Step,
        ruling: Ruling<'_>,
        attempted: Attempted,
        moment: Moment,
    ) -> Turn {
        let goes_on = matches!(ruling.next, Next::Continue | Next::Jump(_) | Next::Break);
        if goes_on && let Err(error) = self.keep(step, &attempted) {
            return Turn::End(Some(error));
        }
        match ruling.next {
            Next::Retry { delay } => self.retry(delay, attempted.error, moment),
            Next::Continue => self.go_to(self.at + 1),
            Next::Jump(target) => match policy::jump_target(target, step.tool.tasks(), self.at) {
                Some(at) => self.go_to(at),
                None => Turn::End(Some(
                    self.located(unrendered("there is no task to jump to")),
                )),
            },
            Next::Break => Turn::End(None),
            Next::Fail | Next::Spent => {
                let by_rule = || {
                    let error = TaskError::new(TaskErrorKind::Unknown, "failed by its policy");
                    self.located(error)
                };
                Turn::End(Some(attempted.error.unwrap_or_else(by_rule)))
            }
        }
    }

    fn retry(&mut self, delay: Millis, error: Option<TaskError>, moment: Moment) -> Turn {
        if let Some(error) = error {
            if self.retries.len() == MAX_RETRIES {
                self.retries.pop_front();
            }
            self.retries.push_back(RetriedCall {
                error,
                attempt: self.attempt,
                retry_in: delay,
                at: moment.now,
            });
        }
        self.attempt = self.attempt.saturating_add(1);
        if delay == Millis::ZERO && self.side == Side::Worker {
            Turn::On
        } else {
            Turn::Wait(delay)
        }
    }

    /// Begins a new run of a task. Past the last one there is nothing to begin, and what is told of
    /// the last attempt stays.
    fn begin(&mut self, at: usize) -> Turn {
        self.at = at;
        if let Some(runs) = self.runs.get_mut(at) {
            *runs = runs.saturating_add(1);
            self.attempt = 1;
            let step = &self.playbook.workflow[self.step];
            let task = step.tool.tasks().get(at);
            let label = task.map_or("", |task| &*task.label.value);
            let row = self.frame.as_ref().and_then(|frame| frame.key_part());
            let row = row.map_or_else(String::new, |row| format!(":{row}"));
            let key = format!("{}:{label}:{runs}{row}", self.key_of_command);
            self.idempotency_key = Text::from(key);
        }
        Turn::On
    }

    fn write(&mut self, values: Writes) {
        for (target, value) in values {
            policy::add_write(&mut self.set, &target.key(), value.clone());
            let bench = &mut self.bench;
            let (variables, path) = match target {
                SetTarget::Ctx(path) => (&mut bench.ctx, path),
                SetTarget::Iter(path) => (&mut bench.iter, path),
                SetTarget::Step(path) => (&mut bench.step_variables, path),
                SetTarget::Bare(name) => {
                    bench.pipeline.insert(name, value);
                    continue;
                }
            };
            write(variables, &JsonMap::from([(path_text(&path), value)]));
        }
    }
}
