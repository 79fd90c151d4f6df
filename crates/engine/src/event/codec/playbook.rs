//! Events of the execution as a whole.

use noetl_types::{Json, Timestamp};

use super::fields::{EventFields, FieldError, Key, RecordReader, RecordWriter, event_fields};
use crate::event::{ControlInfo, ExecutionTimer, PlaybookFailed, PlaybookStarted};
use crate::payload::EventData;

impl EventFields for PlaybookStarted {
    fn write(&self, record: &mut RecordWriter<'_>) {
        record.set_execution_columns();
        record.columns.catalog_id = Some(self.catalog_id);
        record.columns.parent_execution_id = self.parent_execution_id;
        record.context.put(Key::CatalogId, &self.catalog_id);
        record.context.put(Key::ExecutionId, &self.execution_id);
        record.context.put(Key::Path, &self.path);
        match &self.workload {
            EventData::Inline(workload) => record.context.put(Key::Workload, workload),
            external @ EventData::External(_) => record.put_data(Key::Workload, Some(external)),
        }
        record.meta.put(Key::EmittedAt, &record.columns.event_time);
        record.meta.put(Key::Version, &self.version);
        record.meta.put(Key::DefinitionSha256, &self.definition_sha256);
        record.meta.put(Key::Emitter, &self.emitter);
        record.meta.put(Key::Actor, &self.actor);
        record.meta.put(Key::ExecutionPool, &self.execution_pool);
        record.meta.put(Key::Depth, &(self.depth > 0).then_some(self.depth));
        record.meta.put(Key::Priority, &self.priority);
        record.meta.put(Key::Concurrency, &self.concurrency);
        record.meta.put(Key::StartAt, &self.start_at);
        record.meta.put(Key::ServerUrl, &self.server_url);
        record.meta.put(Key::Trace, &self.trace);
        record.meta.put(Key::ForkedFrom, &self.forked_from);
        record.meta.put(Key::RerunOf, &self.rerun_of);
        record.meta.put(Key::Dedup, &self.dedup);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let (context, meta) = (&record.context, &record.meta);
        let workload = match record.read_data(Key::Workload)? {
            Some(external @ EventData::External(_)) => external,
            Some(EventData::Inline(_)) | None => EventData::Inline(context.read(Key::Workload)?),
        };
        Ok(Self {
            execution_id: context.read(Key::ExecutionId)?,
            catalog_id: context.read(Key::CatalogId)?,
            path: context.read(Key::Path)?,
            version: meta.read(Key::Version)?,
            definition_sha256: meta.read(Key::DefinitionSha256)?,
            workload,
            parent_execution_id: record.columns.parent_execution_id,
            depth: meta.read::<Option<u32>>(Key::Depth)?.unwrap_or_default(),
            execution_pool: meta.read(Key::ExecutionPool)?,
            priority: meta.read(Key::Priority)?,
            concurrency: meta.read(Key::Concurrency)?,
            start_at: meta.read(Key::StartAt)?,
            server_url: meta.read(Key::ServerUrl)?,
            emitter: meta.read(Key::Emitter)?,
            actor: meta.read(Key::Actor)?,
            trace: meta.read(Key::Trace)?,
            forked_from: meta.read(Key::ForkedFrom)?,
            rerun_of: meta.read(Key::RerunOf)?,
            dedup: meta.read(Key::Dedup)?,
        })
    }
}

event_fields! {
    ControlInfo { actor: meta.Actor, reason: meta.Reason, }
    |_, record| record.set_execution_columns()
}

event_fields! {
    PlaybookFailed { error: meta.Error, failed_steps: meta.FailedSteps, }
    |failed, record| {
        record.set_execution_columns();
        record.put_status();
        record.columns.error = Some(failed.error.message.clone());
    }
}

pub(super) fn write_timer(
    record: &mut RecordWriter<'_>,
    timer: &ExecutionTimer,
    fire_at: Timestamp,
) {
    record.result.put(Key::FireAt, &fire_at);
    let name = match timer {
        ExecutionTimer::Start => "start",
        ExecutionTimer::Execution => "execution",
        ExecutionTimer::Step { step, run } => {
            step.write(record);
            record.meta.put(Key::Run, run);
            return record.result.put_json(Key::Timer, "step");
        }
    };
    record.set_execution_columns();
    record.result.put_json(Key::Timer, name);
}

/// Reads a timer of the execution or of a step. Returns `None` if it belongs to a command.
pub(super) fn read_timer(record: &RecordReader<'_>) -> Result<Option<ExecutionTimer>, FieldError> {
    Ok(Some(match record.result.get(Key::Timer).and_then(Json::as_str) {
        Some("start") => ExecutionTimer::Start,
        Some("execution") => ExecutionTimer::Execution,
        Some("step") => ExecutionTimer::Step {
            step: EventFields::read(record)?,
            run: record.meta.read(Key::Run)?,
        },
        Some(_) | None => return Ok(None),
    }))
}
