//! View of an event for the fold: the ids of its entries, each read from the first field that
//! contains it.

use std::borrow::Cow;

use noetl_types::json::{InvalidJson, JsonRef};
use noetl_types::replay::{EventNumber, ReplayRow};
use noetl_types::{CommandId, EventId, StatusName, Text};

/// View of an event that is being folded.
pub(super) struct FoldedEvent<'e> {
    pub(super) event: &'e ReplayRow<'e>,
    pub(super) number: EventNumber,
    pub(super) stage_id: Option<Cow<'e, str>>,
    pub(super) frame_id: Option<Cow<'e, str>>,
    pub(super) command_id: Option<Cow<'e, str>>,
    meta: EventMeta<'e>,
    reference: Option<JsonRef<'e>>,
    outcome: Option<JsonRef<'e>>,
}

impl<'e> FoldedEvent<'e> {
    /// Creates the view. The caller provides a buffer for the digits of the command id.
    pub(super) fn new(
        event: &'e ReplayRow<'e>,
        digits: &'e mut itoa::Buffer,
    ) -> Result<Self, InvalidJson> {
        let mut view = Self {
            event,
            number: event.event_id.into(),
            stage_id: None,
            frame_id: None,
            command_id: None,
            meta: EventMeta::from_json(event.meta)?,
            reference: None,
            outcome: None,
        };
        if let Some(result) = event.result {
            result.for_each_field(|name, value| match name {
                "reference" => view.reference = Some(value),
                "context" => view.outcome = Some(value),
                _ => {}
            })?;
        }
        view.stage_id = view.find_id(event.stage_id, "stage", Key::StageId);
        view.frame_id = view.find_id(event.frame_id, "frame", Key::FrameId);
        view.command_id = match event.command_id {
            Some(id) => Some(Cow::Borrowed(digits.format(id.get()))),
            None => view.meta_name_or_id(Key::CommandId).map(parse_command_id),
        };
        Ok(view)
    }

    /// Returns an id from the column, else from the aggregate, else from the metadata.
    fn find_id(&self, column: Option<&'e str>, kind: &str, key: Key) -> Option<Cow<'e, str>> {
        column
            .filter(|id| !id.is_empty())
            .or_else(|| self.aggregate_id(kind))
            .map(Cow::Borrowed)
            .or_else(|| self.meta_name_or_id(key))
    }

    /// Returns the id of the aggregate without its type prefix, if it has this type.
    pub(super) fn aggregate_id(&self, kind: &str) -> Option<&'e str> {
        if self.event.aggregate_type != Some(kind) {
            return None;
        }
        let id = self.event.aggregate_id?;
        let bare = id.strip_prefix(kind).and_then(|rest| rest.strip_prefix('/')).unwrap_or(id);
        (!bare.is_empty()).then_some(bare)
    }

    pub(super) fn status(&self) -> &'e StatusName {
        self.event.status
    }

    /// Name of the step, if the event has one.
    pub(super) fn node_name(&self) -> Option<&'e str> {
        self.event.node_name.filter(|name| !name.is_empty())
    }

    /// Name of the step from the event, else from its metadata.
    pub(super) fn step_name(&self) -> Option<Text> {
        self.node_name()
            .map(Text::from)
            .or_else(|| self.meta_text(Key::StepName))
            .or_else(|| self.meta_text(Key::Step))
    }

    pub(super) fn meta(&self, key: Key) -> Option<JsonRef<'e>> {
        self.meta.get(key)
    }

    pub(super) fn meta_name_or_id(&self, key: Key) -> Option<Cow<'e, str>> {
        self.meta(key)?.as_name_or_id()
    }

    pub(super) fn meta_text(&self, key: Key) -> Option<Text> {
        self.meta_name_or_id(key).map(|name| Text::from(&*name))
    }

    pub(super) fn meta_number(&self, key: Key) -> Option<i64> {
        self.meta(key)?.as_count()
    }

    pub(super) fn meta_event(&self, key: Key) -> Option<EventNumber> {
        let value = self.meta(key)?.to_json().ok()?;
        EventId::from_json(&value).ok().map(EventNumber::from)
    }

    /// Returns a field of the outcome.
    pub(super) fn outcome(&self, key: &str) -> Result<Option<JsonRef<'e>>, InvalidJson> {
        match self.outcome {
            Some(outcome) => outcome.get(key),
            None => Ok(None),
        }
    }

    /// Reference of the event.
    pub(super) fn reference(&self) -> Option<JsonRef<'e>> {
        self.reference.filter(|reference| !reference.is_null())
    }
}

/// Parses a command id from its digits or its label. Any other text is returned unchanged.
fn parse_command_id(text: Cow<'_, str>) -> Cow<'_, str> {
    match CommandId::from_digits_or_label(&text) {
        Ok(id) => Cow::Owned(id.to_string()),
        Err(_) => text,
    }
}

/// Declares the metadata keys that the fold reads.
macro_rules! keys {
    ($($key:ident $name:literal,)+) => {
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
    Attempt "attempt", BusinessObject "business_object", BusinessObjectId "business_object_id",
    BusinessObjectType "business_object_type", CollectionSize "collection_size",
    CommandId "command_id", EventsEmitted "events_emitted", FailedCount "failed_count",
    FrameCount "frame_count", FrameId "frame_id", Kind "kind", LoopEpochId "__loop_epoch_id",
    LoopEventId "loop_event_id", LoopId "loop_id", ObjectId "object_id", ObjectType "object_type",
    OutputRef "output_ref", ParentCommandId "parent_command_id", ParentFrameId "parent_frame_id",
    ParentStageId "parent_stage_id", RowCount "row_count", StageId "stage_id",
    StageKind "stage_kind", Step "step", StepName "step_name", Total "total", Version "version",
    WorkerId "worker_id", WorkerLocator "worker_locator",
}

/// Values of these keys. The metadata is traversed once for all of them.
struct EventMeta<'e> {
    values: [Option<JsonRef<'e>>; Key::COUNT],
}

impl<'e> EventMeta<'e> {
    fn from_json(data: Option<JsonRef<'e>>) -> Result<Self, InvalidJson> {
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

    fn get(&self, key: Key) -> Option<JsonRef<'e>> {
        self.values[key as usize]
    }
}
