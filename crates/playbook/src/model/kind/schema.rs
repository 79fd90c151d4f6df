//! JSON Schema of a task, derived from the table of tool kinds.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::KeyType::{
    Any, Bool, Duration, Integer, List, Map as Mapping, MapOrList, NoEffect, Text, TextOrList,
    Words,
};
use super::{KeyType, ToolKind};
use crate::model::output::OutputSpec;
use crate::model::set::SetClause;
use crate::model::tool::TaskSpec;

/// Returns the schema of a task: the keys of every task, and the specific keys of each kind.
pub(in crate::model) fn task_schema(generator: &mut SchemaGenerator) -> Schema {
    let kinds: Vec<&str> = ToolKind::WORDS.iter().copied().chain(["snowflake_transfer"]).collect();
    let by_kind: Vec<Value> =
        ToolKind::WORDS.iter().filter_map(|name| ToolKind::parse(name)).map(kind_schema).collect();
    let set = generator.subschema_for::<SetClause>();
    let spec = generator.subschema_for::<TaskSpec>();
    let output = generator.subschema_for::<OutputSpec>();
    json_schema!({
        "type": "object",
        "properties": {
            "kind": { "enum": kinds },
            "name": { "type": "string", "description": "Label of the task in its pipeline." },
            "auth": { "description": "Credential: an alias, a template of an alias, or a map." },
            "input": { "type": "object" },
            "set": set,
            "timeout": { "type": ["string", "number"] },
            "spec": { "anyOf": [spec, { "type": "object" }] },
            "output": output,
            "output_select": {},
            "libs": { "type": ["object", "array"] }
        },
        "required": ["kind"],
        "allOf": by_kind
    })
}

fn kind_schema(kind: ToolKind) -> Value {
    let spec = kind.spec();
    let mut properties = Map::new();
    for key in spec.keys {
        properties.insert(key.name.to_owned(), key_schema(key.value_type));
        for alias in key.aliases {
            properties.insert((*alias).to_owned(), serde_json::json!({ "deprecated": true }));
        }
    }
    serde_json::json!({
        "if": { "properties": { "kind": { "const": kind.as_str() } }, "required": ["kind"] },
        "then": { "properties": properties }
    })
}

fn key_schema(value_type: KeyType) -> Value {
    // A template can produce any value, so strings are always allowed.
    let type_or_template = |name: &str| serde_json::json!({ "type": [name, "string"] });
    match value_type {
        Any => serde_json::json!({}),
        NoEffect => serde_json::json!({ "deprecated": true, "description": "Has no effect." }),
        Text => serde_json::json!({ "type": "string" }),
        Bool => type_or_template("boolean"),
        Integer => type_or_template("integer"),
        Duration => type_or_template("number"),
        List | TextOrList => type_or_template("array"),
        Mapping => type_or_template("object"),
        MapOrList => serde_json::json!({ "type": ["object", "array", "string"] }),
        Words(keywords) => serde_json::json!({
            "anyOf": [{ "enum": keywords }, { "type": "string", "pattern": "\\{[{%]" }]
        }),
    }
}
