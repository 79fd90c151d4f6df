use proptest::prelude::*;

use super::*;

#[test]
fn display_and_debug_forms() {
    let id = ExecutionId::new(123).unwrap();
    assert_eq!(id.to_string(), "123");
    assert_eq!(format!("{id:?}"), "ExecutionId(123)");
    assert_eq!("123".parse(), Ok(id));
    assert_eq!(ExecutionId::KIND, "execution id");
}

#[test]
fn optional_id_has_same_size() {
    assert_eq!(size_of::<Option<ExecutionId>>(), 8);
}

#[test]
fn command_id_equals_event_id() {
    let event = EventId::new(77).unwrap();
    assert_eq!(EventId::from(CommandId::from(event)), event);
}

#[test]
fn reads_numbers_and_texts() {
    for json in ["9007199254740993", "\"9007199254740993\""] {
        let id: EventId = serde_json::from_str(json).unwrap();
        assert_eq!(id.get(), 9_007_199_254_740_993);
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"9007199254740993\"");
    }
    for wrong in ["0", "-1", "1.5", "\"\"", "\"x\"", "null", "[]", "18446744073709551615"] {
        assert!(serde_json::from_str::<EventId>(wrong).is_err(), "{wrong}");
    }
    assert_eq!(
        serde_json::from_str::<EventId>("\"run-7\"").unwrap_err().to_string(),
        "`run-7` is not an id: an id is a positive whole number of at most 19 digits \
             at line 1 column 7"
    );
}

proptest! {
    #[test]
    fn id_round_trips(number in 1..=i64::MAX) {
        let id = CatalogId::new(number).unwrap();
        prop_assert_eq!(id.to_string().parse(), Ok(id));
        let json = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(serde_json::from_str::<CatalogId>(&json).unwrap(), id);
    }
}
