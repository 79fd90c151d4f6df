//! Rows that this system did not write so: only a database can hold them.

use noetl_types::OutboxId;

use super::fixture::{Run, at};
use super::outbox::{all, claim, mark, published_run, row};
use super::retention::{before_november, ended, names, purged, run_of};
use crate::row::LARGEST_COUNT;
use crate::{OutboxStatus, Pinned, Store};

/// What is wrong with a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Damage {
    /// It was claimed a number of times that is none.
    Attempts(i64),
    /// So often that another claim cannot be counted, all of them forgiven.
    Counts(i64),
    /// Its event is not what anybody wrote.
    Event,
}

impl Damage {
    /// The statement that does such damage.
    pub(crate) fn statement(self, schema: &str, row: OutboxId) -> String {
        let (outbox, event) = (format!("{schema}outbox"), format!("{schema}event"));
        match self {
            Self::Attempts(number) => {
                format!("UPDATE {outbox} SET attempts = {number} WHERE outbox_id = {row}")
            }
            Self::Counts(number) => format!(
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

/// A row that cannot be read, which somebody else wrote or a disk damaged, dies by itself: it takes no
/// other row with it, and an operator can see to it. For stores whose rows can be damaged.
pub(crate) async fn o7_a_damaged_row_dies_alone(
    store: &dyn Store,
    run: impl Fn(String),
    schema: &str,
) {
    let now = at("12:00:00");
    published_run(store, 1, 6).await;
    let ids: Vec<_> = store.outbox(all()).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|row| row.outbox_id).collect();
    for (row, damage) in [
        (ids[0], Damage::Attempts(-5)),
        (ids[2], Damage::Counts(i64::MAX)),
        (ids[3], Damage::Event),
    ] {
        run(damage.statement(schema, row));
    }
    let claimed = store.claim_outbox(claim("a", 10, now)).await.unwrap();
    let given: Vec<_> = claimed.rows.iter().map(|row| row.outbox_id).collect();
    assert_eq!(given, [ids[1], ids[4], ids[5]]);
    assert!(claimed.rows.iter().all(|row| row.attempts == 1));
    assert_eq!(claimed.dead, [ids[0], ids[2], ids[3]]);
    for (dead, told) in [
        (ids[0], "a number of times that is none"),
        (ids[2], "a number of times that is none"),
        (
            ids[3],
            "column seq of table event is damaged: -7 is not a seq",
        ),
    ] {
        let row = row(store, dead).await;
        assert_eq!(row.status, OutboxStatus::Dead);
        let error = row.last_error.unwrap();
        assert!(error.contains(told), "{error}");
    }
    assert_eq!(row(store, ids[3]).await.attempts, 0);
    let marks = claimed.rows.iter().map(mark).collect();
    assert_eq!(store.mark_published(marks, now).await.unwrap(), 3);
    // Who sends those without counts out again sends ones that can be read, under fences of their own.
    let counted = vec![ids[0], ids[2]];
    assert_eq!(store.replay_outbox(counted.clone(), now).await.unwrap(), 2);
    let again = store.claim_outbox(claim("a", 10, now)).await.unwrap();
    assert_eq!(again.dead, []);
    let given = again.rows.iter().map(|row| (row.outbox_id, row.attempts));
    let fences = [1, LARGEST_COUNT + 1];
    assert!(given.eq(counted.into_iter().zip(fences)), "{again:?}");
}

/// Nobody can tell what keeps a month that has a damaged row; the next one goes. For stores whose rows can
/// be damaged.
pub(crate) async fn a_month_that_cannot_be_looked_at_keeps_no_other(
    store: &dyn Store,
    run: impl Fn(String),
    schema: &str,
) {
    let mut first = Run::with_id(1_000_000);
    first.write(store, first.start()).await.unwrap();
    ended(store, run_of(8, 1)).await;
    run(format!(
        "UPDATE {schema}execution SET execution_id = 0 WHERE execution_id = 1000000"
    ));
    let done = purged(store, &before_november(store).await).await;
    assert_eq!(names(&done.skipped), ["event_y2024m01"]);
    assert_eq!(names(&done.dropped), ["event_y2026m08"]);
    let why = &done.skipped[0].pinned;
    assert!(matches!(why, Some(Pinned::Refused(_))), "{why:?}");
}
