//! What the broker acknowledged and lost is published again.
//!
//! A broker syncs its files now and then, so that a power cut takes acknowledged messages with it: all
//! of the last minutes, however many those are. So whenever a publisher begins, or the broker was gone,
//! it compares the end of the stream with the log, and goes back in the log for as long as nothing of
//! what it finds there is in the stream.

use std::collections::HashSet;

use noetl_bus::nats::StreamFacts;
use noetl_store::{FeedLimit, FeedMessage};
use noetl_types::FeedPosition;

use super::publisher::Publisher;
use super::{STREAM, Trouble};

/// Transactions before the cursor, or events where there are none, that are always looked at again.
const LOOK_BACK: u64 = 10_000;

/// Messages at the end of the stream whose ids are read. An event may be there more than once, and
/// one that is not found here is only published once more.
const MESSAGES: u64 = 50_000;

/// What the stream has of a section of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Some of it: what the broker lost is not before this section.
    Some,
    /// Nothing, though it should.
    None,
    /// Nothing, and nothing of it should be there.
    Nothing,
}

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
            HashSet::new()
        } else {
            self.link.message_ids(STREAM, first, stream.last).await?
        };
        let (mut back, mut until) = (LOOK_BACK, self.position);
        loop {
            let start = before(self.position, back);
            let Some(found) = self.look((start, until), &ids, stream).await? else {
                return Ok(false);
            };
            let is_all = stream.messages == 0 || start == before(self.position, u64::MAX);
            match found {
                Found::None if is_all => {
                    // Somebody has emptied it, or it has lost all that there was.
                    return self.rebuild().await;
                }
                Found::None => (back, until) = (back.saturating_mul(2), start),
                Found::Some | Found::Nothing => {
                    return self.restore(start, &ids, back == LOOK_BACK).await;
                }
            }
        }
    }

    /// Looks whether the stream has anything of a section of the log; nothing to say where the stream
    /// is not this server's any more.
    async fn look(
        &mut self,
        (start, until): (FeedPosition, FeedPosition),
        ids: &HashSet<String>,
        stream: &StreamFacts,
    ) -> Result<Option<Found>, Trouble> {
        let (mut after, mut found) = (start, Found::Nothing);
        loop {
            let batch = self.core.store.messages(after, FeedLimit::MAX).await?;
            for event in batch.events.iter().take_while(|it| it.feed <= until) {
                if self.is_there(event, ids) {
                    return Ok(Some(Found::Some));
                }
                let time = event.ingest_time;
                // What is older than the stream was never in it, and what is old has been dropped.
                let is_newer = time >= self.created_at || stream.messages == 0;
                if is_newer && self.is_young(time) {
                    found = Found::None;
                }
            }
            if !self.keep().await? {
                return Ok(None);
            }
            after = batch.next;
            if !batch.is_full || after >= until {
                return Ok(Some(found));
            }
        }
    }

    /// Publishes what the stream lacks from a place on. Far back only what is behind something that the
    /// stream has is known to be lacking: the ids of what is before it were not read.
    async fn restore(
        &mut self,
        start: FeedPosition,
        ids: &HashSet<String>,
        is_near: bool,
    ) -> Result<bool, Trouble> {
        let (mut after, mut has_begun) = (start, false);
        loop {
            let batch = self.core.store.messages(after, FeedLimit::MAX).await?;
            let lost: Vec<FeedMessage> = batch
                .events
                .into_iter()
                .take_while(|event| event.feed <= self.position)
                .filter(|event| {
                    let time = event.ingest_time;
                    let is_there = self.is_there(event, ids);
                    // What is before the beginning of the stream was never in it.
                    has_begun |= is_there || (is_near && time >= self.created_at);
                    // What is old has been dropped for its age.
                    !is_there && has_begun && self.is_young(time)
                })
                .collect();
            if !lost.is_empty() {
                tracing::warn!(
                    count = lost.len(),
                    "the broker lost messages; they are published again"
                );
                let count = u64::try_from(lost.len()).unwrap_or(u64::MAX);
                if self.publish(lost).await? > 0 {
                    // It was not there a moment ago: the broker only remembers its id.
                    return Err(Trouble::Remembered);
                }
                self.streaming.facts.note(|seen| seen.restored += count);
            }
            after = batch.next;
            if !batch.is_full || after >= self.position {
                return Ok(true);
            }
            if !self.keep().await? {
                return Ok(false);
            }
        }
    }

    fn is_there(&self, event: &FeedMessage, ids: &HashSet<String>) -> bool {
        ids.contains(event.id(self.log_epoch).as_str())
    }
}

/// A place some way before another one. Before the first transaction there are only the earlier lives of
/// the log, which may be long, and of which a place behind them is not a little further back.
fn before(position: FeedPosition, back: u64) -> FeedPosition {
    let first = FeedPosition {
        tx: position.tx.min(1),
        position: 0,
    };
    let earlier = if position.tx == 0 {
        let back = i64::try_from(back).unwrap_or(i64::MAX);
        FeedPosition {
            tx: 0,
            position: position.position.saturating_sub(back),
        }
    } else {
        FeedPosition {
            tx: position.tx.saturating_sub(back),
            position: 0,
        }
    };
    earlier.max(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_a_place_are_not_the_earlier_lives_of_the_log() {
        let at = |tx, position| FeedPosition { tx, position };
        for (place, back, expected) in [
            (at(0, 70), 20, at(0, 50)),
            (at(0, 70), 100, at(0, 0)),
            (at(0, 70), u64::MAX, at(0, 0)),
            (at(70, 5), 20, at(50, 0)),
            (at(70, 5), 70, at(1, 0)),
            (at(70, 5), u64::MAX, at(1, 0)),
        ] {
            assert_eq!(before(place, back), expected, "{back} before {place:?}");
        }
    }
}
