//! Leases and fences.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_types::limits::{LeaseBatchSize, PageLimit, Priority};
use noetl_types::{CommandId, CommandStatus, EventType, LeaseToken, Millis, Text, Timestamp};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, lease_request, lease_terms, test_time, worker_id};
use crate::{
    AppendError, AppendRequest, CommandChange, CommandEnd, Fence, LeaseCondition, LeaseExtension,
    LeaseRelease, Store,
};

fn token_condition(number: u8) -> LeaseCondition {
    LeaseCondition::Token(LeaseToken::from_bytes([number; 16]))
}

fn command_fence(command_id: CommandId, attempt: u32, condition: LeaseCondition) -> Fence {
    Fence { command_id, attempt, condition }
}

fn close_append(run: &mut TestExecution, fence: Fence) -> AppendRequest {
    let event = run.next_event(EventType::CommandCompleted);
    let change = CommandChange::Close {
        command_id: fence.command_id,
        end: CommandEnd::Completed,
        at: test_time("12:00:30"),
        error: None,
    };
    AppendRequest { fences: vec![fence], commands: vec![change], ..run.append_request(vec![event]) }
}

async fn leased_ids(store: &dyn Store, request: crate::LeaseRequest) -> Vec<CommandId> {
    let leased = store.lease_commands(request).await.unwrap();
    leased.iter().map(|it| it.command.command_id).collect()
}

pub(crate) async fn fence_admits_only_lease_holder(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let id = run.issue_command(store).await;
    let other = run.issue_command(store).await;
    assert_eq!(leased_ids(store, lease_request("w", 7, 1)).await, [id]);

    for unsatisfied in [
        command_fence(id, 1, token_condition(8)),
        command_fence(id, 2, token_condition(7)),
        command_fence(id, 0, token_condition(7)),
        command_fence(id, 1, LeaseCondition::Worker(worker_id("v"))),
        command_fence(id, 1, LeaseCondition::ExpiredBy(test_time("12:00:59"))),
        command_fence(other, 0, token_condition(7)),
        command_fence(CommandId::new(5).unwrap(), 1, token_condition(7)),
    ] {
        let command_id = unsatisfied.command_id;
        let append = close_append(&mut run, unsatisfied);
        let result = run.append_to(store, append).await;
        assert_eq!(result, Err(AppendError::Fenced { command_id }));
    }
    // All fences must be satisfied. The first one that is not is reported.
    let mut append = close_append(&mut run, command_fence(id, 1, token_condition(7)));
    append.fences.push(command_fence(other, 1, token_condition(7)));
    let result = run.append_to(store, append).await;
    assert_eq!(result, Err(AppendError::Fenced { command_id: other }));

    // The command belongs to another execution.
    let mut other_run = TestExecution::create_started(store, 2).await;
    let append = close_append(&mut other_run, command_fence(id, 1, token_condition(7)));
    let result = other_run.append_to(store, append).await;
    assert_eq!(result, Err(AppendError::Fenced { command_id: id }));

    let append =
        close_append(&mut run, command_fence(id, 1, LeaseCondition::Worker(worker_id("w"))));
    run.append_to(store, append).await.unwrap();
    let closed = store.find_command(id).await.unwrap().unwrap();
    assert_eq!(closed.status, CommandStatus::Completed);
    assert_eq!(closed.completed_at, Some(test_time("12:00:30")));
    assert_eq!((closed.lease, closed.attempt), (None, 1));
    // A repeated result finds no lease.
    let append = close_append(&mut run, command_fence(id, 1, token_condition(7)));
    let result = run.append_to(store, append).await;
    assert_eq!(result, Err(AppendError::Fenced { command_id: id }));
}

pub(crate) async fn commands_are_leased_by_priority_and_fairness(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut first = TestExecution::create_started(store, 1).await;
    let mut second = TestExecution::create_started(store, 2).await;
    let a = first.issue_command(store).await;
    let b = first.issue_command(store).await;
    let urgent = first
        .issue_command_with(store, |command| {
            command.priority = Priority::new(9).unwrap();
        })
        .await;
    let c = second.issue_command(store).await;
    let python =
        second.issue_command_with(store, |command| command.tool_kind = Text::from("python")).await;
    let in_system_pool = second
        .issue_command_with(store, |command| {
            command.pool = noetl_types::PoolName::system();
        })
        .await;

    let mut only_python = lease_request("w", 1, 5);
    only_python.kinds = Some(vec![Text::from("python"), Text::from("shell")]);
    assert_eq!(leased_ids(store, only_python).await, [python]);
    assert_eq!(leased_ids(store, lease_request("w", 1, 3)).await, [urgent, a, c]);
    assert_eq!(leased_ids(store, lease_request("w", 1, 3)).await, [b]);
    assert_eq!(leased_ids(store, lease_request("w", 1, 3)).await, []);
    let mut system = lease_request("w", 1, 3);
    system.pool = noetl_types::PoolName::system();
    let leased = store.lease_commands(system).await.unwrap();
    assert_eq!(leased.len(), 1);
    assert_eq!(leased[0].command.command_id, in_system_pool);
    assert_eq!(leased[0].issued.event.event_id, in_system_pool.into());
    assert_eq!(leased[0].command.worker, Some(worker_id("w")));
    assert_eq!(leased[0].command.status, CommandStatus::Claimed);
    assert_eq!(leased[0].command.attempt, 1);
}

pub(crate) async fn held_and_early_commands_are_not_leased(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let held = run.issue_command_with(store, |command| command.held = true).await;
    let early = run
        .issue_command_with(store, |command| {
            command.not_before = Some(test_time("12:00:00.000001"));
        })
        .await;
    assert_eq!(leased_ids(store, lease_request("w", 1, 5)).await, []);
    let mut later = lease_request("w", 1, 5);
    later.terms.now = test_time("12:00:00.000001");
    assert_eq!(leased_ids(store, later).await, [early]);
    let event = run.next_event(EventType::PlaybookResumed);
    let append = AppendRequest {
        commands: vec![CommandChange::Hold { command_id: held, held: false }],
        ..run.append_request(vec![event])
    };
    run.append_to(store, append).await.unwrap();
    assert_eq!(leased_ids(store, lease_request("w", 1, 5)).await, [held]);
}

pub(crate) async fn racing_workers_share_no_command(fixture: &StoreFixture) {
    let mut run = TestExecution::create_started(&*fixture.store, 1).await;
    for _ in 0..60 {
        run.issue_command(&*fixture.store).await;
    }
    let mut workers = JoinSet::new();
    for number in 0..16 {
        let store = Arc::clone(&fixture.store);
        workers.spawn(async move {
            let mut leased = Vec::new();
            for _ in 0..5 {
                leased.extend(leased_ids(&*store, lease_request("w", number, 3)).await);
            }
            leased
        });
    }
    let all = workers.join_all().await.concat();
    let distinct: BTreeSet<_> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len());
    // A worker that polled while others were choosing may have received nothing. The remaining
    // commands are still available.
    let rest = leased_ids(&*fixture.store, lease_request("w", 99, 100)).await;
    assert_eq!(all.len() + rest.len(), 60);
}

/// Sixteen reports with the same valid token: one closes the command, all others are fenced.
pub(crate) async fn racing_reports_of_one_lease_close_once(fixture: &StoreFixture) {
    let mut run = TestExecution::create_started(&*fixture.store, 1).await;
    let command_id = run.issue_command(&*fixture.store).await;
    let leased = leased_ids(&*fixture.store, lease_request("w", 1, 1)).await;
    assert_eq!(leased, [command_id]);
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let store = Arc::clone(&fixture.store);
        let mut run = run.clone();
        tasks.spawn(async move {
            let mut event = run.next_event(EventType::CommandCompleted);
            let id = run.id.get() + 1_000 * (task + 1);
            event.event_id = noetl_types::EventId::new(id).unwrap();
            loop {
                let append = AppendRequest {
                    fences: vec![Fence {
                        command_id,
                        attempt: 1,
                        condition: LeaseCondition::Token(LeaseToken::from_bytes([1; 16])),
                    }],
                    commands: vec![CommandChange::Close {
                        command_id,
                        end: CommandEnd::Completed,
                        at: test_time("12:00:01"),
                        error: None,
                    }],
                    ..run.append_request(vec![event.clone()])
                };
                match run.append_to(&*store, append).await {
                    Ok(_) => return true,
                    Err(AppendError::Fenced { .. }) => return false,
                    Err(AppendError::Conflict { .. }) => {
                        let execution = store.find_execution(run.id).await.unwrap();
                        run.head = execution.unwrap().head;
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    let accepted = tasks.join_all().await;
    assert_eq!(accepted.iter().filter(|it| **it).count(), 1);
}

pub(crate) async fn lease_extension_is_capped_by_deadline(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let unbounded = run.issue_command(store).await;
    let bounded = run
        .issue_command_with(store, |command| {
            command.deadline = Some(Millis::from_secs(40));
        })
        .await;
    let leased = store.lease_commands(lease_request("w", 3, 2)).await.unwrap();
    let ends: Vec<Timestamp> =
        leased.iter().filter_map(|leased| leased.command.lease.map(|lease| lease.until)).collect();
    assert_eq!(ends, [test_time("12:01:00"), test_time("12:00:40")]);
    let fences = vec![
        command_fence(unbounded, 1, token_condition(3)),
        command_fence(bounded, 1, LeaseCondition::Worker(worker_id("w"))),
        command_fence(unbounded, 1, token_condition(4)),
        command_fence(CommandId::new(1).unwrap(), 1, token_condition(3)),
    ];
    let extended = store.extend_leases(fences, test_time("12:05:00")).await.unwrap();
    assert_eq!(
        extended,
        [
            LeaseExtension::Until(test_time("12:05:00")),
            LeaseExtension::Until(test_time("12:00:40")),
            LeaseExtension::Lost,
            LeaseExtension::Lost,
        ]
    );
    let extended_command = store.find_command(unbounded).await.unwrap().unwrap();
    assert_eq!(extended_command.lease.unwrap().until, test_time("12:05:00"));
}

fn requeue_append(run: &mut TestExecution, command_id: CommandId, now: Timestamp) -> AppendRequest {
    let event = run.next_event(EventType::CommandExpired);
    AppendRequest {
        fences: vec![command_fence(command_id, 1, LeaseCondition::ExpiredBy(now))],
        commands: vec![CommandChange::Requeue {
            command_id,
            not_before: Some(test_time("12:02:03")),
        }],
        ..run.append_request(vec![event])
    }
}

pub(crate) async fn expired_lease_is_requeued_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let limit = PageLimit::default();
    let mut run = TestExecution::create_started(store, 1).await;
    let id = run.issue_command(store).await;
    store.lease_commands(lease_request("w", 3, 1)).await.unwrap();
    assert_eq!(store.list_expired_leases(test_time("12:00:59"), limit).await.unwrap(), []);
    let expired = store.list_expired_leases(test_time("12:02:00"), limit).await.unwrap();
    assert_eq!(expired.len(), 1);
    assert_eq!(expired[0].command_id, id);

    // The worker was only slow: its heartbeat arrives before the reaper's append.
    let extended = store
        .extend_leases(vec![command_fence(id, 1, token_condition(3))], test_time("12:03:00"))
        .await;
    assert_eq!(extended.unwrap(), [LeaseExtension::Until(test_time("12:03:00"))]);
    let append = requeue_append(&mut run, id, test_time("12:02:00"));
    let result = run.append_to(store, append).await;
    assert_eq!(result, Err(AppendError::Fenced { command_id: id }));

    let append = requeue_append(&mut run, id, test_time("12:03:00"));
    run.append_to(store, append).await.unwrap();
    let repeated = requeue_append(&mut run, id, test_time("12:03:00"));
    let result = run.append_to(store, repeated).await;
    assert_eq!(result, Err(AppendError::Fenced { command_id: id }));
    let append = close_append(&mut run, command_fence(id, 1, token_condition(3)));
    let late = run.append_to(store, append).await;
    assert_eq!(late, Err(AppendError::Fenced { command_id: id }));

    let mut request = lease_request("v", 4, 1);
    request.terms.now = test_time("12:02:02");
    assert_eq!(leased_ids(store, request.clone()).await, []);
    request.terms.now = test_time("12:02:03");
    request.terms.lease_until = test_time("12:04:00");
    let leased = store.lease_commands(request).await.unwrap();
    assert_eq!(leased[0].command.attempt, 2);
    let append = close_append(&mut run, command_fence(id, 2, token_condition(4)));
    run.append_to(store, append).await.unwrap();
}

pub(crate) async fn released_lease_does_not_count_as_attempt(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let id = run.issue_command(store).await;
    store.lease_commands(lease_request("w", 3, 1)).await.unwrap();
    let releases =
        |condition| vec![LeaseRelease { fence: command_fence(id, 1, condition), not_before: None }];
    assert_eq!(store.release_leases(releases(token_condition(4))).await.unwrap(), [false]);
    assert_eq!(store.release_leases(releases(token_condition(3))).await.unwrap(), [true]);
    assert_eq!(store.release_leases(releases(token_condition(3))).await.unwrap(), [false]);
    let leased = store.lease_commands(lease_request("v", 5, 1)).await.unwrap();
    assert_eq!(leased[0].command.attempt, 1);
    // The attempt is equal, but the token differs.
    let append = close_append(&mut run, command_fence(id, 1, token_condition(3)));
    let result = run.append_to(store, append).await;
    assert_eq!(result, Err(AppendError::Fenced { command_id: id }));
}

pub(crate) async fn command_is_issued_with_eager_lease(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let id = run
        .issue_command_with(store, |command| {
            command.eager_lease = Some(lease_terms("w", 6));
            command.deadline = Some(Millis::from_secs(50));
        })
        .await;
    let mut request = lease_request("v", 1, 5);
    request.max_commands = LeaseBatchSize::MAX;
    assert_eq!(leased_ids(store, request).await, []);
    let command = store.find_command(id).await.unwrap().unwrap();
    assert_eq!((command.status, command.attempt), (CommandStatus::Claimed, 1));
    assert_eq!(command.lease.unwrap().until, test_time("12:00:50"));
    let event = run.next_event(EventType::CommandStarted);
    let append = AppendRequest {
        fences: vec![command_fence(id, 1, token_condition(6))],
        commands: vec![CommandChange::Run { command_id: id, at: test_time("12:00:01") }],
        ..run.append_request(vec![event])
    };
    run.append_to(store, append).await.unwrap();
    let command = store.find_command(id).await.unwrap().unwrap();
    assert_eq!(command.status, CommandStatus::Running);
    assert_eq!(command.started_at, Some(test_time("12:00:01")));
    let append = close_append(&mut run, command_fence(id, 1, token_condition(6)));
    run.append_to(store, append).await.unwrap();
}

pub(crate) async fn command_is_leased_by_id_once(fixture: &StoreFixture) {
    let store = &fixture.store;
    let mut run = TestExecution::create_started(&**store, 1).await;
    let id = run.issue_command(&**store).await;
    let held = run.issue_command_with(&**store, |command| command.held = true).await;
    let early = run
        .issue_command_with(&**store, |command| {
            command.not_before = Some(test_time("12:00:01"));
        })
        .await;
    for command_id in [held, early] {
        let outcome =
            store.try_lease_command(command_id, lease_terms("w", 1)).await.unwrap().unwrap();
        assert!(!outcome.is_granted);
        assert_eq!(outcome.leased.command.attempt, 0);
    }
    let missing_outcome =
        store.try_lease_command(CommandId::new(5).unwrap(), lease_terms("w", 1)).await;
    assert_eq!(missing_outcome.unwrap(), None);

    let mut tasks = JoinSet::new();
    for number in 0..16_u8 {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let name = format!("w{number}");
            let outcome = store.try_lease_command(id, lease_terms(&name, number)).await.unwrap();
            (name, outcome.unwrap())
        });
    }
    let outcomes = tasks.join_all().await;
    let mut winners = outcomes.iter().filter(|(_, outcome)| outcome.is_granted);
    let (winner, outcome) = winners.next().unwrap();
    assert!(winners.next().is_none());
    let command = &outcome.leased.command;
    assert_eq!(command.worker, Some(worker_id(winner)));
    assert_eq!((command.status, command.attempt), (CommandStatus::Claimed, 1));
    assert_eq!(command.lease.unwrap().until, test_time("12:01:00"));
    let issued = outcome.leased.issued.event.event_id;
    assert_eq!(CommandId::from(issued), id);
    // Later requests return the current lease.
    let late = store.try_lease_command(id, lease_terms("late", 99)).await.unwrap().unwrap();
    assert_eq!(late.leased.command, *command);
    assert_eq!(store.find_command(id).await.unwrap().as_ref(), Some(command));

    let stored = store.find_event(run.id, id.into()).await.unwrap().unwrap();
    assert_eq!(stored.record, outcome.leased.issued);
    let missing = store.find_event(run.id, CommandId::new(5).unwrap().into()).await;
    assert_eq!(missing.unwrap(), None);
}
