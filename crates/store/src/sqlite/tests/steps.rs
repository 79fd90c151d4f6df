//! What retention takes goes in small steps, each of which has the writer to itself.

use noetl_types::limits::PageLimit;
use rusqlite::Connection;

use super::Place;
use crate::suite::fixture::{Run, at};
use crate::{Store as _, Upkeep as _};

/// More executions than one step drops.
#[tokio::test]
async fn r2_a_large_month_goes_in_steps() {
    let place = Place::new();
    let store = place.store();
    let part = crate::LogPart::of(noetl_types::Month::new(2026, 8).unwrap());
    let runs: Vec<_> = (1..=1_203)
        .map(|number| Run::with_id(part.lo + number * 1_000))
        .collect();
    let start = |run: &Run| {
        let mut start = run.start();
        start.view.status = noetl_types::ExecutionStatus::Completed;
        start.view.ended_at = Some(at("12:00:00"));
        start
    };
    for part in runs.chunks(401) {
        for result in store.append(part.iter().map(start).collect()).await {
            result.unwrap();
        }
    }
    let before = store.commits().all;
    let none = crate::EnabledOutlets::default();
    let kept = store.drop_part(&part, &none, at("12:00:00")).await.unwrap();
    assert_eq!(kept, None);
    assert_eq!(store.commits().all - before, 3);
    for run in &runs {
        assert!(store.is_gone(run.id).await.unwrap());
    }
    let mut left = 1_203;
    while left > 0 {
        let gone = store
            .clean_dropped(at("12:00:00"), PageLimit::MAX)
            .await
            .unwrap();
        assert!((1..=500).contains(&gone), "{gone}");
        left -= gone;
    }
    assert_eq!(
        store
            .clean_dropped(at("12:00:00"), PageLimit::MAX)
            .await
            .unwrap(),
        0
    );
}

/// One run may have as many rows as a month of others: they go by their keys, some at a time, and fewer
/// where they are large.
#[tokio::test]
async fn r2_a_wide_run_goes_in_steps() {
    let place = Place::new();
    let store = place.store();
    let part = crate::LogPart::of(noetl_types::Month::new(2026, 8).unwrap());
    let mut run = Run::with_id(part.lo + 1_000);
    run.write(&store, run.start()).await.unwrap();
    let end = run.end();
    run.write(&store, end).await.unwrap();
    let connection = Connection::open(place.options().path).unwrap();
    let id = run.id;
    let many = format!(
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
    connection.execute_batch(&many).unwrap();
    let none = crate::EnabledOutlets::default();
    let kept = store.drop_part(&part, &none, at("12:00:00")).await.unwrap();
    assert_eq!(kept, None);
    let mut steps = Vec::new();
    while steps.last() != Some(&0) {
        let gone = store.clean_dropped(at("12:00:00"), PageLimit::MAX).await;
        steps.push(gone.unwrap());
    }
    // Events, timers, results; then what is kept of steps, of which three are as much as a step may be;
    // and slots.
    assert_eq!(steps, [2, 500, 102, 500, 500, 203, 3, 2, 2, 0]);
    let facts = store.facts().await.unwrap();
    assert!(facts.rows.values().all(|rows| *rows == 0), "{facts:?}");
}
