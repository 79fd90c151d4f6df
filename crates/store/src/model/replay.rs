//! A page of a log, restricted to the columns that a replay reads.

use noetl_types::replay::ReplayRow;
use noetl_types::{
    CommandId, EventId, EventName, ExecutionId, Seq, StatusName, StoredEvent, json::JsonRef,
};

#[derive(Debug, Clone)]
pub enum ReplayPage {
    /// The columns that a replay reads. All events have the current schema version.
    Rows(PackedReplayRows),
    /// Complete events, because the store has them in memory or some must be upgraded first.
    Events(Vec<StoredEvent>),
}

impl ReplayPage {
    /// Number of events.
    pub fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.rows.len(),
            Self::Events(events) => events.len(),
        }
    }

    /// True at the end of the log.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes of text that remain to be parsed. Zero for complete events.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.text_bytes(),
            Self::Events(_) => 0,
        }
    }

    /// Position of the last event.
    pub fn last_seq(&self) -> Option<Seq> {
        match self {
            Self::Rows(rows) => rows.rows.last().map(|row| row.seq),
            Self::Events(events) => events.last().map(|event| event.record.seq),
        }
    }
}

/// Rows of one execution whose texts are concatenated in one string.
#[derive(Debug, Clone)]
pub struct PackedReplayRows {
    execution_id: ExecutionId,
    text: String,
    pub(crate) rows: Vec<PackedReplayRow>,
}

/// Number of text columns per row.
pub(crate) const TEXT_COLUMN_COUNT: usize = 10;

/// The columns of a row that are not text, and the lengths of its texts.
#[derive(Debug, Clone)]
pub(crate) struct PackedReplayRow {
    pub(crate) event_id: EventId,
    pub(crate) seq: Seq,
    pub(crate) event_type: EventName,
    pub(crate) status: StatusName,
    pub(crate) command_id: Option<CommandId>,
    /// In the order of [`PackedReplayRows::replay_rows`].
    pub(crate) text_lengths: [Option<u32>; TEXT_COLUMN_COUNT],
}

impl PackedReplayRows {
    pub(crate) fn new(execution_id: ExecutionId) -> Self {
        Self { execution_id, text: String::new(), rows: Vec::new() }
    }

    /// Total size of the texts.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Appends a text of the row that is being read.
    pub(crate) fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Iterates over the rows.
    pub fn replay_rows(&self) -> impl Iterator<Item = ReplayRow<'_>> {
        let mut rest = self.text.as_str();
        self.rows.iter().map(move |row| {
            let mut texts = row.text_lengths.iter().map(|length| {
                let length = usize::try_from((*length)?).unwrap_or(usize::MAX);
                let (text, remaining) = rest.split_at_checked(length).unwrap_or((rest, ""));
                rest = remaining;
                Some(text)
            });
            let mut next = || texts.next().flatten();
            ReplayRow {
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
