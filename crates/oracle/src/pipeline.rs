//! One command: the tasks of a step in order, with policy, on one worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_playbook::model::{
    Action, Condition, Fields, JumpTarget, OnUnmatched, Retry, Rule, RuleTest, Setting, Step, Task,
    Tool, ToolKind,
};
use noetl_playbook::template::{OutputPlace, RenderError, Scope};
use noetl_types::{Json, JsonMap};

use crate::names::{Names, Rank, StepValue, View};
use crate::outcome::{Answer, Call, ErrorKind, Outcomes, TaskError};
use crate::writes::{SetPlace, Write, put, rendered};

/// How many tasks one command may run, repetitions included.
const MAX_TASK_RUNS: u64 = 1_000_000;
/// How often a task is executed by a `retry` that does not say.
const DEFAULT_ATTEMPTS: u64 = 3;

/// A unit of work, with what its templates may see as of its issue.
#[derive(Debug, Clone)]
pub struct Command<'p> {
    /// The step.
    pub step: &'p Step,
    /// The run of the step, from 1.
    pub run: u64,
    /// The item, in a loop.
    pub item: Option<Item>,
    /// What the execution looked like when the command was issued.
    pub view: View,
}

/// One iteration of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its place, from 0.
    pub index: usize,
    /// How many there are.
    pub total: usize,
    /// The item itself.
    pub value: Json,
}

/// A command that is done with.
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// How it went.
    pub outcome: Result<Succeeded, Failed>,
    /// What its tasks and rules wrote, in order.
    pub writes: Vec<Write>,
    /// The variables of the iteration, or of the run outside of loops, as the tasks left them.
    pub iter: JsonMap,
    /// How many attempts were followed by another one.
    pub retried: u64,
}

/// A command that went well.
#[derive(Debug, Clone, PartialEq)]
pub struct Succeeded {
    /// Its data.
    pub value: StepValue,
}

/// A command that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Failed {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The error object.
    pub error: Json,
    /// The data nevertheless.
    pub data: Json,
}

impl Failed {
    /// A failure that no task caused.
    pub(crate) fn of(error: &TaskError) -> Self {
        Self {
            kind: error.kind,
            error: error.object("", 0),
            data: Json::Null,
        }
    }

    /// A template that the server could not render.
    pub(crate) fn template(error: &RenderError) -> Self {
        Self::of(&TaskError::new(ErrorKind::Template, error.to_string()))
    }
}

/// Runs a command to its end.
pub fn execute(command: &Command<'_>, outcomes: &dyn Outcomes) -> Closed {
    let mut pipeline = Pipeline::new(command, outcomes);
    let outcome = pipeline.run();
    Closed {
        outcome,
        writes: pipeline.writes,
        iter: pipeline.iter,
        retried: pipeline.retried,
    }
}

struct Pipeline<'c> {
    command: &'c Command<'c>,
    outcomes: &'c dyn Outcomes,
    /// The view of the command with what it wrote itself since.
    view: View,
    iter: JsonMap,
    variables: JsonMap,
    results: JsonMap,
    /// The data of the task that ran last.
    previous: Option<Json>,
    visits: BTreeMap<Arc<str>, u64>,
    task_runs: u64,
    writes: Vec<Write>,
    retried: u64,
}

/// Where the pipeline goes after a task.
enum Next {
    Continue,
    Jump(usize),
    Break,
}

/// One attempt and what it came to.
struct Attempt<'t> {
    task: &'t Task,
    number: u64,
    input: JsonMap,
    answer: Answer,
}

impl<'c> Pipeline<'c> {
    fn new(command: &'c Command<'c>, outcomes: &'c dyn Outcomes) -> Self {
        Self {
            command,
            outcomes,
            view: command.view.clone(),
            iter: command
                .item
                .as_ref()
                .map(|item| iter_map(command.step, item))
                .unwrap_or_default(),
            variables: JsonMap::new(),
            results: JsonMap::new(),
            previous: None,
            visits: BTreeMap::new(),
            task_runs: 0,
            writes: Vec::new(),
            retried: 0,
        }
    }

    fn run(&mut self) -> Result<Succeeded, Failed> {
        let tasks = self.command.step.tool.tasks();
        let mut at = 0;
        while let Some(task) = tasks.get(at) {
            match self.task(task, at)? {
                Next::Continue => at += 1,
                Next::Jump(to) => at = to,
                Next::Break => break,
            }
        }
        let last = self.previous.clone().unwrap_or_default();
        Ok(Succeeded {
            value: match &self.command.step.tool {
                // A single task is a pipeline of one whose data is not wrapped.
                Tool::Single(_) => StepValue {
                    data: last,
                    labels: None,
                },
                Tool::Pipeline(_) => StepValue {
                    data: pipeline_data(&self.results, last),
                    labels: Some(self.results.clone()),
                },
            },
        })
    }

    /// One visit of a task: attempts until its policy says where to go.
    fn task(&mut self, task: &Task, at: usize) -> Result<Next, Failed> {
        *self
            .visits
            .entry(Arc::clone(&task.label.value))
            .or_default() += 1;
        let mut number = 1;
        loop {
            self.task_runs += 1;
            if self.task_runs > MAX_TASK_RUNS {
                let error = TaskError::new(ErrorKind::Limit, "too many task runs in one command");
                return Err(self.failed(task, number, &error));
            }
            let attempt = self.attempt(task, number);
            // The task's own writes come first, and only after an attempt that went well.
            if let Answer::Ok(_) = attempt.answer {
                let scope = self.names_after(&attempt, OutputPlace::Set).scope();
                let writes = rendered(&task.set, &scope, SetPlace::Task);
                // Choice: a write that cannot be rendered fails the task without asking its policy.
                self.write(writes.map_err(|error| self.broken(&attempt, &error))?);
            }
            match self.decide(&attempt, at)? {
                Some(next) => return Ok(next),
                None => number += 1,
            }
        }
    }

    /// Tries the rules. `None` runs the task again.
    fn decide(&mut self, attempt: &Attempt<'_>, at: usize) -> Result<Option<Next>, Failed> {
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
                    self.record(attempt);
                    Ok(Some(Next::Continue))
                }
                (Answer::Error(error), None | Some(OnUnmatched::Fail)) => {
                    Err(self.failed(attempt.task, attempt.number, error))
                }
            };
        };
        // A rule writes whenever it is chosen, whatever it then does.
        let writes = rendered(&rule.then.set, &scope, SetPlace::Task);
        self.write(writes.map_err(|error| self.broken(attempt, &error))?);
        self.act(attempt, &rule.then.action, &scope, at)
    }

    fn act(
        &mut self,
        attempt: &Attempt<'_>,
        action: &Action,
        scope: &dyn Scope,
        at: usize,
    ) -> Result<Option<Next>, Failed> {
        match action {
            Action::Continue => {
                self.record(attempt);
                Ok(Some(Next::Continue))
            }
            Action::Break => {
                self.record(attempt);
                Ok(Some(Next::Break))
            }
            Action::Jump(target) => {
                self.record(attempt);
                Ok(Some(Next::Jump(self.jump(target, at))))
            }
            Action::Fail => Err(self.given_up(attempt)),
            Action::Retry(retry) => {
                let attempts =
                    attempts(retry, scope).map_err(|error| self.broken(attempt, &error))?;
                // The count covers all executions, the first included.
                if attempt.number < attempts {
                    self.retried += 1;
                    Ok(None)
                } else {
                    Err(self.given_up(attempt))
                }
            }
        }
    }

    /// The place of a jump's target. Choice: there is nothing before the first task but itself.
    fn jump(&self, target: &JumpTarget, at: usize) -> usize {
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

    /// Runs a task once: renders what it needs, then asks for its outcome.
    fn attempt<'t>(&self, task: &'t Task, number: u64) -> Attempt<'t> {
        let mut names = self.names(task, number);
        let input = match self.input(task, &names.scope()) {
            Ok(input) => input,
            Err(error) => {
                return Attempt {
                    task,
                    number,
                    input: JsonMap::new(),
                    answer: unrendered(&error),
                };
            }
        };
        put_input(&mut names, &input);
        let answer = match fields(&task.config, &names.scope()) {
            Ok(config) => self.answer(task, number, &config, &input),
            // What cannot be rendered is a failed attempt like any other.
            Err(error) => unrendered(&error),
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
        self.outcomes.answer(&Call {
            step: &self.command.step.name.value,
            run: self.command.run,
            index: self.command.item.as_ref().map(|item| item.index),
            label: &task.label.value,
            kind: task.kind.value,
            visit: self
                .visits
                .get(&task.label.value)
                .copied()
                .unwrap_or_default(),
            attempt: number,
            config: &Json::from(config.clone()),
            input: &Json::from(input.clone()),
        })
    }

    /// The input of a task: the step's, and over it its own.
    fn input(&self, task: &Task, scope: &dyn Scope) -> Result<JsonMap, RenderError> {
        let mut input = fields(&self.command.step.input, scope)?;
        input.extend(fields(&task.input, scope)?);
        Ok(input)
    }

    /// What templates of a task see before it runs.
    fn names(&self, task: &Task, attempt: u64) -> Names {
        let mut names = self.view.names(&self.command.step.name.value);
        names.put_all(Rank::Label, &self.results);
        names.put_all(Rank::Variable, &self.variables);
        names.put(Rank::Place, "iter", Json::from(self.iter.clone()));
        names.put(Rank::Place, "results", Json::from(self.results.clone()));
        names.put(Rank::Place, "_task", Json::from(&*task.label.value));
        names.put(Rank::Place, "_attempt", Json::from(attempt));
        if let Some(previous) = &self.previous {
            names.put(Rank::Place, "_prev", previous.clone());
        }
        if let (Some(item), Some(looping)) = (&self.command.item, &self.command.step.looping) {
            put_item(&mut names, &looping.iterator.value, item);
        }
        names
    }

    /// The same with what the attempt came to.
    fn names_after(&self, attempt: &Attempt<'_>, place: OutputPlace) -> Names {
        let mut names = self.names(attempt.task, attempt.number);
        put_input(&mut names, &attempt.input);
        let data = attempt.data();
        let (status, error) = match &attempt.answer {
            Answer::Ok(_) => ("ok", Json::Null),
            Answer::Error(error) => (
                "error",
                error.object(&attempt.task.label.value, attempt.number),
            ),
        };
        let meta = Json::object([
            ("task", Json::from(&*attempt.task.label.value)),
            ("attempt", Json::from(attempt.number)),
        ]);
        let mut envelope = vec![
            ("status", Json::from(status)),
            ("error", error.clone()),
            ("meta", meta),
        ];
        if attempt.task.kind.value == ToolKind::Http {
            let found = data.get("status_code").or_else(|| error.get("status"));
            let headers = data.get("headers").cloned().unwrap_or_default();
            let http = [
                ("status", found.cloned().unwrap_or_default()),
                ("headers", headers),
            ];
            envelope.push(("http", Json::object(http)));
        }
        names.put_output(place, Json::object(envelope), &data);
        names
    }

    /// Writes at once for what follows in this command, and notes it down for the server.
    fn write(&mut self, writes: Vec<Write>) {
        for write in &writes {
            match write.clone() {
                Write::Ctx(path, value) => put(&mut self.view.ctx, &path, value),
                Write::Iter(path, value) => put(&mut self.iter, &path, value),
                Write::Step(path, value) => put(&mut self.view.vars, &path, value),
                Write::Pipeline(name, value) => {
                    self.variables.insert(name, value);
                }
            }
        }
        self.writes.extend(writes);
    }

    /// Keeps the data of a task that the pipeline goes on from.
    fn record(&mut self, attempt: &Attempt<'_>) {
        let data = attempt.data();
        self.results
            .insert(Arc::clone(&attempt.task.label.value), data.clone());
        self.previous = Some(data);
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
                let mut so_far = self.results.clone();
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
    fn data(&self) -> Json {
        match &self.answer {
            Answer::Ok(data) => data.clone(),
            Answer::Error(error) => error.data.clone(),
        }
    }
}

fn unrendered(error: &RenderError) -> Answer {
    Answer::Error(TaskError::new(ErrorKind::Template, error.to_string()))
}

/// Whether a condition holds.
pub(crate) fn holds(condition: &Condition, scope: &dyn Scope) -> Result<bool, RenderError> {
    match condition {
        Condition::Fixed(value) => Ok(*value),
        Condition::Test(template) => template.test(scope),
    }
}

fn fields(fields: &Fields, scope: &dyn Scope) -> Result<JsonMap, RenderError> {
    fields
        .iter()
        .map(|field| {
            Ok((
                Arc::clone(&field.name.value),
                field.value.render(scope)?.value,
            ))
        })
        .collect()
}

fn attempts(retry: &Retry, scope: &dyn Scope) -> Result<u64, RenderError> {
    Ok(
        match retry.attempts.as_ref().map(|attempts| &attempts.value) {
            None => DEFAULT_ATTEMPTS,
            Some(Setting::Fixed(attempts)) => u64::from(*attempts),
            Some(Setting::Template(template)) => template
                .render(scope)?
                .value
                .as_u64()
                .unwrap_or(DEFAULT_ATTEMPTS),
        },
    )
}

/// Labels with their data, the keys of the last task laid on top.
fn pipeline_data(results: &JsonMap, last: Json) -> Json {
    let mut data = results.clone();
    match last {
        Json::Map(last) => data.extend(
            last.iter()
                .map(|(key, value)| (Arc::clone(key), value.clone())),
        ),
        other => {
            data.insert("data".into(), other);
        }
    }
    Json::from(data)
}

fn put_input(names: &mut Names, input: &JsonMap) {
    names.put(Rank::Place, "input", Json::from(input.clone()));
    names.put_all(Rank::Input, input);
}

/// What `iter` holds at the start of an iteration.
fn iter_map(step: &Step, item: &Item) -> JsonMap {
    let mut iter = JsonMap::new();
    if let Some(looping) = &step.looping {
        iter.insert(Arc::clone(&looping.iterator.value), item.value.clone());
    }
    for name in ["index", "_index"] {
        iter.insert(name.into(), Json::from(item.index));
    }
    iter.insert("_total".into(), Json::from(item.total));
    iter.insert("_first".into(), Json::Bool(item.index == 0));
    iter.insert("_last".into(), Json::Bool(item.index + 1 == item.total));
    iter
}

/// The same values under their bare names.
fn put_item(names: &mut Names, iterator: &Arc<str>, item: &Item) {
    let index = Json::from(item.index);
    names.put(Rank::Iterator, Arc::clone(iterator), item.value.clone());
    names.put(Rank::Iterator, "loop_index", index.clone());
    names.put(Rank::Place, "_index", index.clone());
    names.put(Rank::Place, "_total", Json::from(item.total));
    let members = [
        ("index", index),
        ("first", Json::Bool(item.index == 0)),
        ("last", Json::Bool(item.index + 1 == item.total)),
        ("length", Json::from(item.total)),
    ];
    names.put(Rank::Iterator, "loop", Json::object(members));
}
