//! What executions share: waits, signals, errands, slots, caches, claims, variables.

use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, ExecutionId, Json, Millis, SignalId, TenantId, Text, Timestamp, sha256,
};

use super::super::fixture::Run;
use super::super::keep::var;
use super::super::slot::{holder, key, wish};
use super::super::wait::{awaited, new_wait, signal};
use super::History;
use crate::{
    Append, Awaited, BroadcastFilter, CachePut, CachedResult, DedupClaim, ErrandChange,
    ErrandOutcome, IdempotencyClaim, SlotChange, SlotChoice, SlotHolder, SlotWish, Store, Swept,
    WaitChange, WaitChoice, WaitFilter, WaitKind,
};

impl History {
    /// A name that is nobody else's.
    fn name(&mut self, of: &str, sides: u64) -> String {
        format!("{of}{}-{}", self.lane, self.dice.roll(sides))
    }

    fn soon(&mut self) -> Timestamp {
        self.later(Millis::from_secs(40))
    }

    fn some_awaited(&mut self) -> Awaited {
        let name = self.name("signal", 3);
        let key = self.dice.one_in(2).then(|| self.name("key", 2));
        awaited(&name, key.as_deref())
    }

    /// Adds some of what is shared to an append.
    pub(super) fn share(&mut self, append: &mut Append) {
        match self.dice.roll(5) {
            0 => append.waits = vec![self.some_wait()],
            1 => append.errands = vec![self.some_errand()],
            2 => append.slots = vec![self.some_slot()],
            3 => append.cached = vec![self.some_cached(append.execution_id)],
            _ => append.idempotency = Some(self.some_request()),
        }
    }

    fn some_wait(&mut self) -> WaitChange {
        let command_id = CommandId::new(1 + self.small(2)).unwrap();
        if self.dice.one_in(3) {
            return WaitChange::Close { command_id };
        }
        let names = (0..=self.dice.roll(3)).map(|_| self.some_awaited());
        let mut wait = new_wait(command_id, names.collect());
        if self.dice.one_in(3) {
            wait.kind = WaitKind::Approval;
            wait.detail = Some(Json::from("approve?"));
            wait.until = Some(self.now);
        }
        WaitChange::Open(Box::new(wait))
    }

    fn some_errand(&mut self) -> ErrandChange {
        let errand_id = Text::from(self.name("errand", 3));
        if self.dice.one_in(3) {
            return ErrandChange::Done { errand_id };
        }
        ErrandChange::Add {
            errand_id,
            body: Json::from(self.small(3)),
            due_at: self.soon(),
        }
    }

    fn some_slot(&mut self) -> SlotChange {
        let name = self.name("slot", 2);
        let holder = holder(u32::try_from(1 + self.dice.roll(2)).unwrap());
        match self.dice.roll(5) {
            0 => SlotChange::Confirm {
                key: key(&name),
                holder,
            },
            1 => SlotChange::Free {
                key: key(&name),
                holder,
            },
            _ => {
                let limit = u32::try_from(1 + self.dice.roll(3)).unwrap();
                let mut wish = wish(&name, limit, self.small(3), self.now);
                wish.holder = holder;
                SlotChange::Want(wish)
            }
        }
    }

    fn some_cached(&mut self, origin_execution_id: ExecutionId) -> CachePut {
        let value = Json::from(self.small(4));
        CachePut {
            scope: key(&format!("scope{}", self.lane)),
            key_sha256: sha256(self.name("key", 3)),
            result: if self.dice.one_in(3) {
                CachedResult::Reference(value)
            } else {
                CachedResult::Inline(value)
            },
            origin_execution_id,
            origin_seq: noetl_types::Seq::FIRST,
            expires_at: self.soon(),
        }
    }

    fn some_request(&mut self) -> IdempotencyClaim {
        IdempotencyClaim {
            route: Text::from(format!("route{}", self.lane)),
            key_sha256: sha256(self.name("key", 4)),
            body_sha256: sha256(self.name("body", 2)),
            status: 202,
            answer: Json::from(self.small(9)),
            expires_at: self.soon(),
        }
    }

    pub(super) fn some_message(&mut self) -> DedupClaim {
        DedupClaim {
            scope: self.lane,
            key: Text::from(self.name("message", 4)),
            payload_sha256: sha256(self.name("body", 2)),
            seen_at: self.now,
            expires_at: self.soon(),
        }
    }

    /// Signals, grants, errands and variables, as they come between appends.
    pub(super) async fn meet(&mut self, store: &dyn Store) {
        match self.dice.roll(7) {
            0 => self.send_signal(store).await,
            1 => self.look_for_waits(store).await,
            2 => self.look_back(store).await,
            3 => self.settle(store).await,
            4 => self.grant(store).await,
            5 => self.keep_vars(store).await,
            _ => self.take_over(store).await,
        }
    }

    async fn send_signal(&mut self, store: &dyn Store) {
        let id = SignalId::new(self.lane * 1_000 + 1 + self.small(40)).unwrap();
        let name = self.name("signal", 3);
        let key = self.dice.one_in(2).then(|| self.name("key", 2));
        let mut sent = signal(1, &name, key.as_deref(), self.now);
        sent.signal_id = id;
        sent.expires_at = self.soon();
        let answer = store.broadcast(sent).await;
        self.note(&answer);
    }

    async fn look_for_waits(&mut self, store: &dyn Store) {
        let awaited = self.some_awaited();
        let choice = match self.dice.roll(3) {
            0 if !self.runs.is_empty() => {
                let place = self.pick(self.runs.len());
                WaitChoice::Of(self.runs[place].id)
            }
            1 if self.is_alone => WaitChoice::Approvals,
            _ => WaitChoice::For {
                name: awaited.name,
                key: awaited.key,
            },
        };
        let filter = WaitFilter {
            tenant_id: TenantId::default(),
            choice,
            after: None,
            limit: PageLimit::clamped(1 + self.small(6)),
        };
        let waits = store.waits(filter).await;
        self.note(&waits);
    }

    async fn look_back(&mut self, store: &dyn Store) {
        let names = (0..=self.dice.roll(2)).map(|_| self.some_awaited());
        let filter = BroadcastFilter {
            tenant_id: TenantId::default(),
            awaited: names.collect(),
            since: self.now.saturating_sub(Millis::from_secs(120)),
            limit: PageLimit::clamped(1 + self.small(6)),
        };
        let found = store.broadcasts(filter).await;
        self.note(&found);
    }

    async fn settle(&mut self, store: &dyn Store) {
        if self.is_alone {
            let limit = PageLimit::clamped(1 + self.small(4));
            let due = store.errands(self.now, limit).await;
            self.note(&due);
        }
        if self.runs.is_empty() {
            return;
        }
        let place = self.pick(self.runs.len());
        let errand_id = Text::from(self.name("errand", 3));
        let outcome = if self.dice.one_in(2) {
            ErrandOutcome::Done
        } else {
            ErrandOutcome::Later(self.soon())
        };
        let id = self.runs[place].id;
        let settled = store.settle_errand(id, &errand_id, outcome).await;
        self.note(&settled);
    }

    async fn grant(&mut self, store: &dyn Store) {
        let tenant_id = TenantId::default();
        let name = key(&self.name("slot", 2));
        let granted = store.grant_slots(&tenant_id, &name, self.now).await;
        if let Ok(granted) = &granted
            && let Some(slot) = granted.first()
            && self.dice.one_in(4)
        {
            let (key, holder) = (slot.id.key.clone(), slot.id.holder.clone());
            let change = match self.small(3) {
                0 => SlotChange::Confirm { key, holder },
                1 => SlotChange::Want(SlotWish {
                    key,
                    holder: SlotHolder::Execution,
                    limit: slot.limit,
                    priority: slot.priority,
                    arrived_at: self.now,
                }),
                _ => SlotChange::Free { key, holder },
            };
            let id = slot.id.execution_id;
            let changed = store.change_slots(&tenant_id, id, vec![change]).await;
            self.note(&changed);
        }
        self.note(&granted);
        let limit = PageLimit::clamped(1 + self.small(9));
        let choice = if self.is_alone && self.dice.one_in(3) {
            SlotChoice::Unconfirmed { held_by: self.now }
        } else {
            SlotChoice::Key {
                tenant_id,
                key: name,
            }
        };
        let slots = store.slots(choice, limit).await;
        self.note(&slots);
    }

    async fn keep_vars(&mut self, store: &dyn Store) {
        let id = Run::new(self.next_run - 1).id;
        let name = Text::from(self.name("var", 4));
        if self.dice.one_in(4) {
            let one_of_them = Some(&name).filter(|_| self.dice.one_in(2));
            let deleted = store.delete_vars(id, one_of_them).await;
            self.note(&deleted);
        } else {
            let mut vars = vec![var(&name, Json::from(self.small(5)))];
            vars[0].set_at = self.now;
            vars.push(var(&self.name("var", 4), Json::Null));
            let set = store.set_vars(id, vars).await;
            self.note(&set);
        }
        let vars = store.vars(id, None).await;
        self.note(&vars);
    }

    /// What was cached and answered, and now and then what is over.
    async fn take_over(&mut self, store: &dyn Store) {
        let tenant = TenantId::default();
        let scope = key(&format!("scope{}", self.lane));
        let digest = sha256(self.name("key", 3));
        let cached = store.cached(&tenant, &scope, digest, self.now).await;
        self.note(&cached);
        let route = Text::from(format!("route{}", self.lane));
        let digest = sha256(self.name("key", 4));
        let answered = store.answered(&tenant, &route, digest, self.now).await;
        self.note(&answered);
        // Only one that is alone sweeps nothing of others.
        if self.is_alone && self.dice.one_in(3) {
            let what = Swept::ALL[self.pick(Swept::ALL.len())];
            let swept = store.sweep(what, self.now, PageLimit::MAX).await;
            self.note(&swept);
        }
    }

    /// All that is left at the end.
    pub(super) async fn read_commons(&mut self, store: &dyn Store) {
        for run in self.runs.clone() {
            let filter = WaitFilter {
                tenant_id: TenantId::default(),
                choice: WaitChoice::Of(run.id),
                after: None,
                limit: PageLimit::MAX,
            };
            let waits = store.waits(filter).await.unwrap();
            let vars = store.vars(run.id, None).await.unwrap();
            self.note(&(waits, vars));
        }
        for number in 0..2 {
            let choice = SlotChoice::Key {
                tenant_id: TenantId::default(),
                key: key(&format!("slot{}-{number}", self.lane)),
            };
            let slots = store.slots(choice, PageLimit::MAX).await.unwrap();
            self.note(&slots);
        }
        if self.is_alone {
            let counts = store.counts(&TenantId::default()).await.unwrap();
            let errands = store.errands(Timestamp::MAX, PageLimit::MAX).await.unwrap();
            self.note(&(counts, errands));
        }
    }
}
