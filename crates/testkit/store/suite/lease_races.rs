//! Workers and a reaper race for the same commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::record::verify_chain;
use noetl_types::{
    CommandId, CommandStatus, EventId, EventType, ExecutionVersion, LeaseToken, NewEvent,
};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, lease_request, test_time};
use crate::{
    AppendError, AppendRequest, CommandChange, CommandEnd, Fence, LeaseCondition, LeaseExtension,
    LeasedCommand, LogPageLimit, Store,
};

const RUN_COUNT: i64 = 4;
const COMMANDS_PER_RUN: i64 = 12;

/// Appends one event about a command, with a new head after each conflict. Returns false if it is
/// fenced.
async fn append_report(
    store: &dyn Store,
    event: NewEvent,
    fence: Fence,
    change: CommandChange,
) -> bool {
    let mut run = TestExecution::new(0);
    run.id = event.execution_id;
    loop {
        run.head = store.find_execution(run.id).await.unwrap().unwrap().head;
        let append = AppendRequest {
            fences: vec![fence.clone()],
            commands: vec![change.clone()],
            ..run.append_request(vec![event.clone()])
        };
        match run.append_to(store, append).await {
            Ok(_) => return true,
            Err(AppendError::Fenced { .. }) => return false,
            Err(AppendError::Conflict { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn report_event(leased: &LeasedCommand, number: u8, event_type: EventType) -> NewEvent {
    let command = &leased.command;
    // After the ids of issued events, and different for each worker and attempt.
    let attempt = i64::from(command.attempt);
    let offset = 500_000 + i64::from(number) * 10_000 + attempt * 1_000;
    let id = command.command_id.get() + offset;
    NewEvent {
        command_id: Some(command.command_id),
        ..NewEvent::new(
            command.execution_id,
            EventId::new(id).unwrap(),
            event_type,
            test_time("12:00:00"),
        )
    }
}

/// Leases, extends and reports commands until all are completed. Abandons every third command.
async fn worker_loop(store: Arc<dyn Store>, number: u8) {
    let mut round = 0;
    loop {
        let leased = store.lease_commands(lease_request("w", number, 3)).await.unwrap();
        if leased.is_empty() && are_commands_completed(&*store).await {
            return;
        }
        for leased in leased {
            round += 1;
            let command = &leased.command;
            let fence = Fence {
                command_id: command.command_id,
                attempt: command.attempt,
                condition: LeaseCondition::Token(LeaseToken::from_bytes([number; 16])),
            };
            let extensions =
                store.extend_leases(vec![fence.clone()], test_time("12:01:00")).await.unwrap();
            if round % 3 == 0 || extensions == [LeaseExtension::Lost] {
                continue;
            }
            let close = CommandChange::Close {
                command_id: command.command_id,
                end: CommandEnd::Completed,
                at: test_time("12:00:01"),
                error: None,
            };
            let event = report_event(&leased, number, EventType::CommandCompleted);
            append_report(&*store, event, fence, close).await;
        }
    }
}

/// Requeues leases as soon as it finds them, so that workers lose some that they still work on.
async fn reaper_loop(store: Arc<dyn Store>) {
    let now = test_time("12:01:00");
    while !are_commands_completed(&*store).await {
        for command in store.list_expired_leases(now, PageLimit::default()).await.unwrap() {
            let fence = Fence {
                command_id: command.command_id,
                attempt: command.attempt,
                condition: LeaseCondition::ExpiredBy(now),
            };
            let requeue =
                CommandChange::Requeue { command_id: command.command_id, not_before: None };
            let issued = store
                .read_events(
                    command.execution_id,
                    ExecutionVersion::EMPTY,
                    LogPageLimit::clamped(1),
                )
                .await
                .unwrap()
                .remove(0);
            let leased = LeasedCommand { command, issued: issued.record };
            let event = report_event(&leased, 0, EventType::CommandExpired);
            append_report(&*store, event, fence, requeue).await;
        }
    }
}

async fn are_commands_completed(store: &dyn Store) -> bool {
    for command_id in command_ids() {
        let command = store.find_command(command_id).await.unwrap().unwrap();
        if command.status != CommandStatus::Completed {
            return false;
        }
    }
    true
}

fn command_ids() -> impl Iterator<Item = CommandId> {
    (1..=RUN_COUNT).flat_map(|run| {
        // The first event of a run is its start.
        let first = TestExecution::new(run).id.get() + 2;
        (0..COMMANDS_PER_RUN).map(move |index| CommandId::new(first + index).unwrap())
    })
}

pub(crate) async fn every_command_completes_exactly_once(fixture: &StoreFixture) {
    for number in 1..=RUN_COUNT {
        let mut run = TestExecution::create_started(&*fixture.store, number).await;
        for _ in 0..COMMANDS_PER_RUN {
            run.issue_command(&*fixture.store).await;
        }
    }
    let mut tasks = JoinSet::new();
    for number in 1..=3 {
        tasks.spawn(worker_loop(Arc::clone(&fixture.store), number));
    }
    tasks.spawn(reaper_loop(Arc::clone(&fixture.store)));
    tasks.join_all().await;

    let mut completed: BTreeMap<CommandId, u32> = BTreeMap::new();
    for number in 1..=RUN_COUNT {
        let id = TestExecution::new(number).id;
        let log = fixture.store.read_events(id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
        let log = log.unwrap();
        verify_chain(&log).unwrap();
        for event in log.iter().map(|stored| &stored.record.event) {
            if event.event_type == EventType::CommandCompleted {
                *completed.entry(event.command_id.unwrap()).or_default() += 1;
            }
        }
    }
    let expected: BTreeMap<_, _> = command_ids().map(|command_id| (command_id, 1)).collect();
    assert_eq!(completed, expected);
}
