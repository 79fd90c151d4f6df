//! Damaged rows, which this system did not write. Only databases can contain them.

use noetl_types::OutboxId;

use super::fixture::{TestExecution, test_time};
use super::outbox::{
    all_outbox_rows, create_run_with_outbox, find_outbox_row, outbox_claim, outbox_mark,
};
use super::retention::{
    partition_names, purge_before_november, run_in_month, run_purge, write_ended_run,
};
use crate::row::MAX_REPAIRED_ATTEMPTS;
use crate::{OutboxStatus, PinReason, Store};

/// Kind of damage to a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowDamage {
    /// An invalid number of attempts.
    Attempts(i64),
    /// A number of attempts so high that no further claim can be counted, with all of them
    /// forgiven.
    AttemptsAndForgiven(i64),
    /// An event that cannot be decoded.
    Event,
}

impl RowDamage {
    /// Returns the statement that causes the damage.
    pub(crate) fn to_sql(self, schema: &str, row: OutboxId) -> String {
        let (outbox, event) = (format!("{schema}outbox"), format!("{schema}event"));
        match self {
            Self::Attempts(number) => {
                format!("UPDATE {outbox} SET attempts = {number} WHERE outbox_id = {row}")
            }
            Self::AttemptsAndForgiven(number) => format!(
                "UPDATE {outbox} SET attempts = {number}, forgiven = {number}
                 WHERE outbox_id = {row}"
            ),
            Self::Event => format!(
                "UPDATE {event} SET seq = -7
                 WHERE event_id = (SELECT event_id FROM {outbox} WHERE outbox_id = {row})"
            ),
        }
    }
}

/// An outbox row that cannot be read, because another program wrote it or a disk damaged it,
/// becomes dead for an operator to handle. Other rows are not affected. For stores whose rows can
/// be damaged.
pub(crate) async fn damaged_row_becomes_dead_alone(
    store: &dyn Store,
    run_sql: impl Fn(String),
    schema: &str,
) {
    let now = test_time("12:00:00");
    create_run_with_outbox(store, 1, 6).await;
    let ids: Vec<_> = store.list_outbox_rows(all_outbox_rows()).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|row| row.outbox_id).collect();
    for (row, damage) in [
        (ids[0], RowDamage::Attempts(-5)),
        (ids[2], RowDamage::AttemptsAndForgiven(i64::MAX)),
        (ids[3], RowDamage::Event),
    ] {
        run_sql(damage.to_sql(schema, row));
    }
    let claimed = store.claim_outbox(outbox_claim("a", 10, now)).await.unwrap();
    let claimed_ids: Vec<_> = claimed.rows.iter().map(|row| row.outbox_id).collect();
    assert_eq!(claimed_ids, [ids[1], ids[4], ids[5]]);
    assert!(claimed.rows.iter().all(|row| row.attempts == 1));
    assert_eq!(claimed.dead, [ids[0], ids[2], ids[3]]);
    for (dead, expected) in [
        (ids[0], "its number of attempts is invalid"),
        (ids[2], "its number of attempts is invalid"),
        (ids[3], "column seq of table event is damaged: -7 is not a seq"),
    ] {
        let row = find_outbox_row(store, dead).await;
        assert_eq!(row.status, OutboxStatus::Dead);
        let error = row.last_error.unwrap();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(find_outbox_row(store, ids[3]).await.attempts, 0);
    let marks = claimed.rows.iter().map(outbox_mark).collect();
    assert_eq!(store.mark_published(marks, now).await.unwrap(), 3);
    // Requeued rows have valid attempts again, with fences that were not used before.
    let requeued = vec![ids[0], ids[2]];
    assert_eq!(store.requeue_outbox_rows(requeued.clone(), now).await.unwrap(), 2);
    let reclaimed = store.claim_outbox(outbox_claim("a", 10, now)).await.unwrap();
    assert_eq!(reclaimed.dead, []);
    let claimed_ids = reclaimed.rows.iter().map(|row| (row.outbox_id, row.attempts));
    let fences = [1, MAX_REPAIRED_ATTEMPTS + 1];
    assert!(claimed_ids.eq(requeued.into_iter().zip(fences)), "{reclaimed:?}");
}

/// A month with a damaged row cannot be checked for pins, so it is kept. The next month is dropped.
/// For stores whose rows can be damaged.
pub(crate) async fn unreadable_month_does_not_pin_others(
    store: &dyn Store,
    run_sql: impl Fn(String),
    schema: &str,
) {
    let mut first = TestExecution::with_id(1_000_000);
    first.append_to(store, first.start_request()).await.unwrap();
    write_ended_run(store, run_in_month(8, 1)).await;
    run_sql(format!("UPDATE {schema}execution SET execution_id = 0 WHERE execution_id = 1000000"));
    let report = run_purge(store, &purge_before_november(store).await).await;
    assert_eq!(partition_names(&report.skipped), ["event_y2024m01"]);
    assert_eq!(partition_names(&report.dropped), ["event_y2026m08"]);
    let reason = &report.skipped[0].pin_reason;
    assert!(matches!(reason, Some(PinReason::Refused(_))), "{reason:?}");
}
