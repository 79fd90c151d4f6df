//! Container tool, with a shell script as the container engine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use noetl_tools::sandbox::SandboxMode;
use noetl_tools::{CancellationToken, Settings, ToolCall, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};
use tempfile::TempDir;

use crate::support::{
    is_alive, make_executable, output_text, parse_json, run_call, run_failing, test_settings,
    tool_call, wait_for_pid, wait_until,
};

/// Script of the engine: it stores containers by name, and their images determine their behavior.
/// `STATE` is its folder.
const ENGINE_SCRIPT: &str = r#"#!/bin/sh
echo "$@" >> STATE/log
verb=$1; shift
case "$verb" in
rm)
    for name; do :; done
    if [ -e "STATE/$name" ]; then
        kill -KILL "$(cat "STATE/$name")" 2>/dev/null; rm "STATE/$name"; exit 0
    fi
    echo "Error response from daemon: No such container: $name" >&2; exit 1 ;;
inspect)
    for name; do :; done
    [ -e "STATE/$name" ] || { echo "Error: No such object: $name" >&2; exit 1; }
    case "$(cat STATE/image)" in
    oom) echo '{"OOMKilled":true,"ExitCode":137}' ;;
    *) echo '{"OOMKilled":false}' ;;
    esac ;;
run)
    name=$2; shift 2
    while :; do
        case "$1" in
        --security-opt|--network|--memory|--memory-swap|--cpus|--pids-limit|--label|--mount|--entrypoint) shift 2 ;;
        --env) case "$2" in *=*) ;; *) eval "echo \"$2 is \$$2\"" ;; esac; shift 2 ;;
        *) break ;;
        esac
    done
    image=$1; shift
    [ ! -e "STATE/$name" ] || { echo "docker: Conflict. The name $name is in use" >&2; exit 125; }
    echo "$image" > STATE/image
    case "$image" in
    gone) echo "docker: Error response from daemon: manifest unknown." >&2; exit 125 ;;
    down) echo "docker: Cannot connect to the Docker daemon at unix:///x." >&2; exit 125 ;;
    esac
    sleep 1000 & echo $! > "STATE/$name"
    case "$image" in
    fail) echo "so far"; echo "no luck" >&2; exit 3 ;;
    fail125) echo "my own" >&2; exit 125 ;;
    oom) exit 137 ;;
    loud) head -c 3000000 /dev/zero | tr '\0' x ;;
    endless) trap 'echo stopped; exit 143' TERM; cp "STATE/$name" STATE/pid; wait ;;
    *) for word; do echo "word $word"; done ;;
    esac ;;
esac
"#;

/// An engine, and a toolbox that uses it.
struct ContainerFixture {
    folder: TempDir,
    toolbox: Toolbox,
}

impl ContainerFixture {
    fn new() -> Self {
        Self::with_settings("docker", |_| {})
    }

    fn with_settings(name: &str, configure: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, ENGINE_SCRIPT.replace("STATE", state.to_str().unwrap())).unwrap();
        make_executable(&file);
        let mut settings = test_settings();
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        settings.environment.insert("PATH".into(), path);
        configure(&mut settings);
        Self { folder, toolbox: Toolbox::new(settings) }
    }

    fn state_file(&self, name: &str) -> PathBuf {
        self.folder.path().join("state").join(name)
    }

    /// Returns the calls of the engine, in order.
    fn engine_calls(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.state_file("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    fn container_count(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path().join("state")).unwrap();
        entries
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().starts_with("noetl-")
            })
            .count()
    }
}

fn container_call(config: &str) -> ToolCall {
    tool_call(ToolKind::Container, &parse_json(config))
}

#[tokio::test]
async fn container_runs_to_end_and_is_removed() {
    let fixture = ContainerFixture::new();
    let config = r#"{"image": "plain", "command": ["run", "it"], "args": ["a b", 5],
        "env": {"MINE": "secret", "PATH": "/opt", "discovery.type": "one", "GONE": null, "K": {"value": 7}},
        "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}}, "labels": {"team": "x"}}"#;
    let outcome = run_call(&fixture.toolbox, container_call(config)).await;
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.data.get("exit_code"), Some(&Json::from(0)));
    let stdout = output_text(&outcome, "stdout");
    // Values reach the container through the environment of the client, not its command line.
    assert!(stdout.contains("MINE is secret\n"), "{stdout}");
    assert!(stdout.contains("K is 7\n"), "{stdout}");
    assert!(stdout.contains("NOETL_STEP is greet\n"), "{stdout}");
    assert!(stdout.ends_with("word it\nword a b\nword 5\n"), "{stdout}");

    let calls = fixture.engine_calls();
    assert_eq!(calls.len(), 3, "{calls:?}");
    let run_line = &calls[1];
    assert!(run_line.starts_with("run --name noetl-"), "{run_line}");
    for part in [
        "--memory 67108864 --memory-swap 67108864",
        "--cpus 0.500",
        "--pids-limit 16384",
        "--security-opt no-new-privileges",
        "--label team=x",
        "--label io.noetl.execution=7001",
        "--env MINE ",
        "--env PATH=/opt ",
        "--env discovery.type=one ",
        "--entrypoint run plain it a b 5",
    ] {
        assert!(run_line.contains(part), "{part} is not in {run_line}");
    }
    assert!(!run_line.contains("secret"), "{run_line}");
    assert!(!run_line.contains("GONE"), "{run_line}");
    let is_removal = |line: &str| line.starts_with("rm --force --volumes noetl-");
    assert!(is_removal(&calls[0]) && is_removal(&calls[2]), "{calls:?}");
    assert_eq!(fixture.container_count(), 0);
}

#[tokio::test]
async fn failure_keeps_data_and_reason() {
    let fixture = ContainerFixture::new();
    let run_failing_image = async |image: &str| {
        let config = format!(r#"{{"image": "{image}"}}"#);
        let outcome = run_call(&fixture.toolbox, container_call(&config)).await;
        assert_eq!(fixture.container_count(), 0, "{image}");
        let error = outcome.error.clone().unwrap();
        (outcome, error)
    };
    let (outcome, error) = run_failing_image("fail").await;
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.code, Some(Json::from(3)));
    assert_eq!(error.message, "the container ended with exit code 3: no luck");
    assert_eq!(output_text(&outcome, "stderr"), "no luck\n");
    assert!(output_text(&outcome, "stdout").ends_with("so far\n"));

    let (outcome, error) = run_failing_image("oom").await;
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.details.unwrap().to_string(), r#"{"reason":"OOMKilled"}"#);
    assert_eq!(outcome.data.get("exit_code"), Some(&Json::from(137)));

    assert_eq!(run_failing_image("gone").await.1.kind, TaskErrorKind::NotFound);
    let down = run_failing_image("down").await.1;
    assert_eq!(down.kind, TaskErrorKind::Connection);
    assert!(down.retryable);
    // A container may exit with the code that the engine uses for its own failures.
    let error = run_failing_image("fail125").await.1;
    assert_eq!(error.message, "the container ended with exit code 125: my own");
}

#[tokio::test]
async fn output_is_truncated() {
    let fixture = ContainerFixture::new();
    let outcome = run_call(&fixture.toolbox, container_call(r#"{"image": "loud"}"#)).await;
    assert_eq!(outcome.error, None);
    assert_eq!(output_text(&outcome, "stdout").len(), 1024 * 1024);
    assert_eq!(outcome.data.get("truncated"), Some(&Json::from(true)));
}

/// A container left by a lost worker is removed before the same work begins again.
#[tokio::test]
async fn same_command_never_runs_twice_at_once() {
    let fixture = ContainerFixture::new();
    let (config, file) = (r#"{"image": "endless"}"#, fixture.state_file("pid"));
    let first = tokio::select! {
        outcome = run_call(&fixture.toolbox, container_call(config)) => panic!("it ended: {outcome:?}"),
        pid = wait_for_pid(&file) => pid,
    };
    // The call was dropped, and the container with it.
    wait_until("the container is removed", || fixture.container_count() == 0).await;
    wait_until("its process ends", || !is_alive(first)).await;

    // A killed worker could not remove its container.
    let name = fixture.engine_calls()[1].split(' ').nth(2).unwrap().to_owned();
    let mut leftover = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    std::fs::write(fixture.state_file(&name), leftover.id().to_string()).unwrap();
    let outcome = run_call(&fixture.toolbox, container_call(r#"{"image": "plain"}"#)).await;
    assert_eq!(outcome.error, None);
    assert!(!leftover.wait().unwrap().success());
}

#[tokio::test]
async fn timeout_and_cancellation_stop_container() {
    let fixture = ContainerFixture::new();
    let endless = || container_call(r#"{"image": "endless"}"#);
    let limited = ToolCall { timeout: Duration::from_secs(3), ..endless() };
    let (kind, _) = run_failing(&fixture.toolbox, limited).await;
    assert_eq!(kind, TaskErrorKind::Timeout);
    let pid = wait_for_pid(&fixture.state_file("pid")).await;
    wait_until("the container is removed", || fixture.container_count() == 0).await;
    wait_until("its process ends", || !is_alive(pid)).await;

    std::fs::remove_file(fixture.state_file("pid")).unwrap();
    let cancel = CancellationToken::new();
    let stop = async {
        let pid = wait_for_pid(&fixture.state_file("pid")).await;
        cancel.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(fixture.toolbox.call(endless(), cancel.clone()), stop);
    assert_eq!(outcome.error.as_ref().unwrap().kind, TaskErrorKind::Cancelled);
    // The client is signalled first, so that it can signal the container.
    assert!(output_text(&outcome, "stdout").ends_with("stopped\n"));
    fixture.toolbox.shutdown().await;
    assert_eq!(fixture.container_count(), 0);
    wait_until("its process ends", || !is_alive(pid)).await;
}

#[tokio::test]
async fn mounts_host_and_engine_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let path = folder.to_str().unwrap();
    let fixture = ContainerFixture::new();
    let config = format!(
        r#"{{"image": "plain", "volumes": ["{path}:/in:ro", "cache:/cache",
            {{"host_path": "{path}", "mount_path": "/out"}},
            {{"name": "work", "emptyDir": {{}}}}, {{"name": "host", "hostPath": {{"path": "{path}"}}}}],
            "volume_mounts": [{{"name": "work", "mountPath": "/work"}},
            {{"name": "host", "mountPath": "/h", "readOnly": true}}]}}"#
    );
    let outcome = run_call(&fixture.toolbox, container_call(&config)).await;
    assert_eq!(outcome.error, None);
    let run_line = fixture.engine_calls()[1].clone();
    let mounts = format!(
        "--mount type=bind,source={path},target=/in,readonly \
         --mount type=volume,source=cache,target=/cache \
         --mount type=bind,source={path},target=/out \
         --mount type=volume,target=/work \
         --mount type=bind,source={path},target=/h,readonly"
    );
    assert!(run_line.contains(&mounts), "{run_line}");

    let roots = |settings: &mut Settings| settings.file_roots = Some(vec!["/usr".into()]);
    let restricted = ContainerFixture::with_settings("docker", roots);
    let config = format!(r#"{{"image": "plain", "volumes": ["{path}:/in"]}}"#);
    let (kind, message) = run_failing(&restricted.toolbox, container_call(&config)).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(message.contains("NOETL_FILE_ROOTS"), "{message}");
}

/// The engine runs outside of the sandbox, so a container must not get anything that leads there.
#[tokio::test]
async fn container_cannot_mount_hidden_paths() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let path = |name: &str| folder.join(name);
    for name in ["data/keys", "engine", "out/inner", "link"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    std::os::unix::fs::symlink(path("data"), path("link/data")).unwrap();
    std::fs::write(path("engine/my.sock"), "").unwrap();
    let fixture = |mode: SandboxMode| {
        ContainerFixture::with_settings("docker", |settings| {
            settings.sandbox.mode = mode;
            settings.sandbox.hidden = vec![path("data")];
            settings.sandbox.writable = vec![path("out")];
            let engine = format!("unix://{}", path("engine/my.sock").display());
            let environment = &mut settings.container.environment;
            environment.insert("DOCKER_HOST".into(), engine);
        })
    };
    let mount = |folder: &Path| {
        let folder = folder.display();
        format!(r#"{{"image": "plain", "volumes": ["{folder}:/in"]}}"#)
    };
    let (off, sandboxed) = (fixture(SandboxMode::Off), fixture(SandboxMode::BestEffort));
    for hidden in [path("data"), path("data/keys"), path("link/data")] {
        for fixture in [&off, &sandboxed] {
            let part = "belongs to the platform";
            assert_rejected(fixture, &mount(&hidden), TaskErrorKind::Auth, part).await;
        }
    }
    for parent in [folder.clone(), PathBuf::from("/")] {
        let part = "belongs to the platform";
        assert_rejected(&sandboxed, &mount(&parent), TaskErrorKind::Auth, part).await;
    }
    for socket in [path("engine"), path("engine/my.sock"), "/run".into()] {
        let part = "a socket of the worker's host";
        assert_rejected(&sandboxed, &mount(&socket), TaskErrorKind::Auth, part).await;
    }
    assert!(sandboxed.engine_calls().is_empty());
    // A task can replace a path inside a folder that it can write to by a link, which the engine
    // would follow after the check.
    let strict = fixture(SandboxMode::Strict);
    for fixture in [&sandboxed, &strict] {
        for unlisted in [path("link"), path("out/inner")] {
            let part = "name this path itself in NOETL_SANDBOX_WRITABLE";
            assert_rejected(fixture, &mount(&unlisted), TaskErrorKind::Auth, part).await;
        }
        let outcome = run_call(&fixture.toolbox, container_call(&mount(&path("out")))).await;
        assert_eq!(outcome.error, None);
    }
    for allowed in [folder.clone(), path("out/inner")] {
        let outcome = run_call(&off.toolbox, container_call(&mount(&allowed))).await;
        assert_eq!(outcome.error, None);
    }
}

#[tokio::test]
async fn offline_worker_runs_offline_container() {
    for is_offline in [true, false] {
        let configure = |settings: &mut Settings| settings.sandbox.is_offline = is_offline;
        let fixture = ContainerFixture::with_settings("docker", configure);
        let outcome = run_call(&fixture.toolbox, container_call(r#"{"image": "plain"}"#)).await;
        assert_eq!(outcome.error, None);
        let calls = fixture.engine_calls();
        let run_line = calls.iter().find(|line| line.starts_with("run")).unwrap();
        assert_eq!(run_line.contains(" --network none "), is_offline, "{run_line}");
    }
}

#[tokio::test]
async fn operator_chooses_engine_and_images() {
    let podman = ContainerFixture::with_settings("podman", |settings| {
        settings.container.images = Some(vec!["team/*".into(), "plain".into()]);
        settings.container.engine = Some("podman".into());
    });
    for image in ["team/a:1", "plain"] {
        let config = format!(r#"{{"image": "{image}", "runtime": "local"}}"#);
        assert_eq!(run_call(&podman.toolbox, container_call(&config)).await.error, None);
    }
    let (kind, message) =
        run_failing(&podman.toolbox, container_call(r#"{"image": "plain2"}"#)).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(message.contains("'plain2'"), "{message}");

    let empty_dir = tempfile::tempdir().unwrap();
    let toolbox_without_engine = |path: &Path, engine: Option<&str>| {
        let mut settings = test_settings();
        let path = path.display().to_string();
        settings.environment.insert("PATH".into(), path);
        settings.container.engine = engine.map(str::to_owned);
        Toolbox::new(settings)
    };
    let plain = || container_call(r#"{"image": "plain"}"#);
    let (kind, message) =
        run_failing(&toolbox_without_engine(empty_dir.path(), None), plain()).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
    assert!(message.contains("docker or podman"), "{message}");
    let (kind, message) =
        run_failing(&toolbox_without_engine(empty_dir.path(), Some("nerdctl")), plain()).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
    assert!(message.contains("'nerdctl'"), "{message}");
}

#[tokio::test]
async fn invalid_config_is_rejected_with_reason() {
    let fixture = ContainerFixture::new();
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'image' is missing"),
        (r#"{"image": "--privileged"}"#, TaskErrorKind::Parse, "not a valid image name"),
        (r#"{"image": "i", "runtime": "kubernetes"}"#, TaskErrorKind::Unsupported, "on Kubernetes"),
        (r#"{"image": "i", "runtime": "x"}"#, TaskErrorKind::Parse, "'x'"),
        (r#"{"image": "i", "callback": true}"#, TaskErrorKind::Unsupported, "'callback'"),
        (
            r#"{"image": "i", "env": [{"name": "A", "value_from": {"secret": "s"}}]}"#,
            TaskErrorKind::Unsupported,
            "'env.A'",
        ),
        (r#"{"image": "i", "env": [{"value": 1}]}"#, TaskErrorKind::Schema, "'env.name'"),
        (r#"{"image": "i", "env": {"A": [1]}}"#, TaskErrorKind::Schema, "'env.A'"),
        (r#"{"image": "i", "resources": {"memory": "much"}}"#, TaskErrorKind::Parse, "'much'"),
    ] {
        assert_rejected(&fixture, config, kind, part).await;
    }
    assert!(fixture.engine_calls().is_empty());
}

async fn assert_rejected(
    fixture: &ContainerFixture,
    config: &str,
    kind: TaskErrorKind,
    part: &str,
) {
    let (actual, message) = run_failing(&fixture.toolbox, container_call(config)).await;
    assert_eq!(actual, kind, "{message}");
    assert!(message.contains(part), "{message}");
}

#[tokio::test]
async fn invalid_mount_is_rejected_with_reason() {
    let fixture = ContainerFixture::new();
    for (config, kind, part) in [
        (r#"{"image": "i", "volumes": ["x"]}"#, TaskErrorKind::Parse, "'x'"),
        (r#"{"image": "i", "volumes": ["../x:/y"]}"#, TaskErrorKind::Parse, "not an absolute path"),
        (
            r#"{"image": "i", "volumes": ["v,readonly:/y"]}"#,
            TaskErrorKind::Parse,
            "cannot be mounted",
        ),
        (
            r#"{"image": "i", "volumes": ["/no/such/folder:/y"]}"#,
            TaskErrorKind::NotFound,
            "/no/such/folder",
        ),
        (
            r#"{"image": "i", "volume_mounts": [{"name": "n", "mount_path": "/y"}]}"#,
            TaskErrorKind::Parse,
            "'n'",
        ),
        (
            r#"{"image": "i", "volumes": [{"name": "n", "config_map": {}}],
                "volume_mounts": [{"name": "n", "mount_path": "/y"}]}"#,
            TaskErrorKind::Unsupported,
            "Kubernetes",
        ),
    ] {
        assert_rejected(&fixture, config, kind, part).await;
    }
    assert!(fixture.engine_calls().is_empty());
}
