//! Code that tries to escape from the sandbox, with the layers that this machine supports.
//!
//! The tests query the active layers first. On a machine without user namespaces they pass too, and
//! verify less.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use noetl_tools::sandbox::{Layer, SandboxMode, SandboxSettings, SandboxStatus};
use noetl_tools::{CancellationToken, Settings, ToolCall, ToolKind, ToolOutcome, Toolbox};
use noetl_types::{Json, JsonMap, TaskErrorKind};

use crate::system::deployment::wait_until;

/// Task timeout that no passing test reaches.
const TASK_TIMEOUT: Duration = Duration::from_mins(2);

/// Script that tries every escape and prints the ones that succeeded.
const PROBE_SCRIPT: &str = r#"#!PYTHON
import ctypes, json, os, socket, subprocess, sys
got = {}
def attempt(name):
    def run(act):
        try:
            got[name] = bool(act())
        except BaseException:
            got[name] = False
    return run
libc = ctypes.CDLL(None, use_errno=True)
def in_child(act):
    # Runs in a child, because the attempt would change this process.
    pid = os.fork()
    if pid == 0:
        done = False
        try:
            done = act()
        finally:
            os._exit(0 if done else 1)
    return os.waitpid(pid, 0)[1] == 0
@attempt("environment")
def _(): return "CARGO_MANIFEST_DIR" in os.environ
@attempt("environment_of_others")
def _():
    found = False
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found |= b"CARGO_MANIFEST_DIR=" in open(f"/proc/{pid}/environ", "rb").read()
        except OSError:
            pass
    return found
@attempt("database")
def _(): return open("DATABASE").read()
@attempt("write")
def _(): return open("OUTSIDE", "w").write("x")
@attempt("network")
def _(): return socket.create_connection(("127.0.0.1", PORT), timeout=5)
@attempt("metadata")
def _(): return socket.create_connection(("169.254.169.254", 80), timeout=1)
@attempt("large_file")
def _():
    with open("large", "wb", buffering=0) as file:
        file.seek(10 << 30)
        return file.write(b"x")
@attempt("ptrace")
def _(): return in_child(lambda: libc.ptrace(0, 0, 0, 0) == 0)
@attempt("new_user_namespace")
def _(): return in_child(lambda: libc.unshare(0x10000000) == 0)
@attempt("second_call_table")
def _():
    # Must be refused by the filter, and not only be unknown to this kernel.
    if os.uname().machine != "x86_64": return False
    done = libc.syscall(0x40000000 + 39)
    return done != -1 or ctypes.get_errno() != 1
@attempt("setuid")
def _():
    other = 1 if os.getuid() == 0 else 0
    def become():
        os.setuid(other)
        return os.getuid() == other
    return in_child(become)
@attempt("orphan")
def _(): return subprocess.Popen(["sleep", "ORPHAN"], start_new_session=True)
@attempt("fork_bomb")
def _():
    children = []
    try:
        while len(children) < 1200:
            pid = os.fork()
            if pid == 0:
                import signal
                signal.pause()
            children.append(pid)
        return True
    finally:
        for pid in children: os.kill(pid, 9)
        for pid in children: os.waitpid(pid, 0)
print(json.dumps(got))
"#;

/// Tools of a worker in a sandbox, with a database file outside of it.
struct SandboxFixture {
    _dir: tempfile::TempDir,
    sandbox: SandboxSettings,
    settings: Settings,
}

impl SandboxFixture {
    fn new(mode: SandboxMode, is_offline: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Tasks may run as another user, who must be able to enter the directories created below.
        let public = fs::Permissions::from_mode(0o755);
        fs::set_permissions(dir.path(), public).unwrap();
        let scratch = dir.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o755)).unwrap();
        let data = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let data = tempfile::tempdir_in(data).unwrap().keep();
        fs::write(data.join("noetl.db"), "the platform's").unwrap();
        let sandbox = SandboxSettings {
            mode,
            is_offline,
            launcher: Some(env!("CARGO_BIN_EXE_noetl").into()),
            hidden: vec![data],
            writable: vec![],
        };
        let mut settings =
            Settings { sandbox: sandbox.clone(), scratch: Some(scratch), ..Settings::default() };
        // The system interpreter can be run by another user too.
        let system_python = Path::new("/usr/bin/python3");
        if system_python.is_file() {
            settings.python.interpreter = system_python.display().to_string();
        }
        let settings = settings.with_environment(std::env::vars(), &[]);
        Self { _dir: dir, sandbox, settings }
    }

    fn database_file(&self) -> std::path::PathBuf {
        self.sandbox.hidden[0].join("noetl.db")
    }

    async fn call_tool(&self, kind: ToolKind, config: Json, timeout: Duration) -> ToolOutcome {
        let toolbox = Toolbox::new(self.settings.clone());
        let call = tool_call(kind, &config, timeout);
        let outcome = toolbox.call(call, CancellationToken::new()).await;
        toolbox.shutdown().await;
        outcome
    }

    async fn run_shell(&self, command: &str) -> ToolOutcome {
        let config = Json::object([("command", Json::from(command))]);
        self.call_tool(ToolKind::Shell, config, TASK_TIMEOUT).await
    }
}

impl Drop for SandboxFixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.sandbox.hidden[0]);
    }
}

fn tool_call(kind: ToolKind, config: &Json, timeout: Duration) -> ToolCall {
    ToolCall {
        kind,
        config: config.as_map().unwrap().clone(),
        input: JsonMap::new(),
        execution_id: "7001".into(),
        command: "7002".into(),
        step: "probe".into(),
        label: "probe".into(),
        idempotency_key: "7001:4:probe:1".into(),
        attempt: 1,
        timeout,
        context: Json::empty_map(),
        variables: Json::Null,
    }
}

/// Returns a sleep duration that no other process uses.
fn unique_sleep_seconds(suffix: u32) -> String {
    format!("98765.{}{suffix}", std::process::id())
}

/// Returns the ids of the processes that sleep for `seconds`.
fn find_sleepers(seconds: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let sleeps = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(seconds) && line.starts_with(b"sleep")
    };
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(sleeps).collect()
}

fn kill_processes(pids: &[i32]) {
    for pid in pids {
        let pid = pid.to_string();
        let status = std::process::Command::new("kill").args(["-9", &pid]).status();
        status.unwrap();
    }
}

/// Layers that can be missing.
const ALL_LAYERS: [Layer; 9] = [
    Layer::UserNamespace,
    Layer::PidNamespace,
    Layer::MountNamespace,
    Layer::IpcNamespace,
    Layer::NoNetwork,
    Layer::ReadOnlyRoot,
    Layer::NoNewPrivileges,
    Layer::Seccomp,
    Layer::OwnUser,
];

/// Returns the layers that are not active.
async fn missing_layers(sandbox: &SandboxSettings) -> Vec<Layer> {
    if sandbox.mode == SandboxMode::Off {
        return ALL_LAYERS.to_vec();
    }
    let status = SandboxStatus::probe(sandbox).await;
    let layers = status.missing.expect("the launcher responds");
    layers.iter().map(|layer| layer.wall).collect()
}

/// Layers that block an attempt. Attempts without layers must always fail.
fn blocking_layers(attempt: &str) -> &'static [Layer] {
    match attempt {
        "environment_of_others" | "orphan" => &[Layer::PidNamespace],
        "database" | "write" => &[Layer::ReadOnlyRoot],
        "network" | "metadata" => &[Layer::NoNetwork],
        "ptrace" | "new_user_namespace" | "second_call_table" => &[Layer::Seccomp],
        "setuid" => &[Layer::NoNewPrivileges],
        "fork_bomb" => &[Layer::UserNamespace, Layer::OwnUser],
        _ => &[],
    }
}

async fn check_probe(mode: SandboxMode, is_offline: bool, suffix: u32) {
    let fixture = SandboxFixture::new(mode, is_offline);
    let mut missing = missing_layers(&fixture.sandbox).await;
    if !is_offline {
        missing.push(Layer::NoNetwork);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let outside = fixture.database_file().with_file_name("outside");
    let orphan = unique_sleep_seconds(suffix);
    let script = PROBE_SCRIPT
        .replace("PYTHON", &fixture.settings.python.interpreter)
        .replace("DATABASE", &fixture.database_file().display().to_string())
        .replace("OUTSIDE", &outside.display().to_string())
        .replace("PORT", &listener.local_addr().unwrap().port().to_string())
        .replace("ORPHAN", &orphan);
    let script = Json::object([("content", Json::from(script))]);
    let config = Json::object([("script", script)]);
    let outcome = fixture.call_tool(ToolKind::Script, config, TASK_TIMEOUT).await;
    if mode == SandboxMode::Strict && !missing.is_empty() {
        let error = outcome.error.expect("a layer is missing");
        let stdout = format!("{} {:?}", error.message, outcome.data);
        assert!(stdout.contains("NOETL_SANDBOX=strict"), "{stdout}");
        return;
    }
    assert_eq!(outcome.error, None, "{:?}", outcome.data);
    let output = outcome.data.get("output").and_then(Json::as_str).unwrap();
    let attempts = noetl_types::json::parse(output.trim().as_bytes());
    let attempts = attempts.unwrap_or_else(|error| panic!("{error}: {output}"));
    for (attempt, succeeded) in attempts.as_map().unwrap() {
        let is_active = |layer: &Layer| !missing.contains(layer);
        let has_succeeded = succeeded.as_bool() == Some(true);
        let must_fail = blocking_layers(attempt).iter().all(is_active);
        // An orphan can be created, but it is killed with the task.
        assert!(
            !has_succeeded || !must_fail || &**attempt == "orphan",
            "{attempt} was possible with {:?}, although only {missing:?} are missing: {output}",
            blocking_layers(attempt)
        );
    }
    if missing.contains(&Layer::PidNamespace) {
        kill_processes(&find_sleepers(&orphan));
    } else {
        wait_until("the orphan ends", || find_sleepers(&orphan).is_empty()).await;
    }
    let remaining = fs::read_dir(fixture.settings.scratch.as_ref().unwrap()).unwrap();
    assert_eq!(remaining.count(), 0, "private directories are removed");
}

#[tokio::test]
async fn operator_paths_are_writable() {
    let mut fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let target_dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let temp_dir = tempfile::tempdir().unwrap();
    let unlisted = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let writable = [target_dir.path(), temp_dir.path()];
    fixture.settings.sandbox.writable = writable.map(Path::to_owned).to_vec();
    let is_read_only = has_read_only_root(&fixture).await;
    for dir in writable {
        let file = dir.join("kept");
        let outcome = fixture.run_shell(&format!("echo here > {}", file.display())).await;
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!(fs::read_to_string(file).unwrap(), "here\n");
    }
    let file = unlisted.path().join("kept");
    let outcome = fixture.run_shell(&format!("echo here > {}", file.display())).await;
    assert_eq!(outcome.error.is_some(), is_read_only);
    assert_eq!(file.exists(), !is_read_only);
}

/// True if the read-only root layer is active.
async fn has_read_only_root(fixture: &SandboxFixture) -> bool {
    let missing = missing_layers(&fixture.settings.sandbox).await;
    !missing.contains(&Layer::ReadOnlyRoot)
}

#[tokio::test]
async fn writable_directory_exposes_no_hidden_path() {
    let mut fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("data/out/inner")).unwrap();
    for name in ["key", "data/noetl.db", "data/out/inner/key"] {
        fs::write(path(name), "the platform's").unwrap();
    }
    let sandbox = &mut fixture.settings.sandbox;
    sandbox.hidden = ["key", "data", "data/out/inner"].map(path).to_vec();
    sandbox.writable = ["data/out", ""].map(path).to_vec();
    if !has_read_only_root(&fixture).await {
        return;
    }
    let command = format!(
        "cd {}; cat key data/noetl.db data/out/inner/key; ls data data/out/inner; \
         echo x > kept; echo x > data/out/kept; \
         echo x > data/lost; echo x > data/out/inner/lost; true",
        dir.path().display()
    );
    let outcome = fixture.run_shell(&command).await;
    assert_eq!(outcome.error, None, "{:?}", outcome.data);
    let stdout = outcome.data.get("stdout").and_then(Json::as_str).unwrap();
    assert!(!stdout.contains("the platform's"), "{stdout}");
    assert!(!stdout.contains("noetl.db") && !stdout.contains("key"), "{stdout}");
    for written in ["kept", "data/out/kept"] {
        assert!(path(written).exists(), "{written}: {:?}", outcome.data);
    }
    for blocked in ["data/lost", "data/out/inner/lost"] {
        assert!(!path(blocked).exists(), "{blocked}");
    }
}

#[tokio::test]
async fn writable_symlink_works_for_both_paths() {
    let mut fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    fixture.settings.sandbox.writable = vec![link.clone()];
    for (number, dir) in [link, real.clone()].iter().enumerate() {
        let file = dir.join(number.to_string());
        let outcome = fixture.run_shell(&format!("echo x > {}", file.display())).await;
        assert_eq!(outcome.error, None, "{:?}", outcome.data);
        assert!(real.join(number.to_string()).exists());
    }
}

#[tokio::test]
async fn strict_sandbox_blocks_every_attempt() {
    check_probe(SandboxMode::Strict, true, 1).await;
}

#[tokio::test]
async fn active_layers_block_attempts() {
    check_probe(SandboxMode::BestEffort, false, 2).await;
    check_probe(SandboxMode::Off, false, 3).await;
}

#[tokio::test]
async fn orphan_is_killed_at_deadline() {
    let fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let orphan = unique_sleep_seconds(4);
    let command = format!("setsid sleep {orphan} & sleep 1000");
    let config = Json::object([("command", Json::from(command))]);
    let outcome = fixture.call_tool(ToolKind::Shell, config, Duration::from_secs(3)).await;
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Timeout);
    if missing_layers(&fixture.sandbox).await.contains(&Layer::PidNamespace) {
        kill_processes(&find_sleepers(&orphan));
    } else {
        wait_until("the orphan ends", || find_sleepers(&orphan).is_empty()).await;
    }
}

#[tokio::test]
async fn sandbox_does_not_change_task_behaviour() {
    let fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let outcome = fixture.run_shell("pwd > here; cat here; echo oh >&2; exit 7").await;
    let error = outcome.error.expect("it failed");
    assert_eq!(error.code, Some(Json::from(7)), "{:?}", outcome.data);
    let stdout = outcome.data.get("stdout").and_then(Json::as_str).unwrap();
    let scratch = fixture.settings.scratch.as_ref().unwrap();
    assert!(stdout.starts_with(&scratch.display().to_string()), "{stdout}");
    assert_eq!(outcome.data.get("stderr"), Some(&Json::from("oh\n")));

    let toolbox = Toolbox::new(fixture.settings.clone());
    let code = |code: &str| {
        let env = Json::object([("GREETING", Json::from("hello"))]);
        let config = Json::object([("code", Json::from(code)), ("env", env)]);
        tool_call(ToolKind::Python, &config, TASK_TIMEOUT)
    };
    let work =
        "import os\nopen('x', 'w').write('y')\nresult = [os.getpid(), os.environ['GREETING']]";
    let mut pids = Vec::new();
    for _ in 0..2 {
        let outcome = toolbox.call(code(work), CancellationToken::new()).await;
        assert_eq!(outcome.error, None, "{:?}", outcome.data);
        let result = outcome.data.as_list().unwrap();
        assert_eq!(result[1], Json::from("hello"));
        pids.push(result[0].clone());
    }
    assert_eq!(pids[0], pids[1], "the interpreter stays warm");
    toolbox.shutdown().await;
}

/// The task receives SIGTERM and can still write output.
#[tokio::test]
async fn cancelled_sandboxed_task_gets_sigterm_first() {
    let fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let toolbox = Toolbox::new(fixture.settings.clone());
    let seconds = unique_sleep_seconds(5);
    let command = format!("trap 'echo bye; exit 0' TERM; sleep {seconds} & wait");
    let config = Json::object([("command", Json::from(command))]);
    let cancel = CancellationToken::new();
    let work = toolbox.call(tool_call(ToolKind::Shell, &config, TASK_TIMEOUT), cancel.clone());
    let stop = async {
        wait_until("the task runs", || !find_sleepers(&seconds).is_empty()).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(work, stop);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Cancelled);
    assert_eq!(outcome.data.get("stdout"), Some(&Json::from("bye\n")));
    wait_until("the sleeper ends", || find_sleepers(&seconds).is_empty()).await;
}
