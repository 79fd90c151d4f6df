//! A flipped bit in any cell of a log, and of the rows that are derived from it, is found and named.

use std::time::Duration;

use noetl_api::replay::ReplayQuery;
use noetl_server::CallContext;
use noetl_server::verification::OutsideAnchor;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::verification::fixture::{TestStore, complete_commands, create_runs, start_run};

/// Tables with their keys, and the columns whose values no log and no anchor implies.
const TABLES: &[(&str, &[&str], &[&str])] = &[
    // The position in the feed: only its order is verified.
    ("event", &["execution_id", "seq"], &["position"]),
    ("execution", &["execution_id"], &[]),
    // Leases are not events.
    (
        "command",
        &["command_id"],
        &[
            // A command that has ended may be purged.
            "execution_id", "attempt", "worker_id", "lease_token", "lease_until", "claimed_at",
            "started_at", "not_before",
            // Of commands that have ended, only the outcome is remembered.
            "run", "iter_index", "frame_no", "segment", "server_retry", "tool_kind", "pool",
            "priority", "max_attempts", "deadline_ms", "held",
        ],
    ),
    ("timer", &["execution_id", "timer_id"], &[]),
    ("wait", &["execution_id", "command_id", "number"], &["since"]),
    (
        "projection_snapshot",
        &["execution_id", "kind", "fold_version", "version"],
        &[
            // A snapshot of another kind or version of the fold is ignored.
            "execution_id", "kind", "fold_version", "last_ingest_time",
        ],
    ),
    (
        "result_store",
        &["execution_id", "result_id"],
        &["execution_id", "result_id", "name", "media_type", "created_at"],
    ),
    ("catalog", &["catalog_id"], &["kind", "meta", "created_at", "archived_at"]),
    ("anchor", &["anchor_id"], &[]),
];

/// Flips a bit of a value, chosen by a number. A null or an empty value has none.
fn flip_bit(value: &Value, number: usize) -> Option<Value> {
    let flip = |bytes: &mut Vec<u8>| {
        let index = number.checked_rem(bytes.len())?;
        // Of a text, a low bit: the result remains a text.
        *bytes.get_mut(index)? ^= 1 << (number % 4);
        Some(())
    };
    match value {
        Value::Null => None,
        Value::Integer(integer) => Some(Value::Integer(integer ^ (1 << (number % 3)))),
        Value::Real(real) => Some(Value::Real(f64::from_bits(real.to_bits() ^ (1 << 40)))),
        Value::Text(text) => {
            let mut bytes = text.clone().into_bytes();
            flip(&mut bytes)?;
            Some(Value::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        Value::Blob(bytes) => {
            let mut bytes = bytes.clone();
            flip(&mut bytes)?;
            Some(Value::Blob(bytes))
        }
    }
}

/// Returns the columns of a table and all its rows.
fn read_table(connection: &Connection, table: &str) -> (Vec<String>, Vec<Vec<Value>>) {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let read = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|index| row.get(index)).collect();
    let rows: Result<Vec<Vec<Value>>, _> = statement.query_map([], read).unwrap().collect();
    (columns.clone(), rows.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_flipped_bit_is_found() {
    let test = TestStore::sqlite();
    test.register_playbook().await;
    let services = test.open_server().await;
    let ids = create_runs(&services, 1).await;
    start_run(&services).await;
    complete_commands(&services, 1).await;
    let query = ReplayQuery::new(ids[0]);
    services.queries.replay_state(CallContext::server(), query).await.unwrap();
    services.anchors.write_anchors().await.unwrap();
    services.close(Duration::from_mins(1)).await;
    let outside = OutsideAnchor::File(test.anchor_file());
    test.assert_intact(&outside).await;

    let connection = test.sqlite_connection();
    let (mut number, mut missed) = (7, Vec::new());
    for (table, keys, uncovered) in TABLES {
        let (columns, rows) = read_table(&connection, table);
        assert!(!rows.is_empty(), "{table}");
        for row in rows {
            let cells = columns.iter().zip(&row);
            let rowid = cells
                .clone()
                .filter(|(column, _)| keys.contains(&column.as_str()))
                .map(|(_, value)| value.clone());
            let rowid: Vec<Value> = rowid.collect();
            for (column, value) in cells {
                if uncovered.contains(&column.as_str()) {
                    continue;
                }
                number += 13;
                let Some(flipped) = flip_bit(value, number) else { continue };
                let condition: Vec<String> =
                    keys.iter().zip(2..).map(|(key, index)| format!("{key} = ?{index}")).collect();
                let update =
                    format!("UPDATE {table} SET {column} = ?1 WHERE {}", condition.join(" AND "));
                let write = |new: &Value, keys: &[Value]| {
                    let params = std::iter::once(new).chain(keys);
                    connection.execute(&update, params_from_iter(params)).unwrap_or(0)
                };
                // A value that the table itself refuses cannot be written by anybody.
                if write(&flipped, &rowid) != 1 {
                    continue;
                }
                let (_, problems) =
                    test.verify(noetl_server::verification::VerifyScope::All, &outside).await;
                if problems.is_empty() {
                    missed.push(format!("{table}.{column}: {value:?} -> {flipped:?}"));
                }
                let mut changed_key = rowid.clone();
                if let Some(index) = keys.iter().position(|key| key == column) {
                    changed_key[index] = flipped.clone();
                }
                assert_eq!(write(value, &changed_key), 1, "{table}.{column}");
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
    test.assert_intact(&outside).await;
}
