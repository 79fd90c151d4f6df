//! Resources shared between executions: slots, and cached results.

use std::collections::BTreeMap;

use noetl_engine::{
    CacheEntry, CacheHit, CacheKey, CacheLookupResult, DecisionError, EngineInput, InputVerdict,
    ResultOrigin, SlotChange, SlotGrant, SlotHolder, SlotRequest,
};
use noetl_types::{ExecutionId, Timestamp};

use super::simulation::Simulation;

/// Grants slots and caches results, as a server does for all of its executions.
#[derive(Debug, Clone, Default)]
pub(super) struct CoordinationStub {
    slot_requests: BTreeMap<SlotHolder, SlotRequest>,
    held_slots: Vec<SlotGrant>,
    /// Cached results with their expiry.
    results: BTreeMap<CacheKey, (CacheHit, Option<Timestamp>)>,
}

impl CoordinationStub {
    /// Returns the requested slots that are not granted, in order of service.
    pub(super) fn slot_requests(&self) -> Vec<&SlotRequest> {
        let mut requests: Vec<&SlotRequest> = self.slot_requests.values().collect();
        requests.sort_by_key(|request| (-i32::from(request.priority), request.since));
        requests
    }

    /// Returns the slots that could be granted now.
    pub(super) fn grantable_slots(&self) -> Vec<SlotGrant> {
        let has_room = |request: &&SlotRequest| {
            let held_for_key = self.held_slots.iter().filter(|slot| slot.key == request.slot.key);
            let is_free = (held_for_key.count() as u64) < u64::from(request.slot.limit);
            is_free || self.is_held(&request.to_grant())
        };
        let requests = self.slot_requests().into_iter().filter(has_room);
        requests.map(SlotRequest::to_grant).collect()
    }

    pub(super) fn is_held(&self, slot: &SlotGrant) -> bool {
        self.held_slots.contains(slot)
    }

    pub(super) fn grant_slot(&mut self, grant: &SlotGrant) {
        let is_for_key = |request: &SlotRequest| request.slot.key == grant.key;
        if self.slot_requests.get(&grant.holder).is_some_and(is_for_key) {
            self.slot_requests.remove(&grant.holder);
        }
        if !self.is_held(grant) {
            self.held_slots.push(grant.clone());
        }
    }

    pub(super) fn release_slot(&mut self, grant: &SlotGrant) {
        self.held_slots.retain(|slot| slot != grant);
    }

    /// Applies the slot changes of a decision.
    pub(super) fn apply_slot_changes(&mut self, changes: &[SlotChange]) {
        for change in changes {
            match change {
                // An execution that requests the slot that it already holds has not seen the grant,
                // and gets it again.
                SlotChange::Request(request) => {
                    if request.holder == SlotHolder::Execution || !self.is_held(&request.to_grant())
                    {
                        self.slot_requests.insert(request.holder.clone(), request.clone());
                    }
                }
                SlotChange::Release(grant) => {
                    self.release_slot(grant);
                    let is_for_key = |request: &SlotRequest| request.slot.key == grant.key;
                    if self.slot_requests.get(&grant.holder).is_some_and(is_for_key) {
                        self.slot_requests.remove(&grant.holder);
                    }
                }
                SlotChange::ReleaseAll => {
                    self.slot_requests.clear();
                    self.held_slots.clear();
                }
            }
        }
    }

    pub(super) fn lookup_cache(&self, key: &CacheKey, now: Timestamp) -> CacheLookupResult {
        match self.results.get(key) {
            Some((hit, until)) if until.is_none_or(|until| now < until) => {
                CacheLookupResult::Hit(Box::new(hit.clone()))
            }
            Some(_) | None => CacheLookupResult::Miss,
        }
    }

    pub(super) fn cache_results(
        &mut self,
        execution_id: ExecutionId,
        entries: &[CacheEntry],
        now: Timestamp,
    ) {
        for entry in entries {
            let origin = ResultOrigin { execution_id, seq: entry.origin_seq };
            let result = entry.result.clone();
            let until = entry.ttl.map(|ttl| now.saturating_add(ttl));
            let hit = CacheHit { origin, result };
            self.results.insert(entry.key, (hit, until));
        }
    }

    /// Returns the same results without expiry, and no slots.
    pub(super) fn without_slots(&self) -> Self {
        let without_expiry = |(key, (hit, _)): (&CacheKey, &(CacheHit, Option<Timestamp>))| {
            (*key, (hit.clone(), None))
        };
        Self { results: self.results.iter().map(without_expiry).collect(), ..Self::default() }
    }

    pub(super) fn result_count(&self) -> usize {
        self.results.len()
    }
}

impl Simulation {
    /// Returns the requested slots that are not granted, in order of service.
    pub fn requested_slots(&self) -> Vec<SlotRequest> {
        self.coordination.slot_requests().into_iter().cloned().collect()
    }

    /// Returns the slots that could be granted now.
    pub fn grantable_slots(&self) -> Vec<SlotGrant> {
        if self.state().is_paused() {
            return Vec::new();
        }
        self.coordination.grantable_slots()
    }

    pub fn grant_slot(&mut self, grant: SlotGrant) -> Result<InputVerdict, DecisionError> {
        self.decide(EngineInput::SlotGranted(grant))
    }

    /// Number of results that other executions can reuse.
    pub fn cached_result_count(&self) -> usize {
        self.coordination.result_count()
    }
}
