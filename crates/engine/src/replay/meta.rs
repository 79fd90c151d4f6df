//! Metadata of an event, as far as the fold reads it.

use noetl_types::json::{InvalidJson, JsonRef};

/// Declares the metadata keys that the fold reads.
macro_rules! keys {
    ($($key:ident = $name:literal,)+) => {
        /// A metadata key.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Key {
            $($key,)+
        }

        impl Key {
            const COUNT: usize = [$($name),+].len();

            fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$key),)+
                    _ => None,
                }
            }
        }
    };
}

keys! {
    Attempt = "attempt",
    BusinessObject = "business_object",
    BusinessObjectId = "business_object_id",
    BusinessObjectType = "business_object_type",
    CollectionSize = "collection_size",
    CommandId = "command_id",
    EventsEmitted = "events_emitted",
    FailedCount = "failed_count",
    FrameCount = "frame_count",
    FrameId = "frame_id",
    Kind = "kind",
    LoopEpochId = "__loop_epoch_id",
    LoopEventId = "loop_event_id",
    LoopId = "loop_id",
    ObjectId = "object_id",
    ObjectType = "object_type",
    OutputRef = "output_ref",
    ParentCommandId = "parent_command_id",
    ParentFrameId = "parent_frame_id",
    ParentStageId = "parent_stage_id",
    RowCount = "row_count",
    StageId = "stage_id",
    StageKind = "stage_kind",
    Step = "step",
    StepName = "step_name",
    Total = "total",
    Version = "version",
    WorkerId = "worker_id",
    WorkerLocator = "worker_locator",
}

/// Values of these keys. The metadata is traversed once for all of them.
pub(super) struct EventMeta<'e> {
    values: [Option<JsonRef<'e>>; Key::COUNT],
}

impl<'e> EventMeta<'e> {
    pub(super) fn from_json(data: Option<JsonRef<'e>>) -> Result<Self, InvalidJson> {
        let mut values = [None; Key::COUNT];
        if let Some(data) = data {
            data.for_each_field(|name, value| {
                if let Some(key) = Key::parse(name) {
                    values[key as usize] = Some(value);
                }
            })?;
        }
        Ok(Self { values })
    }

    pub(super) fn get(&self, key: Key) -> Option<JsonRef<'e>> {
        self.values[key as usize]
    }
}
