//! Events of steps and loops.

use noetl_types::{EventStatus, Json};

use super::fields::{
    EventFields, FieldError, Key, MapFields, RecordReader, RecordWriter, event_fields,
};
use crate::cache::CachedResult;
use crate::event::{
    CachedResultUsed, CtxUpdated, CursorEntered, IterationError, LoopDone, LoopEntered, LoopStats,
    SkipReason, StepEnd, StepEntered, StepExited, StepSkipped,
};
use crate::payload::EventData;

event_fields! {
    StepEntered {
        [step] [looping] [cursor]
        run: meta.Run,
        arrivals: result.Arrivals,
        priority: meta.Priority,
        slot: meta.Concurrency,
        cache: meta.Cache,
    }
}

impl EventFields for Option<LoopEntered> {
    fn write(&self, record: &mut RecordWriter<'_>) {
        let Some(entered) = self else { return };
        record.put_data(Key::In, entered.items.as_ref());
        record.result.put(Key::Iterations, &entered.iterations);
        record.result.put(Key::Iterator, &entered.iterator);
        record.result.put(Key::MaxInFlight, &entered.max_in_flight);
        record.meta.put(Key::LoopId, &record.event.event_id);
        record.meta.put(Key::CollectionSize, &entered.iterations);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let result = &record.result;
        let Some(iterations) = result.read(Key::Iterations)? else { return Ok(None) };
        Ok(Some(LoopEntered {
            iterations,
            iterator: result.read(Key::Iterator)?,
            items: record.read_data(Key::In)?,
            max_in_flight: result.read(Key::MaxInFlight)?,
        }))
    }
}

impl EventFields for Option<Box<CursorEntered>> {
    fn write(&self, record: &mut RecordWriter<'_>) {
        let Some(entered) = self else { return };
        record.result.put(Key::Iterator, &entered.iterator);
        record.result.put(Key::Cursor, &entered.terms);
        record.meta.put(Key::LoopId, &record.event.event_id);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let Some(terms) = record.result.read(Key::Cursor)? else { return Ok(None) };
        Ok(Some(Box::new(CursorEntered { iterator: record.result.read(Key::Iterator)?, terms })))
    }
}

impl EventFields for StepExited {
    fn write(&self, record: &mut RecordWriter<'_>) {
        self.step.write(record);
        record.meta.put(Key::Run, &self.run);
        record.result.put(Key::Next, &self.next);
        record.put_data(Key::Data, self.data.as_ref());
        let status = match &self.end {
            StepEnd::Completed => EventStatus::Completed,
            StepEnd::Cancelled => EventStatus::Cancelled,
            StepEnd::Failed { error, caught } => {
                record.result.put(Key::Error, error);
                record.result.put(Key::Caught, caught);
                record.columns.error = Some(error.message.clone());
                EventStatus::Failed
            }
        };
        record.columns.status = status.into();
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let end = match record.status() {
            Some(EventStatus::Completed) => StepEnd::Completed,
            Some(EventStatus::Cancelled) => StepEnd::Cancelled,
            Some(EventStatus::Failed) => StepEnd::Failed {
                error: record.result.read(Key::Error)?,
                caught: record.result.read(Key::Caught)?,
            },
            _ => return Err(FieldError::new("status", "`COMPLETED`, `FAILED` or `CANCELLED`")),
        };
        Ok(Self {
            step: EventFields::read(record)?,
            run: record.meta.read(Key::Run)?,
            end,
            next: record.result.read(Key::Next)?,
            data: record.read_data(Key::Data)?,
        })
    }
}

event_fields! {
    StepSkipped { [reason] [step] }
}

impl EventFields for SkipReason {
    fn write(&self, record: &mut RecordWriter<'_>) {
        let (name, run, next) = match self {
            Self::NotRouted => return record.meta.put_json(Key::Reason, "not_routed"),
            Self::Guard { run, value, next } => {
                record.meta.put(Key::Value, value);
                ("guard", run, next)
            }
            Self::Admission { run, next } => ("admission", run, next),
        };
        record.meta.put_json(Key::Reason, name);
        record.meta.put(Key::Run, run);
        record.result.put(Key::Next, next);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let (result, meta) = (&record.result, &record.meta);
        match meta.get(Key::Reason).and_then(Json::as_str) {
            Some("not_routed") => Ok(Self::NotRouted),
            Some("guard") => Ok(Self::Guard {
                run: meta.read(Key::Run)?,
                value: meta.read(Key::Value)?,
                next: result.read(Key::Next)?,
            }),
            Some("admission") => {
                Ok(Self::Admission { run: meta.read(Key::Run)?, next: result.read(Key::Next)? })
            }
            Some(_) | None => Err(meta.error(Key::Reason, "`not_routed`, `guard` or `admission`")),
        }
    }
}

impl EventFields for LoopDone {
    fn write(&self, record: &mut RecordWriter<'_>) {
        self.step.write(record);
        record.result.put(Key::Stats, &self.stats);
        record.result.put(Key::Errors, &self.errors);
        record.meta.put(Key::Run, &self.run);
        record.meta.put(Key::LoopId, &self.loop_id);
        let size = self.stats.frames.is_none().then_some(self.stats.total);
        record.meta.put(Key::CollectionSize, &size);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let stats = record.result.read_part(Key::Stats, "a map")?;
        let errors = record.result.read(Key::Errors)?;
        Ok(Self {
            step: EventFields::read(record)?,
            run: record.meta.read(Key::Run)?,
            loop_id: record.meta.read(Key::LoopId)?,
            stats: LoopStats::read_map(&stats)?,
            errors,
        })
    }
}

/// Converts loop counts to the form that templates and the log contain.
pub(crate) fn stats_json(stats: LoopStats) -> Json {
    stats.to_map()
}

/// Converts failed iterations to the form that templates and the log contain.
pub(crate) fn errors_json(errors: &[IterationError]) -> Json {
    Json::list(errors.iter().map(MapFields::to_map))
}

event_fields! {
    CtxUpdated {
        [step]
        run: meta.Run,
        index: meta.Index,
        source: meta.Source,
        values: result.Values,
    }
}

impl EventFields for CachedResultUsed {
    fn write(&self, record: &mut RecordWriter<'_>) {
        self.step.write(record);
        let data = &self.result.data;
        record.put_data(Key::Result, (*data != EventData::default()).then_some(data));
        record.result.put(Key::Results, &self.result.labels);
        record.meta.put(Key::Run, &self.run);
        record.meta.put(Key::Final, &true);
        record.meta.put(Key::Cached, &true);
        record.meta.put(Key::Origin, &self.origin);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let origin = record.meta.read(Key::Origin)?;
        let (step, run) = (EventFields::read(record)?, record.meta.read(Key::Run)?);
        let data = record.read_data(Key::Result)?.unwrap_or_default();
        let result = CachedResult { data, labels: record.result.read(Key::Results)? };
        Ok(Self { step, run, origin, result })
    }
}
