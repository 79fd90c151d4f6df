//! The id generator. Its ids increase and never repeat, even if the clock stops or steps back.

use super::kinds::TypedId;
use super::machine::MachineId;
use super::snowflake::{EPOCH_UNIX_MS, LAST_TICK, SEQUENCE_BITS, Snowflake, TICK_SHIFT};
use crate::limits::MAX_ID_AHEAD;

/// Generates the ids of one machine.
///
/// Milliseconds and sequence form one counter. It jumps forward to the clock and otherwise
/// increments. A burst that uses up a millisecond, or a clock that stops or steps back, therefore
/// borrows from future milliseconds. The borrowing is limited because an id also states when it was
/// created.
#[derive(Debug, Clone)]
pub struct IdGenerator {
    machine: MachineId,
    /// Milliseconds since the epoch of ids, then the sequence. The counter of the last generated
    /// id.
    count: i64,
    high_water: HighWaterMark,
}

/// Highest id that a generator has produced. A restart must continue above it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HighWaterMark(i64);

/// Error when no id can be generated at the current time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// The clock is too far behind the ids already generated.
    #[error(
        "the clock is {behind_ms} ms behind the ids already generated; at most 5000 ms are allowed"
    )]
    Behind {
        /// Milliseconds by which the next id would be ahead of the clock.
        behind_ms: i64,
    },
    /// The clock is before the epoch of ids.
    #[error("the clock is at {unix_ms} ms, before 2024-01-01, the first date of an id")]
    BeforeStart {
        /// Clock reading in milliseconds since the Unix epoch.
        unix_ms: i64,
    },
    /// The clock is past the last id of the layout.
    #[error("the clock is at {unix_ms} ms, after the year 2093, the last year of an id")]
    AfterEnd {
        /// Clock reading in milliseconds since the Unix epoch.
        unix_ms: i64,
    },
}

impl HighWaterMark {
    /// No id has been generated yet.
    pub const NONE: Self = Self(0);

    /// Restores a stored mark. A negative number counts as zero.
    pub const fn new(number: i64) -> Self {
        Self(if number < 0 { 0 } else { number })
    }

    /// Returns the number to store.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl IdGenerator {
    /// Creates a generator whose ids are all above a mark of this or another machine.
    pub const fn new(machine: MachineId, high_water: HighWaterMark) -> Self {
        let marked_tick = high_water.0 >> TICK_SHIFT;
        let count = if high_water.0 == 0 {
            0
        } else {
            // The rest of the marked millisecond is skipped, because a mark need not be an id of
            // this machine.
            ((marked_tick + 1) << SEQUENCE_BITS) - 1
        };
        Self { machine, count, high_water }
    }

    /// Returns the machine that the generator creates ids for.
    pub const fn machine(&self) -> MachineId {
        self.machine
    }

    /// Returns the mark that a later generator of this machine must start from.
    pub const fn high_water(&self) -> HighWaterMark {
        self.high_water
    }

    /// Generates the next id. After an error nothing has changed, and the call may be repeated.
    pub fn next(&mut self, now_unix_ms: i64) -> Result<Snowflake, ClockError> {
        let now_tick = now_unix_ms.saturating_sub(EPOCH_UNIX_MS);
        if now_tick < 0 {
            return Err(ClockError::BeforeStart { unix_ms: now_unix_ms });
        }
        let past_the_end = ClockError::AfterEnd { unix_ms: now_unix_ms };
        if now_tick > LAST_TICK {
            return Err(past_the_end);
        }
        let count = (self.count + 1).max(now_tick << SEQUENCE_BITS);
        let tick = count >> SEQUENCE_BITS;
        let behind_ms = tick - now_tick;
        if u64::try_from(behind_ms).is_ok_and(|ms| ms > MAX_ID_AHEAD.as_ms()) {
            return Err(ClockError::Behind { behind_ms });
        }
        if tick > LAST_TICK {
            return Err(past_the_end);
        }
        let sequence = count & ((1 << SEQUENCE_BITS) - 1);
        let id = Snowflake::from_parts(tick, self.machine, sequence).map_err(|_| past_the_end)?;
        self.count = count;
        self.high_water = HighWaterMark(id.get());
        Ok(id)
    }

    /// Returns the error that [`Self::next`] would return now.
    pub fn check_clock(&self, now_unix_ms: i64) -> Result<(), ClockError> {
        self.clone().next(now_unix_ms).map(drop)
    }

    /// Generates the next id as a typed id.
    pub fn next_id<T: TypedId>(&mut self, now_unix_ms: i64) -> Result<T, ClockError> {
        self.next(now_unix_ms).map(T::from_snowflake)
    }
}

#[cfg(test)]
mod tests;
