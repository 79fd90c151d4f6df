//! Rows that a replay reads from a log.

use noetl_types::record::SchemaVersion;
use noetl_types::replay::ReplayRow;
use noetl_types::{
    EventId, EventName, ExecutionVersion, Json, Seq, StatusName, StoredEvent, Text, json,
};

use super::StoreFixture;
use super::fixture::TestExecution;
use crate::{LogPageLimit, ReplayPage, Store};

/// Fields of a replay row in order, without its context.
type ReplayFields = ((EventId, Seq, EventName, StatusName), Vec<Option<String>>, Vec<Option<Json>>);

fn replay_fields(row: ReplayRow<'_>) -> ReplayFields {
    let command_id = row.command_id.map(|id| id.to_string());
    let texts = [
        row.node_name, row.stage_id, row.frame_id, row.aggregate_type, row.aggregate_id,
        row.worker_id,
    ];
    let texts = texts.into_iter().map(|text| text.map(str::to_owned));
    let values = [row.result, row.meta, row.payload_ref];
    (
        (row.event_id, row.seq, row.event_type.clone(), row.status.clone()),
        [command_id].into_iter().chain(texts).collect(),
        values.map(|value| value.map(|value| value.to_json().unwrap())).into(),
    )
}

/// Returns the context of each event of a page.
fn event_contexts(page: &ReplayPage) -> Vec<Option<Json>> {
    match page {
        ReplayPage::Rows(rows) => {
            rows.replay_rows().map(|row| row.context.map(|it| it.to_json().unwrap())).collect()
        }
        ReplayPage::Events(events) => {
            let events = events.iter();
            events.map(|it| it.record.event.context.clone()).collect()
        }
    }
}

fn page_fields(page: &ReplayPage) -> Vec<ReplayFields> {
    match page {
        ReplayPage::Rows(rows) => rows.replay_rows().map(replay_fields).collect(),
        ReplayPage::Events(events) => {
            let events = events.iter();
            events.map(|it| replay_fields(ReplayRow::from(&it.record))).collect()
        }
    }
}

/// Asserts that the replay rows of a log have the fields of its events.
pub(crate) async fn assert_replay_rows_match(store: &dyn Store, events: &[StoredEvent]) {
    let id = events[0].record.event.execution_id;
    let page =
        store.read_replay_rows(id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await.unwrap();
    assert_eq!(page_fields(&page), page_fields(&ReplayPage::Events(events.to_vec())));
    assert_eq!(page.len(), events.len());
    assert_eq!(page.last_seq(), events.last().map(|it| it.record.seq));
}

/// Asserts that all replay pages together match the events of a log. Returns the number of pages.
pub(crate) async fn assert_replay_pages_match(
    store: &dyn Store,
    events: &[StoredEvent],
    page: LogPageLimit,
) -> usize {
    let id = events[0].record.event.execution_id;
    let (mut after, mut pages, mut fields) = (ExecutionVersion::EMPTY, 0, Vec::new());
    while fields.len() < events.len() {
        let rows = store.read_replay_rows(id, after, page).await.unwrap();
        after = rows.last_seq().unwrap().into();
        fields.extend(page_fields(&rows));
        pages += 1;
    }
    assert_eq!(fields, page_fields(&ReplayPage::Events(events.to_vec())));
    pages
}

pub(crate) async fn pages_through_replay_rows(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    for _ in 0..9 {
        let append = run.step_request();
        run.append_to(store, append).await.unwrap();
    }
    let mut after = ExecutionVersion::EMPTY;
    let mut pages = Vec::new();
    loop {
        let page = store.read_replay_rows(run.id, after, LogPageLimit::clamped(4)).await;
        let page = page.unwrap();
        let Some(last) = page.last_seq() else { break };
        let events = store.read_events(run.id, after, LogPageLimit::clamped(4)).await;
        assert_eq!(page_fields(&page), page_fields(&ReplayPage::Events(events.unwrap())));
        after = last.into();
        pages.push(page.len());
    }
    assert_eq!(pages, [4, 4, 2]);
    let unknown = store.read_replay_rows(
        TestExecution::new(9).id,
        ExecutionVersion::EMPTY,
        LogPageLimit::MAX,
    );
    assert!(unknown.await.unwrap().is_empty());
}

/// The context is included for events that may refer to a business object.
pub(crate) async fn replay_rows_include_business_object_context(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let metas = [
        (None, r#"{"business_object":{"type":"a","id":1}}"#),
        (None, r#"{"business_object_type":"a","object_id":"b"}"#),
        (None, r#"{"object_type":"a","business_object_id":"b"}"#),
        (Some("business_object"), r#"{"attempt":1}"#),
    ];
    let context = json::parse(br#"{"patch":{"color":"red"}}"#).unwrap();
    for (kind, meta) in metas {
        let mut append = run.step_request();
        let event = &mut append.events[0];
        event.aggregate_type = kind.map(Text::from);
        event.aggregate_id = kind.map(|_| Text::from("business_object/a/b"));
        event.meta = Some(json::parse(meta.as_bytes()).unwrap());
        event.context = Some(context.clone());
        run.append_to(store, append).await.unwrap();
    }
    let page = store.read_replay_rows(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    let contexts = event_contexts(&page.unwrap());
    assert_eq!(contexts[1..], vec![Some(context); metas.len()]);
}

/// A page with an event of another schema version consists of whole events.
pub(crate) async fn other_schema_versions_return_whole_events(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut run = TestExecution::create_started(store, 1).await;
    let mut append = run.step_request();
    append.events[0].schema_version = SchemaVersion::new(1_000).unwrap();
    run.append_to(store, append).await.unwrap();
    let page = store.read_replay_rows(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    let events = store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    match page.unwrap() {
        ReplayPage::Events(whole) => assert_eq!(whole, events.unwrap()),
        ReplayPage::Rows(rows) => panic!("{rows:?}"),
    }
}
