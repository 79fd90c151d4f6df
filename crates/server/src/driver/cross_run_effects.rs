//! Effects of decisions beyond their own execution: follow-ups, slots, cached results, waits.
//!
//! The store makes no decisions, so an append states all of them. They are derived from the
//! decisions here and performed by [`crate::services::follow_ups`].

use std::collections::BTreeMap;

use noetl_engine::{
    Decision, EngineInput, ExecutionState, InputVerdict, Plan, SlotChange, SlotGrant, SlotHolder,
};
use noetl_store::{
    AwaitedName, CachePut, CachedResult, FollowUpChange, MatchKey, NewWait, WaitChange, WaitKind,
};
use noetl_types::{CommandId, Digest, ExecutionId, Json, Millis, Text, Timestamp};
use serde::Serialize;

use crate::driver::ExecutionOutcome;
use crate::driver::loaded_execution::LoadedExecution;
use crate::services::follow_ups::PendingFollowUp;
use crate::services::follow_ups::slots::{slot_key, to_slot_request, to_store_holder};

/// Time after which another server performs a follow-up that this one recorded.
const FOLLOW_UP_GRACE: Millis = Millis::from_secs(5);

/// Time to live of a cached result that names none.
const DEFAULT_CACHE_TTL: Millis = Millis::from_secs(100 * 365 * 24 * 3600);

/// Effects of a batch of decisions beyond its execution.
#[derive(Default)]
pub(super) struct CrossRunEffects {
    follow_ups: BTreeMap<Text, PendingFollowUp>,
    slot_changes: BTreeMap<(MatchKey, noetl_store::SlotHolder), noetl_store::SlotChange>,
    cache_puts: BTreeMap<(MatchKey, Digest), CachePut>,
}

impl CrossRunEffects {
    /// Adds the effects of one decision.
    pub(super) fn add_decision(
        &mut self,
        input: &EngineInput,
        decision: &Decision,
        execution: &LoadedExecution,
        now: Timestamp,
    ) {
        for follow_up in &decision.follow_ups {
            self.add_follow_up(PendingFollowUp::from(follow_up));
        }
        if let (EngineInput::SlotGranted(grant), InputVerdict::Accepted) = (input, decision.verdict)
        {
            let (key, holder) = slot_subject(grant);
            self.put_slot_change(noetl_store::SlotChange::Confirm { key, holder });
        }
        for change in &decision.slots {
            self.change_slot(change, execution);
        }
        // An execution that ends with the slot that it was just granted did not hold it before.
        if let (EngineInput::SlotGranted(grant), true) =
            (input, decision.slots.contains(&SlotChange::ReleaseAll))
        {
            self.release_slot(grant);
        }
        for entry in &decision.cache_entries {
            let ttl = entry.ttl.unwrap_or(DEFAULT_CACHE_TTL);
            let put = CachePut {
                scope: MatchKey::from_text(&Text::from(entry.key.scope.as_str())),
                key_sha256: entry.key.key_sha256,
                result: CachedResult::Inline(entry.result.to_json()),
                origin_execution_id: execution.header.execution_id,
                origin_seq: entry.origin_seq,
                expires_at: now.saturating_add(ttl),
            };
            self.cache_puts.insert((put.scope.clone(), put.key_sha256), put);
        }
        let has_ended =
            decision.events.iter().any(|event| ExecutionOutcome::from_event(event).is_some());
        let parent = decision.next.start_event().and_then(|started| {
            let is_child = started.depth > 0;
            started.parent_execution_id.filter(|_| is_child)
        });
        if let Some(parent) = parent.filter(|_| has_ended) {
            self.add_follow_up(PendingFollowUp::TellParent { parent });
        }
    }

    fn add_follow_up(&mut self, follow_up: PendingFollowUp) {
        let id = follow_up.follow_up_id();
        // A follow-up with an overlap policy also grants the slots of the key to the others.
        let has_policy = |existing: &PendingFollowUp| matches!(existing, PendingFollowUp::Slots { seeks, .. } if seeks.is_some());
        if !self.follow_ups.get(&id).is_some_and(has_policy) {
            self.follow_ups.insert(id, follow_up);
        }
    }

    fn put_slot_change(&mut self, change: noetl_store::SlotChange) {
        let (key, holder) = change.key_and_holder();
        self.slot_changes.insert((key.clone(), holder.clone()), change);
    }

    fn change_slot(&mut self, change: &SlotChange, execution: &LoadedExecution) {
        match change {
            SlotChange::Request(request) => {
                self.put_slot_change(noetl_store::SlotChange::Request(to_slot_request(request)));
                let key = request.slot.key.clone();
                let seeks = (request.holder == SlotHolder::Execution).then_some(request.overlap);
                self.add_follow_up(PendingFollowUp::Slots { key, seeks });
            }
            SlotChange::Release(grant) => self.release_slot(grant),
            SlotChange::ReleaseAll => {
                for grant in execution.state.held_slots(&execution.definition.plan) {
                    self.release_slot(&grant);
                }
            }
        }
    }

    fn release_slot(&mut self, grant: &SlotGrant) {
        let (key, holder) = slot_subject(grant);
        self.put_slot_change(noetl_store::SlotChange::Release { key, holder });
        self.add_follow_up(PendingFollowUp::Slots { key: grant.key.clone(), seeks: None });
    }

    /// Returns the follow-ups as store changes.
    pub(super) fn follow_up_changes(&self, now: Timestamp) -> Vec<FollowUpChange> {
        let due_at = now.saturating_add(FOLLOW_UP_GRACE);
        let add = |(id, follow_up): (&Text, &PendingFollowUp)| FollowUpChange::Add {
            errand_id: id.clone(),
            body: to_json_value(follow_up),
            due_at,
        };
        self.follow_ups.iter().map(add).collect()
    }

    pub(super) fn take_slot_changes(&mut self) -> Vec<noetl_store::SlotChange> {
        std::mem::take(&mut self.slot_changes).into_values().collect()
    }

    pub(super) fn take_cache_puts(&mut self) -> Vec<CachePut> {
        std::mem::take(&mut self.cache_puts).into_values().collect()
    }

    /// Returns the follow-ups to perform now, and the children to cancel if the sender cancels
    /// them.
    pub(super) fn into_follow_ups(
        self,
        cancels_children: bool,
    ) -> (Vec<PendingFollowUp>, Vec<ExecutionId>) {
        let (mut follow_ups, mut children) = (Vec::new(), Vec::new());
        for follow_up in self.follow_ups.into_values() {
            match follow_up {
                PendingFollowUp::CancelChild { child } if cancels_children => children.push(child),
                follow_up => follow_ups.push(follow_up),
            }
        }
        (follow_ups, children)
    }
}

fn slot_subject(grant: &SlotGrant) -> (MatchKey, noetl_store::SlotHolder) {
    (slot_key(&grant.key), to_store_holder(&grant.holder))
}

/// Returns the open waits of a state, by command.
pub(super) fn open_waits(state: &ExecutionState, plan: &Plan) -> BTreeMap<CommandId, NewWait> {
    let open = state.open_waits().map(|wait| {
        let (kind, detail) = match wait.kind {
            noetl_engine::WaitKind::Signal(..) => (WaitKind::Signal, None),
            noetl_engine::WaitKind::Approval(_, approval) => {
                (WaitKind::Approval, Some(to_json_value(approval)))
            }
        };
        let names = wait.awaited_names().into_iter();
        let awaited = |(name, key): (&str, Option<&str>)| {
            AwaitedName::new(&name.into(), key.map(Text::from).as_ref())
        };
        let wait = NewWait {
            command_id: wait.command,
            kind,
            names: names.map(awaited).collect(),
            step: plan.step(wait.step).name.clone(),
            index: wait.index.map(u64::from),
            until: wait.until,
            detail,
        };
        (wait.command_id, wait)
    });
    open.collect()
}

/// Computes the changes between the waits of two states.
pub(super) fn diff_waits(
    before: &BTreeMap<CommandId, NewWait>,
    after: BTreeMap<CommandId, NewWait>,
) -> Vec<WaitChange> {
    let closed = before.keys().filter(|id| !after.contains_key(id));
    let closed = closed.map(|command_id| WaitChange::Close { command_id: *command_id });
    let closed: Vec<WaitChange> = closed.collect();
    let opened = after.into_iter().filter(|(id, wait)| before.get(id) != Some(wait));
    let opened = opened.map(|(_, wait)| WaitChange::Open(Box::new(wait)));
    closed.into_iter().chain(opened).collect()
}

/// Converts a value to JSON. All types used here can be represented.
fn to_json_value(value: &impl Serialize) -> Json {
    let text = serde_json::to_vec(value).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}
