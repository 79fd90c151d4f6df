//! Events of others: each once, none fails its neighbours, nobody writes into a foreign log.

use std::sync::Arc;

use noetl_types::error::RejectCode;
use noetl_types::id::first_id_at;
use noetl_types::limits::PageLimit;
use noetl_types::record::{Arrival, Projected, read_projected};
use noetl_types::{
    ExecutionStatus, Json, OrganizationId, QuarantineId, StoredEvent, TenantId, Text, Timestamp,
    Version, json,
};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::{Run, at, facts, one};
use super::outbox::all;
use crate::{
    Append, Copied, CopyBatch, CopyScope, ExecutionView, LogPage, Origin, QuarantineFilter,
    Quarantined, Store, body, project, view_of_log,
};

/// Some days later: no id is of the future.
fn later() -> Timestamp {
    Timestamp::parse("2026-11-10T12:00:00Z").unwrap()
}

fn arrival() -> Arrival {
    Arrival {
        now: later(),
        tenant_id: TenantId::default(),
        organization_id: OrganizationId::default(),
    }
}

/// An envelope as somebody sends it.
fn envelope(run: &Run, event: i64, event_type: &str, rest: &str) -> Projected {
    let text = format!(
        r#"{{"execution_id":{},"event_id":{},"event_type":"{event_type}"{rest}}}"#,
        run.id,
        run.id.get() + event
    );
    let value = json::parse(text.as_bytes()).unwrap();
    read_projected(&value, &arrival()).unwrap()
}

fn batch(events: Vec<Projected>) -> CopyBatch {
    CopyBatch {
        events,
        scope: CopyScope::OfExecution,
        now: later(),
        outbox: false,
    }
}

async fn copy(store: &dyn Store, events: Vec<Projected>) -> Vec<Copied> {
    project(store, batch(events)).await.unwrap()
}

async fn log(store: &dyn Store, run: &Run) -> Vec<StoredEvent> {
    store
        .events(run.id, Version::EMPTY, LogPage::MAX)
        .await
        .unwrap()
}

fn codes(verdicts: &[Copied]) -> Vec<Option<RejectCode>> {
    let code = |verdict: &Copied| match verdict {
        Copied::Rejected(rejection) => Some(rejection.code),
        Copied::Projected | Copied::Duplicate => None,
    };
    verdicts.iter().map(code).collect()
}

/// What lists show can be made anew, unless the log has grown meanwhile.
pub(crate) async fn a_row_is_written_anew_from_its_log(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let end = run.end();
    run.write(store, end).await.unwrap();
    let row = store.execution(run.id).await.unwrap().unwrap();
    let wrong = ExecutionView {
        status: ExecutionStatus::Pending,
        paused: true,
        last_node_name: Some(Text::from("elsewhere")),
        ended_at: None,
        error: Some(Text::from("none")),
    };
    let write = async |version, view: &ExecutionView| {
        let written = store.rewrite_view(run.id, version, view.clone()).await;
        written.unwrap()
    };
    let early = Version::new(1).unwrap();
    assert!(!write(early, &wrong).await);
    assert_eq!(store.execution(run.id).await.unwrap().unwrap(), row);
    assert!(write(row.head.version, &wrong).await);
    let found = store.execution(run.id).await.unwrap().unwrap();
    assert_eq!(found.view, wrong);
    assert_eq!((found.head, &found.facts), (row.head, &row.facts));
    let view = view_of_log(store, &found).await.unwrap();
    assert_eq!(view.status, row.view.status);
    assert!(view.ended_at.is_some() && view.paused);
    assert!(write(row.head.version, &row.view).await);
    assert_eq!(store.execution(run.id).await.unwrap().unwrap(), row);
    let nobody = store.rewrite_view(Run::new(7).id, early, row.view).await;
    assert!(!nobody.unwrap());
}

pub(crate) async fn copies_make_their_execution(bench: &Bench) {
    let store = &*bench.store;
    let run = Run::new(1);
    let time = r#","timestamp":"2026-11-05T13:30:00+05:00""#;
    let events = vec![
        envelope(&run, 1, "playbook_started", time),
        envelope(&run, 3, "step_enter", r#","node_name":"load","odd":[1]"#),
        envelope(&run, 2, "Weird Type", ""),
        envelope(&run, 4, "playbook_completed", ""),
        envelope(&run, 5, "step_enter", r#","node_name":"late""#),
        envelope(&run, 6, "playbook_failed", ""),
    ];
    let verdicts = copy(store, events.clone()).await;
    assert_eq!(verdicts, vec![Copied::Projected; 6]);
    let log = log(store, &run).await;
    // Numbers follow the batch, not the ids; types stay as they came.
    let types: Vec<_> = log
        .iter()
        .map(|it| it.record.event.event_type.as_str())
        .collect();
    assert_eq!(
        types[1..4],
        ["step_enter", "Weird Type", "playbook_completed"]
    );
    noetl_types::record::verify_chain(&log).unwrap();
    assert!(log.iter().all(|it| it.record.envelope_checksum.is_some()));
    // P5: an instant, whatever zone it was told in.
    assert_eq!(log[0].record.event.created_at, at("08:30:00"));
    let execution = store.execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.facts.origin, Origin::Projected);
    assert_eq!(execution.view.status, ExecutionStatus::Completed);
    assert_eq!(execution.view.last_node_name.as_deref(), Some("load"));
    assert_eq!(execution.head.version.get(), 6);
    let again = copy(store, events).await;
    assert_eq!(again, vec![Copied::Duplicate; 6]);
    assert_eq!(store.outbox(all()).await.unwrap(), []);
}

/// An event that comes back from our own stream is a duplicate, never a second event.
pub(crate) async fn p1_an_echo_of_our_own_stream_is_a_duplicate(bench: &Bench) {
    let store = &*bench.store;
    let mut run = Run::started(store, 1).await;
    let mut append = run.step();
    append.events[0].context = Some(Json::from("x"));
    run.write(store, append).await.unwrap();
    let log = log(store, &run).await;
    let echo = |event: &StoredEvent| {
        let value = json::parse(&body(&event.record)).unwrap();
        read_projected(&value, &arrival()).unwrap()
    };
    let verdicts = copy(store, log.iter().map(echo).collect()).await;
    assert_eq!(verdicts, vec![Copied::Duplicate; 2]);
    assert_eq!(super::copy::log(store, &run).await, log);
}

/// A run that is driven here is what its driver decided, and nothing else.
pub(crate) async fn a_driven_log_takes_no_copies(bench: &Bench) {
    let store = &*bench.store;
    let run = Run::started(store, 1).await;
    let before = log(store, &run).await;
    let events = vec![
        envelope(&run, 700, "step.enter", r#","node_name":"foreign""#),
        envelope(&run, 701, "playbook_completed", ""),
        // Somebody else's in the same batch.
        envelope(&Run::new(2), 1, "step.enter", ""),
        // What is there already is there, and is no other event of the same id.
        envelope(&run, 1, "step.enter", ""),
    ];
    let verdicts = copy(store, events).await;
    let (bad, conflict) = (Some(RejectCode::BadValue), Some(RejectCode::IdConflict));
    assert_eq!(codes(&verdicts), [bad, bad, None, conflict]);
    let Copied::Rejected(rejection) = &verdicts[0] else {
        panic!("{verdicts:?}");
    };
    assert!(rejection.message.contains("driven"), "{rejection:?}");
    assert_eq!(log(store, &run).await, before);
    let execution = store.execution(run.id).await.unwrap().unwrap();
    assert_eq!(execution.view.status, ExecutionStatus::Running);
}

pub(crate) async fn p3_the_same_id_with_another_body_is_a_conflict(bench: &Bench) {
    let store = &*bench.store;
    let run = Run::new(1);
    let first = envelope(&run, 1, "playbook.started", "");
    let other = envelope(&run, 1, "playbook.started", r#","node_name":"other""#);
    let good = envelope(&run, 2, "step.enter", "");
    // In one batch and in two, with a good one between.
    let verdicts = copy(
        store,
        vec![first.clone(), other.clone(), good, first.clone()],
    )
    .await;
    assert_eq!(verdicts[0], Copied::Projected);
    assert_eq!(verdicts[2], Copied::Projected);
    assert_eq!(verdicts[3], Copied::Duplicate);
    assert_eq!(codes(&verdicts)[1], Some(RejectCode::IdConflict));
    let verdicts = copy(store, vec![other, first]).await;
    assert_eq!(codes(&verdicts), [Some(RejectCode::IdConflict), None]);
    assert_eq!(log(store, &run).await.len(), 2);
}

/// Equal ids in two executions are two events.
pub(crate) async fn t4_equal_ids_of_two_executions_are_two_events(bench: &Bench) {
    let store = &*bench.store;
    let (first, second) = (Run::new(1), Run::new(2));
    let of = |run: &Run| {
        let mut copied = envelope(run, 1, "step.enter", "");
        copied.event.event_id = noetl_types::EventId::new(first.id.get() + 9).unwrap();
        copied
    };
    let verdicts = copy(store, vec![of(&first), of(&second)]).await;
    assert_eq!(verdicts, vec![Copied::Projected; 2]);
    let mut after = noetl_types::FeedPosition::default();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let one = crate::FeedLimit::clamped(1);
        let batch = store.feed(after, one).await.unwrap();
        after = batch.next;
        seen.extend(batch.events.iter().map(|it| it.record.event.execution_id));
    }
    seen.sort();
    assert_eq!(seen, [first.id, second.id]);
}

pub(crate) async fn p6_the_execution_says_whose_its_events_are(bench: &Bench) {
    let store = &*bench.store;
    let acme = TenantId::new("acme").unwrap();
    let run = Run::new(1);
    let mut start = run.start();
    start.events[0].tenant_id = acme.clone();
    let facts = crate::ExecutionFacts {
        tenant_id: acme.clone(),
        origin: Origin::Projected,
        ..facts()
    };
    let start = Append {
        start: Some(facts),
        ..start
    };
    one(store, start).await.unwrap();
    let silent = envelope(&run, 2, "step.enter", "");
    let right = envelope(&run, 3, "step.enter", r#","tenant_id":"acme""#);
    let wrong = envelope(&run, 4, "step.enter", r#","tenant_id":"default""#);
    let foreign = envelope(&Run::new(2), 1, "step.enter", r#","tenant_id":"acme""#);
    let verdicts = copy(store, vec![silent, right, wrong, foreign]).await;
    let refused = Some(RejectCode::TenantMismatch);
    assert_eq!(codes(&verdicts), [None, None, refused, refused]);
    let log = log(store, &run).await;
    assert!(log.iter().all(|it| it.record.event.tenant_id == acme));
    noetl_types::record::verify_chain(&log).unwrap();
    // Somebody of another tenant gets nowhere.
    let other = CopyBatch {
        scope: CopyScope::Tenant(TenantId::new("other").unwrap()),
        ..batch(vec![envelope(&run, 5, "step.enter", "")])
    };
    let verdicts = project(store, other).await.unwrap();
    assert_eq!(codes(&verdicts), [refused]);
}

pub(crate) async fn p2_copies_of_a_dropped_execution_are_rejected(bench: &Bench) {
    let store = &*bench.store;
    let (old, new) = (Run::new(1), Run::new(2_000_000));
    (bench.drop_before)(new.id.time()).await;
    let events = vec![
        envelope(&old, 1, "step.enter", ""),
        envelope(&new, 1, "step.enter", ""),
    ];
    let verdicts = copy(store, events).await;
    assert_eq!(codes(&verdicts), [Some(RejectCode::RetentionDropped), None]);
    assert_eq!(store.execution(old.id).await.unwrap(), None);
}

/// A month long past is made when somebody copies into it.
pub(crate) async fn copies_of_a_past_month_are_kept(bench: &Bench) {
    let store = &*bench.store;
    let id = first_id_at(
        Timestamp::parse("2025-02-03T00:00:00Z")
            .unwrap()
            .as_unix_ms(),
    );
    let text = format!(
        r#"{{"execution_id":{id},"event_id":{},"event_type":"x"}}"#,
        id + 1
    );
    let value = json::parse(text.as_bytes()).unwrap();
    let projected = read_projected(&value, &arrival()).unwrap();
    let execution_id = projected.event.execution_id;
    assert_eq!(copy(store, vec![projected]).await, [Copied::Projected]);
    assert!(store.execution(execution_id).await.unwrap().is_some());
}

pub(crate) async fn copies_go_out_like_all_events(bench: &Bench) {
    let store = &*bench.store;
    let run = Run::new(1);
    let events = (1..=3).map(|it| envelope(&run, it, "a b.*", "")).collect();
    let batch = CopyBatch {
        outbox: true,
        ..batch(events)
    };
    project(store, batch.clone()).await.unwrap();
    project(store, batch).await.unwrap();
    let rows = store.outbox(all()).await.unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].subject.as_deref(), Some("noetl.events.a_b._"));
}

/// Sixteen projectors with overlapping batches, beside a driver: each event once, no gaps.
pub(crate) async fn racing_projectors_write_each_event_once(bench: &Bench) {
    let mut racers = JoinSet::new();
    for number in 0..16_i64 {
        let store = Arc::clone(&bench.store);
        racers.spawn(async move {
            let mut projected = 0;
            for part in 0..3 {
                let events = (0..8).flat_map(|event| {
                    (0..4).map(move |run| {
                        envelope(&Run::new(run), 1 + event + part * 8, "step.enter", "")
                    })
                });
                let mut events: Vec<_> = events.collect();
                events.rotate_left(usize::try_from(number).unwrap());
                let verdicts = loop {
                    match project(&*store, batch(events.clone())).await {
                        Ok(verdicts) => break verdicts,
                        // Too many at once: the consumer is told so, and sends it again.
                        Err(crate::StoreError::Retry { .. }) => tokio::task::yield_now().await,
                        Err(other) => panic!("{other:?}"),
                    }
                };
                assert_eq!(codes(&verdicts), vec![None; 32]);
                let new = verdicts.iter().filter(|it| **it == Copied::Projected);
                projected += new.count();
            }
            projected
        });
    }
    let projected: usize = racers.join_all().await.into_iter().sum();
    assert!(projected <= 96);
    for run in 0..4 {
        let log = log(&*bench.store, &Run::new(run)).await;
        assert_eq!(log.len(), 24);
        noetl_types::record::verify_chain(&log).unwrap();
    }
}

pub(crate) async fn what_is_refused_is_kept_once(bench: &Bench) {
    let store = &*bench.store;
    let refused = |id: i64, source: &str, raw: &str| Quarantined {
        quarantine_id: QuarantineId::new(id).unwrap(),
        source: Text::from(source),
        raw: Text::from(raw),
        code: Text::from("bad_value"),
        message: Text::from("no"),
        created_at: at("12:00:00"),
    };
    let first = refused(1, "projector", "{\"a\":");
    let parked = refused(3, "stream", "{\"a\":");
    store.quarantine(Vec::new()).await.unwrap();
    let all = vec![
        first.clone(),
        refused(2, "projector", "{\"a\":"),
        parked.clone(),
    ];
    store.quarantine(all).await.unwrap();
    store
        .quarantine(vec![refused(4, "projector", "{\"a\":")])
        .await
        .unwrap();
    let filter = |source: Option<&str>, after: Option<i64>| QuarantineFilter {
        source: source.map(Text::from),
        after: after.map(|it| QuarantineId::new(it).unwrap()),
        limit: PageLimit::default(),
    };
    let list = |source, after| store.quarantined(filter(source, after));
    assert_eq!(list(None, None).await.unwrap(), [first, parked.clone()]);
    assert_eq!(
        list(None, Some(1)).await.unwrap(),
        std::slice::from_ref(&parked)
    );
    assert_eq!(list(Some("stream"), None).await.unwrap(), [parked]);
    assert_eq!(list(Some("nobody"), None).await.unwrap(), []);
}

pub(crate) async fn what_was_refused_is_forgotten_in_time(bench: &Bench) {
    let store = &*bench.store;
    let refused = |time: &str, number: i64| Quarantined {
        // Of the time at which it was refused, like all ids.
        quarantine_id: QuarantineId::new(first_id_at(at(time).as_unix_ms()) + number).unwrap(),
        source: Text::from("projector"),
        raw: Text::from(number.to_string()),
        code: Text::from("bad_value"),
        message: Text::from("no"),
        created_at: at(time),
    };
    let all: Vec<_> = ["12:00:00", "12:00:01", "12:00:02", "12:00:03"]
        .into_iter()
        .zip(1..)
        .map(|(time, number)| refused(time, number))
        .collect();
    store.quarantine(all.clone()).await.unwrap();
    let before = at("12:00:03");
    let two = PageLimit::clamped(2);
    let left = async || {
        let filter = QuarantineFilter {
            source: None,
            after: None,
            limit: PageLimit::MAX,
        };
        store.quarantined(filter).await.unwrap()
    };
    assert_eq!(store.purge_quarantine(before, two).await.unwrap(), 2);
    assert_eq!(left().await, all[2..]);
    assert_eq!(store.purge_quarantine(before, two).await.unwrap(), 1);
    assert_eq!(store.purge_quarantine(before, two).await.unwrap(), 0);
    assert_eq!(left().await, all[3..]);
}
