//! Writing and reading the parts of a record.
//!
//! An event declares where its fields are stored with [`event_fields!`]. A struct inside a field
//! declares its keys with [`map_fields!`]. Both generate writing and reading from one list.

use std::sync::{Arc, LazyLock};

use noetl_types::record::{EventRecord, NewEvent};
use noetl_types::{CommandId, EventName, EventStatus, Json, JsonMap, Seq, StepName, Text};

use super::ExecutionHeader;
use crate::event::Event;
use crate::payload::{EventData, Reference};

/// A record that does not decode as the event that its type names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({event}) has no readable `{field}`: expected {expected}")]
pub struct DecodeError {
    /// Seq of the record.
    pub seq: Seq,
    /// Type of the event.
    pub event: EventName,
    /// Path of the field.
    pub field: String,
    /// Description of the expected value.
    pub expected: &'static str,
}

/// Declares the keys of events. Their strings are allocated once and shared by all events.
macro_rules! keys {
    ($($name:ident $text:literal,)+) => {
        /// A key of an event.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(super) enum Key { $($name,)+ }

        static TEXTS: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| vec![$(Arc::from($text),)+]);

        impl Key {
            pub(super) const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            fn shared(self) -> Arc<str> {
                Arc::clone(&TEXTS[self as usize])
            }
        }
    };
}

keys! {
    Actor "actor", Args "args", ArgsRef "args_ref", Arrivals "arrivals", Attempt "attempt",
    Attempts "attempts", Bytes "bytes", Cache "cache", Cached "cached", CallIndex "call_index",
    CatalogId "catalog_id", Caught "caught", ChildExecutionId "child_execution_id", Code "code",
    CollectionSize "collection_size", CommandId "command_id", Concurrency "concurrency",
    Context "context", ContextRef "context_ref", Correlation "key", Cursor "cursor", Data "data",
    DeadlineMs "deadline_ms", Dedup "dedup", DefinitionSha256 "definition_sha256", Depth "depth",
    Done "done", DurationMs "duration_ms", EmittedAt "emitted_at", Emitter "emitter",
    Error "error", Errors "errors", ExecutionId "execution_id", ExecutionPool "execution_pool",
    Executor "executor", Failed "failed", FailedSteps "failed_steps", Final "final",
    FireAt "fire_at", ForkedFrom "forked_from", Frame "frame", Frames "frames",
    HeartbeatMs "heartbeat_ms", Idempotency "idempotency_key", In "in", Index "index",
    Iterations "iterations", Iterator "iterator", KeptSeq "kept_seq", Label "label",
    LeaseMs "lease_ms", LeaseUntil "lease_until", Limit "limit", Lookback "lookback",
    LoopId "loop_id", MaxAttempts "max_attempts", MaxBytes "max_bytes",
    MaxInFlight "max_in_flight", MaxMs "max_ms", MaxRows "max_rows", Name "name", Next "next",
    NotBefore "not_before", OnTimeout "on_timeout", Onward "onward", Origin "origin",
    Overlap "overlap", Path "path", Payload "payload", Priority "priority", Progress "progress",
    Reason "reason", ReceivedAt "received_at", Reference "reference", RerunOf "rerun_of",
    Result "result", ResultDigest "key_sha256", ResultStep "result_step", Results "results",
    RetryInMs "retry_in_ms", ReturnResult "return_result", Row "row", Rows "rows", Run "run",
    Scope "scope", Segment "segment", Seq "seq", ServerUrl "server_url", Set "set",
    Sha256 "sha256", SignalId "signal_id", Slot "slot", SlotName "key", Source "source",
    StartAt "start_at", Started "started", Stats "stats", Status "status", Stderr "stderr",
    Stdout "stdout", Step "step", Success "success", Tasks "tasks", Timer "timer",
    ToolConfig "tool_config", ToolKind "tool_kind", Total "total", Trace "trace", Value "value",
    Values "values", Version "version", WorkerId "worker_id", Workload "workload",
}

/// A value of one key.
pub(super) trait FieldValue: Sized {
    /// Description of the value in errors.
    const EXPECTED: &'static str;

    /// Returns the form in the log. `None` omits the key.
    fn to_field(&self) -> Option<Json>;

    fn from_field(value: &Json) -> Option<Self>;

    /// Returns the value of an absent key. `None` if the key is required.
    fn if_absent() -> Option<Self> {
        None
    }
}

/// An event, or a part of one that occupies several keys or columns.
pub(super) trait EventFields: Sized {
    fn write(&self, record: &mut RecordWriter<'_>);

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError>;
}

impl<T: EventFields> EventFields for Box<T> {
    fn write(&self, record: &mut RecordWriter<'_>) {
        (**self).write(record);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        T::read(record).map(Box::new)
    }
}

/// Declares the fields of an event: in brackets those that implement [`EventFields`], then the part
/// and the key of each other field, then a function that writes what is derived from the fields.
macro_rules! event_fields {
    ($event:ty { $([$group:ident])* $($field:ident: $part:ident.$key:ident,)* } $($derived:expr)?) => {
        impl EventFields for $event {
            fn write(&self, record: &mut RecordWriter<'_>) {
                $(self.$group.write(record);)*
                $(record.$part.put(Key::$key, &self.$field);)*
                $(
                    let write_derived: fn(&Self, &mut RecordWriter<'_>) = $derived;
                    write_derived(self, record);
                )?
            }

            fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
                Ok(Self {
                    $($group: EventFields::read(record)?,)*
                    $($field: record.$part.read(Key::$key)?,)*
                })
            }
        }
    };
}

/// A struct that is stored as a map.
pub(super) trait MapFields: Sized {
    fn to_map(&self) -> Json;

    fn read_map(map: &PartReader<'_>) -> Result<Self, FieldError>;
}

/// Declares the keys of a struct that is stored as a map.
macro_rules! map_fields {
    ($type:ty, $expected:literal, { $($field:ident: $key:ident,)+ }) => {
        impl MapFields for $type {
            fn to_map(&self) -> Json {
                let mut map = MapWriter::default();
                $(map.put(Key::$key, &self.$field);)+
                map.into_json()
            }

            fn read_map(map: &PartReader<'_>) -> Result<Self, FieldError> {
                Ok(Self { $($field: map.read(Key::$key)?,)+ })
            }
        }

        impl FieldValue for $type {
            const EXPECTED: &'static str = $expected;

            fn to_field(&self) -> Option<Json> {
                Some(self.to_map())
            }

            fn from_field(value: &Json) -> Option<Self> {
                Self::read_map(&PartReader::nested(value.as_map()?)).ok()
            }
        }
    };
}

pub(super) use {event_fields, map_fields};

/// Writer of a JSON map.
#[derive(Default)]
pub(super) struct MapWriter(JsonMap);

impl MapWriter {
    pub(super) fn put(&mut self, key: Key, value: &impl FieldValue) {
        if let Some(value) = value.to_field() {
            self.0.insert(key.shared(), value);
        }
    }

    pub(super) fn put_json(&mut self, key: Key, value: impl Into<Json>) {
        self.0.insert(key.shared(), value.into());
    }

    /// Adds a map unless it is empty.
    pub(super) fn put_nonempty(&mut self, key: Key, value: &JsonMap) {
        if !value.is_empty() {
            self.put_json(key, value.clone());
        }
    }

    /// Adds data under one of two keys.
    pub(super) fn put_data(&mut self, inline: Key, external: Key, data: &EventData) {
        match data {
            EventData::Inline(value) => self.put_json(inline, value.clone()),
            EventData::External(reference) => self.put(external, reference),
        }
    }

    pub(super) fn extend(&mut self, map: JsonMap) {
        self.0.extend(map);
    }

    pub(super) fn into_json(self) -> Json {
        Json::from(self.0)
    }

    fn into_option(self) -> Option<Json> {
        (!self.0.is_empty()).then(|| Json::from(self.0))
    }
}

/// A record that is being written.
pub(super) struct RecordWriter<'e> {
    pub(super) event: &'e Event,
    pub(super) header: &'e ExecutionHeader,
    pub(super) columns: NewEvent,
    pub(super) context: MapWriter,
    pub(super) result: MapWriter,
    pub(super) meta: MapWriter,
    reference: Option<Json>,
}

impl<'e> RecordWriter<'e> {
    pub(super) fn new(event: &'e Event, header: &'e ExecutionHeader, columns: NewEvent) -> Self {
        let [context, result, meta] = <[MapWriter; 3]>::default();
        Self { event, header, columns, context, result, meta, reference: None }
    }

    /// Adds data under a key of the result, or as a reference beside it.
    pub(super) fn put_data(&mut self, key: Key, data: Option<&EventData>) {
        match data {
            None => {}
            Some(EventData::Inline(value)) => self.result.put_json(key, value.clone()),
            Some(EventData::External(reference)) => {
                self.reference = Some(reference.as_json().clone());
            }
        }
    }

    /// Sets the columns of a record of the execution as a whole.
    pub(super) fn set_execution_columns(&mut self) {
        self.columns.node_id = Some("playbook".into());
        self.columns.node_name = Some(Text::from(&self.header.path));
        self.columns.node_type = Some("execution".into());
    }

    pub(super) fn put_status(&mut self) {
        self.meta.put_json(Key::Status, self.columns.status.as_str());
    }

    pub(super) fn into_record(self) -> NewEvent {
        let mut record = self.columns;
        let inner = self.result.into_option();
        if inner.is_some() || self.reference.is_some() {
            let mut result = MapWriter::default();
            result.put_json(Key::Status, record.status.as_str());
            result.put(Key::Context, &inner);
            result.put(Key::Reference, &self.reference);
            record.result = Some(result.into_json());
        }
        record.context = self.context.into_option();
        record.meta = self.meta.into_option();
        record
    }
}

/// A field that is absent or has an unexpected value.
#[derive(Debug)]
pub(super) struct FieldError {
    pub(super) field: String,
    pub(super) expected: &'static str,
}

impl FieldError {
    pub(super) fn new(field: &str, expected: &'static str) -> Self {
        Self { field: field.to_owned(), expected }
    }
}

/// A record that is being read.
pub(super) struct RecordReader<'r> {
    pub(super) columns: &'r NewEvent,
    pub(super) context: PartReader<'r>,
    pub(super) result: PartReader<'r>,
    pub(super) meta: PartReader<'r>,
    reference: Option<&'r Json>,
}

impl<'r> RecordReader<'r> {
    pub(super) fn new(record: &'r EventRecord) -> Self {
        let columns = &record.event;
        let part =
            |name, value: Option<&'r Json>| PartReader { name, map: value.and_then(Json::as_map) };
        let result = columns.result.as_ref();
        Self {
            columns,
            context: part("context", columns.context.as_ref()),
            result: part("result.context", result.and_then(|result| result.get("context"))),
            meta: part("meta", columns.meta.as_ref()),
            reference: result.and_then(|result| result.get("reference")),
        }
    }

    /// Reads data under a key of the result, or the reference beside it.
    pub(super) fn read_data(&self, key: Key) -> Result<Option<EventData>, FieldError> {
        match self.reference {
            None => Ok(self.result.get(key).cloned().map(EventData::Inline)),
            Some(reference) => match Reference::new(reference.clone()) {
                Ok(reference) => Ok(Some(EventData::External(reference))),
                Err(_) => Err(FieldError::new("result.reference", "a reference")),
            },
        }
    }

    pub(super) fn status(&self) -> Option<EventStatus> {
        self.columns.status.known_status()
    }
}

/// The command of a record is a column, and a key for readers of the result.
impl EventFields for CommandId {
    fn write(&self, record: &mut RecordWriter<'_>) {
        record.columns.command_id = Some(*self);
        record.result.put(Key::CommandId, self);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        record.columns.command_id.ok_or_else(|| FieldError::new("command_id", "an id"))
    }
}

/// The step of a record is a column.
impl EventFields for Option<StepName> {
    fn write(&self, record: &mut RecordWriter<'_>) {
        record.columns.node_name = self.as_ref().map(Text::from);
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let name = record.columns.node_name.clone().map(Text::into_shared);
        let step = name.map(StepName::new).transpose();
        step.map_err(|_| FieldError::new("node_name", "the name of a step"))
    }
}

impl EventFields for StepName {
    fn write(&self, record: &mut RecordWriter<'_>) {
        record.columns.node_name = Some(Text::from(self));
    }

    fn read(record: &RecordReader<'_>) -> Result<Self, FieldError> {
        let step: Option<Self> = EventFields::read(record)?;
        step.ok_or_else(|| FieldError::new("node_name", "the name of a step"))
    }
}

/// One map of a record.
#[derive(Clone, Copy)]
pub(super) struct PartReader<'r> {
    name: &'static str,
    map: Option<&'r JsonMap>,
}

impl<'r> PartReader<'r> {
    /// Returns a reader for a map whose errors are not reported.
    pub(super) fn nested(map: &'r JsonMap) -> Self {
        Self { name: "", map: Some(map) }
    }

    /// Returns the whole map.
    pub(super) fn as_map(&self) -> Option<&'r JsonMap> {
        self.map
    }

    pub(super) fn get(&self, key: Key) -> Option<&'r Json> {
        self.map.and_then(|map| map.get(key.as_str()))
    }

    pub(super) fn error(&self, key: Key, expected: &'static str) -> FieldError {
        FieldError { field: format!("{}.{}", self.name, key.as_str()), expected }
    }

    pub(super) fn read<T: FieldValue>(&self, key: Key) -> Result<T, FieldError> {
        let value = match self.get(key) {
            None | Some(Json::Null) => T::if_absent(),
            Some(value) => T::from_field(value),
        };
        value.ok_or_else(|| self.error(key, T::EXPECTED))
    }

    /// Returns a reader for a map under a key.
    pub(super) fn read_part(&self, key: Key, expected: &'static str) -> Result<Self, FieldError> {
        let map = self.get(key).and_then(Json::as_map);
        map.map(|map| Self { map: Some(map), ..*self }).ok_or_else(|| self.error(key, expected))
    }

    /// Reads data under one of two keys.
    pub(super) fn read_data(&self, inline: Key, external: Key) -> Result<EventData, FieldError> {
        Ok(match self.read::<Option<Reference>>(external)? {
            Some(reference) => EventData::External(reference),
            None => EventData::Inline(self.read(inline)?),
        })
    }
}
