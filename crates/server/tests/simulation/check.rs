//! What must be true of a world once it is over.

use std::collections::BTreeSet;

use noetl_engine::event::{Event, EventKind};
use noetl_engine::{FOLD_VERSION, State, decode};
use noetl_store::{
    CommandFilter, Commons as _, Execution, LogPage, SlotChoice, SlotState, SnapshotKey,
    Store as _, WaitChoice, WaitFilter,
};
use noetl_types::json::to_canonical;
use noetl_types::limits::PageLimit;
use noetl_types::record::verify_chain;
use noetl_types::{
    CommandId, EventName, EventType, ExecutionStatus, StoredEvent, TenantId, Timestamp, Version,
};

use crate::books::{Outcome, SLOTS};
use crate::crowd::slots;
use crate::worker::is_loss;
use crate::world::World;

/// What was found.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) executions: usize,
    pub(crate) compared: usize,
    pub(crate) violations: Vec<String>,
}

/// Looks at everything.
pub(crate) async fn all(world: &World) -> Checked {
    let mut checked = Checked::default();
    let executions = world.executions().await;
    checked.executions = executions.len();
    let mut closed = BTreeSet::new();
    for execution in &executions {
        one(world, execution, &mut checked, &mut closed).await;
        world.trace.note(format_args!(
            "{} {} {:?}",
            execution.execution_id, execution.view.status, execution.head.chain
        ));
    }
    told(world, &executions, &closed, &mut checked);
    left_behind(world, &mut checked).await;
    checked
}

impl Checked {
    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(what());
        }
    }
}

/// Looks at an execution.
async fn one(
    world: &World,
    execution: &Execution,
    checked: &mut Checked,
    closed: &mut BTreeSet<CommandId>,
) {
    let id = execution.execution_id;
    let found = checked.violations.len();
    let stored = world.memory.events(id, Version::EMPTY, LogPage::MAX).await;
    let stored: Vec<StoredEvent> = stored.expect("the model does not fail");
    let chain = verify_chain(&stored);
    checked.must(chain == Ok(execution.head.chain), || {
        format!(
            "{id}: the chain is {chain:?}, its head {:?}",
            execution.head
        )
    });
    let count = i64::try_from(stored.len()).unwrap_or(i64::MAX);
    checked.must(execution.head.version.get() == count, || {
        format!(
            "{id}: {count} events and version {}",
            execution.head.version
        )
    });
    let events: Vec<Event> = stored
        .iter()
        .map(|stored| decode(&stored.record).expect("a record reads back"))
        .collect();
    one_end(execution, &events, checked);
    one_result_each(execution, &events, checked, closed);
    if let Some(state) = folds(world, execution, &events, checked).await {
        compare(world, execution, (&events, &state), checked);
    }
    if checked.violations.len() > found {
        let book = execution
            .facts
            .catalog_id
            .map(|id| world.book(id).text.as_str());
        let log: Vec<String> = stored.iter().map(line).collect();
        let (book, log) = (book.unwrap_or_default(), log.join("\n"));
        checked
            .violations
            .push(format!("the log of {id}:\n{log}\nof\n{book}"));
    }
}

/// An event in a line.
fn line(stored: &StoredEvent) -> String {
    let event = &stored.record.event;
    let (seq, time) = (stored.record.seq, stored.record.ingest_time);
    let node = event.node_name.as_deref().unwrap_or_default();
    let meta = event.meta.as_ref().map(|meta| format!("{meta:?}"));
    let mut meta = meta.unwrap_or_default();
    meta.truncate(meta.floor_char_boundary(300));
    format!("{seq:>4} {time} {} {node} {meta}", event.event_type)
}

/// There is one end, and only audit events behind it.
fn one_end(execution: &Execution, events: &[Event], checked: &mut Checked) {
    let id = execution.execution_id;
    let names = || events.iter().map(|event| event.kind.name());
    let is_end = |name: &EventName| name.known().is_some_and(EventType::is_terminal);
    let ends = names().filter(is_end).count();
    checked.must(ends == 1, || {
        let last = names().next_back();
        format!(
            "{id} has {ends} ends; it is {} after {last:?}",
            execution.view.status
        )
    });
    let mut after = names().skip_while(|name| !is_end(name)).skip(1);
    checked.must(after.all(|name| name.is_audit()), || {
        format!("{id} goes on after its end")
    });
}

/// Each command has one result at most, and is closed once.
fn one_result_each(
    execution: &Execution,
    events: &[Event],
    checked: &mut Checked,
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
        checked.must(is_new, || {
            format!(
                "{}: {command} twice: {:?}",
                execution.execution_id, event.kind
            )
        });
    }
    all_closed.extend(results);
}

/// The log folds to what the store shows, and on the way to what a server had in mind.
async fn folds(
    world: &World,
    execution: &Execution,
    events: &[Event],
    checked: &mut Checked,
) -> Option<State> {
    let id = execution.execution_id;
    let plan = &world.book(execution.facts.catalog_id?).plan;
    let key = SnapshotKey {
        kind: "engine_state".into(),
        fold_version: FOLD_VERSION,
    };
    let loaded = world.memory.load(id, &key, LogPage::MAX).await;
    let snapshot = loaded.expect("the model does not fail")?.snapshot;
    let mut state = State::new(plan);
    for event in events {
        if let Err(error) = state.apply(plan, event) {
            checked
                .violations
                .push(format!("{id} does not fold: {error}"));
            return None;
        }
        if let Some(snapshot) = &snapshot
            && snapshot.head.version == state.version()
        {
            let folded = to_canonical(&state.to_snapshot().expect("a snapshot"));
            checked.must(folded == snapshot.state, || {
                format!("{id}: at {} a server had another state", state.version())
            });
        }
    }
    checked.must(state.status() == execution.view.status, || {
        let (folded, shown) = (state.status(), execution.view.status);
        format!("{id} folds to {folded} and is shown as {shown}")
    });
    Some(state)
}

/// An execution that nobody disturbed comes to what it must.
fn compare(
    world: &World,
    execution: &Execution,
    (events, state): (&[Event], &State),
    checked: &mut Checked,
) {
    let is_disturbed = events.iter().any(|event| match &event.kind {
        EventKind::CommandFailed(failed) => is_loss(failed.why.kind),
        EventKind::PlaybookCancelled(_) => true,
        _ => false,
    });
    let book = execution.facts.catalog_id.map(|id| world.book(id));
    let Some((book, expected)) = book.and_then(|book| Some((book, book.expected.as_ref()?))) else {
        return;
    };
    if is_disturbed || !state.is_ended() {
        return;
    }
    checked.compared += 1;
    let found = Outcome::of(&book.plan, state);
    checked.must(found == *expected, || {
        let id = execution.execution_id;
        format!("{id} comes to {found:?}\nand should to {expected:?}")
    });
}

/// What somebody was told is so.
fn told(
    world: &World,
    executions: &[Execution],
    closed: &BTreeSet<CommandId>,
    checked: &mut Checked,
) {
    let told = world.told();
    for (command, attempts) in &told.accepted {
        checked.must(attempts.len() == 1, || {
            format!("results of several attempts of {command} were accepted: {attempts:?}")
        });
        checked.must(closed.contains(command), || {
            format!("the result of {command} was accepted and is not in the log")
        });
    }
    let find = |id| executions.iter().find(|it| it.execution_id == id);
    for id in &told.started {
        checked.must(find(*id).is_some(), || {
            format!("{id} was started and is not there")
        });
    }
    let mut keys = BTreeSet::new();
    for execution in executions {
        let label = execution.facts.labels.as_ref();
        if let Some(key) = label.and_then(|labels| labels.get("key")?.as_str()) {
            checked.must(keys.insert(key), || {
                format!("{key} has begun two executions")
            });
        }
    }
    for id in &told.cancelled {
        let status = find(*id).map(|execution| execution.view.status);
        checked.must(status == Some(ExecutionStatus::Cancelled), || {
            format!("{id} was cancelled and is {status:?}")
        });
    }
}

/// Nothing is open any more, owed or held.
async fn left_behind(world: &World, checked: &mut Checked) {
    let (memory, limit) = (&world.memory, PageLimit::MAX);
    let due = memory.due(Timestamp::MAX, None, limit);
    let due = due.await.expect("timers");
    checked.must(due.is_empty(), || format!("timers are left: {due:?}"));
    let errands = memory
        .errands(Timestamp::MAX, limit)
        .await
        .expect("errands");
    checked.must(errands.is_empty(), || {
        format!("errands are left: {errands:?}")
    });
    let expired = memory.expired(Timestamp::MAX, limit).await.expect("leases");
    checked.must(expired.is_empty(), || {
        format!("leases are left: {expired:?}")
    });
    let granted = SlotChoice::Unconfirmed {
        held_by: Timestamp::MAX,
    };
    let granted = memory.slots(granted, limit).await.expect("slots");
    checked.must(granted.is_empty(), || {
        format!("slots are left: {granted:?}")
    });
    for (key, _) in SLOTS {
        let mut slots = slots(world, key).await;
        // A wish of a run that has ended is passed over when its turn comes.
        slots.retain(|slot| slot.state != SlotState::Waiting);
        checked.must(slots.is_empty(), || format!("slots are left: {slots:?}"));
    }
    for execution in world.executions().await {
        let (id, tenant_id) = (execution.execution_id, TenantId::default());
        let open = CommandFilter::open_of(tenant_id.clone(), id);
        let open = memory.commands(open).await.expect("commands").commands;
        checked.must(open.is_empty(), || {
            format!("{id}: commands are left: {open:?}")
        });
        let waits = WaitFilter {
            tenant_id,
            choice: WaitChoice::Of(id),
            after: None,
            limit,
        };
        let waits = memory.waits(waits).await.expect("waits");
        checked.must(waits.is_empty(), || {
            format!("{id}: waits are left: {waits:?}")
        });
    }
}
