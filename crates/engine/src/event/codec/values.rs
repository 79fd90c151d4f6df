//! Values of single keys.

use noetl_playbook::command_machine::Continuation;
use noetl_playbook::model::{CacheScope, ConcurrencyOverlap, ToolKind};
use noetl_types::report::{RowError, TaskReport, TaskStatus};
use noetl_types::{
    ByteSize, CatalogId, CommandId, Digest, ErrorCode, EventId, ExecutionId, Json, JsonMap, Millis,
    PlaybookPath, PoolName, Seq, SignalId, StepName, TaskError, Text, Timestamp, WorkerId,
};

use super::fields::{FieldError, FieldValue, Key, MapFields, MapWriter, PartReader, map_fields};
use super::suspension::{part_from_json, part_to_json};
use crate::cache::{CacheKey, ResultOrigin};
use crate::event::{
    ChildTimeoutAction, CommandTimer, CtxSource, CursorSettings, ExpiryReason, FrameRequest,
    IterationError, LoopStats,
};
use crate::payload::Reference;
use crate::slot::{ExecutionSlot, Slot};

/// Declares types of values: the description in errors, the form in the log, its reader, and the
/// value of an absent key if the key is not required.
macro_rules! field_values {
    ($($type:ty, $expected:literal, $to_json:expr, $from_json:expr $(, $absent:expr)?;)+) => {
        $(impl FieldValue for $type {
            const EXPECTED: &'static str = $expected;

            fn to_field(&self) -> Option<Json> {
                let to_json: fn(&Self) -> Json = $to_json;
                Some(to_json(self))
            }

            fn from_field(value: &Json) -> Option<Self> {
                let from_json: fn(&Json) -> Option<Self> = $from_json;
                from_json(value)
            }

            $(fn if_absent() -> Option<Self> {
                Some($absent)
            })?
        })+
    };
}

field_values! {
    bool, "a bool", |flag| Json::from(*flag), Json::as_bool;
    u32, "a whole number", |number| Json::from(*number), |json| Self::try_from(json.as_u64()?).ok();
    u64, "a whole number", |number| Json::from(*number), Json::as_u64;
    i16, "a small whole number", |number| Json::from(i32::from(*number)),
        |json| Self::try_from(json.as_i64()?).ok();
    Millis, "a whole number", |time| Json::from(time.as_ms()), |json| json.as_u64().map(Self::from_ms);
    ByteSize, "a whole number", |size| Json::from(size.as_bytes()),
        |json| json.as_u64().map(Self::from_bytes);
    Seq, "a sequence number", |seq| Json::from(seq.get()), |json| Self::new(json.as_i64()?).ok();
    Timestamp, "a time", |time| Json::from(*time), |json| Self::parse(json.as_str()?).ok();
    Text, "a string", |text| Json::from(text), |json| Self::new(json.as_str()?).ok();
    CatalogId, "an id", |id| Json::from(id.to_string()), |json| Self::from_json(json).ok();
    CommandId, "an id", |id| Json::from(id.to_string()), |json| Self::from_json(json).ok();
    EventId, "an id", |id| Json::from(id.to_string()), |json| Self::from_json(json).ok();
    ExecutionId, "an id", |id| Json::from(id.to_string()), |json| Self::from_json(json).ok();
    SignalId, "an id", |id| Json::from(id.to_string()), |json| Self::from_json(json).ok();
    Digest, "a digest", |digest| Json::from(digest.to_string()),
        |json| Self::parse(json.as_str()?).ok();
    PlaybookPath, "a path", |path| Json::from(path), |json| Self::new(json.as_str()?).ok();
    PoolName, "a pool", |pool| Json::from(pool), |json| Self::new(json.as_str()?).ok();
    WorkerId, "a worker id", |worker| Json::from(worker), |json| Self::new(json.as_str()?).ok();
    ToolKind, "a tool kind", |kind| Json::from(kind.as_str()), |json| Self::parse(json.as_str()?);
    TaskStatus, "a status", |status| Json::from(status.as_str()), |json| Self::parse(json.as_str()?);
    CtxSource, "`task`, `step` or `arc`", |source| Json::from(source.as_str()),
        |json| Self::parse(json.as_str()?);
    CommandTimer, "the name of a timer", |timer| Json::from(timer.as_str()),
        |json| Self::parse(json.as_str()?);
    ExpiryReason, "a reason", |reason| Json::from(reason.as_str()),
        |json| Self::parse(json.as_str()?);
    ChildTimeoutAction, "`abandon` or `cancel`", |action| part_to_json(action), part_from_json;
    ErrorCode, "a code", |code| Json::from(code.as_str()), |json| Self::parse(json.as_str()?).ok();
    ConcurrencyOverlap, "an overlap", |overlap| Json::from(overlap.as_str()),
        |json| Self::parse(json.as_str()?);
    CacheScope, "a scope", |scope| Json::from(scope.as_str()), |json| Self::parse(json.as_str()?);
    TaskError, "an error", Self::to_json, |json| Some(Self::from_json(json));
    Reference, "a reference", |reference| reference.as_json().clone(),
        |json| Self::new(json.clone()).ok();
    Continuation, "a continuation", |continuation| Json::from(continuation.to_json()),
        |json| Self::from_json(json.as_map()?);
    Vec<StepName>, "names of steps", |steps| Json::list(steps.iter().map(Json::from)),
        |json| json.as_list()?.iter().map(|step| StepName::new(step.as_str()?).ok()).collect(),
        Self::new();
    Json, "a value", Self::clone, |json| Some(json.clone()), Self::Null;
    JsonMap, "a map", |map| Json::from(map.clone()), |json| json.as_map().cloned(), Self::new();
}

map_fields!(CacheKey, "a cache key", { scope: Scope, key_sha256: ResultDigest, });
map_fields!(ResultOrigin, "a result origin", { execution_id: ExecutionId, seq: Seq, });
map_fields!(Slot, "a slot", { key: SlotName, limit: Limit, });
map_fields!(FrameRequest, "a frame request", {
    max_rows: MaxRows, lease: LeaseMs, heartbeat: HeartbeatMs,
});
map_fields!(CursorSettings, "cursor settings", {
    chains: MaxInFlight, max_rows: MaxRows, max_time: MaxMs, max_bytes: MaxBytes, lease: LeaseMs,
    heartbeat: HeartbeatMs, max_attempts: MaxAttempts,
});
map_fields!(LoopStats, "a map", {
    total: Total, success: Success, failed: Failed, frames: Frames,
});
map_fields!(TaskReport, "a list of tasks", {
    label: Label, status: Status, attempts: Attempts, duration_ms: DurationMs, stdout: Stdout,
    stderr: Stderr,
});
map_fields!(IterationError, "a list of errors", { index: Index, error: Error, });
map_fields!(RowError, "a list of errors", { row: Row, error: Error, });

impl FieldValue for ExecutionSlot {
    const EXPECTED: &'static str = "an execution slot";

    fn to_field(&self) -> Option<Json> {
        let mut map = MapWriter::default();
        map.put(Key::SlotName, &self.slot.key);
        map.put(Key::Limit, &self.slot.limit);
        map.put(Key::Overlap, &self.overlap);
        Some(map.into_json())
    }

    fn from_field(value: &Json) -> Option<Self> {
        let map = PartReader::nested(value.as_map()?);
        Some(Self { slot: Slot::read_map(&map).ok()?, overlap: map.read(Key::Overlap).ok()? })
    }
}

impl<T: FieldValue> FieldValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn to_field(&self) -> Option<Json> {
        self.as_ref().and_then(T::to_field)
    }

    fn from_field(value: &Json) -> Option<Self> {
        T::from_field(value).map(Some)
    }

    fn if_absent() -> Option<Self> {
        Some(None)
    }
}

/// An empty list is omitted.
impl<T: FieldValue + MapFields> FieldValue for Vec<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn to_field(&self) -> Option<Json> {
        (!self.is_empty()).then(|| Json::list(self.iter().map(T::to_map)))
    }

    fn from_field(value: &Json) -> Option<Self> {
        value.as_list()?.iter().map(T::from_field).collect()
    }

    fn if_absent() -> Option<Self> {
        Some(Self::new())
    }
}
