use super::*;
use crate::record::tests::first_record;

fn upcast_one_to_two(mut record: EventRecord) -> EventRecord {
    assert_eq!(record.event.schema_version.get(), 1);
    record.event.node_type = Some("upcast from 1".into());
    record
}

fn upcast_two_to_three(mut record: EventRecord) -> EventRecord {
    assert_eq!(record.event.schema_version.get(), 2);
    let before = record.event.node_type.take().unwrap_or("nothing".into());
    record.event.node_type = Some(format!("{before}, then from 2").into());
    record
}

const TWO_UPCASTS: &[UpcastFn] = &[upcast_one_to_two, upcast_two_to_three];

fn record_of_version(number: i64) -> EventRecord {
    let mut record = first_record();
    record.event.node_type = None;
    record.event.schema_version = SchemaVersion::new(number).unwrap();
    record
}

#[test]
fn versions_are_upcast_step_by_step() {
    for (version, outcome) in
        [(1, Some("upcast from 1, then from 2")), (2, Some("nothing, then from 2")), (3, None)]
    {
        let upcasted = apply_upcasts(TWO_UPCASTS, record_of_version(version)).unwrap();
        assert_eq!(upcasted.event.schema_version.get(), 3);
        assert_eq!(upcasted.event.node_type.as_deref(), outcome);
    }
}

#[test]
fn rejects_newer_versions() {
    let error = apply_upcasts(TWO_UPCASTS, record_of_version(4)).unwrap_err();
    assert_eq!(error, UpcastError::TooNew { found: 4, newest: 3 });
    assert_eq!(
        error.to_string(),
        "the event has schema version 4, but this program supports versions up to 3"
    );
}

#[test]
fn foreign_schemas_are_unchanged() {
    let mut foreign = record_of_version(9);
    foreign.event.schema_name = Some("acme.order".into());
    assert_eq!(apply_upcasts(TWO_UPCASTS, foreign.clone()), Ok(foreign));

    let mut own = record_of_version(1);
    own.event.schema_name = Some(NOETL_SCHEMA_NAME.into());
    assert_eq!(apply_upcasts(TWO_UPCASTS, own).unwrap().event.schema_version.get(), 3);
}

#[test]
fn current_version_is_unchanged() {
    assert_eq!(first_record().event.schema_version, CURRENT_SCHEMA_VERSION);
    assert_eq!(upcast_record(first_record()), Ok(first_record()));
}
