//! The one that publishes: takes the cursor, publishes behind it, moves it.

use bytes::Bytes;
use noetl_bus::nats::{Link, Outgoing, PublishFailed, Stored};
use noetl_store::{
    FeedBatch, FeedLimit, LogEpoch, Message, Quarantined, StreamBegin, StreamCursor, StreamMove,
    StreamOwner, StreamTake, StreamTaken, reference,
};
use noetl_types::json::to_canonical;
use noetl_types::{FeedPosition, Millis, QuarantineId, StoredEvent, Text, Timestamp};

use super::facts::Phase;
use super::{CURSOR, LEASE, RENEW, STREAM, Streaming, Trouble, Turn};
use crate::runtime::Core;

/// Bytes of messages that are on their way together.
const MANY_BYTES: usize = 4 * 1024 * 1024;

/// What the broker counts of a message besides its body: the headers, and some room.
const HEADERS: usize = 512;

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
    /// When it last published anything.
    published_at: Option<Timestamp>,
}

/// What became of a message that the broker did not take as it is.
enum Instead {
    Stored(Stored),
    Parked,
}

impl<'p> Publisher<'p> {
    /// Publishes for as long as the stream is this server's.
    pub(super) async fn take_turn(
        core: &'p Core,
        link: &'p Link,
        streaming: &'p Streaming,
    ) -> Result<Turn, Trouble> {
        if !link.facts().is_connected {
            return Err(Trouble::NoConnection);
        }
        let now = core.clock.now();
        let take = StreamTake {
            name: CURSOR.into(),
            owner: core.instance.clone(),
            now,
            lease_until: now.saturating_add(LEASE),
            begin: if streaming.settings.backfill {
                StreamBegin::Beginning
            } else {
                StreamBegin::Now
            },
        };
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
        let connects = link.facts().connects;
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
            published_at: None,
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
        let limit = FeedLimit::clamped(self.streaming.settings.batch);
        let mut ahead = None;
        let mut grown = self.core.appended.subscribe();
        let mut link = self.link.clone();
        loop {
            if self.core.shutdown.is_cancelled() {
                return Ok(Turn::Over);
            }
            if !self.is_still_so().await? {
                return Ok(Turn::Changed);
            }
            let batch = if let Some(batch) = ahead.take() {
                batch
            } else {
                // Before the feed is read: what comes later wakes.
                grown.mark_unchanged();
                self.core.store.feed(self.position, limit).await?
            };
            if batch.events.is_empty() {
                let poll = std::time::Duration::from_millis(self.streaming.settings.poll.as_ms());
                tokio::select! {
                    biased;
                    () = self.core.shutdown.cancelled() => {}
                    () = link.changed() => {}
                    () = tokio::time::sleep(poll) => {}
                    grown = grown.changed() => if grown.is_err() { return Ok(Turn::Over) },
                }
                continue;
            }
            // A backlog is read on while its events are on their way.
            let (published, next) =
                tokio::join!(self.publish(&batch.events), self.behind(&batch, limit));
            published?;
            let forward = StreamMove::Forward {
                from: self.position,
                to: batch.next,
            };
            if !self.core.store.move_stream(self.owner(), forward).await? {
                return Ok(Turn::Changed);
            }
            self.position = batch.next;
            self.published_at = Some(self.core.clock.now());
            ahead = next?;
        }
    }

    /// The events behind a batch, where there are some already.
    async fn behind(
        &self,
        batch: &FeedBatch,
        limit: FeedLimit,
    ) -> Result<Option<FeedBatch>, Trouble> {
        if !batch.is_full {
            return Ok(None);
        }
        let next = self.core.store.feed(batch.next, limit).await?;
        Ok(Some(next).filter(|next| !next.events.is_empty()))
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
    async fn is_still_so(&mut self) -> Result<bool, Trouble> {
        let facts = self.link.facts();
        if !facts.is_connected {
            return Err(Trouble::NoConnection);
        }
        // A server that was gone may have lost something.
        if facts.connects != self.connects {
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
        let has_sent = self.published_at.is_some_and(|time| self.is_young(time));
        if stream.messages == 0 && has_sent {
            // Empty though something young was sent: somebody has emptied it.
            self.rebuild().await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Publishes events in their order; all of them are at the broker, or put aside, afterwards. Says
    /// how many the broker had already.
    pub(super) async fn publish(&self, events: &[StoredEvent]) -> Result<u64, Trouble> {
        let (mut rest, mut duplicates) = (events, 0);
        while !rest.is_empty() {
            let (mut messages, mut bytes) = (Vec::new(), 0);
            for event in rest {
                if bytes >= MANY_BYTES {
                    break;
                }
                let message = self.message(event);
                bytes += message.body.len();
                messages.push(message);
            }
            let (now, later) = rest.split_at(messages.len());
            rest = later;
            duplicates += self.send(now, messages).await?;
        }
        Ok(duplicates)
    }

    /// The message of an event: itself, or what refers to it where it is too large.
    fn message(&self, event: &StoredEvent) -> Outgoing {
        let Message {
            subject,
            message_id,
            body,
        } = Message::of(&event.record, self.log_epoch);
        let is_large = body.len() + HEADERS > self.link.max_payload();
        let body = if is_large {
            self.streaming.facts.note(|seen| seen.by_reference += 1);
            by_reference(event, &body)
        } else {
            Bytes::from(body)
        };
        Outgoing {
            subject: subject.to_string(),
            message_id: message_id.to_string(),
            body,
        }
    }

    async fn send(&self, events: &[StoredEvent], messages: Vec<Outgoing>) -> Result<u64, Trouble> {
        let outcomes = self.link.publish(STREAM, messages).await;
        let (mut duplicates, mut oldest) = (0, u64::MAX);
        for (event, outcome) in events.iter().zip(outcomes) {
            let stored = match outcome {
                Ok(stored) => stored,
                Err(failed) => match self.otherwise(event, failed).await? {
                    Instead::Stored(stored) => stored,
                    Instead::Parked => continue,
                },
            };
            self.streaming.facts.note(|seen| {
                seen.published += 1;
                seen.duplicates += u64::from(stored.is_duplicate);
            });
            if stored.is_duplicate {
                duplicates += 1;
                oldest = oldest.min(stored.sequence);
            }
        }
        if duplicates == 0 {
            return Ok(0);
        }
        // The broker knows an id for a while even where its message is gone.
        let stream = self.link.stream(STREAM).await?;
        match stream {
            Some(stream) if stream.first <= oldest => Ok(duplicates),
            Some(_) | None => Err(Trouble::Remembered),
        }
    }

    /// What to do about a message that the broker did not take.
    async fn otherwise(
        &self,
        event: &StoredEvent,
        failed: PublishFailed,
    ) -> Result<Instead, Trouble> {
        let why = match failed {
            PublishFailed::Unsure(error) => return Err(error.into()),
            PublishFailed::NoStream => return Err(Trouble::NoConnection),
            PublishFailed::Impossible(error) => error.to_string(),
            PublishFailed::TooLarge => {
                let whole = Message::of(&event.record, self.log_epoch);
                let message = Outgoing {
                    subject: whole.subject.to_string(),
                    message_id: whole.message_id.to_string(),
                    body: by_reference(event, &whole.body),
                };
                let outcome = self.link.publish(STREAM, vec![message]).await.pop();
                match outcome {
                    Some(Ok(stored)) => {
                        self.streaming.facts.note(|seen| seen.by_reference += 1);
                        return Ok(Instead::Stored(stored));
                    }
                    Some(Err(PublishFailed::Unsure(error))) => return Err(error.into()),
                    Some(Err(PublishFailed::NoStream)) | None => return Err(Trouble::NoConnection),
                    Some(Err(failed)) => failed.to_string(),
                }
            }
        };
        self.park(event, &why).await?;
        Ok(Instead::Parked)
    }

    /// Puts an event aside that can never be published, so that it stops no other.
    async fn park(&self, event: &StoredEvent, why: &str) -> Result<(), Trouble> {
        let now = self.core.clock.now();
        let message_id = Message::of(&event.record, self.log_epoch).message_id;
        tracing::error!(%message_id, why, "an event cannot be published and is put aside");
        let quarantine_id = self.core.ids.mint::<QuarantineId>(now);
        let refused = Quarantined {
            quarantine_id: quarantine_id.map_err(|_| Trouble::NoIds)?,
            source: "stream".into(),
            raw: message_id,
            code: "unpublishable".into(),
            message: why.into(),
            created_at: now,
        };
        self.core.store.quarantine(vec![refused]).await?;
        self.streaming.facts.note(|seen| seen.parked += 1);
        Ok(())
    }

    /// Whether something of a time is still kept by the broker.
    pub(super) fn is_young(&self, time: Timestamp) -> bool {
        let age = self.core.clock.now().since(time);
        age < self.retention
    }
}

/// What stands for an event that is larger than a message may be.
fn by_reference(event: &StoredEvent, body: &[u8]) -> Bytes {
    let said = &event.record.event;
    let place = (said.execution_id, event.record.seq);
    let named = (said.event_id, said.event_type.as_str());
    to_canonical(&reference(place, named, body)).into()
}
