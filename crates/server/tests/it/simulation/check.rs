//! Invariants that must hold at the end of a simulation.

use std::collections::BTreeSet;
use std::sync::Arc;

use noetl_engine::event::{Event, EventKind};
use noetl_engine::{ExecutionState, FOLD_VERSION, decode_record};
use noetl_server::verification::{OutsideAnchor, VerifyScope};
use noetl_server::{ControlPlane, Settings, SystemClock};
use noetl_store::prelude::*;
use noetl_store::{
    CommandFilter, Execution, LogPageLimit, SlotSelector, SlotState, SnapshotKey, Store,
    WaitFilter, WaitSelector,
};
use noetl_types::json::to_canonical;
use noetl_types::limits::PageLimit;
use noetl_types::record::verify_chain;
use noetl_types::{
    CommandId, EventName, EventType, ExecutionStatus, ExecutionVersion, StoredEvent, TenantId,
    Timestamp,
};

use crate::simulation::playbooks::{RunOutcome, SLOT_LIMITS};
use crate::simulation::users::list_slots;
use crate::simulation::worker::is_worker_loss;
use crate::simulation::world::SimWorld;

#[derive(Default)]
pub(crate) struct CheckReport {
    pub(crate) executions: usize,
    pub(crate) compared: usize,
    pub(crate) violations: Vec<String>,
}

/// Checks all invariants.
pub(crate) async fn check_world(world: &SimWorld) -> CheckReport {
    let mut report = CheckReport::default();
    let executions = world.list_executions().await;
    report.executions = executions.len();
    let mut closed = BTreeSet::new();
    for execution in &executions {
        check_execution(world, execution, &mut report, &mut closed).await;
        world.trace.record(format_args!(
            "{} {} {:?}",
            execution.execution_id, execution.view.status, execution.head.chain
        ));
    }
    check_acknowledged(world, &executions, &closed, &mut report);
    check_nothing_left(world, &mut report).await;
    check_verification(world, &mut report).await;
    report
}

/// Nothing that servers write is taken for tampering.
async fn check_verification(world: &SimWorld, report: &mut CheckReport) {
    let store: Arc<dyn Store> = world.memory.clone();
    let reader = ControlPlane::open_read_only(store, Arc::new(SystemClock), Settings::default());
    let mut problems = Vec::new();
    let (scope, outside) = (VerifyScope::All, OutsideAnchor::None);
    let verified = reader.verification.verify_store(scope, &outside, &mut problems).await;
    let unfolded = verified.expect("a verification").counts.unfolded;
    report.require(problems.is_empty(), || format!("taken for tampering: {problems:?}"));
    report.require(unfolded == 0, || format!("{unfolded} executions were not folded"));
}

impl CheckReport {
    fn require(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(message());
        }
    }
}

/// Checks one execution.
async fn check_execution(
    world: &SimWorld,
    execution: &Execution,
    report: &mut CheckReport,
    closed: &mut BTreeSet<CommandId>,
) {
    let id = execution.execution_id;
    let violations_before = report.violations.len();
    let stored = world.memory.read_events(id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    let stored: Vec<StoredEvent> = stored.expect("the model does not fail");
    let chain = verify_chain(&stored);
    report.require(chain == Ok(execution.head.chain), || {
        format!("{id}: the chain is {chain:?}, its head {:?}", execution.head)
    });
    let count = i64::try_from(stored.len()).unwrap_or(i64::MAX);
    report.require(execution.head.version.get() == count, || {
        format!("{id}: {count} events and version {}", execution.head.version)
    });
    let events: Vec<Event> = stored
        .iter()
        .map(|stored| decode_record(&stored.record).expect("a record reads back"))
        .collect();
    check_single_end(execution, &events, report);
    check_single_results(execution, &events, report, closed);
    if let Some(state) = check_replay(world, execution, &events, report).await {
        check_expected_outcome(world, execution, &events, &state, report);
    }
    if report.violations.len() > violations_before {
        let playbook = execution.facts.catalog_id.map(|id| world.find_playbook(id).text.as_str());
        let log: Vec<String> = stored.iter().map(format_event).collect();
        let (playbook, log) = (playbook.unwrap_or_default(), log.join("\n"));
        report.violations.push(format!("the log of {id}:\n{log}\nof\n{playbook}"));
    }
}

/// Formats an event on one line.
fn format_event(stored: &StoredEvent) -> String {
    let event = &stored.record.event;
    let (seq, time) = (stored.record.seq, stored.record.ingest_time);
    let node = event.node_name.as_deref().unwrap_or_default();
    let meta = event.meta.as_ref().map(|meta| format!("{meta:?}"));
    let mut meta = meta.unwrap_or_default();
    meta.truncate(meta.floor_char_boundary(300));
    format!("{seq:>4} {time} {} {node} {meta}", event.event_type)
}

/// There is one terminal event, and only audit events follow it.
fn check_single_end(execution: &Execution, events: &[Event], report: &mut CheckReport) {
    let id = execution.execution_id;
    let names = || events.iter().map(|event| event.kind.name());
    let is_end = |name: &EventName| name.known_type().is_some_and(EventType::is_terminal);
    let ends = names().filter(is_end).count();
    report.require(ends == 1, || {
        let last = names().next_back();
        format!(
            "{id} has {ends} terminal events; its status is {} after {last:?}",
            execution.view.status
        )
    });
    let mut after = names().skip_while(|name| !is_end(name)).skip(1);
    report.require(after.all(|name| name.is_audit()), || format!("{id} has events after its end"));
}

/// Each command has at most one result and is closed at most once.
fn check_single_results(
    execution: &Execution,
    events: &[Event],
    report: &mut CheckReport,
    all_closed: &mut BTreeSet<CommandId>,
) {
    let mut results = BTreeSet::new();
    let mut closed = BTreeSet::new();
    for event in events {
        let (set, command) = match &event.kind {
            EventKind::CallDone(done) => (&mut results, done.at.command),
            EventKind::CallError(failed) if failed.retried.is_none() => {
                (&mut results, failed.at.command)
            }
            EventKind::CommandCompleted(at) => (&mut closed, at.command),
            EventKind::CommandFailed(failed) => (&mut closed, failed.at.command),
            EventKind::CommandCancelled(cancelled) => (&mut closed, cancelled.at.command),
            _ => continue,
        };
        let is_new = set.insert(command);
        report.require(is_new, || {
            format!("{}: {command} twice: {:?}", execution.execution_id, event.kind)
        });
    }
    all_closed.extend(results);
}

/// Replaying the log gives the stored status, and at each snapshot the stored state.
async fn check_replay(
    world: &SimWorld,
    execution: &Execution,
    events: &[Event],
    report: &mut CheckReport,
) -> Option<ExecutionState> {
    let id = execution.execution_id;
    let plan = &world.find_playbook(execution.facts.catalog_id?).plan;
    let key = SnapshotKey { kind: "engine_state".into(), fold_version: FOLD_VERSION };
    let loaded = world.memory.load_execution(id, &key, LogPageLimit::MAX).await;
    let snapshot = loaded.expect("the model does not fail")?.snapshot;
    let mut state = ExecutionState::new(plan);
    for event in events {
        if let Err(error) = state.apply(plan, event) {
            report.violations.push(format!("{id} does not fold: {error}"));
            return None;
        }
        if let Some(snapshot) = &snapshot
            && snapshot.head.version == state.version()
        {
            let folded = to_canonical(&state.to_snapshot().expect("a snapshot"));
            report.require(folded == snapshot.state, || {
                format!("{id}: the snapshot at {} differs from the log", state.version())
            });
        }
    }
    report.require(state.status() == execution.view.status, || {
        let (folded, listed) = (state.status(), execution.view.status);
        format!("{id} folds to {folded} but is listed as {listed}")
    });
    Some(state)
}

/// An undisturbed execution has the expected outcome.
fn check_expected_outcome(
    world: &SimWorld,
    execution: &Execution,
    events: &[Event],
    state: &ExecutionState,
    report: &mut CheckReport,
) {
    let is_disturbed = events.iter().any(|event| match &event.kind {
        EventKind::CommandFailed(failed) => is_worker_loss(failed.reason.kind),
        EventKind::PlaybookCancelled(_) => true,
        _ => false,
    });
    let playbook = execution.facts.catalog_id.map(|id| world.find_playbook(id));
    let Some((playbook, expected)) =
        playbook.and_then(|playbook| Some((playbook, playbook.expected.as_ref()?)))
    else {
        return;
    };
    if is_disturbed || !state.is_ended() {
        return;
    }
    report.compared += 1;
    let found = RunOutcome::from_state(&playbook.plan, state);
    report.require(found == *expected, || {
        let id = execution.execution_id;
        format!("{id} ended with {found:?}\nexpected {expected:?}")
    });
}

/// Acknowledged effects are in the log.
fn check_acknowledged(
    world: &SimWorld,
    executions: &[Execution],
    closed: &BTreeSet<CommandId>,
    report: &mut CheckReport,
) {
    let acknowledged = world.lock_acknowledged();
    for (command, attempts) in &acknowledged.accepted {
        report.require(attempts.len() == 1, || {
            format!("results of several attempts of {command} were accepted: {attempts:?}")
        });
        report.require(closed.contains(command), || {
            format!("the result of {command} was accepted but is not in the log")
        });
    }
    let find = |id| executions.iter().find(|execution| execution.execution_id == id);
    for id in &acknowledged.started {
        report.require(find(*id).is_some(), || format!("{id} was started but does not exist"));
    }
    let mut keys = BTreeSet::new();
    for execution in executions {
        let label = execution.facts.labels.as_ref();
        if let Some(key) = label.and_then(|labels| labels.get("key")?.as_str()) {
            report.require(keys.insert(key), || format!("{key} started two executions"));
        }
    }
    for id in &acknowledged.cancelled {
        let status = find(*id).map(|execution| execution.view.status);
        report.require(status == Some(ExecutionStatus::Cancelled), || {
            format!("{id} was cancelled but is {status:?}")
        });
    }
}

/// No timers, follow-ups, leases, slots, commands or waits are left.
async fn check_nothing_left(world: &SimWorld, report: &mut CheckReport) {
    let (memory, limit) = (&world.memory, PageLimit::MAX);
    let due = memory.list_due_timers(Timestamp::MAX, None, limit);
    let due = due.await.expect("timers");
    report.require(due.is_empty(), || format!("timers are left: {due:?}"));
    let follow_ups = memory.list_due_follow_ups(Timestamp::MAX, limit).await.expect("follow-ups");
    report.require(follow_ups.is_empty(), || format!("follow-ups are left: {follow_ups:?}"));
    let expired = memory.list_expired_leases(Timestamp::MAX, limit).await.expect("leases");
    report.require(expired.is_empty(), || format!("leases are left: {expired:?}"));
    let granted = SlotSelector::Unconfirmed { held_by: Timestamp::MAX };
    let granted = memory.list_slots(granted, limit).await.expect("slots");
    report.require(granted.is_empty(), || format!("slots are left: {granted:?}"));
    for (key, _) in SLOT_LIMITS {
        let mut slots = list_slots(world, key).await;
        // Waiting requests of ended runs are skipped when their turn comes.
        slots.retain(|slot| slot.state != SlotState::Waiting);
        report.require(slots.is_empty(), || format!("slots are left: {slots:?}"));
    }
    for execution in world.list_executions().await {
        let (id, tenant_id) = (execution.execution_id, TenantId::default());
        let open = CommandFilter::open_in_execution(tenant_id.clone(), id);
        let open = memory.list_commands(open).await.expect("commands").commands;
        report.require(open.is_empty(), || format!("{id}: commands are left: {open:?}"));
        let waits =
            WaitFilter { tenant_id, selector: WaitSelector::InExecution(id), after: None, limit };
        let waits = memory.list_waits(waits).await.expect("waits");
        report.require(waits.is_empty(), || format!("{id}: waits are left: {waits:?}"));
    }
}
