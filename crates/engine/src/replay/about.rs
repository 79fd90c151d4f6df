//! What an event is about: the ids that the entries go by, each sought where it may stand.

use std::borrow::Cow;

use noetl_types::json::{JsonRef, NoJson};
use noetl_types::replay::{EventNumber, Gist};
use noetl_types::{CommandId, EventId, StatusName, Text};

use super::meta::{Key, Meta};

/// An event on its way into the fold.
pub(super) struct About<'e> {
    pub(super) event: &'e Gist<'e>,
    pub(super) number: EventNumber,
    pub(super) stage_id: Option<Cow<'e, str>>,
    pub(super) frame_id: Option<Cow<'e, str>>,
    pub(super) command_id: Option<Cow<'e, str>>,
    meta: Meta<'e>,
    reference: Option<JsonRef<'e>>,
    outcome: Option<JsonRef<'e>>,
}

impl<'e> About<'e> {
    /// The digits of the command's id are put where the caller has a place for them.
    pub(super) fn new(event: &'e Gist<'e>, digits: &'e mut itoa::Buffer) -> Result<Self, NoJson> {
        let mut about = Self {
            event,
            number: EventNumber(event.event_id),
            stage_id: None,
            frame_id: None,
            command_id: None,
            meta: Meta::of(event.meta)?,
            reference: None,
            outcome: None,
        };
        if let Some(result) = event.result {
            result.fields(|name, value| match name {
                "reference" => about.reference = Some(value),
                "context" => about.outcome = Some(value),
                _ => {}
            })?;
        }
        about.stage_id = about.of_aggregate(event.stage_id, "stage", Key::StageId);
        about.frame_id = about.of_aggregate(event.frame_id, "frame", Key::FrameId);
        about.command_id = match event.command_id {
            Some(id) => Some(Cow::Borrowed(digits.format(id.get()))),
            None => about.meta_word(Key::CommandId).map(command_of),
        };
        Ok(about)
    }

    /// An id: of the column, else of the aggregate, else of the meta data.
    fn of_aggregate(&self, column: Option<&'e str>, kind: &str, key: Key) -> Option<Cow<'e, str>> {
        column
            .filter(|id| !id.is_empty())
            .or_else(|| self.aggregate(kind))
            .map(Cow::Borrowed)
            .or_else(|| self.meta_word(key))
    }

    /// The id of the aggregate without its kind in front, if it is of this kind.
    pub(super) fn aggregate(&self, kind: &str) -> Option<&'e str> {
        if self.event.aggregate_type != Some(kind) {
            return None;
        }
        let id = self.event.aggregate_id?;
        let bare = id
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix('/'))
            .unwrap_or(id);
        (!bare.is_empty()).then_some(bare)
    }

    pub(super) fn status(&self) -> &'e StatusName {
        self.event.status
    }

    /// The step, if the event names one.
    pub(super) fn node_name(&self) -> Option<&'e str> {
        self.event.node_name.filter(|name| !name.is_empty())
    }

    /// The step by the event itself, else by its meta data.
    pub(super) fn step_name(&self) -> Option<Text> {
        self.node_name()
            .map(Text::from)
            .or_else(|| self.meta_text(Key::StepName))
            .or_else(|| self.meta_text(Key::Step))
    }

    pub(super) fn meta(&self, key: Key) -> Option<JsonRef<'e>> {
        self.meta.get(key)
    }

    pub(super) fn meta_word(&self, key: Key) -> Option<Cow<'e, str>> {
        self.meta(key)?.word()
    }

    pub(super) fn meta_text(&self, key: Key) -> Option<Text> {
        self.meta_word(key).map(|word| Text::from(&*word))
    }

    pub(super) fn meta_number(&self, key: Key) -> Option<i64> {
        self.meta(key)?.number()
    }

    pub(super) fn meta_event(&self, key: Key) -> Option<EventNumber> {
        let said = self.meta(key)?.to_json().ok()?;
        EventId::from_json(&said).ok().map(EventNumber)
    }

    /// A field of what came out.
    pub(super) fn outcome(&self, key: &str) -> Result<Option<JsonRef<'e>>, NoJson> {
        match self.outcome {
            Some(outcome) => outcome.get(key),
            None => Ok(None),
        }
    }

    /// What the event refers to.
    pub(super) fn reference(&self) -> Option<JsonRef<'e>> {
        self.reference.filter(|reference| !reference.is_null())
    }
}

/// The command that a text names by its digits or its label; any other text stands for itself.
fn command_of(said: Cow<'_, str>) -> Cow<'_, str> {
    match CommandId::from_digits_or_label(&said) {
        Ok(id) => Cow::Owned(id.to_string()),
        Err(_) => said,
    }
}
