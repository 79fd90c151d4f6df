//! Shared helpers: calls from JSON, toolboxes, and polling.

use std::path::Path;
use std::time::Duration;

use noetl_tools::{CancellationToken, Settings, ToolCall, ToolKind, ToolOutcome, Toolbox};
use noetl_types::{Json, JsonMap, TaskErrorKind, json};

/// Timeout that a passing test never reaches.
const CALL_TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) fn parse_json(text: &str) -> Json {
    json::parse(text.as_bytes()).unwrap()
}

pub(crate) fn tool_call(kind: ToolKind, config: &Json) -> ToolCall {
    ToolCall {
        kind,
        config: config.as_map().unwrap().clone(),
        input: JsonMap::new(),
        execution_id: "7001".into(),
        command: "7002".into(),
        step: "greet".into(),
        label: "greet".into(),
        idempotency_key: "7001:4:greet:1".into(),
        attempt: 1,
        timeout: CALL_TIMEOUT,
        context: Json::empty_map(),
        variables: Json::Null,
    }
}

pub(crate) fn test_settings() -> Settings {
    Settings::default().with_environment(std::env::vars(), &[])
}

pub(crate) fn test_toolbox() -> Toolbox {
    Toolbox::new(test_settings())
}

/// Creates a toolbox with at most one interpreter, so that calls run in sequence in it.
pub(crate) fn single_interpreter_toolbox() -> Toolbox {
    let mut settings = test_settings();
    settings.python.pool_size = 1;
    Toolbox::new(settings)
}

pub(crate) fn python_call(code: &str) -> ToolCall {
    tool_call(ToolKind::Python, &Json::object([("code", Json::from(code))]))
}

pub(crate) fn python_call_with_input(code: &str, input: &str) -> ToolCall {
    ToolCall { input: parse_json(input).as_map().unwrap().clone(), ..python_call(code) }
}

pub(crate) fn shell_call(command: &str) -> ToolCall {
    tool_call(ToolKind::Shell, &Json::object([("command", Json::from(command))]))
}

pub(crate) async fn run_call(toolbox: &Toolbox, call: ToolCall) -> ToolOutcome {
    toolbox.call(call, CancellationToken::new()).await
}

/// Returns the data of a call that must succeed, as text.
pub(crate) async fn run_data(toolbox: &Toolbox, call: ToolCall) -> String {
    let outcome = run_call(toolbox, call).await;
    assert_eq!(outcome.error, None);
    outcome.data.to_string()
}

/// Returns the kind and message of a call that must fail.
pub(crate) async fn run_failing(toolbox: &Toolbox, call: ToolCall) -> (TaskErrorKind, String) {
    let outcome = run_call(toolbox, call).await;
    let error = outcome.error.expect("the call succeeded");
    (error.kind, error.message.to_string())
}

pub(crate) fn output_text(outcome: &ToolOutcome, key: &str) -> String {
    let value = outcome.data.get(key).and_then(Json::as_str);
    value.unwrap_or_else(|| panic!("no '{key}' in {}", outcome.data)).to_owned()
}

/// Waits until a condition is true.
pub(crate) async fn wait_until(description: &str, mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), wait).await;
    assert!(waited.is_ok(), "timed out: {description}");
}

/// Waits until a file contains a process id.
pub(crate) async fn wait_for_pid(file: &Path) -> u32 {
    let read = || std::fs::read_to_string(file).ok()?.trim().parse().ok();
    wait_until("a process writes its id", || read().is_some()).await;
    read().unwrap()
}

/// True if a process runs. A zombie does not count.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

pub(crate) fn make_executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}
