//! Retention works in small steps, each of which occupies the writer alone.

use noetl_types::limits::PageLimit;
use rusqlite::Connection;

use super::TempDatabase;
use crate::prelude::*;
use crate::suite::fixture::{TestExecution, test_time};

/// The month has more executions than one step drops.
#[tokio::test]
async fn large_month_is_dropped_in_steps() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let partition = crate::LogPartition::for_month(noetl_types::Month::new(2026, 8).unwrap());
    let runs: Vec<_> = (1..=1_203)
        .map(|number| TestExecution::with_id(partition.first_id + number * 1_000))
        .collect();
    let start = |run: &TestExecution| {
        let mut start = run.start_request();
        start.view.status = noetl_types::ExecutionStatus::Completed;
        start.view.ended_at = Some(test_time("12:00:00"));
        start
    };
    for chunk in runs.chunks(401) {
        for result in store.append_events(chunk.iter().map(start).collect()).await {
            result.unwrap();
        }
    }
    let before = store.commit_counts().total;
    let no_publishers = crate::EnabledPublishers::default();
    let pin_reason =
        store.drop_partition(&partition, &no_publishers, test_time("12:00:00")).await.unwrap();
    assert_eq!(pin_reason, None);
    assert_eq!(store.commit_counts().total - before, 3);
    for run in &runs {
        assert!(store.is_dropped(run.id).await.unwrap());
    }
    let mut remaining = 1_203;
    while remaining > 0 {
        let deleted =
            store.purge_dropped_executions(test_time("12:00:00"), PageLimit::MAX).await.unwrap();
        assert!((1..=500).contains(&deleted), "{deleted}");
        remaining -= deleted;
    }
    assert_eq!(
        store.purge_dropped_executions(test_time("12:00:00"), PageLimit::MAX).await.unwrap(),
        0
    );
}

/// One run may have as many rows as a whole month. They are deleted by key, a limited number at a
/// time, and fewer if they are large.
#[tokio::test]
async fn wide_run_is_purged_in_steps() {
    let database = TempDatabase::new();
    let store = database.open_store();
    let partition = crate::LogPartition::for_month(noetl_types::Month::new(2026, 8).unwrap());
    let mut run = TestExecution::with_id(partition.first_id + 1_000);
    run.append_to(&store, run.start_request()).await.unwrap();
    let end = run.end_request();
    run.append_to(&store, end).await.unwrap();
    let connection = Connection::open(database.options().path).unwrap();
    let id = run.id;
    let sql = format!(
        "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 1203)
         INSERT INTO result_store
             (execution_id, result_id, name, data, sha256, media_type, created_at)
         SELECT {id}, n, 'r', x'', x'', 'text/plain', 0 FROM number;
         WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 602)
         INSERT INTO timer (execution_id, timer_id, fire_at) SELECT {id}, n, 0 FROM number;
         INSERT INTO concurrency_slot (tenant_id, slot_key, execution_id, step_name, run, slot_limit,
             priority, arrived_at, confirmed)
         VALUES ('default', 'a', {id}, 's', 1, 1, 1, 0, 0), ('default', 'b', {id}, 's', 1, 1, 1, 0, 0);
         WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 5)
         INSERT INTO step_cache (tenant_id, scope, key_sha256, result, origin_execution_id, origin_seq,
             created_at, expires_at)
         SELECT 'default', 's', CAST(n || '' AS BLOB), hex(zeroblob(2000000)), {id}, 1, 0, 0 FROM number"
    );
    connection.execute_batch(&sql).unwrap();
    let no_publishers = crate::EnabledPublishers::default();
    let pin_reason =
        store.drop_partition(&partition, &no_publishers, test_time("12:00:00")).await.unwrap();
    assert_eq!(pin_reason, None);
    let mut steps = Vec::new();
    while steps.last() != Some(&0) {
        let deleted = store.purge_dropped_executions(test_time("12:00:00"), PageLimit::MAX).await;
        steps.push(deleted.unwrap());
    }
    // Events, timers and results, then cached step results, of which three reach the byte limit of
    // a step, then slots.
    assert_eq!(steps, [2, 500, 102, 500, 500, 203, 3, 2, 2, 0]);
    let stats = store.store_stats().await.unwrap();
    assert!(stats.rows.values().all(|rows| *rows == 0), "{stats:?}");
}
