//! Leases and fences.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_types::limits::{LeaseBatch, PageLimit, Priority};
use noetl_types::{CommandId, CommandStatus, EventType, Millis, Text, Timestamp};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at, claim, lease_of, worker};
use crate::{
    Append, AppendRefused, CommandChange, CommandEnd, Extension, Fence, Holder, LeaseToken,
    Release, Store,
};

fn token(number: u8) -> Holder {
    Holder::Token(LeaseToken::from_bytes([number; 16]))
}

fn fence(command_id: CommandId, attempt: u32, holder: Holder) -> Fence {
    Fence {
        command_id,
        attempt,
        holder,
    }
}

fn close(run: &mut Run, fence: Fence) -> Append {
    let event = run.event(EventType::CommandCompleted);
    let change = CommandChange::Close {
        command_id: fence.command_id,
        end: CommandEnd::Completed,
        at: at("12:00:30"),
        error: None,
    };
    Append {
        fences: vec![fence],
        commands: vec![change],
        ..run.append(vec![event])
    }
}

async fn ids(store: &dyn Store, request: crate::LeaseRequest) -> Vec<CommandId> {
    let leased = store.lease(request).await.unwrap();
    leased.iter().map(|it| it.command.command_id).collect()
}

pub(crate) async fn a_fence_lets_only_the_holder_through(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let id = run.issue(store).await;
    let other = run.issue(store).await;
    assert_eq!(ids(store, lease_of("w", 7, 1)).await, [id]);

    for wrong in [
        fence(id, 1, token(8)),
        fence(id, 2, token(7)),
        fence(id, 0, token(7)),
        fence(id, 1, Holder::Worker(worker("v"))),
        fence(id, 1, Holder::ExpiredBy(at("12:00:59"))),
        fence(other, 0, token(7)),
        fence(CommandId::new(5).unwrap(), 1, token(7)),
    ] {
        let command_id = wrong.command_id;
        let append = close(&mut run, wrong);
        let refused = run.write(store, append).await;
        assert_eq!(refused, Err(AppendRefused::Fenced { command_id }));
    }
    // Of several fences all must hold, and the first that does not is named.
    let mut append = close(&mut run, fence(id, 1, token(7)));
    append.fences.push(fence(other, 1, token(7)));
    let refused = run.write(store, append).await;
    assert_eq!(refused, Err(AppendRefused::Fenced { command_id: other }));

    // A command of another execution is no match.
    let mut stranger = Run::started(store, 2).await;
    let append = close(&mut stranger, fence(id, 1, token(7)));
    let refused = stranger.write(store, append).await;
    assert_eq!(refused, Err(AppendRefused::Fenced { command_id: id }));

    let append = close(&mut run, fence(id, 1, Holder::Worker(worker("w"))));
    run.write(store, append).await.unwrap();
    let closed = store.command(id).await.unwrap().unwrap();
    assert_eq!(closed.status, CommandStatus::Completed);
    assert_eq!(closed.completed_at, Some(at("12:00:30")));
    assert_eq!((closed.lease, closed.attempt), (None, 1));
    // The same result a second time meets no lease.
    let append = close(&mut run, fence(id, 1, token(7)));
    let refused = run.write(store, append).await;
    assert_eq!(refused, Err(AppendRefused::Fenced { command_id: id }));
}

pub(crate) async fn order_of_leases(bench: &Bench) {
    let store = &*bench.store;
    let mut first = Run::started(store, 1).await;
    let mut second = Run::started(store, 2).await;
    let a = first.issue(store).await;
    let b = first.issue(store).await;
    let urgent = first
        .issue_with(store, |command| {
            command.priority = Priority::new(9).unwrap();
        })
        .await;
    let c = second.issue(store).await;
    let python = second
        .issue_with(store, |command| command.tool_kind = Text::from("python"))
        .await;
    let elsewhere = second
        .issue_with(store, |command| {
            command.pool = noetl_types::PoolName::system();
        })
        .await;

    let mut only_python = lease_of("w", 1, 5);
    only_python.kinds = Some(vec![Text::from("python"), Text::from("shell")]);
    assert_eq!(ids(store, only_python).await, [python]);
    assert_eq!(ids(store, lease_of("w", 1, 3)).await, [urgent, a, c]);
    assert_eq!(ids(store, lease_of("w", 1, 3)).await, [b]);
    assert_eq!(ids(store, lease_of("w", 1, 3)).await, []);
    let mut system = lease_of("w", 1, 3);
    system.pool = noetl_types::PoolName::system();
    let leased = store.lease(system).await.unwrap();
    assert_eq!(leased.len(), 1);
    assert_eq!(leased[0].command.command_id, elsewhere);
    assert_eq!(leased[0].issued.event.event_id, elsewhere.into());
    assert_eq!(leased[0].command.worker, Some(worker("w")));
    assert_eq!(leased[0].command.status, CommandStatus::Claimed);
    assert_eq!(leased[0].command.attempt, 1);
}

pub(crate) async fn held_and_early_commands_wait(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let held = run.issue_with(store, |command| command.held = true).await;
    let early = run
        .issue_with(store, |command| {
            command.not_before = Some(at("12:00:00.000001"));
        })
        .await;
    assert_eq!(ids(store, lease_of("w", 1, 5)).await, []);
    let mut later = lease_of("w", 1, 5);
    later.claim.now = at("12:00:00.000001");
    assert_eq!(ids(store, later).await, [early]);
    let event = run.event(EventType::PlaybookResumed);
    let append = Append {
        commands: vec![CommandChange::Hold {
            command_id: held,
            held: false,
        }],
        ..run.append(vec![event])
    };
    run.write(store, append).await.unwrap();
    assert_eq!(ids(store, lease_of("w", 1, 5)).await, [held]);
}

pub(crate) async fn racing_workers_share_no_command(bench: &Bench) {
    let mut run = Run::started(&*bench.store, 1).await;
    for _ in 0..60 {
        run.issue(&*bench.store).await;
    }
    let mut workers = JoinSet::new();
    for number in 0..16 {
        let store = Arc::clone(&bench.store);
        workers.spawn(async move {
            let mut mine = Vec::new();
            for _ in 0..5 {
                mine.extend(ids(&*store, lease_of("w", number, 3)).await);
            }
            mine
        });
    }
    let all = workers.join_all().await.concat();
    let distinct: BTreeSet<_> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len());
    // A worker that looked while others chose may have seen nothing; the rest is still there.
    let rest = ids(&*bench.store, lease_of("w", 99, 100)).await;
    assert_eq!(all.len() + rest.len(), 60);
}

/// Sixteen reports with the same right token: one closes the command, all others meet its end.
/// Hole I4.
pub(crate) async fn racing_holders_of_one_lease_report_once(bench: &Bench) {
    let mut run = Run::started(&*bench.store, 1).await;
    let command_id = run.issue(&*bench.store).await;
    let leased = ids(&*bench.store, lease_of("w", 1, 1)).await;
    assert_eq!(leased, [command_id]);
    let mut racers = JoinSet::new();
    for racer in 0..16 {
        let store = Arc::clone(&bench.store);
        let mut run = run.clone();
        racers.spawn(async move {
            let mut event = run.event(EventType::CommandCompleted);
            let id = run.id.get() + 1_000 * (racer + 1);
            event.event_id = noetl_types::EventId::new(id).unwrap();
            loop {
                let append = Append {
                    fences: vec![Fence {
                        command_id,
                        attempt: 1,
                        holder: Holder::Token(LeaseToken::from_bytes([1; 16])),
                    }],
                    commands: vec![CommandChange::Close {
                        command_id,
                        end: CommandEnd::Completed,
                        at: at("12:00:01"),
                        error: None,
                    }],
                    ..run.append(vec![event.clone()])
                };
                match run.write(&*store, append).await {
                    Ok(_) => return true,
                    Err(AppendRefused::Fenced { .. }) => return false,
                    Err(AppendRefused::Conflict { .. }) => {
                        let execution = store.execution(run.id).await.unwrap();
                        run.head = execution.unwrap().head;
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
    }
    let accepted = racers.join_all().await;
    assert_eq!(accepted.iter().filter(|it| **it).count(), 1);
}

/// Hole I5.
pub(crate) async fn leases_are_kept_until_the_deadline(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let free = run.issue(store).await;
    let bounded = run
        .issue_with(store, |command| {
            command.deadline = Some(Millis::from_secs(40));
        })
        .await;
    let leased = store.lease(lease_of("w", 3, 2)).await.unwrap();
    let ends: Vec<Timestamp> = leased
        .iter()
        .filter_map(|leased| leased.command.lease.map(|lease| lease.until))
        .collect();
    assert_eq!(ends, [at("12:01:00"), at("12:00:40")]);
    let wishes = vec![
        fence(free, 1, token(3)),
        fence(bounded, 1, Holder::Worker(worker("w"))),
        fence(free, 1, token(4)),
        fence(CommandId::new(1).unwrap(), 1, token(3)),
    ];
    let extended = store.extend(wishes, at("12:05:00")).await.unwrap();
    assert_eq!(
        extended,
        [
            Extension::Until(at("12:05:00")),
            Extension::Until(at("12:00:40")),
            Extension::Lost,
            Extension::Lost,
        ]
    );
    let kept = store.command(free).await.unwrap().unwrap();
    assert_eq!(kept.lease.unwrap().until, at("12:05:00"));
}

fn take_away(run: &mut Run, command_id: CommandId, now: Timestamp) -> Append {
    let event = run.event(EventType::CommandExpired);
    Append {
        fences: vec![fence(command_id, 1, Holder::ExpiredBy(now))],
        commands: vec![CommandChange::Requeue {
            command_id,
            not_before: Some(at("12:02:03")),
        }],
        ..run.append(vec![event])
    }
}

pub(crate) async fn an_expired_lease_is_taken_away_once(bench: &Bench) {
    let store = &*bench.store;
    let limit = PageLimit::default();
    let mut run = Run::started(store, 1).await;
    let id = run.issue(store).await;
    store.lease(lease_of("w", 3, 1)).await.unwrap();
    assert_eq!(store.expired(at("12:00:59"), limit).await.unwrap(), []);
    let expired = store.expired(at("12:02:00"), limit).await.unwrap();
    assert_eq!(expired.len(), 1);
    assert_eq!(expired[0].command_id, id);

    // The worker was only slow: its heartbeat comes before the reaper's append.
    let extended = store
        .extend(vec![fence(id, 1, token(3))], at("12:03:00"))
        .await;
    assert_eq!(extended.unwrap(), [Extension::Until(at("12:03:00"))]);
    let append = take_away(&mut run, id, at("12:02:00"));
    let refused = run.write(store, append).await;
    assert_eq!(refused, Err(AppendRefused::Fenced { command_id: id }));

    let append = take_away(&mut run, id, at("12:03:00"));
    run.write(store, append).await.unwrap();
    let again = take_away(&mut run, id, at("12:03:00"));
    let refused = run.write(store, again).await;
    assert_eq!(refused, Err(AppendRefused::Fenced { command_id: id }));
    let append = close(&mut run, fence(id, 1, token(3)));
    let late = run.write(store, append).await;
    assert_eq!(late, Err(AppendRefused::Fenced { command_id: id }));

    let mut request = lease_of("v", 4, 1);
    request.claim.now = at("12:02:02");
    assert_eq!(ids(store, request.clone()).await, []);
    request.claim.now = at("12:02:03");
    request.claim.lease_until = at("12:04:00");
    let leased = store.lease(request).await.unwrap();
    assert_eq!(leased[0].command.attempt, 2);
    let append = close(&mut run, fence(id, 2, token(4)));
    run.write(store, append).await.unwrap();
}

pub(crate) async fn a_released_command_does_not_count_the_attempt(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let id = run.issue(store).await;
    store.lease(lease_of("w", 3, 1)).await.unwrap();
    let give_back = |holder| {
        vec![Release {
            fence: fence(id, 1, holder),
            not_before: None,
        }]
    };
    assert_eq!(store.release(give_back(token(4))).await.unwrap(), [false]);
    assert_eq!(store.release(give_back(token(3))).await.unwrap(), [true]);
    assert_eq!(store.release(give_back(token(3))).await.unwrap(), [false]);
    let leased = store.lease(lease_of("v", 5, 1)).await.unwrap();
    assert_eq!(leased[0].command.attempt, 1);
    // The number is the same, the token is not.
    let append = close(&mut run, fence(id, 1, token(3)));
    let refused = run.write(store, append).await;
    assert_eq!(refused, Err(AppendRefused::Fenced { command_id: id }));
}

pub(crate) async fn a_command_may_be_born_claimed(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let id = run
        .issue_with(store, |command| {
            command.born_claimed = Some(claim("w", 6));
            command.deadline = Some(Millis::from_secs(50));
        })
        .await;
    let mut anything = lease_of("v", 1, 5);
    anything.max = LeaseBatch::MAX;
    assert_eq!(ids(store, anything).await, []);
    let command = store.command(id).await.unwrap().unwrap();
    assert_eq!(
        (command.status, command.attempt),
        (CommandStatus::Claimed, 1)
    );
    assert_eq!(command.lease.unwrap().until, at("12:00:50"));
    let event = run.event(EventType::CommandStarted);
    let append = Append {
        fences: vec![fence(id, 1, token(6))],
        commands: vec![CommandChange::Run {
            command_id: id,
            at: at("12:00:01"),
        }],
        ..run.append(vec![event])
    };
    run.write(store, append).await.unwrap();
    let command = store.command(id).await.unwrap().unwrap();
    assert_eq!(command.status, CommandStatus::Running);
    assert_eq!(command.started_at, Some(at("12:00:01")));
    let append = close(&mut run, fence(id, 1, token(6)));
    run.write(store, append).await.unwrap();
}

pub(crate) async fn a_command_is_claimed_by_name_once(bench: &Bench) {
    let store = &bench.store;
    let mut run = Run::started(&**store, 1).await;
    let id = run.issue(&**store).await;
    let held = run
        .issue_with(&**store, |command| command.held = true)
        .await;
    let early = run
        .issue_with(&**store, |command| {
            command.not_before = Some(at("12:00:01"));
        })
        .await;
    for waits in [held, early] {
        let refused = store.claim(waits, claim("w", 1)).await.unwrap().unwrap();
        assert!(!refused.is_granted);
        assert_eq!(refused.leased.command.attempt, 0);
    }
    let nothing = store.claim(CommandId::new(5).unwrap(), claim("w", 1)).await;
    assert_eq!(nothing.unwrap(), None);

    let mut racers = JoinSet::new();
    for number in 0..16_u8 {
        let store = Arc::clone(store);
        racers.spawn(async move {
            let name = format!("w{number}");
            let claimed = store.claim(id, claim(&name, number)).await.unwrap();
            (name, claimed.unwrap())
        });
    }
    let claims = racers.join_all().await;
    let mut winners = claims.iter().filter(|(_, claimed)| claimed.is_granted);
    let (winner, claimed) = winners.next().unwrap();
    assert!(winners.next().is_none());
    let command = &claimed.leased.command;
    assert_eq!(command.worker, Some(worker(winner)));
    assert_eq!(
        (command.status, command.attempt),
        (CommandStatus::Claimed, 1)
    );
    assert_eq!(command.lease.unwrap().until, at("12:01:00"));
    let issued = claimed.leased.issued.event.event_id;
    assert_eq!(CommandId::from(issued), id);
    // Whoever came later is told who has it.
    let late = store.claim(id, claim("late", 99)).await.unwrap().unwrap();
    assert_eq!(late.leased.command, *command);
    assert_eq!(store.command(id).await.unwrap().as_ref(), Some(command));

    let stored = store.event(run.id, id.into()).await.unwrap().unwrap();
    assert_eq!(stored.record, claimed.leased.issued);
    let missing = store.event(run.id, CommandId::new(5).unwrap().into()).await;
    assert_eq!(missing.unwrap(), None);
}
