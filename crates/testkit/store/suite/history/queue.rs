//! Random calls about leases, expiry and timers.

use noetl_types::limits::{LeaseBatchSize, PageLimit};
use noetl_types::{Millis, TenantId};

use super::super::fixture::{lease_request, worker_id};
use super::RandomHistory;
use crate::{LeaseRelease, Store};

impl RandomHistory {
    pub(super) async fn lease_commands(&mut self, store: &dyn Store) {
        let number = 1 + self.rng.next_below(2);
        let token = u8::try_from(number).unwrap();
        let mut request = lease_request(&self.worker_name(number), token, 1);
        request.pool = self.lane_pool();
        request.max_commands = LeaseBatchSize::clamped(self.random_below(5));
        request.terms.now = self.now;
        request.terms.lease_until = self.now.saturating_add(Millis::from_secs(30));
        let leased = store.lease_commands(request).await;
        self.record_answer(&leased);
    }

    pub(super) async fn extend_or_release(&mut self, store: &dyn Store) {
        if self.commands.is_empty() {
            return;
        }
        if self.rng.one_in(8) {
            let number = 1 + self.rng.next_below(2);
            let worker = worker_id(&self.worker_name(number));
            let expired = store.expire_worker_leases(&TenantId::default(), &worker, self.now).await;
            self.record_answer(&expired);
            return;
        }
        let mut fences = Vec::new();
        for _ in 0..=self.rng.next_below(4) {
            let index = self.random_index(self.commands.len());
            let command_id = self.commands[index].1;
            fences.push(self.random_fence(command_id));
        }
        fences.sort_by_key(|fence| fence.command_id);
        fences.dedup_by_key(|fence| fence.command_id);
        if self.rng.one_in(3) {
            let not_before = Some(self.now);
            let release = |fence| LeaseRelease { fence, not_before };
            let released = store.release_leases(fences.into_iter().map(release).collect()).await;
            self.record_answer(&released);
        } else {
            let until = self.now.saturating_add(Millis::from_secs(30));
            let extended = store.extend_leases(fences, until).await;
            self.record_answer(&extended);
        }
    }

    /// Lists expired leases and due timers. These lists are global, so they are only compared
    /// without other histories.
    pub(super) async fn list_expired_and_due(&mut self, store: &dyn Store) {
        if !self.is_exclusive {
            return;
        }
        let limit = PageLimit::clamped(1 + self.random_below(6));
        let expired = store.list_expired_leases(self.now, limit).await;
        let due = store.list_due_timers(self.now, None, limit).await;
        let last = due.iter().flatten().next_back();
        let more = store.list_due_timers(self.now, last, limit).await;
        self.record_answer(&(expired, due, more));
    }
}
