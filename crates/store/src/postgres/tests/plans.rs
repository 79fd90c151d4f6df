//! How statements find their rows.

use noetl_testkit::postgres::Database;

use super::outlets::mostly_published;
use super::{open, raw};
use crate::postgres::retention::{LIVE, UNPUBLISHED};
use crate::suite::fixture::Run;

/// What keeps a month is found among the rows of that month alone, however much there is elsewhere: of its
/// executions only those are read that have not ended, of its outbox all that is left there.
#[tokio::test]
async fn what_keeps_a_month_is_found_without_reading_others() {
    let database = Database::new().unwrap();
    let store = mostly_published(&database).await;
    for number in 10..20 {
        Run::started(&store, number).await;
    }
    let client = raw(&database).await;
    let ended = "INSERT INTO execution
        SELECT (jsonb_populate_record(NULL::execution, to_jsonb(kept) || jsonb_build_object(
            'execution_id', number, 'ended', true, 'status', 'COMPLETED'))).*
        FROM generate_series(1, 3000) AS number
        CROSS JOIN (SELECT * FROM execution LIMIT 1) AS kept";
    client.batch_execute(ended).await.unwrap();
    client
        .batch_execute("VACUUM ANALYZE execution")
        .await
        .unwrap();
    client
        .batch_execute("SET enable_seqscan = off")
        .await
        .unwrap();
    for (sql, index, filtered) in [
        (LIVE, "Index Only Scan using execution_live", false),
        (
            UNPUBLISHED,
            "Index Scan using outbox_execution_id_event_id_key",
            true,
        ),
    ] {
        let sql = sql.replace("$1", "1000").replace("$2", "20000");
        let plan = client.query(&format!("EXPLAIN {sql}"), &[]).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(index), "{plan}");
        assert!(plan.contains("Index Cond: ((execution_id >= "), "{plan}");
        assert_eq!(plan.contains("Filter"), filtered, "{plan}");
    }
}

/// An execution that goes on is changed in its place: no index learns of it.
#[tokio::test]
async fn an_append_touches_no_index_of_executions() {
    let database = Database::new().unwrap();
    let store = open(&database).await;
    Run::started(&store, 1).await;
    let mut client = raw(&database).await;
    let transaction = client.transaction().await.unwrap();
    let changed = "UPDATE execution SET version = 2, chain_head = '', last_ingest_time = now(),
        ended = ended, status = status, last_event_id = 5, last_event_type = 'x'";
    transaction.execute(changed, &[]).await.unwrap();
    let hot = "SELECT pg_stat_get_xact_tuples_hot_updated('execution'::regclass)";
    let row = transaction.query_one(hot, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}
