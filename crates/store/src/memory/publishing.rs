//! The outbox, stream cursors and projected events in memory.

use std::collections::BTreeMap;

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, FeedPosition, Json, OutboxId, Text, Timestamp};

use super::MemoryStore;
use super::state::{MemoryState, to_usize};
use crate::error::StoreError;
use crate::model::{
    ClaimedBatch, ClaimedMessage, CursorMove, EventBody, EventKey, FailureOutcome, FeedBatch,
    FeedItem, FeedLag, FeedLimit, FeedMessage, JSON_CODEC, KnownEvents, LogEpoch, MAX_CLAIM_BYTES,
    MAX_FEED_LAG_EVENTS, OutboxClaim, OutboxFailure, OutboxFilter, OutboxMark, OutboxPayload,
    OutboxRow, OutboxStats, OutboxStatus, QuarantineFilter, QuarantinedItem, StreamCursor,
    StreamLeaseOutcome, StreamLeaseRequest, StreamOwner, StreamStart, event_message_id,
    event_subject,
};
use crate::prepare_append::PreparedAppend;
use crate::publishing::PublishingStore;

#[derive(Debug)]
pub(super) struct PublishingState {
    outbox: BTreeMap<OutboxId, OutboxRow>,
    last_outbox_id: i64,
    log_epoch: LogEpoch,
    /// Position of the last dropped event.
    pub(super) last_dropped: i64,
    streams: BTreeMap<Text, StreamCursor>,
    quarantine: BTreeMap<(Text, Digest, Text), QuarantinedItem>,
}

impl Default for PublishingState {
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

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl PublishingState {
    /// Writes a row for each event of an append that uses the outbox.
    pub(super) fn append_outbox_rows(&mut self, prepared: &PreparedAppend) {
        if !prepared.append.use_outbox {
            return;
        }
        for event in &prepared.events {
            let record = &event.record;
            self.last_outbox_id += 1;
            let Ok(outbox_id) = OutboxId::new(self.last_outbox_id) else {
                return;
            };
            let new_event = &record.event;
            let row = OutboxRow {
                outbox_id,
                event_id: new_event.event_id,
                execution_id: Some(new_event.execution_id),
                subject: Some(event_subject(&new_event.tenant_id, &new_event.event_type)),
                message_id: event_message_id(self.log_epoch, new_event.execution_id, record.seq),
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

    /// True if an execution has unpublished rows.
    pub(super) fn is_unpublished(&self, execution_id: ExecutionId) -> bool {
        let rows = self.outbox.values();
        let mut of_execution = rows.filter(|row| row.execution_id == Some(execution_id));
        of_execution.any(OutboxRow::is_unpublished)
    }

    /// True if a stream has published everything up to a position. A stream that does not exist, or
    /// that belongs to an earlier log epoch, has published nothing.
    pub(super) fn has_published(&self, name: &Text, position: FeedPosition) -> bool {
        let cursor = self.streams.get(name);
        cursor.is_some_and(|it| it.log_epoch == self.log_epoch && it.position >= position)
    }

    /// Deletes the rows of executions that are not kept.
    pub(super) fn retain_executions(&mut self, is_kept: impl Fn(&ExecutionId) -> bool) {
        self.outbox.retain(|_, row| row.execution_id.as_ref().is_none_or(&is_kept));
    }

    pub(super) fn log_epoch(&self) -> LogEpoch {
        self.log_epoch
    }

    pub(super) fn outbox_row_count(&self) -> usize {
        self.outbox.len()
    }

    /// Returns rows that were published before a time, then rows that were discarded before it.
    fn published_or_discarded_before(&self, before: Timestamp) -> Vec<(bool, Timestamp, OutboxId)> {
        let rows = self.outbox.values();
        rows.filter_map(|row| match row.status {
            OutboxStatus::Published => Some((false, row.published_at?, row.outbox_id)),
            OutboxStatus::Dead => Some((true, row.discarded_at?, row.outbox_id)),
            OutboxStatus::Pending | OutboxStatus::InFlight | OutboxStatus::Failed => None,
        })
        .filter(|(_, ended_at, _)| *ended_at < before)
        .collect()
    }

    fn change_dead_rows(&mut self, ids: &[OutboxId], change: impl Fn(&mut OutboxRow)) -> u64 {
        let mut changed = 0;
        for id in ids {
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

    fn find_owned_stream(&mut self, owner: &StreamOwner) -> Option<&mut StreamCursor> {
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
    /// Sets the message id of a row, as an external writer would.
    pub(super) fn set_message_id(&self, row: OutboxId, message_id: &str) {
        let mut state = self.lock();
        if let Some(row) = state.publishing.outbox.get_mut(&row) {
            row.message_id = message_id.into();
        }
    }
}

impl MemoryState {
    fn outbox_payload(
        &self,
        execution_id: Option<ExecutionId>,
        event_id: EventId,
    ) -> OutboxPayload {
        let event = execution_id.and_then(|id| self.find_event(id, event_id));
        event.map_or(OutboxPayload::External(Json::Null), |event| {
            OutboxPayload::Event(EventBody::from_record(&event.record))
        })
    }

    fn claim_outbox(&mut self, claim: &OutboxClaim) -> ClaimedBatch {
        let mut due: Vec<_> = self
            .publishing
            .outbox
            .values()
            .filter(|row| is_due(row, claim.now))
            .map(|row| (row.available_at, row.outbox_id))
            .collect();
        due.sort();
        let mut bytes = 0;
        let mut claimed = ClaimedBatch::default();
        for (_, id) in due.into_iter().take(to_usize(claim.limit.get())) {
            let Some(row) = self.publishing.outbox.get(&id) else {
                continue;
            };
            let payload = self.outbox_payload(row.execution_id, row.event_id);
            bytes += match &payload {
                OutboxPayload::Event(body) => body.bytes.len(),
                OutboxPayload::External(_) => 0,
            };
            if bytes > MAX_CLAIM_BYTES && !claimed.rows.is_empty() {
                break;
            }
            let Some(row) = self.publishing.outbox.get_mut(&id) else {
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

    fn mark_failed(&mut self, failure: &OutboxFailure) -> Option<FailureOutcome> {
        let row = self.publishing.outbox.get_mut(&failure.outbox_id)?;
        let is_fenced = failure.required_attempt().is_some_and(|fence| fence != row.attempts);
        if row.status != OutboxStatus::InFlight || is_fenced {
            return None;
        }
        let outcome = failure.to_outcome(row.attempts, row.forgiven);
        match outcome {
            FailureOutcome::Retry { delay } => {
                row.status = OutboxStatus::Failed;
                row.available_at = failure.now.saturating_add(delay);
            }
            FailureOutcome::Dead => {
                row.status = OutboxStatus::Dead;
                row.dead_at = Some(failure.now);
            }
        }
        row.lease_until = None;
        row.last_error = Some(failure.truncated_error());
        Some(outcome)
    }

    fn find_known_events(&self, keys: &[EventKey]) -> KnownEvents {
        let mut executions: Vec<_> = keys.iter().map(|key| key.execution_id).collect();
        executions.sort();
        executions.dedup();
        let executions = executions.iter().filter_map(|id| self.executions.get(id));
        let mut keys = keys.to_vec();
        keys.sort();
        keys.dedup();
        let events = keys.iter().filter_map(|key| self.find_event(key.execution_id, key.event_id));
        KnownEvents { executions: executions.cloned().collect(), events: events.cloned().collect() }
    }

    fn feed_end(&self) -> FeedPosition {
        let last = self.feed.last_key_value();
        last.map_or_else(FeedPosition::default, |(position, _)| *position)
    }

    fn lease_stream(&mut self, request: &StreamLeaseRequest) -> StreamLeaseOutcome {
        let position = match request.begin {
            StreamStart::Now => self.feed_end(),
            StreamStart::Beginning => FeedPosition::default(),
        };
        let existing = self.publishing.streams.get(&request.name).cloned();
        let cursor = existing.unwrap_or_else(|| {
            StreamCursor::new_stream(request, position, self.publishing.log_epoch)
        });
        let outcome = cursor.try_lease(request);
        if let StreamLeaseOutcome::Granted(cursor) = &outcome {
            self.publishing.streams.insert(request.name.clone(), cursor.clone());
        }
        outcome
    }

    fn move_stream_cursor(&mut self, owner: &StreamOwner, to: CursorMove) -> bool {
        let log_epoch = self.publishing.log_epoch;
        let Some(stored) = self.publishing.streams.get(&owner.name) else {
            return false;
        };
        if let CursorMove::Forward { from, to } = to
            && (stored.position != from || to <= from || stored.log_epoch != log_epoch)
        {
            return false;
        }
        let Some(cursor) = self.publishing.find_owned_stream(owner) else {
            return false;
        };
        match to {
            CursorMove::Forward { to, .. } => cursor.position = to,
            CursorMove::Restart { to, stream_created_at } => {
                cursor.position = to;
                cursor.log_epoch = log_epoch;
                cursor.stream_created_at = stream_created_at;
            }
        }
        true
    }

    fn feed_lag(&self, after: FeedPosition) -> FeedLag {
        let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let mut events = self.feed.range(range);
        let first = events.next().map(|(position, _)| *position);
        let oldest = first.and_then(|position| {
            let (execution_id, version) = self.feed.get(&position)?;
            let index = usize::try_from(version.get()).ok()?.checked_sub(1)?;
            let event = self.logs.get(execution_id)?.events.get(index)?;
            Some(event.record.ingest_time)
        });
        let more = to_u64(events.count());
        FeedLag {
            events: (u64::from(first.is_some()) + more).min(MAX_FEED_LAG_EVENTS),
            oldest,
            end: self.feed_end(),
            held_back_since: None,
        }
    }
}

#[async_trait]
impl PublishingStore for MemoryStore {
    async fn claim_outbox(&self, claim: OutboxClaim) -> Result<ClaimedBatch, StoreError> {
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
            let Some(row) = state.publishing.outbox.get_mut(&mark.outbox_id) else {
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

    async fn mark_failed(
        &self,
        failure: OutboxFailure,
    ) -> Result<Option<FailureOutcome>, StoreError> {
        Ok(self.lock().mark_failed(&failure))
    }

    async fn count_claimable_outbox_rows(&self, now: Timestamp) -> Result<u64, StoreError> {
        let state = self.lock();
        let rows = state.publishing.outbox.values();
        Ok(to_u64(rows.filter(|row| is_due(row, now)).count()))
    }

    async fn list_outbox_rows(&self, filter: OutboxFilter) -> Result<Vec<OutboxRow>, StoreError> {
        let state = self.lock();
        let is_selected = |row: &&OutboxRow| {
            filter.status.is_none_or(|status| row.status == status)
                && filter.after.is_none_or(|after| row.outbox_id > after)
        };
        let rows = state.publishing.outbox.values().filter(is_selected);
        Ok(rows.take(to_usize(filter.limit.get())).cloned().collect())
    }

    async fn outbox_stats(&self) -> Result<OutboxStats, StoreError> {
        let state = self.lock();
        let mut stats = OutboxStats::default();
        for row in state.publishing.outbox.values() {
            *stats.rows.entry(row.status).or_default() += 1;
            if row.is_unpublished() {
                stats.has_dead |= row.status == OutboxStatus::Dead;
                let oldest = stats.oldest_unpublished.unwrap_or(row.created_at);
                stats.oldest_unpublished = Some(oldest.min(row.created_at));
            }
        }
        Ok(stats)
    }

    async fn newest_outbox_row_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let state = self.lock();
        let newest = state.publishing.outbox.last_key_value();
        Ok(newest.map(|(_, row)| row.created_at))
    }

    async fn requeue_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        Ok(state.publishing.change_dead_rows(&rows, |row| {
            row.status = OutboxStatus::Pending;
            row.available_at = now;
            row.dead_at = None;
            row.forgiven = row.attempts;
        }))
    }

    async fn discard_outbox_rows(
        &self,
        rows: Vec<OutboxId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        Ok(state.publishing.change_dead_rows(&rows, |row| row.discarded_at = Some(now)))
    }

    async fn count_old_outbox_rows(&self, before: Timestamp) -> Result<u64, StoreError> {
        Ok(to_u64(self.lock().publishing.published_or_discarded_before(before).len()))
    }

    async fn purge_outbox_rows(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let mut old = state.publishing.published_or_discarded_before(before);
        old.sort();
        old.truncate(to_usize(limit.get()));
        for (_, _, id) in &old {
            state.publishing.outbox.remove(id);
        }
        Ok(to_u64(old.len()))
    }

    async fn find_known_events(&self, events: Vec<EventKey>) -> Result<KnownEvents, StoreError> {
        Ok(self.lock().find_known_events(&events))
    }

    async fn quarantine_items(&self, items: Vec<QuarantinedItem>) -> Result<(), StoreError> {
        let mut state = self.lock();
        for item in items {
            let key = (item.source.clone(), item.raw_sha256(), item.code.clone());
            state.publishing.quarantine.entry(key).or_insert(item);
        }
        Ok(())
    }

    async fn purge_quarantined_items(
        &self,
        before: Timestamp,
        limit: PageLimit,
    ) -> Result<u64, StoreError> {
        let mut state = self.lock();
        let items = state.publishing.quarantine.iter();
        let mut old: Vec<_> = items
            .filter(|(_, item)| item.created_at < before)
            .map(|(key, item)| (item.quarantine_id, key.clone()))
            .collect();
        old.sort();
        old.truncate(to_usize(limit.get()));
        for (_, key) in &old {
            state.publishing.quarantine.remove(key);
        }
        Ok(to_u64(old.len()))
    }

    async fn list_quarantined_items(
        &self,
        filter: QuarantineFilter,
    ) -> Result<Vec<QuarantinedItem>, StoreError> {
        let state = self.lock();
        let is_selected = |item: &&QuarantinedItem| {
            filter.source.as_ref().is_none_or(|source| item.source == *source)
                && filter.after.is_none_or(|after| item.quarantine_id > after)
        };
        let items = state.publishing.quarantine.values().filter(is_selected);
        let mut selected: Vec<_> = items.cloned().collect();
        selected.sort_by_key(|item| item.quarantine_id);
        selected.truncate(to_usize(filter.limit.get()));
        Ok(selected)
    }

    async fn log_epoch(&self) -> Result<LogEpoch, StoreError> {
        Ok(self.lock().publishing.log_epoch)
    }

    async fn start_log_epoch(&self) -> Result<LogEpoch, StoreError> {
        let mut state = self.lock();
        let previous = state.publishing.log_epoch;
        let next = previous.next();
        state.publishing.log_epoch = next;
        let rows = state.publishing.outbox.values_mut();
        for row in rows.filter(|row| row.is_unpublished()) {
            let Some(execution_id) = row.execution_id else {
                continue;
            };
            // Message ids of external writers stay unchanged.
            let prefix = |epoch: LogEpoch| format!("{}:{execution_id}:", epoch.get());
            if let Some(seq) = row.message_id.strip_prefix(&*prefix(previous)) {
                row.message_id = Text::from(format!("{}{seq}", prefix(next)));
            }
        }
        Ok(next)
    }

    async fn lease_stream(
        &self,
        request: StreamLeaseRequest,
    ) -> Result<StreamLeaseOutcome, StoreError> {
        Ok(self.lock().lease_stream(&request))
    }

    async fn renew_stream_lease(
        &self,
        owner: StreamOwner,
        lease_until: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let cursor = state.publishing.find_owned_stream(&owner);
        Ok(cursor.map(|cursor| cursor.lease_until = Some(lease_until)).is_some())
    }

    async fn move_stream_cursor(
        &self,
        owner: StreamOwner,
        to: CursorMove,
    ) -> Result<bool, StoreError> {
        Ok(self.lock().move_stream_cursor(&owner, to))
    }

    async fn release_stream_lease(&self, owner: StreamOwner) -> Result<bool, StoreError> {
        let mut state = self.lock();
        let cursor = state.publishing.find_owned_stream(&owner);
        Ok(cursor
            .map(|cursor| {
                cursor.owner = None;
                cursor.lease_until = None;
            })
            .is_some())
    }

    async fn find_stream_cursor(&self, name: &Text) -> Result<Option<StreamCursor>, StoreError> {
        Ok(self.lock().publishing.streams.get(name).cloned())
    }

    async fn last_dropped_position(&self) -> Result<i64, StoreError> {
        Ok(self.lock().publishing.last_dropped)
    }

    async fn read_feed_messages(
        &self,
        after: FeedPosition,
        limit: FeedLimit,
    ) -> Result<FeedBatch<FeedItem>, StoreError> {
        let batch = self.lock().read_feed(after, limit);
        Ok(FeedBatch {
            events: batch.events.iter().map(|it| Ok(FeedMessage::from_event(it))).collect(),
            next: batch.next,
            is_full: batch.is_full,
        })
    }

    async fn feed_lag(&self, after: FeedPosition) -> Result<FeedLag, StoreError> {
        Ok(self.lock().feed_lag(after))
    }
}
