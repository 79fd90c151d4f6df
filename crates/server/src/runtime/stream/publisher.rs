//! The one that publishes: takes the cursor, publishes behind it, moves it.

use std::sync::Arc;
use std::time::Duration;

use noetl_bus::nats::{LetsGo, Link};
use noetl_store::{
    FEED_BYTES, FeedLimit, LogEpoch, StreamCursor, StreamMove, StreamOwner, StreamTaken,
};
use noetl_types::{FeedPosition, Millis, Text, Timestamp};

use super::facts::Phase;
use super::pages::{Pages, Plan};
use super::sending::Sending;
use super::{CURSOR, LEASE, RENEW, STREAM, Streaming, Trouble, Turn};
use crate::runtime::Core;

/// How much the clocks of a broker and a server may differ, together with the time until an
/// acknowledgement is heard.
const CLOCKS_DIFFER: Millis = Millis::from_secs(60);

/// The publisher of the stream, until somebody else is.
pub(super) struct Publisher<'p> {
    pub(super) core: &'p Core,
    pub(super) link: &'p Link,
    pub(super) streaming: &'p Streaming,
    epoch: u64,
    pub(super) log_epoch: LogEpoch,
    /// Everything up to here is published.
    pub(super) position: FeedPosition,
    /// The stream at the broker.
    pub(super) created_at: Timestamp,
    /// How long the broker keeps a message.
    retention: Millis,
    /// How often the connection had been made when the stream was looked at.
    connects: u64,
    renew_at: Timestamp,
}

impl<'p> Publisher<'p> {
    /// Publishes for as long as the stream is this server's.
    pub(super) async fn take_turn(
        core: &'p Core,
        link: &'p Link,
        streaming: &'p Streaming,
    ) -> Result<Turn, Trouble> {
        if !link.is_connected() {
            return Err(Trouble::NoConnection);
        }
        let take = core.take_of(streaming, LEASE);
        let cursor = match core.store.take_stream(take).await? {
            StreamTaken::Taken(cursor) => cursor,
            StreamTaken::Held { owner, .. } => {
                streaming.facts.enter(Phase::Standby { owner });
                return Ok(Turn::Held);
            }
        };
        let epoch = cursor.epoch;
        let worked = Self::work(core, link, streaming, cursor).await;
        let owner = StreamOwner {
            name: CURSOR.into(),
            epoch,
            now: core.clock.now(),
        };
        // Should this fail, the lease runs out.
        drop(core.store.release_stream(owner).await);
        worked
    }

    async fn work(
        core: &'p Core,
        link: &'p Link,
        streaming: &'p Streaming,
        cursor: StreamCursor,
    ) -> Result<Turn, Trouble> {
        let connects = link.connects();
        let stream = link.ensure(&streaming.settings.plan()).await?;
        streaming.facts.compared(streaming.settings.unlike(&stream));
        let mut publisher = Publisher {
            core,
            link,
            streaming,
            epoch: cursor.epoch,
            log_epoch: core.store.log_epoch().await?,
            position: cursor.position,
            created_at: stream.created_at,
            retention: if stream.max_age.is_zero() {
                streaming.settings.retention
            } else {
                Millis::from(stream.max_age)
            },
            connects,
            renew_at: core.clock.now().saturating_add(RENEW),
        };
        let is_same_log = cursor.log_epoch == publisher.log_epoch;
        let is_ours = match cursor.stream_created_at {
            Some(known) if is_same_log && known == stream.created_at => {
                publisher.reconcile(&stream).await?
            }
            // Nothing was published yet, so nothing can be lost.
            None if is_same_log => publisher.restart(cursor.position).await?,
            Some(_) | None => publisher.rebuild().await?,
        };
        if !is_ours {
            return Ok(Turn::Changed);
        }
        streaming.facts.enter(Phase::Publishing);
        publisher.publish_on().await
    }

    /// Begins the stream anew, from the first event of the log.
    pub(super) async fn rebuild(&mut self) -> Result<bool, Trouble> {
        tracing::warn!("the stream of events is made anew from the log");
        self.streaming.facts.note(|seen| seen.rebuilds += 1);
        self.restart(FeedPosition::default()).await
    }

    async fn restart(&mut self, to: FeedPosition) -> Result<bool, Trouble> {
        let restart = StreamMove::Restart {
            to,
            stream_created_at: Some(self.created_at),
        };
        self.position = to;
        Ok(self.core.store.move_stream(self.owner(), restart).await?)
    }

    pub(super) fn owner(&self) -> StreamOwner {
        StreamOwner {
            name: CURSOR.into(),
            epoch: self.epoch,
            now: self.core.clock.now(),
        }
    }

    async fn publish_on(&mut self) -> Result<Turn, Trouble> {
        let mut sending = Sending::begin(self.link).await?;
        let turn = self.publish_by(&mut sending).await;
        if !matches!(turn, Ok(Turn::Changed)) {
            // Whatever ends the turn, what is acknowledged need not be published again.
            drop(self.advance(&mut sending).await);
        }
        turn
    }

    /// Sends what the feed has, and moves the cursor over what is acknowledged.
    async fn publish_by(&mut self, sending: &mut Sending) -> Result<Turn, Trouble> {
        let settings = &self.streaming.settings;
        let plan = Plan {
            after: self.position,
            limit: FeedLimit::clamped(settings.batch),
            poll: Duration::from_millis(settings.poll.as_ms()),
        };
        let (store, grown) = (Arc::clone(&self.core.store), self.core.appended.subscribe());
        let mut pages = Pages::read(store, grown, plan);
        let mut link = self.link.clone();
        let mut waiting = Vec::new().into_iter();
        loop {
            if self.core.shutdown.is_cancelled() {
                return Ok(Turn::Over);
            }
            if !self.is_still_so(sending).await? {
                return Ok(Turn::Changed);
            }
            self.fill(sending, &mut waiting).await?;
            let is_all = waiting.len() == 0;
            if self.should_advance(sending, is_all) && !self.advance(sending).await? {
                return Ok(Turn::Changed);
            }
            tokio::select! {
                biased;
                () = self.core.shutdown.cancelled() => {}
                () = link.changed() => {}
                answer = sending.answer() => self.hear(sending, answer?).await?,
                page = pages.next(), if is_all => match page {
                    Some(page) => waiting = page?.into_iter(),
                    None if self.core.shutdown.is_cancelled() => return Ok(Turn::Over),
                    None => return Err(Trouble::Reading),
                },
                () = tokio::time::sleep(Duration::from_millis(RENEW.as_ms())) => {}
            }
        }
    }

    /// Whether it is worth a write to move the cursor: as often as there is a batch behind it, and when
    /// nothing is left to send.
    fn should_advance(&self, sending: &Sending, is_all: bool) -> bool {
        let batch = usize::try_from(self.streaming.settings.batch).unwrap_or(usize::MAX);
        let Some(passed) = sending.flight.passed() else {
            return false;
        };
        let is_idle = is_all && sending.flight.is_empty();
        is_idle || passed.events >= batch || passed.bytes >= FEED_BYTES
    }

    /// Moves the cursor over what is done with; `false` where it is not this server's any more, or
    /// stands elsewhere.
    async fn advance(&mut self, sending: &mut Sending) -> Result<bool, Trouble> {
        let Some(passed) = sending.flight.passed() else {
            return Ok(true);
        };
        self.must_have_duplicates(sending).await?;
        let forward = StreamMove::Forward {
            from: self.position,
            to: passed.to,
        };
        if !self.core.store.move_stream(self.owner(), forward).await? {
            return Ok(false);
        }
        sending.flight.moved();
        self.position = passed.to;
        Ok(true)
    }

    /// Keeps the lease, now and then; `false` where the stream is not this server's any more, or need
    /// not be since the process ends.
    pub(super) async fn keep(&mut self) -> Result<bool, Trouble> {
        if self.core.shutdown.is_cancelled() {
            return Ok(false);
        }
        let now = self.core.clock.now();
        if now < self.renew_at {
            return Ok(true);
        }
        self.renew_at = now.saturating_add(RENEW);
        let until = now.saturating_add(LEASE);
        Ok(self.core.store.renew_stream(self.owner(), until).await?)
    }

    /// Whether the cursor and the stream are what they were; now and then, which also keeps the lease.
    async fn is_still_so(&mut self, sending: &mut Sending) -> Result<bool, Trouble> {
        if !self.link.is_connected() {
            return Err(Trouble::NoConnection);
        }
        // A server that was gone may have lost something.
        if self.link.connects() != self.connects {
            return Ok(false);
        }
        let now = self.core.clock.now();
        if now < self.renew_at {
            return Ok(true);
        }
        if !self.keep().await? {
            return Ok(false);
        }
        let store = &self.core.store;
        let cursor = store.stream_cursor(&Text::from(CURSOR)).await?;
        if cursor.is_none_or(|cursor| cursor.position != self.position) {
            return Ok(false);
        }
        let lag = store.feed_lag(self.position).await?;
        self.streaming
            .facts
            .note(|seen| seen.lag = Some((lag, now)));
        let stream = self.link.stream(STREAM).await?;
        let Some(stream) = stream.filter(|stream| stream.created_at == self.created_at) else {
            return Ok(false);
        };
        // What is before this is gone, though nothing but its age should have taken it.
        let first = match stream.lets_go {
            LetsGo::OfOld | LetsGo::ForNewer if stream.messages == 0 => u64::MAX,
            LetsGo::OfOld => stream.first,
            LetsGo::ForNewer | LetsGo::OfRead => 0,
        };
        if sending.witness.misses(first, self.surely_kept_since()) {
            // Something young is gone: somebody has emptied the stream.
            self.rebuild().await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether something of a time is still kept by the broker.
    pub(super) fn is_young(&self, time: Timestamp) -> bool {
        let age = self.core.clock.now().since(time);
        age < self.retention
    }

    /// What was stored later is kept by the broker, whatever its clock says. It is heard of later than
    /// it is stored, so what is about to expire may be gone already.
    pub(super) fn surely_kept_since(&self) -> Timestamp {
        let half = Millis::from_ms(self.retention.as_ms() / 2);
        let surely = self.retention.saturating_sub(half.min(CLOCKS_DIFFER));
        self.core.clock.now().saturating_sub(surely)
    }
}
