//! Projected events: each is stored once, none makes the rest of its batch fail, and none is
//! written into the log of an execution that is driven here.

use std::sync::Arc;

use noetl_types::error::RejectCode;
use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::record::{ProjectedEvent, ProjectionContext, parse_projected_event};
use noetl_types::{
    ExecutionStatus, ExecutionVersion, Json, OrganizationId, QuarantineId, StoredEvent, TenantId,
    Text, Timestamp, json,
};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::{TestExecution, append_one, execution_facts, test_time};
use super::outbox::all_outbox_rows;
use crate::{
    AppendRequest, ExecutionOrigin, ExecutionView, LogPageLimit, ProjectOutcome, ProjectionBatch,
    ProjectionScope, QuarantineFilter, QuarantinedItem, Store, encode_event_body, project_events,
    rebuild_execution_view,
};

/// A few days after [`test_time`], so that no id is in the future.
fn arrival_time() -> Timestamp {
    Timestamp::parse("2026-11-10T12:00:00Z").unwrap()
}

fn projection_context() -> ProjectionContext {
    ProjectionContext {
        now: arrival_time(),
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
    }
}

/// Parses an envelope as an external sender writes it.
fn parse_envelope(
    run: &TestExecution,
    event_number: i64,
    event_type: &str,
    more_fields: &str,
) -> ProjectedEvent {
    let text = format!(
        r#"{{"execution_id":{},"event_id":{},"event_type":"{event_type}"{more_fields}}}"#,
        run.id,
        run.id.get() + event_number
    );
    let value = json::parse(text.as_bytes()).unwrap();
    parse_projected_event(&value, &projection_context()).unwrap()
}

fn projection_batch(events: Vec<ProjectedEvent>) -> ProjectionBatch {
    ProjectionBatch {
        events,
        scope: ProjectionScope::ExecutionOwner,
        now: arrival_time(),
        use_outbox: false,
    }
}

async fn project_all(store: &dyn Store, events: Vec<ProjectedEvent>) -> Vec<ProjectOutcome> {
    project_events(store, projection_batch(events)).await.unwrap()
}

async fn read_log(store: &dyn Store, run: &TestExecution) -> Vec<StoredEvent> {
    store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await.unwrap()
}

fn reject_codes(outcomes: &[ProjectOutcome]) -> Vec<Option<RejectCode>> {
    let code = |outcome: &ProjectOutcome| match outcome {
        ProjectOutcome::Rejected(rejection) => Some(rejection.code),
        ProjectOutcome::Projected | ProjectOutcome::Duplicate => None,
    };
    outcomes.iter().map(code).collect()
}

/// The view of an execution can be replaced by a rebuilt one, unless its log has grown meanwhile.
pub(crate) async fn execution_view_is_rebuilt_from_log(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let end = run.end_request();
    run.append_to(store, end).await.unwrap();
    let row = store.find_execution(run.id).await.unwrap().unwrap();
    let damaged = ExecutionView {
        status: ExecutionStatus::Pending,
        paused: true,
        last_node_name: Some(Text::from("elsewhere")),
        ended_at: None,
        error: Some(Text::from("none")),
    };
    let write = async |version, view: &ExecutionView| {
        let written = store.rewrite_execution_view(run.id, version, view.clone()).await;
        written.unwrap()
    };
    let stale = ExecutionVersion::new(1).unwrap();
    assert!(!write(stale, &damaged).await);
    assert_eq!(store.find_execution(run.id).await.unwrap().unwrap(), row);
    assert!(write(row.head.version, &damaged).await);
    let found = store.find_execution(run.id).await.unwrap().unwrap();
    assert_eq!(found.view, damaged);
    assert_eq!((found.head, &found.facts), (row.head, &row.facts));
    let view = rebuild_execution_view(store, &found).await.unwrap();
    assert_eq!(view.status, row.view.status);
    assert!(view.ended_at.is_some() && view.paused);
    assert!(write(row.head.version, &row.view).await);
    assert_eq!(store.find_execution(run.id).await.unwrap().unwrap(), row);
    let unknown = store.rewrite_execution_view(TestExecution::new(7).id, stale, row.view).await;
    assert!(!unknown.unwrap());
}

pub(crate) async fn projected_events_create_execution(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let run = TestExecution::new(1);
    let time = r#","timestamp":"2026-11-05T13:30:00+05:00""#;
    let events = vec![
        parse_envelope(&run, 1, "playbook_started", time),
        parse_envelope(&run, 3, "step_enter", r#","node_name":"load","odd":[1]"#),
        parse_envelope(&run, 2, "Weird Type", ""),
        parse_envelope(&run, 4, "playbook_completed", ""),
        parse_envelope(&run, 5, "step_enter", r#","node_name":"late""#),
        parse_envelope(&run, 6, "playbook_failed", ""),
    ];
    let outcomes = project_all(store, events.clone()).await;
    assert_eq!(outcomes, vec![ProjectOutcome::Projected; 6]);
    let log = read_log(store, &run).await;
    // Sequence numbers follow the batch, not the ids. Types are stored as received.
    let types: Vec<_> = log.iter().map(|it| it.record.event.event_type.as_str()).collect();
    assert_eq!(types[1..4], ["step_enter", "Weird Type", "playbook_completed"]);
    noetl_types::record::verify_chain(&log).unwrap();
    assert!(log.iter().all(|it| it.record.envelope_checksum.is_some()));
    // The stored instant does not depend on the time zone of the sender.
    assert_eq!(log[0].record.event.created_at, test_time("08:30:00"));
    let execution = store.find_execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.facts.origin, ExecutionOrigin::Projected);
    assert_eq!(execution.view.status, ExecutionStatus::Completed);
    assert_eq!(execution.view.last_node_name.as_deref(), Some("load"));
    assert_eq!(execution.head.version.get(), 6);
    let repeated = project_all(store, events).await;
    assert_eq!(repeated, vec![ProjectOutcome::Duplicate; 6]);
    assert_eq!(store.list_outbox_rows(all_outbox_rows()).await.unwrap(), []);
}

pub(crate) async fn event_from_own_stream_is_duplicate(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let mut append = run.step_request();
    append.events[0].context = Some(Json::from("x"));
    run.append_to(store, append).await.unwrap();
    let log = read_log(store, &run).await;
    let project_back = |event: &StoredEvent| {
        let value = json::parse(&encode_event_body(&event.record)).unwrap();
        parse_projected_event(&value, &projection_context()).unwrap()
    };
    let outcomes = project_all(store, log.iter().map(project_back).collect()).await;
    assert_eq!(outcomes, vec![ProjectOutcome::Duplicate; 2]);
    assert_eq!(read_log(store, &run).await, log);
}

/// The log of a driven execution contains only events of its driver.
pub(crate) async fn driven_execution_rejects_projected_events(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let run = TestExecution::create_started(store, 1).await;
    let before = read_log(store, &run).await;
    let events = vec![
        parse_envelope(&run, 700, "step.enter", r#","node_name":"foreign""#),
        parse_envelope(&run, 701, "playbook_completed", ""),
        // An event of another execution in the same batch.
        parse_envelope(&TestExecution::new(2), 1, "step.enter", ""),
        // A different event with the id of an existing one.
        parse_envelope(&run, 1, "step.enter", ""),
    ];
    let outcomes = project_all(store, events).await;
    let (bad, conflict) = (Some(RejectCode::BadValue), Some(RejectCode::IdConflict));
    assert_eq!(reject_codes(&outcomes), [bad, bad, None, conflict]);
    let ProjectOutcome::Rejected(rejection) = &outcomes[0] else {
        panic!("{outcomes:?}");
    };
    assert!(rejection.message.contains("drives"), "{rejection:?}");
    assert_eq!(read_log(store, &run).await, before);
    let execution = store.find_execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.view.status, ExecutionStatus::Running);
}

pub(crate) async fn same_event_id_with_other_body_conflicts(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let run = TestExecution::new(1);
    let first = parse_envelope(&run, 1, "playbook.started", "");
    let other = parse_envelope(&run, 1, "playbook.started", r#","node_name":"other""#);
    let valid = parse_envelope(&run, 2, "step.enter", "");
    // First within one batch, with a valid event in between, and then across two batches.
    let outcomes =
        project_all(store, vec![first.clone(), other.clone(), valid, first.clone()]).await;
    assert_eq!(outcomes[0], ProjectOutcome::Projected);
    assert_eq!(outcomes[2], ProjectOutcome::Projected);
    assert_eq!(outcomes[3], ProjectOutcome::Duplicate);
    assert_eq!(reject_codes(&outcomes)[1], Some(RejectCode::IdConflict));
    let outcomes = project_all(store, vec![other, first]).await;
    assert_eq!(reject_codes(&outcomes), [Some(RejectCode::IdConflict), None]);
    assert_eq!(read_log(store, &run).await.len(), 2);
}

pub(crate) async fn same_event_id_in_two_executions_is_allowed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (first, second) = (TestExecution::new(1), TestExecution::new(2));
    let event_in = |run: &TestExecution| {
        let mut projected = parse_envelope(run, 1, "step.enter", "");
        projected.event.event_id = noetl_types::EventId::new(first.id.get() + 9).unwrap();
        projected
    };
    let outcomes = project_all(store, vec![event_in(&first), event_in(&second)]).await;
    assert_eq!(outcomes, vec![ProjectOutcome::Projected; 2]);
    let mut after = noetl_types::FeedPosition::default();
    let mut ids = Vec::new();
    while ids.len() < 2 {
        let limit = crate::FeedLimit::clamped(1);
        let batch = store.read_feed(after, limit).await.unwrap();
        after = batch.next;
        ids.extend(batch.events.iter().map(|it| it.record.event.execution_id));
    }
    ids.sort();
    assert_eq!(ids, [first.id, second.id]);
}

pub(crate) async fn execution_decides_tenant_of_projected_events(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = TenantId::new("acme").unwrap();
    let run = TestExecution::new(1);
    let mut start = run.start_request();
    start.events[0].tenant_id = acme.clone();
    let facts = crate::ExecutionFacts {
        tenant_id: acme.clone(),
        origin: ExecutionOrigin::Projected,
        ..execution_facts()
    };
    let start = AppendRequest { start: Some(facts), ..start };
    append_one(store, start).await.unwrap();
    let without_tenant = parse_envelope(&run, 2, "step.enter", "");
    let same_tenant = parse_envelope(&run, 3, "step.enter", r#","tenant_id":"acme""#);
    let other_tenant = parse_envelope(&run, 4, "step.enter", r#","tenant_id":"default""#);
    let foreign = parse_envelope(&TestExecution::new(2), 1, "step.enter", r#","tenant_id":"acme""#);
    let outcomes =
        project_all(store, vec![without_tenant, same_tenant, other_tenant, foreign]).await;
    let mismatch = Some(RejectCode::TenantMismatch);
    assert_eq!(reject_codes(&outcomes), [None, None, mismatch, mismatch]);
    let log = read_log(store, &run).await;
    assert!(log.iter().all(|it| it.record.event.tenant_id == acme));
    noetl_types::record::verify_chain(&log).unwrap();
    // A caller of another tenant is refused.
    let other = ProjectionBatch {
        scope: ProjectionScope::Tenant(TenantId::new("other").unwrap()),
        ..projection_batch(vec![parse_envelope(&run, 5, "step.enter", "")])
    };
    let outcomes = project_events(store, other).await.unwrap();
    assert_eq!(reject_codes(&outcomes), [mismatch]);
}

pub(crate) async fn projected_events_of_dropped_execution_are_rejected(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (old, new) = (TestExecution::new(1), TestExecution::new(2_000_000));
    (fixture.mark_dropped_before)(new.id.time()).await;
    let events =
        vec![parse_envelope(&old, 1, "step.enter", ""), parse_envelope(&new, 1, "step.enter", "")];
    let outcomes = project_all(store, events).await;
    assert_eq!(reject_codes(&outcomes), [Some(RejectCode::RetentionDropped), None]);
    assert_eq!(store.find_execution(old.id).await.unwrap(), None);
}

/// The partition of a past month is created on demand.
pub(crate) async fn projected_events_of_past_month_are_stored(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let id = first_id_at(Timestamp::parse("2025-02-03T00:00:00Z").unwrap().as_unix_ms());
    let text = format!(r#"{{"execution_id":{id},"event_id":{},"event_type":"x"}}"#, id + 1);
    let value = json::parse(text.as_bytes()).unwrap();
    let projected = parse_projected_event(&value, &projection_context()).unwrap();
    let execution_id = projected.event.execution_id;
    assert_eq!(project_all(store, vec![projected]).await, [ProjectOutcome::Projected]);
    assert!(store.find_execution(execution_id).await.unwrap().is_some());
}

pub(crate) async fn projected_events_are_published(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let run = TestExecution::new(1);
    let events = (1..=3).map(|it| parse_envelope(&run, it, "a b.*", "")).collect();
    let batch = ProjectionBatch { use_outbox: true, ..projection_batch(events) };
    project_events(store, batch.clone()).await.unwrap();
    project_events(store, batch).await.unwrap();
    let rows = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].subject.as_deref(), Some("noetl.events.a_b._"));
}

/// Sixteen projectors with overlapping batches: each event is stored once, without gaps.
pub(crate) async fn racing_projectors_write_each_event_once(fixture: &StoreFixture) {
    let mut tasks = JoinSet::new();
    for number in 0..16_i64 {
        let store = Arc::clone(&fixture.store);
        tasks.spawn(async move {
            let mut projected = 0;
            for batch in 0..3 {
                let events = (0..8).flat_map(|event| {
                    (0..4).map(move |run| {
                        parse_envelope(
                            &TestExecution::new(run),
                            1 + event + batch * 8,
                            "step.enter",
                            "",
                        )
                    })
                });
                let mut events: Vec<_> = events.collect();
                events.rotate_left(usize::try_from(number).unwrap());
                let outcomes = loop {
                    match project_events(&*store, projection_batch(events.clone())).await {
                        Ok(outcomes) => {
                            break outcomes;
                        }
                        // Too many conflicts: the consumer gets an error and sends the batch again.
                        Err(crate::StoreError::Retry { .. }) => tokio::task::yield_now().await,
                        Err(other) => panic!("{other:?}"),
                    }
                };
                assert_eq!(reject_codes(&outcomes), vec![None; 32]);
                let new = outcomes.iter().filter(|it| **it == ProjectOutcome::Projected);
                projected += new.count();
            }
            projected
        });
    }
    let projected: usize = tasks.join_all().await.into_iter().sum();
    assert!(projected <= 96);
    for run in 0..4 {
        let log = read_log(&*fixture.store, &TestExecution::new(run)).await;
        assert_eq!(log.len(), 24);
        noetl_types::record::verify_chain(&log).unwrap();
    }
}

pub(crate) async fn rejected_items_are_quarantined_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let item = |id: i64, source: &str, raw: &str| QuarantinedItem {
        quarantine_id: QuarantineId::new(id).unwrap(),
        source: Text::from(source),
        raw: Text::from(raw),
        code: Text::from("bad_value"),
        message: Text::from("no"),
        created_at: test_time("12:00:00"),
    };
    let first = item(1, "projector", "{\"a\":");
    let from_stream = item(3, "stream", "{\"a\":");
    store.quarantine_items(Vec::new()).await.unwrap();
    let items = vec![first.clone(), item(2, "projector", "{\"a\":"), from_stream.clone()];
    store.quarantine_items(items).await.unwrap();
    store.quarantine_items(vec![item(4, "projector", "{\"a\":")]).await.unwrap();
    let filter = |source: Option<&str>, after: Option<i64>| QuarantineFilter {
        source: source.map(Text::from),
        after: after.map(|it| QuarantineId::new(it).unwrap()),
        limit: PageLimit::default(),
    };
    let list = |source, after| store.list_quarantined_items(filter(source, after));
    assert_eq!(list(None, None).await.unwrap(), [first, from_stream.clone()]);
    assert_eq!(list(None, Some(1)).await.unwrap(), std::slice::from_ref(&from_stream));
    assert_eq!(list(Some("stream"), None).await.unwrap(), [from_stream]);
    assert_eq!(list(Some("unknown"), None).await.unwrap(), []);
}

pub(crate) async fn old_quarantined_items_are_purged(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let item = |time: &str, number: i64| QuarantinedItem {
        // Like all ids, it starts with the time of its creation.
        quarantine_id: QuarantineId::new(first_id_at(test_time(time).as_unix_ms()) + number)
            .unwrap(),
        source: Text::from("projector"),
        raw: Text::from(number.to_string()),
        code: Text::from("bad_value"),
        message: Text::from("no"),
        created_at: test_time(time),
    };
    let items: Vec<_> = ["12:00:00", "12:00:01", "12:00:02", "12:00:03"]
        .into_iter()
        .zip(1..)
        .map(|(time, number)| item(time, number))
        .collect();
    store.quarantine_items(items.clone()).await.unwrap();
    let before = test_time("12:00:03");
    let limit = PageLimit::clamped(2);
    let remaining = async || {
        let filter = QuarantineFilter { source: None, after: None, limit: PageLimit::MAX };
        store.list_quarantined_items(filter).await.unwrap()
    };
    assert_eq!(store.purge_quarantined_items(before, limit).await.unwrap(), 2);
    assert_eq!(remaining().await, items[2..]);
    assert_eq!(store.purge_quarantined_items(before, limit).await.unwrap(), 1);
    assert_eq!(store.purge_quarantined_items(before, limit).await.unwrap(), 0);
    assert_eq!(remaining().await, items[3..]);
}
