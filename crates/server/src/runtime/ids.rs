//! Ids: made under a machine id that this process alone has.
//!
//! The store leases the machine id. A process that cannot renew in time makes no more ids, since
//! another one may have the machine id by then; and the mark that it leaves behind at each renewal
//! lies above all ids that it can make until the next one. Who was asleep so long that another process
//! has the machine id takes a new one.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_store::{MachineLease, MachineRefused, MachineRenewal, MachineRequest, Store};
use noetl_types::id::{ClockError, HighWater, Id};
use noetl_types::limits::MAX_ID_AHEAD;
use noetl_types::{IdGenerator, MachineId, Millis, Text, Timestamp};
use tokio::sync::watch;

/// How long a machine id is leased for.
const LEASE: Millis = Millis::from_secs(30);
/// How often the lease is renewed.
pub(crate) const RENEW_EVERY: Millis = Millis::from_secs(10);

/// Makes the ids of this process.
pub(crate) struct Ids {
    store: Arc<dyn Store>,
    /// Who leases, and the one machine id that it wants, where that is not all the same.
    owner: Text,
    wanted: Option<MachineId>,
    held: Mutex<Held>,
    /// Until when ids may be made, in microseconds.
    usable_until: AtomicI64,
    /// How many other processes had a machine id when this one last leased or renewed its own.
    others: watch::Sender<usize>,
}

/// A machine id, and the ids that are made under it.
struct Held {
    machine_id: MachineId,
    epoch: u64,
    generator: IdGenerator,
}

impl Held {
    fn of(lease: &MachineLease) -> Self {
        Self {
            machine_id: lease.machine_id,
            epoch: lease.epoch,
            generator: IdGenerator::new(lease.machine_id, lease.high_water),
        }
    }
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
        let lease = leased(&store, &owner, wanted, now).await?;
        let ids = Self {
            store,
            owner,
            wanted,
            held: Mutex::new(Held::of(&lease)),
            usable_until: AtomicI64::new(0),
            others: watch::Sender::new(lease.others),
        };
        // The mark is set before the first id is made.
        ids.keep(now).await?;
        Ok(ids)
    }

    /// Makes none: for who only reads.
    pub(crate) fn none(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            owner: Text::default(),
            wanted: None,
            held: Mutex::new(Held {
                machine_id: MachineId::MIN,
                epoch: 0,
                generator: IdGenerator::new(MachineId::MIN, HighWater::NONE),
            }),
            usable_until: AtomicI64::new(0),
            others: watch::Sender::new(0),
        }
    }

    /// How many other processes there are on the store, as it was known at the last renewal.
    pub(crate) fn others(&self) -> watch::Receiver<usize> {
        self.others.subscribe()
    }

    /// Keeps the machine id, or takes another one where somebody else has it by now.
    pub(crate) async fn renew(&self, now: Timestamp) -> Result<(), MachineRefused> {
        match self.keep(now).await {
            Err(MachineRefused::Lost) => {}
            kept => return kept,
        }
        self.usable_until.store(0, Ordering::Release);
        let lease = leased(&self.store, &self.owner, self.wanted, now).await?;
        let (machine_id, before) = (lease.machine_id, self.held().machine_id);
        *self.held() = Held::of(&lease);
        self.keep(now).await?;
        tracing::warn!(%before, %machine_id, "the machine id was lost to another process; a new one is taken");
        Ok(())
    }

    /// Keeps the machine id, and moves the mark above what may be made until the next renewal.
    async fn keep(&self, now: Timestamp) -> Result<(), MachineRefused> {
        let lease_until = now.saturating_add(LEASE);
        let mark = mark(self.held().machine_id, lease_until);
        let lease = self.renewal(now, lease_until, mark, false).await?;
        self.others.send_if_modified(|others| {
            let is_new = *others != lease.others;
            *others = lease.others;
            is_new
        });
        self.usable_until
            .store(lease_until.as_micros(), Ordering::Release);
        Ok(())
    }

    /// Gives the machine id back.
    pub(crate) async fn give_back(&self, now: Timestamp) {
        self.usable_until.store(0, Ordering::Release);
        let high_water = self.held().generator.high_water();
        if let Err(refused) = self.renewal(now, now, high_water, true).await {
            tracing::debug!(%refused, "the machine id was not given back");
        }
    }

    async fn renewal(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        high_water: HighWater,
        gives_back: bool,
    ) -> Result<MachineLease, MachineRefused> {
        let renewal = {
            let held = self.held();
            MachineRenewal {
                machine_id: held.machine_id,
                epoch: held.epoch,
                high_water,
                now,
                lease_until,
                gives_back,
            }
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
        // Looked at under the lock: a machine id that is lost is not used while another one is taken.
        let mut held = self.held();
        if !self.is_usable(now) {
            return Err(NoIds::LeaseOver);
        }
        Ok(make(&mut held.generator))
    }

    /// Makes one id.
    pub(crate) fn mint<T: Id>(&self, now: Timestamp) -> Result<T, NoIds> {
        Ok(self.with(now, |generator| generator.mint(now.as_unix_ms()))??)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A generator is whole between any two of its steps.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn leased(
    store: &Arc<dyn Store>,
    owner: &Text,
    wanted: Option<MachineId>,
    now: Timestamp,
) -> Result<MachineLease, MachineRefused> {
    let request = MachineRequest {
        owner: owner.clone(),
        wanted,
        now,
        lease_until: now.saturating_add(LEASE),
    };
    store.lease_machine(request).await
}

/// Above every id that this machine makes before a time.
fn mark(machine_id: MachineId, time: Timestamp) -> HighWater {
    let latest = time.saturating_add(MAX_ID_AHEAD);
    let mut generator = IdGenerator::new(machine_id, HighWater::NONE);
    generator
        .next(latest.as_unix_ms())
        .map_or(HighWater::NONE, |id| HighWater::new(id.get()))
}

#[cfg(test)]
mod tests {
    use noetl_store::MemoryStore;
    use noetl_types::EventId;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        let noon = Timestamp::parse("2026-11-16T12:00:00Z").unwrap();
        noon.saturating_add(Millis::from_secs(u64::try_from(seconds).unwrap()))
    }

    async fn ids(store: &Arc<dyn Store>, owner: &str, now: Timestamp) -> Ids {
        let leased = Ids::lease(Arc::clone(store), owner.into(), None, now);
        leased.await.unwrap()
    }

    /// A server that was frozen for longer than its lease, while another one began.
    #[tokio::test]
    async fn who_lost_its_machine_id_takes_another_one() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let frozen = ids(&store, "frozen", at(0)).await;
        let before: EventId = frozen.mint(at(1)).unwrap();
        let taken = Some(frozen.held().machine_id);
        let leased = Ids::lease(Arc::clone(&store), "other".into(), taken, at(40));
        let other = leased.await.unwrap();
        let theirs: EventId = other.mint(at(41)).unwrap();
        assert_eq!(frozen.mint::<EventId>(at(41)), Err(NoIds::LeaseOver));
        frozen.renew(at(41)).await.unwrap();
        assert_ne!(other.held().machine_id, frozen.held().machine_id);
        let after: EventId = frozen.mint(at(41)).unwrap();
        assert!(before < after && after != theirs);
        // Both keep what they have.
        frozen.renew(at(51)).await.unwrap();
        other.renew(at(51)).await.unwrap();
        assert_ne!(other.held().machine_id, frozen.held().machine_id);
    }

    /// Who may have one machine id only waits for it.
    #[tokio::test]
    async fn who_wants_one_machine_id_gets_no_other() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let wanted = Some(MachineId::MIN);
        let leased = Ids::lease(Arc::clone(&store), "frozen".into(), wanted, at(0));
        let frozen = leased.await.unwrap();
        let leased = Ids::lease(Arc::clone(&store), "other".into(), wanted, at(40));
        let other = leased.await.unwrap();
        let refused = frozen.renew(at(41)).await;
        assert!(
            matches!(refused, Err(MachineRefused::Taken { .. })),
            "{refused:?}"
        );
        assert_eq!(frozen.mint::<EventId>(at(41)), Err(NoIds::LeaseOver));
        other.give_back(at(42)).await;
        frozen.renew(at(43)).await.unwrap();
        frozen.mint::<EventId>(at(43)).unwrap();
    }
}
