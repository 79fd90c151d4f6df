//! Validates payloads of signals and values of forms.

use noetl_playbook::value_schema;
use noetl_types::{Json, Text};

use crate::decide::DecisionError;
use crate::decide::Result;

/// Maximum size of a reported violation.
const MAX_REASON_BYTES: usize = 1000;

/// Returns an error to the sender if a value violates a schema.
pub(super) fn check_matches(schema: &Json, value: &Json, what: &'static str) -> Result<()> {
    let checked = value_schema::check_value(schema, value);
    checked.map_err(|violation| DecisionError::SchemaMismatch { what, why: to_reason(&violation) })
}

/// Returns the error of an invalid schema.
pub(super) fn schema_error(schema: &Json) -> Option<Text> {
    value_schema::check_schema(schema).err().as_ref().map(to_reason)
}

fn to_reason(violation: &value_schema::SchemaViolation<'_>) -> Text {
    let mut reason = violation.to_string();
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    Text::from_lossy(&reason)
}
