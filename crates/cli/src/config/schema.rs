//! JSON Schema of the configuration file.

use serde_json::{Map, Value, json};

use super::setting::{SettingDefault, SettingInfo};
use super::table::SETTINGS_TABLE;

/// Builds the JSON Schema of the configuration file.
pub(crate) fn config_schema() -> Value {
    let properties: Map<String, Value> = SETTINGS_TABLE
        .iter()
        .map(|setting| (setting.info().file_key(), setting_property(setting.info())))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "NoETL configuration file",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

/// Schema of a setting. Values are strings, as in environment variables, or the equivalent TOML
/// types.
fn setting_property(info: &SettingInfo) -> Value {
    let (default, otherwise) = match info.default {
        SettingDefault::Value(value) => (Some(value), None),
        SettingDefault::Described(description) => (None, Some(description)),
    };
    let mut property = json!({
        "description": info.description,
        "type": ["string", "number", "boolean", "array"],
        "x-variable": info.name,
    });
    if let Some(default) = default {
        property["default"] = default.into();
    }
    if let Some(otherwise) = otherwise {
        property["x-otherwise"] = otherwise.into();
    }
    if info.is_secret {
        property["writeOnly"] = true.into();
    }
    property
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_contains_every_setting() {
        let schema = config_schema();
        let properties = schema["properties"].as_object().unwrap();
        for setting in &SETTINGS_TABLE {
            let key = setting.info().file_key();
            assert!(properties.contains_key(&key), "{key}");
        }
        let port = &properties["port"];
        assert_eq!(port["default"], "8082");
        assert_eq!(port["x-variable"], "NOETL_PORT");
        assert_eq!(properties["token"]["writeOnly"], true);
        assert_eq!(properties["token"]["x-otherwise"], "none");
    }
}
