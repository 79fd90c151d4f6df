//! Upcasting of events of older schema versions.
//!
//! A stored event is never rewritten. A reader upcasts an old event one version at a time. A new
//! version needs one file here (`from_v1.rs` for the first) with a function from records of that
//! version to the next, an entry in [`UPCASTS`], and a stored history that is read through it.

use super::event::{EventRecord, SchemaVersion};

/// Upcasts a record by one version. It receives only records of that version, and leaves the
/// version number to the caller.
type UpcastFn = fn(EventRecord) -> EventRecord;

/// From version 1 to 2, from 2 to 3, and so on.
const UPCASTS: &[UpcastFn] = &[];

/// The version that this program writes, and that all readers see.
pub(super) const CURRENT_SCHEMA_VERSION: SchemaVersion = latest_version(UPCASTS);

/// Name of the NoETL schema. An event without a schema name has it too.
const NOETL_SCHEMA_NAME: &str = "noetl.event";

/// Error for an event that cannot be upcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpcastError {
    /// A newer program wrote the event.
    #[error(
        "the event has schema version {found}, but this program supports versions up to {newest}"
    )]
    TooNew {
        /// Version of the event.
        found: u32,
        /// Newest supported version.
        newest: u32,
    },
}

/// Returns the record in the current schema version. A record of a foreign schema is returned
/// unchanged, because its version is unrelated to ours.
pub fn upcast_record(record: EventRecord) -> Result<EventRecord, UpcastError> {
    apply_upcasts(UPCASTS, record)
}

impl EventRecord {
    /// True if [`upcast_record`] returns the record unchanged.
    pub fn is_current(&self) -> bool {
        is_current_schema(self.event.schema_name.as_deref(), self.event.schema_version)
    }
}

/// True if [`upcast_record`] returns a record with this schema unchanged.
pub fn is_current_schema(schema_name: Option<&str>, schema_version: SchemaVersion) -> bool {
    schema_version == CURRENT_SCHEMA_VERSION || is_foreign_schema(schema_name)
}

fn apply_upcasts(
    upcasts: &[UpcastFn],
    mut record: EventRecord,
) -> Result<EventRecord, UpcastError> {
    if is_foreign_schema(record.event.schema_name.as_deref()) {
        return Ok(record);
    }
    let newest = latest_version(upcasts);
    let found = record.event.schema_version;
    if found > newest {
        return Err(UpcastError::TooNew { found: found.get(), newest: newest.get() });
    }
    let mut version = SchemaVersion::FIRST;
    for upcast in upcasts {
        if record.event.schema_version == version {
            record = upcast(record);
            record.event.schema_version = version.next();
        }
        version = version.next();
    }
    Ok(record)
}

fn is_foreign_schema(schema_name: Option<&str>) -> bool {
    schema_name.is_some_and(|name| name != NOETL_SCHEMA_NAME)
}

const fn latest_version(upcasts: &[UpcastFn]) -> SchemaVersion {
    let mut version = SchemaVersion::FIRST;
    let mut steps = 0;
    while steps < upcasts.len() {
        version = version.next();
        steps += 1;
    }
    version
}

#[cfg(test)]
mod tests;
