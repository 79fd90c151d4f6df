//! How statements that are run often find their rows.

use rusqlite::Connection;

use super::Place;
use crate::model::SecretActFilter;
use crate::row::CLEANED;
use crate::sqlite::outbox::{ABOUT, COUNTS, LIST_DEAD, OLDEST, PENDING, PURGE};
use crate::sqlite::query::{LIST_BY_STATUS, LIST_EXECUTIONS, LIVE};
use crate::sqlite::retention::{EVENTS, delete_one, select_some};
use crate::sqlite::vault::secret_acts;

/// What SQLite does for a statement, step by step.
fn plan(place: &Place, sql: &str) -> String {
    let connection = Connection::open(place.options().path).unwrap();
    let explain = format!("EXPLAIN QUERY PLAN {sql}");
    let mut statement = connection.prepare(&explain).unwrap();
    let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps = statement
        .query_map(rusqlite::params_from_iter(nothing), |row| {
            row.get::<_, String>("detail")
        })
        .unwrap();
    steps.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
}

/// A server looks at what runs of one status there are twice a second, however many have ended.
#[test]
fn executions_of_a_status_are_found_by_it() {
    let place = Place::new();
    drop(place.store());
    let by_status = plan(&place, &LIST_BY_STATUS);
    let index = "execution USING INDEX execution_by_status (tenant_id=? AND status=?";
    assert!(by_status.contains(index), "{by_status}");
    let live = plan(&place, LIVE);
    assert!(live.contains(index), "{live}");
    let all = plan(&place, &LIST_EXECUTIONS);
    let index = "execution USING INDEX execution_by_start (tenant_id=?";
    assert!(all.contains(index), "{all}");
    for plan in [by_status, all] {
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}

/// However many rows are published, none of them is read to find out how the outbox stands.
#[test]
fn o9_published_rows_cost_a_look_nothing() {
    let place = Place::new();
    drop(place.store());
    for sql in [PENDING, COUNTS, OLDEST, ABOUT, PURGE, &LIST_DEAD] {
        let plan = plan(&place, sql);
        let is_whole = |step: &str| step.starts_with("SCAN outbox") && !step.contains("INDEX");
        assert!(!plan.lines().any(is_whole), "{sql}\n{plan}");
        // Nor in the order of ids, which only looks like a search.
        assert!(!plan.contains("PRIMARY KEY (rowid>?)"), "{sql}\n{plan}");
    }
}

/// Whoever appends waits while rows of a dropped month are cleaned up: those are found by their execution
/// and deleted by their keys. Of slots there are few at any time.
#[test]
fn r2_rows_of_a_dropped_month_are_found_by_it() {
    let place = Place::new();
    drop(place.store());
    for cleaned in std::iter::once(&EVENTS).chain(CLEANED) {
        let table = cleaned.table;
        let found = plan(&place, &select_some(cleaned));
        let how = if table == "concurrency_slot" {
            "SCAN"
        } else {
            "SEARCH"
        };
        assert!(found.starts_with(&format!("{how} {table}")), "{found}");
        let deleted = plan(&place, &delete_one(cleaned));
        assert!(
            deleted.starts_with(&format!("SEARCH {table} USING")),
            "{deleted}"
        );
        let keys = cleaned.key.split(", ").count();
        assert_eq!(deleted.matches("=?").count(), keys, "{deleted}");
    }
}

/// A trail is for ever, so what was done to one secret, or for one run, is not looked for in all of it.
#[test]
fn acts_on_a_secret_are_found_by_it() {
    let place = Place::new();
    drop(place.store());
    let all = SecretActFilter::default;
    let of_secret = SecretActFilter {
        credential: Some("api".into()),
        ..all()
    };
    let of_run = SecretActFilter {
        execution_id: noetl_types::ExecutionId::new(9).ok(),
        ..all()
    };
    for (filter, index) in [
        (all(), "audit_secret"),
        (of_secret, "audit_credential (credential=?"),
        (of_run, "audit_execution (execution_id=?"),
    ] {
        let plan = plan(&place, secret_acts(&filter));
        assert!(plan.contains(&format!("INDEX {index}")), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
