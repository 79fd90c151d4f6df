//! Cursors of the streams to which events are published, and log epochs.

use async_trait::async_trait;
use noetl_types::{FeedPosition, Text, Timestamp};

use crate::error::StoreError;
use crate::model::{
    CursorMove, LogEpoch, StreamCursor, StreamLeaseOutcome, StreamLeaseRequest, StreamOwner,
    StreamStart,
};
use crate::row::{Cell, STREAM, ToRow as _, cells};
use crate::sql::{Database, Durability, PlanMode, Session, Statement};

/// The part of a [`crate::Store`] that publishers of streams use.
#[async_trait]
pub trait StreamCursorStore {
    /// Returns the current log epoch.
    async fn log_epoch(&self) -> Result<LogEpoch, StoreError>;

    /// Starts a new log epoch. All unpublished messages get new ids.
    async fn start_log_epoch(&self) -> Result<LogEpoch, StoreError>;

    /// Leases a stream to the caller, which becomes its publisher. A stream of a new name is
    /// created, and its position is stored immediately.
    async fn lease_stream(
        &self,
        request: StreamLeaseRequest,
    ) -> Result<StreamLeaseOutcome, StoreError>;

    /// Extends the lease of a stream. Returns `false` if another publisher holds it.
    async fn renew_stream_lease(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Moves the cursor of a stream. Returns `false` if another publisher holds the stream or the
    /// cursor is elsewhere.
    async fn move_stream_cursor(
        &self,
        owner: StreamOwner,
        to: CursorMove,
    ) -> Result<bool, StoreError>;

    /// Releases the lease of a stream. Returns `false` if another publisher holds it.
    async fn release_stream_lease(&self, owner: StreamOwner) -> Result<bool, StoreError>;

    /// Returns the cursor of a stream.
    async fn find_stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError>;

    /// Returns the position of the last event dropped by retention, or 0 if none was dropped. A
    /// consumer that resumes the feed from before it may have missed events.
    async fn last_dropped_position(&self) -> Result<i64, StoreError>;
}

pub(crate) static SELECT_LOG_EPOCH: Statement =
    Statement::new("SELECT CAST(value AS bigint) FROM meta WHERE key = 'log_epoch'")
        .with_auto_plan();

/// Statements that start a log epoch, in order.
pub(crate) static START_LOG_EPOCH: [&Statement; 3] =
    [&KEEP_PREVIOUS_LOG_EPOCH, &DRAW_LOG_EPOCH, &UPDATE_MESSAGE_IDS];

static KEEP_PREVIOUS_LOG_EPOCH: Statement = Statement::new(
    "INSERT INTO meta (key, value)
     SELECT 'previous_log_epoch', value FROM meta WHERE key = 'log_epoch'
     ON CONFLICT (key) DO UPDATE SET value = excluded.value",
);

/// Draws a random log epoch. JSON numbers of any client can hold it.
static DRAW_LOG_EPOCH: Statement = Statement::per_database(
    "UPDATE meta SET value = (2 + floor(random() * 9007199254740000))::bigint::text
     WHERE key = 'log_epoch'",
    "UPDATE meta SET value = CAST(2 + abs(random() % 9007199254740000) AS TEXT)
     WHERE key = 'log_epoch'",
);

/// Gives unpublished rows message ids of the new log epoch. Message ids that other writers chose
/// are not changed. Each unpublished status has an index. Rows that were published meanwhile are
/// not changed.
pub(crate) static UPDATE_MESSAGE_IDS: Statement = Statement::new(
    "UPDATE outbox
     SET message_id = meta.value || substr(message_id, strpos(message_id, ':'))
     FROM meta, meta AS previous
     WHERE meta.key = 'log_epoch' AND previous.key = 'previous_log_epoch' AND status <> 'PUBLISHED' AND discarded_at IS NULL
         AND outbox_id = ANY (ARRAY(
             SELECT outbox_id FROM outbox WHERE status IN ('PENDING', 'FAILED')
             UNION ALL
             SELECT outbox_id FROM outbox WHERE status = 'IN_FLIGHT'
             UNION ALL
             SELECT outbox_id FROM outbox WHERE status = 'DEAD'
         ))
         AND strpos(message_id, previous.value || ':' || execution_id || ':') = 1",
);

static SELECT_LAST_DROPPED: Statement =
    Statement::new("SELECT CAST(value AS bigint) FROM meta WHERE key = 'last_dropped'")
        .with_auto_plan();

/// Last position of the earlier log epochs, which only PostgreSQL has.
pub(crate) static SELECT_FEED_BASE: Statement =
    Statement::new("SELECT CAST(value AS bigint) FROM meta WHERE key = 'feed_base'");

/// Position of the last readable event after the earlier log epochs. In PostgreSQL, no new event
/// can appear below the oldest transaction in progress.
pub(crate) static FEED_END: Statement = Statement::per_database(
    "SELECT tx::text::bigint, position FROM event
     WHERE position > $1::bigint AND tx < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY tx DESC, position DESC LIMIT 1",
    "SELECT 0, position FROM event WHERE position > ?1 ORDER BY position DESC LIMIT 1",
);

pub(crate) static CURSOR_BY_NAME: Statement = Statement::select(&STREAM, "WHERE name = $1");

static LOCK_CURSOR: Statement = Statement::select(&STREAM, "WHERE name = $1 FOR UPDATE");

static INSERT_CURSOR: Statement = Statement::insert(&STREAM, "ON CONFLICT DO NOTHING");

static LEASE_CURSOR: Statement = Statement::new(
    "UPDATE stream_cursor
     SET epoch = $2::bigint, owner = $3::text, lease_until = $4::timestamptz,
         updated_at = $5::timestamptz
     WHERE name = $1",
);

static RENEW_LEASE: Statement = Statement::new(
    "UPDATE stream_cursor SET lease_until = $4::timestamptz, updated_at = $3::timestamptz
     WHERE name = $1 AND epoch = $2::bigint AND owner IS NOT NULL",
);

static RELEASE_LEASE: Statement = Statement::new(
    "UPDATE stream_cursor SET owner = NULL, lease_until = NULL, updated_at = $3::timestamptz
     WHERE name = $1 AND epoch = $2::bigint AND owner IS NOT NULL",
);

static MOVE_CURSOR_FORWARD: Statement = Statement::new(
    "UPDATE stream_cursor
     SET tx = $6::bigint, position = $7::bigint, updated_at = $3::timestamptz
     WHERE name = $1 AND epoch = $2::bigint AND owner IS NOT NULL
         AND (tx, position) = ($4::bigint, $5::bigint)
         AND (tx, position) < ($6::bigint, $7::bigint)
         AND log_epoch = (SELECT CAST(value AS bigint) FROM meta WHERE key = 'log_epoch')",
);

static RESTART_CURSOR: Statement = Statement::new(
    "UPDATE stream_cursor
     SET tx = $4::bigint, position = $5::bigint, stream_created_at = $6::timestamptz,
         log_epoch = (SELECT CAST(value AS bigint) FROM meta WHERE key = 'log_epoch'),
         updated_at = $3::timestamptz
     WHERE name = $1 AND epoch = $2::bigint AND owner IS NOT NULL",
);

async fn log_epoch(session: &mut dyn Session) -> Result<LogEpoch, StoreError> {
    let epoch = session.query_first(&SELECT_LOG_EPOCH, vec![]).await?;
    Ok(epoch.map_or(LogEpoch::FIRST, |(epoch,)| epoch))
}

pub(crate) async fn start_log_epoch(session: &mut dyn Session) -> Result<LogEpoch, StoreError> {
    for statement in START_LOG_EPOCH {
        session.execute(statement, vec![]).await?;
    }
    log_epoch(session).await
}

/// Returns the position of the last readable event, or the end of the earlier log epochs if there
/// is no event after them.
async fn feed_end(session: &mut dyn Session) -> Result<FeedPosition, StoreError> {
    let base = session.query_first(&SELECT_FEED_BASE, vec![]).await?;
    let (base,): (i64,) = base.unwrap_or_default();
    let last = session.query_first(&FEED_END, cells![base]).await?;
    let (tx, position) = last.unwrap_or((0, base));
    Ok(FeedPosition { tx, position })
}

/// Leases a stream, and creates its cursor if it does not exist. If two processes create the cursor
/// at the same time, the first position is used.
async fn lease_stream(
    session: &mut dyn Session,
    request: &StreamLeaseRequest,
) -> Result<StreamLeaseOutcome, StoreError> {
    let name = cells![request.name];
    let mut cursor: Option<StreamCursor> = session.query_first(&LOCK_CURSOR, name.clone()).await?;
    if cursor.is_none() {
        let position = match request.begin {
            StreamStart::Now => feed_end(session).await?,
            StreamStart::Beginning => FeedPosition::default(),
        };
        let new = StreamCursor::new_stream(request, position, log_epoch(session).await?);
        session.execute(&INSERT_CURSOR, new.to_row()).await?;
        cursor = session.query_first(&LOCK_CURSOR, name.clone()).await?;
    }
    let deleted = || StoreError::retry("the stream cursor was deleted concurrently; try again");
    let outcome = cursor.ok_or_else(deleted)?.try_lease(request);
    if let StreamLeaseOutcome::Granted(cursor) = &outcome {
        let StreamCursor { name, epoch, owner, lease_until, updated_at, .. } = cursor;
        let params = cells![name, epoch, owner, lease_until, updated_at];
        session.execute(&LEASE_CURSOR, params).await?;
    }
    Ok(outcome)
}

/// Updates the cursor of a stream. Returns false if the caller no longer owns the stream. If a
/// power failure moves a cursor back, the events after it are published again.
async fn update_owned_stream(
    database: &impl Database,
    statement: &'static Statement,
    owner: &StreamOwner,
    rest: Vec<Cell>,
) -> Result<bool, StoreError> {
    let mut params = cells![owner.name, owner.epoch, owner.now];
    params.extend(rest);
    Ok(database.execute(Durability::Unsynced, statement, params).await? > 0)
}

#[async_trait]
impl<D: Database> StreamCursorStore for D {
    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        let epoch = self.query_first(&SELECT_LOG_EPOCH, vec![]).await?;
        Ok(epoch.map_or(LogEpoch::FIRST, |(epoch,)| epoch))
    }

    async fn start_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        self.transaction(Durability::Synced, PlanMode::Auto, (), |session, ()| {
            Box::pin(start_log_epoch(session))
        })
        .await
    }

    async fn lease_stream(
        &self,
        request: StreamLeaseRequest,
    ) -> Result<StreamLeaseOutcome, StoreError> {
        self.transaction(Durability::Synced, PlanMode::Auto, request, |session, request| {
            Box::pin(lease_stream(session, request))
        })
        .await
    }

    async fn renew_stream_lease(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        update_owned_stream(self, &RENEW_LEASE, &owner, cells![lease_until]).await
    }

    async fn move_stream_cursor(
        &self,
        owner: StreamOwner,
        to: CursorMove,
    ) -> Result<bool, StoreError> {
        match to {
            CursorMove::Forward { from, to } => {
                let params = cells![from.tx, from.position, to.tx, to.position];
                update_owned_stream(self, &MOVE_CURSOR_FORWARD, &owner, params).await
            }
            CursorMove::Restart { to, stream_created_at } => {
                let params = cells![to.tx, to.position, stream_created_at];
                update_owned_stream(self, &RESTART_CURSOR, &owner, params).await
            }
        }
    }

    async fn release_stream_lease(&self, owner: StreamOwner) -> Result<bool, StoreError> {
        update_owned_stream(self, &RELEASE_LEASE, &owner, vec![]).await
    }

    async fn find_stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        self.query_first(&CURSOR_BY_NAME, cells![name]).await
    }

    async fn last_dropped_position(&self) -> Result<i64, StoreError> {
        let position = self.query_first(&SELECT_LAST_DROPPED, vec![]).await?;
        Ok(position.map_or(0, |(position,)| position))
    }
}
