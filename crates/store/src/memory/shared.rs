//! What is about more than one execution: the maps, and what an append does to them.

use std::collections::BTreeMap;

use noetl_types::limits::PageLimit;
use noetl_types::{Digest, EventId, ExecutionId, Json, SignalId, TenantId, Text, Timestamp};

use super::state::many;
use crate::model::{
    Answered, AppendRefused, Broadcast, BroadcastFilter, CachePut, Cached, DedupClaim, Errand,
    ErrandChange, ErrandOutcome, IdempotencyClaim, KeptDedup, MAX_GRANTS, MatchKey, OpenWait,
    RequestEnd, RequestKey, RequestTake, Slot, SlotChange, SlotChoice, SlotHolder, SlotId,
    SlotState, Swept, Taken, UnderWay, Var, WaitChange, WaitFilter, WaitPlace, grant, oldest,
};
use crate::seal::Sealed;

#[derive(Debug, Default)]
pub(super) struct Shared {
    waits: BTreeMap<WaitPlace, OpenWait>,
    errands: BTreeMap<(ExecutionId, Text), (Json, Timestamp)>,
    slots: BTreeMap<SlotId, Slot>,
    cache: BTreeMap<(TenantId, MatchKey, Digest), Cached>,
    dedup: BTreeMap<(i64, MatchKey), KeptDedup>,
    answered: BTreeMap<(TenantId, Text, Digest), Answered>,
    /// Requests that are worked on. A key is here or among the answered, never in both.
    under_way: BTreeMap<RequestKey, UnderWay>,
    broadcasts: BTreeMap<SignalId, Broadcast>,
    vars: BTreeMap<(ExecutionId, Text), Var>,
}

/// The parts of an append that are about more than its execution.
pub(super) struct Sharing {
    pub(super) tenant_id: TenantId,
    pub(super) execution_id: ExecutionId,
    pub(super) ingest_time: Timestamp,
    pub(super) waits: Vec<WaitChange>,
    pub(super) errands: Vec<ErrandChange>,
    pub(super) slots: Vec<SlotChange>,
    pub(super) cached: Vec<CachePut>,
    pub(super) dedup: Option<DedupClaim>,
    pub(super) idempotency: Option<IdempotencyClaim>,
}

impl Shared {
    /// A request that was answered hears its answer, whatever became of the message in it.
    pub(super) fn judge(&self, sealed: &Sealed) -> Result<(), AppendRefused> {
        let append = &sealed.append;
        if let Some(claim) = &append.idempotency {
            let key = (
                sealed.tenant_id.clone(),
                claim.route.clone(),
                claim.key_sha256,
            );
            if let Some(kept) = self.answered.get(&key) {
                claim.beside(kept.clone(), append.now)?;
            }
        }
        if let Some(claim) = &append.dedup
            && let Some(kept) = self.dedup.get(&(claim.scope, claim.match_key()))
        {
            claim.beside(kept)?;
        }
        Ok(())
    }

    pub(super) fn append(&mut self, sharing: Sharing) {
        let execution_id = sharing.execution_id;
        let tenant_id = &sharing.tenant_id;
        for change in sharing.waits {
            self.change_wait(change, tenant_id, execution_id, sharing.ingest_time);
        }
        for change in sharing.errands {
            match change {
                ErrandChange::Add {
                    errand_id,
                    body,
                    due_at,
                } => {
                    self.errands
                        .insert((execution_id, errand_id), (body, due_at));
                }
                ErrandChange::Done { errand_id } => {
                    self.errands.remove(&(execution_id, errand_id));
                }
            }
        }
        for change in sharing.slots {
            self.change_slot(change, tenant_id, execution_id);
        }
        for put in sharing.cached {
            let key = (tenant_id.clone(), put.scope.clone(), put.key_sha256);
            self.cache.insert(key, put.into_cached(sharing.ingest_time));
        }
        if let Some(claim) = sharing.dedup {
            let kept = claim.kept_for(execution_id);
            self.dedup.insert((claim.scope, claim.match_key()), kept);
        }
        if let Some(claim) = sharing.idempotency {
            let kept = claim.kept_for(execution_id);
            let key = (tenant_id.clone(), claim.route, claim.key_sha256);
            self.answered.insert(key, kept);
        }
    }

    /// Whether something is still owed because of an execution.
    pub(super) fn owes(&self, execution_id: ExecutionId) -> bool {
        self.errands.keys().any(|(of, _)| *of == execution_id)
    }

    /// Forgets what belongs to executions that are not kept.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&ExecutionId) -> bool) {
        self.waits.retain(|place, _| is_kept(&place.execution_id));
        self.errands.retain(|(id, _), _| is_kept(id));
        self.slots.retain(|slot, _| is_kept(&slot.execution_id));
        self.cache.retain(|_, it| is_kept(&it.origin_execution_id));
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
        self.waits.retain(|place, _| {
            place.execution_id != execution_id || place.command_id != command_id
        });
        if let WaitChange::Open(wait) = change {
            let open = wait.into_open(tenant_id, execution_id, since);
            self.waits.extend(open.into_iter().map(|it| (it.place, it)));
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
            SlotChange::Want(wish) => {
                let slot = wish.into_slot(tenant_id, execution_id);
                self.slots.entry(slot.id.clone()).or_insert(slot);
            }
            SlotChange::Confirm { key, holder } => {
                if let Some(slot) = self.slots.get_mut(&id(key, holder))
                    && let SlotState::Held { is_confirmed, .. } = &mut slot.state
                {
                    *is_confirmed = true;
                }
            }
            SlotChange::Free { key, holder } => {
                self.slots.remove(&id(key, holder));
            }
        }
    }

    pub(super) fn waits(&self, filter: &WaitFilter) -> Vec<OpenWait> {
        let is_asked_for = |wait: &&OpenWait| {
            wait.tenant_id == filter.tenant_id
                && filter.after.is_none_or(|after| wait.place > after)
                && filter.choice.includes(wait)
        };
        let waits = self.waits.values().filter(is_asked_for);
        waits.take(many(filter.limit.get())).cloned().collect()
    }

    pub(super) fn broadcast(&mut self, signal: Broadcast) {
        self.broadcasts.entry(signal.signal_id).or_insert(signal);
    }

    pub(super) fn broadcasts(&self, filter: &BroadcastFilter) -> Vec<Broadcast> {
        let is_asked_for = |signal: &&Broadcast| {
            let (name, key) = (signal.match_name(), signal.match_key());
            signal.tenant_id == filter.tenant_id
                && signal.received_at >= filter.since
                && filter
                    .awaited
                    .iter()
                    .any(|it| it.takes(&name, key.as_ref()))
        };
        let found = self.broadcasts.values().filter(is_asked_for);
        oldest(found.cloned().collect(), filter.limit)
    }

    pub(super) fn errands(&self, now: Timestamp, limit: PageLimit) -> Vec<Errand> {
        let mut due: Vec<_> = self
            .errands
            .iter()
            .filter(|(_, (_, due_at))| *due_at <= now)
            .map(|((execution_id, errand_id), (body, due_at))| Errand {
                execution_id: *execution_id,
                errand_id: errand_id.clone(),
                body: body.clone(),
                due_at: *due_at,
            })
            .collect();
        // The map has the order of execution and id already.
        due.sort_by_key(|errand| errand.due_at);
        due.truncate(many(limit.get()));
        due
    }

    pub(super) fn settle_errand(
        &mut self,
        execution_id: ExecutionId,
        errand_id: &Text,
        outcome: ErrandOutcome,
    ) -> bool {
        let key = (execution_id, errand_id.clone());
        match outcome {
            ErrandOutcome::Done => self.errands.remove(&key).is_some(),
            ErrandOutcome::Later(time) => {
                let errand = self.errands.get_mut(&key);
                errand.map(|(_, due_at)| *due_at = time).is_some()
            }
        }
    }

    /// The slots of a key: how many are held, and those that wait, in their turn.
    fn of_key(&self, tenant_id: &TenantId, key: &MatchKey) -> (Vec<Slot>, Vec<Slot>) {
        let of_key = |slot: &&Slot| slot.id.tenant_id == *tenant_id && slot.id.key == *key;
        let slots = self.slots.values().filter(of_key).cloned();
        let (mut held, mut waiting): (Vec<_>, Vec<_>) =
            slots.partition(|slot| slot.held_since().is_some());
        held.sort_by(|a, b| (a.held_since(), &a.id).cmp(&(b.held_since(), &b.id)));
        waiting.sort_by(|a, b| a.turn().cmp(&b.turn()));
        (held, waiting)
    }

    pub(super) fn grant_slots(
        &mut self,
        tenant_id: &TenantId,
        key: &MatchKey,
        now: Timestamp,
    ) -> Vec<Slot> {
        let (held, mut waiting) = self.of_key(tenant_id, key);
        waiting.truncate(many(MAX_GRANTS));
        let held = u64::try_from(held.len()).unwrap_or(u64::MAX);
        let granted = grant(waiting, held, now);
        for slot in &granted {
            self.slots.insert(slot.id.clone(), slot.clone());
        }
        granted
    }

    pub(super) fn slots(&self, choice: &SlotChoice, limit: PageLimit) -> Vec<Slot> {
        let mut slots = match choice {
            SlotChoice::Key { tenant_id, key } => {
                let (mut held, mut waiting) = self.of_key(tenant_id, key);
                held.append(&mut waiting);
                held
            }
            SlotChoice::Unconfirmed { held_by } => {
                let is_old = |slot: &&Slot| match slot.state {
                    SlotState::Held {
                        since,
                        is_confirmed: false,
                    } => since <= *held_by,
                    SlotState::Held { .. } | SlotState::Waiting => false,
                };
                let mut old: Vec<_> = self.slots.values().filter(is_old).cloned().collect();
                old.sort_by_key(Slot::held_since);
                old
            }
        };
        slots.truncate(many(limit.get()));
        slots
    }

    pub(super) fn cached(
        &self,
        key: &(TenantId, MatchKey, Digest),
        now: Timestamp,
    ) -> Option<Cached> {
        let cached = self.cache.get(key);
        cached.filter(|cached| cached.expires_at > now).cloned()
    }

    pub(super) fn answered(
        &self,
        key: &(TenantId, Text, Digest),
        now: Timestamp,
    ) -> Option<Answered> {
        let kept = self.answered.get(key);
        kept.filter(|kept| kept.expires_at > now).cloned()
    }

    pub(super) fn has_seen(&self, message: &DedupClaim) -> bool {
        let kept = self.dedup.get(&(message.scope, message.match_key()));
        kept.is_some_and(|kept| message.beside(kept).is_err())
    }

    pub(super) fn take_request(&mut self, take: RequestTake) -> Taken {
        let RequestKey {
            tenant_id,
            route,
            key_sha256,
        } = take.key.clone();
        let answered = (tenant_id, route, key_sha256);
        if let Some(kept) = self.answered(&answered, take.now) {
            return if kept.body_sha256 == take.body_sha256 {
                Taken::Answered(Box::new(kept))
            } else {
                Taken::Mismatch
            };
        }
        let before = self.under_way.get(&take.key);
        let before = before.filter(|kept| kept.expires_at > take.now);
        let work_id = match before {
            None => take.work_id,
            Some(kept) if kept.body_sha256 != take.body_sha256 => return Taken::Mismatch,
            Some(kept) if kept.until > take.now => return Taken::UnderWay,
            Some(kept) => kept.work_id,
        };
        let kept = UnderWay {
            body_sha256: take.body_sha256,
            work_id,
            until: take.until,
            expires_at: take.expires_at,
        };
        self.answered.remove(&answered);
        self.under_way.insert(take.key, kept);
        Taken::Yours(work_id)
    }

    pub(super) fn settle_request(&mut self, key: RequestKey, work_id: EventId, end: RequestEnd) {
        let kept = self.under_way.get_mut(&key);
        let Some(kept) = kept.filter(|kept| kept.work_id == work_id) else {
            return;
        };
        let (status, answer) = match end {
            RequestEnd::Unknown { now } => {
                kept.until = now;
                return;
            }
            RequestEnd::Refused => {
                self.under_way.remove(&key);
                return;
            }
            RequestEnd::Answered { status, answer } => (status, answer),
        };
        let Ok(execution_id) = ExecutionId::new(work_id.get()) else {
            return;
        };
        let answered = Answered {
            body_sha256: kept.body_sha256,
            status,
            answer: Json::from(answer),
            execution_id,
            expires_at: kept.expires_at,
        };
        self.under_way.remove(&key);
        let key = (key.tenant_id, key.route, key.key_sha256);
        self.answered.insert(key, answered);
    }

    pub(super) fn set_vars(&mut self, execution_id: ExecutionId, vars: BTreeMap<Text, Var>) {
        let vars = vars.into_iter();
        self.vars
            .extend(vars.map(|(name, var)| ((execution_id, name), var)));
    }

    pub(super) fn vars(&self, execution_id: ExecutionId, name: Option<&Text>) -> Vec<Var> {
        let is_asked_for = |of: &&(ExecutionId, Text)| {
            of.0 == execution_id && name.is_none_or(|name| of.1 == *name)
        };
        let vars = self.vars.iter().filter(|(of, _)| is_asked_for(of));
        vars.map(|(_, var)| var.clone()).collect()
    }

    pub(super) fn delete_vars(&mut self, execution_id: ExecutionId, name: Option<&Text>) -> u64 {
        let before = self.vars.len();
        self.vars.retain(|(execution, var), _| {
            *execution != execution_id || name.is_some_and(|name| var != name)
        });
        u64::try_from(before - self.vars.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn sweep(&mut self, what: Swept, now: Timestamp, limit: PageLimit) -> u64 {
        match what {
            Swept::Cache => sweep(&mut self.cache, |it| it.expires_at, now, limit),
            Swept::Dedup => sweep(&mut self.dedup, |it| it.expires_at, now, limit),
            Swept::Idempotency => {
                let answered = sweep(&mut self.answered, |it| it.expires_at, now, limit);
                let rest = u64::from(limit.get()).saturating_sub(answered);
                let Some(rest) = i64::try_from(rest).ok().filter(|rest| *rest > 0) else {
                    return answered;
                };
                let rest = PageLimit::clamped(rest);
                answered + sweep(&mut self.under_way, |it| it.expires_at, now, rest)
            }
            Swept::Broadcasts => sweep(&mut self.broadcasts, |it| it.expires_at, now, limit),
            // Results and the keychain are beside this, and there are no files.
            Swept::Results | Swept::Keychain | Swept::Blobs => 0,
        }
    }
}

/// Forgets what is over, the longest over first.
pub(super) fn sweep<K: Ord + Clone, V>(
    map: &mut BTreeMap<K, V>,
    expires_at: impl Fn(&V) -> Timestamp,
    now: Timestamp,
    limit: PageLimit,
) -> u64 {
    let over = map.iter().map(|(key, value)| (expires_at(value), key));
    let mut over: Vec<_> = over
        .filter(|(expires_at, _)| *expires_at <= now)
        .map(|(expires_at, key)| (expires_at, key.clone()))
        .collect();
    over.sort();
    over.truncate(many(limit.get()));
    for (_, key) in &over {
        map.remove(key);
    }
    u64::try_from(over.len()).unwrap_or(u64::MAX)
}
