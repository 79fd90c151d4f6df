//! Query plans of PostgreSQL statements.

use super::publishing::store_with_published_rows;
use super::{connect_raw, new_database, open_store};
use crate::postgres::retention::{FIRST_LIVE_EXECUTION, FIRST_UNPUBLISHED};
use crate::suite::fixture::TestExecution;

/// The checks that find a pin of a month read only rows of that month: its executions that have not
/// ended, and its remaining outbox rows.
#[tokio::test]
async fn pin_checks_read_only_their_month() {
    let database = new_database();
    let store = store_with_published_rows(&database).await;
    for number in 10..20 {
        TestExecution::create_started(&store, number).await;
    }
    let client = connect_raw(&database).await;
    let sql = "INSERT INTO execution
        SELECT (jsonb_populate_record(NULL::execution, to_jsonb(kept) || jsonb_build_object(
            'execution_id', number, 'ended', true, 'status', 'COMPLETED'))).*
        FROM generate_series(1, 3000) AS number
        CROSS JOIN (SELECT * FROM execution LIMIT 1) AS kept";
    client.batch_execute(sql).await.unwrap();
    client.batch_execute("VACUUM ANALYZE execution").await.unwrap();
    client.batch_execute("SET enable_seqscan = off").await.unwrap();
    for (sql, index, has_filter) in [
        (FIRST_LIVE_EXECUTION, "Index Only Scan using execution_live", false),
        (FIRST_UNPUBLISHED, "Index Scan using outbox_execution_id_event_id_key", true),
    ] {
        let sql = sql.replace("$1", "1000").replace("$2", "20000");
        let plan = client.query(&format!("EXPLAIN {sql}"), &[]).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(index), "{plan}");
        assert!(plan.contains("Index Cond: ((execution_id >= "), "{plan}");
        assert_eq!(plan.contains("Filter"), has_filter, "{plan}");
    }
}

/// An append updates the execution in place (HOT), so no index changes.
#[tokio::test]
async fn append_updates_no_execution_index() {
    let database = new_database();
    let store = open_store(&database).await;
    TestExecution::create_started(&store, 1).await;
    let mut client = connect_raw(&database).await;
    let transaction = client.transaction().await.unwrap();
    let changed = "UPDATE execution SET version = 2, chain_head = '', last_ingest_time = now(),
        ended = ended, status = status, last_event_id = 5, last_event_type = 'x'";
    transaction.execute(changed, &[]).await.unwrap();
    let hot = "SELECT pg_stat_get_xact_tuples_hot_updated('execution'::regclass)";
    let row = transaction.query_one(hot, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}
