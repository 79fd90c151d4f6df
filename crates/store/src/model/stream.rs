//! Where a stream of the log stands, and who publishes it.

use noetl_types::{FeedPosition, Millis, Text, Timestamp};

use super::message::LogEpoch;

/// Events behind a place that are counted; beyond it is "many".
pub const MAX_FEED_LAG: u64 = 100_000;

/// Where a new stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamBegin {
    /// Behind all events that are committed and settled.
    Now,
    /// Before the first event.
    Beginning,
}

/// A publisher wants to be the one of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamTake {
    /// The stream.
    pub name: Text,
    /// Who asks.
    pub owner: Text,
    /// The server's clock.
    pub now: Timestamp,
    /// Until when it is the publisher's.
    pub lease_until: Timestamp,
    /// Where the stream begins if there is none of that name.
    pub begin: StreamBegin,
}

/// What became of a wish to publish a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamTaken {
    /// The stream is the caller's, under an epoch that nobody had before.
    Taken(StreamCursor),
    /// Somebody else has it.
    Held {
        /// Who.
        owner: Text,
        /// Until when.
        until: Timestamp,
    },
}

/// Where a stream stands: everything up to its position is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamCursor {
    /// The stream.
    pub name: Text,
    /// The last event that is published, or where the stream began.
    pub position: FeedPosition,
    /// Rises with every change of hands: the fence.
    pub epoch: u64,
    /// Who publishes.
    pub owner: Option<Text>,
    /// Until when.
    pub lease_until: Option<Timestamp>,
    /// The life of the log that the position is of. Where it is not the present one, the log was
    /// restored, and what the stream holds has to be made anew.
    pub log_epoch: LogEpoch,
    /// When the stream was made that the position is about, as the broker says. Where the broker says
    /// something else, the stream was lost, and has to be made anew.
    pub stream_created_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// The publisher of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOwner {
    /// The stream.
    pub name: Text,
    /// The epoch under which it was taken.
    pub epoch: u64,
    /// The server's clock.
    pub now: Timestamp,
}

/// The publisher moves the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMove {
    /// Forward, over what was published.
    Forward {
        /// Where the cursor must stand.
        from: FeedPosition,
        /// Where it stands then; further on.
        to: FeedPosition,
    },
    /// Anywhere, for a stream that is made anew.
    Restart {
        /// Where it stands then.
        to: FeedPosition,
        /// When the new stream was made.
        stream_created_at: Option<Timestamp>,
    },
}

/// How far the feed is ahead of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedLag {
    /// Events behind the place that can be read, counted up to [`MAX_FEED_LAG`].
    pub events: u64,
    /// When the first of them was taken.
    pub oldest: Option<Timestamp>,
    /// The last event that can be read.
    pub end: FeedPosition,
    /// When the oldest event was taken that is committed and cannot be read yet, since a transaction
    /// that began before it is still open.
    pub held_back_since: Option<Timestamp>,
}

impl FeedLag {
    /// How old the horizon is: what an alarm looks at.
    pub fn horizon_age(&self, now: Timestamp) -> Millis {
        self.held_back_since
            .map_or(Millis::ZERO, |since| now.since(since))
    }
}

impl StreamCursor {
    /// A stream that nobody has published yet.
    pub(crate) fn begun(take: &StreamTake, position: FeedPosition, log_epoch: LogEpoch) -> Self {
        Self {
            name: take.name.clone(),
            position,
            epoch: 0,
            owner: None,
            lease_until: None,
            log_epoch,
            stream_created_at: None,
            updated_at: take.now,
        }
    }

    /// Gives it to whoever asks, unless somebody else has it.
    pub(crate) fn take(mut self, take: &StreamTake) -> StreamTaken {
        if let (Some(owner), Some(until)) = (&self.owner, self.lease_until)
            && *owner != take.owner
            && until > take.now
        {
            return StreamTaken::Held {
                owner: owner.clone(),
                until,
            };
        }
        self.epoch = self.epoch.saturating_add(1);
        self.owner = Some(take.owner.clone());
        self.lease_until = Some(take.lease_until);
        self.updated_at = take.now;
        StreamTaken::Taken(self)
    }
}
