//! The beginning of a run: its input, and its first step.

use std::sync::Arc;

use noetl_playbook::bounds::{MAX_VALUE_DEPTH, is_shallow};
use noetl_playbook::model::{RootConcurrency, Setting};
use noetl_playbook::template::{MapScope, RenderError, StartScope};
use noetl_types::limits::{MAX_COMMAND_CONTEXT, Priority};
use noetl_types::{Json, JsonMap, StepName, TaskError, TaskErrorKind};

use super::draft::Draft;
use super::{Refused, Start, Verdict, finish, joins, slots};
use crate::event::{EventKind, Failed, Started};
use crate::job::job;
use crate::payload::Data;
use crate::slot::{RunSlot, Slot};

/// Begins the run.
pub(super) fn start(draft: &mut Draft<'_>, start: Start) -> Result<Verdict, Refused> {
    if draft.state.version().get() > 0 {
        return Err(Refused::AlreadyStarted);
    }
    let payload = match &start.payload {
        Json::Null => JsonMap::new(),
        Json::Map(map) => (**map).clone(),
        other => return Err(Refused::BadPayload(other.type_name())),
    };
    if !is_shallow(&start.payload, MAX_VALUE_DEPTH) {
        return Err(Refused::DeepPayload);
    }
    let input = input(draft, &start, &payload);
    let (given, error) = match input {
        Ok(given) => (given, None),
        Err(error) => {
            let given = Given {
                workload: payload,
                priority: start.priority,
                concurrency: None,
            };
            (given, Some(error))
        }
    };
    let workload = keep(draft, &start, Json::from(given.workload))?;
    draft.emit(EventKind::PlaybookStarted(Box::new(Started {
        concurrency: given.concurrency,
        ..started(start, workload, given.priority)
    })))?;
    if let Some(error) = error {
        draft.emit(EventKind::PlaybookFailed(Box::new(Failed {
            error,
            failed_steps: Vec::new(),
        })))?;
        return Ok(Verdict::Accepted);
    }
    joins::enter_ready(draft)?;
    finish::finish(draft)?;
    Ok(Verdict::Accepted)
}

fn keep(draft: &mut Draft<'_>, start: &Start, workload: Json) -> Result<Data, Refused> {
    let name = StepName::new("workload").map_err(|_| draft.broken("name"))?;
    let budget = MAX_COMMAND_CONTEXT.as_bytes();
    draft.keep_for(start.execution_id, &name, workload, budget)
}

/// What a run is given.
struct Given {
    workload: JsonMap,
    priority: Option<i16>,
    concurrency: Option<RunSlot>,
}

/// The input of the run, its rank, and the slot that it needs.
fn input(draft: &Draft<'_>, start: &Start, payload: &JsonMap) -> Result<Given, TaskError> {
    let names = MapScope::new()
        .with("env", Json::from(start.env.clone()))
        .with("job", job(start.execution_id))
        .with("input", Json::from(payload.clone()))
        .with("payload", Json::from(payload.clone()))
        .with("execution_id", Json::from(start.execution_id.to_string()))
        .at(draft.now)
        .limited(draft.plan.limits());
    let scope = StartScope::new(names, start.seed);
    let mut workload = JsonMap::new();
    for field in &draft.plan.playbook().workload {
        let rendered = field.value.render(&scope);
        let rendered = rendered.map_err(|error| template_error(&field.name.value, &error))?;
        workload.insert(Arc::clone(&field.name.value), rendered.value);
    }
    merge(&mut workload, payload);
    let whole = Json::from(workload.clone());
    if let Some(error) = super::draft::too_deep(&whole, "the workload") {
        return Err(error);
    }
    let priority = match (start.priority, &draft.plan.playbook().priority) {
        (Some(given), _) => Some(given),
        (None, None) => None,
        (None, Some(written)) => Some(rank(draft, &written.value, start, &workload)?),
    };
    let concurrency = match &draft.plan.playbook().concurrency {
        None => None,
        Some(written) => Some(slot(draft, written, start, &workload)?),
    };
    Ok(Given {
        workload,
        priority,
        concurrency,
    })
}

/// What templates of the root see.
fn root_scope(draft: &Draft<'_>, start: &Start, workload: &JsonMap) -> MapScope {
    MapScope::of(workload)
        .with("workload", Json::from(workload.clone()))
        .with("execution_id", Json::from(start.execution_id.to_string()))
        .with("path", Json::from(&start.path))
        .at(draft.now)
        .limited(draft.plan.limits())
}

fn slot(
    draft: &Draft<'_>,
    written: &RootConcurrency,
    start: &Start,
    workload: &JsonMap,
) -> Result<RunSlot, TaskError> {
    let wrong = || TaskError::new(TaskErrorKind::Schema, "concurrency.key: not a text");
    let key = match &written.key {
        Setting::Fixed(key) => key.to_string(),
        Setting::Template(template) => {
            let rendered = template.value.render(&root_scope(draft, start, workload));
            let rendered = rendered.map_err(|error| template_error("concurrency.key", &error))?;
            slots::key_of(&rendered.value).ok_or_else(wrong)?
        }
    };
    Ok(RunSlot {
        slot: Slot {
            key: slots::bounded(&key)?,
            limit: written.limit.value,
        },
        overlap: written.overlap,
    })
}

fn rank(
    draft: &Draft<'_>,
    written: &Setting<i64>,
    start: &Start,
    workload: &JsonMap,
) -> Result<i16, TaskError> {
    let rank = match written {
        Setting::Fixed(rank) => Some(*rank),
        Setting::Template(template) => {
            let rendered = template.value.render(&root_scope(draft, start, workload));
            let rendered = rendered.map_err(|error| template_error("priority", &error))?;
            rendered.value.as_i64()
        }
    };
    let wrong = || TaskError::new(TaskErrorKind::Schema, "priority: not a whole number");
    Ok(Priority::clamped(rank.ok_or_else(wrong)?).get())
}

fn template_error(field: &str, error: &RenderError) -> TaskError {
    let message = format!("workload, {field}: {error}");
    let mut failure = TaskError::new(TaskErrorKind::Template, message);
    failure.details = Some(Json::object([
        ("field", Json::from(field)),
        ("line", Json::from(error.line)),
        ("column", Json::from(error.column)),
        ("excerpt", Json::from(error.excerpt.as_str())),
    ]));
    failure
}

/// Lays a map over another: maps deeply, everything else in place of what was there.
fn merge(under: &mut JsonMap, over: &JsonMap) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Json::Map(under)), Json::Map(over)) => merge(Arc::make_mut(under), over),
            (Some(slot), _) => *slot = value.clone(),
            (None, _) => {
                under.insert(Arc::clone(key), value.clone());
            }
        }
    }
}

fn started(start: Start, workload: Data, priority: Option<i16>) -> Started {
    Started {
        execution_id: start.execution_id,
        catalog_id: start.catalog_id,
        path: start.path,
        version: start.version,
        definition_sha256: start.definition_sha256,
        workload,
        parent_execution_id: start.parent_execution_id,
        depth: start.depth,
        execution_pool: start.execution_pool,
        priority,
        concurrency: None,
        start_at: start.start_at,
        server_url: start.server_url,
        emitter: start.emitter,
        actor: start.actor,
        trace: start.trace,
        forked_from: start.forked_from,
        rerun_of: start.rerun_of,
        dedup: start.dedup,
    }
}
