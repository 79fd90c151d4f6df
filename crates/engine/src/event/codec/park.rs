//! Records of tasks that wait without a worker, of their timers, and of signals.

use noetl_playbook::model::ToolKind;
use noetl_types::record::NewEvent;
use noetl_types::{CatalogId, ExecutionId, Json, PlaybookPath, Seq, SignalId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ExecutionHeader;
use super::command::{about, of_command, read_at};
use super::fields::{DecodeError, Fields, Key, Map, Parts};
use super::playbook::at_run;
use crate::event::{
    Broken, ChildCall, ChildOf, CommandTimer, CommandTimerFired, EventKind, Overdue, Park,
    SignalReceived, Taken, TimerStarted,
};
use crate::payload::{Data, Reference};

/// Who carries out a command that no worker does.
const SERVER: &str = "server";

/// A typed part of an event as JSON. Every such part is made of maps, texts and numbers.
fn as_json(part: &impl Serialize) -> Json {
    let text = serde_json::to_vec(part).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn from_json<T: DeserializeOwned>(part: &Json) -> Option<T> {
    let text = serde_json::to_vec(part).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Adds to the record of a command what it waits for.
pub(super) fn write_park(mut parts: Parts, park: &Park) -> Parts {
    let config = match park {
        Park::Sleep(sleep) => as_json(sleep),
        Park::Wait(wait) => as_json(wait),
        Park::Approval(approval) => as_json(approval),
        Park::Callback(callback) => as_json(callback),
        Park::Broken(broken) => as_json(&**broken),
        Park::Child(call) => {
            parts = write_child(parts, call);
            child_config(call)
        }
    };
    parts.context = parts.context.put(Key::ToolConfig, config);
    parts.meta = parts.meta.put(Key::Executor, SERVER);
    parts
}

fn write_child(mut parts: Parts, call: &ChildCall) -> Parts {
    parts.context = match &call.input {
        Data::Inline(input) => parts.context.put(Key::Args, input.clone()),
        Data::External(reference) => parts.context.put(Key::ArgsRef, reference.as_json().clone()),
    };
    parts.meta = parts
        .meta
        .put(Key::ChildExecutionId, call.child.to_string());
    parts
}

fn child_config(call: &ChildCall) -> Json {
    let config = match &call.of {
        ChildOf::Path(path) => Map::default().put(Key::Path, path),
        ChildOf::CatalogId(id) => Map::default().put(Key::CatalogId, id.to_string()),
    };
    config
        .maybe(Key::Version, call.version)
        .put(Key::ReturnResult, call.waits)
        .maybe(Key::ResultStep, call.result_step.as_ref())
        .put(Key::OnTimeout, as_json(&call.on_timeout))
        .into_json()
}

/// What a command waits for, where the server carries it out.
pub(super) fn read_park(fields: &Fields<'_>, tool: ToolKind) -> Result<Option<Park>, DecodeError> {
    if fields.meta.get(Key::Executor).is_none() {
        return Ok(None);
    }
    let wrong = || {
        fields
            .context
            .wrong(Key::ToolConfig, "what the task waits for")
    };
    let config = fields.context.get(Key::ToolConfig).ok_or_else(wrong)?;
    let park = if config.get(Key::Error.as_str()).is_some() {
        from_json::<Broken>(config).map(|broken| Park::Broken(Box::new(broken)))
    } else {
        match tool {
            ToolKind::Sleep => from_json(config).map(Park::Sleep),
            ToolKind::Wait => from_json(config).map(Park::Wait),
            ToolKind::Approval => from_json(config).map(Park::Approval),
            ToolKind::Container => from_json(config).map(Park::Callback),
            ToolKind::Playbook => read_child(fields)?.map(|call| Park::Child(Box::new(call))),
            _ => None,
        }
    };
    park.map(Some).ok_or_else(wrong)
}

fn read_child(fields: &Fields<'_>) -> Result<Option<ChildCall>, DecodeError> {
    let context = &fields.context;
    let Some(config) = context.get(Key::ToolConfig).and_then(Json::as_map) else {
        return Ok(None);
    };
    let config = context.inner(config);
    let path = config.read(Key::Path, "a path", |path| {
        PlaybookPath::new(path.as_str()?).ok().map(ChildOf::Path)
    })?;
    let catalog_id = config.read(Key::CatalogId, "an id", |id| {
        CatalogId::from_json(id).ok().map(ChildOf::CatalogId)
    })?;
    let reference = context.read(Key::ArgsRef, "a reference", |reference| {
        Reference::new(reference.clone()).ok()
    })?;
    let input = match reference {
        Some(reference) => Data::External(reference),
        None => Data::Inline(context.json(Key::Args).unwrap_or_default()),
    };
    Ok(Some(ChildCall {
        child: read_child_id(fields.meta.get(Key::ChildExecutionId))
            .ok_or_else(|| fields.meta.wrong(Key::ChildExecutionId, "an id"))?,
        of: path
            .or(catalog_id)
            .ok_or_else(|| config.wrong(Key::Path, "a path"))?,
        version: config.number(Key::Version)?,
        waits: config.need(Key::ReturnResult, "a bool", Json::as_bool)?,
        result_step: config.text(Key::ResultStep)?,
        on_timeout: config.need(Key::OnTimeout, "a word", from_json::<Overdue>)?,
        input,
    }))
}

fn read_child_id(id: Option<&Json>) -> Option<ExecutionId> {
    ExecutionId::from_json(id?).ok()
}

pub(super) fn write_timer_started(record: NewEvent, started: &TimerStarted) -> NewEvent {
    let mut parts = about(&started.at);
    parts.result = parts
        .result
        .put(Key::Timer, started.timer.as_str())
        .put(Key::FireAt, started.fire_at)
        .maybe(
            Key::ChildExecutionId,
            started.child.map(|id| id.to_string()),
        )
        .maybe(Key::Started, started.started.clone())
        .full(Key::Set, &started.set);
    parts.write(of_command(record, &started.at))
}

pub(super) fn read_timer_started(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let result = &fields.result;
    Ok(EventKind::TimerStarted(Box::new(TimerStarted {
        at: read_at(fields)?,
        timer: read_timer_name(fields)?,
        fire_at: result
            .time(Key::FireAt)?
            .ok_or_else(|| result.wrong(Key::FireAt, "a time"))?,
        child: result.read(Key::ChildExecutionId, "an id", |id| read_child_id(Some(id)))?,
        started: result.get(Key::Started).cloned(),
        set: result.map(Key::Set)?,
    })))
}

fn read_timer_name(fields: &Fields<'_>) -> Result<CommandTimer, DecodeError> {
    fields
        .result
        .need(Key::Timer, "the name of a timer", |timer| {
            CommandTimer::parse(timer.as_str()?)
        })
}

pub(super) fn write_timer_fired(record: NewEvent, fired: &CommandTimerFired) -> NewEvent {
    let mut parts = about(&fired.at);
    parts.result = parts
        .result
        .put(Key::Timer, fired.timer.as_str())
        .put(Key::FireAt, fired.fire_at);
    parts.write(of_command(record, &fired.at))
}

pub(super) fn read_timer_fired(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let fire_at = fields.result.time(Key::FireAt)?;
    Ok(EventKind::CommandTimerFired(Box::new(CommandTimerFired {
        at: read_at(fields)?,
        timer: read_timer_name(fields)?,
        fire_at: fire_at.ok_or_else(|| fields.result.wrong(Key::FireAt, "a time"))?,
    })))
}

pub(super) fn write_signal(
    record: NewEvent,
    header: &ExecutionHeader,
    signal: &SignalReceived,
) -> NewEvent {
    let taken = signal.taken.as_ref();
    let mut parts = taken.map_or_else(Parts::new, |taken| about(&taken.by));
    let lookback = taken.and_then(|taken| taken.lookback);
    let payload = (!signal.payload.is_null()).then(|| signal.payload.clone());
    parts.result = parts
        .result
        .put(Key::Name, &signal.name)
        .maybe(Key::Correlation, signal.key.as_ref())
        .maybe(Key::Payload, payload)
        .maybe(Key::Lookback, lookback.map(|_| true))
        .maybe(Key::ReceivedAt, lookback);
    let kept = taken.and_then(|taken| taken.kept);
    parts.meta = parts
        .meta
        .maybe(Key::Actor, signal.actor.as_ref())
        .maybe(Key::SignalId, signal.broadcast.map(|id| id.to_string()))
        .maybe(Key::Slot, taken.map(|taken| taken.slot))
        .maybe(Key::KeptSeq, kept.map(Seq::get));
    parts.write(match taken {
        Some(taken) => of_command(record, &taken.by),
        None => at_run(record, &header.path),
    })
}

pub(super) fn read_signal(fields: &Fields<'_>) -> Result<EventKind, DecodeError> {
    let (result, meta) = (&fields.result, &fields.meta);
    let taken = match meta.number(Key::Slot)? {
        None => None,
        Some(slot) => Some(Taken {
            by: read_at(fields)?,
            slot,
            lookback: result.time(Key::ReceivedAt)?,
            kept: meta.read(Key::KeptSeq, "a place in the log", |seq| {
                Seq::new(seq.as_i64()?).ok()
            })?,
        }),
    };
    Ok(EventKind::SignalReceived(Box::new(SignalReceived {
        name: result
            .text(Key::Name)?
            .ok_or_else(|| result.wrong(Key::Name, "a text"))?,
        key: result.text(Key::Correlation)?,
        payload: result.json(Key::Payload).unwrap_or_default(),
        actor: meta.text(Key::Actor)?,
        broadcast: meta.read(Key::SignalId, "an id", |id| SignalId::from_json(id).ok())?,
        taken,
    })))
}
