use super::*;

#[test]
fn timer_id_round_trips() {
    let step = TimerId::Step { step: StepName::new("load").unwrap(), run: 12 };
    let command = CommandId::new(77).unwrap();
    let command_timer = |timer| TimerId::Command { command, timer };
    let command_timers = CommandTimer::ALL.iter().copied().map(command_timer);
    for id in [TimerId::Start, TimerId::Execution, step].into_iter().chain(command_timers) {
        assert_eq!(parse_timer_id(&format_timer_id(&id)), Some(id));
    }
    assert_eq!(parse_timer_id("sleep:x"), None);
    assert_eq!(parse_timer_id("step:x:load"), None);
}

#[test]
fn diffs_added_moved_and_removed_timers() {
    let time = |second: i64| Timestamp::from_unix_ms(second * 1000).unwrap();
    let before = BTreeMap::from([("a".into(), time(1)), ("b".into(), time(2))]);
    let after = BTreeMap::from([("b".into(), time(3)), ("c".into(), time(4))]);
    let changes = diff_timers(&before, &after);
    let arm = |id: &str, fire_at| TimerChange::Arm { timer_id: id.into(), fire_at };
    let disarm = TimerChange::Disarm { timer_id: "a".into() };
    assert_eq!(changes, [disarm, arm("b", time(3)), arm("c", time(4))]);
    assert_eq!(diff_timers(&after, &after), []);
}
