//! Publishes again what the broker acknowledged and then lost.
//!
//! A broker syncs its files at intervals, so a power cut can lose any number of messages
//! acknowledged in the last minutes. Whenever a publisher starts, or the broker was disconnected,
//! it compares the end of the stream with the log, and goes back in the log until it finds an event
//! that is in the stream. If the log lacks the newest event of the stream, the log was restored.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use noetl_messaging::nats::{NatsConnection, StreamInfo};
use noetl_store::{FeedLimit, FeedMessage, LogEpoch, Store, StoreError, parse_event_message_id};
use noetl_types::{EventId, FeedPosition, json};

use super::PublishError;
use crate::services::publishing::event_stream::STREAM;
use crate::services::publishing::event_stream::publisher::StreamPublisher;

/// Approximate number of events before the cursor that are always checked.
const LOOK_BACK_EVENTS: u32 = 10_000;

/// Messages at the end of the stream whose ids are read. An event may be there more than once. One
/// that is not found is only published once more.
const MAX_TAIL_MESSAGES: u64 = 50_000;

/// Part of a section of the log that the stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionCoverage {
    /// Some of it: the broker lost nothing before this section.
    Partial,
    /// Nothing, although it should.
    Missing,
    /// Nothing, and none of it should be there.
    Expired,
    /// There are no events in this section.
    Empty,
}

/// The end of the stream that was read.
struct StreamTail {
    ids: HashSet<String>,
    /// Sequences that were read.
    sequences: RangeInclusive<u64>,
}

/// Start of a section, and the distance of the next section before the cursor.
type SectionStart = (FeedPosition, u64);

impl StreamPublisher<'_> {
    /// Publishes what the end of the stream lacks. Returns false if this server no longer holds the
    /// cursor.
    pub(crate) async fn republish_lost(
        &mut self,
        stream: &StreamInfo,
    ) -> Result<bool, PublishError> {
        // Nothing was published yet, or this is a new stream that never held a message.
        let is_new = stream.messages == 0 && stream.last_sequence == 0;
        if is_new || self.position == FeedPosition::default() {
            return Ok(true);
        }
        let tail = self.read_stream_tail(stream).await?;
        let Some((mut start, mut back)) = self.find_first_section().await? else {
            return Ok(false);
        };
        let (mut until, mut is_near, mut is_missing) = (self.position, true, false);
        loop {
            let Some(coverage) = self.check_section(start, until, &tail, stream).await? else {
                return Ok(false);
            };
            is_missing |= coverage == SectionCoverage::Missing;
            let is_all = stream.messages == 0 || start == position_before(self.position, u64::MAX);
            match coverage {
                SectionCoverage::Partial => {
                    return self.publish_lost_from(start, &tail, is_near).await;
                }
                // Nothing before this section is missing, and nothing after it was found: all of
                // that is missing.
                SectionCoverage::Expired => {
                    return self.publish_lost_from(start, &tail, true).await;
                }
                // The stream was purged, or the broker lost all of it.
                SectionCoverage::Missing | SectionCoverage::Empty if is_all && is_missing => {
                    return self.rebuild_stream().await;
                }
                SectionCoverage::Missing | SectionCoverage::Empty if is_all => return Ok(true),
                SectionCoverage::Missing | SectionCoverage::Empty => {
                    (until, is_near) = (start, false);
                    (start, back) = (position_before(self.position, back), back.saturating_mul(2));
                }
            }
        }
    }

    async fn read_stream_tail(&self, stream: &StreamInfo) -> Result<StreamTail, PublishError> {
        let first =
            stream.last_sequence.saturating_sub(MAX_TAIL_MESSAGES).max(stream.first_sequence);
        let ids = if stream.messages == 0 {
            HashSet::new()
        } else {
            self.link.message_ids(STREAM, first, stream.last_sequence).await?
        };
        Ok(StreamTail { ids, sequences: first..=stream.last_sequence })
    }

    /// Returns the start of the first section. A transaction may have one event or thousands, so
    /// the events before the cursor are counted: a section must not have more events than ids were
    /// read. `None` if this server no longer holds the cursor.
    async fn find_first_section(&mut self) -> Result<Option<SectionStart>, PublishError> {
        let cursor = self.position;
        let start_by_events = FeedPosition {
            position: cursor.position.saturating_sub(i64::from(LOOK_BACK_EVENTS)).max(0),
            ..cursor
        };
        if cursor.tx == 0 {
            return Ok(Some((start_by_events, 2 * u64::from(LOOK_BACK_EVENTS))));
        }
        let (mut start, mut back, mut remaining) = (start_by_events, 1, LOOK_BACK_EVENTS);
        loop {
            let earlier = position_before(cursor, back);
            let Some(count) = self.count_section_events(earlier, start, remaining).await? else {
                return Ok(None);
            };
            let Some(rest) = remaining.checked_sub(count) else {
                return Ok(Some((start, back)));
            };
            (start, back, remaining) = (earlier, back.saturating_mul(2), rest);
            if start == position_before(cursor, u64::MAX) {
                return Ok(Some((start, back)));
            }
        }
    }

    /// Counts the events of a section, up to slightly more than `max`. `None` if this server no
    /// longer holds the cursor.
    async fn count_section_events(
        &mut self,
        start: FeedPosition,
        until: FeedPosition,
        max: u32,
    ) -> Result<Option<u32>, PublishError> {
        let (mut after, mut count) = (start, 0);
        loop {
            let batch =
                self.publishing.infra.store.read_feed_messages(after, FeedLimit::MAX).await?;
            let events = batch.events.iter().flatten();
            let in_section = events.take_while(|event| event.feed <= until).count();
            count = u32::try_from(in_section).unwrap_or(u32::MAX).saturating_add(count);
            if !self.renew_lease_if_due().await? {
                return Ok(None);
            }
            after = batch.next;
            if !batch.is_full || after >= until || count > max {
                return Ok(Some(count));
            }
        }
    }

    /// Checks which part of a section the stream has. `None` if this server no longer holds the
    /// cursor.
    async fn check_section(
        &mut self,
        start: FeedPosition,
        until: FeedPosition,
        tail: &StreamTail,
        stream: &StreamInfo,
    ) -> Result<Option<SectionCoverage>, PublishError> {
        let (mut after, mut coverage) = (start, SectionCoverage::Empty);
        let kept_since = self.certainly_kept_since();
        loop {
            let batch =
                self.publishing.infra.store.read_feed_messages(after, FeedLimit::MAX).await?;
            let events = batch.events.iter().flatten();
            for event in events.take_while(|event| event.feed <= until) {
                if self.is_in_tail(event, tail) {
                    return Ok(Some(SectionCoverage::Partial));
                }
                let time = event.ingest_time;
                // Events older than the stream were never in it, and old ones have expired.
                let is_newer = time >= self.created_at || stream.messages == 0;
                if is_newer && time > kept_since {
                    coverage = SectionCoverage::Missing;
                } else if coverage == SectionCoverage::Empty {
                    coverage = SectionCoverage::Expired;
                }
            }
            if !self.renew_lease_if_due().await? {
                return Ok(None);
            }
            after = batch.next;
            if !batch.is_full || after >= until {
                return Ok(Some(coverage));
            }
        }
    }

    /// Publishes what the stream lacks from a position on. Unless everything missing is known
    /// (`is_known`), only events after one that the stream has are published: the ids before it
    /// were not read.
    async fn publish_lost_from(
        &mut self,
        start: FeedPosition,
        tail: &StreamTail,
        is_known: bool,
    ) -> Result<bool, PublishError> {
        let (mut after, mut has_begun) = (start, false);
        loop {
            let batch =
                self.publishing.infra.store.read_feed_messages(after, FeedLimit::MAX).await?;
            let lost: Vec<FeedMessage> = batch
                .events
                .into_iter()
                .flatten()
                .take_while(|event| event.feed <= self.position)
                .filter(|event| {
                    let time = event.ingest_time;
                    let is_in_stream = self.is_in_tail(event, tail);
                    // Events from before the stream was created were never in it.
                    has_begun |= is_in_stream || (is_known && time >= self.created_at);
                    // Old messages have expired.
                    !is_in_stream && has_begun && self.is_within_retention(time)
                })
                .collect();
            if !lost.is_empty() {
                tracing::warn!(
                    count = lost.len(),
                    "the broker lost messages; publishing them again"
                );
                let count = lost.len();
                let count =
                    count.saturating_sub(self.publish_missing(lost, &tail.sequences).await?);
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                self.streaming.state.update_state(|state| state.restored += count);
            }
            after = batch.next;
            if !batch.is_full || after >= self.position {
                return Ok(true);
            }
            if !self.renew_lease_if_due().await? {
                return Ok(false);
            }
        }
    }

    fn is_in_tail(&self, event: &FeedMessage, tail: &StreamTail) -> bool {
        tail.ids.contains(event.message_id(self.log_epoch).as_str())
    }
}

/// True if the newest message of the stream is an event of this log epoch that the log does not
/// have. The log was then restored from a backup, and the broker would drop its next events as
/// duplicates of those that it had before.
pub(super) async fn is_log_restored(
    store: &dyn Store,
    link: &NatsConnection,
    stream: &StreamInfo,
    log_epoch: LogEpoch,
) -> Result<bool, PublishError> {
    if stream.messages == 0 {
        return Ok(false);
    }
    let Some(newest) = link.find_message(STREAM, stream.last_sequence).await? else {
        return Ok(false);
    };
    let event = newest.message_id.and_then(|id| parse_event_message_id(log_epoch, &id));
    let body = json::parse(&newest.body).ok();
    let event_id = body.and_then(|body| EventId::from_json(body.get("event_id")?).ok());
    let (Some((execution_id, seq)), Some(event_id)) = (event, event_id) else {
        return Ok(false);
    };
    match store.find_event(execution_id, event_id).await {
        Ok(Some(event)) if event.record.seq == seq => return Ok(false),
        Ok(_) => {}
        // The row is there, but damaged.
        Err(StoreError::Fatal { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let dropped = store.list_dropped_ranges().await?;
    Ok(!dropped.iter().any(|range| range.contains(execution_id)))
}

/// Returns a position some transactions before another one, or some events if there are no
/// transactions. Never returns a position before the first transaction: such positions belong to
/// earlier log epochs, which may be long.
fn position_before(position: FeedPosition, back: u64) -> FeedPosition {
    let first = FeedPosition { tx: position.tx.min(1), position: 0 };
    let earlier = if position.tx == 0 {
        let back = i64::try_from(back).unwrap_or(i64::MAX);
        FeedPosition { tx: 0, position: position.position.saturating_sub(back) }
    } else {
        FeedPosition { tx: position.tx.saturating_sub(back), position: 0 }
    };
    earlier.max(first)
}

#[cfg(test)]
mod tests;
