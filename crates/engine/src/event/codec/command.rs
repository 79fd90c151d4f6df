//! Events of commands and calls.

use noetl_playbook::command_context::CommandContext;
use noetl_types::record::ElapsedTime;
use noetl_types::report::FrameReport;
use noetl_types::{CommandId, TaskError, Text};

use super::fields::{
    EventFields, FieldError, Key, MapWriter, PartReader, RecordReader, RecordWriter, event_fields,
};
use super::suspension::{read_suspension, write_suspension};
use crate::event::{
    CallDone, CallError, CallOutcome, CommandClaimed, CommandClosed, CommandExpired, CommandIssued,
    CommandRef, IssuedContext, LoopRef, ResultIgnored, ScheduledRetry,
};
use crate::payload::{EventData, Reference};

impl EventFields for CommandRef {
    fn write(&self, record: &mut RecordWriter<'_>) {
        self.step.write(record);
        self.command.write(record);
        write_position(&mut record.meta, self.run, self.index, self.looping);
        record.meta.put(Key::Segment, &self.segment);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let looping = read_loop(&record.meta)?;
        Ok(Self {
            command: EventFields::read(record)?,
            step: EventFields::read(record)?,
            run: record.meta.read(Key::Run)?,
            index: record.meta.read(index_key(looping))?,
            segment: record.meta.read(Key::Segment)?,
            looping,
        })
    }
}

fn write_position(meta: &mut MapWriter, run: u32, index: Option<u32>, looping: Option<LoopRef>) {
    meta.put(Key::Run, &run);
    meta.put(index_key(looping), &index);
    meta.put(Key::LoopId, &looping.map(|looping| looping.loop_id));
    meta.put(Key::CollectionSize, &looping.and_then(|looping| looping.size));
}

/// Returns the key of the index. A loop of unknown size goes over a cursor, in frames.
fn index_key(looping: Option<LoopRef>) -> Key {
    match looping {
        Some(LoopRef { size: None, .. }) => Key::Frame,
        Some(LoopRef { size: Some(_), .. }) | None => Key::Index,
    }
}

fn read_loop(meta: &PartReader<'_>) -> Result<Option<LoopRef>, FieldError> {
    let Some(loop_id) = meta.read(Key::LoopId)? else { return Ok(None) };
    Ok(Some(LoopRef { loop_id, size: meta.read(Key::CollectionSize)? }))
}

impl EventFields for CommandIssued {
    fn write(&self, record: &mut RecordWriter<'_>) {
        let event = record.event;
        self.step.write(record);
        record.columns.command_id = Some(CommandId::from(event.event_id));
        record.columns.node_type = Some(self.tool.as_str().into());
        match &self.context {
            IssuedContext::Inline(context) => record.context.extend(context.to_json()),
            IssuedContext::External(reference) => record.context.put(Key::ContextRef, reference),
        }
        let idempotency_key = format!("{}:{}", record.columns.execution_id, event.seq);
        write_position(&mut record.meta, self.run, self.index, self.looping);
        record.meta.put(Key::CommandId, &event.event_id);
        record.meta.put_json(Key::Step, &self.step);
        record.meta.put(Key::ToolKind, &self.tool);
        record.meta.put_json(Key::Attempt, 1);
        record.meta.put(Key::MaxAttempts, &self.max_attempts);
        record.meta.put_json(Key::Idempotency, idempotency_key);
        record.meta.put(Key::DeadlineMs, &self.deadline);
        record.meta.put(Key::Segment, &self.segment);
        record.meta.put(Key::NotBefore, &self.not_before);
        record.meta.put(Key::Priority, &self.priority);
        record.meta.put(Key::Trace, &self.trace);
        record.meta.put(Key::Cursor, &self.frame);
        if let Some(suspension) = &self.suspension {
            write_suspension(record, suspension);
        }
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let meta = &record.meta;
        let looping = read_loop(meta)?;
        let tool = meta.read(Key::ToolKind)?;
        let suspension = read_suspension(record, tool)?;
        let context = match record.context.read::<Option<Reference>>(Key::ContextRef)? {
            Some(reference) => IssuedContext::External(reference),
            None if suspension.is_some() => IssuedContext::Inline(CommandContext::default()),
            None => IssuedContext::Inline(
                CommandContext::from_json(record.context.as_map())
                    .ok_or_else(|| FieldError::new("context", "a command context"))?,
            ),
        };
        Ok(Self {
            step: EventFields::read(record)?,
            run: meta.read(Key::Run)?,
            index: meta.read(index_key(looping))?,
            segment: meta.read(Key::Segment)?,
            looping,
            frame: meta.read(Key::Cursor)?,
            tool,
            max_attempts: meta.read(Key::MaxAttempts)?,
            deadline: meta.read(Key::DeadlineMs)?,
            priority: meta.read(Key::Priority)?,
            not_before: meta.read(Key::NotBefore)?,
            trace: meta.read(Key::Trace)?,
            suspension,
            context,
        })
    }
}

event_fields! {
    CommandClaimed {
        [at]
        attempt: meta.Attempt,
        worker: result.WorkerId,
        lease_until: meta.LeaseUntil,
    }
    |claimed, record| record.columns.worker_id = Some(Text::from(&claimed.worker))
}

event_fields! {
    CallDone {
        [at] [outcome]
        call_index: result.CallIndex,
        labels: result.Results,
        continuation: result.Onward,
    }
    |_, record| record.meta.put(Key::Final, &true)
}

event_fields! {
    CallError {
        [retried] [at] [outcome]
        call_index: result.CallIndex,
        error: result.Error,
    }
    |failed, record| record.columns.error = Some(failed.error.message.clone())
}

/// The retry of a failed call, which is final without one.
impl EventFields for Option<ScheduledRetry> {
    fn write(&self, record: &mut RecordWriter<'_>) {
        record.meta.put(Key::Final, &self.is_none());
        record.meta.put(Key::RetryInMs, &self.map(|retried| retried.retry_in));
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        if record.meta.read(Key::Final)? {
            return Ok(None);
        }
        Ok(Some(ScheduledRetry { retry_in: record.meta.read(Key::RetryInMs)? }))
    }
}

impl EventFields for CallOutcome {
    fn write(&self, record: &mut RecordWriter<'_>) {
        record.columns.duration = self.duration().map(ElapsedTime::from);
        record.put_data(Key::Result, (self.data != EventData::default()).then_some(&self.data));
        record.result.put_nonempty(Key::Set, &self.set);
        record.meta.put(Key::Attempt, &self.attempt);
        record.meta.put(Key::Tasks, &self.tasks);
        self.frame.write(record);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let tasks = record.meta.read(Key::Tasks)?;
        Ok(Self {
            data: record.read_data(Key::Result)?.unwrap_or_default(),
            set: record.result.read(Key::Set)?,
            attempt: record.meta.read(Key::Attempt)?,
            tasks,
            frame: EventFields::read(record)?,
        })
    }
}

/// The row count of a frame is a separate `meta` field, where all readers expect it.
impl EventFields for Option<FrameReport> {
    fn write(&self, record: &mut RecordWriter<'_>) {
        let Some(frame) = self else { return };
        let mut counts = MapWriter::default();
        counts.put(Key::Done, &frame.done);
        counts.put(Key::Failed, &frame.failed);
        counts.put(Key::Bytes, &frame.bytes);
        record.meta.put(Key::Rows, &frame.rows);
        record.meta.put_json(Key::Cursor, counts.into_json());
        record.result.put(Key::Errors, &frame.errors);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let Some(rows) = record.meta.read(Key::Rows)? else { return Ok(None) };
        let counts = record.meta.read_part(Key::Cursor, "row counts")?;
        let errors = record.result.read(Key::Errors)?;
        Ok(Some(FrameReport {
            rows,
            done: counts.read(Key::Done)?,
            failed: counts.read(Key::Failed)?,
            bytes: counts.read(Key::Bytes)?,
            errors,
        }))
    }
}

event_fields! {
    CommandClosed<TaskError> { [at] reason: result.Error, }
    |closed, record| record.columns.error = Some(closed.reason.message.clone())
}

event_fields! {
    CommandClosed<Text> { [at] reason: result.Reason, }
}

event_fields! {
    CommandExpired {
        [at]
        attempt: meta.Attempt,
        reason: meta.Reason,
        not_before: meta.NotBefore,
    }
}

event_fields! {
    ResultIgnored {
        [command] [step]
        attempt: meta.Attempt,
        worker: meta.WorkerId,
        sha256: result.Sha256,
        bytes: result.Bytes,
        code: meta.Code,
    }
    |ignored, record| record.columns.worker_id = Some(Text::from(&ignored.worker))
}
