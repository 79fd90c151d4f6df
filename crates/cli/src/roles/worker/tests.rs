use std::path::Path;

use noetl_tools::{CancellationToken, ToolCall, ToolKind};
use noetl_types::{JsonMap, TaskError, TaskErrorKind};

use super::*;
use crate::config::GivenSettings;

#[test]
fn egress_allows_server_port() {
    let allowed = |url: &str| format!("{:?}", egress_rules_for(url));
    assert!(allowed("http://noetl-server:8082").contains("noetl-server"));
    assert!(allowed("http://noetl-server:8082").contains("8082"));
    assert!(allowed("https://noetl.example/base").contains("443"));
    assert!(allowed("http://10.0.0.7").contains("80"));
}

/// Opens a file from a task of a worker with these settings. Returns the error kind.
async fn open_file_as_task(
    settings: &[(&str, String)],
    trust: CodeTrust,
    file: &Path,
) -> Option<TaskErrorKind> {
    let variables = settings.iter().map(|(name, value)| (*name, &**value));
    let env: Env = variables.collect();
    let config = Config::load(&GivenSettings::default(), &env).unwrap();
    let toolbox = build_toolbox(&config, &env, trust, PlatformToolSettings::default()).unwrap();
    let file = file.display().to_string();
    let config = JsonMap::from([
        ("database".into(), Json::from(file)),
        ("query".into(), Json::from("SELECT 1")),
    ]);
    let call = sample_call(ToolKind::Sqlite, config);
    let outcome = toolbox.call(call, CancellationToken::new()).await;
    outcome.error.map(|error| error.kind)
}

fn sample_call(kind: ToolKind, config: JsonMap) -> ToolCall {
    ToolCall {
        kind,
        config,
        input: JsonMap::new(),
        execution_id: "1".into(),
        command: "2".into(),
        step: "s".into(),
        label: "s".into(),
        idempotency_key: "k".into(),
        attempt: 1,
        timeout: std::time::Duration::from_mins(1),
        context: Json::empty_map(),
        variables: Json::Null,
    }
}

/// Runs a failing task on a worker with these settings and returns its error.
async fn run_failing_task(settings: &[(&str, &str)], kind: ToolKind, config: &str) -> TaskError {
    let env: Env = settings.iter().copied().chain([("PATH", "/usr/bin:/bin")]).collect();
    let loaded = Config::load(&GivenSettings::default(), &env).unwrap();
    let toolbox =
        build_toolbox(&loaded, &env, CodeTrust::Trusted, PlatformToolSettings::default()).unwrap();
    let config = noetl_types::json::parse(config.as_bytes()).unwrap();
    let outcome = toolbox
        .call(sample_call(kind, config.as_map().unwrap().clone()), CancellationToken::new())
        .await;
    toolbox.shutdown().await;
    outcome.error.unwrap()
}

#[tokio::test]
async fn task_limits_come_from_settings() {
    let limits = [("NOETL_TASK_MEMORY", "512MiB"), ("NOETL_TASK_FILE_SIZE", "1MiB")];
    for (kind, config) in [
        (ToolKind::Python, r#"{"code": "result = bytearray(2 << 30)"}"#),
        (ToolKind::Shell, r#"{"command": "python3 -c 'bytearray(2 << 30)'"}"#),
    ] {
        let error = run_failing_task(&limits, kind, config).await;
        let limit = "may use 512MiB of memory (NOETL_TASK_MEMORY)";
        assert!(error.message.ends_with(limit), "{}", error.message);
    }
    let write = r#"{"command": "head -c 2000000 /dev/zero > large"}"#;
    let error = run_failing_task(&limits, ToolKind::Shell, write).await;
    let limit = "may be up to 1MiB (NOETL_TASK_FILE_SIZE)";
    assert!(error.message.ends_with(limit), "{}", error.message);
    let oversized = r#"{"image": "alpine", "resources": {"memory": "1Gi"}}"#;
    let error = run_failing_task(&limits, ToolKind::Container, oversized).await;
    assert!(error.message.contains("the limit is 512MiB (NOETL_TASK_MEMORY)"), "{}", error.message);
}

#[test]
fn default_memory_limit_depends_on_machine() {
    let env: Env = std::iter::empty::<(&str, &str)>().collect();
    let config = Config::load(&GivenSettings::default(), &env).unwrap();
    assert_eq!(task_limits(&config, CodeTrust::Trusted).unwrap(), ProcessLimits::default());
    let memory = task_limits(&config, CodeTrust::Untrusted).unwrap().memory.unwrap();
    assert!((MIN_TASK_MEMORY..=MAX_TASK_MEMORY).contains(&memory), "{memory}");
}

#[tokio::test]
async fn images_and_mcp_servers_are_allow_listed() {
    let images = [("NOETL_CONTAINER_IMAGES", "alpine:3,registry.example.com/team/*")];
    for image in ["alpine:latest", "registry.example.com/other/tool"] {
        let config = format!(r#"{{"image": "{image}"}}"#);
        let error = run_failing_task(&images, ToolKind::Container, &config).await;
        assert_eq!(error.kind, TaskErrorKind::Auth, "{}", error.message);
        assert!(error.message.contains("NOETL_CONTAINER_IMAGES"));
    }
    // The port is closed, so a known name fails with a connection error.
    let closed_listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = format!(
        "other=http://localhost/mcp, here=http://{}/mcp",
        closed_listener.local_addr().unwrap()
    );
    drop(closed_listener);
    let servers = [("NOETL_MCP_SERVERS", &*servers)];
    let list_tools = |server: &str| format!(r#"{{"server": "{server}", "method": "tools/list"}}"#);
    let error = run_failing_task(&servers, ToolKind::Mcp, &list_tools("here")).await;
    assert_eq!(error.kind, TaskErrorKind::Connection, "{}", error.message);
    let error = run_failing_task(&servers, ToolKind::Mcp, &list_tools("there")).await;
    assert_eq!(error.kind, TaskErrorKind::NotFound, "{}", error.message);
    assert!(error.message.contains("NOETL_MCP_SERVERS"));
}

#[tokio::test]
async fn tasks_cannot_open_platform_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let text = |name: &str| path(name).display().to_string();
    for name in ["data", "open"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    let data = ("NOETL_DATA_DIR", text("data"));
    let denied = Some(TaskErrorKind::Auth);
    for trust in [CodeTrust::Trusted, CodeTrust::Untrusted] {
        let writable = ("NOETL_SANDBOX_WRITABLE", dir.path().display().to_string());
        let store = ("NOETL_STORE", format!("sqlite:{}", text("my.db")));
        let settings = [data.clone(), store, writable];
        for file in ["data/noetl.db", "data/noetl.key", "my.db", "my.key"] {
            assert_eq!(open_file_as_task(&settings, trust, &path(file)).await, denied, "{file}");
        }
        assert_eq!(open_file_as_task(&settings, trust, &path("other.db")).await, None);
        let settings = [data.clone(), ("NOETL_FILE_ROOTS", text("open"))];
        assert_eq!(open_file_as_task(&settings, trust, &path("open/a.db")).await, None);
        assert_eq!(open_file_as_task(&settings, trust, &path("other.db")).await, denied);
    }
    // Tasks of shared workers cannot access files that the operator has not named.
    let neighbour = path("neighbour.db");
    std::fs::write(&neighbour, "").unwrap();
    assert_eq!(open_file_as_task(&[], CodeTrust::Untrusted, &neighbour).await, denied);
    assert_eq!(open_file_as_task(&[], CodeTrust::Trusted, &neighbour).await, None);
    // Local runs may store files next to the database. Tasks of shared workers cannot access that directory.
    let user_file = path("data/mine.db");
    let data = [data];
    assert_eq!(open_file_as_task(&data, CodeTrust::Trusted, &user_file).await, None);
    assert_eq!(open_file_as_task(&data, CodeTrust::Untrusted, &user_file).await, denied);
}

#[test]
fn rejects_virtual_environment_without_interpreter() {
    let dir = tempfile::tempdir().unwrap();
    let load = || {
        let path = dir.path().display().to_string();
        let env: Env = [("VIRTUAL_ENV", &*path)].into_iter().collect();
        let config = Config::load(&GivenSettings::default(), &env).unwrap();
        let platform = PlatformToolSettings::default();
        tool_settings(&config, &env, CodeTrust::Untrusted, platform)
    };
    let error = load().unwrap_err().to_string();
    assert!(error.starts_with("VIRTUAL_ENV is "), "{error}");
    assert!(error.contains("python3 -m venv"), "{error}");
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    std::fs::write(dir.path().join("bin/python"), "").unwrap();
    let settings = load().unwrap();
    let interpreter = dir.path().join("bin/python").display().to_string();
    assert_eq!(settings.python.interpreter, interpreter);
}
