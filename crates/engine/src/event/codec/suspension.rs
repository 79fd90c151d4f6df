//! Events of suspended tasks, of their timers, and of signals.

use noetl_playbook::model::ToolKind;
use noetl_types::{Json, Seq};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::fields::{
    EventFields, FieldError, Key, MapWriter, RecordReader, RecordWriter, event_fields,
};
use crate::event::{
    ChildCall, ChildTarget, CommandTimerFired, InvalidTaskConfig, SignalDelivery, SignalReceived,
    SuspensionKind, TimerStarted,
};

/// Executor of commands that the server performs.
const SERVER_EXECUTOR: &str = "server";

/// Converts a typed part of an event to JSON. Every such part consists of maps, strings and
/// numbers.
pub(super) fn part_to_json(part: &impl Serialize) -> Json {
    let text = serde_json::to_vec(part).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

pub(super) fn part_from_json<T: DeserializeOwned>(part: &Json) -> Option<T> {
    let text = serde_json::to_vec(part).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Adds the suspension of a command to its record.
pub(super) fn write_suspension(record: &mut RecordWriter<'_>, suspension: &SuspensionKind) {
    let config = match suspension {
        SuspensionKind::Sleep(sleep) => part_to_json(sleep),
        SuspensionKind::Wait(wait) => part_to_json(wait),
        SuspensionKind::Approval(approval) => part_to_json(approval),
        SuspensionKind::Callback(callback) => part_to_json(callback),
        SuspensionKind::Broken(broken) => part_to_json(&**broken),
        SuspensionKind::Child(call) => {
            record.context.put_data(Key::Args, Key::ArgsRef, &call.input);
            record.meta.put(Key::ChildExecutionId, &call.child);
            child_config(call)
        }
    };
    record.context.put_json(Key::ToolConfig, config);
    record.meta.put_json(Key::Executor, SERVER_EXECUTOR);
}

fn child_config(call: &ChildCall) -> Json {
    let mut config = MapWriter::default();
    match &call.of {
        ChildTarget::Path(path) => config.put(Key::Path, path),
        ChildTarget::CatalogId(id) => config.put(Key::CatalogId, id),
    }
    config.put(Key::Version, &call.version);
    config.put(Key::ReturnResult, &call.waits);
    config.put(Key::ResultStep, &call.result_step);
    config.put(Key::OnTimeout, &call.on_timeout);
    config.into_json()
}

/// Reads the suspension of a command. Returns `None` if a worker runs it.
pub(super) fn read_suspension(
    record: &RecordReader<'_>,
    tool: ToolKind,
) -> Result<Option<SuspensionKind>, FieldError> {
    if record.meta.get(Key::Executor).is_none() {
        return Ok(None);
    }
    let config_error = || record.context.error(Key::ToolConfig, "a suspension configuration");
    let config = record.context.get(Key::ToolConfig).ok_or_else(config_error)?;
    let suspension = if config.get(Key::Error.as_str()).is_some() {
        part_from_json::<InvalidTaskConfig>(config)
            .map(|broken| SuspensionKind::Broken(Box::new(broken)))
    } else {
        match tool {
            ToolKind::Sleep => part_from_json(config).map(SuspensionKind::Sleep),
            ToolKind::Wait => part_from_json(config).map(SuspensionKind::Wait),
            ToolKind::Approval => part_from_json(config).map(SuspensionKind::Approval),
            ToolKind::Container => part_from_json(config).map(SuspensionKind::Callback),
            ToolKind::Playbook => Some(SuspensionKind::Child(Box::new(read_child(record)?))),
            _ => None,
        }
    };
    suspension.map(Some).ok_or_else(config_error)
}

fn read_child(record: &RecordReader<'_>) -> Result<ChildCall, FieldError> {
    let config = record.context.read_part(Key::ToolConfig, "a suspension configuration")?;
    let of = match config.read(Key::Path)? {
        Some(path) => ChildTarget::Path(path),
        None => match config.read(Key::CatalogId)? {
            Some(id) => ChildTarget::CatalogId(id),
            None => return Err(config.error(Key::Path, "a path")),
        },
    };
    Ok(ChildCall {
        child: record.meta.read(Key::ChildExecutionId)?,
        of,
        version: config.read(Key::Version)?,
        waits: config.read(Key::ReturnResult)?,
        result_step: config.read(Key::ResultStep)?,
        on_timeout: config.read(Key::OnTimeout)?,
        input: record.context.read_data(Key::Args, Key::ArgsRef)?,
    })
}

impl EventFields for TimerStarted {
    fn write(&self, record: &mut RecordWriter<'_>) {
        self.at.write(record);
        record.result.put(Key::Timer, &self.timer);
        record.result.put(Key::FireAt, &self.fire_at);
        record.result.put(Key::ChildExecutionId, &self.child);
        record.result.put(Key::Started, &self.started);
        record.result.put_nonempty(Key::Set, &self.set);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let result = &record.result;
        Ok(Self {
            at: EventFields::read(record)?,
            timer: result.read(Key::Timer)?,
            fire_at: result.read(Key::FireAt)?,
            child: result.read(Key::ChildExecutionId)?,
            // A worker can report `null`.
            started: result.get(Key::Started).cloned(),
            set: result.read(Key::Set)?,
        })
    }
}

event_fields! {
    CommandTimerFired { [at] timer: result.Timer, fire_at: result.FireAt, }
}

impl EventFields for SignalReceived {
    fn write(&self, record: &mut RecordWriter<'_>) {
        self.delivery.write(record);
        record.result.put(Key::Name, &self.name);
        record.result.put(Key::Correlation, &self.key);
        let payload = (!self.payload.is_null()).then(|| self.payload.clone());
        record.result.put(Key::Payload, &payload);
        record.meta.put(Key::Actor, &self.actor);
        record.meta.put(Key::SignalId, &self.broadcast);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let delivery = EventFields::read(record)?;
        Ok(Self {
            name: record.result.read(Key::Name)?,
            key: record.result.read(Key::Correlation)?,
            payload: record.result.read(Key::Payload)?,
            actor: record.meta.read(Key::Actor)?,
            broadcast: record.meta.read(Key::SignalId)?,
            delivery,
        })
    }
}

impl EventFields for Option<SignalDelivery> {
    fn write(&self, record: &mut RecordWriter<'_>) {
        let Some(delivery) = self else { return record.set_execution_columns() };
        delivery.consumer.write(record);
        record.result.put(Key::Lookback, &delivery.received_at.map(|_| true));
        record.result.put(Key::ReceivedAt, &delivery.received_at);
        record.meta.put(Key::Slot, &delivery.awaited_index);
        record.meta.put(Key::KeptSeq, &delivery.buffered_seq);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let Some(awaited_index) = record.meta.read(Key::Slot)? else { return Ok(None) };
        Ok(Some(SignalDelivery {
            consumer: EventFields::read(record)?,
            awaited_index,
            received_at: record.result.read(Key::ReceivedAt)?,
            buffered_seq: record.meta.read::<Option<Seq>>(Key::KeptSeq)?,
        }))
    }
}
