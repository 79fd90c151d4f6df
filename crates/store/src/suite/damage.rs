//! Rows that this system did not write so: only a database can hold them.

use noetl_types::OutboxId;

use super::fixture::at;
use super::outbox::{all, claim, mark, published_run, row};
use crate::{OutboxStatus, Store};

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
        (ids[3], "column seq of table event is damaged"),
    ] {
        let row = row(store, dead).await;
        assert_eq!(row.status, OutboxStatus::Dead);
        let error = row.last_error.unwrap();
        assert!(error.contains(told), "{error}");
    }
    assert_eq!(row(store, ids[3]).await.attempts, 0);
    let marks = claimed.rows.iter().map(mark).collect();
    assert_eq!(store.mark_published(marks, now).await.unwrap(), 3);
    // Who sent the first one out again sends one that can be read.
    assert_eq!(store.replay_outbox(vec![ids[0]], now).await.unwrap(), 1);
    let again = store.claim_outbox(claim("a", 10, now)).await.unwrap();
    assert_eq!(again.rows.len(), 1);
    assert_eq!(again.dead, []);
}
