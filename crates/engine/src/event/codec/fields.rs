//! Building and reading the JSON parts of a record.

use std::fmt;
use std::sync::{Arc, LazyLock};

use noetl_types::record::{EventRecord, NewEvent};
use noetl_types::{
    EventName, Json, JsonMap, Seq, StatusName, StepName, TaskError, Text, Timestamp,
};

use crate::payload::{Data, Reference};

/// A record that is not the event that its type says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({event}) has no readable `{field}`: expected {expected}")]
pub struct DecodeError {
    /// Its place.
    pub seq: Seq,
    /// Its type.
    pub event: EventName,
    /// The field.
    pub field: String,
    /// What should have been there.
    pub expected: &'static str,
}

/// A map being built; what is absent leaves no trace.
#[derive(Default)]
pub(super) struct Map(JsonMap);

/// Declares the keys of events. Their texts are made once: every event of every run shares them.
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
    SharedBy = "key",
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

impl Map {
    pub(super) fn put(mut self, key: Key, value: impl Into<Json>) -> Self {
        self.0.insert(key.shared(), value.into());
        self
    }

    pub(super) fn maybe(self, key: Key, value: Option<impl Into<Json>>) -> Self {
        match value {
            Some(value) => self.put(key, value),
            None => self,
        }
    }

    /// A map that is left out when it is empty.
    pub(super) fn full(self, key: Key, value: &JsonMap) -> Self {
        if value.is_empty() {
            return self;
        }
        self.put(key, value.clone())
    }

    pub(super) fn into_json(self) -> Json {
        Json::from(self.0)
    }

    fn into_option(self) -> Option<Json> {
        (!self.0.is_empty()).then(|| Json::from(self.0))
    }
}

impl From<JsonMap> for Map {
    fn from(map: JsonMap) -> Self {
        Self(map)
    }
}

/// The parts of a record that are being written.
pub(super) struct Parts {
    pub(super) context: Map,
    pub(super) result: Map,
    pub(super) reference: Option<Json>,
    pub(super) meta: Map,
}

impl Parts {
    pub(super) fn new() -> Self {
        Self {
            context: Map::default(),
            result: Map::default(),
            reference: None,
            meta: Map::default(),
        }
    }

    /// Data goes under a key of the result, or by reference beside it.
    pub(super) fn data(mut self, key: Key, data: Option<&Data>) -> Self {
        match data {
            None => {}
            Some(Data::Inline(value)) => self.result = self.result.put(key, value.clone()),
            Some(Data::External(reference)) => {
                self.reference = Some(reference.as_json().clone());
            }
        }
        self
    }

    pub(super) fn write(self, mut record: NewEvent) -> NewEvent {
        let inner = self.result.into_option();
        if inner.is_some() || self.reference.is_some() {
            let result = Map::default()
                .put(Key::Status, record.status.as_str())
                .maybe(Key::Context, inner)
                .maybe(Key::Reference, self.reference);
            record.result = Some(result.into_json());
        }
        record.context = self.context.into_option();
        record.meta = self.meta.into_option();
        record
    }
}

/// The names of steps as a list.
pub(super) fn names(steps: &[StepName]) -> Json {
    Json::list(steps.iter().map(Json::from))
}

/// A record being read.
pub(super) struct Fields<'r> {
    pub(super) record: &'r EventRecord,
    pub(super) context: Part<'r>,
    pub(super) result: Part<'r>,
    pub(super) meta: Part<'r>,
    reference: Option<&'r Json>,
}

impl<'r> Fields<'r> {
    pub(super) fn of(record: &'r EventRecord) -> Self {
        let event = &record.event;
        let part = |name, value: Option<&'r Json>| Part {
            record,
            name,
            map: value.and_then(Json::as_map),
        };
        let result = event.result.as_ref();
        Self {
            record,
            context: part("context", event.context.as_ref()),
            result: part(
                "result.context",
                result.and_then(|result| result.get("context")),
            ),
            meta: part("meta", event.meta.as_ref()),
            reference: result.and_then(|result| result.get("reference")),
        }
    }

    /// Data under a key of the result, or by reference beside it.
    pub(super) fn data(&self, key: Key) -> Result<Option<Data>, DecodeError> {
        match self.reference {
            None => Ok(self.result.get(key).cloned().map(Data::Inline)),
            Some(reference) => match Reference::new(reference.clone()) {
                Ok(reference) => Ok(Some(Data::External(reference))),
                Err(_) => Err(self.wrong("result.reference", "a reference")),
            },
        }
    }

    /// The step that the record is about.
    pub(super) fn step(&self) -> Result<StepName, DecodeError> {
        self.step_if_any()?
            .ok_or_else(|| self.wrong("node_name", "the name of a step"))
    }

    pub(super) fn step_if_any(&self) -> Result<Option<StepName>, DecodeError> {
        let name = self.record.event.node_name.clone().map(Text::into_shared);
        name.map(StepName::new)
            .transpose()
            .map_err(|_| self.wrong("node_name", "the name of a step"))
    }

    pub(super) fn status(&self) -> &StatusName {
        &self.record.event.status
    }

    pub(super) fn wrong(&self, field: impl fmt::Display, expected: &'static str) -> DecodeError {
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
pub(super) struct Part<'r> {
    record: &'r EventRecord,
    name: &'static str,
    map: Option<&'r JsonMap>,
}

impl<'r> Part<'r> {
    /// The same reader for a map inside of it.
    pub(super) fn inner(&self, map: &'r JsonMap) -> Self {
        Self {
            map: Some(map),
            ..*self
        }
    }

    /// All of it.
    pub(super) fn all(&self) -> Option<&'r JsonMap> {
        self.map
    }

    pub(super) fn get(&self, key: Key) -> Option<&'r Json> {
        self.map.and_then(|map| map.get(key.as_str()))
    }

    pub(super) fn wrong(&self, key: Key, expected: &'static str) -> DecodeError {
        DecodeError {
            seq: self.record.seq,
            event: self.record.event.event_type.clone(),
            field: format!("{}.{}", self.name, key.as_str()),
            expected,
        }
    }

    /// A value read by a function, if it is there.
    pub(super) fn read<T>(
        &self,
        key: Key,
        expected: &'static str,
        read: impl FnOnce(&'r Json) -> Option<T>,
    ) -> Result<Option<T>, DecodeError> {
        match self.get(key) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => read(value)
                .map(Some)
                .ok_or_else(|| self.wrong(key, expected)),
        }
    }

    /// A value read by a function, which must be there.
    pub(super) fn need<T>(
        &self,
        key: Key,
        expected: &'static str,
        read: impl FnOnce(&'r Json) -> Option<T>,
    ) -> Result<T, DecodeError> {
        self.read(key, expected, read)?
            .ok_or_else(|| self.wrong(key, expected))
    }

    pub(super) fn text(&self, key: Key) -> Result<Option<Text>, DecodeError> {
        self.read(key, "a text", |value| Text::new(value.as_str()?).ok())
    }

    pub(super) fn number<T: TryFrom<u64>>(&self, key: Key) -> Result<Option<T>, DecodeError> {
        self.read(key, "a whole number", number_of)
    }

    pub(super) fn need_number<T: TryFrom<u64>>(&self, key: Key) -> Result<T, DecodeError> {
        self.need(key, "a whole number", number_of)
    }

    pub(super) fn time(&self, key: Key) -> Result<Option<Timestamp>, DecodeError> {
        self.read(key, "a time", |value| {
            Timestamp::parse(value.as_str()?).ok()
        })
    }

    pub(super) fn error(&self, key: Key) -> Result<TaskError, DecodeError> {
        self.need(key, "an error", |value| Some(TaskError::from_json(value)))
    }

    pub(super) fn json(&self, key: Key) -> Option<Json> {
        self.get(key).filter(|value| !value.is_null()).cloned()
    }

    pub(super) fn map(&self, key: Key) -> Result<JsonMap, DecodeError> {
        let map = self.read(key, "a map", |value| value.as_map().cloned())?;
        Ok(map.unwrap_or_default())
    }

    pub(super) fn names(&self, key: Key) -> Result<Vec<StepName>, DecodeError> {
        let read = |value: &Json| {
            let names = value.as_list()?.iter();
            names
                .map(|name| StepName::new(name.as_str()?).ok())
                .collect()
        };
        Ok(self.read(key, "names of steps", read)?.unwrap_or_default())
    }
}

fn number_of<T: TryFrom<u64>>(value: &Json) -> Option<T> {
    T::try_from(value.as_u64()?).ok()
}
