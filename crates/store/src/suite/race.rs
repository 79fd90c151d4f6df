//! Workers, a reaper and steering at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::record::verify_chain;
use noetl_types::{CommandId, CommandStatus, EventId, EventType, NewEvent, Version};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at, lease_of};
use crate::{
    Append, AppendRefused, CommandChange, CommandEnd, Extension, Fence, Holder, LeaseToken,
    LeasedCommand, LogPage, Store,
};

const RUNS: i64 = 4;
const COMMANDS: i64 = 12;

/// Appends one event about a command, deciding anew after each conflict; `false` if it was fenced.
async fn report(store: &dyn Store, event: NewEvent, fence: Fence, change: CommandChange) -> bool {
    let mut run = Run::new(0);
    run.id = event.execution_id;
    loop {
        run.head = store.execution(run.id).await.unwrap().unwrap().head;
        let append = Append {
            fences: vec![fence.clone()],
            commands: vec![change.clone()],
            ..run.append(vec![event.clone()])
        };
        match run.write(store, append).await {
            Ok(_) => return true,
            Err(AppendRefused::Fenced { .. }) => return false,
            Err(AppendRefused::Conflict { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn event_of(leased: &LeasedCommand, number: u8, event_type: EventType) -> NewEvent {
    let command = &leased.command;
    // Beyond the ids of issued events, and another one for each worker and attempt.
    let attempt = i64::from(command.attempt);
    let offset = 500_000 + i64::from(number) * 10_000 + attempt * 1_000;
    let id = command.command_id.get() + offset;
    NewEvent {
        command_id: Some(command.command_id),
        ..NewEvent::new(
            command.execution_id,
            EventId::new(id).unwrap(),
            event_type,
            at("12:00:00"),
        )
    }
}

/// Leases, keeps and reports until nothing is left. Every third command is dropped on the floor.
async fn work(store: Arc<dyn Store>, number: u8) {
    let mut round = 0;
    loop {
        let leased = store.lease(lease_of("w", number, 3)).await.unwrap();
        if leased.is_empty() && is_done(&*store).await {
            return;
        }
        for leased in leased {
            round += 1;
            let command = &leased.command;
            let fence = Fence {
                command_id: command.command_id,
                attempt: command.attempt,
                holder: Holder::Token(LeaseToken::from_bytes([number; 16])),
            };
            let kept = store
                .extend(vec![fence.clone()], at("12:01:00"))
                .await
                .unwrap();
            if round % 3 == 0 || kept == [Extension::Lost] {
                continue;
            }
            let close = CommandChange::Close {
                command_id: command.command_id,
                end: CommandEnd::Completed,
                at: at("12:00:01"),
                error: None,
            };
            let event = event_of(&leased, number, EventType::CommandCompleted);
            report(&*store, event, fence, close).await;
        }
    }
}

/// Takes leases away as soon as it sees them, so that workers lose some that they still work on.
async fn reap(store: Arc<dyn Store>) {
    let now = at("12:01:00");
    while !is_done(&*store).await {
        for command in store.expired(now, PageLimit::default()).await.unwrap() {
            let fence = Fence {
                command_id: command.command_id,
                attempt: command.attempt,
                holder: Holder::ExpiredBy(now),
            };
            let requeue = CommandChange::Requeue {
                command_id: command.command_id,
                not_before: None,
            };
            let issued = store
                .events(command.execution_id, Version::EMPTY, LogPage::clamped(1))
                .await
                .unwrap()
                .remove(0);
            let leased = LeasedCommand {
                command,
                issued: issued.record,
            };
            let event = event_of(&leased, 0, EventType::CommandExpired);
            report(&*store, event, fence, requeue).await;
        }
    }
}

async fn is_done(store: &dyn Store) -> bool {
    for command_id in command_ids() {
        let command = store.command(command_id).await.unwrap().unwrap();
        if command.status != CommandStatus::Completed {
            return false;
        }
    }
    true
}

fn command_ids() -> impl Iterator<Item = CommandId> {
    (1..=RUNS).flat_map(|run| {
        // The first event of a run is its start.
        let first = Run::new(run).id.get() + 2;
        (0..COMMANDS).map(move |place| CommandId::new(first + place).unwrap())
    })
}

pub(crate) async fn every_command_completes_exactly_once(bench: &Bench) {
    for number in 1..=RUNS {
        let mut run = Run::started(&*bench.store, number).await;
        for _ in 0..COMMANDS {
            run.issue(&*bench.store).await;
        }
    }
    let mut tasks = JoinSet::new();
    for number in 1..=3 {
        tasks.spawn(work(Arc::clone(&bench.store), number));
    }
    tasks.spawn(reap(Arc::clone(&bench.store)));
    tasks.join_all().await;

    let mut completed: BTreeMap<CommandId, u32> = BTreeMap::new();
    for number in 1..=RUNS {
        let id = Run::new(number).id;
        let log = bench.store.events(id, Version::EMPTY, LogPage::MAX).await;
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
