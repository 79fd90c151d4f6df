//! Reading an event from its JSON form.
//!
//! What the form holds beyond the fields of this version is kept in `extra`, so that nothing a
//! newer or a foreign producer says is lost.

use serde::{Deserialize, Deserializer};

use super::elapsed::Elapsed;
use super::event::{CopiedFields, EventRecord, NewEvent, SchemaVersion};
use super::order::{Seq, SeqError};
use crate::digest::{Digest, DigestTextError};
use crate::event::{EventName, EventNameError};
use crate::id::Snowflake;
use crate::id::{Id, IdError};
use crate::json::{Json, JsonMap, JsonRefused};
use crate::name::NameError;
use crate::status::StatusName;
use crate::text::{HoldsNul, Text};
use crate::time::{Timestamp, TimestampTextError};

/// Why a JSON value is not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not an object.
    #[error("an event is an object, not a {0}")]
    NotAnObject(&'static str),
    /// A field is wrong.
    #[error("field `{field}`: {problem}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// What is wrong with it.
        #[source]
        problem: FieldProblem,
    },
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// It must be there.
    #[error("missing")]
    Missing,
    /// A value of another type.
    #[error("expected {expected}, found a {found}")]
    Type {
        /// The type wanted.
        expected: &'static str,
        /// The type found.
        found: &'static str,
    },
    /// Not an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Not a time.
    #[error(transparent)]
    Time(#[from] TimestampTextError),
    /// Not the name of an event.
    #[error(transparent)]
    EventName(#[from] EventNameError),
    /// Not a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Not a digest.
    #[error(transparent)]
    Digest(#[from] DigestTextError),
    /// Not a place in an execution.
    #[error(transparent)]
    Seq(#[from] SeqError),
    /// Not a text of the log.
    #[error(transparent)]
    Text(#[from] HoldsNul),
    /// Not a number of the log.
    #[error(transparent)]
    Number(#[from] JsonRefused),
    /// Not a version of a schema.
    #[error("{0} is not a schema version")]
    SchemaVersion(i64),
}

/// The fields of an object, taken out one by one; what is never taken is left over.
pub(super) struct Fields {
    rest: JsonMap,
}

/// How a field is taken that does not fit its column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// The event is refused.
    Refused,
    /// The field is left over, and so kept.
    Kept,
}

type Taken<T> = Result<Option<T>, RecordError>;

impl Fields {
    pub(super) fn of(value: &Json) -> Result<Self, RecordError> {
        let map = value
            .as_map()
            .ok_or(RecordError::NotAnObject(value.type_name()))?;
        // A null says no more than an absent field.
        let rest = map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Ok(Self { rest })
    }

    /// Takes a field, if it is there, by reading its value.
    pub(super) fn take<T>(
        &mut self,
        field: &'static str,
        misfit: Misfit,
        read: impl FnOnce(&Json) -> Result<T, FieldProblem>,
    ) -> Taken<T> {
        match (self.rest.get(field).map(read), misfit) {
            (None, _) | (Some(Err(_)), Misfit::Kept) => Ok(None),
            (Some(Ok(value)), _) => {
                self.rest.remove(field);
                Ok(Some(value))
            }
            (Some(Err(problem)), Misfit::Refused) => Err(RecordError::Field { field, problem }),
        }
    }

    pub(super) fn json(&mut self, field: &'static str) -> Option<Json> {
        self.rest.remove(field)
    }

    pub(super) fn text(&mut self, field: &'static str, misfit: Misfit) -> Taken<Text> {
        self.take(field, misfit, |value| Ok(Text::new(text_of(value)?)?))
    }

    pub(super) fn id<T: Id>(&mut self, field: &'static str, misfit: Misfit) -> Taken<T> {
        self.take(field, misfit, |value| {
            Ok(T::from_snowflake(Snowflake::from_json(value)?))
        })
    }

    fn integer(&mut self, field: &'static str, misfit: Misfit) -> Taken<i64> {
        self.take(field, misfit, integer_of)
    }

    /// Drops a field without looking at it.
    pub(super) fn ignore(&mut self, field: &'static str) {
        self.rest.remove(field);
    }

    /// The extra fields, with all that was left over among them.
    fn extra(mut self) -> Option<Json> {
        let mut extra = match self.rest.remove("extra") {
            Some(Json::Map(extra)) => extra.as_ref().clone(),
            Some(other) => JsonMap::from([("extra".into(), other)]),
            None => JsonMap::new(),
        };
        extra.append(&mut self.rest);
        (!extra.is_empty()).then(|| extra.into())
    }
}

pub(super) fn text_of(value: &Json) -> Result<&str, FieldProblem> {
    value.as_str().ok_or(FieldProblem::Type {
        expected: "a text",
        found: value.type_name(),
    })
}

fn integer_of(value: &Json) -> Result<i64, FieldProblem> {
    value.as_i64().ok_or(FieldProblem::Type {
        expected: "a 64-bit integer",
        found: value.type_name(),
    })
}

fn elapsed_of(value: &Json) -> Result<Elapsed, FieldProblem> {
    let ms = value.as_f64().ok_or(FieldProblem::Type {
        expected: "a number of milliseconds",
        found: value.type_name(),
    })?;
    Ok(Elapsed::from_ms(ms)?)
}

fn schema_version_of(value: &Json) -> Result<SchemaVersion, FieldProblem> {
    let number = integer_of(value)?;
    SchemaVersion::new(number).ok_or(FieldProblem::SchemaVersion(number))
}

/// An error that is no text is kept as its canonical JSON: better a crude message than none.
fn message_of(value: &Json) -> Result<Text, FieldProblem> {
    match value {
        Json::Str(text) => Ok(Text::new(text.clone())?),
        other => Ok(Text::from(other.to_string())),
    }
}

impl NewEvent {
    /// Fills in what only describes the event. The fields of an envelope must fit; of the others,
    /// `misfit` decides.
    pub(super) fn describe(
        mut self,
        mut fields: Fields,
        misfit: Misfit,
    ) -> Result<Self, RecordError> {
        use Misfit::Refused;

        let status = |value: &Json| Ok(StatusName::read(text_of(value)?)?);
        self.status = fields.take("status", Refused, status)?.unwrap_or_default();
        self.node_id = fields.text("node_id", Refused)?;
        self.node_name = fields.text("node_name", Refused)?;
        self.node_type = fields.text("node_type", Refused)?;
        self.catalog_id = fields.id("catalog_id", Refused)?;
        self.parent_event_id = fields.id("parent_event_id", Refused)?;
        self.duration = fields.take("duration", Refused, elapsed_of)?;
        self.error = fields.take("error", Refused, message_of)?;
        self.stack_trace = fields.take("stack_trace", Refused, message_of)?;
        self.context = fields.json("context");
        self.result = fields.json("result");
        self.meta = fields.json("meta");

        self.parent_execution_id = fields.id("parent_execution_id", misfit)?;
        self.prev_event_id = fields.id("prev_event_id", misfit)?;
        self.stage_id = fields.text("stage_id", misfit)?;
        self.frame_id = fields.text("frame_id", misfit)?;
        self.aggregate_type = fields.text("aggregate_type", misfit)?;
        self.aggregate_id = fields.text("aggregate_id", misfit)?;
        self.stream_id = fields.text("stream_id", misfit)?;
        self.stream_version = fields.integer("stream_version", misfit)?;
        self.schema_name = fields.text("schema_name", misfit)?;
        self.schema_version = fields
            .take("schema_version", misfit, schema_version_of)?
            .unwrap_or(SchemaVersion::FIRST);
        self.payload_ref = fields.json("payload_ref");
        self.worker_id = fields.text("worker_id", misfit)?;
        self.producer = fields.text("producer", misfit)?;
        self.causation_id = fields.text("causation_id", misfit)?;
        self.correlation_id = fields.text("correlation_id", misfit)?;
        self.idempotency_key = fields.text("idempotency_key", misfit)?;
        self.copied = CopiedFields {
            current_index: fields.integer("current_index", misfit)?,
            current_item: fields.text("current_item", misfit)?,
            context_key: fields.text("context_key", misfit)?,
            context_value: fields.text("context_value", misfit)?,
            distributed_state: fields.text("distributed_state", misfit)?,
            trace_component: fields.json("trace_component"),
            extra: fields.extra(),
        }
        .into_option();
        Ok(self)
    }
}

fn required<T>(field: &'static str, taken: Taken<T>) -> Result<T, RecordError> {
    taken?.ok_or(RecordError::Field {
        field,
        problem: FieldProblem::Missing,
    })
}

impl EventRecord {
    /// Reads the form that streams and exports carry.
    pub fn from_json(value: &Json) -> Result<Self, RecordError> {
        use Misfit::Refused;

        let mut fields = Fields::of(value)?;
        let time = |value: &Json| Ok(Timestamp::parse(text_of(value)?)?);
        let name = |value: &Json| Ok(EventName::read_copied(Some(text_of(value)?))?);
        let seq = |value: &Json| Ok(Seq::new(integer_of(value)?)?);
        let digest = |value: &Json| Ok(Digest::parse(text_of(value)?)?);
        let event = NewEvent::new(
            required("execution_id", fields.id("execution_id", Refused))?,
            required("event_id", fields.id("event_id", Refused))?,
            required("event_type", fields.take("event_type", Refused, name))?,
            required("created_at", fields.take("created_at", Refused, time))?,
        );
        let event_time = fields.take("event_time", Refused, time)?;
        let tenant = fields.take("tenant_id", Refused, |value| Ok(text_of(value)?.parse()?))?;
        let organization = fields.take("organization_id", Refused, |value| {
            Ok(text_of(value)?.parse()?)
        })?;
        let command_id = fields.id("command_id", Refused)?;
        let seq = required("seq", fields.take("seq", Refused, seq))?;
        let ingest_time = required("ingest_time", fields.take("ingest_time", Refused, time))?;
        let envelope_checksum = fields.take("envelope_checksum", Refused, digest)?;
        let event = NewEvent {
            event_time: event_time.unwrap_or(event.created_at),
            tenant_id: tenant.unwrap_or_default(),
            organization_id: organization.unwrap_or_default(),
            command_id,
            ..event
        };
        Ok(Self {
            event: event.describe(fields, Refused)?,
            seq,
            ingest_time,
            envelope_checksum,
        })
    }
}

impl<'de> Deserialize<'de> for EventRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_json(&Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
