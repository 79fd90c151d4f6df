use super::*;

fn waiting_command(command: i64, execution: i64, priority: i64) -> WaitingCommand {
    WaitingCommand {
        command_id: CommandId::new(command).unwrap(),
        execution_id: ExecutionId::new(execution).unwrap(),
        priority: Priority::new(priority).unwrap(),
    }
}

#[test]
fn executions_alternate_within_priority() {
    let queue = [
        waiting_command(9, 3, 5),
        waiting_command(1, 1, 0),
        waiting_command(2, 1, 0),
        waiting_command(3, 1, 0),
        waiting_command(4, 2, 0),
    ];
    let chosen: Vec<i64> = choose_commands(&queue, LeaseBatchSize::clamped(4))
        .into_iter()
        .map(CommandId::get)
        .collect();
    assert_eq!(chosen, [9, 1, 4, 2]);
}
