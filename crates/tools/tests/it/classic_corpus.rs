//! The recorded calls of published workers: our own tools report the same data for them.

use std::path::PathBuf;

use noetl_tools::ToolKind;
use noetl_types::{Json, JsonMap};

use crate::support::{parse_json, run_call, test_toolbox, tool_call};

/// Kinds that need no other service.
const LOCAL_KINDS: [ToolKind; 5] =
    [ToolKind::Noop, ToolKind::Python, ToolKind::Shell, ToolKind::Script, ToolKind::Sqlite];

/// Files whose data comes from elsewhere than the call.
const SKIPPED_PREFIXES: [&str; 2] = ["reference_", "shell_timeout"];

#[tokio::test]
async fn recorded_data_is_that_of_own_tools() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testkit/corpus/classic");
    let toolbox = test_toolbox();
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let recorded = parse_json(&std::fs::read_to_string(&path).unwrap());
        let task = recorded.get("task").and_then(Json::as_map).unwrap();
        let kind = task.get("kind").and_then(Json::as_str).unwrap();
        let kind = LOCAL_KINDS.into_iter().find(|local| local.as_str() == kind);
        let is_skipped = SKIPPED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let Some(kind) = kind.filter(|_| !is_skipped) else {
            continue;
        };
        let config = task.iter().filter(|(key, _)| &***key != "kind");
        let config = Json::object(config.map(|(key, value)| (key.clone(), value.clone())));
        let outcome = run_call(&toolbox, tool_call(kind, &config)).await;
        let error = outcome
            .error
            .as_ref()
            .map(|error| (Json::from(error.kind.as_str()), error.code.clone().unwrap_or_default()));
        let expected = recorded.get("error").filter(|error| !error.is_null()).map(|error| {
            let field = |name: &str| error.get(name).cloned().unwrap_or_default();
            (field("kind"), field("code"))
        });
        assert_eq!(
            error.as_ref().map(|error| &error.0),
            expected.as_ref().map(|error| &error.0),
            "{name}"
        );
        compared += 1;
        let data = recorded.get("data").unwrap();
        if kind == ToolKind::Sqlite && expected.is_some() {
            // The published worker names neither the statement nor its code.
            continue;
        }
        assert_eq!(error, expected, "{name}");
        if expected.is_some() && kind == ToolKind::Python {
            // The traceback is in another place.
            assert_eq!(keys(&outcome.data), keys(data), "{name}");
        } else {
            assert_eq!(without_duration(&outcome.data), without_duration(data), "{name}");
        }
    }
    assert!(compared > 10, "{compared}");
}

fn keys(data: &Json) -> Vec<String> {
    data.as_map().unwrap().keys().map(ToString::to_string).collect()
}

fn without_duration(data: &Json) -> Json {
    let Some(map) = data.as_map() else {
        return data.clone();
    };
    let mut map: JsonMap = map.clone();
    map.remove("execution_time");
    Json::from(map)
}
