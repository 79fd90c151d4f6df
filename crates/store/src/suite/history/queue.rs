//! Leases, and looking for what has run out or come due.

use noetl_types::limits::{LeaseBatch, PageLimit};
use noetl_types::{Millis, TenantId};

use super::super::fixture::{lease_of, worker};
use super::History;
use crate::{Release, Store};

impl History {
    pub(super) async fn lease(&mut self, store: &dyn Store) {
        let number = 1 + self.dice.roll(2);
        let token = u8::try_from(number).unwrap();
        let mut request = lease_of(&self.worker(number), token, 1);
        request.pool = self.pool();
        request.max = LeaseBatch::clamped(self.small(5));
        request.claim.now = self.now;
        request.claim.lease_until = self.now.saturating_add(Millis::from_secs(30));
        let leased = store.lease(request).await;
        self.note(&leased);
    }

    pub(super) async fn keep_or_give_back(&mut self, store: &dyn Store) {
        if self.commands.is_empty() {
            return;
        }
        if self.dice.one_in(8) {
            let number = 1 + self.dice.roll(2);
            let leaver = worker(&self.worker(number));
            let ended = store
                .release_worker(&TenantId::default(), &leaver, self.now)
                .await;
            self.note(&ended);
            return;
        }
        let mut fences = Vec::new();
        for _ in 0..=self.dice.roll(4) {
            let place = self.pick(self.commands.len());
            let command_id = self.commands[place].1;
            fences.push(self.fence(command_id));
        }
        fences.sort_by_key(|fence| fence.command_id);
        fences.dedup_by_key(|fence| fence.command_id);
        if self.dice.one_in(3) {
            let not_before = Some(self.now);
            let release = |fence| Release { fence, not_before };
            let released = store
                .release(fences.into_iter().map(release).collect())
                .await;
            self.note(&released);
        } else {
            let until = self.now.saturating_add(Millis::from_secs(30));
            let extended = store.extend(fences, until).await;
            self.note(&extended);
        }
    }

    /// What has run out and come due, of everybody: only a history by itself can tell.
    pub(super) async fn look(&mut self, store: &dyn Store) {
        if !self.is_alone {
            return;
        }
        let limit = PageLimit::clamped(1 + self.small(6));
        let expired = store.expired(self.now, limit).await;
        let due = store.due(self.now, None, limit).await;
        let last = due.iter().flatten().next_back();
        let more = store.due(self.now, last, limit).await;
        self.note(&(expired, due, more));
    }
}
