use proptest::prelude::*;

use super::*;
use crate::id::ExecutionId;

const NOW_UNIX_MS: i64 = EPOCH_UNIX_MS + 90_000_000_000;
const MAX_BORROW_MS: i64 = 5000;

fn machine_id(number: u16) -> MachineId {
    MachineId::new(number).unwrap()
}

fn new_generator() -> IdGenerator {
    IdGenerator::new(machine_id(5), HighWaterMark::NONE)
}

#[test]
fn ids_count_up_within_a_millisecond() {
    let mut generator = new_generator();
    let base = (90_000_000_000 << 22) + (5 << 12);
    assert_eq!(generator.next(NOW_UNIX_MS).unwrap().get(), base);
    assert_eq!(generator.next(NOW_UNIX_MS).unwrap().get(), base + 1);
    assert_eq!(generator.next(NOW_UNIX_MS + 1).unwrap().get(), base + (1 << 22));
    let typed: ExecutionId = generator.next_id(NOW_UNIX_MS + 1).unwrap();
    assert_eq!(typed.get(), base + (1 << 22) + 1);
}

#[test]
fn first_id_is_positive() {
    let mut generator = IdGenerator::new(MachineId::MIN, HighWaterMark::NONE);
    assert_eq!(generator.next(EPOCH_UNIX_MS).unwrap().get(), 1);
}

#[test]
fn burst_borrows_at_most_five_seconds() {
    let nearly_all_borrowed =
        Snowflake::from_parts(NOW_UNIX_MS - EPOCH_UNIX_MS + MAX_BORROW_MS - 2, machine_id(5), 0);
    let mark = HighWaterMark::new(nearly_all_borrowed.unwrap().get());
    let mut generator = IdGenerator::new(machine_id(5), mark);
    for _ in 0..2 << SEQUENCE_BITS {
        assert!(generator.next(NOW_UNIX_MS).unwrap().unix_ms() <= NOW_UNIX_MS + MAX_BORROW_MS);
    }
    let before = generator.high_water();
    let error = generator.next(NOW_UNIX_MS).unwrap_err();
    assert_eq!(error, ClockError::Behind { behind_ms: 5001 });
    assert_eq!(
        error.to_string(),
        "the clock is 5001 ms behind the ids already generated; at most 5000 ms are allowed"
    );
    assert_eq!(generator.high_water(), before, "a failure consumes no id");
    assert!(generator.next(NOW_UNIX_MS + 1).unwrap().get() > before.get());
}

#[test]
fn rejects_clocks_out_of_range() {
    let mut generator = new_generator();
    for unix_ms in [i64::MIN, 0, EPOCH_UNIX_MS - 1] {
        assert_eq!(generator.next(unix_ms), Err(ClockError::BeforeStart { unix_ms }));
    }
    for unix_ms in [i64::MAX, EPOCH_UNIX_MS + LAST_TICK + 1] {
        assert_eq!(generator.next(unix_ms), Err(ClockError::AfterEnd { unix_ms }));
    }
}

#[test]
fn ids_end_without_overflow() {
    let last = EPOCH_UNIX_MS + LAST_TICK;
    let mut generator = IdGenerator::new(MachineId::MAX, HighWaterMark::NONE);
    for _ in 0..1 << SEQUENCE_BITS {
        generator.next(last).unwrap();
    }
    assert_eq!(generator.high_water().get(), i64::MAX);
    assert_eq!(generator.next(last), Err(ClockError::AfterEnd { unix_ms: last }));
    let mut restarted = IdGenerator::new(machine_id(0), HighWaterMark::new(i64::MAX));
    assert_eq!(restarted.next(last), Err(ClockError::AfterEnd { unix_ms: last }));
}

#[test]
fn restart_far_behind_high_water_fails() {
    let mut first = new_generator();
    first.next(NOW_UNIX_MS).unwrap();
    let mut second = IdGenerator::new(machine_id(5), first.high_water());
    let one_hour_earlier = NOW_UNIX_MS - 3_600_000;
    assert_eq!(second.next(one_hour_earlier), Err(ClockError::Behind { behind_ms: 3_600_001 }));
    assert!(second.next(NOW_UNIX_MS - MAX_BORROW_MS + 1).is_ok());
}

/// An action on a generator: generating ids at some time, or a restart of its process.
#[derive(Debug, Clone)]
enum GeneratorAction {
    Generate { clock_moves_ms: i64, times: u32 },
    Restart,
}

fn arb_actions() -> impl Strategy<Value = Vec<GeneratorAction>> {
    // A few bursts exhaust whole milliseconds. The other actions are cheap.
    let times = prop_oneof![9 => 1_u32..20, 1 => 4000_u32..9000];
    let generate = (-8000_i64..9000, times)
        .prop_map(|(clock_moves_ms, times)| GeneratorAction::Generate { clock_moves_ms, times });
    prop::collection::vec(prop_oneof![4 => generate, 1 => Just(GeneratorAction::Restart)], 1..30)
}

proptest! {
    #[test]
    fn ids_increase_and_stay_near_clock(actions in arb_actions(), number in 0_u16..=1023) {
        let mut generator = IdGenerator::new(machine_id(number), HighWaterMark::NONE);
        let mut now = NOW_UNIX_MS;
        let mut last = 0;
        for action in actions {
            match action {
                GeneratorAction::Restart => {
                    generator = IdGenerator::new(machine_id(number), generator.high_water());
                }
                GeneratorAction::Generate { clock_moves_ms, times } => {
                    now += clock_moves_ms;
                    for _ in 0..times {
                        match generator.next(now) {
                            Ok(id) => {
                                prop_assert!(id.get() > last);
                                prop_assert!(id.unix_ms() - now <= MAX_BORROW_MS);
                                prop_assert!(id.unix_ms() >= now);
                                prop_assert_eq!(id.machine().get(), number);
                                last = id.get();
                            }
                            Err(ClockError::Behind { behind_ms }) => {
                                prop_assert!(behind_ms > MAX_BORROW_MS);
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
    fn next_id_exceeds_any_high_water(mark in 1_i64..=i64::MAX >> 1, number in 0_u16..=1023) {
        let mark = HighWaterMark::new(mark);
        let mut generator = IdGenerator::new(machine_id(number), mark);
        let marked_ms = (mark.get() >> TICK_SHIFT) + EPOCH_UNIX_MS;
        prop_assert_eq!(generator.high_water(), mark);
        prop_assert!(generator.next(marked_ms).unwrap().get() > mark.get());
    }
}
