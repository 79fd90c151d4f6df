//! The named fields of an event, in the order of canonical JSON.
//!
//! One list serves both the envelope, which the chain and the checksum cover, and the body, which
//! streams and exports carry, so that the two cannot diverge.

use std::sync::LazyLock;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::elapsed::ElapsedTime;
use super::event::{EventRecord, NewEvent, ProjectedFields, SchemaVersion};
use super::order::Seq;
use crate::digest::Digest;
use crate::event::EventName;
use crate::id::{CatalogId, CommandId, EventId, ExecutionId};
use crate::json::{CanonicalWriter, Json, WriteCanonical};
use crate::name::{OrganizationId, TenantId};
use crate::status::StatusName;
use crate::text::Text;
use crate::time::Timestamp;

/// Writes every present field, in ascending order of names. The envelope has the producer's fields,
/// with the creation time as `timestamp`. The body of a record has all columns except those that
/// never leave the store.
fn write_fields<'e>(
    event: &'e NewEvent,
    body: Option<&'e EventRecord>,
    mut write: impl FnMut(&'static str, FieldValue<'e>),
) {
    let projected = event.projected.as_deref().unwrap_or(&NO_PROJECTED_FIELDS);
    let mut put = |name: &'static str, value: Option<FieldValue<'e>>| {
        if let Some(value) = value {
            write(name, value);
        }
    };
    put("aggregate_id", event.aggregate_id.field_value());
    put("aggregate_type", event.aggregate_type.field_value());
    put("catalog_id", event.catalog_id.field_value());
    put("causation_id", event.causation_id.field_value());
    put("command_id", event.command_id.field_value());
    put("context", event.context.field_value());
    put("context_key", projected.context_key.field_value());
    put("context_value", projected.context_value.field_value());
    put("correlation_id", event.correlation_id.field_value());
    put("created_at", body.and(event.created_at.field_value()));
    put("current_index", projected.current_index.field_value());
    put("current_item", projected.current_item.field_value());
    put("distributed_state", projected.distributed_state.field_value());
    put("duration", event.duration.field_value());
    put("envelope_checksum", body.and_then(|record| record.envelope_checksum.field_value()));
    put("error", event.error.field_value());
    put("event_id", event.event_id.field_value());
    // The envelope has the producer's time only if it differs from the creation time.
    let has_own_time = body.is_some() || event.event_time != event.created_at;
    put("event_time", event.event_time.field_value().filter(|_| has_own_time));
    put("event_type", event.event_type.field_value());
    put("execution_id", event.execution_id.field_value());
    put("extra", projected.extra.field_value());
    put("frame_id", event.frame_id.field_value());
    put("idempotency_key", event.idempotency_key.field_value());
    put("ingest_time", body.and_then(|record| record.ingest_time.field_value()));
    put("meta", event.meta.field_value());
    put("node_id", event.node_id.field_value());
    put("node_name", event.node_name.field_value());
    put("node_type", event.node_type.field_value());
    put("organization_id", event.organization_id.field_value());
    put("parent_event_id", event.parent_event_id.field_value());
    put("parent_execution_id", event.parent_execution_id.field_value());
    put("payload_ref", event.payload_ref.field_value());
    put("prev_event_id", event.prev_event_id.field_value());
    put("producer", event.producer.field_value());
    put("result", event.result.field_value());
    put("schema_name", event.schema_name.field_value());
    put("schema_version", event.schema_version.field_value());
    put("seq", body.and_then(|record| record.seq.field_value()));
    put("stack_trace", event.stack_trace.field_value());
    put("stage_id", event.stage_id.field_value());
    put("status", event.status.field_value());
    put("stream_id", event.stream_id.field_value());
    put("stream_version", event.stream_version.field_value());
    put("tenant_id", event.tenant_id.field_value());
    put("timestamp", event.created_at.field_value().filter(|_| body.is_none()));
    put("trace_component", projected.trace_component.field_value());
    put("worker_id", event.worker_id.field_value());
}

static NO_PROJECTED_FIELDS: LazyLock<ProjectedFields> = LazyLock::new(ProjectedFields::default);

/// Value of a field.
enum FieldValue<'e> {
    Int(i64),
    Elapsed(ElapsedTime),
    Time(Timestamp),
    Text(&'e str),
    Digest(&'e Digest),
    Json(&'e Json),
}

/// Types of event fields. An absent field has no value.
trait EventField {
    fn field_value(&self) -> Option<FieldValue<'_>>;
}

impl<T: EventField> EventField for Option<T> {
    fn field_value(&self) -> Option<FieldValue<'_>> {
        self.as_ref()?.field_value()
    }
}

/// Implements [`EventField`] for types by an expression each.
macro_rules! fields {
    ($( $kind:ty => |$field:ident| $value:expr; )+) => {
        $(
            impl EventField for $kind {
                fn field_value(&self) -> Option<FieldValue<'_>> {
                    let $field = self;
                    Some($value)
                }
            }
        )+
    };
}

fields! {
    i64 => |number| FieldValue::Int(*number);
    CatalogId => |id| FieldValue::Int(id.get());
    CommandId => |id| FieldValue::Int(id.get());
    EventId => |id| FieldValue::Int(id.get());
    ExecutionId => |id| FieldValue::Int(id.get());
    Seq => |seq| FieldValue::Int(seq.get());
    SchemaVersion => |version| FieldValue::Int(version.get().into());
    ElapsedTime => |elapsed| FieldValue::Elapsed(*elapsed);
    Timestamp => |time| FieldValue::Time(*time);
    Digest => |digest| FieldValue::Digest(digest);
    Text => |text| FieldValue::Text(text);
    EventName => |name| FieldValue::Text(name.as_str());
    StatusName => |status| FieldValue::Text(status.as_str());
    TenantId => |tenant| FieldValue::Text(tenant.as_str());
    OrganizationId => |organization| FieldValue::Text(organization.as_str());
}

impl EventField for Json {
    fn field_value(&self) -> Option<FieldValue<'_>> {
        (!self.is_null()).then_some(FieldValue::Json(self))
    }
}

impl WriteCanonical for FieldValue<'_> {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        match self {
            Self::Int(value) => writer.write_int(*value),
            Self::Elapsed(value) => value.write_canonical(writer),
            Self::Time(value) => value.write_canonical(writer),
            Self::Text(value) => writer.write_text(value),
            Self::Digest(value) => writer.write_text(&value.to_string()),
            Self::Json(value) => value.write_canonical(writer),
        }
    }
}

impl Serialize for FieldValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Elapsed(value) => Json::from(*value).serialize(serializer),
            Self::Time(value) => value.serialize(serializer),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Digest(value) => value.serialize(serializer),
            Self::Json(value) => value.serialize(serializer),
        }
    }
}

fn write_object(event: &NewEvent, body: Option<&EventRecord>, writer: &mut CanonicalWriter) {
    let mut object = writer.begin_object();
    write_fields(event, body, |name, value| {
        object.write_field(name, &value);
    });
}

impl NewEvent {
    /// Returns the canonical envelope: only the producer's fields, without nulls, with defaults
    /// filled in and times as instants.
    pub fn to_envelope(&self) -> Vec<u8> {
        let mut writer = CanonicalWriter::default();
        write_object(self, None, &mut writer);
        writer.into_bytes()
    }
}

/// Writes the body that streams and exports carry. The bytes depend only on the event.
impl WriteCanonical for EventRecord {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        write_object(&self.event, Some(self), writer);
    }
}

impl Serialize for EventRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut outcome = Ok(());
        write_fields(&self.event, Some(self), |name, value| {
            if outcome.is_ok() {
                outcome = map.serialize_entry(name, &value);
            }
        });
        outcome?;
        map.end()
    }
}
