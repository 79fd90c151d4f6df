//! The JSON Schema of a task, from the table.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::KeyType::{
    Any, Bool, Duration, Integer, List, Map as Mapping, MapOrList, Text, TextOrList, Words,
};
use super::{Build, KeyType, ToolKind};
use crate::model::output::OutputSpec;
use crate::model::set::Set;
use crate::model::tool::TaskSpec;

/// The schema of a task: the keys of every task, and for each kind its own.
pub(in crate::model) fn task_schema(generator: &mut SchemaGenerator) -> Schema {
    let kinds: Vec<&str> = ToolKind::WORDS
        .iter()
        .copied()
        .chain(["snowflake_transfer"])
        .collect();
    let by_kind: Vec<Value> = ToolKind::WORDS
        .iter()
        .filter_map(|word| ToolKind::parse(word))
        .filter(|kind| kind.spec().build != Build::Reserved)
        .map(kind_schema)
        .collect();
    let set = generator.subschema_for::<Set>();
    let spec = generator.subschema_for::<TaskSpec>();
    let output = generator.subschema_for::<OutputSpec>();
    json_schema!({
        "type": "object",
        "properties": {
            "kind": { "enum": kinds },
            "name": { "type": "string", "description": "The label of the task in its pipeline." },
            "auth": { "description": "A credential: its alias, a template of one, or a map." },
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
        properties.insert(key.name.to_owned(), key_schema(key.takes));
        for alias in key.aliases {
            properties.insert(
                (*alias).to_owned(),
                serde_json::json!({ "deprecated": true }),
            );
        }
    }
    serde_json::json!({
        "if": { "properties": { "kind": { "const": kind.as_str() } }, "required": ["kind"] },
        "then": { "properties": properties }
    })
}

fn key_schema(takes: KeyType) -> Value {
    // A template may stand for anything, so texts are always welcome.
    let of = |name: &str| serde_json::json!({ "type": [name, "string"] });
    match takes {
        Any => serde_json::json!({}),
        Text => serde_json::json!({ "type": "string" }),
        Bool => of("boolean"),
        Integer => of("integer"),
        Duration => of("number"),
        List | TextOrList => of("array"),
        Mapping => of("object"),
        MapOrList => serde_json::json!({ "type": ["object", "array", "string"] }),
        Words(words) => serde_json::json!({
            "anyOf": [{ "enum": words }, { "type": "string", "pattern": "\\{[{%]" }]
        }),
    }
}
