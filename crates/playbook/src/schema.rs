//! JSON Schema of the language, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::model::{
    ExecutorConfig, FrameSpec, KeychainEntry, LoopSpec, OutputSpec, Playbook, StepPolicy, TaskSpec,
    WorkbookTask,
};

/// Implements `JsonSchema` for a type whose written form differs from its fields.
macro_rules! impl_schema {
    ($type:ty, $name:literal, |$generator:tt| $schema:expr) => {
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}

pub(crate) use impl_schema;

/// Returns the JSON Schema (draft 2020-12) of playbooks.
pub fn json_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<Playbook>().to_value();
    schema["title"] = json!("NoETL playbook");
    add_deprecated_forms(&mut schema);
    schema
}

/// Adds deprecated spellings to the schema. They are not part of the model, but a file that
/// contains them is still a valid playbook.
fn add_deprecated_forms(schema: &mut Value) {
    let deprecated = |description: &str| json!({ "deprecated": true, "description": description });
    let step = &mut schema["$defs"]["Step"]["properties"];
    step["args"] = deprecated("Deprecated: use `input`.");
    let spec = &mut schema["$defs"]["StepSpec"]["properties"];
    spec["next_mode"] = deprecated("Deprecated: use `next.spec.mode`.");
    spec["on_error"] = deprecated("Deprecated: has no effect.");
    let lifecycle = &mut schema["$defs"]["Lifecycle"]["properties"];
    lifecycle["timeout_s"] = deprecated("Deprecated: use `spec.timeout`.");
    let arc = &mut schema["$defs"]["RouteArc"]["properties"];
    arc["args"] = deprecated("Deprecated: use `set`.");
    let keychain = &mut schema["$defs"]["KeychainEntry"]["properties"];
    keychain["credential"] = deprecated("Deprecated: use `auth`.");
    // A workbook may also be a map under `tasks`.
    let workbook = schema["properties"]["workbook"].take();
    schema["properties"]["workbook"] = json!({
        "anyOf": [workbook, { "type": "object", "properties": { "tasks": { "type": "object" } } }]
    });
    for (definition, keys) in [
        ("ExecutorConfig", ExecutorConfig::KEYS_WITHOUT_EFFECT.as_slice()),
        ("FrameSpec", &FrameSpec::KEYS_WITHOUT_EFFECT),
        ("KeychainEntry", &KeychainEntry::KEYS_WITHOUT_EFFECT),
        ("LoopSpec", &LoopSpec::KEYS_WITHOUT_EFFECT),
        ("OutputSpec", &OutputSpec::KEYS_WITHOUT_EFFECT),
        ("StepPolicy", &StepPolicy::KEYS_WITHOUT_EFFECT),
        ("TaskSpec", &TaskSpec::KEYS_WITHOUT_EFFECT),
        ("WorkbookTask", &WorkbookTask::KEYS_WITHOUT_EFFECT),
    ] {
        for key in keys {
            schema["$defs"][definition]["properties"][*key] = deprecated("Has no effect.");
        }
    }
    for (definition, keyword) in [("KeychainKind", "secrets"), ("NoMatch", "quiet")] {
        if let Some(keywords) = schema["$defs"][definition]["enum"].as_array_mut() {
            keywords.push(json!(keyword));
        }
    }
}
