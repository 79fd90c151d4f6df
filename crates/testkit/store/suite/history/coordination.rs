//! Random coordination calls: waits, signals, follow-ups, slots, caches, idempotency and dedup
//! keys, variables.

use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, ExecutionId, Json, Millis, SignalId, TenantId, Text, Timestamp, sha256,
};

use super::super::cache_and_vars::test_var;
use super::super::fixture::TestExecution;
use super::super::slot::{match_key, new_slot, step_holder};
use super::super::wait::{awaited_name, broadcast_signal, new_wait};
use super::RandomHistory;
use crate::{
    AppendRequest, AwaitedName, BroadcastFilter, CachePut, CachedResult, DedupReservation,
    FollowUpChange, FollowUpOutcome, GcTarget, IdempotencyRecord, NewSlot, SlotChange, SlotHolder,
    SlotSelector, Store, WaitChange, WaitFilter, WaitKind, WaitSelector,
};

impl RandomHistory {
    /// Returns a name that no other lane uses.
    fn random_name(&mut self, kind: &str, bound: u64) -> String {
        format!("{kind}{}-{}", self.lane, self.rng.next_below(bound))
    }

    fn random_expiry(&mut self) -> Timestamp {
        self.random_time_within(Millis::from_secs(40))
    }

    fn random_awaited(&mut self) -> AwaitedName {
        let name = self.random_name("signal", 3);
        let key = self.rng.one_in(2).then(|| self.random_name("key", 2));
        awaited_name(&name, key.as_deref())
    }

    /// Adds a random coordination change to an append.
    pub(super) fn add_coordination(&mut self, append: &mut AppendRequest) {
        match self.rng.next_below(5) {
            0 => append.waits = vec![self.random_wait()],
            1 => append.follow_ups = vec![self.random_follow_up()],
            2 => append.slots = vec![self.random_slot_change()],
            3 => append.cache_puts = vec![self.random_cache_put(append.execution_id)],
            _ => append.idempotency = Some(self.random_idempotency_record()),
        }
    }

    fn random_wait(&mut self) -> WaitChange {
        let command_id = CommandId::new(1 + self.random_below(2)).unwrap();
        if self.rng.one_in(3) {
            return WaitChange::Close { command_id };
        }
        let names = (0..=self.rng.next_below(3)).map(|_| self.random_awaited());
        let mut wait = new_wait(command_id, names.collect());
        if self.rng.one_in(3) {
            wait.kind = WaitKind::Approval;
            wait.detail = Some(Json::from("approve?"));
            wait.until = Some(self.now);
        }
        WaitChange::Open(Box::new(wait))
    }

    fn random_follow_up(&mut self) -> FollowUpChange {
        let errand_id = Text::from(self.random_name("follow-up", 3));
        if self.rng.one_in(3) {
            return FollowUpChange::Done { errand_id };
        }
        FollowUpChange::Add {
            errand_id,
            body: Json::from(self.random_below(3)),
            due_at: self.random_expiry(),
        }
    }

    fn random_slot_change(&mut self) -> SlotChange {
        let name = self.random_name("slot", 2);
        let holder = step_holder(u32::try_from(1 + self.rng.next_below(2)).unwrap());
        match self.rng.next_below(5) {
            0 => SlotChange::Confirm { key: match_key(&name), holder },
            1 => SlotChange::Release { key: match_key(&name), holder },
            _ => {
                let limit = u32::try_from(1 + self.rng.next_below(3)).unwrap();
                let mut slot = new_slot(&name, limit, self.random_below(3), self.now);
                slot.holder = holder;
                SlotChange::Request(slot)
            }
        }
    }

    fn random_cache_put(&mut self, origin_execution_id: ExecutionId) -> CachePut {
        let value = Json::from(self.random_below(4));
        CachePut {
            scope: match_key(&format!("scope{}", self.lane)),
            key_sha256: sha256(self.random_name("key", 3)),
            result: if self.rng.one_in(3) {
                CachedResult::Reference(value)
            } else {
                CachedResult::Inline(value)
            },
            origin_execution_id,
            origin_seq: noetl_types::Seq::FIRST,
            expires_at: self.random_expiry(),
        }
    }

    fn random_idempotency_record(&mut self) -> IdempotencyRecord {
        IdempotencyRecord {
            route: Text::from(format!("route{}", self.lane)),
            key_sha256: sha256(self.random_name("key", 4)),
            body_sha256: sha256(self.random_name("body", 2)),
            status: 202,
            answer: Json::from(self.random_below(9)),
            expires_at: self.random_expiry(),
        }
    }

    pub(super) fn random_dedup_reservation(&mut self) -> DedupReservation {
        DedupReservation {
            scope: self.lane,
            key: Text::from(self.random_name("message", 4)),
            payload_sha256: sha256(self.random_name("body", 2)),
            seen_at: self.now,
            expires_at: self.random_expiry(),
        }
    }

    /// Makes a call about signals, slots, follow-ups, variables or caches, as they occur between
    /// appends.
    pub(super) async fn call_coordination(&mut self, store: &dyn Store) {
        match self.rng.next_below(7) {
            0 => self.send_signal(store).await,
            1 => self.list_waits(store).await,
            2 => self.list_broadcasts(store).await,
            3 => self.complete_follow_up(store).await,
            4 => self.grant_slots(store).await,
            5 => self.change_vars(store).await,
            _ => self.read_cache_and_requests(store).await,
        }
    }

    async fn send_signal(&mut self, store: &dyn Store) {
        let id = SignalId::new(self.lane * 1_000 + 1 + self.random_below(40)).unwrap();
        let name = self.random_name("signal", 3);
        let key = self.rng.one_in(2).then(|| self.random_name("key", 2));
        let mut signal = broadcast_signal(1, &name, key.as_deref(), self.now);
        signal.signal_id = id;
        signal.expires_at = self.random_expiry();
        let answer = store.put_broadcast(signal).await;
        self.record_answer(&answer);
    }

    async fn list_waits(&mut self, store: &dyn Store) {
        let awaited = self.random_awaited();
        let selector = match self.rng.next_below(3) {
            0 if !self.runs.is_empty() => {
                let index = self.random_index(self.runs.len());
                WaitSelector::InExecution(self.runs[index].id)
            }
            1 if self.is_exclusive => WaitSelector::Approvals,
            _ => WaitSelector::Matching { name: awaited.name, key: awaited.key },
        };
        let filter = WaitFilter {
            tenant_id: TenantId::default(),
            selector,
            after: None,
            limit: PageLimit::clamped(1 + self.random_below(6)),
        };
        let waits = store.list_waits(filter).await;
        self.record_answer(&waits);
    }

    async fn list_broadcasts(&mut self, store: &dyn Store) {
        let names = (0..=self.rng.next_below(2)).map(|_| self.random_awaited());
        let filter = BroadcastFilter {
            tenant_id: TenantId::default(),
            awaited: names.collect(),
            since: self.now.saturating_sub(Millis::from_secs(120)),
            limit: PageLimit::clamped(1 + self.random_below(6)),
        };
        let signals = store.list_broadcasts(filter).await;
        self.record_answer(&signals);
    }

    async fn complete_follow_up(&mut self, store: &dyn Store) {
        if self.is_exclusive {
            let limit = PageLimit::clamped(1 + self.random_below(4));
            let due = store.list_due_follow_ups(self.now, limit).await;
            self.record_answer(&due);
        }
        if self.runs.is_empty() {
            return;
        }
        let index = self.random_index(self.runs.len());
        let follow_up_id = Text::from(self.random_name("follow-up", 3));
        let outcome = if self.rng.one_in(2) {
            FollowUpOutcome::Done
        } else {
            FollowUpOutcome::RetryAt(self.random_expiry())
        };
        let id = self.runs[index].id;
        let completed = store.complete_follow_up(id, &follow_up_id, outcome).await;
        self.record_answer(&completed);
    }

    async fn grant_slots(&mut self, store: &dyn Store) {
        let tenant_id = TenantId::default();
        let name = match_key(&self.random_name("slot", 2));
        let granted = store.grant_slots(&tenant_id, &name, self.now).await;
        if let Ok(granted) = &granted
            && let Some(slot) = granted.first()
            && self.rng.one_in(4)
        {
            let (key, holder) = (slot.id.key.clone(), slot.id.holder.clone());
            let change = match self.random_below(3) {
                0 => SlotChange::Confirm { key, holder },
                1 => SlotChange::Request(NewSlot {
                    key,
                    holder: SlotHolder::Execution,
                    limit: slot.limit,
                    priority: slot.priority,
                    arrived_at: self.now,
                }),
                _ => SlotChange::Release { key, holder },
            };
            let id = slot.id.execution_id;
            let changed = store.change_slots(&tenant_id, id, vec![change]).await;
            self.record_answer(&changed);
        }
        self.record_answer(&granted);
        let limit = PageLimit::clamped(1 + self.random_below(9));
        let selector = if self.is_exclusive && self.rng.one_in(3) {
            SlotSelector::Unconfirmed { held_by: self.now }
        } else {
            SlotSelector::Key { tenant_id, key: name }
        };
        let slots = store.list_slots(selector, limit).await;
        self.record_answer(&slots);
    }

    async fn change_vars(&mut self, store: &dyn Store) {
        let id = TestExecution::new(self.next_run - 1).id;
        let name = Text::from(self.random_name("var", 4));
        if self.rng.one_in(4) {
            let selected = Some(&name).filter(|_| self.rng.one_in(2));
            let deleted = store.delete_vars(id, selected).await;
            self.record_answer(&deleted);
        } else {
            let mut vars = vec![test_var(&name, Json::from(self.random_below(5)))];
            vars[0].set_at = self.now;
            vars.push(test_var(&self.random_name("var", 4), Json::Null));
            let set = store.set_vars(id, vars).await;
            self.record_answer(&set);
        }
        let vars = store.list_vars(id, None).await;
        self.record_answer(&vars);
    }

    /// Reads cached results and answered requests, and sometimes deletes expired rows.
    async fn read_cache_and_requests(&mut self, store: &dyn Store) {
        let tenant = TenantId::default();
        let scope = match_key(&format!("scope{}", self.lane));
        let digest = sha256(self.random_name("key", 3));
        let cached = store.find_cached_result(&tenant, &scope, digest, self.now).await;
        self.record_answer(&cached);
        let route = Text::from(format!("route{}", self.lane));
        let digest = sha256(self.random_name("key", 4));
        let answered = store.find_answered_request(&tenant, &route, digest, self.now).await;
        self.record_answer(&answered);
        // Deletes expired rows only without other histories, whose rows would be deleted too.
        if self.is_exclusive && self.rng.one_in(3) {
            let target = GcTarget::ALL[self.random_index(GcTarget::ALL.len())];
            let deleted = store.delete_expired(target, self.now, PageLimit::MAX).await;
            self.record_answer(&deleted);
        }
    }

    /// Reads the remaining coordination state at the end.
    pub(super) async fn read_coordination_state(&mut self, store: &dyn Store) {
        for run in self.runs.clone() {
            let filter = WaitFilter {
                tenant_id: TenantId::default(),
                selector: WaitSelector::InExecution(run.id),
                after: None,
                limit: PageLimit::MAX,
            };
            let waits = store.list_waits(filter).await.unwrap();
            let vars = store.list_vars(run.id, None).await.unwrap();
            self.record_answer(&(waits, vars));
        }
        for number in 0..2 {
            let selector = SlotSelector::Key {
                tenant_id: TenantId::default(),
                key: match_key(&format!("slot{}-{number}", self.lane)),
            };
            let slots = store.list_slots(selector, PageLimit::MAX).await.unwrap();
            self.record_answer(&slots);
        }
        if self.is_exclusive {
            let counts = store.tenant_counts(&TenantId::default()).await.unwrap();
            let follow_ups =
                store.list_due_follow_ups(Timestamp::MAX, PageLimit::MAX).await.unwrap();
            self.record_answer(&(counts, follow_ups));
        }
    }
}
