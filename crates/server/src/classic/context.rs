//! Builds commands for classic workers from the pinned definition and the command context.

use std::collections::BTreeMap;

use noetl_api::classic::{ClassicCommand, ClassicContext};
use noetl_engine::event::{CommandIssued, Event, EventKind, IssuedContext};
use noetl_engine::{decode_record, job_variable};
use noetl_playbook::command_context::CommandContext;
use noetl_playbook::command_machine::ContinuationState;
use noetl_playbook::model::{NamedValues, Step, Task};
use noetl_playbook::paths::{path_segments, set_at_path};
use noetl_store::Command;
use noetl_types::id::CommandLabel;
use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, ErrorCode, EventRecord, Json, JsonMap, Text};
use serde::Serialize;

use crate::classic::ClassicApi;
use crate::error::{Result, RuntimeError};
use crate::services::catalog::Definition;

/// An issued command with its definition and context.
pub(crate) struct IssuedCommand {
    pub(crate) event: Event,
    pub(crate) definition: std::sync::Arc<Definition>,
    pub(crate) context: CommandContext,
}

impl IssuedCommand {
    /// Content of the event that issued it.
    pub(crate) fn command(&self) -> Result<&CommandIssued> {
        match &self.event.kind {
            EventKind::CommandIssued(issued) => Ok(issued),
            _ => Err(undecodable_command()),
        }
    }

    pub(crate) fn step(&self) -> Result<&Step> {
        let name = &self.command()?.step;
        let step = self.definition.plan.playbook().find_step(name.as_str());
        step.ok_or_else(undecodable_command)
    }

    /// Task that a classic worker runs next. It gets the tasks of a pipeline one by one, because it
    /// cannot run several. `None` for a frame of rows, which it runs from beginning to end.
    pub(crate) fn task(&self) -> Result<Option<&Task>> {
        if self.command()?.frame.is_some() {
            return Ok(None);
        }
        let tasks = self.step()?.tool.tasks();
        let first = match &self.context.continuation {
            Some(state) => state.continuation.next_task_index(tasks),
            None => Some(0),
        };
        let task = first.and_then(|index| tasks.get(index));
        task.ok_or_else(undecodable_command).map(Some)
    }
}

fn undecodable_command() -> RuntimeError {
    RuntimeError::internal("the command cannot be decoded; see the server's log")
}

/// Maximum total size of the stored values in a command for a classic worker.
const MAX_LOADED_VALUES: ByteSize = ByteSize::from_mib(64);

impl ClassicApi {
    /// Loads an issued command from its event, with all that it refers to.
    pub(crate) async fn load_issued(&self, record: &EventRecord) -> Result<IssuedCommand> {
        let event = decode_record(record).map_err(|error| {
            tracing::error!(%error, "decoding the event of a command failed");
            undecodable_command()
        })?;
        let catalog_id = record.event.catalog_id.ok_or_else(undecodable_command)?;
        let tenant_id = &record.event.tenant_id;
        let definition = self.catalog.load_definition(tenant_id, catalog_id).await?;
        let EventKind::CommandIssued(issued) = &event.kind else {
            return Err(undecodable_command());
        };
        let context = match &issued.context {
            IssuedContext::Inline(context) => context.clone(),
            IssuedContext::External(reference) => {
                let content = self.results.fetch_result(reference.uri()).await?;
                CommandContext::from_json(content.as_map()).ok_or_else(undecodable_command)?
            }
        };
        Ok(IssuedCommand { event, definition, context })
    }

    /// Replaces references to stored values by the values, because classic workers do not resolve
    /// them when they render templates.
    pub(crate) async fn load_referenced_values(&self, context: &mut CommandContext) -> Result<()> {
        let mut loaded: BTreeMap<Text, Json> = BTreeMap::new();
        let mut size = 0;
        for path in std::mem::take(&mut context.references) {
            let path = path_segments(&path);
            let reference = path.split_first().and_then(|(name, rest)| {
                let value = context.values.get(name);
                rest.iter().fold(value, |value, key| value?.get(key))
            });
            let uri = reference.and_then(|reference| reference.get("ref")?.as_str());
            let Some(uri) = uri.map(Text::from) else {
                continue;
            };
            if !loaded.contains_key(&uri) {
                let value = match self.results.fetch_result(&uri).await {
                    Ok(value) => value,
                    // It stays a reference. An error would block the command until the lease expires.
                    Err(error) if error.code() == Some(ErrorCode::NotFound) => continue,
                    Err(error) => return Err(error),
                };
                size += to_canonical(&value).len();
                if MAX_LOADED_VALUES.is_exceeded_by(size) {
                    let text = format!(
                        "the stored values that the command reads are larger than {MAX_LOADED_VALUES} \
                         in total, which is too large for a classic worker"
                    );
                    return Err(RuntimeError::too_large(text));
                }
                loaded.insert(uri.clone(), value);
            }
            set_at_path(&mut context.values, &path, loaded[&uri].clone());
        }
        Ok(())
    }
}

/// Builds the command that is sent to a classic worker.
pub(crate) fn to_classic_command(
    issued: &IssuedCommand,
    command: &Command,
) -> Result<ClassicCommand> {
    let (event, step) = (issued.command()?, issued.step()?);
    let context = ClassicContext {
        tool_config: match issued.task()? {
            Some(task) => tool_config(task)?,
            None => tool_config(&step.tool)?,
        },
        args: build_args(step, issued.task()?),
        render_context: render_context(issued, command, step),
    };
    Ok(ClassicCommand {
        execution_id: command.execution_id.into(),
        node_id: event.step.clone(),
        node_name: event.step.clone(),
        action: event.tool.as_str().into(),
        context,
        meta: build_meta(issued, event, command, step),
    })
}

/// Converts the tool or a task of the playbook to JSON, with its templates.
fn tool_config(tool: &impl Serialize) -> Result<Json> {
    let config = serde_json::to_value(tool).and_then(serde_json::from_value);
    config.map_err(|error| {
        tracing::error!(%error, "serializing the tool of a step failed");
        undecodable_command()
    })
}

/// Merges the input of the step with that of its task, which takes precedence.
fn build_args(step: &Step, task: Option<&Task>) -> JsonMap {
    let mut args = source_fields(&step.input);
    args.extend(task.map(|task| source_fields(&task.input)).unwrap_or_default());
    args
}

fn source_fields(fields: &NamedValues) -> JsonMap {
    let fields = fields.0.iter();
    let sources = fields.map(|field| (field.name.value.clone(), field.value.to_source_json()));
    sources.collect()
}

/// Builds the template context: the values of the command context, and the variables of an
/// iteration.
pub(crate) fn render_context(issued: &IssuedCommand, command: &Command, step: &Step) -> JsonMap {
    let mut variables = issued.context.values.clone();
    let id = Json::from(command.execution_id.to_string());
    variables.insert("execution_id".into(), id);
    variables.insert("job".into(), job_variable(command.execution_id));
    let pipeline = issued.context.continuation.as_ref();
    if let Some(state) = pipeline {
        add_pipeline_variables(&mut variables, state);
    }
    let written = pipeline.map(|state| state.continuation.iter.clone());
    let Some((index, total)) = iteration_position(issued) else {
        if let Some(written) = written {
            variables.insert("iter".into(), Json::from(written));
        }
        return variables;
    };
    let item = iterator_name(step).and_then(|name| variables.get(name).cloned());
    let item = item.unwrap_or_default();
    let mut iter = JsonMap::from([
        ("index".into(), Json::from(index)),
        ("_index".into(), Json::from(index)),
        ("_total".into(), Json::from(total)),
        ("_first".into(), Json::from(index == 0)),
        ("_last".into(), Json::from(index.saturating_add(1) == total)),
    ]);
    if let Some(name) = iterator_name(step) {
        iter.insert(name.into(), item);
    }
    iter.extend(written.unwrap_or_default());
    variables.insert("iter".into(), Json::from(iter));
    variables.insert("_index".into(), Json::from(index));
    variables.insert("loop_index".into(), Json::from(index));
    variables.insert("_total".into(), Json::from(total));
    variables
}

/// Adds what the earlier tasks of a pipeline left: their data by label, and their variables.
fn add_pipeline_variables(variables: &mut JsonMap, state: &ContinuationState) {
    let results = &state.results;
    let is_free = |name: &str| !UNSHADOWED_NAMES.contains(&name);
    let labelled = results.iter().chain(&state.continuation.variables);
    let labelled = labelled.filter(|(name, _)| is_free(name));
    variables.extend(labelled.map(|(name, value)| (name.clone(), value.clone())));
    let previous = state.continuation.after.as_ref().and_then(|label| results.get(label));
    variables.insert("_prev".into(), previous.cloned().unwrap_or_default());
    variables.insert("results".into(), Json::from(results.clone()));
}

/// Names that no variable of a pipeline replaces.
const UNSHADOWED_NAMES: [&str; 5] = ["execution_id", "workload", "ctx", "steps", "keychain"];

/// Index and total of the iteration in a loop.
pub(crate) fn iteration_position(issued: &IssuedCommand) -> Option<(u32, u32)> {
    let EventKind::CommandIssued(command) = &issued.event.kind else {
        return None;
    };
    let total = command.looping.and_then(|looping| looping.size);
    let total = total.unwrap_or(0);
    command.index.map(|index| (index, total))
}

fn iterator_name(step: &Step) -> Option<&str> {
    step.looping.as_ref().map(|looping| &**looping.iterator)
}

fn build_meta(
    issued: &IssuedCommand,
    event: &CommandIssued,
    command: &Command,
    step: &Step,
) -> JsonMap {
    let label = CommandLabel {
        execution_id: command.execution_id,
        step: event.step.clone(),
        command_id: command.command_id,
        index: event.index.map(u64::from),
    };
    let attempt = command.attempt.max(1);
    let seq = issued.event.seq;
    let entry = &issued.definition.entry;
    let fields = [
        ("command_id", Json::from(label.to_string())),
        ("step", Json::from(event.step.as_str())),
        ("tool_kind", Json::from(event.tool.as_str())),
        ("execution_id", Json::from(command.execution_id.to_string())),
        ("catalog_id", Json::from(entry.catalog_id.to_string())),
        ("run", Json::from(event.run)),
        ("attempt", Json::from(attempt)),
        ("attempts", Json::from(attempt)),
        ("max_attempts", Json::from(event.max_attempts)),
        ("idempotency_key", Json::from(format!("{}:{seq}", command.execution_id))),
        ("deadline_ms", Json::from(event.deadline.as_ms())),
        ("actionable", Json::from(true)),
    ];
    let mut meta: JsonMap = fields.into_iter().map(|(key, field)| (key.into(), field)).collect();
    if let Some((index, total)) = iteration_position(issued) {
        let item_var = iterator_name(step).map(Text::from);
        for (key, field) in [
            ("index", Json::from(index)),
            ("collection_size", Json::from(total)),
            ("iteration_index", Json::from(index)),
            ("iteration_total", Json::from(total)),
            ("iterator_step", Json::from(event.step.as_str())),
            ("item_var", Json::from(item_var)),
        ] {
            meta.insert(key.into(), field);
        }
        if let Some(looping) = event.looping {
            let loop_id = Json::from(looping.loop_id.to_string());
            meta.insert("loop_id".into(), loop_id);
        }
    }
    meta
}
