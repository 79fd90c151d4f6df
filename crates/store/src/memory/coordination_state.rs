//! Coordination state: the maps, and the changes that an append makes to them.

use std::collections::BTreeMap;

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, Json, SignalId, TenantId, Text, Timestamp};

use super::state::to_usize;
use crate::model::{
    AnsweredRequest, AppendError, BroadcastFilter, BroadcastSignal, CachePut, CachedStepResult,
    DedupRecord, DedupReservation, ExecutionVar, FollowUpChange, FollowUpOutcome, GcTarget,
    IdempotencyRecord, InProgressRequest, MAX_SLOT_GRANTS, MatchKey, OpenWait, RequestKey,
    RequestOutcome, RequestReservation, ReserveOutcome, Slot, SlotChange, SlotHolder, SlotId,
    SlotSelector, SlotState, StoredFollowUp, WaitChange, WaitFilter, WaitPosition,
    grant_waiting_slots, merge_oldest_first,
};
use crate::prepare_append::PreparedAppend;

#[derive(Debug, Default)]
pub(super) struct CoordinationState {
    waits: BTreeMap<WaitPosition, OpenWait>,
    follow_ups: BTreeMap<(ExecutionId, Text), (Json, Timestamp)>,
    slots: BTreeMap<SlotId, Slot>,
    cached_results: BTreeMap<(TenantId, MatchKey, Digest), CachedStepResult>,
    dedup: BTreeMap<(i64, MatchKey), DedupRecord>,
    answered_requests: BTreeMap<RequestKey, AnsweredRequest>,
    /// Requests in progress. A key is here or in `answered_requests`, never in both.
    requests_in_progress: BTreeMap<RequestKey, InProgressRequest>,
    broadcasts: BTreeMap<SignalId, BroadcastSignal>,
    vars: BTreeMap<(ExecutionId, Text), ExecutionVar>,
}

/// The parts of an append that change coordination state.
pub(super) struct CoordinationChanges {
    pub(super) tenant_id: TenantId,
    pub(super) execution_id: ExecutionId,
    pub(super) ingest_time: Timestamp,
    pub(super) waits: Vec<WaitChange>,
    pub(super) follow_ups: Vec<FollowUpChange>,
    pub(super) slots: Vec<SlotChange>,
    pub(super) cache_puts: Vec<CachePut>,
    pub(super) dedup: Option<DedupReservation>,
    pub(super) idempotency: Option<IdempotencyRecord>,
}

impl CoordinationState {
    /// Checks the idempotency key first: an answered request gets its response, regardless of the
    /// state of its message.
    pub(super) fn check_keys(&self, prepared: &PreparedAppend) -> Result<(), AppendError> {
        let append = &prepared.append;
        if let Some(record) = &append.idempotency {
            let key = RequestKey {
                tenant_id: prepared.tenant_id.clone(),
                route: record.route.clone(),
                key_sha256: record.key_sha256,
            };
            if let Some(earlier) = self.answered_requests.get(&key) {
                record.check_against(earlier.clone(), append.now)?;
            }
        }
        if let Some(reservation) = &append.dedup
            && let Some(earlier) = self.dedup.get(&(reservation.scope, reservation.match_key()))
        {
            reservation.check_against(earlier)?;
        }
        Ok(())
    }

    pub(super) fn apply_changes(&mut self, changes: CoordinationChanges) {
        let execution_id = changes.execution_id;
        let tenant_id = &changes.tenant_id;
        for change in changes.waits {
            self.change_wait(change, tenant_id, execution_id, changes.ingest_time);
        }
        for change in changes.follow_ups {
            match change {
                FollowUpChange::Add { errand_id: follow_up_id, body, due_at } => {
                    self.follow_ups.insert((execution_id, follow_up_id), (body, due_at));
                }
                FollowUpChange::Done { errand_id: follow_up_id } => {
                    self.follow_ups.remove(&(execution_id, follow_up_id));
                }
            }
        }
        for change in changes.slots {
            self.change_slot(change, tenant_id, execution_id);
        }
        for put in changes.cache_puts {
            let key = (tenant_id.clone(), put.scope.clone(), put.key_sha256);
            self.cached_results.insert(key, put.into_cached(changes.ingest_time));
        }
        if let Some(reservation) = changes.dedup {
            let record = reservation.to_record(execution_id);
            self.dedup.insert((reservation.scope, reservation.match_key()), record);
        }
        if let Some(record) = changes.idempotency {
            let answered = record.to_answered(execution_id);
            let key = RequestKey {
                tenant_id: tenant_id.clone(),
                route: record.route,
                key_sha256: record.key_sha256,
            };
            self.answered_requests.insert(key, answered);
        }
    }

    /// True if a follow-up of an execution is pending.
    pub(super) fn has_follow_up(&self, execution_id: ExecutionId) -> bool {
        self.follow_ups.keys().any(|(id, _)| *id == execution_id)
    }

    /// Deletes the state of executions that are not kept.
    pub(super) fn retain_executions(&mut self, is_kept: impl Fn(&ExecutionId) -> bool) {
        self.waits.retain(|position, _| is_kept(&position.execution_id));
        self.follow_ups.retain(|(id, _), _| is_kept(id));
        self.slots.retain(|slot, _| is_kept(&slot.execution_id));
        self.cached_results.retain(|_, it| is_kept(&it.origin_execution_id));
        self.vars.retain(|(id, _), _| is_kept(id));
    }

    fn change_wait(
        &mut self,
        change: WaitChange,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
        since: Timestamp,
    ) {
        let command_id = change.command_id();
        self.waits.retain(|position, _| {
            position.execution_id != execution_id || position.command_id != command_id
        });
        if let WaitChange::Open(wait) = change {
            let open = wait.into_open_waits(tenant_id, execution_id, since);
            self.waits.extend(open.into_iter().map(|it| (it.position, it)));
        }
    }

    pub(super) fn change_slot(
        &mut self,
        change: SlotChange,
        tenant_id: &TenantId,
        execution_id: ExecutionId,
    ) {
        let id = |key: MatchKey, holder: SlotHolder| SlotId {
            tenant_id: tenant_id.clone(),
            key,
            execution_id,
            holder,
        };
        match change {
            SlotChange::Request(request) => {
                let slot = request.into_slot(tenant_id, execution_id);
                self.slots.entry(slot.id.clone()).or_insert(slot);
            }
            SlotChange::Confirm { key, holder } => {
                if let Some(slot) = self.slots.get_mut(&id(key, holder))
                    && let SlotState::Held { is_confirmed, .. } = &mut slot.state
                {
                    *is_confirmed = true;
                }
            }
            SlotChange::Release { key, holder } => {
                self.slots.remove(&id(key, holder));
            }
        }
    }

    pub(super) fn list_waits(&self, filter: &WaitFilter) -> Vec<OpenWait> {
        let is_selected = |wait: &&OpenWait| {
            wait.tenant_id == filter.tenant_id
                && filter.after.is_none_or(|after| wait.position > after)
                && filter.selector.matches_wait(wait)
        };
        let waits = self.waits.values().filter(is_selected);
        waits.take(to_usize(filter.limit.get())).cloned().collect()
    }

    pub(super) fn put_broadcast(&mut self, signal: BroadcastSignal) {
        self.broadcasts.entry(signal.signal_id).or_insert(signal);
    }

    pub(super) fn list_broadcasts(&self, filter: &BroadcastFilter) -> Vec<BroadcastSignal> {
        let is_selected = |signal: &&BroadcastSignal| {
            let (name, key) = (signal.match_name(), signal.match_key());
            signal.tenant_id == filter.tenant_id
                && signal.received_at >= filter.since
                && filter.awaited.iter().any(|it| it.matches_signal(&name, key.as_ref()))
        };
        let signals = self.broadcasts.values().filter(is_selected);
        merge_oldest_first(signals.cloned().collect(), filter.limit)
    }

    pub(super) fn list_due_follow_ups(
        &self,
        now: Timestamp,
        limit: PageLimit,
    ) -> Vec<StoredFollowUp> {
        let mut due: Vec<_> = self
            .follow_ups
            .iter()
            .filter(|(_, (_, due_at))| *due_at <= now)
            .map(|((execution_id, follow_up_id), (body, due_at))| StoredFollowUp {
                execution_id: *execution_id,
                follow_up_id: follow_up_id.clone(),
                body: body.clone(),
                due_at: *due_at,
            })
            .collect();
        // The map is already ordered by execution and id.
        due.sort_by_key(|follow_up| follow_up.due_at);
        due.truncate(to_usize(limit.get()));
        due
    }

    pub(super) fn complete_follow_up(
        &mut self,
        execution_id: ExecutionId,
        follow_up_id: &Text,
        outcome: FollowUpOutcome,
    ) -> bool {
        let key = (execution_id, follow_up_id.clone());
        match outcome {
            FollowUpOutcome::Done => self.follow_ups.remove(&key).is_some(),
            FollowUpOutcome::RetryAt(time) => {
                let follow_up = self.follow_ups.get_mut(&key);
                follow_up.map(|(_, due_at)| *due_at = time).is_some()
            }
        }
    }

    /// Returns the held slots of a key and the waiting ones in grant order.
    fn held_and_waiting(&self, tenant_id: &TenantId, key: &MatchKey) -> (Vec<Slot>, Vec<Slot>) {
        let has_key = |slot: &&Slot| slot.id.tenant_id == *tenant_id && slot.id.key == *key;
        let slots = self.slots.values().filter(has_key).cloned();
        let (mut held, mut waiting): (Vec<_>, Vec<_>) =
            slots.partition(|slot| slot.held_since().is_some());
        held.sort_by(|a, b| (a.held_since(), &a.id).cmp(&(b.held_since(), &b.id)));
        waiting.sort_by(|a, b| a.queue_order().cmp(&b.queue_order()));
        (held, waiting)
    }

    pub(super) fn grant_slots(
        &mut self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Vec<Slot> {
        let (held, mut waiting) = self.held_and_waiting(tenant_id, key);
        waiting.truncate(to_usize(MAX_SLOT_GRANTS));
        let held = u64::try_from(held.len()).unwrap_or(u64::MAX);
        let granted = grant_waiting_slots(waiting, held, now);
        for slot in &granted {
            self.slots.insert(slot.id.clone(), slot.clone());
        }
        granted
    }

    pub(super) fn list_slots(&self, selector: &SlotSelector, limit: PageLimit) -> Vec<Slot> {
        let mut slots = match selector {
            SlotSelector::Key { tenant_id, key } => {
                let (mut held, mut waiting) = self.held_and_waiting(tenant_id, key);
                held.append(&mut waiting);
                held
            }
            SlotSelector::Unconfirmed { held_by } => {
                let is_unconfirmed = |slot: &&Slot| match slot.state {
                    SlotState::Held { since, is_confirmed: false } => since <= *held_by,
                    SlotState::Held { .. } | SlotState::Waiting => false,
                };
                let mut unconfirmed: Vec<_> =
                    self.slots.values().filter(is_unconfirmed).cloned().collect();
                unconfirmed.sort_by_key(Slot::held_since);
                unconfirmed
            }
        };
        slots.truncate(to_usize(limit.get()));
        slots
    }

    pub(super) fn find_cached_result(
        &self,
        tenant_id: &TenantId,
        scope: &MatchKey,
        key_sha256: Digest,
        now: Timestamp,
    ) -> Option<CachedStepResult> {
        let key = (tenant_id.clone(), scope.clone(), key_sha256);
        let cached = self.cached_results.get(&key);
        cached.filter(|cached| cached.expires_at > now).cloned()
    }

    pub(super) fn find_answered_request(
        &self,
        key: &RequestKey,
        now: Timestamp,
    ) -> Option<AnsweredRequest> {
        let answered = self.answered_requests.get(key);
        answered.filter(|answered| answered.expires_at > now).cloned()
    }

    pub(super) fn has_seen_message(&self, message: &DedupReservation) -> bool {
        let earlier = self.dedup.get(&(message.scope, message.match_key()));
        earlier.is_some_and(|earlier| message.check_against(earlier).is_err())
    }

    pub(super) fn reserve_request(&mut self, reservation: RequestReservation) -> ReserveOutcome {
        if let Some(answered) = self.find_answered_request(&reservation.key, reservation.now) {
            return if answered.body_sha256 == reservation.body_sha256 {
                ReserveOutcome::Answered(Box::new(answered))
            } else {
                ReserveOutcome::Mismatch
            };
        }
        let earlier = self.requests_in_progress.get(&reservation.key);
        let earlier = earlier.filter(|earlier| earlier.expires_at > reservation.now);
        let work_id = match earlier {
            None => reservation.work_id,
            Some(earlier) if earlier.body_sha256 != reservation.body_sha256 => {
                return ReserveOutcome::Mismatch;
            }
            Some(earlier) if earlier.until > reservation.now => return ReserveOutcome::InProgress,
            Some(earlier) => earlier.work_id,
        };
        let request = InProgressRequest {
            body_sha256: reservation.body_sha256,
            work_id,
            until: reservation.until,
            expires_at: reservation.expires_at,
        };
        self.answered_requests.remove(&reservation.key);
        self.requests_in_progress.insert(reservation.key, request);
        ReserveOutcome::Reserved(work_id)
    }

    pub(super) fn complete_request(
        &mut self,
        key: RequestKey,
        work_id: EventId,
        outcome: RequestOutcome,
    ) {
        let request = self.requests_in_progress.get_mut(&key);
        let Some(request) = request.filter(|request| request.work_id == work_id) else {
            return;
        };
        let (status, answer) = match outcome {
            RequestOutcome::Unknown { now } => {
                request.until = now;
                return;
            }
            RequestOutcome::Refused => {
                self.requests_in_progress.remove(&key);
                return;
            }
            RequestOutcome::Answered { status, answer } => (status, answer),
        };
        let Ok(execution_id) = ExecutionId::new(work_id.get()) else {
            return;
        };
        let answered = AnsweredRequest {
            body_sha256: request.body_sha256,
            status,
            answer: Json::from(answer),
            execution_id,
            expires_at: request.expires_at,
        };
        self.requests_in_progress.remove(&key);
        self.answered_requests.insert(key, answered);
    }

    pub(super) fn set_vars(
        &mut self,
        execution_id: ExecutionId,
        vars: BTreeMap<Text, ExecutionVar>,
    ) {
        let vars = vars.into_iter();
        self.vars.extend(vars.map(|(name, var)| ((execution_id, name), var)));
    }

    pub(super) fn list_vars(
        &self,
        execution_id: ExecutionId,
        name: Option<&Text>,
    ) -> Vec<ExecutionVar> {
        let is_selected = |key: &&(ExecutionId, Text)| {
            key.0 == execution_id && name.is_none_or(|name| key.1 == *name)
        };
        let vars = self.vars.iter().filter(|(key, _)| is_selected(key));
        vars.map(|(_, var)| var.clone()).collect()
    }

    pub(super) fn delete_vars(&mut self, execution_id: ExecutionId, name: Option<&Text>) -> u64 {
        let before = self.vars.len();
        self.vars.retain(|(execution, var), _| {
            *execution != execution_id || name.is_some_and(|name| var != name)
        });
        u64::try_from(before - self.vars.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn delete_expired(
        &mut self,
        target: GcTarget,
        now: Timestamp,
        limit: PageLimit,
    ) -> u64 {
        match target {
            GcTarget::Cache => {
                delete_expired_entries(&mut self.cached_results, |it| it.expires_at, now, limit)
            }
            GcTarget::Dedup => {
                delete_expired_entries(&mut self.dedup, |it| it.expires_at, now, limit)
            }
            GcTarget::Idempotency => {
                let answered = delete_expired_entries(
                    &mut self.answered_requests,
                    |it| it.expires_at,
                    now,
                    limit,
                );
                let remaining = u64::from(limit.get()).saturating_sub(answered);
                let Some(remaining) =
                    i64::try_from(remaining).ok().filter(|remaining| *remaining > 0)
                else {
                    return answered;
                };
                let remaining = PageLimit::clamped(remaining);
                answered
                    + delete_expired_entries(
                        &mut self.requests_in_progress,
                        |it| it.expires_at,
                        now,
                        remaining,
                    )
            }
            GcTarget::Broadcasts => {
                delete_expired_entries(&mut self.broadcasts, |it| it.expires_at, now, limit)
            }
            // Results and the keychain are stored elsewhere, and there are no files.
            GcTarget::Results | GcTarget::Keychain | GcTarget::Blobs => 0,
        }
    }
}

/// Deletes expired entries, the longest expired first.
pub(super) fn delete_expired_entries<K: Ord + Clone, V>(
    map: &mut BTreeMap<K, V>,
    expires_at: impl Fn(&V) -> Timestamp,
    now: Timestamp,
    limit: PageLimit,
) -> u64 {
    let expired = map.iter().map(|(key, value)| (expires_at(value), key));
    let mut expired: Vec<_> = expired
        .filter(|(expires_at, _)| *expires_at <= now)
        .map(|(expires_at, key)| (expires_at, key.clone()))
        .collect();
    expired.sort();
    expired.truncate(to_usize(limit.get()));
    for (_, key) in &expired {
        map.remove(key);
    }
    u64::try_from(expired.len()).unwrap_or(u64::MAX)
}
