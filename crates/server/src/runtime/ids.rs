//! Ids: made under a machine id that this process alone has.
//!
//! The store leases the machine id. A process that cannot renew in time makes no more ids, since
//! another one may have the machine id by then; and the mark that it leaves behind at each renewal
//! lies above all ids that it can make until the next one.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_store::{MachineLease, MachineRefused, MachineRenewal, MachineRequest, Store};
use noetl_types::id::{ClockError, HighWater, Id};
use noetl_types::limits::MAX_ID_AHEAD;
use noetl_types::{IdGenerator, MachineId, Millis, Text, Timestamp};

/// How long a machine id is leased for.
const LEASE: Millis = Millis::from_secs(30);
/// How often the lease is renewed.
pub(crate) const RENEW_EVERY: Millis = Millis::from_secs(10);

/// Makes the ids of this process.
pub(crate) struct Ids {
    store: Arc<dyn Store>,
    machine_id: MachineId,
    epoch: u64,
    generator: Mutex<IdGenerator>,
    /// Until when ids may be made, in microseconds.
    usable_until: AtomicI64,
}

/// Why no id can be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoIds {
    /// The clock does not allow it.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The machine id could not be renewed.
    #[error("the lease of this server's machine id has run out")]
    LeaseOver,
}

impl Ids {
    pub(crate) async fn lease(
        store: Arc<dyn Store>,
        owner: Text,
        wanted: Option<MachineId>,
        now: Timestamp,
    ) -> Result<Self, MachineRefused> {
        let lease_until = now.saturating_add(LEASE);
        let request = MachineRequest {
            owner,
            wanted,
            now,
            lease_until,
        };
        let lease = store.lease_machine(request).await?;
        let ids = Self {
            store,
            machine_id: lease.machine_id,
            epoch: lease.epoch,
            generator: Mutex::new(IdGenerator::new(lease.machine_id, lease.high_water)),
            usable_until: AtomicI64::new(0),
        };
        // The mark is set before the first id is made.
        ids.renew(now).await?;
        Ok(ids)
    }

    /// Makes none: for who only reads.
    pub(crate) fn none(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            machine_id: MachineId::MIN,
            epoch: 0,
            generator: Mutex::new(IdGenerator::new(MachineId::MIN, HighWater::NONE)),
            usable_until: AtomicI64::new(0),
        }
    }

    /// Keeps the machine id, and moves the mark above what may be made until the next renewal.
    pub(crate) async fn renew(&self, now: Timestamp) -> Result<MachineLease, MachineRefused> {
        let lease_until = now.saturating_add(LEASE);
        let lease = self
            .renewal(lease_until, mark(self.machine_id, lease_until))
            .await?;
        self.usable_until
            .store(lease_until.as_micros(), Ordering::Release);
        Ok(lease)
    }

    /// Gives the machine id back.
    pub(crate) async fn give_back(&self, now: Timestamp) {
        self.usable_until.store(0, Ordering::Release);
        let high_water = self.generator().high_water();
        if let Err(refused) = self.renewal(now, high_water).await {
            tracing::debug!(%refused, "the machine id was not given back");
        }
    }

    async fn renewal(
        &self,
        lease_until: Timestamp,
        high_water: HighWater,
    ) -> Result<MachineLease, MachineRefused> {
        let renewal = MachineRenewal {
            machine_id: self.machine_id,
            epoch: self.epoch,
            high_water,
            lease_until,
        };
        self.store.renew_machine(renewal).await
    }

    /// Whether ids may be made at a time.
    pub(crate) fn is_usable(&self, now: Timestamp) -> bool {
        now.as_micros() < self.usable_until.load(Ordering::Acquire)
    }

    /// Lends the generator, for a decision that makes many ids.
    pub(crate) fn with<R>(
        &self,
        now: Timestamp,
        make: impl FnOnce(&mut IdGenerator) -> R,
    ) -> Result<R, NoIds> {
        if !self.is_usable(now) {
            return Err(NoIds::LeaseOver);
        }
        Ok(make(&mut self.generator()))
    }

    /// Makes one id.
    pub(crate) fn mint<T: Id>(&self, now: Timestamp) -> Result<T, NoIds> {
        Ok(self.with(now, |generator| generator.mint(now.as_unix_ms()))??)
    }

    fn generator(&self) -> MutexGuard<'_, IdGenerator> {
        // A generator is whole between any two of its steps.
        self.generator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Above every id that this machine makes before a time.
fn mark(machine_id: MachineId, time: Timestamp) -> HighWater {
    let latest = time.saturating_add(MAX_ID_AHEAD);
    let mut generator = IdGenerator::new(machine_id, HighWater::NONE);
    generator
        .next(latest.as_unix_ms())
        .map_or(HighWater::NONE, |id| HighWater::new(id.get()))
}
