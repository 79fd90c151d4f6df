//! What decisions mean beyond their own run: errands, slots, results for others, waits.
//!
//! The store decides nothing, so whoever appends says what is owed and shared from now on. All of it
//! is read off the decisions here; doing it is for [`crate::runtime::errands`].

use std::collections::BTreeMap;

use noetl_engine::{Decision, Input, Plan, SlotChange, SlotGrant, SlotHolder, State, Verdict};
use noetl_store::{
    Awaited, CachePut, CachedResult, ErrandChange, MatchKey, NewWait, WaitChange, WaitKind,
};
use noetl_types::{CommandId, Digest, ExecutionId, Json, Millis, Text, Timestamp};
use serde::Serialize;

use super::live::Live;
use crate::runtime::errands::Owed;
use crate::runtime::outcome::Outcome;
use crate::runtime::slots::{holder, slot_key, wish};

/// How long another server waits before it does what this one has promised.
const GRACE: Millis = Millis::from_secs(5);

/// How long a result may be taken over that names no end.
const FOR_EVER: Millis = Millis::from_secs(100 * 365 * 24 * 3600);

/// What a batch of decisions means beyond its run.
#[derive(Default)]
pub(super) struct Beyond {
    owed: BTreeMap<Text, Owed>,
    slots: BTreeMap<(MatchKey, noetl_store::SlotHolder), noetl_store::SlotChange>,
    cached: BTreeMap<(MatchKey, Digest), CachePut>,
}

impl Beyond {
    /// Adds what one decision means for others.
    pub(super) fn add(&mut self, input: &Input, decision: &Decision, live: &Live, now: Timestamp) {
        for errand in &decision.errands {
            self.owe(Owed::from(errand));
        }
        if let (Input::SlotGranted(grant), Verdict::Accepted) = (input, decision.verdict) {
            let (key, holder) = subject(grant);
            self.put(noetl_store::SlotChange::Confirm { key, holder });
        }
        for change in &decision.slots {
            self.change_slot(change, live);
        }
        // A run that ends with the slot that it was just given never had it before.
        if let (Input::SlotGranted(grant), true) =
            (input, decision.slots.contains(&SlotChange::Clear))
        {
            self.free(grant);
        }
        for entry in &decision.cached {
            let ttl = entry.ttl.unwrap_or(FOR_EVER);
            let put = CachePut {
                scope: MatchKey::of(&Text::from(entry.key.scope.as_str())),
                key_sha256: entry.key.key_sha256,
                result: CachedResult::Inline(entry.result.to_json()),
                origin_execution_id: live.header.execution_id,
                origin_seq: entry.origin_seq,
                expires_at: now.saturating_add(ttl),
            };
            self.cached.insert((put.scope.clone(), put.key_sha256), put);
        }
        let has_ended = decision
            .events
            .iter()
            .any(|event| Outcome::of(event).is_some());
        let parent = decision.next.started().and_then(|started| {
            let is_child = started.depth > 0;
            started.parent_execution_id.filter(|_| is_child)
        });
        if let Some(parent) = parent.filter(|_| has_ended) {
            self.owe(Owed::TellParent { parent });
        }
    }

    fn owe(&mut self, owed: Owed) {
        let id = owed.id();
        // Whoever looks at a key for itself looks at it for all.
        let is_seeking =
            |known: &Owed| matches!(known, Owed::Slots { seeks, .. } if seeks.is_some());
        if !self.owed.get(&id).is_some_and(is_seeking) {
            self.owed.insert(id, owed);
        }
    }

    fn put(&mut self, change: noetl_store::SlotChange) {
        let (key, holder) = change.subject();
        self.slots.insert((key.clone(), holder.clone()), change);
    }

    fn change_slot(&mut self, change: &SlotChange, live: &Live) {
        match change {
            SlotChange::Want(want) => {
                self.put(noetl_store::SlotChange::Want(wish(want)));
                let key = want.slot.key.clone();
                let seeks = (want.holder == SlotHolder::Run).then_some(want.overlap);
                self.owe(Owed::Slots { key, seeks });
            }
            SlotChange::Free(grant) => self.free(grant),
            SlotChange::Clear => {
                for grant in live.state.held_slots(&live.definition.plan) {
                    self.free(&grant);
                }
            }
        }
    }

    fn free(&mut self, grant: &SlotGrant) {
        let (key, holder) = subject(grant);
        self.put(noetl_store::SlotChange::Free { key, holder });
        self.owe(Owed::Slots {
            key: grant.key.clone(),
            seeks: None,
        });
    }

    /// What is owed, as the store keeps it.
    pub(super) fn errands(&self, now: Timestamp) -> Vec<ErrandChange> {
        let due_at = now.saturating_add(GRACE);
        let add = |(id, owed): (&Text, &Owed)| ErrandChange::Add {
            errand_id: id.clone(),
            body: json(owed),
            due_at,
        };
        self.owed.iter().map(add).collect()
    }

    pub(super) fn slots(&mut self) -> Vec<noetl_store::SlotChange> {
        std::mem::take(&mut self.slots).into_values().collect()
    }

    pub(super) fn cached(&mut self) -> Vec<CachePut> {
        std::mem::take(&mut self.cached).into_values().collect()
    }

    /// What is owed, to be done now, and runs to be ended where somebody else does that.
    pub(super) fn into_owed(self, ends_children: bool) -> (Vec<Owed>, Vec<ExecutionId>) {
        let (mut owed, mut children) = (Vec::new(), Vec::new());
        for found in self.owed.into_values() {
            match found {
                Owed::CancelChild { child } if ends_children => children.push(child),
                found => owed.push(found),
            }
        }
        (owed, children)
    }
}

fn subject(grant: &SlotGrant) -> (MatchKey, noetl_store::SlotHolder) {
    (slot_key(&grant.key), holder(&grant.holder))
}

/// The waits of a state, by command.
pub(super) fn waits(state: &State, plan: &Plan) -> BTreeMap<CommandId, NewWait> {
    let open = state.waits().map(|wait| {
        let (kind, detail) = match wait.kind {
            noetl_engine::WaitKind::Signal(..) => (WaitKind::Signal, None),
            noetl_engine::WaitKind::Approval(_, approval) => {
                (WaitKind::Approval, Some(json(approval)))
            }
        };
        let names = wait.names().into_iter();
        let awaited = |(name, key): (&str, Option<&str>)| {
            Awaited::new(&name.into(), key.map(Text::from).as_ref())
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

/// What leads from the waits of one state to those of a later one.
pub(super) fn wait_changes(
    before: &BTreeMap<CommandId, NewWait>,
    after: BTreeMap<CommandId, NewWait>,
) -> Vec<WaitChange> {
    let gone = before.keys().filter(|id| !after.contains_key(id));
    let gone = gone.map(|command_id| WaitChange::Close {
        command_id: *command_id,
    });
    let gone: Vec<WaitChange> = gone.collect();
    let new = after
        .into_iter()
        .filter(|(id, wait)| before.get(id) != Some(wait));
    let new = new.map(|(_, wait)| WaitChange::Open(Box::new(wait)));
    gone.into_iter().chain(new).collect()
}

/// A value as JSON. What is kept here has no form that JSON lacks.
fn json(value: &impl Serialize) -> Json {
    let text = serde_json::to_vec(value).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}
