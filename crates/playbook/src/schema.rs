//! JSON Schema of the language, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::model::{Playbook, Schedule, Subscription};
use crate::words;

words! {
    /// A kind of document that has a schema.
    pub enum SchemaOf {
        /// A workflow.
        Playbook = "playbook",
        /// A source of messages.
        Subscription = "subscription",
        /// A clock.
        Schedule = "schedule",
    }
}

/// The schema of a kind of document (JSON Schema, draft 2020-12).
pub fn json_schema(of: SchemaOf) -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let schema = match of {
        SchemaOf::Playbook => generator.into_root_schema_for::<Playbook>(),
        SchemaOf::Subscription => generator.into_root_schema_for::<Subscription>(),
        SchemaOf::Schedule => generator.into_root_schema_for::<Schedule>(),
    };
    let mut schema = schema.to_value();
    schema["title"] = json!(format!("NoETL {of}"));
    if of == SchemaOf::Playbook {
        accept_old_forms(&mut schema);
    }
    schema
}

/// Old spellings are no part of the model, but a file that has them is still a playbook.
fn accept_old_forms(schema: &mut Value) {
    let old = |description: &str| json!({ "deprecated": true, "description": description });
    let step = &mut schema["$defs"]["Step"]["properties"];
    step["args"] = old("Old form of `input`.");
    let spec = &mut schema["$defs"]["StepSpec"]["properties"];
    spec["next_mode"] = old("Old form of `next.spec.mode`.");
    spec["on_error"] = old("Has no effect.");
    let lifecycle = &mut schema["$defs"]["Lifecycle"]["properties"];
    lifecycle["timeout_s"] = old("The same as `spec.timeout`.");
    let arc = &mut schema["$defs"]["RouteArc"]["properties"];
    arc["args"] = old("Old form of `set`.");
    let keychain = &mut schema["$defs"]["KeychainEntry"]["properties"];
    keychain["credential"] = old("The same as `auth`.");
    // A workbook may also be a map under `tasks`.
    let workbook = schema["properties"]["workbook"].take();
    schema["properties"]["workbook"] = json!({
        "anyOf": [workbook, { "type": "object", "properties": { "tasks": { "type": "object" } } }]
    });
    for (definition, words) in [
        ("KeychainKind", "secrets"),
        ("KeychainScope", "catalog"),
        ("NoMatch", "quiet"),
    ] {
        if let Some(known) = schema["$defs"][definition]["enum"].as_array_mut() {
            known.push(json!(words));
        }
    }
}
