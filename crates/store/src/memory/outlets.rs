//! Outbox, streams and copies: the maps, and what can be asked of them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, FeedPosition, Json, OutboxId, Text, Timestamp};

use super::MemoryStore;
use super::state::{State, many};
use crate::error::StoreError;
use crate::model::{
    Claimed, ClaimedMessage, EventBody, EventKey, Failed, FeedBatch, FeedItem, FeedLag, FeedLimit,
    FeedMessage, JSON_CODEC, Known, LogEpoch, MAX_CLAIM_BYTES, MAX_FEED_LAG, OutboxClaim,
    OutboxFacts, OutboxFailure, OutboxFilter, OutboxMark, OutboxRow, OutboxStatus, Payload,
    QuarantineFilter, Quarantined, StreamBegin, StreamCursor, StreamMove, StreamOwner, StreamTake,
    StreamTaken, message_id, subject,
};
use crate::outlets::Outlets;
use crate::seal::Sealed;

#[derive(Debug)]
pub(super) struct OutletState {
    outbox: BTreeMap<OutboxId, OutboxRow>,
    last_outbox_id: i64,
    log_epoch: LogEpoch,
    /// The position of the last event that was dropped.
    pub(super) last_dropped: i64,
    streams: BTreeMap<Text, StreamCursor>,
    quarantine: BTreeMap<(Text, Digest, Text), Quarantined>,
}

impl Default for OutletState {
    fn default() -> Self {
        Self {
            outbox: BTreeMap::new(),
            last_outbox_id: 0,
            log_epoch: LogEpoch::FIRST,
            last_dropped: 0,
            streams: BTreeMap::new(),
            quarantine: BTreeMap::new(),
        }
    }
}

fn is_due(row: &OutboxRow, now: Timestamp) -> bool {
    match row.status {
        OutboxStatus::Pending | OutboxStatus::Failed => row.available_at <= now,
        OutboxStatus::InFlight => row.lease_until.is_some_and(|until| until <= now),
        OutboxStatus::Published | OutboxStatus::Dead => false,
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl OutletState {
    /// Writes a row for each event of an append that asks for them.
    pub(super) fn append(&mut self, sealed: &Sealed) {
        if !sealed.append.outbox {
            return;
        }
        for event in &sealed.events {
            let record = &event.record;
            self.last_outbox_id += 1;
            let Ok(outbox_id) = OutboxId::new(self.last_outbox_id) else {
                return;
            };
            let said = &record.event;
            let row = OutboxRow {
                outbox_id,
                event_id: said.event_id,
                execution_id: Some(said.execution_id),
                subject: Some(subject(&said.tenant_id, &said.event_type)),
                message_id: message_id(self.log_epoch, said.execution_id, record.seq),
                payload_codec: JSON_CODEC.into(),
                status: OutboxStatus::Pending,
                attempts: 0,
                forgiven: 0,
                available_at: record.ingest_time,
                claim_owner: None,
                locked_at: None,
                lease_until: None,
                published_at: None,
                dead_at: None,
                discarded_at: None,
                last_error: None,
                created_at: record.ingest_time,
            };
            self.outbox.insert(outbox_id, row);
        }
    }

    /// Whether an execution has rows that are still to be published.
    pub(super) fn is_unpublished(&self, execution_id: ExecutionId) -> bool {
        let rows = self.outbox.values();
        let mut of_execution = rows.filter(|row| row.execution_id == Some(execution_id));
        of_execution.any(OutboxRow::is_unpublished)
    }

    /// Whether a stream has published everything up to a place. One that never began, or that is of
    /// an earlier life of the log, has published nothing.
    pub(super) fn has_published(&self, name: &Text, place: FeedPosition) -> bool {
        let cursor = self.streams.get(name);
        cursor.is_some_and(|it| it.log_epoch == self.log_epoch && it.position >= place)
    }

    /// Forgets what belongs to executions that are not kept.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&ExecutionId) -> bool) {
        self.outbox
            .retain(|_, row| row.execution_id.as_ref().is_none_or(&is_kept));
    }

    pub(super) fn log_epoch(&self) -> LogEpoch {
        self.log_epoch
    }

    pub(super) fn rows(&self) -> usize {
        self.outbox.len()
    }

    /// Rows that were published before a time, then those that were given up before it.
    fn over_before(&self, before: Timestamp) -> Vec<(bool, Timestamp, OutboxId)> {
        let rows = self.outbox.values();
        rows.filter_map(|row| match row.status {
            OutboxStatus::Published => Some((false, row.published_at?, row.outbox_id)),
            OutboxStatus::Dead => Some((true, row.discarded_at?, row.outbox_id)),
            OutboxStatus::Pending | OutboxStatus::InFlight | OutboxStatus::Failed => None,
        })
        .filter(|(_, over_at, _)| *over_at < before)
        .collect()
    }

    fn dead(&mut self, rows: &[OutboxId], change: impl Fn(&mut OutboxRow)) -> u64 {
        let mut changed = 0;
        for id in rows {
            let row = self.outbox.get_mut(id);
            let is_dead = |row: &&mut OutboxRow| {
                row.status == OutboxStatus::Dead && row.discarded_at.is_none()
            };
            if let Some(row) = row.filter(is_dead) {
                change(row);
                changed += 1;
            }
        }
        changed
    }

    fn owned(&mut self, owner: &StreamOwner) -> Option<&mut StreamCursor> {
        let cursor = self.streams.get_mut(&owner.name)?;
        if cursor.epoch != owner.epoch || cursor.owner.is_none() {
            return None;
        }
        cursor.updated_at = owner.now;
        Some(cursor)
    }
}

#[cfg(test)]
impl MemoryStore {
    /// Gives a row of the outbox the name that somebody else would give it.
    pub(super) fn call_row(&self, row: OutboxId, name: &str) {
        let mut state = self.lock();
        if let Some(row) = state.outlets.outbox.get_mut(&row) {
            row.message_id = name.into();
        }
    }
}

impl State {
    fn payload(&self, execution_id: Option<ExecutionId>, event_id: EventId) -> Payload {
        let event = execution_id.and_then(|id| self.event(id, event_id));
        event.map_or(Payload::Given(Json::Null), |event| {
            Payload::Event(EventBody::of(&event.record))
        })
    }

    fn claim_outbox(&mut self, claim: &OutboxClaim) -> Claimed {
        let mut due: Vec<_> = self
            .outlets
            .outbox
            .values()
            .filter(|row| is_due(row, claim.now))
            .map(|row| (row.available_at, row.outbox_id))
            .collect();
        due.sort();
        let mut bytes = 0;
        let mut claimed = Claimed::default();
        for (_, id) in due.into_iter().take(many(claim.limit.get())) {
            let Some(row) = self.outlets.outbox.get(&id) else {
                continue;
            };
            let payload = self.payload(row.execution_id, row.event_id);
            bytes += match &payload {
                Payload::Event(body) => body.bytes.len(),
                Payload::Given(_) => 0,
            };
            if bytes > MAX_CLAIM_BYTES && !claimed.rows.is_empty() {
                break;
            }
            let Some(row) = self.outlets.outbox.get_mut(&id) else {
                continue;
            };
            if row.attempts.saturating_sub(row.forgiven) >= claim.max_attempts {
                row.status = OutboxStatus::Dead;
                row.dead_at = Some(claim.now);
                row.lease_until = None;
                claimed.dead.push(id);
                continue;
            }
            row.status = OutboxStatus::InFlight;
            row.attempts = row.attempts.saturating_add(1);
            row.claim_owner = Some(claim.owner.clone());
            row.locked_at = Some(claim.now);
            row.lease_until = Some(claim.lease_until);
            claimed.rows.push(ClaimedMessage {
                outbox_id: id,
                event_id: row.event_id,
                execution_id: row.execution_id,
                subject: row.subject.clone(),
                message_id: row.message_id.clone(),
                payload,
                payload_codec: row.payload_codec.clone(),
                attempts: row.attempts,
            });
        }
        claimed
    }

    fn mark_failed(&mut self, failure: &OutboxFailure) -> Option<Failed> {
        let row = self.outlets.outbox.get_mut(&failure.outbox_id)?;
        let is_fenced = failure.fence().is_some_and(|fence| fence != row.attempts);
        if row.status != OutboxStatus::InFlight || is_fenced {
            return None;
        }
        let outcome = failure.outcome(row.attempts, row.forgiven);
        match outcome {
            Failed::Retry { delay } => {
                row.status = OutboxStatus::Failed;
                row.available_at = failure.now.saturating_add(delay);
            }
            Failed::Dead => {
                row.status = OutboxStatus::Dead;
                row.dead_at = Some(failure.now);
            }
        }
        row.lease_until = None;
        row.last_error = Some(failure.kept_error());
        Some(outcome)
    }

    fn known(&self, keys: &[EventKey]) -> Known {
        let mut executions: Vec<_> = keys.iter().map(|key| key.execution_id).collect();
        executions.sort();
        executions.dedup();
        let executions = executions.iter().filter_map(|id| self.executions.get(id));
        let mut keys = keys.to_vec();
        keys.sort();
        keys.dedup();
        let events = keys
            .iter()
            .filter_map(|key| self.event(key.execution_id, key.event_id));
        Known {
            executions: executions.cloned().collect(),
            events: events.cloned().collect(),
        }
    }

    fn feed_end(&self) -> FeedPosition {
        let last = self.feed.last_key_value();
        last.map_or_else(FeedPosition::default, |(position, _)| *position)
    }

    fn take_stream(&mut self, take: &StreamTake) -> StreamTaken {
        let position = match take.begin {
            StreamBegin::Now => self.feed_end(),
            StreamBegin::Beginning => FeedPosition::default(),
        };
        let known = self.outlets.streams.get(&take.name).cloned();
        let cursor =
            known.unwrap_or_else(|| StreamCursor::begun(take, position, self.outlets.log_epoch));
        let taken = cursor.take(take);
        if let StreamTaken::Taken(cursor) = &taken {
            self.outlets
                .streams
                .insert(take.name.clone(), cursor.clone());
        }
        taken
    }

    fn move_stream(&mut self, owner: &StreamOwner, to: StreamMove) -> bool {
        let log_epoch = self.outlets.log_epoch;
        let Some(kept) = self.outlets.streams.get(&owner.name) else {
            return false;
        };
        if let StreamMove::Forward { from, to } = to
            && (kept.position != from || to <= from || kept.log_epoch != log_epoch)
        {
            return false;
        }
        let Some(cursor) = self.outlets.owned(owner) else {
            return false;
        };
        match to {
            StreamMove::Forward { to, .. } => cursor.position = to,
            StreamMove::Restart {
                to,
                stream_created_at,
            } => {
                cursor.position = to;
                cursor.log_epoch = log_epoch;
                cursor.stream_created_at = stream_created_at;
            }
        }
        true
    }

    fn feed_lag(&self, after: FeedPosition) -> FeedLag {
        let behind = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let mut events = self.feed.range(behind);
        let first = events.next().map(|(position, _)| *position);
        let oldest = first.and_then(|position| {
            let (execution_id, version) = self.feed.get(&position)?;
            let place = usize::try_from(version.get()).ok()?.checked_sub(1)?;
            let event = self.logs.get(execution_id)?.events.get(place)?;
            Some(event.record.ingest_time)
        });
        let more = count(events.count());
        FeedLag {
            events: (u64::from(first.is_some()) + more).min(MAX_FEED_LAG),
            oldest,
            end: self.feed_end(),
            held_back_since: None,
        }
    }
}

#[async_trait]
impl Outlets for MemoryStore {
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<Claimed, StoreError> {
        Ok(self.lock().claim_outbox(&claim))
    }

    async fn mark_published(
        &self,
        marks: Vec<OutboxMark>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let mut changed = 0;
        for mark in marks {
            let Some(row) = state.outlets.outbox.get_mut(&mark.outbox_id) else {
                continue;
            };
            let is_fenced = mark.attempts.is_some_and(|fence| fence != row.attempts);
            if row.status == OutboxStatus::InFlight && !is_fenced {
                row.status = OutboxStatus::Published;
                row.published_at = Some(now);
                row.last_error = None;
                row.lease_until = None;
                changed += 1;
            }
        }
        Ok(changed)
    }

    async fn mark_failed(&self, failure: OutboxFailure) -> Result<Option<Failed>, StoreError> {
        Ok(self.lock().mark_failed(&failure))
    }

    async fn outbox_pending(&self, now: Timestamp) -> Result<u64, StoreError> {
        let state = self.lock();
        let rows = state.outlets.outbox.values();
        Ok(count(rows.filter(|row| is_due(row, now)).count()))
    }

    async fn outbox(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        let state = self.lock();
        let is_asked_for = |row: &&OutboxRow| {
            filter.status.is_none_or(|status| row.status == status)
                && filter.after.is_none_or(|after| row.outbox_id > after)
        };
        let rows = state.outlets.outbox.values().filter(is_asked_for);
        Ok(rows.take(many(filter.limit.get())).cloned().collect())
    }

    async fn outbox_facts(&self) -> Result<OutboxFacts, StoreError> {
        let state = self.lock();
        let mut facts = OutboxFacts::default();
        for row in state.outlets.outbox.values() {
            *facts.rows.entry(row.status).or_default() += 1;
            if row.is_unpublished() {
                facts.has_dead |= row.status == OutboxStatus::Dead;
                let oldest = facts.oldest_unpublished.unwrap_or(row.created_at);
                facts.oldest_unpublished = Some(oldest.min(row.created_at));
            }
        }
        Ok(facts)
    }

    async fn newest_outbox(&self) -> Result<Option<Timestamp>, StoreError> {
        let state = self.lock();
        let newest = state.outlets.outbox.last_key_value();
        Ok(newest.map(|(_, row)| row.created_at))
    }

    async fn replay_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError> {
        let mut state = self.lock();
        Ok(state.outlets.dead(&rows, |row| {
            row.status = OutboxStatus::Pending;
            row.available_at = now;
            row.dead_at = None;
            row.forgiven = row.attempts;
        }))
    }

    async fn discard_outbox(&self, rows: Vec<OutboxId>, now: Timestamp) -> Result<u64, StoreError> {
        let mut state = self.lock();
        Ok(state
            .outlets
            .dead(&rows, |row| row.discarded_at = Some(now)))
    }

    async fn old_outbox(&self, before: Timestamp) -> Result<u64, StoreError> {
        Ok(count(self.lock().outlets.over_before(before).len()))
    }

    async fn purge_outbox(&self, before: Timestamp, limit: PageLimit) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let mut old = state.outlets.over_before(before);
        old.sort();
        old.truncate(many(limit.get()));
        for (_, _, id) in &old {
            state.outlets.outbox.remove(id);
        }
        Ok(count(old.len()))
    }

    async fn known(&self, events: Vec<EventKey>) -> Result<Known, StoreError> {
        Ok(self.lock().known(&events))
    }

    async fn quarantine(&self, refused: Vec<Quarantined>) -> Result<(), StoreError> {
        let mut state = self.lock();
        for it in refused {
            let key = (it.source.clone(), it.raw_sha256(), it.code.clone());
            state.outlets.quarantine.entry(key).or_insert(it);
        }
        Ok(())
    }

    async fn purge_quarantine(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let all = state.outlets.quarantine.iter();
        let mut old: Vec<_> = all
            .filter(|(_, it)| it.created_at < before)
            .map(|(key, it)| (it.quarantine_id, key.clone()))
            .collect();
        old.sort();
        old.truncate(many(limit.get()));
        for (_, key) in &old {
            state.outlets.quarantine.remove(key);
        }
        Ok(count(old.len()))
    }

    async fn quarantined(&self, filter: QuarantineFilter) -> Result<Vec<Quarantined>, StoreError> {
        let state = self.lock();
        let is_asked_for = |it: &&Quarantined| {
            filter.source.as_ref().is_none_or(|of| it.source == *of)
                && filter.after.is_none_or(|after| it.quarantine_id > after)
        };
        let all = state.outlets.quarantine.values().filter(is_asked_for);
        let mut found: Vec<_> = all.cloned().collect();
        found.sort_by_key(|it| it.quarantine_id);
        found.truncate(many(filter.limit.get()));
        Ok(found)
    }

    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        Ok(self.lock().outlets.log_epoch)
    }

    async fn begin_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        let mut state = self.lock();
        let last = state.outlets.log_epoch;
        let next = last.next();
        state.outlets.log_epoch = next;
        let rows = state.outlets.outbox.values_mut();
        for row in rows.filter(|row| row.is_unpublished()) {
            let Some(execution_id) = row.execution_id else {
                continue;
            };
            // What others called their rows stays.
            let name = |epoch: LogEpoch| format!("{}:{execution_id}:", epoch.get());
            if let Some(seq) = row.message_id.strip_prefix(&*name(last)) {
                row.message_id = Text::from(format!("{}{seq}", name(next)));
            }
        }
        Ok(next)
    }

    async fn take_stream(&self, take: StreamTake) -> Result<StreamTaken, StoreError> {
        Ok(self.lock().take_stream(&take))
    }

    async fn renew_stream(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let cursor = state.outlets.owned(&owner);
        Ok(cursor
            .map(|cursor| cursor.lease_until = Some(lease_until))
            .is_some())
    }

    async fn move_stream(&self, owner: StreamOwner, to: StreamMove) -> Result<bool, StoreError> {
        Ok(self.lock().move_stream(&owner, to))
    }

    async fn release_stream(&self, owner: StreamOwner) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let cursor = state.outlets.owned(&owner);
        Ok(cursor
            .map(|cursor| {
                cursor.owner = None;
                cursor.lease_until = None;
            })
            .is_some())
    }

    async fn stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        Ok(self.lock().outlets.streams.get(name).cloned())
    }

    async fn last_dropped(&self) -> Result<i64, StoreError> {
        Ok(self.lock().outlets.last_dropped)
    }

    async fn messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        let batch = self.lock().feed(after, limit);
        Ok(FeedBatch {
            events: batch
                .events
                .iter()
                .map(|it| Ok(FeedMessage::of(it)))
                .collect(),
            next: batch.next,
            is_full: batch.is_full,
        })
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        Ok(self.lock().feed_lag(after))
    }
}
