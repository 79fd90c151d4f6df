//! The generator: ids that rise and never repeat, whatever the clock does.

use super::kinds::Id;
use super::machine::MachineId;
use super::snowflake::{EPOCH_UNIX_MS, LAST_TICK, SEQUENCE_BITS, Snowflake, TICK_SHIFT};
use crate::limits::MAX_ID_AHEAD;

/// Makes the ids of one machine.
///
/// Milliseconds and sequence are one counter: it jumps forward to the clock, and otherwise counts
/// on. So a burst that uses up a millisecond, or a clock that stands still or steps back, borrows
/// from the time ahead; but only so far, since an id is also a statement about when it was made.
#[derive(Debug, Clone)]
pub struct IdGenerator {
    machine: MachineId,
    /// Milliseconds since ids start, then the sequence; the last id has been made at this count.
    count: i64,
    high_water: HighWater,
}

/// The number above which a generator has made no id; what a restart must know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HighWater(i64);

/// Why no id can be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// The clock is far behind the ids already made.
    #[error(
        "the clock is {behind_ms} ms behind the ids already made; at most 5000 ms can be borrowed"
    )]
    Behind {
        /// How far the next id would lie ahead of the clock.
        behind_ms: i64,
    },
    /// The clock says that ids have not started yet.
    #[error("the clock says {unix_ms} ms, which is before 2024-01-01, when ids start")]
    BeforeStart {
        /// What the clock says, in milliseconds of the Unix epoch.
        unix_ms: i64,
    },
    /// The clock is past the last id of the layout.
    #[error("the clock says {unix_ms} ms, which is after the year 2093, when ids end")]
    AfterEnd {
        /// What the clock says, in milliseconds of the Unix epoch.
        unix_ms: i64,
    },
}

impl HighWater {
    /// No id has been made yet.
    pub const NONE: Self = Self(0);

    /// A mark that was kept; a negative number counts as none.
    pub const fn new(number: i64) -> Self {
        Self(if number < 0 { 0 } else { number })
    }

    /// The number, to be kept.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl IdGenerator {
    /// A generator whose ids all lie above a mark, be it of this machine or of another one.
    pub const fn new(machine: MachineId, high_water: HighWater) -> Self {
        let marked_tick = high_water.0 >> TICK_SHIFT;
        let count = if high_water.0 == 0 {
            0
        } else {
            // The rest of the marked millisecond is given up: a mark need not be an id of this
            // machine.
            ((marked_tick + 1) << SEQUENCE_BITS) - 1
        };
        Self {
            machine,
            count,
            high_water,
        }
    }

    /// The machine whose ids these are.
    pub const fn machine(&self) -> MachineId {
        self.machine
    }

    /// The mark that a later generator of this machine must start from.
    pub const fn high_water(&self) -> HighWater {
        self.high_water
    }

    /// Makes the next id. After an error nothing has changed, and the clock may be asked again.
    pub fn next(&mut self, now_unix_ms: i64) -> Result<Snowflake, ClockError> {
        let now_tick = now_unix_ms.saturating_sub(EPOCH_UNIX_MS);
        if now_tick < 0 {
            return Err(ClockError::BeforeStart {
                unix_ms: now_unix_ms,
            });
        }
        let past_the_end = ClockError::AfterEnd {
            unix_ms: now_unix_ms,
        };
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
        let id = Snowflake::assemble(tick, self.machine, sequence).map_err(|_| past_the_end)?;
        self.count = count;
        self.high_water = HighWater(id.get());
        Ok(id)
    }

    /// Makes the next id as an id of some kind.
    pub fn mint<T: Id>(&mut self, now_unix_ms: i64) -> Result<T, ClockError> {
        self.next(now_unix_ms).map(T::from_snowflake)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::ExecutionId;

    const NOW: i64 = EPOCH_UNIX_MS + 90_000_000_000;
    const BORROW: i64 = 5000;

    fn machine(number: u16) -> MachineId {
        MachineId::new(number).unwrap()
    }

    fn generator() -> IdGenerator {
        IdGenerator::new(machine(5), HighWater::NONE)
    }

    #[test]
    fn first_ids_of_a_millisecond() {
        let mut generator = generator();
        let base = (90_000_000_000 << 22) + (5 << 12);
        assert_eq!(generator.next(NOW).unwrap().get(), base);
        assert_eq!(generator.next(NOW).unwrap().get(), base + 1);
        assert_eq!(generator.next(NOW + 1).unwrap().get(), base + (1 << 22));
        let minted: ExecutionId = generator.mint(NOW + 1).unwrap();
        assert_eq!(minted.get(), base + (1 << 22) + 1);
    }

    #[test]
    fn the_very_first_id_is_positive() {
        let mut generator = IdGenerator::new(MachineId::MIN, HighWater::NONE);
        assert_eq!(generator.next(EPOCH_UNIX_MS).unwrap().get(), 1);
    }

    /// Hole I3.
    #[test]
    fn a_burst_borrows_five_seconds_and_no_more() {
        let nearly_all_borrowed =
            Snowflake::assemble(NOW - EPOCH_UNIX_MS + BORROW - 2, machine(5), 0);
        let mark = HighWater::new(nearly_all_borrowed.unwrap().get());
        let mut generator = IdGenerator::new(machine(5), mark);
        for _ in 0..2 << SEQUENCE_BITS {
            assert!(generator.next(NOW).unwrap().unix_ms() <= NOW + BORROW);
        }
        let before = generator.high_water();
        let error = generator.next(NOW).unwrap_err();
        assert_eq!(error, ClockError::Behind { behind_ms: 5001 });
        assert_eq!(
            error.to_string(),
            "the clock is 5001 ms behind the ids already made; at most 5000 ms can be borrowed"
        );
        assert_eq!(generator.high_water(), before, "a failure uses up nothing");
        assert!(generator.next(NOW + 1).unwrap().get() > before.get());
    }

    #[test]
    fn clocks_that_are_plainly_wrong() {
        let mut generator = generator();
        for unix_ms in [i64::MIN, 0, EPOCH_UNIX_MS - 1] {
            assert_eq!(
                generator.next(unix_ms),
                Err(ClockError::BeforeStart { unix_ms })
            );
        }
        for unix_ms in [i64::MAX, EPOCH_UNIX_MS + LAST_TICK + 1] {
            assert_eq!(
                generator.next(unix_ms),
                Err(ClockError::AfterEnd { unix_ms })
            );
        }
    }

    #[test]
    fn the_layout_ends_without_wrapping() {
        let last = EPOCH_UNIX_MS + LAST_TICK;
        let mut generator = IdGenerator::new(MachineId::MAX, HighWater::NONE);
        for _ in 0..1 << SEQUENCE_BITS {
            generator.next(last).unwrap();
        }
        assert_eq!(generator.high_water().get(), i64::MAX);
        assert_eq!(
            generator.next(last),
            Err(ClockError::AfterEnd { unix_ms: last })
        );
        let mut restarted = IdGenerator::new(machine(0), HighWater::new(i64::MAX));
        assert_eq!(
            restarted.next(last),
            Err(ClockError::AfterEnd { unix_ms: last })
        );
    }

    /// Hole I2.
    #[test]
    fn a_restart_far_behind_its_mark_says_so() {
        let mut first = generator();
        first.next(NOW).unwrap();
        let mut second = IdGenerator::new(machine(5), first.high_water());
        let an_hour_back = NOW - 3_600_000;
        assert_eq!(
            second.next(an_hour_back),
            Err(ClockError::Behind {
                behind_ms: 3_600_001
            })
        );
        assert!(second.next(NOW - BORROW + 1).is_ok());
    }

    /// What happens to a generator: it is asked at some time, or its process restarts.
    #[derive(Debug, Clone)]
    enum Act {
        Ask { clock_moves_ms: i64, times: u32 },
        Restart,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        // A few bursts use up whole milliseconds; the other acts are cheap.
        let times = prop_oneof![9 => 1_u32..20, 1 => 4000_u32..9000];
        let ask = (-8000_i64..9000, times).prop_map(|(clock_moves_ms, times)| Act::Ask {
            clock_moves_ms,
            times,
        });
        prop::collection::vec(prop_oneof![4 => ask, 1 => Just(Act::Restart)], 1..30)
    }

    proptest! {
        #[test]
        fn ids_rise_and_stay_near_the_clock(acts in acts(), number in 0_u16..=1023) {
            let mut generator = IdGenerator::new(machine(number), HighWater::NONE);
            let mut now = NOW;
            let mut last = 0;
            for act in acts {
                match act {
                    Act::Restart => {
                        generator = IdGenerator::new(machine(number), generator.high_water());
                    }
                    Act::Ask { clock_moves_ms, times } => {
                        now += clock_moves_ms;
                        for _ in 0..times {
                            match generator.next(now) {
                                Ok(id) => {
                                    prop_assert!(id.get() > last);
                                    prop_assert!(id.unix_ms() - now <= BORROW);
                                    prop_assert!(id.unix_ms() >= now);
                                    prop_assert_eq!(id.machine().get(), number);
                                    last = id.get();
                                }
                                Err(ClockError::Behind { behind_ms }) => {
                                    prop_assert!(behind_ms > BORROW);
                                    break;
                                }
                                Err(other) => prop_assert!(false, "{other}"),
                            }
                        }
                        prop_assert_eq!(generator.high_water().get(), last);
                    }
                }
            }
        }

        #[test]
        fn any_mark_is_passed(mark in 1_i64..=i64::MAX >> 1, number in 0_u16..=1023) {
            let mark = HighWater::new(mark);
            let mut generator = IdGenerator::new(machine(number), mark);
            let marked_ms = (mark.get() >> TICK_SHIFT) + EPOCH_UNIX_MS;
            prop_assert_eq!(generator.high_water(), mark);
            prop_assert!(generator.next(marked_ms).unwrap().get() > mark.get());
        }
    }
}
