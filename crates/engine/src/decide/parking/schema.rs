//! JSON Schema of what others send: payloads of signals and values of forms.

use noetl_types::json::to_canonical;
use noetl_types::{Json, Text};

use crate::decide::Refused;

/// Bytes of the reasons that a sender is told.
const MAX_WHY: usize = 1000;

/// Refuses a value that breaks a schema, to whoever sent it.
pub(super) fn must_match(schema: &Json, value: &Json, what: &'static str) -> Result<(), Refused> {
    match violation(schema, value) {
        None => Ok(()),
        Some(why) => Err(Refused::BadMessage { what, why }),
    }
}

/// Why a value breaks a schema. A schema that is none lets nothing pass; the task that waits with it
/// has been told when it began.
pub(super) fn violation(schema: &Json, value: &Json) -> Option<Text> {
    let validator = match validator(schema) {
        Ok(validator) => validator,
        Err(why) => return Some(why),
    };
    let value = as_value(value);
    let first = validator.iter_errors(&value).next()?;
    let mut why = format!("{} (at `{}`)", first, first.instance_path());
    why.truncate(why.floor_char_boundary(MAX_WHY));
    Some(Text::lossy(&why))
}

/// Why a schema cannot be used.
pub(super) fn fault(schema: &Json) -> Option<Text> {
    validator(schema).err()
}

fn validator(schema: &Json) -> Result<jsonschema::Validator, Text> {
    // Patterns run in time that grows with the text alone, whatever a playbook writes.
    let options = jsonschema::options().with_pattern_options(jsonschema::PatternOptions::regex());
    options.build(&as_value(schema)).map_err(|error| {
        let mut why = error.to_string();
        why.truncate(why.floor_char_boundary(MAX_WHY));
        Text::lossy(&why)
    })
}

fn as_value(value: &Json) -> serde_json::Value {
    serde_json::from_slice(&to_canonical(value)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use noetl_types::json::parse;

    use super::*;

    fn json(text: &str) -> Json {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_value_is_held_against_its_schema() {
        let schema = json(r#"{"type":"object","required":["n"],"properties":{"n":{"minimum":1}}}"#);
        assert_eq!(violation(&schema, &json(r#"{"n":1}"#)), None);
        let low = violation(&schema, &json(r#"{"n":0}"#)).unwrap();
        assert!(low.contains("/n"), "{low}");
        assert!(violation(&schema, &Json::Null).is_some());
    }

    #[test]
    fn a_schema_that_is_none_is_found_out() {
        assert!(fault(&json(r#"{"type":"object"}"#)).is_none());
        assert!(fault(&json(r#"{"type":7}"#)).is_some());
        // Nothing is fetched from elsewhere.
        assert!(fault(&json(r#"{"$ref":"http://localhost/x.json"}"#)).is_some());
    }
}
