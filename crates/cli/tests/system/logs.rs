//! What every log must be, whatever happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{LogPage, PostgresStore, SqliteStore, Store};
use noetl_types::record::verify_chain;
use noetl_types::{EventType, ExecutionId, StoredEvent, Timestamp, Version};

use crate::house::{Ground, House};

/// The log of a run, read from the database itself.
pub(crate) async fn log(house: &House, run: ExecutionId) -> Vec<StoredEvent> {
    let store = store(house).await;
    let mut log = Vec::new();
    loop {
        let after = log
            .last()
            .map_or(Version::EMPTY, |last: &StoredEvent| last.record.seq.into());
        let page = store
            .events(run, after, LogPage::MAX)
            .await
            .expect("events");
        if page.is_empty() {
            return log;
        }
        log.extend(page);
    }
}

/// For SQLite the server must be gone: the file has one writer.
pub(crate) async fn store(house: &House) -> Arc<dyn Store> {
    match &house.ground {
        Ground::Sqlite => {
            let options = SqliteOptions::new(house.file());
            Arc::new(SqliteStore::open(&options).expect("the file"))
        }
        Ground::Postgres(database) => {
            let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
            let options = PostgresOptions::new(database.config(), now);
            Arc::new(PostgresStore::open(&options).await.expect("the database"))
        }
    }
}

/// How often something is in a log.
pub(crate) fn count(log: &[StoredEvent], kind: EventType) -> usize {
    let is_kind = |event: &&StoredEvent| event.record.event.event_type.known() == Some(kind);
    log.iter().filter(is_kind).count()
}

/// Checks the log of a run that has ended; gives it.
pub(crate) async fn sound(house: &House, run: ExecutionId) -> Vec<StoredEvent> {
    let log = log(house, run).await;
    verify_chain(&log).expect("a log without gap and edit");
    let ends = [
        EventType::PlaybookCompleted,
        EventType::PlaybookFailed,
        EventType::PlaybookCancelled,
    ];
    let ends: usize = ends.into_iter().map(|kind| count(&log, kind)).sum();
    assert_eq!(ends, 1, "a run ends once");
    let mut accepted: BTreeMap<i64, u32> = BTreeMap::new();
    for event in &log {
        let event = &event.record.event;
        let closes = matches!(
            event.event_type.known(),
            Some(
                EventType::CommandCompleted
                    | EventType::CommandFailed
                    | EventType::CommandCancelled
            )
        );
        if let Some(command) = event.command_id.filter(|_| closes) {
            *accepted.entry(command.get()).or_default() += 1;
        }
    }
    assert!(
        accepted.values().all(|times| *times == 1),
        "a command has one accepted result: {accepted:?}"
    );
    assert_eq!(accepted.len(), count(&log, EventType::CommandIssued));
    log
}
