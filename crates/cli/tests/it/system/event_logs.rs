//! Checks that every event log must pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{LogPageLimit, PostgresStore, SqliteStore, Store};
use noetl_types::record::verify_chain;
use noetl_types::{EventType, ExecutionId, ExecutionVersion, StoredEvent, Timestamp};

use crate::system::deployment::{StoreBackend, TestDeployment};

/// Reads the log of a run directly from the database.
pub(crate) async fn read_log(deployment: &TestDeployment, run: ExecutionId) -> Vec<StoredEvent> {
    let store = open_store(deployment).await;
    let mut log = Vec::new();
    loop {
        let after =
            log.last().map_or(ExecutionVersion::EMPTY, |last: &StoredEvent| last.record.seq.into());
        let page = store.read_events(run, after, LogPageLimit::MAX).await.expect("events");
        if page.is_empty() {
            return log;
        }
        log.extend(page);
    }
}

/// Opens the store. For SQLite the server must have exited, because the file has one writer.
pub(crate) async fn open_store(deployment: &TestDeployment) -> Arc<dyn Store> {
    match &deployment.backend {
        StoreBackend::Sqlite => {
            let options = SqliteOptions::new(deployment.database_file());
            Arc::new(SqliteStore::open(&options).expect("the file"))
        }
        StoreBackend::Postgres(database) => {
            let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
            let options = PostgresOptions::new(database.connection_config(), now);
            Arc::new(PostgresStore::open(&options).await.expect("the database"))
        }
    }
}

/// Counts the events of one type.
pub(crate) fn count_events(log: &[StoredEvent], kind: EventType) -> usize {
    let is_kind = |event: &&StoredEvent| event.record.event.event_type.known_type() == Some(kind);
    log.iter().filter(is_kind).count()
}

/// Verifies the log of an ended run and returns it.
pub(crate) async fn assert_log_valid(
    deployment: &TestDeployment,
    run: ExecutionId,
) -> Vec<StoredEvent> {
    let log = read_log(deployment, run).await;
    verify_chain(&log).expect("a log without gap and edit");
    let ends =
        [EventType::PlaybookCompleted, EventType::PlaybookFailed, EventType::PlaybookCancelled];
    let ends: usize = ends.into_iter().map(|kind| count_events(&log, kind)).sum();
    assert_eq!(ends, 1, "a run ends once");
    let mut accepted: BTreeMap<i64, u32> = BTreeMap::new();
    for event in &log {
        let event = &event.record.event;
        let is_final = matches!(
            event.event_type.known_type(),
            Some(
                EventType::CommandCompleted
                    | EventType::CommandFailed
                    | EventType::CommandCancelled
            )
        );
        if let Some(command) = event.command_id.filter(|_| is_final) {
            *accepted.entry(command.get()).or_default() += 1;
        }
    }
    assert!(
        accepted.values().all(|count| *count == 1),
        "a command has one accepted result: {accepted:?}"
    );
    assert_eq!(accepted.len(), count_events(&log, EventType::CommandIssued));
    log
}
