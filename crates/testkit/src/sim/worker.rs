//! A worker that follows a script: it renders, runs and reports what a real one would.

use std::sync::Arc;

use noetl_engine::event::{CommandIssued, TaskReport, TaskStatus};
use noetl_engine::{Carried, Data, Payloads, Plan, ReportOutcome, RetriedCall, TaskResult};
use noetl_playbook::graph::StepIndex;
use noetl_playbook::model::{Fields, Set, SetTarget, Step, Task, Tool, ToolKind};
use noetl_playbook::policy::{self, Attempt, Next, Ruling};
use noetl_playbook::template::{Output, OutputPlace, Scope};
use noetl_types::{
    CommandId, ExecutionId, Json, JsonMap, Seq, TaskError, TaskErrorKind, Text, Timestamp,
};

use super::play::{Call, Play, as_written};
use super::scope::{Bench, Item, TaskScope};

/// Runs of tasks in one command.
const MAX_TASK_RUNS: u32 = 10_000;

/// What a worker is given.
pub(super) struct Job<'j> {
    pub(super) plan: &'j Plan,
    pub(super) step: StepIndex,
    pub(super) issued: &'j CommandIssued,
    pub(super) carried: &'j Carried,
    pub(super) payloads: &'j dyn Payloads,
    pub(super) execution_id: ExecutionId,
    pub(super) command: CommandId,
    pub(super) seq: Seq,
    pub(super) attempt: u32,
    /// The time of the event that issued it: that of `now()`.
    pub(super) issued_at: Timestamp,
    pub(super) tools: &'j dyn Fn(&Call<'_>) -> Play,
}

/// What a worker reports, unless it is lost.
pub(super) struct Done {
    pub(super) retries: Vec<RetriedCall>,
    pub(super) outcome: ReportOutcome,
}

/// Does the work of a command; nothing where the worker is lost in the middle.
pub(super) fn work(job: &Job<'_>) -> Option<Done> {
    let step = job.plan.model(job.step);
    let mut shift = Shift {
        job,
        step,
        bench: bench(job),
        set: JsonMap::new(),
        retries: Vec::new(),
        reports: Vec::new(),
        last: None,
        at: 0,
        attempt: 1,
    };
    for _ in 0..MAX_TASK_RUNS {
        match shift.run_task()? {
            Flow::On => {}
            Flow::End(error) => return Some(shift.close(error)),
        }
    }
    let error = TaskError::new(
        TaskErrorKind::Limit,
        "too many runs of tasks in one command",
    );
    Some(shift.close(Some(error)))
}

fn bench<'j>(job: &'j Job<'j>) -> Bench<'j> {
    let looping = job.plan.model(job.step).looping.as_ref();
    let item = looping.zip(job.issued.index).map(|(looping, index)| Item {
        iterator: Arc::clone(&looping.iterator.value),
        value: job
            .carried
            .values
            .get(&looping.iterator.value)
            .cloned()
            .unwrap_or_default(),
        index,
        total: job.issued.looping.map_or(0, |looping| looping.size),
    });
    Bench {
        execution_id: job.execution_id.to_string(),
        command_id: job.command.to_string(),
        idempotency_key: format!("{}:{}", job.execution_id, job.seq),
        carried: job.carried,
        payloads: job.payloads,
        now: job.issued_at,
        item,
        ctx: Json::empty_map(),
        iter: Json::empty_map(),
        step_variables: Json::empty_map(),
        pipeline: JsonMap::new(),
        results: JsonMap::new(),
        previous: Json::Null,
    }
}

/// The work of one command.
struct Shift<'s> {
    job: &'s Job<'s>,
    step: &'s Step,
    bench: Bench<'s>,
    /// All writes, by the keys of their `set`.
    set: JsonMap,
    retries: Vec<RetriedCall>,
    reports: Vec<TaskReport>,
    /// The task that ran last and its data.
    last: Option<(usize, Json)>,
    at: usize,
    attempt: u32,
}

enum Flow {
    On,
    End(Option<TaskError>),
}

impl Shift<'_> {
    /// Runs one attempt of a task; nothing where the worker is lost.
    fn run_task(&mut self) -> Option<Flow> {
        let Some(task) = self.step.tool.tasks().get(self.at) else {
            return Some(Flow::End(None));
        };
        let (data, error) = match self.attempt(task) {
            Ok(Outcome::Lost) => return None,
            Ok(Outcome::Done(data)) => (data, None),
            Ok(Outcome::Failed(error, data)) => (data, Some(error)),
            Err(error) => (Json::Null, Some(error)),
        };
        let error = error.map(|error| TaskError {
            task: Some(Text::from(&*task.label.value)),
            attempt: Some(self.attempt),
            ..error
        });
        self.note(task, error.is_none());
        self.last = Some((self.at, data.clone()));
        Some(match self.rule(task, &data, error.as_ref()) {
            Ok(flow) => flow,
            Err(broken) => Flow::End(Some(broken)),
        })
    }

    fn attempt(&self, task: &Task) -> Result<Outcome, TaskError> {
        let scope = self.scope(task, None);
        let mut input = render_fields(&self.step.input, &scope)?;
        input.extend(render_fields(&task.input, &scope)?);
        let scope = TaskScope {
            input: Some(&input),
            ..scope
        };
        let config = Json::from(render_fields(&task.config, &scope)?);
        let input = Json::from(input.clone());
        let call = Call {
            step: &self.step.name.value,
            label: &task.label.value,
            kind: task.kind.value,
            run: self.job.issued.run,
            index: self.job.issued.index,
            attempt: self.attempt,
            command_attempt: self.job.attempt,
            config: &config,
            input: &input,
        };
        Ok(match (self.job.tools)(&call) {
            Play::AsWritten => Outcome::Done(as_written(task.kind.value, &config)),
            Play::Ok(data) => Outcome::Done(data),
            Play::Fail(error, data) => Outcome::Failed(*error, data),
            Play::Lost => Outcome::Lost,
        })
    }

    fn scope<'t>(&'t self, task: &'t Task, output: Option<(Output, Json)>) -> TaskScope<'t> {
        let (output, error) = match output {
            Some((output, error)) => (Some(output), error),
            None => (None, Json::Null),
        };
        TaskScope {
            bench: &self.bench,
            label: &task.label.value,
            attempt: self.attempt,
            input: None,
            output,
            error,
        }
    }

    /// Keeps count of how often a task ran.
    fn note(&mut self, task: &Task, is_ok: bool) {
        let label = Text::from(&*task.label.value);
        let status = if is_ok {
            TaskStatus::Ok
        } else {
            TaskStatus::Error
        };
        match self.reports.iter_mut().find(|report| report.label == label) {
            Some(report) => {
                report.status = status;
                report.attempts += 1;
            }
            None => self.reports.push(TaskReport {
                label,
                status,
                attempts: 1,
                duration: None,
            }),
        }
    }

    /// Applies the `set` of a task and its policy.
    fn rule(
        &mut self,
        task: &Task,
        data: &Json,
        error: Option<&TaskError>,
    ) -> Result<Flow, TaskError> {
        let envelope = envelope(task, data, error);
        let error_json = error.map_or(Json::Null, TaskError::to_json);
        let view = |place| {
            (
                Output::new(place, envelope.clone(), data.clone()),
                error_json.clone(),
            )
        };
        if error.is_none() && !task.set.is_empty() {
            let scope = self.scope(task, Some(view(OutputPlace::Set)));
            let values = render_set(&task.set, &scope)?;
            self.write(values);
        }
        let attempt = Attempt {
            is_ok: error.is_none(),
            number: self.attempt,
            retry_after: None,
            dice: 0.5,
        };
        let scope = self.scope(task, Some(view(OutputPlace::Rule)));
        let ruling = policy::rule(task.spec.policy.as_ref(), &attempt, &scope);
        let ruling = ruling.map_err(|broken| template_error(&broken.to_string()))?;
        if let Some(set) = ruling.set {
            let values = render_set(set, &scope)?;
            self.write(values);
        }
        Ok(self.follow(task, ruling, data, error))
    }

    fn follow(
        &mut self,
        task: &Task,
        ruling: Ruling<'_>,
        data: &Json,
        error: Option<&TaskError>,
    ) -> Flow {
        let tasks = self.step.tool.tasks();
        match ruling.next {
            Next::Retry { delay } => {
                if let Some(error) = error {
                    self.retries.push(RetriedCall {
                        error: error.clone(),
                        attempt: self.attempt,
                        retry_in: delay,
                        at: None,
                    });
                }
                self.attempt += 1;
                Flow::On
            }
            Next::Continue => {
                self.keep(task, data);
                self.go_to(self.at + 1)
            }
            Next::Jump(target) => {
                self.keep(task, data);
                match policy::jump_target(target, tasks, self.at) {
                    Some(at) => self.go_to(at),
                    None => Flow::End(Some(template_error("jump to nowhere"))),
                }
            }
            Next::Break => {
                self.keep(task, data);
                Flow::End(None)
            }
            Next::Fail | Next::Spent => {
                let by_rule = || TaskError::new(TaskErrorKind::Unknown, "failed by its policy");
                Flow::End(Some(error.cloned().unwrap_or_else(by_rule)))
            }
        }
    }

    fn go_to(&mut self, at: usize) -> Flow {
        self.at = at;
        if at < self.step.tool.tasks().len() {
            self.attempt = 1;
        }
        Flow::On
    }

    fn keep(&mut self, task: &Task, data: &Json) {
        self.bench.previous = data.clone();
        self.bench
            .results
            .insert(Arc::clone(&task.label.value), data.clone());
    }

    fn write(&mut self, values: Vec<(SetTarget, Json)>) {
        for (target, value) in values {
            policy::add_write(&mut self.set, &target.key(), value.clone());
            let bench = &mut self.bench;
            let at = |path: &[Arc<str>]| {
                JsonMap::from([(noetl_engine::ctx::path_text(path), value.clone())])
            };
            match &target {
                SetTarget::Ctx(path) => noetl_engine::ctx::write(&mut bench.ctx, &at(path)),
                SetTarget::Iter(path) => noetl_engine::ctx::write(&mut bench.iter, &at(path)),
                SetTarget::Step(path) => {
                    noetl_engine::ctx::write(&mut bench.step_variables, &at(path));
                }
                SetTarget::Bare(name) => {
                    bench.pipeline.insert(Arc::clone(name), value.clone());
                }
            }
        }
    }

    fn close(self, error: Option<TaskError>) -> Done {
        let (data, labels) = self.data(error.is_some());
        let result = TaskResult {
            data: Data::Inline(data),
            labels,
            set: self.set,
            attempt: self.attempt,
            tasks: self.reports,
        };
        let outcome = match error {
            None => ReportOutcome::Completed(result),
            Some(error) => ReportOutcome::Failed { error, result },
        };
        Done {
            retries: self.retries,
            outcome,
        }
    }

    /// The data of the step, and that of each task where some of it is hidden.
    fn data(&self, failed: bool) -> (Json, Option<Json>) {
        let last = self.last.as_ref();
        if let Tool::Single(_) = self.step.tool {
            return (last.map(|(_, data)| data.clone()).unwrap_or_default(), None);
        }
        let labels = self.bench.results.clone();
        let mut data = labels.clone();
        if failed {
            let task = last.and_then(|(at, _)| self.step.tool.tasks().get(*at));
            if let Some(task) = task {
                data.insert(
                    "failed_task".into(),
                    Json::Str(Arc::clone(&task.label.value)),
                );
            }
            return (Json::from(data), None);
        }
        match last.map(|(_, data)| data) {
            Some(Json::Map(top)) => {
                data.extend(top.iter().map(|(key, part)| (key.clone(), part.clone())));
            }
            None => {}
            Some(other) => {
                data.insert("data".into(), other.clone());
            }
        }
        let hidden = labels
            .iter()
            .any(|(label, part)| data.get(label) != Some(part));
        (Json::from(data), hidden.then(|| Json::from(labels)))
    }
}

enum Outcome {
    Done(Json),
    Failed(TaskError, Json),
    Lost,
}

fn render_fields(fields: &Fields, scope: &dyn Scope) -> Result<JsonMap, TaskError> {
    let mut map = JsonMap::new();
    for field in fields {
        let rendered = field.value.render(scope);
        let rendered = rendered.map_err(|error| template_error(&error.to_string()))?;
        map.insert(Arc::clone(&field.name.value), rendered.value);
    }
    Ok(map)
}

fn render_set(set: &Set, scope: &dyn Scope) -> Result<Vec<(SetTarget, Json)>, TaskError> {
    let entries = set.0.iter().map(|entry| {
        let rendered = entry.value.render(scope);
        let rendered = rendered.map_err(|error| template_error(&error.to_string()))?;
        Ok((entry.target.value.clone(), rendered.value))
    });
    entries.collect()
}

fn template_error(message: &str) -> TaskError {
    TaskError::new(TaskErrorKind::Template, message)
}

fn envelope(task: &Task, data: &Json, error: Option<&TaskError>) -> Json {
    let mut envelope = JsonMap::from([
        (
            "status".into(),
            Json::from(if error.is_none() { "ok" } else { "error" }),
        ),
        ("error".into(), error.map_or(Json::Null, TaskError::to_json)),
    ]);
    if task.kind.value == ToolKind::Http {
        let status = data.get("status_code").cloned().or_else(|| {
            let status = error.and_then(|error| error.status)?;
            Some(Json::from(u32::from(status)))
        });
        envelope.insert(
            "http".into(),
            Json::object([("status", status.unwrap_or_default())]),
        );
    }
    Json::from(envelope)
}
