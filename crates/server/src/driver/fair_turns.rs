//! Shares the turns of executions between tenants.
//!
//! A turn decides and appends, so it needs a processor and the writer of the store. The number of
//! concurrent turns is limited. When turns have to wait, the tenants take their turns in rounds
//! (deficit round robin): in each round, a tenant gets events in proportion to its weight,
//! regardless of the number of its waiting executions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_types::TenantId;
use tokio::sync::oneshot;

/// Maximum concurrent turns. Two full groups of the writer, so that it is never idle.
const MAX_CONCURRENT_TURNS: usize = 512;

/// Maximum waiting turns of one tenant. Each holds its messages and its loaded execution.
const MAX_WAITING_TURNS: usize = 4_096;

/// Events per round of a tenant with weight 1.
const EVENTS_PER_ROUND: i64 = 16;

/// Order of a turn among those of its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnOrder {
    /// Before all waiting turns. A cancellation must get ahead of the growth that it ends.
    First,
    /// After all waiting turns.
    Last,
}

/// Limits concurrent turns, and shares them between tenants.
#[derive(Debug)]
pub(super) struct FairTurns {
    queue: Mutex<TurnQueue>,
    weights: BTreeMap<TenantId, u32>,
}

#[derive(Debug)]
struct TurnQueue {
    free: usize,
    /// Tenants with waiting turns.
    tenants: HashMap<TenantId, TenantQueue>,
    /// Tenants with waiting turns, in the order of the current round.
    round: VecDeque<TenantId>,
}

#[derive(Debug, Default)]
struct TenantQueue {
    waiting: VecDeque<oneshot::Sender<TurnPermit>>,
    /// Events that the tenant may still append in this round. Negative if it appended more.
    credit: i64,
}

/// The right to take a turn.
#[derive(Debug)]
pub(super) struct TurnPermit {
    /// `None` if the permit was not granted.
    turns: Option<Arc<FairTurns>>,
    tenant_id: TenantId,
    events: i64,
}

impl TurnPermit {
    /// Records the number of events that the turn appends.
    pub(super) fn charge_events(&mut self, events: usize) {
        self.events = i64::try_from(events).unwrap_or(i64::MAX);
    }
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            turns.release_turn(&self.tenant_id, self.events);
        }
    }
}

impl FairTurns {
    pub(super) fn new(weights: BTreeMap<TenantId, u32>) -> Arc<Self> {
        Self::with_capacity(MAX_CONCURRENT_TURNS, weights)
    }

    /// Turns of slow decisions, which occupy a processor each.
    pub(super) fn for_slow_decisions(weights: BTreeMap<TenantId, u32>) -> Arc<Self> {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::with_capacity((processors / 2).max(1), weights)
    }

    fn with_capacity(capacity: usize, weights: BTreeMap<TenantId, u32>) -> Arc<Self> {
        let queue = TurnQueue { free: capacity, tenants: HashMap::new(), round: VecDeque::new() };
        Arc::new(Self { queue: Mutex::new(queue), weights })
    }

    /// Waits until a tenant may take a turn. Returns `None` if too many turns of the tenant wait.
    pub(super) async fn acquire_turn(
        self: &Arc<Self>,
        tenant_id: &TenantId,
        order: TurnOrder,
    ) -> Option<TurnPermit> {
        let receiver = {
            let mut queue = self.lock_queue();
            if queue.free > 0 {
                queue.free -= 1;
                return Some(self.new_permit(tenant_id));
            }
            let waiting = queue.tenants.get(tenant_id).map_or(0, |tenant| tenant.waiting.len());
            if order == TurnOrder::Last && waiting >= MAX_WAITING_TURNS {
                return None;
            }
            let (sender, receiver) = oneshot::channel();
            queue.add_waiting(tenant_id, sender, order);
            receiver
        };
        // The sender is dropped only with the queue, which this call refers to.
        Some(receiver.await.unwrap_or_else(|_| self.new_permit(tenant_id)))
    }

    fn new_permit(self: &Arc<Self>, tenant_id: &TenantId) -> TurnPermit {
        TurnPermit { turns: Some(Arc::clone(self)), tenant_id: tenant_id.clone(), events: 0 }
    }

    fn release_turn(self: &Arc<Self>, tenant_id: &TenantId, events: i64) {
        let mut queue = self.lock_queue();
        if let Some(tenant) = queue.tenants.get_mut(tenant_id) {
            tenant.credit = tenant.credit.saturating_sub(events);
        }
        queue.free += 1;
        while queue.free > 0
            && let Some((tenant_id, sender)) = queue.take_next(&self.weights)
        {
            match sender.send(self.new_permit(&tenant_id)) {
                Ok(()) => queue.free -= 1,
                // The turn was cancelled while it waited.
                Err(mut permit) => drop(permit.turns.take()),
            }
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, TurnQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnQueue {
    fn add_waiting(
        &mut self,
        tenant_id: &TenantId,
        sender: oneshot::Sender<TurnPermit>,
        order: TurnOrder,
    ) {
        if !self.tenants.contains_key(tenant_id) {
            self.round.push_back(tenant_id.clone());
        }
        let tenant = self.tenants.entry(tenant_id.clone()).or_default();
        match order {
            TurnOrder::First => tenant.waiting.push_front(sender),
            TurnOrder::Last => tenant.waiting.push_back(sender),
        }
    }

    /// Takes the next waiting turn. A tenant without credit gets the credit of the next round and
    /// waits for the others.
    fn take_next(
        &mut self,
        weights: &BTreeMap<TenantId, u32>,
    ) -> Option<(TenantId, oneshot::Sender<TurnPermit>)> {
        loop {
            let tenant_id = self.round.front()?.clone();
            let is_alone = self.round.len() == 1;
            let tenant = self.tenants.get_mut(&tenant_id)?;
            if tenant.credit <= 0 && !is_alone {
                let weight = weights.get(&tenant_id).copied().unwrap_or(1);
                tenant.credit += EVENTS_PER_ROUND * i64::from(weight);
                self.round.rotate_left(1);
                continue;
            }
            // Each turn costs at least one event, so that a round ends.
            tenant.credit = if is_alone { 0 } else { tenant.credit - 1 };
            let sender = tenant.waiting.pop_front();
            if tenant.waiting.is_empty() {
                self.tenants.remove(&tenant_id);
                self.round.pop_front();
            }
            return Some((tenant_id, sender?));
        }
    }
}

#[cfg(test)]
mod tests;
