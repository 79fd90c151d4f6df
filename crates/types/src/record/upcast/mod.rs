//! Reading events of older schema versions.
//!
//! An event is never rewritten; whoever reads an old one lifts it, one version at a time. A new
//! version is one file here, `from_v1.rs` for the first, with a function `lift` from records of
//! that version to the next; its line in [`LIFTS`]; and a stored history that is read through it.

use super::event::{EventRecord, SchemaVersion};

/// Lifts a record by one version. It sees only records of its own version, and leaves the number to
/// the caller.
type Lift = fn(EventRecord) -> EventRecord;

/// From version 1 to 2, from 2 to 3, and so on.
const LIFTS: &[Lift] = &[];

/// The version that this program writes, and that all readers see.
pub(super) const CURRENT: SchemaVersion = version_after(LIFTS);

/// The name of our own schema; an event without a name has it too.
const OWN_SCHEMA: &str = "noetl.event";

/// Why an event cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpcastError {
    /// A newer program wrote it.
    #[error("the event has schema version {found}, and this program knows versions up to {newest}")]
    TooNew {
        /// The version of the event.
        found: u32,
        /// The newest version known here.
        newest: u32,
    },
}

/// The record in the current schema version. One of a foreign schema is left as it is: its version
/// says nothing about ours.
pub fn upcast(record: EventRecord) -> Result<EventRecord, UpcastError> {
    lift_through(LIFTS, record)
}

impl EventRecord {
    /// Whether [`upcast`] leaves the record as it is.
    pub fn is_current(&self) -> bool {
        is_current(self.event.schema_name.as_deref(), self.event.schema_version)
    }
}

/// Whether [`upcast`] leaves a record of a schema as it is.
pub fn is_current(schema_name: Option<&str>, schema_version: SchemaVersion) -> bool {
    schema_version == CURRENT || is_foreign(schema_name)
}

fn lift_through(lifts: &[Lift], mut record: EventRecord) -> Result<EventRecord, UpcastError> {
    if is_foreign(record.event.schema_name.as_deref()) {
        return Ok(record);
    }
    let newest = version_after(lifts);
    let found = record.event.schema_version;
    if found > newest {
        return Err(UpcastError::TooNew {
            found: found.get(),
            newest: newest.get(),
        });
    }
    let mut version = SchemaVersion::FIRST;
    for lift in lifts {
        if record.event.schema_version == version {
            record = lift(record);
            record.event.schema_version = version.next();
        }
        version = version.next();
    }
    Ok(record)
}

fn is_foreign(schema_name: Option<&str>) -> bool {
    schema_name.is_some_and(|name| name != OWN_SCHEMA)
}

const fn version_after(lifts: &[Lift]) -> SchemaVersion {
    let mut version = SchemaVersion::FIRST;
    let mut steps = 0;
    while steps < lifts.len() {
        version = version.next();
        steps += 1;
    }
    version
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;

    fn one_to_two(mut record: EventRecord) -> EventRecord {
        assert_eq!(record.event.schema_version.get(), 1);
        record.event.node_type = Some("lifted from 1".into());
        record
    }

    fn two_to_three(mut record: EventRecord) -> EventRecord {
        assert_eq!(record.event.schema_version.get(), 2);
        let before = record.event.node_type.take().unwrap_or("nothing".into());
        record.event.node_type = Some(format!("{before}, then from 2").into());
        record
    }

    const TWO_LIFTS: &[Lift] = &[one_to_two, two_to_three];

    fn of_version(number: i64) -> EventRecord {
        let mut record = record();
        record.event.node_type = None;
        record.event.schema_version = SchemaVersion::new(number).unwrap();
        record
    }

    #[test]
    fn versions_are_lifted_one_by_one() {
        for (version, outcome) in [
            (1, Some("lifted from 1, then from 2")),
            (2, Some("nothing, then from 2")),
            (3, None),
        ] {
            let lifted = lift_through(TWO_LIFTS, of_version(version)).unwrap();
            assert_eq!(lifted.event.schema_version.get(), 3);
            assert_eq!(lifted.event.node_type.as_deref(), outcome);
        }
    }

    #[test]
    fn newer_versions_are_refused() {
        let error = lift_through(TWO_LIFTS, of_version(4)).unwrap_err();
        assert_eq!(
            error,
            UpcastError::TooNew {
                found: 4,
                newest: 3
            }
        );
        assert_eq!(
            error.to_string(),
            "the event has schema version 4, and this program knows versions up to 3"
        );
    }

    #[test]
    fn foreign_schemas_are_left_alone() {
        let mut foreign = of_version(9);
        foreign.event.schema_name = Some("acme.order".into());
        assert_eq!(lift_through(TWO_LIFTS, foreign.clone()), Ok(foreign));

        let mut own = of_version(1);
        own.event.schema_name = Some(OWN_SCHEMA.into());
        assert_eq!(
            lift_through(TWO_LIFTS, own)
                .unwrap()
                .event
                .schema_version
                .get(),
            3
        );
    }

    #[test]
    fn records_of_this_version_stay() {
        assert_eq!(record().event.schema_version, CURRENT);
        assert_eq!(upcast(record()), Ok(record()));
    }
}
