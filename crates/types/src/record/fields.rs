//! The fields of an event under their names, in the one order that canonical JSON has.
//!
//! One list serves the envelope, which the chain and the checksum cover, and the body, which
//! streams and exports carry, so that the two cannot drift apart.

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::elapsed::Elapsed;
use super::event::{CopiedFields, EventRecord, NewEvent, SchemaVersion};
use super::order::Seq;
use crate::digest::Digest;
use crate::event::EventName;
use crate::id::{CatalogId, CommandId, EventId, ExecutionId};
use crate::json::{CanonicalWriter, Json, WriteCanonical, to_canonical};
use crate::name::{OrganizationId, TenantId};
use crate::status::StatusName;
use crate::text::Text;
use crate::time::Timestamp;

/// Which form of an event is written.
#[derive(Clone, Copy)]
enum Form<'e> {
    /// What the producer said, the believed time under `timestamp`.
    Envelope,
    /// Every column but those that never leave the store.
    Body(&'e EventRecord),
}

/// Puts every field that is present, in rising order of names.
fn put_fields<'e, F>(event: &'e NewEvent, form: Form<'e>, to: &mut Sink<F>)
where
    F: FnMut(&'static str, Value<'e>),
{
    let copied = event.copied.as_deref().unwrap_or(&NOTHING_COPIED);
    let body = form.body();
    to.put("aggregate_id", &event.aggregate_id);
    to.put("aggregate_type", &event.aggregate_type);
    to.put("catalog_id", &event.catalog_id);
    to.put("causation_id", &event.causation_id);
    to.put("command_id", &event.command_id);
    to.put("context", &event.context);
    to.put("context_key", &copied.context_key);
    to.put("context_value", &copied.context_value);
    to.put("correlation_id", &event.correlation_id);
    to.put_if(body.is_some(), "created_at", &event.created_at);
    to.put("current_index", &copied.current_index);
    to.put("current_item", &copied.current_item);
    to.put("distributed_state", &copied.distributed_state);
    to.put("duration", &event.duration);
    if let Some(record) = body {
        to.put("envelope_checksum", &record.envelope_checksum);
    }
    to.put("error", &event.error);
    to.put("event_id", &event.event_id);
    // In an envelope the producer's time is worth a field only where it is not the believed one.
    let has_own_time = event.event_time != event.created_at;
    to.put_if(
        body.is_some() || has_own_time,
        "event_time",
        &event.event_time,
    );
    to.put("event_type", &event.event_type);
    to.put("execution_id", &event.execution_id);
    to.put("extra", &copied.extra);
    to.put("frame_id", &event.frame_id);
    to.put("idempotency_key", &event.idempotency_key);
    if let Some(record) = body {
        to.put("ingest_time", &record.ingest_time);
    }
    to.put("meta", &event.meta);
    to.put("node_id", &event.node_id);
    to.put("node_name", &event.node_name);
    to.put("node_type", &event.node_type);
    to.put("organization_id", &event.organization_id);
    to.put("parent_event_id", &event.parent_event_id);
    to.put("parent_execution_id", &event.parent_execution_id);
    to.put("payload_ref", &event.payload_ref);
    to.put("prev_event_id", &event.prev_event_id);
    to.put("producer", &event.producer);
    to.put("result", &event.result);
    to.put("schema_name", &event.schema_name);
    to.put("schema_version", &event.schema_version);
    if let Some(record) = body {
        to.put("seq", &record.seq);
    }
    to.put("stack_trace", &event.stack_trace);
    to.put("stage_id", &event.stage_id);
    to.put("status", &event.status);
    to.put("stream_id", &event.stream_id);
    to.put("stream_version", &event.stream_version);
    to.put("tenant_id", &event.tenant_id);
    to.put_if(body.is_none(), "timestamp", &event.created_at);
    to.put("trace_component", &copied.trace_component);
    to.put("worker_id", &event.worker_id);
}

static NOTHING_COPIED: CopiedFields = CopiedFields {
    current_index: None,
    current_item: None,
    context_key: None,
    context_value: None,
    distributed_state: None,
    trace_component: None,
    extra: None,
};

impl<'e> Form<'e> {
    fn body(self) -> Option<&'e EventRecord> {
        match self {
            Self::Envelope => None,
            Self::Body(record) => Some(record),
        }
    }
}

/// Where the fields go.
struct Sink<F>(F);

impl<'e, F: FnMut(&'static str, Value<'e>)> Sink<F> {
    fn put(&mut self, name: &'static str, field: &'e impl Field) {
        if let Some(value) = field.value() {
            (self.0)(name, value);
        }
    }

    fn put_if(&mut self, condition: bool, name: &'static str, field: &'e impl Field) {
        if condition {
            self.put(name, field);
        }
    }
}

/// The value of a field.
enum Value<'e> {
    Int(i64),
    Elapsed(Elapsed),
    Time(Timestamp),
    Text(&'e str),
    Digest(&'e Digest),
    Json(&'e Json),
}

/// A type that an event has fields of; an absent field has no value.
trait Field {
    fn value(&self) -> Option<Value<'_>>;
}

impl<T: Field> Field for Option<T> {
    fn value(&self) -> Option<Value<'_>> {
        self.as_ref().and_then(Field::value)
    }
}

/// Says how the value of a field is had from its type.
macro_rules! fields {
    ($( $kind:ty => |$field:ident| $value:expr; )+) => {
        $(
            impl Field for $kind {
                fn value(&self) -> Option<Value<'_>> {
                    let $field = self;
                    Some($value)
                }
            }
        )+
    };
}

fields! {
    i64 => |number| Value::Int(*number);
    CatalogId => |id| Value::Int(id.get());
    CommandId => |id| Value::Int(id.get());
    EventId => |id| Value::Int(id.get());
    ExecutionId => |id| Value::Int(id.get());
    Seq => |seq| Value::Int(seq.get());
    SchemaVersion => |version| Value::Int(version.get().into());
    Elapsed => |elapsed| Value::Elapsed(*elapsed);
    Timestamp => |time| Value::Time(*time);
    Digest => |digest| Value::Digest(digest);
    Text => |text| Value::Text(text);
    EventName => |name| Value::Text(name.as_str());
    StatusName => |status| Value::Text(status.as_str());
    TenantId => |tenant| Value::Text(tenant.as_str());
    OrganizationId => |organization| Value::Text(organization.as_str());
}

impl Field for Json {
    fn value(&self) -> Option<Value<'_>> {
        (!self.is_null()).then_some(Value::Json(self))
    }
}

impl WriteCanonical for Value<'_> {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        match self {
            Self::Int(value) => writer.int(*value),
            Self::Elapsed(value) => value.write_canonical(writer),
            Self::Time(value) => value.write_canonical(writer),
            Self::Text(value) => writer.text(value),
            Self::Digest(value) => writer.text(&value.to_string()),
            Self::Json(value) => value.write_canonical(writer),
        }
    }
}

impl Serialize for Value<'_> {
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

fn write_form<'e>(event: &'e NewEvent, form: Form<'e>, writer: &mut CanonicalWriter) {
    let mut object = writer.object();
    let mut sink = Sink(|name, value: Value<'e>| {
        object.field(name, &value);
    });
    put_fields(event, form, &mut sink);
}

struct Envelope<'e>(&'e NewEvent);

impl WriteCanonical for Envelope<'_> {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        write_form(self.0, Form::Envelope, writer);
    }
}

impl NewEvent {
    /// The canonical envelope: the producer's fields only, what is null left out, defaults filled
    /// in, times as instants.
    pub fn envelope(&self) -> Vec<u8> {
        to_canonical(&Envelope(self))
    }
}

/// The body that streams and exports carry; the same bytes for the same event, whoever writes them.
impl WriteCanonical for EventRecord {
    fn write_canonical(&self, writer: &mut CanonicalWriter) {
        write_form(&self.event, Form::Body(self), writer);
    }
}

impl Serialize for EventRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut outcome = Ok(());
        let mut sink = Sink(|name, value: Value<'_>| {
            if outcome.is_ok() {
                outcome = map.serialize_entry(name, &value);
            }
        });
        put_fields(&self.event, Form::Body(self), &mut sink);
        outcome?;
        map.end()
    }
}
