//! A pipeline at work: attempts, policies and writes.

use std::sync::Arc;

use noetl_playbook::model::{
    Action, JumpTarget, OnUnmatched, OutputSpec, Rule, RuleTest, Task, Tool, ToolKind,
};
use noetl_playbook::template::{OutputPlace, RenderError, Scope};
use noetl_types::{Json, JsonMap};

use super::names::put_input;
use super::output;
use super::retry::{attempts, delay};
use super::{Closed, Command, Failed, Progress, Reached, fields, holds, is_parking, pipeline_data};
use crate::names::{StepValue, View};
use crate::outcome::{Answer, Call, ErrorKind, Outcomes, TaskError};
use crate::writes::{SetPlace, Write, put, rendered};

/// How many tasks one command may run, repetitions included.
const MAX_TASK_RUNS: u64 = 1_000_000;

/// A command under way.
pub(crate) struct Pipeline<'c> {
    pub(super) command: &'c Command<'c>,
    outcomes: &'c dyn Outcomes,
    /// The view of the command with what it wrote itself since.
    pub(super) view: View,
    pub(super) progress: Progress,
    writes: Vec<Write>,
    retried: u64,
}

/// Where the pipeline goes after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// To the task after it.
    Continue,
    /// To this task.
    Jump(usize),
    /// To its end.
    Break,
    /// To the same task, after so many milliseconds.
    Again(u64),
}

/// One attempt and what it came to.
#[derive(Debug, Clone)]
pub(crate) struct Attempt<'t> {
    pub(crate) task: &'t Task,
    pub(crate) number: u64,
    pub(crate) input: JsonMap,
    pub(crate) answer: Answer,
}

/// What an attempt is given, rendered.
pub(crate) struct Prepared {
    pub(crate) input: JsonMap,
    pub(crate) config: JsonMap,
}

/// An attempt that cannot be made.
pub(crate) struct Unprepared {
    /// The input, where that could be rendered.
    pub(crate) input: JsonMap,
    /// Why.
    message: String,
}

impl Unprepared {
    /// What cannot be rendered is a failed attempt like any other.
    pub(crate) fn answer(&self) -> Answer {
        Answer::Error(TaskError::new(ErrorKind::Template, self.message.as_str()))
    }
}

impl<'c> Pipeline<'c> {
    pub(crate) fn new(command: &'c Command<'c>, outcomes: &'c dyn Outcomes) -> Self {
        Self {
            command,
            outcomes,
            view: command.view.clone(),
            progress: command.progress.clone(),
            writes: Vec::new(),
            retried: 0,
        }
    }

    /// What the command sees by now.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// The command is done with.
    pub(crate) fn closed(self, outcome: Result<Reached, Failed>) -> Closed {
        Closed {
            outcome,
            writes: self.writes,
            progress: self.progress,
            retried: self.retried,
        }
    }

    /// Runs the tasks of one worker.
    pub(crate) fn run(&mut self) -> Result<Reached, Failed> {
        let tasks = self.command.step.tool.tasks();
        while let Some(task) = tasks.get(self.progress.at) {
            if is_parking(self.command.step, task) {
                return Ok(Reached::Task(self.progress.at));
            }
            let from = self.progress.at;
            let next = self.task(task)?;
            if let Some(reached) = self.go(next) {
                return Ok(reached);
            }
            if self.is_cut(from, self.progress.at) {
                return Ok(Reached::Task(self.progress.at));
            }
        }
        Ok(self.end())
    }

    /// Whether a task that parks lies on the way, so that one command cannot go it.
    fn is_cut(&self, from: usize, to: usize) -> bool {
        let step = self.command.step;
        let between = step.tool.tasks().iter().enumerate();
        between
            .filter(|(at, _)| (from.min(to)..=from.max(to)).contains(at))
            .any(|(_, task)| is_parking(step, task))
    }

    /// Goes on from the task at hand. `None` where there is more to do, or to look at.
    fn go(&mut self, next: Next) -> Option<Reached> {
        match next {
            Next::Continue => self.progress.at += 1,
            Next::Jump(to) => self.progress.at = to,
            Next::Break => return Some(self.end()),
            Next::Again(_) => {}
        }
        None
    }

    /// Where the pipeline stands after the one task of a command of the server.
    pub(crate) fn after(&mut self, next: Next) -> Reached {
        let reached = self.go(next);
        let is_over = self.progress.at >= self.command.step.tool.tasks().len();
        reached.unwrap_or_else(|| {
            if is_over {
                self.end()
            } else {
                Reached::Task(self.progress.at)
            }
        })
    }

    fn end(&self) -> Reached {
        let last = self.progress.previous.clone().unwrap_or_default();
        let results = &self.progress.results;
        Reached::End(match &self.command.step.tool {
            // A single task is a pipeline of one whose data is not wrapped.
            Tool::Single(_) => StepValue {
                data: last,
                labels: None,
            },
            Tool::Pipeline(_) => StepValue {
                data: self.selected_of_step(pipeline_data(results, last)),
                labels: Some(results.clone()),
            },
        })
    }

    /// The data of a pipeline with the parts that its step selects. A loop selects from its own.
    fn selected_of_step(&self, data: Json) -> Json {
        let step = self.command.step;
        match &step.output {
            Some(output) if step.looping.is_none() => output::selected(data, &output.select),
            Some(_) | None => data,
        }
    }

    /// Comes to a task anew.
    pub(crate) fn visit(&mut self, task: &Task) {
        let label = Arc::clone(&task.label.value);
        *self.progress.visits.entry(label).or_default() += 1;
    }

    /// One visit of a task: attempts until its policy says where to go.
    fn task(&mut self, task: &Task) -> Result<Next, Failed> {
        self.visit(task);
        let mut number = 1;
        loop {
            self.progress.task_runs += 1;
            if self.progress.task_runs > MAX_TASK_RUNS {
                let error = TaskError::new(ErrorKind::Limit, "too many task runs in one command");
                return Err(self.failed(task, number, &error));
            }
            let attempt = self.attempt(task, number);
            match self.settle(&attempt)? {
                // A worker waits by itself, and no time passes for anyone else.
                Next::Again(_) => {
                    self.retried += 1;
                    number += 1;
                }
                next @ (Next::Continue | Next::Jump(_) | Next::Break) => return Ok(next),
            }
        }
    }

    /// What follows an attempt: the writes of its task, then its policy.
    pub(crate) fn settle(&mut self, attempt: &Attempt<'_>) -> Result<Next, Failed> {
        let attempt = &Attempt {
            answer: match attempt.answer.clone() {
                Answer::Ok(data) => Answer::Ok(self.selected(attempt.task, data)),
                error @ Answer::Error(_) => error,
            },
            ..attempt.clone()
        };
        // The task's own writes come first, and only after an attempt that went well.
        if let Answer::Ok(_) = attempt.answer {
            let scope = self.names_after(attempt, OutputPlace::Set).scope();
            let writes = rendered(&attempt.task.set, &scope, SetPlace::Task);
            // Choice: a write that cannot be rendered fails the task without asking its policy.
            self.write(writes.map_err(|error| self.broken(attempt, &error))?);
        }
        self.decide(attempt)
    }

    /// Tries the rules.
    fn decide(&mut self, attempt: &Attempt<'_>) -> Result<Next, Failed> {
        let policy = attempt.task.spec.policy.as_ref();
        let scope = self.names_after(attempt, OutputPlace::Rule).scope();
        let mut chosen: Option<&Rule> = None;
        for rule in policy.iter().flat_map(|policy| &policy.rules) {
            let matches = match &rule.test {
                RuleTest::Else => true,
                RuleTest::When(when) => {
                    holds(when, &scope).map_err(|error| self.broken(attempt, &error))?
                }
            };
            if matches {
                chosen = Some(rule);
                break;
            }
        }
        let Some(rule) = chosen else {
            return match (&attempt.answer, policy.map(|policy| policy.on_unmatched)) {
                (Answer::Ok(_), _) | (Answer::Error(_), Some(OnUnmatched::Continue)) => {
                    self.record(attempt)?;
                    Ok(Next::Continue)
                }
                (Answer::Error(error), None | Some(OnUnmatched::Fail)) => {
                    Err(self.failed(attempt.task, attempt.number, error))
                }
            };
        };
        // A rule writes whenever it is chosen, whatever it then does.
        let writes = rendered(&rule.then.set, &scope, SetPlace::Task);
        self.write(writes.map_err(|error| self.broken(attempt, &error))?);
        self.act(attempt, &rule.then.action, &scope)
    }

    fn act(
        &mut self,
        attempt: &Attempt<'_>,
        action: &Action,
        scope: &dyn Scope,
    ) -> Result<Next, Failed> {
        match action {
            Action::Continue => {
                self.record(attempt)?;
                Ok(Next::Continue)
            }
            Action::Break => {
                self.record(attempt)?;
                Ok(Next::Break)
            }
            Action::Jump(target) => {
                self.record(attempt)?;
                Ok(Next::Jump(self.jump(target)))
            }
            Action::Fail => Err(self.given_up(attempt)),
            Action::Retry(retry) => {
                let attempts =
                    attempts(retry, scope).map_err(|error| self.broken(attempt, &error))?;
                // The count covers all executions, the first included.
                if attempt.number < attempts {
                    let delay = delay(retry, attempt.number, scope);
                    Ok(Next::Again(
                        delay.map_err(|error| self.broken(attempt, &error))?,
                    ))
                } else {
                    Err(self.given_up(attempt))
                }
            }
        }
    }

    /// The place of a jump's target. Choice: there is nothing before the first task but itself.
    fn jump(&self, target: &JumpTarget) -> usize {
        let at = self.progress.at;
        match target {
            JumpTarget::Previous(_) => at.saturating_sub(1),
            JumpTarget::Label(label) => {
                let tasks = self.command.step.tool.tasks();
                tasks
                    .iter()
                    .position(|task| task.label.value == label.value)
                    .unwrap_or(at)
            }
        }
    }

    /// Renders what an attempt needs: the step's input, over it the task's own, and the configuration.
    pub(crate) fn prepare(&self, task: &Task, number: u64) -> Result<Prepared, Unprepared> {
        let mut names = self.names(task, number);
        let scope = names.scope();
        let input = fields(&self.command.step.input, &scope).and_then(|mut input| {
            input.extend(fields(&task.input, &scope)?);
            Ok(input)
        });
        let input = input.map_err(|error| Unprepared {
            input: JsonMap::new(),
            message: error.to_string(),
        })?;
        put_input(&mut names, &input);
        match fields(&task.config, &names.scope()) {
            Ok(config) => Ok(Prepared { input, config }),
            Err(error) => Err(Unprepared {
                input,
                message: error.to_string(),
            }),
        }
    }

    /// Runs a task once.
    fn attempt<'t>(&self, task: &'t Task, number: u64) -> Attempt<'t> {
        let (input, answer) = match self.prepare(task, number) {
            Ok(Prepared { input, config }) => {
                let answer = self.answer(task, number, &config, &input);
                (input, answer)
            }
            Err(unprepared) => {
                let answer = unprepared.answer();
                (unprepared.input, answer)
            }
        };
        Attempt {
            task,
            number,
            input,
            answer,
        }
    }

    fn answer(&self, task: &Task, number: u64, config: &JsonMap, input: &JsonMap) -> Answer {
        if task.kind.value == ToolKind::Noop {
            let message = || config.get("message").cloned().unwrap_or_default();
            let default = || Json::object([("status", Json::from("ok")), ("message", message())]);
            return Answer::Ok(config.get("result").cloned().unwrap_or_else(default));
        }
        let visits = &self.progress.visits;
        self.outcomes.answer(&Call {
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

    /// Writes at once for what follows in this command, and notes it down for the server.
    fn write(&mut self, writes: Vec<Write>) {
        for write in &writes {
            match write.clone() {
                Write::Ctx(path, value) => put(&mut self.view.ctx, &path, value),
                Write::Iter(path, value) => put(&mut self.progress.iter, &path, value),
                Write::Step(path, value) => put(&mut self.view.vars, &path, value),
                Write::Pipeline(name, value) => {
                    self.progress.variables.insert(name, value);
                }
            }
        }
        self.writes.extend(writes);
    }

    /// What is said about the data of a task: by itself, or by its step where it is the only one and
    /// runs once.
    fn outputs<'t>(&self, task: &'t Task) -> impl Iterator<Item = &'t OutputSpec>
    where
        'c: 't,
    {
        let step = self.command.step;
        let is_alone = matches!(step.tool, Tool::Single(_)) && step.looping.is_none();
        task.output
            .iter()
            .chain(step.output.as_ref().filter(|_| is_alone))
    }

    fn selected(&self, task: &Task, data: Json) -> Json {
        let outputs = self.outputs(task);
        outputs.fold(data, |data, output| output::selected(data, &output.select))
    }

    /// Keeps the data of a task that the pipeline goes on from.
    fn record(&mut self, attempt: &Attempt<'_>) -> Result<(), Failed> {
        let mut data = attempt.data();
        let label = Arc::clone(&attempt.task.label.value);
        if let Some(spec) = output::accumulation(self.outputs(attempt.task)) {
            let runs = self.progress.runs.entry(Arc::clone(&label)).or_default();
            if let Answer::Ok(data) = &attempt.answer {
                runs.push(data.clone());
            }
            let whole = output::together(spec, runs).map_err(|most| {
                let message = format!("more than {most} items");
                let error = TaskError::new(ErrorKind::Limit, message).with_data(attempt.data());
                self.failed(attempt.task, attempt.number, &error)
            })?;
            data = match (&spec.manifest_as, data) {
                (None, _) => whole,
                (Some(name), Json::Map(map)) => {
                    let mut map = JsonMap::clone(&map);
                    map.insert(Arc::clone(name), whole);
                    Json::from(map)
                }
                (Some(name), _) => Json::from(JsonMap::from([(Arc::clone(name), whole)])),
            };
        }
        self.progress.results.insert(label, data.clone());
        self.progress.previous = Some(data);
        Ok(())
    }

    /// The task ends because nothing is begun any more.
    ///
    /// Choice: it fails with its last error; an attempt that went well has none, so it was cancelled.
    pub(crate) fn not_again(&self, attempt: &Attempt<'_>) -> Failed {
        match &attempt.answer {
            Answer::Error(_) => self.given_up(attempt),
            Answer::Ok(data) => {
                let error = TaskError::new(ErrorKind::Cancelled, "the run fails elsewhere");
                self.failed(attempt.task, attempt.number, &error.with_data(data.clone()))
            }
        }
    }

    /// The pipeline ends because a rule says so.
    ///
    /// Choice: where the attempt went well there is no error to fail with; its kind is `unknown`.
    fn given_up(&self, attempt: &Attempt<'_>) -> Failed {
        match &attempt.answer {
            Answer::Error(error) => self.failed(attempt.task, attempt.number, error),
            Answer::Ok(data) => {
                let error =
                    TaskError::new(ErrorKind::Unknown, "a rule of its policy failed the task");
                self.failed(attempt.task, attempt.number, &error.with_data(data.clone()))
            }
        }
    }

    /// A template of the policy or of a `set` could not be rendered.
    fn broken(&self, attempt: &Attempt<'_>, error: &RenderError) -> Failed {
        let error =
            TaskError::new(ErrorKind::Template, error.to_string()).with_data(attempt.data());
        self.failed(attempt.task, attempt.number, &error)
    }

    fn failed(&self, task: &Task, attempt: u64, error: &TaskError) -> Failed {
        let label = &task.label.value;
        let data = match &self.command.step.tool {
            Tool::Single(_) => error.data.clone(),
            Tool::Pipeline(_) => {
                let mut so_far = self.progress.results.clone();
                so_far.insert("failed_task".into(), Json::from(&**label));
                Json::from(so_far)
            }
        };
        Failed {
            kind: error.kind,
            error: error.object(label, attempt),
            data,
        }
    }
}

impl Attempt<'_> {
    /// The data of the attempt, whichever way it went.
    pub(crate) fn data(&self) -> Json {
        match &self.answer {
            Answer::Ok(data) => data.clone(),
            Answer::Error(error) => error.data.clone(),
        }
    }
}
