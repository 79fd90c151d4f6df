//! Building and reading the JSON parts of a record.

use std::fmt;
use std::sync::{Arc, LazyLock};

use noetl_types::record::{EventRecord, NewEvent};
use noetl_types::{
    EventName, Json, JsonMap, Seq, StatusName, StepName, TaskError, Text, Timestamp,
};

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

/// Builder of a JSON map. Absent values are omitted.
#[derive(Default)]
pub(super) struct MapBuilder(JsonMap);

/// Declares the keys of events. Their strings are allocated once and shared by all events.
macro_rules! keys {
    ($($name:ident = $text:literal,)+) => {
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
    Actor = "actor",
    Args = "args",
    ArgsRef = "args_ref",
    Arrivals = "arrivals",
    Attempt = "attempt",
    Attempts = "attempts",
    Bytes = "bytes",
    Cache = "cache",
    Cached = "cached",
    CallIndex = "call_index",
    CatalogId = "catalog_id",
    Caught = "caught",
    ChildExecutionId = "child_execution_id",
    Code = "code",
    CollectionSize = "collection_size",
    CommandId = "command_id",
    Concurrency = "concurrency",
    Context = "context",
    ContextRef = "context_ref",
    Correlation = "key",
    Cursor = "cursor",
    Data = "data",
    DeadlineMs = "deadline_ms",
    Dedup = "dedup",
    DefinitionSha256 = "definition_sha256",
    Depth = "depth",
    Done = "done",
    DurationMs = "duration_ms",
    EmittedAt = "emitted_at",
    Emitter = "emitter",
    Error = "error",
    Errors = "errors",
    ExecutionId = "execution_id",
    ExecutionPool = "execution_pool",
    Executor = "executor",
    Failed = "failed",
    FailedSteps = "failed_steps",
    Final = "final",
    FireAt = "fire_at",
    ForkedFrom = "forked_from",
    Frame = "frame",
    Frames = "frames",
    HeartbeatMs = "heartbeat_ms",
    Idempotency = "idempotency_key",
    In = "in",
    Index = "index",
    Iterations = "iterations",
    Iterator = "iterator",
    KeptSeq = "kept_seq",
    Label = "label",
    LeaseMs = "lease_ms",
    LeaseUntil = "lease_until",
    Limit = "limit",
    Lookback = "lookback",
    LoopId = "loop_id",
    MaxAttempts = "max_attempts",
    MaxBytes = "max_bytes",
    MaxInFlight = "max_in_flight",
    MaxMs = "max_ms",
    MaxRows = "max_rows",
    Name = "name",
    Next = "next",
    NotBefore = "not_before",
    OnTimeout = "on_timeout",
    Onward = "onward",
    Origin = "origin",
    Overlap = "overlap",
    Path = "path",
    Payload = "payload",
    Priority = "priority",
    Progress = "progress",
    Reason = "reason",
    ReceivedAt = "received_at",
    Reference = "reference",
    RerunOf = "rerun_of",
    Result = "result",
    ResultDigest = "key_sha256",
    ResultStep = "result_step",
    Results = "results",
    RetryInMs = "retry_in_ms",
    ReturnResult = "return_result",
    Row = "row",
    Rows = "rows",
    Run = "run",
    Scope = "scope",
    Segment = "segment",
    Seq = "seq",
    ServerUrl = "server_url",
    Set = "set",
    Sha256 = "sha256",
    SignalId = "signal_id",
    Slot = "slot",
    SlotName = "key",
    Source = "source",
    StartAt = "start_at",
    Started = "started",
    Stats = "stats",
    Status = "status",
    Stderr = "stderr",
    Stdout = "stdout",
    Step = "step",
    Success = "success",
    Tasks = "tasks",
    Timer = "timer",
    ToolConfig = "tool_config",
    ToolKind = "tool_kind",
    Total = "total",
    Trace = "trace",
    Value = "value",
    Values = "values",
    Version = "version",
    WorkerId = "worker_id",
    Workload = "workload",
}

impl MapBuilder {
    pub(super) fn with_field(mut self, key: Key, value: impl Into<Json>) -> Self {
        self.0.insert(key.shared(), value.into());
        self
    }

    pub(super) fn with_optional(self, key: Key, value: Option<impl Into<Json>>) -> Self {
        match value {
            Some(value) => self.with_field(key, value),
            None => self,
        }
    }

    /// Adds a map unless it is empty.
    pub(super) fn with_nonempty(self, key: Key, value: &JsonMap) -> Self {
        if value.is_empty() {
            return self;
        }
        self.with_field(key, value.clone())
    }

    pub(super) fn into_json(self) -> Json {
        Json::from(self.0)
    }

    fn into_option(self) -> Option<Json> {
        (!self.0.is_empty()).then(|| Json::from(self.0))
    }
}

impl From<JsonMap> for MapBuilder {
    fn from(map: JsonMap) -> Self {
        Self(map)
    }
}

/// The JSON parts of a record that is being written.
pub(super) struct RecordParts {
    pub(super) context: MapBuilder,
    pub(super) result: MapBuilder,
    pub(super) reference: Option<Json>,
    pub(super) meta: MapBuilder,
}

impl RecordParts {
    pub(super) fn new() -> Self {
        Self {
            context: MapBuilder::default(),
            result: MapBuilder::default(),
            reference: None,
            meta: MapBuilder::default(),
        }
    }

    /// Adds data under a key of the result, or as a reference beside it.
    pub(super) fn with_data(mut self, key: Key, data: Option<&EventData>) -> Self {
        match data {
            None => {}
            Some(EventData::Inline(value)) => {
                self.result = self.result.with_field(key, value.clone());
            }
            Some(EventData::External(reference)) => {
                self.reference = Some(reference.as_json().clone());
            }
        }
        self
    }

    pub(super) fn into_record(self, mut record: NewEvent) -> NewEvent {
        let inner = self.result.into_option();
        if inner.is_some() || self.reference.is_some() {
            let result = MapBuilder::default()
                .with_field(Key::Status, record.status.as_str())
                .with_optional(Key::Context, inner)
                .with_optional(Key::Reference, self.reference);
            record.result = Some(result.into_json());
        }
        record.context = self.context.into_option();
        record.meta = self.meta.into_option();
        record
    }
}

/// Converts step names to a list.
pub(super) fn step_names_json(steps: &[StepName]) -> Json {
    Json::list(steps.iter().map(Json::from))
}

/// A record that is being read.
pub(super) struct RecordFields<'r> {
    pub(super) record: &'r EventRecord,
    pub(super) context: RecordPart<'r>,
    pub(super) result: RecordPart<'r>,
    pub(super) meta: RecordPart<'r>,
    reference: Option<&'r Json>,
}

impl<'r> RecordFields<'r> {
    pub(super) fn from_record(record: &'r EventRecord) -> Self {
        let event = &record.event;
        let part = |name, value: Option<&'r Json>| RecordPart {
            record,
            name,
            map: value.and_then(Json::as_map),
        };
        let result = event.result.as_ref();
        Self {
            record,
            context: part("context", event.context.as_ref()),
            result: part("result.context", result.and_then(|result| result.get("context"))),
            meta: part("meta", event.meta.as_ref()),
            reference: result.and_then(|result| result.get("reference")),
        }
    }

    /// Reads data under a key of the result, or the reference beside it.
    pub(super) fn read_data(&self, key: Key) -> Result<Option<EventData>, DecodeError> {
        match self.reference {
            None => Ok(self.result.get(key).cloned().map(EventData::Inline)),
            Some(reference) => match Reference::new(reference.clone()) {
                Ok(reference) => Ok(Some(EventData::External(reference))),
                Err(_) => Err(self.decode_error("result.reference", "a reference")),
            },
        }
    }

    /// Reads the step of the record.
    pub(super) fn step_name(&self) -> Result<StepName, DecodeError> {
        self.optional_step_name()?
            .ok_or_else(|| self.decode_error("node_name", "the name of a step"))
    }

    pub(super) fn optional_step_name(&self) -> Result<Option<StepName>, DecodeError> {
        let name = self.record.event.node_name.clone().map(Text::into_shared);
        name.map(StepName::new)
            .transpose()
            .map_err(|_| self.decode_error("node_name", "the name of a step"))
    }

    pub(super) fn status(&self) -> &StatusName {
        &self.record.event.status
    }

    pub(super) fn decode_error(
        &self,
        field: impl fmt::Display,
        expected: &'static str,
    ) -> DecodeError {
        DecodeError {
            seq: self.record.seq,
            event: self.record.event.event_type.clone(),
            field: field.to_string(),
            expected,
        }
    }
}

/// One map of a record.
#[derive(Clone, Copy)]
pub(super) struct RecordPart<'r> {
    record: &'r EventRecord,
    name: &'static str,
    map: Option<&'r JsonMap>,
}

impl<'r> RecordPart<'r> {
    /// Returns a reader for a nested map.
    pub(super) fn nested(&self, map: &'r JsonMap) -> Self {
        Self { map: Some(map), ..*self }
    }

    /// Returns the whole map.
    pub(super) fn as_map(&self) -> Option<&'r JsonMap> {
        self.map
    }

    pub(super) fn get(&self, key: Key) -> Option<&'r Json> {
        self.map.and_then(|map| map.get(key.as_str()))
    }

    pub(super) fn key_error(&self, key: Key, expected: &'static str) -> DecodeError {
        DecodeError {
            seq: self.record.seq,
            event: self.record.event.event_type.clone(),
            field: format!("{}.{}", self.name, key.as_str()),
            expected,
        }
    }

    /// Reads a value with a function, if it is present.
    pub(super) fn read_optional<T>(
        &self,
        key: Key,
        expected: &'static str,
        read: impl FnOnce(&'r Json) -> Option<T>,
    ) -> Result<Option<T>, DecodeError> {
        match self.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.key_error(key, expected)),
        }
    }

    /// Reads a value with a function. The value must be present.
    pub(super) fn read_required<T>(
        &self,
        key: Key,
        expected: &'static str,
        read: impl FnOnce(&'r Json) -> Option<T>,
    ) -> Result<T, DecodeError> {
        self.read_optional(key, expected, read)?.ok_or_else(|| self.key_error(key, expected))
    }

    pub(super) fn read_text(&self, key: Key) -> Result<Option<Text>, DecodeError> {
        self.read_optional(key, "a string", |value| Text::new(value.as_str()?).ok())
    }

    pub(super) fn read_number<T: TryFrom<u64>>(&self, key: Key) -> Result<Option<T>, DecodeError> {
        self.read_optional(key, "a whole number", number_from_json)
    }

    pub(super) fn require_number<T: TryFrom<u64>>(&self, key: Key) -> Result<T, DecodeError> {
        self.read_required(key, "a whole number", number_from_json)
    }

    pub(super) fn read_time(&self, key: Key) -> Result<Option<Timestamp>, DecodeError> {
        self.read_optional(key, "a time", |value| Timestamp::parse(value.as_str()?).ok())
    }

    pub(super) fn read_error(&self, key: Key) -> Result<TaskError, DecodeError> {
        self.read_required(key, "an error", |value| Some(TaskError::from_json(value)))
    }

    pub(super) fn read_json(&self, key: Key) -> Option<Json> {
        self.get(key).filter(|value| !value.is_null()).cloned()
    }

    pub(super) fn read_map(&self, key: Key) -> Result<JsonMap, DecodeError> {
        let map = self.read_optional(key, "a map", |value| value.as_map().cloned())?;
        Ok(map.unwrap_or_default())
    }

    pub(super) fn read_step_names(&self, key: Key) -> Result<Vec<StepName>, DecodeError> {
        let read = |value: &Json| {
            let names = value.as_list()?.iter();
            names.map(|name| StepName::new(name.as_str()?).ok()).collect()
        };
        Ok(self.read_optional(key, "names of steps", read)?.unwrap_or_default())
    }
}

fn number_from_json<T: TryFrom<u64>>(value: &Json) -> Option<T> {
    T::try_from(value.as_u64()?).ok()
}
