//! A command as a classic worker gets it: composed from the pinned definition and what it carries.

use noetl_api::classic::{ClassicCommand, ClassicContext};
use noetl_engine::event::{CommandIssued, Event, EventKind, IssuedContext};
use noetl_engine::{decode, job};
use noetl_playbook::carried::Carried;
use noetl_playbook::model::{Fields, Step, Tool};
use noetl_store::Command;
use noetl_types::id::CommandLabel;
use noetl_types::{ErrorCode, EventRecord, Json, JsonMap, Text};

use crate::runtime::{Core, Definition, RuntimeError};

/// A command with its definition, ready to be handed out or judged.
pub(super) struct Issued {
    pub(super) event: Event,
    pub(super) definition: std::sync::Arc<Definition>,
    pub(super) carried: Carried,
}

impl Issued {
    /// What the event says.
    pub(super) fn command(&self) -> Result<&CommandIssued, RuntimeError> {
        match &self.event.kind {
            EventKind::CommandIssued(issued) => Ok(issued),
            _ => Err(unreadable()),
        }
    }

    /// The step of the definition.
    pub(super) fn step(&self) -> Result<&Step, RuntimeError> {
        let name = &self.command()?.step;
        let step = self.definition.plan.playbook().step(name.as_str());
        step.ok_or_else(unreadable)
    }
}

fn unreadable() -> RuntimeError {
    RuntimeError::refused(ErrorCode::Internal, "the command cannot be read")
}

impl Core {
    /// The event that issued a command, with all that it refers to.
    pub(super) async fn issued(&self, record: &EventRecord) -> Result<Issued, RuntimeError> {
        let event = decode(record).map_err(|error| {
            tracing::error!(%error, "a command cannot be read");
            unreadable()
        })?;
        let catalog_id = record.event.catalog_id.ok_or_else(unreadable)?;
        let tenant_id = &record.event.tenant_id;
        let definition = self.definition(tenant_id, catalog_id).await?;
        let EventKind::CommandIssued(issued) = &event.kind else {
            return Err(unreadable());
        };
        let carried = match &issued.context {
            IssuedContext::Inline(carried) => carried.clone(),
            IssuedContext::External(reference) => {
                let content = self.fetch(reference.uri()).await?;
                Carried::from_json(content.as_map()).ok_or_else(unreadable)?
            }
        };
        Ok(Issued {
            event,
            definition,
            carried,
        })
    }
}

/// A command with what a classic worker needs to run it.
pub(super) fn hand_out(issued: &Issued, command: &Command) -> Result<ClassicCommand, RuntimeError> {
    let (event, step) = (issued.command()?, issued.step()?);
    let context = ClassicContext {
        tool_config: tool_config(&step.tool)?,
        args: args(step),
        render_context: render_context(issued, command, step),
    };
    Ok(ClassicCommand {
        execution_id: command.execution_id,
        node_id: event.step.clone(),
        node_name: event.step.clone(),
        action: event.tool.as_str().into(),
        context,
        meta: meta(issued, event, command, step),
    })
}

/// The tool as the playbook has it, templates and all.
fn tool_config(tool: &Tool) -> Result<Json, RuntimeError> {
    let config = serde_json::to_value(tool).and_then(serde_json::from_value);
    config.map_err(|error| {
        tracing::error!(%error, "a tool cannot be written");
        unreadable()
    })
}

/// The input of the step, with that of its task over it.
fn args(step: &Step) -> JsonMap {
    let mut args = sources(&step.input);
    if let Tool::Single(task) = &step.tool {
        args.extend(sources(&task.input));
    }
    args
}

fn sources(fields: &Fields) -> JsonMap {
    let fields = fields.0.iter();
    let sources = fields.map(|field| (field.name.value.clone(), field.value.source_json()));
    sources.collect()
}

/// The names that the templates read, and those that an iteration gives itself.
pub(super) fn render_context(issued: &Issued, command: &Command, step: &Step) -> JsonMap {
    let mut names = issued.carried.values.clone();
    let id = Json::from(command.execution_id.to_string());
    names.insert("execution_id".into(), id);
    names.insert("job".into(), job(command.execution_id));
    let Some((index, total)) = iteration(issued) else {
        return names;
    };
    let item = item_var(step).and_then(|name| names.get(name).cloned());
    let item = item.unwrap_or_default();
    let mut iter = JsonMap::from([
        ("index".into(), Json::from(index)),
        ("_index".into(), Json::from(index)),
        ("_total".into(), Json::from(total)),
        ("_first".into(), Json::from(index == 0)),
        ("_last".into(), Json::from(index.saturating_add(1) == total)),
    ]);
    if let Some(name) = item_var(step) {
        iter.insert(name.into(), item);
    }
    names.insert("iter".into(), Json::from(iter));
    names.insert("_index".into(), Json::from(index));
    names.insert("loop_index".into(), Json::from(index));
    names.insert("_total".into(), Json::from(total));
    names
}

/// The iteration, in a loop: its place from 0, and how many there are.
pub(super) fn iteration(issued: &Issued) -> Option<(u32, u32)> {
    let EventKind::CommandIssued(command) = &issued.event.kind else {
        return None;
    };
    let total = command.looping.and_then(|looping| looping.size);
    let total = total.unwrap_or(0);
    command.index.map(|index| (index, total))
}

fn item_var(step: &Step) -> Option<&str> {
    step.looping.as_ref().map(|looping| &**looping.iterator)
}

fn meta(issued: &Issued, event: &CommandIssued, command: &Command, step: &Step) -> JsonMap {
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
        (
            "idempotency_key",
            Json::from(format!("{}:{seq}", command.execution_id)),
        ),
        ("deadline_ms", Json::from(event.deadline.as_ms())),
        ("actionable", Json::from(true)),
    ];
    let mut meta: JsonMap = fields
        .into_iter()
        .map(|(key, field)| (key.into(), field))
        .collect();
    if let Some((index, total)) = iteration(issued) {
        let item_var = item_var(step).map(Text::from);
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
