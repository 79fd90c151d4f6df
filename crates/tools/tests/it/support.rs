//! What the tests share: calls from JSON, toolboxes, and waiting for things to happen.

use std::path::Path;
use std::time::Duration;

use noetl_tools::{Call, CancellationToken, Outcome, Settings, ToolKind, Toolbox};
use noetl_types::{Json, JsonMap, TaskErrorKind, json};

/// Long enough that it never decides a test that passes.
const LONG: Duration = Duration::from_mins(2);

pub(crate) fn value(text: &str) -> Json {
    json::parse(text.as_bytes()).unwrap()
}

pub(crate) fn call(kind: ToolKind, config: &Json) -> Call {
    Call {
        kind,
        config: config.as_map().unwrap().clone(),
        input: JsonMap::new(),
        execution_id: "7001".into(),
        command: "7002".into(),
        step: "greet".into(),
        label: "greet".into(),
        idempotency_key: "7001:4:greet:1".into(),
        attempt: 1,
        timeout: LONG,
        context: Json::empty_map(),
        variables: Json::Null,
    }
}

pub(crate) fn settings() -> Settings {
    Settings::default().with_environment(std::env::vars(), &[])
}

pub(crate) fn toolbox() -> Toolbox {
    Toolbox::new(settings())
}

/// A toolbox with one interpreter at most, so that calls follow each other in it.
pub(crate) fn one_interpreter() -> Toolbox {
    let mut settings = settings();
    settings.python.pool_size = 1;
    Toolbox::new(settings)
}

pub(crate) fn python(code: &str) -> Call {
    call(
        ToolKind::Python,
        &Json::object([("code", Json::from(code))]),
    )
}

pub(crate) fn python_with(code: &str, input: &str) -> Call {
    Call {
        input: value(input).as_map().unwrap().clone(),
        ..python(code)
    }
}

pub(crate) fn shell(command: &str) -> Call {
    call(
        ToolKind::Shell,
        &Json::object([("command", Json::from(command))]),
    )
}

pub(crate) async fn run(toolbox: &Toolbox, call: Call) -> Outcome {
    toolbox.call(call, CancellationToken::new()).await
}

/// The data of a call that must go well, as text.
pub(crate) async fn data(toolbox: &Toolbox, call: Call) -> String {
    let outcome = run(toolbox, call).await;
    assert_eq!(outcome.error, None);
    outcome.data.to_string()
}

/// The kind and message of a call that must fail.
pub(crate) async fn error(toolbox: &Toolbox, call: Call) -> (TaskErrorKind, String) {
    let outcome = run(toolbox, call).await;
    let error = outcome.error.expect("the call went well");
    (error.kind, error.message.to_string())
}

pub(crate) fn text(outcome: &Outcome, key: &str) -> String {
    let value = outcome.data.get(key).and_then(Json::as_str);
    value
        .unwrap_or_else(|| panic!("no '{key}' in {}", outcome.data))
        .to_owned()
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let wait = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), wait).await;
    assert!(waited.is_ok(), "it never happened: {what}");
}

/// Waits for a file to hold a number, the id of a process.
pub(crate) async fn pid_in(file: &Path) -> u32 {
    let read = || std::fs::read_to_string(file).ok()?.trim().parse().ok();
    until("a process writes its id", || read().is_some()).await;
    read().unwrap()
}

/// Whether a process runs; one that only waits to be buried does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Lets a file be run.
pub(crate) fn make_executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}
