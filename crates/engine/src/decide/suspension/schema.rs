//! Validates payloads of signals and values of forms with JSON Schema.

use noetl_types::json::to_canonical;
use noetl_types::{Json, Text};

use crate::decide::DecisionError;

/// Maximum size of a reported violation.
const MAX_REASON_BYTES: usize = 1000;

/// Returns an error to the sender if a value violates a schema.
pub(super) fn check_matches(
    schema: &Json,
    value: &Json,
    what: &'static str,
) -> Result<(), DecisionError> {
    match find_violation(schema, value) {
        None => Ok(()),
        Some(why) => Err(DecisionError::SchemaMismatch { what, why }),
    }
}

/// Returns the first violation of a schema. An invalid schema rejects every value. Its task already
/// failed when its wait began.
pub(super) fn find_violation(schema: &Json, value: &Json) -> Option<Text> {
    let validator = match build_validator(schema) {
        Ok(validator) => validator,
        Err(why) => return Some(why),
    };
    let value = as_value(value);
    let first = validator.iter_errors(&value).next()?;
    let mut why = format!("{} (at `{}`)", first, first.instance_path());
    why.truncate(why.floor_char_boundary(MAX_REASON_BYTES));
    Some(Text::from_lossy(&why))
}

/// Returns the error of an invalid schema.
pub(super) fn schema_error(schema: &Json) -> Option<Text> {
    build_validator(schema).err()
}

fn build_validator(schema: &Json) -> Result<jsonschema::Validator, Text> {
    // This regex engine runs in linear time for every pattern that a playbook may contain.
    let options = jsonschema::options().with_pattern_options(jsonschema::PatternOptions::regex());
    options.build(&as_value(schema)).map_err(|error| {
        let mut why = error.to_string();
        why.truncate(why.floor_char_boundary(MAX_REASON_BYTES));
        Text::from_lossy(&why)
    })
}

fn as_value(value: &Json) -> serde_json::Value {
    serde_json::from_slice(&to_canonical(value)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use noetl_types::json::parse;

    use super::*;

    fn parse_json(text: &str) -> Json {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn finds_schema_violation() {
        let schema =
            parse_json(r#"{"type":"object","required":["n"],"properties":{"n":{"minimum":1}}}"#);
        assert_eq!(find_violation(&schema, &parse_json(r#"{"n":1}"#)), None);
        let low = find_violation(&schema, &parse_json(r#"{"n":0}"#)).unwrap();
        assert!(low.contains("/n"), "{low}");
        assert!(find_violation(&schema, &Json::Null).is_some());
    }

    #[test]
    fn detects_invalid_schema() {
        assert!(schema_error(&parse_json(r#"{"type":"object"}"#)).is_none());
        assert!(schema_error(&parse_json(r#"{"type":7}"#)).is_some());
        // Nothing is fetched from remote addresses.
        assert!(schema_error(&parse_json(r#"{"$ref":"http://localhost/x.json"}"#)).is_some());
    }
}
