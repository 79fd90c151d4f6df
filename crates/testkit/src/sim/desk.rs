//! What lies outside of a run: slots that runs share, and results that steps take over.

use std::collections::BTreeMap;

use noetl_engine::{
    CacheAnswer, CacheEntry, CacheHit, CacheKey, Input, Origin, Refused, SlotChange, SlotGrant,
    SlotHolder, SlotWant, Verdict,
};
use noetl_types::{ExecutionId, Timestamp};

use super::run::Sim;

/// Gives out slots and keeps results, as a server does for all of its runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Desk {
    wants: BTreeMap<SlotHolder, SlotWant>,
    held: Vec<SlotGrant>,
    /// Results that were left, and when each is too old.
    results: BTreeMap<CacheKey, (CacheHit, Option<Timestamp>)>,
}

impl Desk {
    /// Slots that are wanted and not granted, those first that are to be served first.
    pub(super) fn wants(&self) -> Vec<&SlotWant> {
        let mut wants: Vec<&SlotWant> = self.wants.values().collect();
        wants.sort_by_key(|want| (-i32::from(want.priority), want.since));
        wants
    }

    /// Slots that could be granted now.
    pub(super) fn grantable(&self) -> Vec<SlotGrant> {
        let has_room = |want: &&SlotWant| {
            let taken = self.held.iter().filter(|held| held.key == want.slot.key);
            let is_free = (taken.count() as u64) < u64::from(want.slot.limit);
            is_free || self.holds(&want.granted())
        };
        let wants = self.wants().into_iter().filter(has_room);
        wants.map(SlotWant::granted).collect()
    }

    pub(super) fn holds(&self, slot: &SlotGrant) -> bool {
        self.held.contains(slot)
    }

    pub(super) fn hand_out(&mut self, grant: &SlotGrant) {
        let is_wanted = |want: &SlotWant| want.slot.key == grant.key;
        if self.wants.get(&grant.holder).is_some_and(is_wanted) {
            self.wants.remove(&grant.holder);
        }
        if !self.holds(grant) {
            self.held.push(grant.clone());
        }
    }

    pub(super) fn take_back(&mut self, grant: &SlotGrant) {
        self.held.retain(|held| held != grant);
    }

    /// Takes what a decision says of slots.
    pub(super) fn change(&mut self, changes: &[SlotChange]) {
        for change in changes {
            match change {
                // A run that wants the slot that it has does not know of it, and is told again.
                SlotChange::Want(want) => {
                    if want.holder == SlotHolder::Run || !self.holds(&want.granted()) {
                        self.wants.insert(want.holder.clone(), want.clone());
                    }
                }
                SlotChange::Free(grant) => {
                    self.take_back(grant);
                    let is_wanted = |want: &SlotWant| want.slot.key == grant.key;
                    if self.wants.get(&grant.holder).is_some_and(is_wanted) {
                        self.wants.remove(&grant.holder);
                    }
                }
                SlotChange::Clear => {
                    self.wants.clear();
                    self.held.clear();
                }
            }
        }
    }

    pub(super) fn look_up(&self, key: &CacheKey, now: Timestamp) -> CacheAnswer {
        match self.results.get(key) {
            Some((hit, until)) if until.is_none_or(|until| now < until) => {
                CacheAnswer::Hit(Box::new(hit.clone()))
            }
            Some(_) | None => CacheAnswer::Miss,
        }
    }

    pub(super) fn keep(
        &mut self,
        execution_id: ExecutionId,
        entries: &[CacheEntry],
        now: Timestamp,
    ) {
        for entry in entries {
            let origin = Origin {
                execution_id,
                seq: entry.origin_seq,
            };
            let result = entry.result.clone();
            let until = entry.ttl.map(|ttl| now.saturating_add(ttl));
            let hit = CacheHit { origin, result };
            self.results.insert(entry.key, (hit, until));
        }
    }

    /// The same results as if they were just left, and no slots.
    pub(super) fn results_only(&self) -> Self {
        let fresh = |(key, (hit, _)): (&CacheKey, &(CacheHit, Option<Timestamp>))| {
            (*key, (hit.clone(), None))
        };
        Self {
            results: self.results.iter().map(fresh).collect(),
            ..Self::default()
        }
    }

    pub(super) fn results(&self) -> usize {
        self.results.len()
    }
}

impl Sim {
    /// Slots that the run wants and has not got, those first that are to be served first.
    pub fn wants(&self) -> Vec<SlotWant> {
        self.desk.wants().into_iter().cloned().collect()
    }

    /// Slots that could be granted now.
    pub fn grantable(&self) -> Vec<SlotGrant> {
        if self.state().is_paused() {
            return Vec::new();
        }
        self.desk.grantable()
    }

    /// Grants a slot.
    pub fn grant(&mut self, grant: SlotGrant) -> Result<Verdict, Refused> {
        self.decide(Input::SlotGranted(grant))
    }

    /// How many results were left for others to take over.
    pub fn results_kept(&self) -> usize {
        self.desk.results()
    }
}
