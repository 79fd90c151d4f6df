//! Bytes that PostgreSQL sends for a replay.

use noetl_types::{ExecutionVersion, Json, Text, sha256};

use super::{connect_raw, new_database, open_store};
use crate::LogPageLimit;
use crate::postgres::replay::{REPLAY_ROWS_OF_ANY_SIZE, SMALL_REPLAY_ROWS};
use crate::prelude::*;
use crate::row::MAX_REPLAY_PAGE_BYTES;
use crate::suite::fixture::TestExecution;
use crate::suite::replay::assert_replay_pages_match;

/// Size of the largest result or text of the test.
const LARGE_VALUE_BYTES: usize = 1 << 20;

/// The log has compressible results, incompressible results, long texts and small events. No
/// statement returns more than one page plus the event that fills it, and all pages together are
/// the log.
#[tokio::test]
async fn replay_page_is_bounded_by_bytes() {
    let database = new_database();
    let store = open_store(&database).await;
    let mut run = TestExecution::create_started(&store, 1).await;
    let digests = (0..).map(|number: u64| sha256(number.to_string()).to_string());
    let incompressible: String = digests.take(LARGE_VALUE_BYTES / 64).collect();
    let compressible = "x".repeat(LARGE_VALUE_BYTES);
    let (incompressible, compressible) = (&*incompressible, &*compressible);
    for (text, name) in [
        ("small", "short"),
        ("small", incompressible),
        (compressible, "short"),
        (incompressible, "short"),
    ] {
        for _ in 0..12 {
            let mut append = run.step_request();
            append.events[0].result = Some(Json::from(text));
            append.events[0].aggregate_id = Some(Text::from(name));
            run.append_to(&store, append).await.unwrap();
        }
    }
    let client = connect_raw(&database).await;
    let max_bytes = i64::try_from(MAX_REPLAY_PAGE_BYTES).unwrap();
    for (sql, bytes) in
        [(&*SMALL_REPLAY_ROWS, max_bytes / 1000), (&*REPLAY_ROWS_OF_ANY_SIZE, max_bytes)]
    {
        let rows = client.query(sql, &[&run.id.get(), &0_i64, &1000_i64, &bytes]).await;
        let rows = rows.unwrap();
        let bytes_sent: usize = rows.iter().map(tokio_postgres::Row::raw_size_bytes).sum();
        assert!(
            bytes_sent <= MAX_REPLAY_PAGE_BYTES + LARGE_VALUE_BYTES + 49 * 1024,
            "{bytes_sent}"
        );
        assert!(rows.len() > 13, "{}", rows.len());
    }
    let log = store.read_events(run.id, ExecutionVersion::EMPTY, LogPageLimit::MAX).await;
    let pages = assert_replay_pages_match(&store, &log.unwrap(), LogPageLimit::clamped(1000)).await;
    assert!(pages >= 4, "{pages}");
    // Small events fill a page up to the requested count.
    let page =
        store.read_replay_rows(run.id, ExecutionVersion::EMPTY, LogPageLimit::clamped(12)).await;
    assert_eq!(page.unwrap().len(), 12);
}
