//! Parsing of an event from its JSON form.
//!
//! Fields that this version does not know are preserved in `extra`, so that no data of a newer or a
//! foreign producer is lost.

use serde::{Deserialize, Deserializer};

use super::elapsed::ElapsedTime;
use super::event::{EventRecord, NewEvent, ProjectedFields, SchemaVersion};
use super::order::{Seq, SeqError};
use crate::digest::{Digest, DigestTextError};
use crate::event::{EventName, EventNameError};
use crate::id::Snowflake;
use crate::id::{IdError, TypedId};
use crate::json::{Json, JsonMap, JsonValueError};
use crate::name::NameError;
use crate::status::StatusName;
use crate::text::{ContainsNul, Text};
use crate::time::{Timestamp, TimestampTextError};

/// Error for a JSON value that is not an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The value is not an object.
    #[error("an event is an object, not a {0}")]
    NotAnObject(&'static str),
    /// A field is invalid.
    #[error("field `{field}`: {problem}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Problem with the field.
        #[source]
        problem: FieldError,
    },
}

/// Error of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The field is required.
    #[error("missing")]
    Missing,
    /// The value has the wrong type.
    #[error("expected {expected}, found a {found}")]
    Type {
        /// Expected type.
        expected: &'static str,
        /// Type that was found.
        found: &'static str,
    },
    /// Invalid id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Invalid time.
    #[error(transparent)]
    Time(#[from] TimestampTextError),
    /// Invalid event name.
    #[error(transparent)]
    EventName(#[from] EventNameError),
    /// Invalid name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Invalid digest.
    #[error(transparent)]
    Digest(#[from] DigestTextError),
    /// Invalid sequence number.
    #[error(transparent)]
    Seq(#[from] SeqError),
    /// Text that the log cannot store.
    #[error(transparent)]
    Text(#[from] ContainsNul),
    /// Number that the log cannot store.
    #[error(transparent)]
    Number(#[from] JsonValueError),
    /// Invalid schema version.
    #[error("{0} is not a schema version")]
    SchemaVersion(i64),
}

/// The fields of an object, removed one by one as they are read. The rest is left over.
pub(super) struct JsonFields {
    rest: JsonMap,
}

/// Handling of a field that does not fit its column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MismatchPolicy {
    /// Reject the event.
    Reject,
    /// Leave the field over, so that it is preserved in `extra`.
    KeepAsExtra,
}

type FieldResult<T> = Result<Option<T>, RecordError>;

impl JsonFields {
    pub(super) fn from_json(value: &Json) -> Result<Self, RecordError> {
        let map = value.as_map().ok_or(RecordError::NotAnObject(value.type_name()))?;
        // A null is equivalent to an absent field.
        let rest = map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Ok(Self { rest })
    }

    /// Takes a field, if it is present, by parsing its value.
    pub(super) fn take_field<T>(
        &mut self,
        field: &'static str,
        on_mismatch: MismatchPolicy,
        read: impl FnOnce(&Json) -> Result<T, FieldError>,
    ) -> FieldResult<T> {
        match (self.rest.get(field).map(read), on_mismatch) {
            (None, _) | (Some(Err(_)), MismatchPolicy::KeepAsExtra) => Ok(None),
            (Some(Ok(value)), _) => {
                self.rest.remove(field);
                Ok(Some(value))
            }
            (Some(Err(problem)), MismatchPolicy::Reject) => {
                Err(RecordError::Field { field, problem })
            }
        }
    }

    pub(super) fn take_json(&mut self, field: &'static str) -> Option<Json> {
        self.rest.remove(field)
    }

    pub(super) fn take_text(
        &mut self,
        field: &'static str,
        on_mismatch: MismatchPolicy,
    ) -> FieldResult<Text> {
        self.take_field(field, on_mismatch, |value| Ok(Text::new(str_from_json(value)?)?))
    }

    pub(super) fn take_id<T: TypedId>(
        &mut self,
        field: &'static str,
        on_mismatch: MismatchPolicy,
    ) -> FieldResult<T> {
        self.take_field(field, on_mismatch, |value| {
            Ok(T::from_snowflake(Snowflake::from_json(value)?))
        })
    }

    fn take_integer(
        &mut self,
        field: &'static str,
        on_mismatch: MismatchPolicy,
    ) -> FieldResult<i64> {
        self.take_field(field, on_mismatch, integer_from_json)
    }

    /// Drops a field without parsing it.
    pub(super) fn drop_field(&mut self, field: &'static str) {
        self.rest.remove(field);
    }

    /// Returns the extra fields together with all fields that are left over.
    fn into_extra(mut self) -> Option<Json> {
        let mut extra = match self.rest.remove("extra") {
            Some(Json::Map(extra)) => extra.as_ref().clone(),
            Some(other) => JsonMap::from([("extra".into(), other)]),
            None => JsonMap::new(),
        };
        extra.append(&mut self.rest);
        (!extra.is_empty()).then(|| extra.into())
    }
}

pub(super) fn str_from_json(value: &Json) -> Result<&str, FieldError> {
    value.as_str().ok_or(FieldError::Type { expected: "a text", found: value.type_name() })
}

fn integer_from_json(value: &Json) -> Result<i64, FieldError> {
    value
        .as_i64()
        .ok_or(FieldError::Type { expected: "a 64-bit integer", found: value.type_name() })
}

fn elapsed_from_json(value: &Json) -> Result<ElapsedTime, FieldError> {
    let ms = value.as_f64().ok_or(FieldError::Type {
        expected: "a number of milliseconds",
        found: value.type_name(),
    })?;
    Ok(ElapsedTime::from_ms(ms)?)
}

fn schema_version_from_json(value: &Json) -> Result<SchemaVersion, FieldError> {
    let number = integer_from_json(value)?;
    SchemaVersion::new(number).ok_or(FieldError::SchemaVersion(number))
}

/// Keeps an error that is not a string as its canonical JSON: a crude message is better than none.
fn message_from_json(value: &Json) -> Result<Text, FieldError> {
    match value {
        Json::Str(text) => Ok(Text::new(text.clone())?),
        other => Ok(Text::from(other.to_string())),
    }
}

impl NewEvent {
    /// Fills in the descriptive fields. The fields of an envelope must fit. For the others,
    /// `on_mismatch` decides.
    pub(super) fn fill_from_fields(
        mut self,
        mut fields: JsonFields,
        on_mismatch: MismatchPolicy,
    ) -> Result<Self, RecordError> {
        use MismatchPolicy::Reject;

        let status = |value: &Json| Ok(StatusName::parse(str_from_json(value)?)?);
        self.status = fields.take_field("status", Reject, status)?.unwrap_or_default();
        self.node_id = fields.take_text("node_id", Reject)?;
        self.node_name = fields.take_text("node_name", Reject)?;
        self.node_type = fields.take_text("node_type", Reject)?;
        self.catalog_id = fields.take_id("catalog_id", Reject)?;
        self.parent_event_id = fields.take_id("parent_event_id", Reject)?;
        self.duration = fields.take_field("duration", Reject, elapsed_from_json)?;
        self.error = fields.take_field("error", Reject, message_from_json)?;
        self.stack_trace = fields.take_field("stack_trace", Reject, message_from_json)?;
        self.context = fields.take_json("context");
        self.result = fields.take_json("result");
        self.meta = fields.take_json("meta");

        self.parent_execution_id = fields.take_id("parent_execution_id", on_mismatch)?;
        self.prev_event_id = fields.take_id("prev_event_id", on_mismatch)?;
        self.stage_id = fields.take_text("stage_id", on_mismatch)?;
        self.frame_id = fields.take_text("frame_id", on_mismatch)?;
        self.aggregate_type = fields.take_text("aggregate_type", on_mismatch)?;
        self.aggregate_id = fields.take_text("aggregate_id", on_mismatch)?;
        self.stream_id = fields.take_text("stream_id", on_mismatch)?;
        self.stream_version = fields.take_integer("stream_version", on_mismatch)?;
        self.schema_name = fields.take_text("schema_name", on_mismatch)?;
        self.schema_version = fields
            .take_field("schema_version", on_mismatch, schema_version_from_json)?
            .unwrap_or(SchemaVersion::FIRST);
        self.payload_ref = fields.take_json("payload_ref");
        self.worker_id = fields.take_text("worker_id", on_mismatch)?;
        self.producer = fields.take_text("producer", on_mismatch)?;
        self.causation_id = fields.take_text("causation_id", on_mismatch)?;
        self.correlation_id = fields.take_text("correlation_id", on_mismatch)?;
        self.idempotency_key = fields.take_text("idempotency_key", on_mismatch)?;
        self.projected = ProjectedFields {
            current_index: fields.take_integer("current_index", on_mismatch)?,
            current_item: fields.take_text("current_item", on_mismatch)?,
            context_key: fields.take_text("context_key", on_mismatch)?,
            context_value: fields.take_text("context_value", on_mismatch)?,
            distributed_state: fields.take_text("distributed_state", on_mismatch)?,
            trace_component: fields.take_json("trace_component"),
            extra: fields.into_extra(),
        }
        .into_option();
        Ok(self)
    }
}

fn require_field<T>(field: &'static str, value: FieldResult<T>) -> Result<T, RecordError> {
    value?.ok_or(RecordError::Field { field, problem: FieldError::Missing })
}

impl EventRecord {
    /// Parses the form that streams and exports carry.
    pub fn from_json(value: &Json) -> Result<Self, RecordError> {
        use MismatchPolicy::Reject;

        let mut fields = JsonFields::from_json(value)?;
        let time = |value: &Json| Ok(Timestamp::parse(str_from_json(value)?)?);
        let name = |value: &Json| Ok(EventName::parse_lenient(Some(str_from_json(value)?))?);
        let seq = |value: &Json| Ok(Seq::new(integer_from_json(value)?)?);
        let digest = |value: &Json| Ok(Digest::parse(str_from_json(value)?)?);
        let event = NewEvent::new(
            require_field("execution_id", fields.take_id("execution_id", Reject))?,
            require_field("event_id", fields.take_id("event_id", Reject))?,
            require_field("event_type", fields.take_field("event_type", Reject, name))?,
            require_field("created_at", fields.take_field("created_at", Reject, time))?,
        );
        let event_time = fields.take_field("event_time", Reject, time)?;
        let tenant =
            fields.take_field("tenant_id", Reject, |value| Ok(str_from_json(value)?.parse()?))?;
        let organization = fields
            .take_field("organization_id", Reject, |value| Ok(str_from_json(value)?.parse()?))?;
        let command_id = fields.take_id("command_id", Reject)?;
        let seq = require_field("seq", fields.take_field("seq", Reject, seq))?;
        let ingest_time =
            require_field("ingest_time", fields.take_field("ingest_time", Reject, time))?;
        let envelope_checksum = fields.take_field("envelope_checksum", Reject, digest)?;
        let event = NewEvent {
            event_time: event_time.unwrap_or(event.created_at),
            tenant_id: tenant.unwrap_or_default(),
            organization_id: organization.unwrap_or_default(),
            command_id,
            ..event
        };
        Ok(Self {
            event: event.fill_from_fields(fields, Reject)?,
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
