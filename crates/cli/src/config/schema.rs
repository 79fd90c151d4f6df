//! The configuration file as a JSON Schema.

use serde_json::{Map, Value, json};

use super::setting::{Default, Facts};
use super::table::TABLE;

/// The JSON Schema of the file of all settings.
pub(crate) fn schema() -> Value {
    let properties: Map<String, Value> = TABLE
        .iter()
        .map(|setting| (setting.facts().key(), property(setting.facts())))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The configuration file of NoETL",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

/// Values are texts, as variables have them, or what TOML has for the same.
fn property(facts: &Facts) -> Value {
    let (default, otherwise) = match facts.default {
        Default::Value(value) => (Some(value), None),
        Default::Told(words) => (None, Some(words)),
    };
    let mut property = json!({
        "description": facts.about,
        "type": ["string", "number", "boolean", "array"],
        "x-variable": facts.name,
    });
    if let Some(default) = default {
        property["default"] = default.into();
    }
    if let Some(otherwise) = otherwise {
        property["x-otherwise"] = otherwise.into();
    }
    if facts.secret {
        property["writeOnly"] = true.into();
    }
    property
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_in_it() {
        let schema = schema();
        let properties = schema["properties"].as_object().unwrap();
        for setting in &TABLE {
            let key = setting.facts().key();
            assert!(properties.contains_key(&key), "{key}");
        }
        let port = &properties["port"];
        assert_eq!(port["default"], "8082");
        assert_eq!(port["x-variable"], "NOETL_PORT");
        assert_eq!(properties["token"]["writeOnly"], true);
        assert_eq!(properties["token"]["x-otherwise"], "none");
    }
}
