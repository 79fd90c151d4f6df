//! The interpreter of a pipeline: one attempt after another.

mod frame;
mod keychain;
mod rendering;
mod results;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use noetl_types::redact::{SharedSecretSet, secret_fields};
use noetl_types::report::{RetriedTask, TaskReport};
use noetl_types::{Json, JsonMap, Millis, TaskError, TaskErrorKind, Text};

use super::MachineInput;
use super::call::{CallSpec, CompletedAttempt, ToolResult, needs_full_context};
use super::command_spec::{CommandSpec, NoSuchStep};
use super::environment::{CommandData, CompletedTask, LoopItem, TaskEnvironment};
use super::outcome::MachineOutcome;
use crate::bounds::{MAX_SET_BYTES, bounded_error, fits_within, size_within};
use crate::model::{Playbook, PolicyRule, RuleTest, SetTarget, Step, Task};
use crate::paths::{path_text, write_variables};
use crate::policy::{self, NextAction, PolicyDecision, PolicyError};
use crate::segments;
use crate::template::{FetchNeed, OutputPlace, TaskOutput, Template};
use crate::timeout;
use frame::RowFrame;
use rendering::{Writes, template_error};

pub(super) use keychain::EntryError;
pub use keychain::KeychainEntrySpec;
pub(super) use results::pipeline_data;

/// Maximum number of retried attempts in the outcome.
const MAX_REPORTED_RETRIES: usize = 1000;

/// The state of one command.
pub(super) struct CommandState {
    pub(super) playbook: Arc<Playbook>,
    /// Index of the step in the playbook.
    step_index: usize,
    host: MachineHost,
    /// Indexes of the tasks that belong to this command.
    task_range: Range<usize>,
    pub(super) data: CommandData,
    command_key: Text,
    max_data: usize,
    max_task_runs: u32,
    phase: AttemptPhase,
    /// The current task, its attempt, its key and its input.
    task_index: usize,
    attempt: u32,
    idempotency_key: Text,
    input: JsonMap,
    /// Number of times that each task was started.
    task_runs: Vec<u32>,
    /// Number of attempts in total.
    attempts: u32,
    /// All writes, by the keys of their `set`.
    pub(super) set: JsonMap,
    pub(super) retries: VecDeque<RetriedTask>,
    reports: Vec<TaskReport>,
    /// The data of the task that ran last.
    last_data: Option<Json>,
    /// The rows that its tasks process, in a loop over a cursor.
    frame: Option<Box<RowFrame>>,
    /// The label of the task whose data is `_prev`.
    previous_label: Option<Arc<str>>,
    /// Secrets that must be redacted.
    pub(super) secret_set: SharedSecretSet,
}

/// The process that runs the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MachineHost {
    /// A worker. It calls tools, and leaves a suspended task once it is started.
    Worker,
    /// A server, for a worker that calls one tool per command and applies no policy.
    WorkerProxy,
    /// The server. It completes suspended tasks.
    Server,
}

/// Phase of the current attempt.
enum AttemptPhase {
    /// The call is pending or in progress.
    Call,
    /// The call is complete, and the `set` of the task is next.
    Set(Box<CompletedAttempt>),
    /// The policy of the task is next.
    Rules(Box<CompletedAttempt>),
    /// The call only started the work, which reports its end later.
    Suspended(Json),
    /// A required input is not available.
    Failed(TaskError),
}

/// Result of advancing the machine.
pub(super) enum Transition {
    Continue,
    Call(Box<CallSpec>),
    Wait(Millis),
    Fetch(FetchNeed),
    End(Option<TaskError>),
    /// The task at this index belongs to another command.
    HandOver(usize),
    /// The task was started. This is the data known so far.
    Suspend(Json),
}

/// Reasons why a value cannot be rendered, temporarily or permanently.
pub(super) enum RenderFailure {
    Needs(FetchNeed),
    Failed(TaskError),
}

/// The error of a successful task that its policy fails.
fn policy_failure(rule: Option<&PolicyRule>) -> TaskError {
    let condition = match rule.map(|rule| &rule.test) {
        Some(RuleTest::When(when)) => when.value.as_template().map(Template::source),
        Some(RuleTest::Else) | None => None,
    };
    let message = match condition {
        Some(condition) => format!("a rule of the policy failed the task: when {condition}"),
        None => "the policy failed the task".to_owned(),
    };
    TaskError::new(TaskErrorKind::Unknown, message)
}

/// The item of a loop iteration.
fn loop_item(step: &Step, spec: &CommandSpec) -> Option<LoopItem> {
    let (looping, (index, total)) = step.looping.as_ref().zip(spec.iteration)?;
    let value = spec.context.values.get(&looping.iterator.value);
    Some(LoopItem {
        iterator: Arc::clone(&looping.iterator.value),
        value: value.cloned().unwrap_or_default(),
        index,
        total,
    })
}

impl CommandState {
    pub(super) fn new(spec: CommandSpec, host: MachineHost) -> Result<Self, NoSuchStep> {
        let mut steps = spec.playbook.workflow.iter();
        let Some(step_index) = steps.position(|step| *spec.step == *step.name.value) else {
            return Err(NoSuchStep(spec.step));
        };
        let playbook_max = spec.playbook.executor.spec.policy.limits.max_payload_bytes;
        let max_data = playbook_max.map_or(spec.max_data, |limit| limit.min(spec.max_data));
        let step = &spec.playbook.workflow[step_index];
        let frame = RowFrame::for_step(step, spec.frame_max_rows);
        let tasks = step.tool.tasks();
        let continuation = spec.context.continuation.as_ref();
        let first_task =
            continuation.map_or(Some(0), |state| state.continuation.next_task_index(tasks));
        let Some(first_task) = first_task else {
            return Err(NoSuchStep(spec.step));
        };
        let task_range = segments::command_segment(tasks, first_task);
        let task_runs = vec![0; tasks.len()];
        let item = loop_item(step, &spec);
        let data = CommandData {
            execution_id: Text::from(spec.execution_id.to_string()),
            command_id: spec.command_id.map(|id| Text::from(id.to_string())),
            worker_id: spec.worker_id.as_ref().map(Text::from),
            context: spec.context,
            payloads: BTreeMap::new(),
            secrets: BTreeMap::new(),
            now: spec.issued_at,
            limits: spec.limits,
            budget: spec.budget,
            frame_max_rows: spec.frame_max_rows,
            item,
            ctx: Json::empty_map(),
            iter: Json::empty_map(),
            step_variables: Json::empty_map(),
            pipeline: JsonMap::new(),
            results: JsonMap::new(),
            previous: Json::Null,
        };
        let mut state = Self {
            playbook: spec.playbook,
            step_index,
            host,
            task_range,
            data,
            command_key: spec.idempotency_key,
            max_data: usize::try_from(max_data.as_bytes()).unwrap_or(usize::MAX),
            max_task_runs: spec.max_task_runs,
            phase: AttemptPhase::Call,
            task_index: 0,
            attempt: 1,
            idempotency_key: Text::default(),
            input: JsonMap::new(),
            task_runs,
            attempts: 0,
            set: JsonMap::new(),
            retries: VecDeque::new(),
            reports: Vec::new(),
            last_data: None,
            frame,
            previous_label: None,
            secret_set: SharedSecretSet::default(),
        };
        let continuation = state.data.context.continuation.take();
        state.begin_task(first_task);
        if let Some(continuation) = continuation {
            state.resume_from(continuation);
        }
        Ok(state)
    }

    fn step(&self) -> &Step {
        &self.playbook.workflow[self.step_index]
    }

    /// The current position, for `Debug`.
    pub(super) fn describe_position(&self) -> String {
        let step = self.step();
        let task = step.tool.tasks().get(self.task_index);
        let label = task.map_or("end", |task| &*task.label.value);
        format!("{}/{label} attempt {}", step.name.value, self.attempt)
    }

    /// Advances the machine by one transition.
    pub(super) fn advance(&mut self, input: MachineInput) -> Transition {
        if self.is_claiming() {
            return self.claim_rows();
        }
        match self.advance_task(input) {
            Transition::End(error) => self.finish_row(error),
            other => other,
        }
    }

    fn advance_task(&mut self, input: MachineInput) -> Transition {
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step_index];
        let Some(task) = step.tool.tasks().get(self.task_index) else {
            return Transition::End(None);
        };
        match std::mem::replace(&mut self.phase, AttemptPhase::Call) {
            AttemptPhase::Call => self.start_call(step, task),
            AttemptPhase::Set(completed) => self.apply_set(task, completed),
            AttemptPhase::Rules(completed) => self.apply_rules(step, task, completed, input),
            AttemptPhase::Suspended(data) => Transition::Suspend(data),
            AttemptPhase::Failed(error) => Transition::End(Some(error)),
        }
    }

    /// Records the result of a tool.
    pub(super) fn record_result(&mut self, result: ToolResult) {
        if self.is_claiming() {
            return self.record_claim(result);
        }
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step_index];
        if let Some(task) = step.tool.tasks().get(self.task_index) {
            self.record_attempt(task, result);
        }
    }

    /// Records the result of a tool that was called elsewhere.
    pub(super) fn resume_with_result(&mut self, attempt: u32, result: ToolResult) {
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step_index];
        self.attempt = attempt.max(1);
        if let Some(task) = step.tool.tasks().get(self.task_index) {
            // Rules may read the input. If it cannot be rendered here, it was rendered where the
            // tool was called, or the failure is the result.
            let _ = self.render_call_spec(step, task);
            self.record_attempt(task, result);
        }
    }

    /// Records a payload. If it cannot be fetched, a pending attempt fails like any other, and
    /// pending rules cannot be applied.
    pub(super) fn record_payload(&mut self, uri: Arc<str>, payload: Result<Json, TaskError>) {
        match payload {
            Ok(payload) => drop(self.data.payloads.insert(uri, payload)),
            Err(error) => self.fail_missing_input(error),
        }
    }

    /// Records a keychain entry. If it cannot be resolved, the effect is that of a missing payload.
    pub(super) fn record_secret(&mut self, name: Arc<str>, secret: Result<Json, TaskError>) {
        match secret {
            Ok(secret) => {
                self.secret_set.add(&secret_fields(None, &secret));
                self.data.secrets.insert(name, secret);
            }
            Err(error) => self.fail_missing_input(error),
        }
    }

    fn fail_missing_input(&mut self, error: TaskError) {
        match &self.phase {
            AttemptPhase::Call => self.record_result(ToolResult::failed(error)),
            _ => self.phase = AttemptPhase::Failed(self.locate_error(error)),
        }
    }

    /// Ends the command in the middle of a task.
    pub(super) fn stop_with_error(self: Box<Self>, error: TaskError) -> MachineOutcome {
        let error = self.locate_error(error);
        self.into_outcome(Some(error))
    }

    /// The error of a pipeline that exceeds the maximum number of task runs.
    fn task_run_limit_error(&self) -> Option<TaskError> {
        if self.attempts < self.max_task_runs {
            return None;
        }
        let message = format!(
            "the command has run its tasks {} times; check for a jump or a retry that never ends",
            self.attempts
        );
        Some(self.locate_error(TaskError::new(TaskErrorKind::Limit, message)))
    }

    /// Renders the current task for a caller that runs it elsewhere.
    pub(super) fn prepare_call(&mut self) -> Result<CallSpec, RenderFailure> {
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step_index];
        let Some(task) = step.tool.tasks().get(self.task_index) else {
            return Err(RenderFailure::Failed(template_error("there is no task to start")));
        };
        match self.task_run_limit_error() {
            Some(error) => Err(RenderFailure::Failed(error)),
            None => self.render_call_spec(step, task),
        }
    }

    /// Renders the input of the current task again, for its rules. If that fails, the rules have no
    /// input: the attempt has then already failed for that reason.
    pub(super) fn restore_input(&mut self) -> Result<(), Arc<str>> {
        let playbook = Arc::clone(&self.playbook);
        let step = &playbook.workflow[self.step_index];
        match step.tool.tasks().get(self.task_index).map(|task| self.render_inputs(step, task)) {
            Some(Err(RenderFailure::Needs(FetchNeed::Payload { reference }))) => Err(reference),
            _ => Ok(()),
        }
    }

    fn start_call(&mut self, step: &Step, task: &Task) -> Transition {
        if let Some(error) = self.task_run_limit_error() {
            return Transition::End(Some(error));
        }
        match self.render_call_spec(step, task) {
            Ok(spec) => Transition::Call(Box::new(spec)),
            Err(RenderFailure::Needs(target)) => Transition::Fetch(target),
            Err(RenderFailure::Failed(error)) => {
                self.record_attempt(task, ToolResult::failed(error));
                Transition::Continue
            }
        }
    }

    fn render_inputs(&mut self, step: &Step, task: &Task) -> Result<(), RenderFailure> {
        self.input = JsonMap::new();
        let environment = self.task_environment(task, None);
        let mut input = self.render_fields(&step.input, &environment)?;
        input.extend(self.render_fields(&task.input, &environment)?);
        self.input = input;
        Ok(())
    }

    /// Renders everything that a call needs.
    fn render_call_spec(&mut self, step: &Step, task: &Task) -> Result<CallSpec, RenderFailure> {
        self.render_inputs(step, task)?;
        let environment = self.task_environment(task, None);
        let code_context = if needs_full_context(task) {
            let context = environment.code_context();
            Some(Box::new(context.map_err(|need| self.missing_input(&need, None))?))
        } else {
            None
        };
        let auth = task.auth.as_ref();
        Ok(CallSpec {
            kind: task.kind.value,
            label: Arc::clone(&task.label.value),
            config: self.render_config(task, &environment)?,
            auth: auth.map(|auth| self.render_auth(auth, &environment)).transpose()?,
            libs: task.libs.clone(),
            task_run: self.task_runs.get(self.task_index).copied().unwrap_or(1),
            attempt: self.attempt,
            timeout: timeout::task_timeout(&self.playbook, task),
            idempotency_key: self.idempotency_key.clone(),
            code_context,
            input: self.input.clone(),
        })
    }

    fn task_environment<'s>(
        &'s self,
        task: &'s Task,
        completed: Option<(&'s CompletedAttempt, OutputPlace)>,
    ) -> TaskEnvironment<'s> {
        TaskEnvironment {
            command: &self.data,
            label: &task.label.value,
            idempotency_key: &self.idempotency_key,
            attempt: self.attempt,
            input: Some(&self.input),
            output: completed.map(|(completed, place)| {
                TaskOutput::new(place, completed.envelope.clone(), completed.data.clone())
            }),
            error: completed.map_or(Json::Null, |(completed, _)| completed.error_json()),
            completed: completed.map(|(completed, _)| CompletedTask {
                step: &self.playbook.workflow[self.step_index],
                data: &completed.data,
            }),
        }
    }

    /// Records an attempt. Its `set` and its policy are next.
    fn record_attempt(&mut self, task: &Task, mut result: ToolResult) {
        self.select_output(task, &mut result);
        if !fits_within(&result.data, self.max_data) {
            result.data = Json::Null;
            result.error = Some(self.data_too_large_error());
        }
        result.error = result.error.map(|error| self.locate_error(error));
        self.attempts = self.attempts.saturating_add(1);
        self.record_report(&task.label.value, &result);
        if self.host != MachineHost::Server
            && result.error.is_none()
            && segments::is_suspending(task)
        {
            self.phase = AttemptPhase::Suspended(result.data);
            return;
        }
        self.last_data = Some(result.data.clone());
        self.phase = AttemptPhase::Set(Box::new(CompletedAttempt::new(task, self.attempt, result)));
    }

    fn data_too_large_error(&self) -> TaskError {
        let message = format!(
            "the data is larger than {} bytes; store it elsewhere and return a reference",
            self.max_data
        );
        TaskError::new(TaskErrorKind::Limit, message)
    }

    /// Adds the current task and attempt to an error, and limits its size for the log.
    pub(super) fn locate_error(&self, error: TaskError) -> TaskError {
        let label = if self.is_claiming() {
            Some(Text::from(frame::CLAIM_LABEL))
        } else {
            let task = self.step().tool.tasks().get(self.task_index);
            task.map(|task| Text::from(&*task.label.value))
        };
        bounded_error(TaskError { task: label, attempt: Some(self.attempt), ..error })
    }

    fn apply_set(&mut self, task: &Task, completed: Box<CompletedAttempt>) -> Transition {
        if completed.error.is_none() && !task.set.is_empty() {
            let environment = self.task_environment(task, Some((&completed, OutputPlace::Set)));
            match self.render_set(&task.set, &environment) {
                Ok(values) => {
                    if let Some(error) = self.write_values(values) {
                        return Transition::End(Some(self.locate_error(error)));
                    }
                }
                Err(RenderFailure::Needs(target)) => {
                    self.phase = AttemptPhase::Set(completed);
                    return Transition::Fetch(target);
                }
                Err(RenderFailure::Failed(error)) => {
                    return Transition::End(Some(self.locate_error(error)));
                }
            }
        }
        self.phase = AttemptPhase::Rules(completed);
        Transition::Continue
    }

    fn apply_rules(
        &mut self,
        step: &Step,
        task: &Task,
        completed: Box<CompletedAttempt>,
        input: MachineInput,
    ) -> Transition {
        match self.policy_decision(task, &completed, input) {
            Ok((decision, values)) => {
                if let Some(error) = self.write_values(values) {
                    return Transition::End(Some(self.locate_error(error)));
                }
                self.follow_decision(step, decision, *completed, input)
            }
            Err(RenderFailure::Needs(target)) => {
                self.phase = AttemptPhase::Rules(completed);
                Transition::Fetch(target)
            }
            Err(RenderFailure::Failed(error)) => Transition::End(Some(self.locate_error(error))),
        }
    }

    fn policy_decision<'t>(
        &self,
        task: &'t Task,
        completed: &CompletedAttempt,
        input: MachineInput,
    ) -> Result<(PolicyDecision<'t>, Writes), RenderFailure> {
        let attempt = policy::AttemptOutcome {
            is_ok: completed.error.is_none(),
            number: self.attempt,
            retry_after: completed.retry_after,
            random_fraction: input.random_fraction,
        };
        let environment = self.task_environment(task, Some((completed, OutputPlace::Rule)));
        let decision = policy::evaluate_policy(task.spec.policy.as_ref(), &attempt, &environment);
        let decision = decision.map_err(|policy_error| match &policy_error {
            PolicyError::Template { error, .. } => {
                self.render_failure(error, &policy_error.to_string())
            }
            PolicyError::Setting { .. } => {
                RenderFailure::Failed(template_error(&policy_error.to_string()))
            }
        })?;
        let values = match decision.set {
            Some(set) => self.render_set(set, &environment)?,
            None => Vec::new(),
        };
        Ok((decision, values))
    }

    fn follow_decision(
        &mut self,
        step: &Step,
        decision: PolicyDecision<'_>,
        completed: CompletedAttempt,
        input: MachineInput,
    ) -> Transition {
        let continues = matches!(
            decision.action,
            NextAction::Continue | NextAction::Jump(_) | NextAction::Break
        );
        if continues && let Err(error) = self.store_task_data(step, &completed) {
            return Transition::End(Some(error));
        }
        match decision.action {
            NextAction::Retry { delay } => self.schedule_retry(delay, completed.error, input),
            NextAction::Continue => self.go_to_task(self.task_index + 1),
            NextAction::Jump(target) => {
                match policy::jump_target(target, step.tool.tasks(), self.task_index) {
                    Some(index) => self.go_to_task(index),
                    None => Transition::End(Some(
                        self.locate_error(template_error("there is no task to jump to")),
                    )),
                }
            }
            NextAction::Break => Transition::End(None),
            NextAction::Fail | NextAction::AttemptsExhausted => {
                let error = completed.error;
                let error =
                    error.unwrap_or_else(|| self.locate_error(policy_failure(decision.rule)));
                Transition::End(Some(error))
            }
        }
    }

    fn schedule_retry(
        &mut self,
        delay: Millis,
        error: Option<TaskError>,
        input: MachineInput,
    ) -> Transition {
        if let Some(error) = error {
            if self.retries.len() == MAX_REPORTED_RETRIES {
                self.retries.pop_front();
            }
            let attempt = self.attempt;
            let (retry_in_ms, at) = (delay, input.now);
            self.retries.push_back(RetriedTask { error, attempt, retry_in_ms, at });
        }
        self.attempt = self.attempt.saturating_add(1);
        if delay == Millis::ZERO && self.host == MachineHost::Worker {
            Transition::Continue
        } else {
            Transition::Wait(delay)
        }
    }

    /// Starts a new run of a task. Past the last task there is nothing to start, and the number of
    /// the last attempt is kept for the report.
    fn begin_task(&mut self, index: usize) -> Transition {
        self.task_index = index;
        if let Some(runs) = self.task_runs.get_mut(index) {
            *runs = runs.saturating_add(1);
            self.attempt = 1;
            let step = &self.playbook.workflow[self.step_index];
            let task = step.tool.tasks().get(index);
            let label = task.map_or("", |task| &*task.label.value);
            let row = self.frame.as_ref().and_then(|frame| frame.key_part());
            let row = row.map_or_else(String::new, |row| format!(":{row}"));
            let key = format!("{}:{label}:{runs}{row}", self.command_key);
            self.idempotency_key = Text::from(key);
        }
        Transition::Continue
    }

    /// Writes the values of a `set`. Returns an error if too much of it would be reported to the
    /// server.
    fn write_values(&mut self, values: Writes) -> Option<TaskError> {
        let mut error = None;
        for (target, value) in values {
            let key = target.key();
            policy::add_write(&mut self.set, &key, value.clone());
            let data = &mut self.data;
            let (variables, path) = match target {
                SetTarget::Ctx(path) => (&mut data.ctx, path),
                SetTarget::Iter(path) => (&mut data.iter, path),
                SetTarget::Step(path) => (&mut data.step_variables, path),
                SetTarget::Bare(name) => {
                    data.pipeline.insert(name, value);
                    continue;
                }
            };
            if let Some(size_error) = set_size_error(&self.set, &key) {
                self.set.remove(&*key);
                error.get_or_insert(size_error);
            }
            write_variables(variables, &JsonMap::from([(path_text(&path), value)]));
        }
        error
    }
}

/// True for a variable of the pipeline, which no template of the server reads.
fn stays_on_worker(key: &str) -> bool {
    matches!(SetTarget::parse(key), Ok(SetTarget::Bare(_)))
}

/// Returns the error for writes that are too large for the log, after the write of `key`.
fn set_size_error(set: &JsonMap, key: &str) -> Option<TaskError> {
    let mut reported = set.iter().filter(|(key, _)| !stays_on_worker(key));
    let remaining = reported.try_fold(MAX_SET_BYTES, |remaining, (_, value)| {
        Some(remaining - size_within(value, remaining)?)
    });
    let message = || {
        format!(
            "set: with `{key}`, the values are larger than {MAX_SET_BYTES} bytes; keep big data in \
             the data of a step, or in a variable of the pipeline (a name without `ctx.`)"
        )
    };
    remaining.is_none().then(|| TaskError::new(TaskErrorKind::Limit, message()))
}
