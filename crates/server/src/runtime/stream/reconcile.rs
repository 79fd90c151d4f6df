//! What the broker acknowledged and lost is published again.
//!
//! A broker syncs its files now and then, so that a power cut takes acknowledged messages with it. So
//! whenever a publisher begins, or the broker was gone, it compares the end of the stream with the log.

use noetl_bus::nats::StreamFacts;
use noetl_store::{FeedLimit, message_id};
use noetl_types::{FeedPosition, StoredEvent};

use super::publisher::Publisher;
use super::{STREAM, Trouble};

/// Transactions before the cursor that are looked at again; more than a broker leaves unsynced.
const LOOK_BACK: u64 = 10_000;

/// Messages at the end of the stream whose ids are read. An event may be there more than once, and
/// one that is not found here is only published once more.
const MESSAGES: u64 = 50_000;

impl Publisher<'_> {
    /// Publishes what the end of the stream lacks; `false` where the stream is not this server's any
    /// more.
    pub(super) async fn reconcile(&mut self, stream: &StreamFacts) -> Result<bool, Trouble> {
        // Nothing was published yet, or this is a new stream that has never held anything.
        let is_new = stream.messages == 0 && stream.last == 0;
        if is_new || self.position == FeedPosition::default() {
            return Ok(true);
        }
        let first = stream.last.saturating_sub(MESSAGES).max(stream.first);
        let ids = if stream.messages == 0 {
            std::collections::HashSet::new()
        } else {
            self.link.message_ids(STREAM, first, stream.last).await?
        };
        let mut after = before(self.position);
        let mut has_begun = false;
        loop {
            let batch = self.core.store.feed(after, FeedLimit::MAX).await?;
            let lost: Vec<StoredEvent> = batch
                .events
                .into_iter()
                .take_while(|event| event.feed <= self.position)
                .filter(|event| {
                    let record = &event.record;
                    let id = message_id(self.log_epoch, record.event.execution_id, record.seq);
                    let is_there = ids.contains(id.as_str());
                    // What is before the beginning of the stream was never in it.
                    has_begun |= is_there || record.ingest_time >= self.created_at;
                    // What is old has been dropped for its age.
                    !is_there
                        && self.is_young(record.ingest_time)
                        && (has_begun || stream.messages == 0)
                })
                .collect();
            if stream.messages == 0 && !lost.is_empty() {
                // Somebody has emptied it.
                return self.rebuild().await;
            }
            if !lost.is_empty() {
                tracing::warn!(
                    count = lost.len(),
                    "the broker lost messages; they are published again"
                );
                if self.publish(&lost).await? > 0 {
                    // It was not there a moment ago: the broker only remembers its id.
                    return Err(Trouble::Remembered);
                }
                let count = u64::try_from(lost.len()).unwrap_or(u64::MAX);
                self.streaming.facts.note(|seen| seen.restored += count);
            }
            after = batch.next;
            if !batch.is_full || after >= self.position {
                return Ok(true);
            }
        }
    }
}

/// A place some way before another one.
fn before(position: FeedPosition) -> FeedPosition {
    if position.tx == 0 {
        let back = i64::try_from(LOOK_BACK).unwrap_or(i64::MAX);
        return FeedPosition {
            tx: 0,
            position: position.position.saturating_sub(back).max(0),
        };
    }
    FeedPosition {
        tx: position.tx.saturating_sub(LOOK_BACK),
        position: 0,
    }
}
