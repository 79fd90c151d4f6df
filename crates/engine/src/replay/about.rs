//! What an event is about: the ids that the entries go by, each sought where it may stand.

use noetl_types::record::EventRecord;
use noetl_types::replay::EventNumber;
use noetl_types::{CommandId, EventId, Json, StatusName, Text};

/// An event on its way into the fold.
pub(super) struct About<'e> {
    pub(super) record: &'e EventRecord,
    pub(super) number: EventNumber,
    pub(super) stage_id: Option<Text>,
    pub(super) frame_id: Option<Text>,
    pub(super) command_id: Option<Text>,
}

impl<'e> About<'e> {
    pub(super) fn new(record: &'e EventRecord) -> Self {
        let event = &record.event;
        let mut about = Self {
            record,
            number: EventNumber(event.event_id),
            stage_id: None,
            frame_id: None,
            command_id: None,
        };
        about.stage_id = about.of_aggregate(event.stage_id.as_ref(), "stage", "stage_id");
        about.frame_id = about.of_aggregate(event.frame_id.as_ref(), "frame", "frame_id");
        about.command_id = match event.command_id {
            Some(id) => Some(id.to_string().into()),
            None => about.meta_text("command_id").map(command_of),
        };
        about
    }

    /// An id: of the column, else of the aggregate, else of the meta data.
    fn of_aggregate(&self, column: Option<&Text>, kind: &str, key: &str) -> Option<Text> {
        if let Some(id) = column.filter(|id| !id.is_empty()) {
            return Some(id.clone());
        }
        self.aggregate(kind).or_else(|| self.meta_text(key))
    }

    /// The id of the aggregate without its kind in front, if it is of this kind.
    pub(super) fn aggregate(&self, kind: &str) -> Option<Text> {
        let event = &self.record.event;
        if event.aggregate_type.as_deref() != Some(kind) {
            return None;
        }
        let id = event.aggregate_id.as_deref()?;
        let bare = id
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix('/'))
            .unwrap_or(id);
        (!bare.is_empty()).then(|| bare.into())
    }

    pub(super) fn status(&self) -> &StatusName {
        &self.record.event.status
    }

    /// The step, if the event names one.
    pub(super) fn node_name(&self) -> Option<&Text> {
        let name = self.record.event.node_name.as_ref();
        name.filter(|name| !name.is_empty())
    }

    /// The step by the event itself, else by its meta data.
    pub(super) fn step_name(&self) -> Option<Text> {
        self.node_name()
            .cloned()
            .or_else(|| self.meta_text("step_name"))
            .or_else(|| self.meta_text("step"))
    }

    pub(super) fn meta(&self, key: &str) -> Option<&'e Json> {
        self.record.event.meta.as_ref()?.get(key)
    }

    pub(super) fn meta_text(&self, key: &str) -> Option<Text> {
        self.meta(key).and_then(text_of)
    }

    pub(super) fn meta_number(&self, key: &str) -> Option<i64> {
        self.meta(key).and_then(number_of)
    }

    pub(super) fn meta_event(&self, key: &str) -> Option<EventNumber> {
        let id = EventId::from_json(self.meta(key)?).ok()?;
        Some(EventNumber(id))
    }

    /// A field of what came out.
    pub(super) fn outcome(&self, key: &str) -> Option<&'e Json> {
        let result = self.record.event.result.as_ref()?;
        result.get("context")?.get(key)
    }

    /// What the event refers to.
    pub(super) fn reference(&self) -> Option<&'e Json> {
        let result = self.record.event.result.as_ref()?;
        result
            .get("reference")
            .filter(|reference| !reference.is_null())
    }
}

/// The command that a text names by its digits or its label; any other text stands for itself.
fn command_of(said: Text) -> Text {
    match CommandId::from_digits_or_label(&said) {
        Ok(id) => id.to_string().into(),
        Err(_) => said,
    }
}

/// An id as text: logs hold texts and numbers.
pub(super) fn text_of(value: &Json) -> Option<Text> {
    match value {
        Json::Str(text) if !text.is_empty() => Some(Text::from(&**text)),
        Json::Int(number) => Some(number.to_string().into()),
        Json::UInt(number) => Some(number.to_string().into()),
        Json::Null
        | Json::Bool(_)
        | Json::Float(_)
        | Json::Str(_)
        | Json::List(_)
        | Json::Map(_) => None,
    }
}

/// A count: logs hold numbers and texts of digits.
pub(super) fn number_of(value: &Json) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}
