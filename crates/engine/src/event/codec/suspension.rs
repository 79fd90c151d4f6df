//! Records of suspended tasks, of their timers, and of signals.

use noetl_playbook::model::ToolKind;
use noetl_types::record::NewEvent;
use noetl_types::{CatalogId, ExecutionId, Json, PlaybookPath, Seq, SignalId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ExecutionHeader;
use super::command::{command_parts, read_command_ref, set_command_columns};
use super::fields::{DecodeError, Key, MapBuilder, RecordFields, RecordParts};
use super::playbook::set_execution_columns;
use crate::event::{
    ChildCall, ChildTarget, ChildTimeoutAction, CommandTimer, CommandTimerFired, EventKind,
    InvalidTaskConfig, SignalDelivery, SignalReceived, SuspensionKind, TimerStarted,
};
use crate::payload::{EventData, Reference};

/// Executor of commands that the server performs.
const SERVER_EXECUTOR: &str = "server";

/// Converts a typed part of an event to JSON. Every such part consists of maps, strings and
/// numbers.
fn part_to_json(part: &impl Serialize) -> Json {
    let text = serde_json::to_vec(part).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn part_from_json<T: DeserializeOwned>(part: &Json) -> Option<T> {
    let text = serde_json::to_vec(part).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Adds the suspension of a command to its record.
pub(super) fn write_suspension(mut parts: RecordParts, suspension: &SuspensionKind) -> RecordParts {
    let config = match suspension {
        SuspensionKind::Sleep(sleep) => part_to_json(sleep),
        SuspensionKind::Wait(wait) => part_to_json(wait),
        SuspensionKind::Approval(approval) => part_to_json(approval),
        SuspensionKind::Callback(callback) => part_to_json(callback),
        SuspensionKind::Broken(broken) => part_to_json(&**broken),
        SuspensionKind::Child(call) => {
            parts = write_child(parts, call);
            child_config(call)
        }
    };
    parts.context = parts.context.with_field(Key::ToolConfig, config);
    parts.meta = parts.meta.with_field(Key::Executor, SERVER_EXECUTOR);
    parts
}

fn write_child(mut parts: RecordParts, call: &ChildCall) -> RecordParts {
    parts.context = match &call.input {
        EventData::Inline(input) => parts.context.with_field(Key::Args, input.clone()),
        EventData::External(reference) => {
            parts.context.with_field(Key::ArgsRef, reference.as_json().clone())
        }
    };
    parts.meta = parts.meta.with_field(Key::ChildExecutionId, call.child.to_string());
    parts
}

fn child_config(call: &ChildCall) -> Json {
    let config = match &call.of {
        ChildTarget::Path(path) => MapBuilder::default().with_field(Key::Path, path),
        ChildTarget::CatalogId(id) => {
            MapBuilder::default().with_field(Key::CatalogId, id.to_string())
        }
    };
    config
        .with_optional(Key::Version, call.version)
        .with_field(Key::ReturnResult, call.waits)
        .with_optional(Key::ResultStep, call.result_step.as_ref())
        .with_field(Key::OnTimeout, part_to_json(&call.on_timeout))
        .into_json()
}

/// Reads the suspension of a command. Returns `None` if a worker runs it.
pub(super) fn read_suspension(
    fields: &RecordFields<'_>,
    tool: ToolKind,
) -> Result<Option<SuspensionKind>, DecodeError> {
    if fields.meta.get(Key::Executor).is_none() {
        return Ok(None);
    }
    let config_error = || fields.context.key_error(Key::ToolConfig, "a suspension configuration");
    let config = fields.context.get(Key::ToolConfig).ok_or_else(config_error)?;
    let suspension = if config.get(Key::Error.as_str()).is_some() {
        part_from_json::<InvalidTaskConfig>(config)
            .map(|broken| SuspensionKind::Broken(Box::new(broken)))
    } else {
        match tool {
            ToolKind::Sleep => part_from_json(config).map(SuspensionKind::Sleep),
            ToolKind::Wait => part_from_json(config).map(SuspensionKind::Wait),
            ToolKind::Approval => part_from_json(config).map(SuspensionKind::Approval),
            ToolKind::Container => part_from_json(config).map(SuspensionKind::Callback),
            ToolKind::Playbook => {
                read_child(fields)?.map(|call| SuspensionKind::Child(Box::new(call)))
            }
            _ => None,
        }
    };
    suspension.map(Some).ok_or_else(config_error)
}

fn read_child(fields: &RecordFields<'_>) -> Result<Option<ChildCall>, DecodeError> {
    let context = &fields.context;
    let Some(config) = context.get(Key::ToolConfig).and_then(Json::as_map) else {
        return Ok(None);
    };
    let config = context.nested(config);
    let path = config.read_optional(Key::Path, "a path", |path| {
        PlaybookPath::new(path.as_str()?).ok().map(ChildTarget::Path)
    })?;
    let catalog_id = config.read_optional(Key::CatalogId, "an id", |id| {
        CatalogId::from_json(id).ok().map(ChildTarget::CatalogId)
    })?;
    let reference = context.read_optional(Key::ArgsRef, "a reference", |reference| {
        Reference::new(reference.clone()).ok()
    })?;
    let input = match reference {
        Some(reference) => EventData::External(reference),
        None => EventData::Inline(context.read_json(Key::Args).unwrap_or_default()),
    };
    Ok(Some(ChildCall {
        child: read_child_id(fields.meta.get(Key::ChildExecutionId))
            .ok_or_else(|| fields.meta.key_error(Key::ChildExecutionId, "an id"))?,
        of: path.or(catalog_id).ok_or_else(|| config.key_error(Key::Path, "a path"))?,
        version: config.read_number(Key::Version)?,
        waits: config.read_required(Key::ReturnResult, "a bool", Json::as_bool)?,
        result_step: config.read_text(Key::ResultStep)?,
        on_timeout: config.read_required(
            Key::OnTimeout,
            "`abandon` or `cancel`",
            part_from_json::<ChildTimeoutAction>,
        )?,
        input,
    }))
}

fn read_child_id(id: Option<&Json>) -> Option<ExecutionId> {
    ExecutionId::from_json(id?).ok()
}

pub(super) fn write_timer_started(record: NewEvent, started: &TimerStarted) -> NewEvent {
    let mut parts = command_parts(&started.at);
    parts.result = parts
        .result
        .with_field(Key::Timer, started.timer.as_str())
        .with_field(Key::FireAt, started.fire_at)
        .with_optional(Key::ChildExecutionId, started.child.map(|id| id.to_string()))
        .with_optional(Key::Started, started.started.clone())
        .with_nonempty(Key::Set, &started.set);
    parts.into_record(set_command_columns(record, &started.at))
}

pub(super) fn read_timer_started(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let result = &fields.result;
    Ok(EventKind::TimerStarted(Box::new(TimerStarted {
        at: read_command_ref(fields)?,
        timer: read_timer_name(fields)?,
        fire_at: result
            .read_time(Key::FireAt)?
            .ok_or_else(|| result.key_error(Key::FireAt, "a time"))?,
        child: result
            .read_optional(Key::ChildExecutionId, "an id", |id| read_child_id(Some(id)))?,
        started: result.get(Key::Started).cloned(),
        set: result.read_map(Key::Set)?,
    })))
}

fn read_timer_name(fields: &RecordFields<'_>) -> Result<CommandTimer, DecodeError> {
    fields.result.read_required(Key::Timer, "the name of a timer", |timer| {
        CommandTimer::parse(timer.as_str()?)
    })
}

pub(super) fn write_timer_fired(record: NewEvent, fired: &CommandTimerFired) -> NewEvent {
    let mut parts = command_parts(&fired.at);
    parts.result = parts
        .result
        .with_field(Key::Timer, fired.timer.as_str())
        .with_field(Key::FireAt, fired.fire_at);
    parts.into_record(set_command_columns(record, &fired.at))
}

pub(super) fn read_timer_fired(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let fire_at = fields.result.read_time(Key::FireAt)?;
    Ok(EventKind::CommandTimerFired(Box::new(CommandTimerFired {
        at: read_command_ref(fields)?,
        timer: read_timer_name(fields)?,
        fire_at: fire_at.ok_or_else(|| fields.result.key_error(Key::FireAt, "a time"))?,
    })))
}

pub(super) fn write_signal(
    record: NewEvent,
    header: &ExecutionHeader,
    signal: &SignalReceived,
) -> NewEvent {
    let delivery = signal.delivery.as_ref();
    let mut parts =
        delivery.map_or_else(RecordParts::new, |delivery| command_parts(&delivery.consumer));
    let lookback = delivery.and_then(|delivery| delivery.received_at);
    let payload = (!signal.payload.is_null()).then(|| signal.payload.clone());
    parts.result = parts
        .result
        .with_field(Key::Name, &signal.name)
        .with_optional(Key::Correlation, signal.key.as_ref())
        .with_optional(Key::Payload, payload)
        .with_optional(Key::Lookback, lookback.map(|_| true))
        .with_optional(Key::ReceivedAt, lookback);
    let buffered_seq = delivery.and_then(|delivery| delivery.buffered_seq);
    parts.meta = parts
        .meta
        .with_optional(Key::Actor, signal.actor.as_ref())
        .with_optional(Key::SignalId, signal.broadcast.map(|id| id.to_string()))
        .with_optional(Key::Slot, delivery.map(|delivery| delivery.awaited_index))
        .with_optional(Key::KeptSeq, buffered_seq.map(Seq::get));
    parts.into_record(match delivery {
        Some(delivery) => set_command_columns(record, &delivery.consumer),
        None => set_execution_columns(record, &header.path),
    })
}

pub(super) fn read_signal(fields: &RecordFields<'_>) -> Result<EventKind, DecodeError> {
    let (result, meta) = (&fields.result, &fields.meta);
    let delivery = match meta.read_number(Key::Slot)? {
        None => None,
        Some(awaited_index) => Some(SignalDelivery {
            consumer: read_command_ref(fields)?,
            awaited_index,
            received_at: result.read_time(Key::ReceivedAt)?,
            buffered_seq: meta.read_optional(Key::KeptSeq, "a sequence number", |seq| {
                Seq::new(seq.as_i64()?).ok()
            })?,
        }),
    };
    Ok(EventKind::SignalReceived(Box::new(SignalReceived {
        name: result
            .read_text(Key::Name)?
            .ok_or_else(|| result.key_error(Key::Name, "a string"))?,
        key: result.read_text(Key::Correlation)?,
        payload: result.read_json(Key::Payload).unwrap_or_default(),
        actor: meta.read_text(Key::Actor)?,
        broadcast: meta.read_optional(Key::SignalId, "an id", |id| SignalId::from_json(id).ok())?,
        delivery,
    })))
}
