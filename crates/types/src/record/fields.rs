//! The named fields of an event, in the order of canonical JSON.
//!
//! One list serves both the envelope, which the chain and the checksum cover, and the body, which
//! streams and exports carry, so that the two cannot diverge.

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::elapsed::ElapsedTime;
use super::event::{EventRecord, NewEvent, ProjectedFields, SchemaVersion};
use super::order::Seq;
use crate::digest::Digest;
use crate::event::EventName;
use crate::id::{CatalogId, CommandId, EventId, ExecutionId};
use crate::json::{CanonicalWriter, Json, WriteCanonical, to_canonical};
use crate::name::{OrganizationId, TenantId};
use crate::status::StatusName;
use crate::text::Text;
use crate::time::Timestamp;

/// Form in which an event is written.
#[derive(Clone, Copy)]
enum EventForm<'e> {
    /// Producer's fields, with the creation time as `timestamp`.
    Envelope,
    /// All columns except those that never leave the store.
    Body(&'e EventRecord),
}

/// Writes every present field, in ascending order of names.
fn write_fields<'e, F>(event: &'e NewEvent, form: EventForm<'e>, sink: &mut FieldSink<F>)
where
    F: FnMut(&'static str, FieldValue<'e>),
{
    let projected = event.projected.as_deref().unwrap_or(&NO_PROJECTED_FIELDS);
    let body = form.body();
    sink.write("aggregate_id", &event.aggregate_id);
    sink.write("aggregate_type", &event.aggregate_type);
    sink.write("catalog_id", &event.catalog_id);
    sink.write("causation_id", &event.causation_id);
    sink.write("command_id", &event.command_id);
    sink.write("context", &event.context);
    sink.write("context_key", &projected.context_key);
    sink.write("context_value", &projected.context_value);
    sink.write("correlation_id", &event.correlation_id);
    sink.write_if(body.is_some(), "created_at", &event.created_at);
    sink.write("current_index", &projected.current_index);
    sink.write("current_item", &projected.current_item);
    sink.write("distributed_state", &projected.distributed_state);
    sink.write("duration", &event.duration);
    if let Some(record) = body {
        sink.write("envelope_checksum", &record.envelope_checksum);
    }
    sink.write("error", &event.error);
    sink.write("event_id", &event.event_id);
    // The envelope has the producer's time only if it differs from the creation time.
    let has_own_time = event.event_time != event.created_at;
    sink.write_if(body.is_some() || has_own_time, "event_time", &event.event_time);
    sink.write("event_type", &event.event_type);
    sink.write("execution_id", &event.execution_id);
    sink.write("extra", &projected.extra);
    sink.write("frame_id", &event.frame_id);
    sink.write("idempotency_key", &event.idempotency_key);
    if let Some(record) = body {
        sink.write("ingest_time", &record.ingest_time);
    }
    sink.write("meta", &event.meta);
    sink.write("node_id", &event.node_id);
    sink.write("node_name", &event.node_name);
    sink.write("node_type", &event.node_type);
    sink.write("organization_id", &event.organization_id);
    sink.write("parent_event_id", &event.parent_event_id);
    sink.write("parent_execution_id", &event.parent_execution_id);
    sink.write("payload_ref", &event.payload_ref);
    sink.write("prev_event_id", &event.prev_event_id);
    sink.write("producer", &event.producer);
    sink.write("result", &event.result);
    sink.write("schema_name", &event.schema_name);
    sink.write("schema_version", &event.schema_version);
    if let Some(record) = body {
        sink.write("seq", &record.seq);
    }
    sink.write("stack_trace", &event.stack_trace);
    sink.write("stage_id", &event.stage_id);
    sink.write("status", &event.status);
    sink.write("stream_id", &event.stream_id);
    sink.write("stream_version", &event.stream_version);
    sink.write("tenant_id", &event.tenant_id);
    sink.write_if(body.is_none(), "timestamp", &event.created_at);
    sink.write("trace_component", &projected.trace_component);
    sink.write("worker_id", &event.worker_id);
}

static NO_PROJECTED_FIELDS: ProjectedFields = ProjectedFields {
    current_index: None,
    current_item: None,
    context_key: None,
    context_value: None,
    distributed_state: None,
    trace_component: None,
    extra: None,
};

impl<'e> EventForm<'e> {
    fn body(self) -> Option<&'e EventRecord> {
        match self {
            Self::Envelope => None,
            Self::Body(record) => Some(record),
        }
    }
}

/// Receiver of the fields.
struct FieldSink<F>(F);

impl<'e, F: FnMut(&'static str, FieldValue<'e>)> FieldSink<F> {
    fn write(&mut self, name: &'static str, field: &'e impl EventField) {
        if let Some(value) = field.to_field_value() {
            (self.0)(name, value);
        }
    }

    fn write_if(&mut self, condition: bool, name: &'static str, field: &'e impl EventField) {
        if condition {
            self.write(name, field);
        }
    }
}

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
    fn to_field_value(&self) -> Option<FieldValue<'_>>;
}

impl<T: EventField> EventField for Option<T> {
    fn to_field_value(&self) -> Option<FieldValue<'_>> {
        self.as_ref().and_then(EventField::to_field_value)
    }
}

/// Implements [`EventField`] for types by an expression each.
macro_rules! fields {
    ($( $kind:ty => |$field:ident| $value:expr; )+) => {
        $(
            impl EventField for $kind {
                fn to_field_value(&self) -> Option<FieldValue<'_>> {
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
    fn to_field_value(&self) -> Option<FieldValue<'_>> {
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

fn write_event_form<'e>(event: &'e NewEvent, form: EventForm<'e>, writer: &mut CanonicalWriter) {
    let mut object = writer.begin_object();
    let mut sink = FieldSink(|name, value: FieldValue<'e>| {
        object.write_field(name, &value);
    });
    write_fields(event, form, &mut sink);
}

struct EventEnvelope<'e>(&'e NewEvent);

impl WriteCanonical for EventEnvelope<'_> {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        write_event_form(self.0, EventForm::Envelope, writer);
    }
}

impl NewEvent {
    /// Returns the canonical envelope: only the producer's fields, without nulls, with defaults
    /// filled in and times as instants.
    pub fn to_envelope(&self) -> Vec<u8> {
        to_canonical(&EventEnvelope(self))
    }
}

/// Writes the body that streams and exports carry. The bytes depend only on the event.
impl WriteCanonical for EventRecord {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        write_event_form(&self.event, EventForm::Body(self), writer);
    }
}

impl Serialize for EventRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut outcome = Ok(());
        let mut sink = FieldSink(|name, value: FieldValue<'_>| {
            if outcome.is_ok() {
                outcome = map.serialize_entry(name, &value);
            }
        });
        write_fields(&self.event, EventForm::Body(self), &mut sink);
        outcome?;
        map.end()
    }
}
