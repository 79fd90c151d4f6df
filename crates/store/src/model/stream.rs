//! Cursors and leases of event streams.

use noetl_types::{FeedPosition, Millis, Text, Timestamp};

use super::message::LogEpoch;

/// Upper bound of the lease of a publisher.
const MAX_STREAM_LEASE: Millis = Millis::from_minutes(1);

/// Maximum lag that is counted exactly.
pub const MAX_FEED_LAG_EVENTS: u64 = 100_000;

/// Start of a new stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamStart {
    /// After all events that are committed and readable.
    Now,
    Beginning,
}

/// A publisher's request to lease a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamLeaseRequest {
    pub name: Text,
    pub owner: Text,
    pub now: Timestamp,
    /// End of the lease.
    pub lease_until: Timestamp,
    /// Start position if the stream does not exist.
    pub begin: StreamStart,
}

/// Outcome of a request to lease a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamLeaseOutcome {
    /// The stream is leased to the caller, under a new epoch.
    Granted(StreamCursor),
    /// Another publisher holds it.
    Held { owner: Text, until: Timestamp },
}

/// Cursor of a stream. Everything up to its position is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamCursor {
    pub name: Text,
    /// The last published event, or the start of the stream.
    pub position: FeedPosition,
    /// Increases with every lease. It is the fence.
    pub epoch: u64,
    /// Current or last publisher.
    pub owner: Option<Text>,
    pub lease_until: Option<Timestamp>,
    /// The log epoch of the position. If it differs from the current one, the log was restored, and
    /// the stream must be rebuilt.
    pub log_epoch: LogEpoch,
    /// Creation time of the broker's stream that the position refers to. If the broker reports
    /// another one, the stream was lost and must be rebuilt.
    pub stream_created_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

/// The holder of a stream lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOwner {
    pub name: Text,
    /// Epoch of the lease.
    pub epoch: u64,
    pub now: Timestamp,
}

/// A cursor movement by the publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorMove {
    /// Advances past published events.
    Forward {
        /// Required current position.
        from: FeedPosition,
        /// New position, after `from`.
        to: FeedPosition,
    },
    /// Moves to any position, for a stream that is rebuilt.
    Restart {
        /// New position.
        to: FeedPosition,
        /// Creation time of the new stream.
        stream_created_at: Option<Timestamp>,
    },
}

/// Lag of a consumer behind the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedLag {
    /// Readable events after the position, counted up to [`MAX_FEED_LAG_EVENTS`].
    pub events: u64,
    /// Ingest time of the first of them.
    pub oldest: Option<Timestamp>,
    /// The last readable position.
    pub end: FeedPosition,
    /// Ingest time of the oldest event that is committed but not readable yet, because a
    /// transaction that began before it is still open.
    pub held_back_since: Option<Timestamp>,
}

impl FeedLag {
    /// Age of the oldest unreadable event. Used for alerts.
    pub fn horizon_age(&self, now: Timestamp) -> Millis {
        self.held_back_since.map_or(Millis::ZERO, |since| now.duration_since(since))
    }
}

impl StreamCursor {
    /// Creates the cursor of a new stream that has no publisher yet.
    pub(crate) fn new_stream(
        request: &StreamLeaseRequest,
        position: FeedPosition,
        log_epoch: LogEpoch,
    ) -> Self {
        Self {
            name: request.name.clone(),
            position,
            epoch: 0,
            owner: None,
            lease_until: None,
            log_epoch,
            stream_created_at: None,
            updated_at: request.now,
        }
    }

    /// Grants the stream to the caller, unless another publisher holds a valid lease. A lease that
    /// lasts too long was granted by a clock that was ahead, and is not valid.
    pub(crate) fn try_lease(mut self, request: &StreamLeaseRequest) -> StreamLeaseOutcome {
        if let (Some(owner), Some(until)) = (&self.owner, self.lease_until)
            && *owner != request.owner
            && until > request.now
            && until <= request.now.saturating_add(MAX_STREAM_LEASE)
        {
            return StreamLeaseOutcome::Held { owner: owner.clone(), until };
        }
        self.epoch = self.epoch.saturating_add(1);
        self.owner = Some(request.owner.clone());
        self.lease_until = Some(request.lease_until);
        self.updated_at = request.now;
        StreamLeaseOutcome::Granted(self)
    }
}
