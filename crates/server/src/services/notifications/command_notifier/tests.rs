use noetl_store::StepInstance;
use noetl_types::limits::{MaxAttempts, Priority};

use super::*;

fn time_at(second: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + second * 1000).unwrap()
}

fn pending_command(not_before: Option<Timestamp>) -> Command {
    let id = noetl_types::id::first_id_at(time_at(0).as_unix_ms());
    Command {
        command_id: CommandId::new(id).unwrap(),
        execution_id: ExecutionId::new(7).unwrap(),
        instance: StepInstance {
            step_name: StepName::new("load").unwrap(),
            step_pass: 1,
            iter_index: Some(3),
            frame_no: None,
            segment: 0,
            server_retry: 0,
        },
        tool_kind: "noop".into(),
        pool: PoolName::shared(),
        priority: Priority::clamped(0),
        max_attempts: MaxAttempts::clamped(3),
        deadline: None,
        not_before,
        held: false,
        status: CommandStatus::Pending,
        attempt: 1,
        worker: None,
        lease: None,
        claimed_at: None,
        started_at: None,
        completed_at: None,
        error: None,
    }
}

#[test]
fn repeats_notifications_with_growing_delay() {
    let (mut history, command) = (NotificationHistory::default(), pending_command(None));
    let due: Vec<i64> =
        (0..300).filter(|second| history.take_if_due(&command, time_at(*second))).collect();
    assert_eq!(due, [5, 10, 20, 40, 80, 140, 200, 260]);
}

#[test]
fn announces_delayed_command_at_once() {
    let mut history = NotificationHistory::default();
    assert!(history.take_if_due(&pending_command(Some(time_at(1))), time_at(1)));
    assert!(!history.take_if_due(&pending_command(Some(time_at(1))), time_at(2)));
}

#[test]
fn builds_notification_messages() {
    let command = pending_command(None);
    let notification = CommandNotification::repeated_notification(&command, time_at(0));
    let messages = notification.to_nats_messages("http://localhost:1", true);
    let id = command.command_id;
    assert_eq!(messages[0].subject, "noetl.commands.shared.7");
    assert_eq!(messages[0].message_id, format!("{id}:2:360000001"));
    let body = format!(
        "{{\"attempt\":2,\"command_id\":\"7:load:{id}:i3\",\"event_id\":{id},\
             \"execution_id\":7,\"execution_pool\":\"shared\",\
             \"server_url\":\"http://localhost:1\",\"step\":\"load\"}}"
    );
    assert_eq!(messages[0].body, body);
    assert_eq!(messages[1].subject, "noetl.commands");
    assert_eq!(messages[1].message_id, format!("{id}:2:360000001:bare"));
    assert_eq!(notification.to_nats_messages("", false).len(), 1);
}

#[test]
fn builds_notification_for_other_tenant() {
    let mut command = pending_command(None);
    let acme = TenantId::new("acme").unwrap();
    command.pool = PoolName::shared().tenant_queue(&acme);
    let messages =
        CommandNotification::repeated_notification(&command, time_at(0)).to_nats_messages("", true);
    assert_eq!(messages.len(), 1, "the bare subject belongs to the default tenant");
    assert_eq!(messages[0].subject, "noetl.t.acme.commands.shared.7");
    let body: serde_json::Value = serde_json::from_slice(&messages[0].body).unwrap();
    assert_eq!(body["execution_pool"], "shared");
    assert_eq!(body["tenant_id"], "acme");
}
