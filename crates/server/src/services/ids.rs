//! Allocates ids under a machine id that only this process holds.
//!
//! The store leases the machine id. A process that cannot renew the lease in time stops allocating
//! ids, since another process may hold the machine id by then. The high-water mark stored at each
//! renewal is above all ids that the process can allocate until the next one. A process that was
//! suspended for so long that another one got its machine id leases a new one. So does a process
//! whose clock was set back so far that its ids would be too far ahead of the clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_engine::IdSource;
use noetl_store::{MachineIdRequest, MachineLease, MachineLeaseError, MachineRenewal, Store};
use noetl_types::id::{ClockError, HighWaterMark, Snowflake, TypedId};
use noetl_types::limits::MAX_ID_AHEAD;
use noetl_types::{IdGenerator, MachineId, Millis, Text, Timestamp};
use tokio::sync::watch;

/// Duration of the lease of a machine id, which is renewed every ten seconds.
const MACHINE_LEASE_DURATION: Millis = Millis::from_secs(30);

/// Allocates the ids of this process.
pub(crate) struct IdAllocator {
    store: Arc<dyn Store>,
    /// Lease owner, and the machine id that it requires, if any.
    owner: Text,
    required_machine_id: Option<MachineId>,
    current: Mutex<MachineIdLease>,
    /// Time until which ids can be allocated, in microseconds.
    usable_until: AtomicI64,
    /// Number of other processes that held a machine id at the last lease or renewal.
    peer_count: watch::Sender<usize>,
}

/// A leased machine id with its generator.
struct MachineIdLease {
    machine_id: MachineId,
    epoch: u64,
    generator: IdGenerator,
}

impl MachineIdLease {
    fn from_lease(lease: &MachineLease) -> Self {
        Self {
            machine_id: lease.machine_id,
            epoch: lease.epoch,
            generator: IdGenerator::new(lease.machine_id, lease.high_water),
        }
    }
}

/// Reason why no id can be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IdAllocationError {
    /// The clock went backwards or too far ahead.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The lease of the machine id was not renewed in time.
    #[error("the lease of this server's machine id has expired")]
    LeaseExpired,
}

impl IdAllocator {
    pub(crate) async fn acquire_lease(
        store: Arc<dyn Store>,
        owner: Text,
        required_id: Option<MachineId>,
        now: Timestamp,
    ) -> Result<Self, MachineLeaseError> {
        let lease = request_lease(&store, &owner, required_id, now).await?;
        let allocator = Self {
            store,
            owner,
            required_machine_id: required_id,
            current: Mutex::new(MachineIdLease::from_lease(&lease)),
            usable_until: AtomicI64::new(0),
            peer_count: watch::Sender::new(lease.other_leases),
        };
        // Stores the high-water mark before the first id is allocated.
        allocator.extend_lease(now).await?;
        Ok(allocator)
    }

    /// Returns an allocator that allocates nothing, for a read-only runtime.
    pub(crate) fn read_only(store: Arc<dyn Store>, owner: Text) -> Self {
        Self {
            store,
            owner,
            required_machine_id: None,
            current: Mutex::new(MachineIdLease {
                machine_id: MachineId::MIN,
                epoch: 0,
                generator: IdGenerator::new(MachineId::MIN, HighWaterMark::NONE),
            }),
            usable_until: AtomicI64::new(0),
            peer_count: watch::Sender::new(0),
        }
    }

    /// Owner of the lease: the name of this process among the servers.
    pub(crate) fn owner(&self) -> &Text {
        &self.owner
    }

    /// Number of other processes on the store, as of the last renewal.
    pub(crate) fn peer_count(&self) -> watch::Receiver<usize> {
        self.peer_count.subscribe()
    }

    /// Renews the lease, or leases a new machine id if another process has taken this one or if the
    /// clock was set back behind its ids.
    pub(crate) async fn renew_lease(&self, now: Timestamp) -> Result<(), MachineLeaseError> {
        let clock_check = self.lock_lease().generator.check_clock(now.as_unix_ms());
        let is_behind = matches!(clock_check, Err(ClockError::Behind { .. }));
        if is_behind && self.required_machine_id.is_none() {
            self.release_lease(now).await;
        } else {
            match self.extend_lease(now).await {
                Err(MachineLeaseError::Lost) => {}
                result => return result,
            }
        }
        self.usable_until.store(0, Ordering::Release);
        let lease = request_lease(&self.store, &self.owner, self.required_machine_id, now).await?;
        let (machine_id, before) = (lease.machine_id, self.lock_lease().machine_id);
        *self.lock_lease() = MachineIdLease::from_lease(&lease);
        self.extend_lease(now).await?;
        let reason = if is_behind {
            "the clock was set back"
        } else {
            "another process took over the machine id"
        };
        tracing::warn!(%before, %machine_id, reason, "leased a new machine id");
        Ok(())
    }

    /// Renews the lease, and raises the high-water mark above all ids that can be allocated until
    /// the next renewal.
    async fn extend_lease(&self, now: Timestamp) -> Result<(), MachineLeaseError> {
        let lease_until = now.saturating_add(MACHINE_LEASE_DURATION);
        let mark = high_water_mark_at(self.lock_lease().machine_id, lease_until);
        let lease = self.send_renewal(now, lease_until, mark, false).await?;
        self.peer_count.send_if_modified(|count| {
            let is_new = *count != lease.other_leases;
            *count = lease.other_leases;
            is_new
        });
        self.usable_until.store(lease_until.as_micros(), Ordering::Release);
        Ok(())
    }

    /// Releases the machine id.
    pub(crate) async fn release_lease(&self, now: Timestamp) {
        self.usable_until.store(0, Ordering::Release);
        let high_water = self.lock_lease().generator.high_water();
        if let Err(error) = self.send_renewal(now, now, high_water, true).await {
            tracing::debug!(%error, "releasing the machine id failed");
        }
    }

    async fn send_renewal(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        high_water: HighWaterMark,
        is_release: bool,
    ) -> Result<MachineLease, MachineLeaseError> {
        let renewal = {
            let lease = self.lock_lease();
            MachineRenewal {
                machine_id: lease.machine_id,
                epoch: lease.epoch,
                high_water,
                now,
                lease_until,
                is_release,
            }
        };
        self.store.renew_machine_lease(renewal).await
    }

    /// Returns the reason why no id can be allocated at `now`, if any.
    pub(crate) fn check_usable(&self, now: Timestamp) -> Result<(), IdAllocationError> {
        let lease = self.lock_lease();
        if !self.is_usable(now) {
            return Err(IdAllocationError::LeaseExpired);
        }
        Ok(lease.generator.check_clock(now.as_unix_ms())?)
    }

    /// True if the lease is valid at `now`.
    fn is_usable(&self, now: Timestamp) -> bool {
        now.as_micros() < self.usable_until.load(Ordering::Acquire)
    }

    /// Runs a decision, which allocates many ids. The generator is locked for each id only, because
    /// a decision may take long. Fails if the machine id is lost or changes meanwhile.
    pub(crate) fn run_decision<R>(
        &self,
        now: Timestamp,
        decide: impl FnOnce(&mut dyn IdSource) -> R,
    ) -> Result<R, IdAllocationError> {
        let epoch = self.usable_epoch(now)?;
        let decision = decide(&mut SharedGenerator(self));
        if self.usable_epoch(now)? == epoch {
            Ok(decision)
        } else {
            Err(IdAllocationError::LeaseExpired)
        }
    }

    fn usable_epoch(&self, now: Timestamp) -> Result<u64, IdAllocationError> {
        let lease = self.lock_lease();
        if self.is_usable(now) { Ok(lease.epoch) } else { Err(IdAllocationError::LeaseExpired) }
    }

    /// Allocates one id.
    pub(crate) fn mint_id<T: TypedId>(&self, now: Timestamp) -> Result<T, IdAllocationError> {
        // Checked under the lock, so that a lost machine id is not used while a new one is leased.
        let mut lease = self.lock_lease();
        if !self.is_usable(now) {
            return Err(IdAllocationError::LeaseExpired);
        }
        Ok(lease.generator.next_id(now.as_unix_ms())?)
    }

    fn lock_lease(&self) -> MutexGuard<'_, MachineIdLease> {
        // The generator is consistent between any two operations.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The generator of an allocator, as the source of ids of a decision.
struct SharedGenerator<'a>(&'a IdAllocator);

impl IdSource for SharedGenerator<'_> {
    fn next_number(&mut self, now_unix_ms: i64) -> Result<Snowflake, ClockError> {
        self.0.lock_lease().generator.next(now_unix_ms)
    }
}

async fn request_lease(
    store: &Arc<dyn Store>,
    owner: &Text,
    requested_id: Option<MachineId>,
    now: Timestamp,
) -> Result<MachineLease, MachineLeaseError> {
    let request = MachineIdRequest {
        owner: owner.clone(),
        requested_id,
        now,
        lease_until: now.saturating_add(MACHINE_LEASE_DURATION),
    };
    store.lease_machine_id(request).await
}

/// Returns an id above all ids that this machine allocates before `time`.
fn high_water_mark_at(machine_id: MachineId, time: Timestamp) -> HighWaterMark {
    let latest = time.saturating_add(MAX_ID_AHEAD);
    let mut generator = IdGenerator::new(machine_id, HighWaterMark::NONE);
    generator
        .next(latest.as_unix_ms())
        .map_or(HighWaterMark::NONE, |id| HighWaterMark::new(id.get()))
}

#[cfg(test)]
mod tests;
