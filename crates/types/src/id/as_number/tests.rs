use serde::{Deserialize, Serialize};

use crate::id::{EventId, ExecutionId, IdNumber, OutboxId};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct NumericIdRow {
    event_id: IdNumber<EventId>,
    execution_id: Option<IdNumber<ExecutionId>>,
    outbox_ids: Vec<IdNumber<OutboxId>>,
}

#[test]
fn writes_numbers_and_reads_both_forms() {
    let row: NumericIdRow =
        serde_json::from_str(r#"{"event_id":"7","execution_id":8,"outbox_ids":[1,"2"]}"#).unwrap();
    assert_eq!(
        serde_json::to_string(&row).unwrap(),
        r#"{"event_id":7,"execution_id":8,"outbox_ids":[1,2]}"#
    );
    let row: NumericIdRow = serde_json::from_str(r#"{"event_id":7,"outbox_ids":[]}"#).unwrap();
    assert_eq!(
        serde_json::to_string(&row).unwrap(),
        r#"{"event_id":7,"execution_id":null,"outbox_ids":[]}"#
    );
}

#[test]
fn rejects_invalid_ids() {
    for wrong in ["0", "true", "{}", "18446744073709551615"] {
        let json = format!(r#"{{"event_id":{wrong},"outbox_ids":[]}}"#);
        assert!(serde_json::from_str::<NumericIdRow>(&json).is_err(), "{wrong}");
    }
}
