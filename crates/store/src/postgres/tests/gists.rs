//! What crosses the wire for a replay.

use noetl_testkit::postgres::Database;
use noetl_types::{Json, Text, Version, sha256};

use super::{open, raw};
use crate::postgres::gist::{ANY, SMALL};
use crate::row::GIST_BYTES;
use crate::suite::fixture::Run;
use crate::suite::gist::same_pages;
use crate::{LogPage, Store as _};

/// The largest result or text of the test.
const LARGE: usize = 1 << 20;

/// What a database compresses, what it cannot, long texts and small things between them: no statement
/// gives more than a page holds and the one event that fills it, and pages put together are the log.
#[tokio::test]
async fn a_page_for_a_replay_is_bounded_by_bytes() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    let mut run = Run::started(&store, 1).await;
    let digests = (0..).map(|number: u64| sha256(number.to_string()).to_string());
    let noise: String = digests.take(LARGE / 64).collect();
    let long = "x".repeat(LARGE);
    let (noise, long) = (&*noise, &*long);
    for (text, name) in [
        ("small", "short"),
        ("small", noise),
        (long, "short"),
        (noise, "short"),
    ] {
        for _ in 0..12 {
            let mut append = run.step();
            append.events[0].result = Some(Json::from(text));
            append.events[0].aggregate_id = Some(Text::from(name));
            run.write(&store, append).await.unwrap();
        }
    }
    let client = raw(&database).await;
    let most = i64::try_from(GIST_BYTES).unwrap();
    for (sql, bytes) in [(&*SMALL, most / 1000), (&*ANY, most)] {
        let rows = client
            .query(sql, &[&run.id.get(), &0_i64, &1000_i64, &bytes])
            .await;
        let rows = rows.unwrap();
        let given: usize = rows.iter().map(tokio_postgres::Row::raw_size_bytes).sum();
        assert!(given <= GIST_BYTES + LARGE + 49 * 1024, "{given}");
        assert!(rows.len() > 13, "{}", rows.len());
    }
    let log = store.events(run.id, Version::EMPTY, LogPage::MAX).await;
    let pages = same_pages(&store, &log.unwrap(), LogPage::clamped(1000)).await;
    assert!(pages >= 4, "{pages}");
    // As many small ones as are asked for come at once.
    let page = store
        .gists(run.id, Version::EMPTY, LogPage::clamped(12))
        .await;
    assert_eq!(page.unwrap().len(), 12);
}
