//! The meta data of an event, as far as the fold reads it.

use noetl_types::json::{JsonRef, NoJson};

/// Declares the keys that the fold asks for.
macro_rules! keys {
    ($($key:ident = $name:literal,)+) => {
        /// A key of the meta data.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Key {
            $($key,)+
        }

        impl Key {
            const COUNT: usize = [$($name),+].len();

            fn read(name: &str) -> Option<Self> {
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

/// The values under those keys: the data is walked over once, however many of them are asked for.
pub(super) struct Meta<'e> {
    values: [Option<JsonRef<'e>>; Key::COUNT],
}

impl<'e> Meta<'e> {
    pub(super) fn of(data: Option<JsonRef<'e>>) -> Result<Self, NoJson> {
        let mut values = [None; Key::COUNT];
        if let Some(data) = data {
            data.fields(|name, value| {
                if let Some(key) = Key::read(name) {
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
