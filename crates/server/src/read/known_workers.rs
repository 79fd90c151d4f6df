//! What is known of workers, as of a moment ago: so that a crowd of heartbeats does not read the list of
//! all workers each time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use noetl_store::Runtime as Registered;
use noetl_types::{Json, Millis, PoolName, Text, Timestamp};

/// Where it is noted that a worker was asked to leave.
pub(super) const DRAIN: &str = "drain";
/// The label that names the pool of a worker. Without it a worker is of the shared one.
pub(super) const POOL_LABEL: &str = "pool_name";
/// How long what is known is believed.
const BELIEVED: Millis = Millis::from_secs(2);

/// A worker that is registered.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    /// The pool that it works for.
    pub(super) pool: PoolName,
    /// Whether it was asked to finish and leave.
    pub(super) is_leaving: bool,
    /// When it was heard of last.
    pub(super) heard_at: Timestamp,
}

impl Seat {
    pub(super) fn of(known: &Registered) -> Self {
        let detail = known.detail.as_ref();
        let label = detail.and_then(|detail| detail.get("labels")?.get(POOL_LABEL)?.as_str());
        let pool = label.and_then(|label| PoolName::new(label).ok());
        Self {
            pool: pool.unwrap_or_else(PoolName::shared),
            is_leaving: is_asked_to_leave(known),
            heard_at: known.heartbeat,
        }
    }
}

pub(super) fn is_asked_to_leave(known: &Registered) -> bool {
    let drain = known.detail.as_ref().and_then(|detail| detail.get(DRAIN));
    drain.and_then(Json::as_bool).unwrap_or(false)
}

/// Workers by the names that they are kept under.
pub(super) type Seats = BTreeMap<Text, Seat>;

#[derive(Debug, Default)]
pub(crate) struct KnownWorkers(Mutex<Option<(Timestamp, Seats)>>);

impl KnownWorkers {
    /// A worker, where that is known and fresh.
    pub(super) fn seat(&self, name: &Text, now: Timestamp) -> Option<Seat> {
        let known = self.known();
        let (at, seats) = known.as_ref()?;
        let is_fresh = now.since(*at) < BELIEVED;
        seats.get(name).filter(|_| is_fresh).cloned()
    }

    pub(super) fn note(&self, seats: Seats, now: Timestamp) {
        *self.known() = Some((now, seats));
    }

    pub(super) fn forget(&self) {
        *self.known() = None;
    }

    fn known(&self) -> MutexGuard<'_, Option<(Timestamp, Seats)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
