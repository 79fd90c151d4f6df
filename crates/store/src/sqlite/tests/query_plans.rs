//! Query plans of frequently executed SQLite statements.

use rusqlite::Connection;

use super::TempDatabase;
use crate::executions::{
    COUNT_LIVE_DESCENDANTS, COUNT_LIVE_EXECUTIONS, FOLLOW_UP_ON_PATH, LIST_EXECUTIONS,
    LIST_EXECUTIONS_BY_STATUS,
};
use crate::identities::secret_audit_query;
use crate::model::SecretAuditFilter;
use crate::outbox::{COUNT_BY_STATUS, COUNT_CLAIMABLE, LIST_DEAD_ROWS, OUTBOX_STATS, PURGE_OUTBOX};
use crate::row::DEPENDENT_TABLES;
use crate::sqlite::retention::{EVENT_TABLE, delete_row_sql, select_keys_sql};

/// Returns the query plan of a statement.
fn query_plan(database: &TempDatabase, sql: &str) -> String {
    let connection = Connection::open(database.options().path).unwrap();
    let explain = format!("EXPLAIN QUERY PLAN {sql}");
    let mut statement = connection.prepare(&explain).unwrap();
    let nulls = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps = statement
        .query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>("detail"))
        .unwrap();
    steps.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
}

/// A server lists the runs of one status twice a second, so the cost must not depend on the number
/// of ended runs.
#[test]
fn status_filter_uses_index() {
    let database = TempDatabase::new();
    drop(database.open_store());
    let by_status = query_plan(&database, LIST_EXECUTIONS_BY_STATUS.sqlite());
    let index = "execution USING INDEX execution_by_status (tenant_id=? AND status=?";
    assert!(by_status.contains(index), "{by_status}");
    let live = query_plan(&database, COUNT_LIVE_EXECUTIONS.sqlite());
    assert!(live.contains(index), "{live}");
    let all = query_plan(&database, LIST_EXECUTIONS.sqlite());
    let index = "execution USING INDEX execution_by_start (tenant_id=?";
    assert!(all.contains(index), "{all}");
    for plan in [by_status, all] {
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}

/// Both run before each start of a child.
#[test]
fn checks_of_child_starts_use_indexes() {
    let database = TempDatabase::new();
    drop(database.open_store());
    let count = query_plan(&database, COUNT_LIVE_DESCENDANTS.sqlite());
    assert!(count.contains("INDEX execution_by_root (root_execution_id=?"), "{count}");
    let path = query_plan(&database, FOLLOW_UP_ON_PATH.sqlite());
    for table in ["SCAN execution", "SCAN errand"] {
        assert!(!path.contains(table), "{path}");
    }
}

/// Published rows are not read to report the state of the outbox.
#[test]
fn outbox_queries_skip_published_rows() {
    let database = TempDatabase::new();
    drop(database.open_store());
    for statement in
        [&COUNT_CLAIMABLE, &COUNT_BY_STATUS, &OUTBOX_STATS, &PURGE_OUTBOX, &LIST_DEAD_ROWS]
    {
        let sql = statement.sqlite();
        let plan = query_plan(&database, sql);
        let is_full_scan = |step: &str| step.starts_with("SCAN outbox") && !step.contains("INDEX");
        assert!(!plan.lines().any(is_full_scan), "{sql}\n{plan}");
        // A scan in id order is reported as a search.
        assert!(!plan.contains("PRIMARY KEY (rowid>?)"), "{sql}\n{plan}");
    }
}

/// Appends wait while rows of a dropped month are purged. So rows are found by their execution and
/// deleted by their key. There are few slots at any time, so those may be scanned.
#[test]
fn purge_finds_rows_by_execution() {
    let database = TempDatabase::new();
    drop(database.open_store());
    for dependent in std::iter::once(&EVENT_TABLE).chain(DEPENDENT_TABLES) {
        let table = dependent.table;
        let select_plan = query_plan(&database, &select_keys_sql(dependent));
        let access = if table == "concurrency_slot" { "SCAN" } else { "SEARCH" };
        assert!(select_plan.starts_with(&format!("{access} {table}")), "{select_plan}");
        let delete_plan = query_plan(&database, &delete_row_sql(dependent));
        assert!(delete_plan.starts_with(&format!("SEARCH {table} USING")), "{delete_plan}");
        let keys = dependent.key_columns.split(", ").count();
        assert_eq!(delete_plan.matches("=?").count(), keys, "{delete_plan}");
    }
}

/// The audit log grows without limit, so entries of one secret or one run are found by an index.
#[test]
fn secret_audit_queries_use_index() {
    let database = TempDatabase::new();
    drop(database.open_store());
    let all = SecretAuditFilter::default;
    let by_credential = SecretAuditFilter { credential: Some("api".into()), ..all() };
    let by_execution =
        SecretAuditFilter { execution_id: noetl_types::ExecutionId::new(9).ok(), ..all() };
    for (filter, index) in [
        (all(), "audit_secret"),
        (by_credential, "audit_credential (credential=?"),
        (by_execution, "audit_execution (execution_id=?"),
    ] {
        let plan = query_plan(&database, secret_audit_query(&filter).sqlite());
        assert!(plan.contains(&format!("INDEX {index}")), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
