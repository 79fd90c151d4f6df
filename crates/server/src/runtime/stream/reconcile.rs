//! What the broker acknowledged and lost is published again.
//!
//! A broker syncs its files now and then, so that a power cut takes acknowledged messages with it: all
//! of the last minutes, however many those are. So whenever a publisher begins, or the broker was gone,
//! it compares the end of the stream with the log, and goes back in the log for as long as nothing of
//! what it finds there is in the stream.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use noetl_bus::nats::StreamFacts;
use noetl_store::{FeedLimit, FeedMessage};
use noetl_types::FeedPosition;

use super::publisher::Publisher;
use super::{STREAM, Trouble};

/// About how many events before the cursor are always looked at again.
const LOOK_BACK: u32 = 10_000;

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
    /// There are no events in this section.
    Empty,
}

/// The end of the stream, as it was read.
struct Tail {
    ids: HashSet<String>,
    /// The numbers of what was read.
    read: RangeInclusive<u64>,
}

/// A place that is looked back at, and how far before the cursor the next one is.
type Back = (FeedPosition, u64);

impl Publisher<'_> {
    /// Publishes what the end of the stream lacks; `false` where the stream is not this server's any
    /// more.
    pub(super) async fn reconcile(&mut self, stream: &StreamFacts) -> Result<bool, Trouble> {
        // Nothing was published yet, or this is a new stream that has never held anything.
        let is_new = stream.messages == 0 && stream.last == 0;
        if is_new || self.position == FeedPosition::default() {
            return Ok(true);
        }
        let tail = self.tail(stream).await?;
        let Some((mut start, mut back)) = self.near().await? else {
            return Ok(false);
        };
        let (mut until, mut is_near, mut misses) = (self.position, true, false);
        loop {
            let Some(found) = self.look((start, until), &tail, stream).await? else {
                return Ok(false);
            };
            misses |= found == Found::None;
            let is_all = stream.messages == 0 || start == before(self.position, u64::MAX);
            match found {
                Found::Some => return self.restore(start, &tail, is_near).await,
                // Nothing before this is lacking, and nothing behind it was found: all of it is.
                Found::Nothing => return self.restore(start, &tail, true).await,
                // Somebody has emptied it, or it has lost all that there was.
                Found::None | Found::Empty if is_all && misses => return self.rebuild().await,
                Found::None | Found::Empty if is_all => return Ok(true),
                Found::None | Found::Empty => {
                    (until, is_near) = (start, false);
                    (start, back) = (before(self.position, back), back.saturating_mul(2));
                }
            }
        }
    }

    async fn tail(&self, stream: &StreamFacts) -> Result<Tail, Trouble> {
        let first = stream.last.saturating_sub(MESSAGES).max(stream.first);
        let ids = if stream.messages == 0 {
            HashSet::new()
        } else {
            self.link.message_ids(STREAM, first, stream.last).await?
        };
        Ok(Tail {
            ids,
            read: first..=stream.last,
        })
    }

    /// The place that is looked back at first. A transaction may have one event or thousands, so what
    /// is before the cursor is counted: of more than the ids that were read nothing could be told.
    /// Nothing to say where the stream is not this server's any more.
    async fn near(&mut self) -> Result<Option<Back>, Trouble> {
        let cursor = self.position;
        let events = FeedPosition {
            position: cursor.position.saturating_sub(i64::from(LOOK_BACK)).max(0),
            ..cursor
        };
        if cursor.tx == 0 {
            return Ok(Some((events, 2 * u64::from(LOOK_BACK))));
        }
        let (mut start, mut back, mut room) = (events, 1, LOOK_BACK);
        loop {
            let earlier = before(cursor, back);
            let Some(count) = self.count((earlier, start), room).await? else {
                return Ok(None);
            };
            let Some(left) = room.checked_sub(count) else {
                return Ok(Some((start, back)));
            };
            (start, back, room) = (earlier, back.saturating_mul(2), left);
            if start == before(cursor, u64::MAX) {
                return Ok(Some((start, back)));
            }
        }
    }

    /// How many events a section of the log has, counted until they are more than so many; nothing to
    /// say where the stream is not this server's any more.
    async fn count(
        &mut self,
        (start, until): (FeedPosition, FeedPosition),
        most: u32,
    ) -> Result<Option<u32>, Trouble> {
        let (mut after, mut count) = (start, 0);
        loop {
            let batch = self.core.store.messages(after, FeedLimit::MAX).await?;
            let events = batch.events.iter().flatten();
            let some = events.take_while(|it| it.feed <= until).count();
            count = u32::try_from(some)
                .unwrap_or(u32::MAX)
                .saturating_add(count);
            if !self.keep().await? {
                return Ok(None);
            }
            after = batch.next;
            if !batch.is_full || after >= until || count > most {
                return Ok(Some(count));
            }
        }
    }

    /// Looks whether the stream has anything of a section of the log; nothing to say where the stream
    /// is not this server's any more.
    async fn look(
        &mut self,
        (start, until): (FeedPosition, FeedPosition),
        tail: &Tail,
        stream: &StreamFacts,
    ) -> Result<Option<Found>, Trouble> {
        let (mut after, mut found) = (start, Found::Empty);
        let kept_since = self.surely_kept_since();
        loop {
            let batch = self.core.store.messages(after, FeedLimit::MAX).await?;
            let events = batch.events.iter().flatten();
            for event in events.take_while(|it| it.feed <= until) {
                if self.is_there(event, tail) {
                    return Ok(Some(Found::Some));
                }
                let time = event.ingest_time;
                // What is older than the stream was never in it, and what is old has been dropped.
                let is_newer = time >= self.created_at || stream.messages == 0;
                if is_newer && time > kept_since {
                    found = Found::None;
                } else if found == Found::Empty {
                    found = Found::Nothing;
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

    /// Publishes what the stream lacks from a place on. Where not all of it is known to be lacking, only
    /// what is behind something that the stream has is: the ids of what is before it were not read.
    async fn restore(
        &mut self,
        start: FeedPosition,
        tail: &Tail,
        is_known: bool,
    ) -> Result<bool, Trouble> {
        let (mut after, mut has_begun) = (start, false);
        loop {
            let batch = self.core.store.messages(after, FeedLimit::MAX).await?;
            let lost: Vec<FeedMessage> = batch
                .events
                .into_iter()
                .flatten()
                .take_while(|event| event.feed <= self.position)
                .filter(|event| {
                    let time = event.ingest_time;
                    let is_there = self.is_there(event, tail);
                    // What is before the beginning of the stream was never in it.
                    has_begun |= is_there || (is_known && time >= self.created_at);
                    // What is old has been dropped for its age.
                    !is_there && has_begun && self.is_young(time)
                })
                .collect();
            if !lost.is_empty() {
                tracing::warn!(
                    count = lost.len(),
                    "the broker lost messages; they are published again"
                );
                let count = lost.len();
                let count = count.saturating_sub(self.publish(lost, &tail.read).await?);
                let count = u64::try_from(count).unwrap_or(u64::MAX);
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

    fn is_there(&self, event: &FeedMessage, tail: &Tail) -> bool {
        tail.ids.contains(event.id(self.log_epoch).as_str())
    }
}

/// A place some transactions before another one, or events where there are none. Before the first
/// transaction there are only the earlier lives of the log, which may be long, and of which a place
/// behind them is not a little further back.
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
