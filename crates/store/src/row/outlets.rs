//! Rows of the outbox, of what was refused, and of streams.

use noetl_types::{FeedPosition, Json, Text, json};

use super::cell::{Cell, CellProblem, CellRef, FromCell, ToCell};
use super::sent::joined_body;
use super::table::{Cells, Corrupt, Kind, Reader, Table};
use crate::model::{
    ClaimedMessage, LogEpoch, OutboxRow, OutboxStatus, Payload, Quarantined, StreamCursor, subject,
};
use crate::seal::{Sealed, SealedEvent};

/// A table whose rows go with their executions.
pub(crate) struct Cleaned {
    pub(crate) table: &'static str,
    /// The column that names the execution.
    pub(crate) execution: &'static str,
    /// The columns that name a row.
    #[cfg_attr(
        not(feature = "sqlite"),
        expect(dead_code, reason = "a server finds rows by their places")
    )]
    pub(crate) key: &'static str,
    /// The columns that can be large.
    #[cfg_attr(
        not(feature = "sqlite"),
        expect(dead_code, reason = "on a server a step is bounded by rows alone")
    )]
    pub(crate) large: &'static [&'static str],
}

impl Cleaned {
    const fn new(table: &'static str, key: &'static str, large: &'static [&'static str]) -> Self {
        Self {
            table,
            execution: "execution_id",
            key,
            large,
        }
    }
}

/// All of them but the log itself and the executions. The last one has no index by execution, and few
/// rows: it is looked at when the others have nothing left.
pub(crate) static CLEANED: &[Cleaned] = &[
    Cleaned::new("command", "command_id", &["error"]),
    Cleaned::new("timer", "execution_id, timer_id", &[]),
    Cleaned::new("wait", "execution_id, command_id, number", &["detail"]),
    Cleaned::new("errand", "execution_id, errand_id", &["body"]),
    Cleaned::new("result_store", "execution_id, result_id", &["data"]),
    Cleaned::new("transient", "execution_id, var_name", &["var_value"]),
    Cleaned::new(
        "projection_snapshot",
        "execution_id, kind, fold_version, version",
        &["state"],
    ),
    Cleaned::new("outbox", "outbox_id", &["payload", "last_error"]),
    Cleaned {
        execution: "origin_execution_id",
        ..Cleaned::new(
            "step_cache",
            "tenant_id, scope, key_sha256",
            &["result", "result_ref"],
        )
    },
    Cleaned::new(
        "concurrency_slot",
        "tenant_id, slot_key, execution_id, step_name, run",
        &[],
    ),
];

/// What an append says of a row. The store puts the life of the log before the message.
pub(crate) static NEW_OUTBOX: Table = Table {
    name: "outbox",
    columns: &[
        ("execution_id", Kind::Int),
        ("event_id", Kind::Int),
        ("message", Kind::Text),
        ("subject", Kind::Text),
        ("available_at", Kind::Time),
        ("bytes", Kind::Int),
    ],
};

/// A row as operators see it.
pub(crate) static OUTBOX: Table = Table {
    name: "outbox",
    columns: &[
        ("outbox_id", Kind::Int),
        ("event_id", Kind::Int),
        ("execution_id", Kind::Int),
        ("subject", Kind::Text),
        ("message_id", Kind::Text),
        ("payload_codec", Kind::Text),
        ("status", Kind::Text),
        ("attempts", Kind::Int),
        ("forgiven", Kind::Int),
        ("available_at", Kind::Time),
        ("claim_owner", Kind::Text),
        ("locked_at", Kind::Time),
        ("lease_until", Kind::Time),
        ("published_at", Kind::Time),
        ("dead_at", Kind::Time),
        ("discarded_at", Kind::Time),
        ("last_error", Kind::Text),
        ("created_at", Kind::Time),
    ],
};

/// A row as a publisher gets it, before the columns of its event.
pub(crate) static CLAIMED: Table = Table {
    name: "outbox",
    columns: &[
        ("outbox_id", Kind::Int),
        ("event_id", Kind::Int),
        ("execution_id", Kind::Int),
        ("subject", Kind::Text),
        ("message_id", Kind::Text),
        ("payload", Kind::Json),
        ("payload_codec", Kind::Text),
        ("attempts", Kind::Int),
    ],
};

/// What the error of a row says that was claimed a number of times that is none.
pub(crate) const NO_COUNTS: &str =
    "the row is damaged: it was claimed a number of times that is none";

/// What becomes of a count of such a row that is too large: so many that no fence is used twice which
/// anybody was given, and so few that the row can still be sent out again and again.
pub(crate) const LARGEST_COUNT: u32 = u32::MAX - 1_000_000;

/// Something that was refused.
pub(crate) static QUARANTINE: Table = Table {
    name: "outbox_quarantine",
    columns: &[
        ("quarantine_id", Kind::Int),
        ("source", Kind::Text),
        ("raw", Kind::Text),
        ("code", Kind::Text),
        ("message", Kind::Text),
        ("created_at", Kind::Time),
        ("raw_sha256", Kind::Bytes),
    ],
};

/// Where a stream stands.
pub(crate) static STREAM: Table = Table {
    name: "stream_cursor",
    columns: &[
        ("name", Kind::Text),
        ("tx", Kind::Int),
        ("position", Kind::Int),
        ("epoch", Kind::Int),
        ("owner", Kind::Text),
        ("lease_until", Kind::Time),
        ("log_epoch", Kind::Int),
        ("stream_created_at", Kind::Time),
        ("updated_at", Kind::Time),
    ],
};

impl ToCell for OutboxStatus {
    fn to_cell(&self) -> Cell {
        self.as_str().to_cell()
    }
}

impl FromCell for OutboxStatus {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        let text = Text::from_cell(cell)?;
        Self::parse(&text).map_err(CellProblem::value)
    }
}

impl ToCell for LogEpoch {
    fn to_cell(&self) -> Cell {
        self.get().to_cell()
    }
}

impl FromCell for LogEpoch {
    fn from_cell(cell: CellRef<'_>) -> Result<Self, CellProblem> {
        u64::from_cell(cell).map(Self::new)
    }
}

/// About how many bytes a message has besides what its event says.
const ENVELOPE: usize = 1024;

/// The rows of an append that asks for them, each with the size of its message: a claim is bounded
/// without looking at a single event then.
pub(super) fn outbox_rows(sealed: &Sealed, events: &[Vec<Cell>]) -> Vec<Vec<Cell>> {
    let row = |(event, cells): (&SealedEvent, &Vec<Cell>)| {
        let record = &event.record;
        let said = &record.event;
        let message = format!("{}:{}", said.execution_id, record.seq);
        cells![
            said.execution_id,
            said.event_id,
            *message,
            subject(&said.tenant_id, &said.event_type),
            record.ingest_time,
            i64::try_from(cells.iter().map(Cell::bytes_about).sum::<usize>() + ENVELOPE)
                .unwrap_or(i64::MAX),
        ]
    };
    let events = sealed.events.iter().zip(events);
    let events = events.filter(|_| sealed.append.outbox);
    events.map(row).collect()
}

/// Puts a row together as operators see it.
pub(crate) fn outbox_row(cells: Cells<'_>) -> Result<OutboxRow, Corrupt> {
    let mut row = Reader::new(&OUTBOX, cells);
    Ok(OutboxRow {
        outbox_id: row.take()?,
        event_id: row.take()?,
        execution_id: row.take()?,
        subject: row.take()?,
        message_id: row.take()?,
        payload_codec: row.take()?,
        status: row.take()?,
        attempts: row.take()?,
        forgiven: row.take()?,
        available_at: row.take()?,
        claim_owner: row.take()?,
        locked_at: row.take()?,
        lease_until: row.take()?,
        published_at: row.take()?,
        dead_at: row.take()?,
        discarded_at: row.take()?,
        last_error: row.take()?,
        created_at: row.take()?,
    })
}

/// The payload that somebody else wrote. What is no JSON of this system is handed on as a text: one
/// odd row must not keep a publisher from all others.
fn payload_of(text: Text) -> Json {
    json::parse(text.as_bytes()).unwrap_or_else(|_| text.into())
}

/// Puts a claimed row together with its event, whose columns stand behind its own.
pub(crate) fn claimed_message(mut cells: Cells<'_>) -> Result<ClaimedMessage, Corrupt> {
    let mut row = Reader::new(&CLAIMED, cells.split(CLAIMED.columns.len()));
    let (outbox_id, event_id, execution_id) = (row.take()?, row.take()?, row.take()?);
    let (subject, message_id) = (row.take()?, row.take()?);
    let payload = match row.take::<Option<Text>>()? {
        Some(text) => Payload::Given(payload_of(text)),
        None => joined_body(cells)?.map_or(Payload::Given(Json::Null), Payload::Event),
    };
    Ok(ClaimedMessage {
        outbox_id,
        event_id,
        execution_id,
        subject,
        message_id,
        payload,
        payload_codec: row.take()?,
        attempts: row.take()?,
    })
}

/// Takes what was refused apart.
pub(crate) fn quarantine_row(refused: &Quarantined) -> Vec<Cell> {
    cells![
        refused.quarantine_id,
        refused.source,
        refused.raw,
        refused.code,
        refused.message,
        refused.created_at,
        refused.raw_sha256(),
    ]
}

/// Puts what was refused together.
pub(crate) fn quarantined(cells: Cells<'_>) -> Result<Quarantined, Corrupt> {
    let mut row = Reader::new(&QUARANTINE, cells);
    Ok(Quarantined {
        quarantine_id: row.take()?,
        source: row.take()?,
        raw: row.take()?,
        code: row.take()?,
        message: row.take()?,
        created_at: row.take()?,
    })
}

/// Takes the place of a stream apart.
pub(crate) fn stream_row(cursor: &StreamCursor) -> Vec<Cell> {
    cells![
        cursor.name,
        cursor.position.tx,
        cursor.position.position,
        cursor.epoch,
        cursor.owner,
        cursor.lease_until,
        cursor.log_epoch,
        cursor.stream_created_at,
        cursor.updated_at,
    ]
}

/// Puts the place of a stream together.
pub(crate) fn stream_cursor(cells: Cells<'_>) -> Result<StreamCursor, Corrupt> {
    let mut row = Reader::new(&STREAM, cells);
    Ok(StreamCursor {
        name: row.take()?,
        position: FeedPosition {
            tx: row.take()?,
            position: row.take()?,
        },
        epoch: row.take()?,
        owner: row.take()?,
        lease_until: row.take()?,
        log_epoch: row.take()?,
        stream_created_at: row.take()?,
        updated_at: row.take()?,
    })
}
