use super::*;

fn test_execution_id(number: usize) -> ExecutionId {
    ExecutionId::new(i64::try_from(number).unwrap()).unwrap()
}

#[test]
fn same_target_is_merged() {
    let mut wakeup = Wakeup::default();
    assert!(wakeup.is_empty());
    wakeup.add_queue(PoolName::shared(), 2);
    wakeup.add_execution(test_execution_id(7), LogChange::End);
    let mut more = Wakeup::default();
    more.add_queue(PoolName::shared(), 3);
    more.add_execution(test_execution_id(7), LogChange::Events);
    wakeup.merge(more);
    assert_eq!(wakeup.queues, WakeupSet::Only([(PoolName::shared(), 5)].into()));
    let ended = [(test_execution_id(7), LogChange::End)];
    assert_eq!(wakeup.executions, WakeupSet::Only(ended.into()), "it stays ended");
}

#[test]
fn too_many_targets_wake_all() {
    let mut wakeup = Wakeup::default();
    for number in 1..=MAX_WAKEUP_TARGETS {
        wakeup.add_execution(test_execution_id(number), LogChange::Events);
    }
    wakeup.add_execution(test_execution_id(1), LogChange::End);
    assert_ne!(wakeup.executions, WakeupSet::All);
    wakeup.add_execution(test_execution_id(MAX_WAKEUP_TARGETS + 1), LogChange::Events);
    assert_eq!(wakeup.executions, WakeupSet::All);
    wakeup.add_execution(test_execution_id(1), LogChange::Events);
    assert_eq!(wakeup.executions, WakeupSet::All);
    assert!(wakeup.queues.is_empty(), "queues are independent");
    wakeup.merge(Wakeup::WAKE_ALL);
    assert_eq!(wakeup, Wakeup::WAKE_ALL);
}
