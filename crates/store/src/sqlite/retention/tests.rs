use super::*;
use crate::sqlite::{SqliteOptions, SqliteStore};
use crate::suite::fixture::{TestExecution, test_time};
use crate::suite::stream::STREAM_NAME;

/// Appends wait while a step occupies the writer. So a step does not read the events of a whole
/// month again, but only those appended since the scan.
#[tokio::test]
async fn drop_step_reads_only_new_events() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("noetl.db");
    let store = SqliteStore::open(&SqliteOptions::new(path.clone())).unwrap();
    let august = LogPartition::for_month(Month::new(2026, 8).unwrap());
    let mut run = TestExecution::with_id(august.first_id + 1_000_000);
    run.append_to(&store, run.start_request()).await.unwrap();
    let end = run.end_request();
    run.append_to(&store, end).await.unwrap();
    let publishers = EnabledPublishers { outbox: false, streams: vec![STREAM_NAME.into()] };
    let mut connection = Connection::open(&path).unwrap();
    let stream = PinReason::Stream(STREAM_NAME.into());
    let checked = check_partition(&connection, &august, &publishers).unwrap();
    assert_eq!(checked.unwrap_err(), stream);
    let mut step = |scan| {
        let transaction = connection.transaction().unwrap();
        drop_first_executions(&transaction, &august, &publishers, scan, test_time("12:00:00"))
            .unwrap()
    };
    // The second event was appended after the scan, which saw only the first.
    let scan = |last, end| PartitionScan { last_position: last, log_end: end };
    let pinned = step(scan(None, 1));
    assert!(matches!(pinned, DropStep::Pinned(it) if it == stream));
    // Events of the scan are not read again.
    let pinned = step(scan(Some(2), 2));
    assert!(matches!(pinned, DropStep::Pinned(it) if it == stream));
    assert!(matches!(step(scan(None, 2)), DropStep::Done));
    let plan = format!("EXPLAIN QUERY PLAN {LAST_POSITION_AFTER}");
    let plan: String = connection.query_row(&plan, (0, 1, 2), |row| row.get(3)).unwrap();
    assert_eq!(plan, "SEARCH event USING INTEGER PRIMARY KEY (rowid>?)");
}
