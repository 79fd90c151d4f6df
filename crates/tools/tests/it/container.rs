//! Containers, with an engine that is a script of the test's own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use noetl_tools::walls::SandboxMode;
use noetl_tools::{Call, CancellationToken, Settings, ToolKind, Toolbox};
use noetl_types::{Json, TaskErrorKind};
use tempfile::TempDir;

use crate::support::{
    call, error, is_alive, make_executable, pid_in, run, settings, text, until, value,
};

/// What an engine does, as far as the tool can tell: it keeps containers by name, and their images
/// say how they behave. `STATE` is its folder.
const ENGINE: &str = r#"#!/bin/sh
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

/// An engine and the toolbox that finds it.
struct House {
    folder: TempDir,
    toolbox: Toolbox,
}

impl House {
    fn new() -> Self {
        Self::with("docker", |_| {})
    }

    fn with(name: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, ENGINE.replace("STATE", state.to_str().unwrap())).unwrap();
        make_executable(&file);
        let mut settings = settings();
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        settings.environment.insert("PATH".into(), path);
        change(&mut settings);
        Self {
            folder,
            toolbox: Toolbox::new(settings),
        }
    }

    fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join("state").join(name)
    }

    /// What the engine was asked, in order.
    fn asked(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.state("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    fn containers(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path().join("state")).unwrap();
        entries
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().starts_with("noetl-")
            })
            .count()
    }
}

fn container(config: &str) -> Call {
    call(ToolKind::Container, &value(config))
}

#[tokio::test]
async fn a_container_runs_to_its_end_and_goes() {
    let house = House::new();
    let config = r#"{"image": "plain", "command": ["run", "it"], "args": ["a b", 5],
        "env": {"MINE": "secret", "PATH": "/opt", "discovery.type": "one", "GONE": null, "K": {"value": 7}},
        "resources": {"limits": {"memory": "64Mi", "cpu": "500m"}}, "labels": {"team": "x"}}"#;
    let outcome = run(&house.toolbox, container(config)).await;
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.data.get("exit_code"), Some(&Json::from(0)));
    let said = text(&outcome, "stdout");
    // Values reach the container by the environment of the client, not by its command line.
    assert!(said.contains("MINE is secret\n"), "{said}");
    assert!(said.contains("K is 7\n"), "{said}");
    assert!(said.contains("NOETL_STEP is greet\n"), "{said}");
    assert!(said.ends_with("word it\nword a b\nword 5\n"), "{said}");

    let asked = house.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    let order = &asked[1];
    assert!(order.starts_with("run --name noetl-"), "{order}");
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
        assert!(order.contains(part), "{part} is not in {order}");
    }
    assert!(!order.contains("secret"), "{order}");
    assert!(!order.contains("GONE"), "{order}");
    let removal = |line: &str| line.starts_with("rm --force --volumes noetl-");
    assert!(removal(&asked[0]) && removal(&asked[2]), "{asked:?}");
    assert_eq!(house.containers(), 0);
}

#[tokio::test]
async fn failures_keep_their_data_and_reason() {
    let house = House::new();
    let fails = async |image: &str| {
        let config = format!(r#"{{"image": "{image}"}}"#);
        let outcome = run(&house.toolbox, container(&config)).await;
        assert_eq!(house.containers(), 0, "{image}");
        let error = outcome.error.clone().unwrap();
        (outcome, error)
    };
    let (outcome, error) = fails("fail").await;
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(error.code, Some(Json::from(3)));
    assert_eq!(
        error.message,
        "the container ended with exit code 3: no luck"
    );
    assert_eq!(text(&outcome, "stderr"), "no luck\n");
    assert!(text(&outcome, "stdout").ends_with("so far\n"));

    let (outcome, error) = fails("oom").await;
    assert_eq!(error.kind, TaskErrorKind::Transform);
    assert_eq!(
        error.details.unwrap().to_string(),
        r#"{"reason":"OOMKilled"}"#
    );
    assert_eq!(outcome.data.get("exit_code"), Some(&Json::from(137)));

    assert_eq!(fails("gone").await.1.kind, TaskErrorKind::NotFound);
    let down = fails("down").await.1;
    assert_eq!(down.kind, TaskErrorKind::Connection);
    assert!(down.retryable);
    // A container may end with the code by which the engine tells of its own failures.
    let own = fails("fail125").await.1;
    assert_eq!(
        own.message,
        "the container ended with exit code 125: my own"
    );
}

#[tokio::test]
async fn outputs_are_cut() {
    let house = House::new();
    let outcome = run(&house.toolbox, container(r#"{"image": "loud"}"#)).await;
    assert_eq!(outcome.error, None);
    assert_eq!(text(&outcome, "stdout").len(), 1024 * 1024);
    assert_eq!(outcome.data.get("truncated"), Some(&Json::from(true)));
}

/// What a lost worker left is removed before the same work begins again.
#[tokio::test]
async fn the_same_work_never_runs_twice_at_once() {
    let house = House::new();
    let (config, file) = (r#"{"image": "endless"}"#, house.state("pid"));
    let first = tokio::select! {
        outcome = run(&house.toolbox, container(config)) => panic!("it ended: {outcome:?}"),
        pid = pid_in(&file) => pid,
    };
    // The call was dropped, and with it went the container.
    until("the container goes", || house.containers() == 0).await;
    until("its process ends", || !is_alive(first)).await;

    // A worker that was killed had no time to remove anything.
    let name = house.asked()[1].split(' ').nth(2).unwrap().to_owned();
    let mut left = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    std::fs::write(house.state(&name), left.id().to_string()).unwrap();
    let outcome = run(&house.toolbox, container(r#"{"image": "plain"}"#)).await;
    assert_eq!(outcome.error, None);
    assert!(!left.wait().unwrap().success());
}

#[tokio::test]
async fn time_and_cancellation_end_the_container() {
    let house = House::new();
    let endless = || container(r#"{"image": "endless"}"#);
    let late = Call {
        timeout: Duration::from_secs(3),
        ..endless()
    };
    let (kind, _) = error(&house.toolbox, late).await;
    assert_eq!(kind, TaskErrorKind::Timeout);
    let pid = pid_in(&house.state("pid")).await;
    until("the container goes", || house.containers() == 0).await;
    until("its process ends", || !is_alive(pid)).await;

    std::fs::remove_file(house.state("pid")).unwrap();
    let cancel = CancellationToken::new();
    let stop = async {
        let pid = pid_in(&house.state("pid")).await;
        cancel.cancel();
        pid
    };
    let (outcome, pid) = tokio::join!(house.toolbox.call(endless(), cancel.clone()), stop);
    assert_eq!(
        outcome.error.as_ref().unwrap().kind,
        TaskErrorKind::Cancelled
    );
    // The client was asked first, so that it can ask the container.
    assert!(text(&outcome, "stdout").ends_with("stopped\n"));
    house.toolbox.shutdown().await;
    assert_eq!(house.containers(), 0);
    until("its process ends", || !is_alive(pid)).await;
}

#[tokio::test]
async fn volumes_of_the_machine_and_of_the_engine() {
    let shared = tempfile::tempdir().unwrap();
    let shared = shared.path().canonicalize().unwrap();
    let path = shared.to_str().unwrap();
    let house = House::new();
    let config = format!(
        r#"{{"image": "plain", "volumes": ["{path}:/in:ro", "cache:/cache",
            {{"host_path": "{path}", "mount_path": "/out"}},
            {{"name": "work", "emptyDir": {{}}}}, {{"name": "host", "hostPath": {{"path": "{path}"}}}}],
            "volume_mounts": [{{"name": "work", "mountPath": "/work"}},
            {{"name": "host", "mountPath": "/h", "readOnly": true}}]}}"#
    );
    let outcome = run(&house.toolbox, container(&config)).await;
    assert_eq!(outcome.error, None);
    let order = house.asked()[1].clone();
    let mounts = format!(
        "--mount type=bind,source={path},target=/in,readonly \
         --mount type=volume,source=cache,target=/cache \
         --mount type=bind,source={path},target=/out \
         --mount type=volume,target=/work \
         --mount type=bind,source={path},target=/h,readonly"
    );
    assert!(order.contains(&mounts), "{order}");

    let roots = |settings: &mut Settings| settings.file_roots = Some(vec!["/usr".into()]);
    let closed = House::with("docker", roots);
    let config = format!(r#"{{"image": "plain", "volumes": ["{path}:/in"]}}"#);
    let (kind, message) = error(&closed.toolbox, container(&config)).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(message.contains("the operator opened"), "{message}");
}

/// The engine stands outside of the walls, so a container gets nothing that leads it there.
#[tokio::test]
async fn a_container_gets_nothing_that_the_walls_hide() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let path = |name: &str| folder.join(name);
    for name in ["data/keys", "engine", "out", "link"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    std::os::unix::fs::symlink(path("data"), path("link/data")).unwrap();
    std::fs::write(path("engine/my.sock"), "").unwrap();
    let house = |mode: SandboxMode| {
        House::with("docker", |settings| {
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
    let (off, walled) = (house(SandboxMode::Off), house(SandboxMode::BestEffort));
    for own in [path("data"), path("data/keys"), path("link/data")] {
        for house in [&off, &walled] {
            let part = "the platform's own";
            refused(house, &mount(&own), TaskErrorKind::Auth, part).await;
        }
    }
    for above in [folder.clone(), PathBuf::from("/")] {
        let part = "the platform's own";
        refused(&walled, &mount(&above), TaskErrorKind::Auth, part).await;
    }
    for socket in [path("engine"), path("engine/my.sock"), "/run".into()] {
        let part = "a socket of the worker's machine";
        refused(&walled, &mount(&socket), TaskErrorKind::Auth, part).await;
    }
    assert!(walled.asked().is_empty());
    for (house, open) in [(&off, folder.clone()), (&walled, path("link"))] {
        let outcome = run(&house.toolbox, container(&mount(&open))).await;
        assert_eq!(outcome.error, None);
    }
    let strict = house(SandboxMode::Strict);
    let part = "NOETL_SANDBOX=strict";
    refused(&strict, &mount(&path("link")), TaskErrorKind::Auth, part).await;
    let outcome = run(&strict.toolbox, container(&mount(&path("out")))).await;
    assert_eq!(outcome.error, None);
}

#[tokio::test]
async fn a_container_of_an_offline_worker_is_offline() {
    for is_offline in [true, false] {
        let set = |settings: &mut Settings| settings.sandbox.is_offline = is_offline;
        let house = House::with("docker", set);
        let outcome = run(&house.toolbox, container(r#"{"image": "plain"}"#)).await;
        assert_eq!(outcome.error, None);
        let asked = house.asked();
        let order = asked.iter().find(|line| line.starts_with("run")).unwrap();
        assert_eq!(order.contains(" --network none "), is_offline, "{order}");
    }
}

#[tokio::test]
async fn the_operator_chooses_engine_and_images() {
    let podman = House::with("podman", |settings| {
        settings.container.images = Some(vec!["team/*".into(), "plain".into()]);
        settings.container.engine = Some("podman".into());
    });
    for image in ["team/a:1", "plain"] {
        let config = format!(r#"{{"image": "{image}", "runtime": "local"}}"#);
        assert_eq!(run(&podman.toolbox, container(&config)).await.error, None);
    }
    let (kind, message) = error(&podman.toolbox, container(r#"{"image": "plain2"}"#)).await;
    assert_eq!(kind, TaskErrorKind::Auth);
    assert!(message.contains("'plain2'"), "{message}");

    let nothing = tempfile::tempdir().unwrap();
    let without = |path: &Path, engine: Option<&str>| {
        let mut settings = settings();
        let path = path.display().to_string();
        settings.environment.insert("PATH".into(), path);
        settings.container.engine = engine.map(str::to_owned);
        Toolbox::new(settings)
    };
    let plain = || container(r#"{"image": "plain"}"#);
    let (kind, message) = error(&without(nothing.path(), None), plain()).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
    assert!(message.contains("docker or podman"), "{message}");
    let (kind, message) = error(&without(nothing.path(), Some("nerdctl")), plain()).await;
    assert_eq!(kind, TaskErrorKind::Unsupported);
    assert!(message.contains("'nerdctl'"), "{message}");
}

#[tokio::test]
async fn what_cannot_run_says_why() {
    let house = House::new();
    for (config, kind, part) in [
        ("{}", TaskErrorKind::Schema, "'image' is missing"),
        (
            r#"{"image": "--privileged"}"#,
            TaskErrorKind::Parse,
            "no image",
        ),
        (
            r#"{"image": "i", "runtime": "kubernetes"}"#,
            TaskErrorKind::Unsupported,
            "feature 'kubernetes'",
        ),
        (
            r#"{"image": "i", "runtime": "x"}"#,
            TaskErrorKind::Parse,
            "'x'",
        ),
        (
            r#"{"image": "i", "callback": true}"#,
            TaskErrorKind::Unsupported,
            "calls back",
        ),
        (
            r#"{"image": "i", "env": [{"name": "A", "value_from": {"secret": "s"}}]}"#,
            TaskErrorKind::Unsupported,
            "'env.A'",
        ),
        (
            r#"{"image": "i", "env": [{"value": 1}]}"#,
            TaskErrorKind::Schema,
            "'env.name'",
        ),
        (
            r#"{"image": "i", "env": {"A": [1]}}"#,
            TaskErrorKind::Schema,
            "'env.A'",
        ),
        (
            r#"{"image": "i", "resources": {"memory": "much"}}"#,
            TaskErrorKind::Parse,
            "'much'",
        ),
    ] {
        refused(&house, config, kind, part).await;
    }
    assert!(house.asked().is_empty());
}

async fn refused(house: &House, config: &str, kind: TaskErrorKind, part: &str) {
    let (found, message) = error(&house.toolbox, container(config)).await;
    assert_eq!(found, kind, "{message}");
    assert!(message.contains(part), "{message}");
}

#[tokio::test]
async fn what_cannot_be_mounted_says_why() {
    let house = House::new();
    for (config, kind, part) in [
        (
            r#"{"image": "i", "volumes": ["x"]}"#,
            TaskErrorKind::Parse,
            "'x'",
        ),
        (
            r#"{"image": "i", "volumes": ["../x:/y"]}"#,
            TaskErrorKind::Parse,
            "not absolute",
        ),
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
        refused(&house, config, kind, part).await;
    }
    assert!(house.asked().is_empty());
}
