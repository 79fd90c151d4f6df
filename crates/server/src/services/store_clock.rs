//! The clock of the store, which all decisions of a server follow.
//!
//! Servers on one database grant and expire each other's leases, so they need one time: that of the
//! database. Each server measures how far the database's clock is from its own monotonic clock, and
//! repeats this in the background. So a step of the server's wall clock changes nothing, and no
//! statement needs another round trip. A store without a clock uses the wall clock of its server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use noetl_store::{Store, StoreError};
use noetl_types::{ErrorCode, Millis, Text, Timestamp};

use crate::clock::Clock;
use crate::error::{Result, RuntimeError};

/// Interval at which the clock of the store is measured.
pub(crate) const CLOCK_SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum difference between the clocks of a server that grants leases and its database.
const MAX_SKEW: Millis = Millis::from_secs(5);

/// Difference below which a measurement does not change the clock, in addition to its uncertainty.
const MIN_CORRECTION_MICROS: i64 = 10_000;

/// Uncertainty above which a measurement is discarded, unless it is the first.
const MAX_UNCERTAINTY_MICROS: i64 = 500_000;

/// Correction from which the clock of the store counts as stepped.
const MIN_STEP_MICROS: i64 = 1_000_000;

/// Time for which no lease expires after a step of the clock. All workers renew their leases
/// meanwhile: they do so at least every ten seconds.
const SETTLE_MICROS: i64 = 30_000_000;

/// Time of the store, computed from a monotonic clock.
pub(crate) struct StoreClock {
    clock: Arc<dyn Clock>,
    /// Time of the store minus the monotonic time.
    offset_micros: AtomicI64,
    uncertainty_micros: AtomicI64,
    /// True if the store has a clock of its own.
    is_database_clock: AtomicBool,
    /// Monotonic time until which no lease expires.
    settled_at_micros: AtomicI64,
}

impl StoreClock {
    /// Returns a clock that follows the wall clock of the server until it is measured.
    pub(crate) fn unmeasured(clock: Arc<dyn Clock>) -> Self {
        let offset = clock.now().as_micros().saturating_sub(monotonic_micros(&*clock));
        Self {
            clock,
            offset_micros: AtomicI64::new(offset),
            uncertainty_micros: AtomicI64::new(0),
            is_database_clock: AtomicBool::new(false),
            settled_at_micros: AtomicI64::new(i64::MIN),
        }
    }

    /// Returns the clock of a store.
    pub(crate) async fn measured(
        store: &dyn Store,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let measured = Self::unmeasured(clock);
        let (offset, uncertainty) = measured.measure_offset(store).await?;
        measured.offset_micros.store(offset, Ordering::Release);
        measured.uncertainty_micros.store(uncertainty, Ordering::Release);
        Ok(measured)
    }

    /// Returns the time of the store.
    pub(crate) fn now(&self) -> Timestamp {
        let offset = self.offset_micros.load(Ordering::Acquire);
        let micros = monotonic_micros(&*self.clock).saturating_add(offset);
        Timestamp::from_micros(micros.max(0)).unwrap_or(Timestamp::MAX)
    }

    /// Returns the wall clock of the server, for comparison only.
    pub(crate) fn wall_time(&self) -> Timestamp {
        self.clock.now()
    }

    /// Measures the clock of the store again. Returns true if it was stepped.
    pub(crate) async fn synchronize(&self, store: &dyn Store) -> Result<bool, StoreError> {
        let (offset, uncertainty) = self.measure_offset(store).await?;
        if uncertainty > MAX_UNCERTAINTY_MICROS {
            return Ok(false);
        }
        let correction = offset.saturating_sub(self.offset_micros.load(Ordering::Acquire));
        let uncertain = self.uncertainty_micros.load(Ordering::Acquire).saturating_add(uncertainty);
        if correction.abs() <= uncertainty + MIN_CORRECTION_MICROS {
            return Ok(false);
        }
        let is_step = correction.abs() >= MIN_STEP_MICROS.saturating_add(uncertain);
        if is_step {
            let settled_at = monotonic_micros(&*self.clock).saturating_add(SETTLE_MICROS);
            self.settled_at_micros.store(settled_at, Ordering::Release);
        }
        self.offset_micros.store(offset, Ordering::Release);
        self.uncertainty_micros.store(uncertainty, Ordering::Release);
        if is_step {
            let milliseconds = correction / 1_000;
            tracing::warn!(milliseconds, "the clock of the store was stepped");
        }
        Ok(is_step)
    }

    /// Returns the offset of the store's clock from the monotonic clock, and its uncertainty, in
    /// microseconds.
    async fn measure_offset(&self, store: &dyn Store) -> Result<(i64, i64), StoreError> {
        let before = monotonic_micros(&*self.clock);
        let database_time = store.database_clock().await?;
        let after = monotonic_micros(&*self.clock);
        self.is_database_clock.store(database_time.is_some(), Ordering::Release);
        let Some(time) = database_time else {
            return Ok((self.clock.now().as_micros().saturating_sub(after), 0));
        };
        let uncertainty = after.saturating_sub(before) / 2;
        let measured_at = before.saturating_add(uncertainty);
        Ok((time.as_micros().saturating_sub(measured_at), uncertainty))
    }

    /// True if the store has a clock of its own, which many servers may share. Otherwise this server
    /// uses the store alone.
    pub(crate) fn is_database_clock(&self) -> bool {
        self.is_database_clock.load(Ordering::Acquire)
    }

    /// True if the clock was stepped so recently that live workers may not have renewed their
    /// leases yet.
    pub(crate) fn is_settling(&self) -> bool {
        monotonic_micros(&*self.clock) < self.settled_at_micros.load(Ordering::Acquire)
    }

    /// Refuses if the wall clock of the server is far from the clock of the database. Nothing is
    /// decided by the wall clock, but such a host is not in order, and a worker beside it uses the
    /// same clock.
    pub(crate) fn check_skew(&self) -> Result<(), Text> {
        if !self.is_database_clock() {
            return Ok(());
        }
        let (wall_time, store_time) = (self.wall_time(), self.now());
        let skew = wall_time.max(store_time).duration_since(wall_time.min(store_time));
        let uncertainty = self.uncertainty_micros.load(Ordering::Acquire) / 1_000;
        let uncertainty = Millis::from_ms(u64::try_from(uncertainty).unwrap_or(0));
        if skew <= MAX_SKEW.saturating_add(uncertainty) {
            return Ok(());
        }
        let direction = if wall_time > store_time { "ahead of" } else { "behind" };
        let seconds = skew.as_ms() / 1_000;
        Err(format!(
            "the clock of this server is {seconds} s {direction} the database's, so the server \
             grants no leases; synchronize both hosts with NTP"
        )
        .into())
    }

    /// Refuses to grant leases if [`Self::check_skew`] fails.
    pub(crate) fn check_may_grant(&self) -> Result<()> {
        self.check_skew().map_err(|reason| RuntimeError::refused(ErrorCode::NotReady, reason))
    }
}

fn monotonic_micros(clock: &dyn Clock) -> i64 {
    i64::try_from(clock.monotonic().as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
