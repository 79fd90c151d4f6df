//! Start of an execution: its input and its first step.

use std::sync::Arc;

use noetl_playbook::bounds::{MAX_VALUE_DEPTH, is_shallow};
use noetl_playbook::model::{RootConcurrency, ValueOrTemplate};
use noetl_playbook::template::{MapEnvironment, RenderError, StartEnvironment};
use noetl_types::limits::{MAX_COMMAND_CONTEXT_SIZE, Priority};
use noetl_types::{Json, JsonMap, StepName, TaskError, TaskErrorKind};

use super::draft::Draft;
use super::{DecisionError, InputVerdict, Result, StartInput, finish, joins, slots};
use crate::event::{EventKind, PlaybookFailed, PlaybookStarted};
use crate::job::job_variable;
use crate::payload::EventData;
use crate::slot::{ExecutionSlot, Slot};

/// Starts the execution.
pub(super) fn start_execution(draft: &mut Draft<'_>, start: StartInput) -> Result<InputVerdict> {
    if draft.state.version().get() > 0 {
        return Err(DecisionError::AlreadyStarted);
    }
    let payload = match &start.payload {
        Json::Null => JsonMap::new(),
        Json::Map(map) => (**map).clone(),
        other => return Err(DecisionError::InvalidPayload(other.type_name())),
    };
    if !is_shallow(&start.payload, MAX_VALUE_DEPTH) {
        return Err(DecisionError::PayloadTooDeep);
    }
    let input = resolve_start(draft, &start, &payload);
    let (resolved, error) = match input {
        Ok(resolved) => (resolved, None),
        Err(error) => {
            let resolved =
                ResolvedStart { workload: payload, priority: start.priority, concurrency: None };
            (resolved, Some(error))
        }
    };
    let workload = store_workload(draft, &start, Json::from(resolved.workload))?;
    draft.emit_event(EventKind::PlaybookStarted(Box::new(PlaybookStarted {
        concurrency: resolved.concurrency,
        ..started_event(start, workload, resolved.priority)
    })))?;
    if let Some(error) = error {
        draft.emit_event(EventKind::PlaybookFailed(Box::new(PlaybookFailed {
            error,
            failed_steps: Vec::new(),
        })))?;
        return Ok(InputVerdict::Accepted);
    }
    joins::enter_ready(draft)?;
    finish::finish_if_done(draft)?;
    Ok(InputVerdict::Accepted)
}

fn store_workload(draft: &mut Draft<'_>, start: &StartInput, workload: Json) -> Result<EventData> {
    let name = StepName::new("workload").map_err(|_| draft.invariant_error("name"))?;
    let budget = MAX_COMMAND_CONTEXT_SIZE.as_bytes();
    draft.inline_or_store_for(start.execution_id, &name, workload, budget)
}

/// Resolved inputs of a start.
struct ResolvedStart {
    workload: JsonMap,
    priority: Option<i16>,
    concurrency: Option<ExecutionSlot>,
}

/// Resolves the input of the execution, its priority, and the slot that it needs.
fn resolve_start(
    draft: &Draft<'_>,
    start: &StartInput,
    payload: &JsonMap,
) -> Result<ResolvedStart, TaskError> {
    let names = MapEnvironment::new()
        .with_name("env", Json::from(start.env.clone()))
        .with_name("job", job_variable(start.execution_id))
        .with_name("input", Json::from(payload.clone()))
        .with_name("payload", Json::from(payload.clone()))
        .with_name("execution_id", Json::from(start.execution_id.to_string()))
        .with_now(draft.now)
        .with_limits(draft.plan.limits())
        .with_budget(draft.fuel.clone());
    let environment = StartEnvironment::new(names, start.seed);
    let mut workload = JsonMap::new();
    for field in &draft.plan.playbook().workload {
        let rendered = field.value.render(&environment);
        let rendered = rendered.map_err(|error| template_error(&field.name.value, &error))?;
        workload.insert(Arc::clone(&field.name.value), rendered.value);
    }
    merge_deep(&mut workload, payload);
    let whole = Json::from(workload.clone());
    if let Some(error) = super::draft::depth_error(&whole, "the workload") {
        return Err(error);
    }
    let priority = match (start.priority, &draft.plan.playbook().priority) {
        (Some(priority), _) => Some(priority),
        (None, None) => None,
        (None, Some(setting)) => {
            Some(resolve_start_priority(draft, &setting.value, start, &workload)?)
        }
    };
    let concurrency = match &draft.plan.playbook().concurrency {
        None => None,
        Some(concurrency) => Some(resolve_slot(draft, concurrency, start, &workload)?),
    };
    Ok(ResolvedStart { workload, priority, concurrency })
}

/// Environment of templates at the root of the playbook.
fn root_environment(draft: &Draft<'_>, start: &StartInput, workload: &JsonMap) -> MapEnvironment {
    MapEnvironment::from_values(workload)
        .with_name("workload", Json::from(workload.clone()))
        .with_name("execution_id", Json::from(start.execution_id.to_string()))
        .with_name("path", Json::from(&start.path))
        .with_now(draft.now)
        .with_limits(draft.plan.limits())
        .with_budget(draft.fuel.clone())
}

fn resolve_slot(
    draft: &Draft<'_>,
    concurrency: &RootConcurrency,
    start: &StartInput,
    workload: &JsonMap,
) -> Result<ExecutionSlot, TaskError> {
    let invalid_key = || TaskError::new(TaskErrorKind::Schema, "concurrency.key: not a text");
    let key = match &concurrency.key {
        ValueOrTemplate::Fixed(key) => key.to_string(),
        ValueOrTemplate::Template(template) => {
            let rendered = template.value.render(&root_environment(draft, start, workload));
            let rendered = rendered.map_err(|error| template_error("concurrency.key", &error))?;
            slots::key_from_json(&rendered.value).ok_or_else(invalid_key)?
        }
    };
    Ok(ExecutionSlot {
        slot: Slot { key: slots::bounded_key(&key)?, limit: concurrency.limit.value },
        overlap: concurrency.overlap,
    })
}

fn resolve_start_priority(
    draft: &Draft<'_>,
    setting: &ValueOrTemplate<i64>,
    start: &StartInput,
    workload: &JsonMap,
) -> Result<i16, TaskError> {
    let rank = match setting {
        ValueOrTemplate::Fixed(rank) => Some(*rank),
        ValueOrTemplate::Template(template) => {
            let rendered = template.value.render(&root_environment(draft, start, workload));
            let rendered = rendered.map_err(|error| template_error("priority", &error))?;
            rendered.value.as_i64()
        }
    };
    let invalid_priority = || TaskError::new(TaskErrorKind::Schema, "priority: not a whole number");
    Ok(Priority::clamped(rank.ok_or_else(invalid_priority)?).get())
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

/// Merges a map into another: nested maps recursively, all other values by replacement.
fn merge_deep(base: &mut JsonMap, overlay: &JsonMap) {
    for (key, value) in overlay {
        match (base.get_mut(key), value) {
            (Some(Json::Map(base)), Json::Map(overlay)) => merge_deep(Arc::make_mut(base), overlay),
            (Some(existing), _) => *existing = value.clone(),
            (None, _) => {
                base.insert(Arc::clone(key), value.clone());
            }
        }
    }
}

fn started_event(start: StartInput, workload: EventData, priority: Option<i16>) -> PlaybookStarted {
    PlaybookStarted {
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
