//! Runs the tasks of a pipeline: attempts, policies and writes.

use std::sync::Arc;

use noetl_playbook::model::{
    JumpTarget, OnUnmatched, OutputSpec, PolicyRule, RuleAction, RuleTest, Task, Tool, ToolKind,
};
use noetl_playbook::template::{OutputPlace, RenderError, TemplateEnvironment};
use noetl_types::{Json, JsonMap};

use super::output;
use super::retry::{max_attempts, retry_delay_ms};
use super::task_names::add_input;
use super::{
    ClosedCommand, Command, CommandFailure, PipelinePosition, PipelineProgress, evaluate_condition,
    is_suspending, pipeline_data, render_fields,
};
use crate::names::{ExecutionView, StepValue};
use crate::outcome::{ErrorKind, TaskCall, TaskError, ToolAnswer, ToolOutcomes};
use crate::writes::{SetLocation, VariableWrite, render_set, write_at_path};

/// Maximum tasks that one command may run, repetitions included.
const MAX_TASK_RUNS: u64 = 1_000_000;

/// A running command.
pub(crate) struct PipelineExecutor<'c> {
    pub(super) command: &'c Command<'c>,
    outcomes: &'c dyn ToolOutcomes,
    /// View of the command, including its own writes so far.
    pub(super) view: ExecutionView,
    pub(super) progress: PipelineProgress,
    writes: Vec<VariableWrite>,
    retry_count: u64,
}

/// Next action of the pipeline after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextAction {
    /// Continues with the next task.
    Continue,
    /// Jumps to this task.
    Jump(usize),
    /// Ends the pipeline.
    Break,
    /// Retries the same task after this many milliseconds.
    Retry(u64),
}

/// One attempt and its outcome.
#[derive(Debug, Clone)]
pub(crate) struct TaskAttempt<'t> {
    pub(crate) task: &'t Task,
    pub(crate) number: u64,
    pub(crate) input: JsonMap,
    pub(crate) answer: ToolAnswer,
}

/// Rendered input and configuration of an attempt.
pub(crate) struct PreparedAttempt {
    pub(crate) input: JsonMap,
    pub(crate) config: JsonMap,
}

/// An attempt whose templates cannot be rendered.
pub(crate) struct AttemptRenderError {
    /// Input, if that could be rendered.
    pub(crate) input: JsonMap,
    message: String,
}

impl AttemptRenderError {
    /// A rendering error is a failed attempt like any other.
    pub(crate) fn to_answer(&self) -> ToolAnswer {
        ToolAnswer::Error(TaskError::new(ErrorKind::Template, self.message.as_str()))
    }
}

impl<'c> PipelineExecutor<'c> {
    pub(crate) fn new(command: &'c Command<'c>, outcomes: &'c dyn ToolOutcomes) -> Self {
        Self {
            command,
            outcomes,
            view: command.view.clone(),
            progress: command.progress.clone(),
            writes: Vec::new(),
            retry_count: 0,
        }
    }

    /// Returns what the command sees now.
    pub(crate) fn view(&self) -> &ExecutionView {
        &self.view
    }

    /// Closes the command.
    pub(crate) fn into_closed(
        self,
        outcome: Result<PipelinePosition, CommandFailure>,
    ) -> ClosedCommand {
        ClosedCommand {
            outcome,
            writes: self.writes,
            progress: self.progress,
            retry_count: self.retry_count,
        }
    }

    /// Runs the tasks up to the end, or to the next one that suspends.
    pub(crate) fn run(&mut self) -> Result<PipelinePosition, CommandFailure> {
        let tasks = self.command.step.tool.tasks();
        while let Some(task) = tasks.get(self.progress.task_index) {
            if is_suspending(self.command.step, task) {
                return Ok(PipelinePosition::Task(self.progress.task_index));
            }
            let from = self.progress.task_index;
            let next = self.run_task(task)?;
            if let Some(end) = self.advance(next) {
                return Ok(end);
            }
            if self.crosses_suspension(from, self.progress.task_index) {
                return Ok(PipelinePosition::Task(self.progress.task_index));
            }
        }
        Ok(self.end_position())
    }

    /// True if a suspending task lies between the two, so that one command cannot continue.
    fn crosses_suspension(&self, from: usize, to: usize) -> bool {
        let step = self.command.step;
        let tasks = step.tool.tasks().iter().enumerate();
        tasks
            .filter(|(index, _)| (from.min(to)..=from.max(to)).contains(index))
            .any(|(_, task)| is_suspending(step, task))
    }

    /// Moves on from the current task. Returns `None` unless the pipeline ends.
    fn advance(&mut self, next: NextAction) -> Option<PipelinePosition> {
        match next {
            NextAction::Continue => self.progress.task_index += 1,
            NextAction::Jump(to) => self.progress.task_index = to,
            NextAction::Break => return Some(self.end_position()),
            NextAction::Retry(_) => {}
        }
        None
    }

    /// Returns the position after the single task of a suspended command.
    pub(crate) fn position_after(&mut self, next: NextAction) -> PipelinePosition {
        let end = self.advance(next);
        let is_over = self.progress.task_index >= self.command.step.tool.tasks().len();
        end.unwrap_or_else(|| {
            if is_over {
                self.end_position()
            } else {
                PipelinePosition::Task(self.progress.task_index)
            }
        })
    }

    fn end_position(&self) -> PipelinePosition {
        let last = self.progress.previous.clone().unwrap_or_default();
        let results = &self.progress.results;
        PipelinePosition::End(match &self.command.step.tool {
            // The data of a single task is not wrapped in labels.
            Tool::Single(_) => StepValue { data: last, labels: None },
            Tool::Pipeline(_) => StepValue {
                data: self.apply_step_selection(pipeline_data(results, last)),
                labels: Some(results.clone()),
            },
        })
    }

    /// Applies the step's selection to the data of a pipeline. A loop selects from its own data.
    fn apply_step_selection(&self, data: Json) -> Json {
        let step = self.command.step;
        match &step.output {
            Some(output) if step.looping.is_none() => output::apply_selection(data, &output.select),
            Some(_) | None => data,
        }
    }

    /// Counts a visit of a task.
    pub(crate) fn count_visit(&mut self, task: &Task) {
        let label = Arc::clone(&task.label.value);
        *self.progress.visits.entry(label).or_default() += 1;
    }

    /// Runs one visit of a task: attempts until its policy decides.
    fn run_task(&mut self, task: &Task) -> Result<NextAction, CommandFailure> {
        self.count_visit(task);
        let mut number = 1;
        loop {
            self.progress.task_runs += 1;
            if self.progress.task_runs > MAX_TASK_RUNS {
                let error = TaskError::new(ErrorKind::Limit, "too many task runs in one command");
                return Err(self.task_failure(task, number, &error));
            }
            let attempt = self.run_attempt(task, number);
            match self.process_attempt(&attempt)? {
                // A worker waits on its own, and no time passes for the run.
                NextAction::Retry(_) => {
                    self.retry_count += 1;
                    number += 1;
                }
                next @ (NextAction::Continue | NextAction::Jump(_) | NextAction::Break) => {
                    return Ok(next);
                }
            }
        }
    }

    /// Processes an attempt: the writes of its task, then its policy.
    pub(crate) fn process_attempt(
        &mut self,
        attempt: &TaskAttempt<'_>,
    ) -> Result<NextAction, CommandFailure> {
        let attempt = &TaskAttempt {
            answer: match attempt.answer.clone() {
                ToolAnswer::Ok(data) => ToolAnswer::Ok(self.select_output(attempt.task, data)),
                error @ ToolAnswer::Error(_) => error,
            },
            ..attempt.clone()
        };
        // The task's own writes come first, and only after a successful attempt.
        if let ToolAnswer::Ok(_) = attempt.answer {
            let environment =
                self.attempt_template_names(attempt, OutputPlace::Set).to_environment();
            let writes = render_set(&attempt.task.set, &environment, SetLocation::Task);
            // Choice: a write that cannot be rendered fails the task without evaluating its policy.
            self.apply_task_writes(writes.map_err(|error| self.render_failure(attempt, &error))?);
        }
        self.evaluate_policy(attempt)
    }

    /// Evaluates the policy rules.
    fn evaluate_policy(&mut self, attempt: &TaskAttempt<'_>) -> Result<NextAction, CommandFailure> {
        let policy = attempt.task.spec.policy.as_ref();
        let environment = self.attempt_template_names(attempt, OutputPlace::Rule).to_environment();
        let mut chosen: Option<&PolicyRule> = None;
        for rule in policy.iter().flat_map(|policy| &policy.rules) {
            let matches = match &rule.test {
                RuleTest::Else => true,
                RuleTest::When(when) => evaluate_condition(when, &environment)
                    .map_err(|error| self.render_failure(attempt, &error))?,
            };
            if matches {
                chosen = Some(rule);
                break;
            }
        }
        let Some(rule) = chosen else {
            return match (&attempt.answer, policy.map(|policy| policy.on_unmatched)) {
                (ToolAnswer::Ok(_), _) | (ToolAnswer::Error(_), Some(OnUnmatched::Continue)) => {
                    self.record_result(attempt)?;
                    Ok(NextAction::Continue)
                }
                (ToolAnswer::Error(error), None | Some(OnUnmatched::Fail)) => {
                    Err(self.task_failure(attempt.task, attempt.number, error))
                }
            };
        };
        // The writes of a chosen rule are applied for every action.
        let writes = render_set(&rule.then.set, &environment, SetLocation::Task);
        self.apply_task_writes(writes.map_err(|error| self.render_failure(attempt, &error))?);
        self.apply_action(attempt, &rule.then.action, &environment)
    }

    fn apply_action(
        &mut self,
        attempt: &TaskAttempt<'_>,
        action: &RuleAction,
        environment: &dyn TemplateEnvironment,
    ) -> Result<NextAction, CommandFailure> {
        match action {
            RuleAction::Continue => {
                self.record_result(attempt)?;
                Ok(NextAction::Continue)
            }
            RuleAction::Break => {
                self.record_result(attempt)?;
                Ok(NextAction::Break)
            }
            RuleAction::Jump(target) => {
                self.record_result(attempt)?;
                Ok(NextAction::Jump(self.jump_index(target)))
            }
            RuleAction::Fail => Err(self.rule_failure(attempt)),
            RuleAction::Retry(retry) => {
                let attempts = max_attempts(retry, environment)
                    .map_err(|error| self.render_failure(attempt, &error))?;
                // The count covers all executions, including the first.
                if attempt.number < attempts {
                    let delay = retry_delay_ms(retry, attempt.number, environment);
                    Ok(NextAction::Retry(
                        delay.map_err(|error| self.render_failure(attempt, &error))?,
                    ))
                } else {
                    Err(self.rule_failure(attempt))
                }
            }
        }
    }

    /// Returns the index of a jump's target. Choice: the predecessor of the first task is the task
    /// itself.
    fn jump_index(&self, target: &JumpTarget) -> usize {
        let current = self.progress.task_index;
        match target {
            JumpTarget::Previous(_) => current.saturating_sub(1),
            JumpTarget::Label(label) => {
                let tasks = self.command.step.tool.tasks();
                tasks.iter().position(|task| task.label.value == label.value).unwrap_or(current)
            }
        }
    }

    /// Renders the input and the configuration of an attempt. The task's input overrides the
    /// step's.
    pub(crate) fn prepare_attempt(
        &self,
        task: &Task,
        number: u64,
    ) -> Result<PreparedAttempt, AttemptRenderError> {
        let mut names = self.task_template_names(task, number);
        let environment = names.to_environment();
        let input = render_fields(&self.command.step.input, &environment).and_then(|mut input| {
            input.extend(render_fields(&task.input, &environment)?);
            Ok(input)
        });
        let input = input.map_err(|error| AttemptRenderError {
            input: JsonMap::new(),
            message: error.to_string(),
        })?;
        add_input(&mut names, &input);
        match render_fields(&task.config, &names.to_environment()) {
            Ok(config) => Ok(PreparedAttempt { input, config }),
            Err(error) => Err(AttemptRenderError { input, message: error.to_string() }),
        }
    }

    /// Runs a task once.
    fn run_attempt<'t>(&self, task: &'t Task, number: u64) -> TaskAttempt<'t> {
        let (input, answer) = match self.prepare_attempt(task, number) {
            Ok(PreparedAttempt { input, config }) => {
                let answer = self.call_tool(task, number, &config, &input);
                (input, answer)
            }
            Err(error) => {
                let answer = error.to_answer();
                (error.input, answer)
            }
        };
        TaskAttempt { task, number, input, answer }
    }

    fn call_tool(&self, task: &Task, number: u64, config: &JsonMap, input: &JsonMap) -> ToolAnswer {
        if task.kind.value == ToolKind::Noop {
            let message = || config.get("message").cloned().unwrap_or_default();
            let default = || Json::object([("status", Json::from("ok")), ("message", message())]);
            return ToolAnswer::Ok(config.get("result").cloned().unwrap_or_else(default));
        }
        let visits = &self.progress.visits;
        self.outcomes.answer_call(&TaskCall {
            step: &self.command.step.name.value,
            run: self.command.run,
            index: self.command.item.as_ref().map(|item| item.index),
            label: &task.label.value,
            kind: task.kind.value,
            visit: visits.get(&task.label.value).copied().unwrap_or_default(),
            attempt: number,
            config: &Json::from(config.clone()),
            input: &Json::from(input.clone()),
        })
    }

    /// Applies writes for the rest of this command, and records them for the server.
    fn apply_task_writes(&mut self, writes: Vec<VariableWrite>) {
        for write in &writes {
            match write.clone() {
                VariableWrite::Ctx(path, value) => write_at_path(&mut self.view.ctx, &path, value),
                VariableWrite::Iter(path, value) => {
                    write_at_path(&mut self.progress.iter, &path, value);
                }
                VariableWrite::Step(path, value) => {
                    write_at_path(&mut self.view.vars, &path, value);
                }
                VariableWrite::Pipeline(name, value) => {
                    self.progress.variables.insert(name, value);
                }
            }
        }
        self.writes.extend(writes);
    }

    /// Returns the output specs of a task: its own, and that of its step if it is the only task and
    /// runs once.
    fn output_specs<'t>(&self, task: &'t Task) -> impl Iterator<Item = &'t OutputSpec>
    where
        'c: 't,
    {
        let step = self.command.step;
        let is_alone = matches!(step.tool, Tool::Single(_)) && step.looping.is_none();
        task.output.iter().chain(step.output.as_ref().filter(|_| is_alone))
    }

    fn select_output(&self, task: &Task, data: Json) -> Json {
        let outputs = self.output_specs(task);
        outputs.fold(data, |data, output| output::apply_selection(data, &output.select))
    }

    /// Records the data of a task after which the pipeline continues.
    fn record_result(&mut self, attempt: &TaskAttempt<'_>) -> Result<(), CommandFailure> {
        let mut data = attempt.result_data();
        let label = Arc::clone(&attempt.task.label.value);
        if let Some(spec) = output::enabled_accumulation(self.output_specs(attempt.task)) {
            let runs = self.progress.runs.entry(Arc::clone(&label)).or_default();
            if let ToolAnswer::Ok(data) = &attempt.answer {
                runs.push(data.clone());
            }
            let accumulated = output::accumulate_parts(spec, runs).map_err(|limit| {
                let message = format!("more than {limit} items");
                let error =
                    TaskError::new(ErrorKind::Limit, message).with_data(attempt.result_data());
                self.task_failure(attempt.task, attempt.number, &error)
            })?;
            data = match (&spec.manifest_as, data) {
                (None, _) => accumulated,
                (Some(name), Json::Map(map)) => {
                    let mut map = JsonMap::clone(&map);
                    map.insert(Arc::clone(name), accumulated);
                    Json::from(map)
                }
                (Some(name), _) => Json::from(JsonMap::from([(Arc::clone(name), accumulated)])),
            };
        }
        self.progress.results.insert(label, data.clone());
        self.progress.previous = Some(data);
        Ok(())
    }

    /// Failure of a task that gets no further attempt because the run has failed.
    ///
    /// Choice: it fails with its last error. A successful attempt has none, so its kind is
    /// `cancelled`.
    pub(crate) fn interrupted_failure(&self, attempt: &TaskAttempt<'_>) -> CommandFailure {
        match &attempt.answer {
            ToolAnswer::Error(_) => self.rule_failure(attempt),
            ToolAnswer::Ok(data) => {
                let error = TaskError::new(ErrorKind::Cancelled, "the run fails elsewhere");
                self.task_failure(attempt.task, attempt.number, &error.with_data(data.clone()))
            }
        }
    }

    /// Failure of a task that a rule ends.
    ///
    /// Choice: a successful attempt has no error to fail with, so its kind is `unknown`.
    fn rule_failure(&self, attempt: &TaskAttempt<'_>) -> CommandFailure {
        match &attempt.answer {
            ToolAnswer::Error(error) => self.task_failure(attempt.task, attempt.number, error),
            ToolAnswer::Ok(data) => {
                let error =
                    TaskError::new(ErrorKind::Unknown, "a rule of its policy failed the task");
                self.task_failure(attempt.task, attempt.number, &error.with_data(data.clone()))
            }
        }
    }

    /// Failure of a template of the policy or of a `set`.
    fn render_failure(&self, attempt: &TaskAttempt<'_>, error: &RenderError) -> CommandFailure {
        let error =
            TaskError::new(ErrorKind::Template, error.to_string()).with_data(attempt.result_data());
        self.task_failure(attempt.task, attempt.number, &error)
    }

    fn task_failure(&self, task: &Task, attempt: u64, error: &TaskError) -> CommandFailure {
        let label = &task.label.value;
        let data = match &self.command.step.tool {
            Tool::Single(_) => error.data.clone(),
            Tool::Pipeline(_) => {
                let mut results = self.progress.results.clone();
                results.insert("failed_task".into(), Json::from(&**label));
                Json::from(results)
            }
        };
        CommandFailure { kind: error.kind, error: error.to_error_object(label, attempt), data }
    }
}

impl TaskAttempt<'_> {
    /// Data of the attempt, successful or not.
    pub(crate) fn result_data(&self) -> Json {
        match &self.answer {
            ToolAnswer::Ok(data) => data.clone(),
            ToolAnswer::Error(error) => error.data.clone(),
        }
    }
}
