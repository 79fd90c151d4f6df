//! A page of a log, as far as a replay reads it.

use noetl_types::replay::Gist;
use noetl_types::{
    CommandId, EventId, EventName, ExecutionId, Seq, StatusName, StoredEvent, json::JsonRef,
};

/// The next events of a log, in order.
#[derive(Debug, Clone)]
pub enum Gists {
    /// What a replay reads of them; all are of the current schema version.
    Rows(GistRows),
    /// The events themselves: of a store that has them at hand, or since some have to be lifted first.
    Whole(Vec<StoredEvent>),
}

impl Gists {
    /// How many events there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.rows.len(),
            Self::Whole(events) => events.len(),
        }
    }

    /// Whether the log has no more events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of text are still to be read; none of events that are there as such.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.bytes(),
            Self::Whole(_) => 0,
        }
    }

    /// The place of the last event.
    pub fn last(&self) -> Option<Seq> {
        match self {
            Self::Rows(rows) => rows.rows.last().map(|row| row.seq),
            Self::Whole(events) => events.last().map(|event| event.record.seq),
        }
    }
}

/// Rows of one execution whose texts stand one behind the other in a single one.
#[derive(Debug, Clone)]
pub struct GistRows {
    execution_id: ExecutionId,
    text: String,
    pub(crate) rows: Vec<GistRow>,
}

/// How many columns of a row are texts.
pub(crate) const TEXTS: usize = 10;

/// What of a row is no text, and how long its texts are.
#[derive(Debug, Clone)]
pub(crate) struct GistRow {
    pub(crate) event_id: EventId,
    pub(crate) seq: Seq,
    pub(crate) event_type: EventName,
    pub(crate) status: StatusName,
    pub(crate) command_id: Option<CommandId>,
    /// In the order in which [`GistRows::gists`] takes them.
    pub(crate) texts: [Option<u32>; TEXTS],
}

impl GistRows {
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn new(execution_id: ExecutionId) -> Self {
        Self {
            execution_id,
            text: String::new(),
            rows: Vec::new(),
        }
    }

    /// How many bytes the texts have.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Takes a text of the row that is being read.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// What a replay reads of each event.
    pub fn gists(&self) -> impl Iterator<Item = Gist<'_>> {
        let mut rest = self.text.as_str();
        self.rows.iter().map(move |row| {
            let mut texts = row.texts.iter().map(|length| {
                let length = usize::try_from((*length)?).unwrap_or(usize::MAX);
                let (text, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
                rest = behind;
                Some(text)
            });
            let mut next = || texts.next().flatten();
            Gist {
                execution_id: self.execution_id,
                event_id: row.event_id,
                seq: row.seq,
                event_type: &row.event_type,
                status: &row.status,
                command_id: row.command_id,
                node_name: next(),
                stage_id: next(),
                frame_id: next(),
                aggregate_type: next(),
                aggregate_id: next(),
                worker_id: next(),
                result: next().map(JsonRef::Text),
                meta: next().map(JsonRef::Text),
                payload_ref: next().map(JsonRef::Text),
                context: next().map(JsonRef::Text),
            }
        })
    }
}
