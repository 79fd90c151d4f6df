//! Loops: what they go over, how many iterations are open, and what they come to.

use std::sync::Arc;

use noetl_playbook::model::{FailureMode, LoopMode, LoopSource, OutputSpec, Setting};
use noetl_types::json::parse;
use noetl_types::{EventType, Json, JsonMap};

use super::machine::Machine;
use crate::names::StepValue;
use crate::outcome::{ErrorKind, TaskError};
use crate::pipeline::{Command, Failed, Item, Progress, output};
use crate::reach::find;

/// Commands of a parallel loop that may be open at once where it does not say.
const DEFAULT_WIDTH: usize = 32;

/// A loop under way.
#[derive(Debug, Clone)]
pub(super) struct LoopRun {
    items: Vec<Json>,
    width: usize,
    /// The index of the next iteration to issue.
    next: usize,
    open: usize,
    /// Data by index; null where an iteration failed or is not done.
    results: Vec<Json>,
    /// Failures by index, in order of completion.
    errors: Vec<(usize, Failed)>,
    /// Whether an iteration has failed whose end is still to be dealt with.
    failing: bool,
    /// Whether an iteration could not go on because the run has failed elsewhere.
    cut: bool,
}

/// Why a loop does not start.
enum NoLoop {
    /// A template of it could not be rendered: uncaught.
    Template(Failed),
    /// There is nothing to go over: a failure of the step like any other.
    Schema(Failed),
}

impl Machine<'_> {
    /// Evaluates the loop of a step that was just entered, and issues its first commands.
    pub(super) fn start_loop(&mut self, step: usize) {
        match self.new_loop(step) {
            Err(NoLoop::Template(fault)) => self.fail_uncaught(step, &fault),
            Err(NoLoop::Schema(fault)) => self.fail(step, fault),
            Ok(run) => {
                if let Some(running) = self.running.get_mut(&step) {
                    running.looping = Some(run);
                }
                self.go_on(step);
            }
        }
    }

    fn new_loop(&self, step: usize) -> Result<LoopRun, NoLoop> {
        let template = |error| NoLoop::Template(Failed::template(&error));
        let schema =
            |message: &str| NoLoop::Schema(Failed::of(&TaskError::new(ErrorKind::Schema, message)));
        let (Some(looping), Some(run)) = (&self.step(step).looping, self.running.get(&step)) else {
            return Err(schema("the step has no loop"));
        };
        let LoopSource::In(source) = &looping.source else {
            return Err(schema("a cursor is not a list"));
        };
        let scope = self.view(run).names(&self.step(step).name.value).scope();
        let value = source.value.render(&scope).map_err(template)?.value;
        let items = items_of(&value).ok_or_else(|| schema("the value has no items"))?;
        let width = match (
            looping.spec.mode,
            looping
                .spec
                .max_in_flight
                .as_ref()
                .map(|width| &width.value),
        ) {
            // One command at a time.
            (LoopMode::Sequential | LoopMode::Cursor, _) => 1,
            (LoopMode::Parallel, None) => DEFAULT_WIDTH,
            (LoopMode::Parallel, Some(Setting::Fixed(width))) => {
                usize::try_from(*width).unwrap_or(DEFAULT_WIDTH)
            }
            (LoopMode::Parallel, Some(Setting::Template(width))) => {
                let width = width.render(&scope).map_err(template)?.value.as_u64();
                let width = width
                    .filter(|width| *width > 0)
                    .ok_or_else(|| schema("max_in_flight is below 1"))?;
                usize::try_from(width).unwrap_or(DEFAULT_WIDTH)
            }
        };
        let results = vec![Json::Null; items.len()];
        Ok(LoopRun {
            items,
            width,
            next: 0,
            open: 0,
            results,
            errors: Vec::new(),
            failing: false,
            cut: false,
        })
    }

    /// An iteration is over.
    pub(super) fn iteration_done(
        &mut self,
        step: usize,
        index: usize,
        outcome: Result<StepValue, Failed>,
    ) {
        if let Some(run) = self
            .running
            .get_mut(&step)
            .and_then(|run| run.looping.as_mut())
        {
            run.open -= 1;
            match outcome {
                Ok(value) => run.results[index] = value.data,
                Err(failed) => {
                    // Choice: a loop that fails has no data.
                    let data = Json::Null;
                    let error = with_index(&failed.error, index);
                    let kind = failed.kind;
                    run.errors.push((index, Failed { kind, error, data }));
                }
            }
        }
        self.go_on(step);
    }

    /// A command of a loop has failed, and what follows from it waits for its turn.
    pub(super) fn stop_issuing(&mut self, command: &Command<'_>) {
        let step = find(self.playbook, &command.step.name.value).unwrap_or_default();
        let run = self.running.get_mut(&step);
        if let Some(run) = run.and_then(|run| run.looping.as_mut()) {
            run.failing = true;
        }
    }

    /// An iteration, or a step that is none of a loop, cannot go on because the run has failed.
    pub(super) fn cut(&mut self, step: usize, index: Option<usize>) {
        let run = self.running.get_mut(&step);
        match (index, run.and_then(|run| run.looping.as_mut())) {
            (Some(_), Some(run)) => {
                run.open -= 1;
                run.cut = true;
                self.go_on(step);
            }
            (Some(_) | None, _) => self.cut_short(step),
        }
    }

    /// Issues what may be issued, and ends the loop when nothing is open any more.
    fn go_on(&mut self, step: usize) {
        let tolerant = self.step(step).spec.policy.failure.mode == FailureMode::BestEffort;
        let stopped = self.stopped();
        loop {
            let Some(run) = self
                .running
                .get_mut(&step)
                .and_then(|run| run.looping.as_mut())
            else {
                return;
            };
            // The first failed iteration stops further issuing, and so does a failure elsewhere.
            let broken = !tolerant && (run.failing || !run.errors.is_empty());
            if broken || stopped || run.open >= run.width || run.next >= run.items.len() {
                break;
            }
            let item = Item {
                index: run.next,
                total: run.items.len(),
                value: run.items[run.next].clone(),
            };
            run.next += 1;
            run.open += 1;
            let progress = Progress::new(self.step(step), Some(&item));
            self.issue(step, Some(item), progress);
        }
        let Some(run) = self.running.get(&step).and_then(|run| run.looping.clone()) else {
            return;
        };
        if run.open > 0 {
            return;
        }
        if let (false, Some((_, fault))) = (tolerant, run.errors.first()) {
            self.fail(step, fault.clone());
        } else if run.cut || run.next < run.items.len() {
            self.cut_short(step);
        } else {
            self.all_done(step, &run);
        }
    }

    /// Every iteration is done. Choice: where they cannot be put together, the step fails.
    fn all_done(&mut self, step: usize, run: &LoopRun) {
        match run.data(self.step(step).output.as_ref()) {
            Ok(data) => {
                self.log(EventType::LoopDone, step);
                let labels = None;
                self.succeed(step, "loop.done", StepValue { data, labels });
            }
            Err(most) => {
                let error = TaskError::new(ErrorKind::Limit, format!("more than {most} items"));
                self.fail(step, Failed::of(&error));
            }
        }
    }
}

impl LoopRun {
    /// `{results, stats, data}`, and `errors` where iterations failed.
    fn data(&self, output: Option<&OutputSpec>) -> Result<Json, u64> {
        let results = Json::from(self.results.clone());
        let failed = self.errors.len();
        let stats = [
            ("total", self.items.len()),
            ("success", self.items.len() - failed),
            ("failed", failed),
        ];
        let stats = Json::object(stats.map(|(name, count)| (name, Json::from(count))));
        let mut data = vec![
            ("results", results.clone()),
            ("stats", stats),
            ("data", results),
        ];
        if failed > 0 {
            // Choice: in order of index, like the results.
            let mut errors = self.errors.clone();
            errors.sort_by_key(|(index, _)| *index);
            let entry = |(index, fault): &(usize, Failed)| {
                Json::object([
                    ("index", Json::from(*index)),
                    ("error", fault.error.clone()),
                ])
            };
            data.push(("errors", Json::list(errors.iter().map(entry))));
        }
        let mut data: JsonMap = data
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect();
        if let Some(spec) = output::accumulation(output) {
            let failed = |index: &usize| self.errors.iter().any(|(at, _)| at == index);
            let runs = self.results.iter().enumerate();
            let runs = runs.filter(|(index, _)| !failed(index));
            let runs: Vec<Json> = runs.map(|(_, data)| data.clone()).collect();
            let whole = output::together(spec, &runs)?;
            let name = spec.manifest_as.clone();
            let name = name.unwrap_or_else(|| "accumulated".into());
            data.entry(name).or_insert(whole);
        }
        let selects = output.map(|output| &*output.select).unwrap_or_default();
        Ok(output::selected(Json::from(data), selects))
    }
}

/// The items of a list, the entries of a map, the parts of a text, the numbers below a number.
fn items_of(value: &Json) -> Option<Vec<Json>> {
    match value {
        Json::List(items) => Some(items.to_vec()),
        Json::Map(map) => {
            let entry = |(key, value): (&Arc<str>, &Json)| {
                Json::object([("key", Json::Str(key.clone())), ("value", value.clone())])
            };
            Some(map.iter().map(entry).collect())
        }
        Json::Str(text) => {
            if let Ok(Json::List(items)) = parse(text.as_bytes()) {
                return Some(items.to_vec());
            }
            let parts = text.split([',', '\n']).map(str::trim);
            let parts = parts.filter(|part| !part.is_empty());
            Some(parts.map(Json::from).collect())
        }
        Json::Int(count) => Some((0..*count).map(Json::from).collect()),
        Json::Null | Json::Bool(_) | Json::UInt(_) | Json::Float(_) => None,
    }
}

fn with_index(error: &Json, index: usize) -> Json {
    let mut error: JsonMap = error.as_map().cloned().unwrap_or_default();
    error.insert("index".into(), Json::from(index));
    Json::from(error)
}
