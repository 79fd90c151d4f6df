//! Code that tries to get out, within the walls that this machine lets a worker raise.
//!
//! Which walls those are is asked first: on a machine without user namespaces the tests hold too,
//! and say less.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use noetl_tools::walls::{Sandbox, SandboxMode, Standing, Wall};
use noetl_tools::{Call, CancellationToken, Outcome, Settings, ToolKind, Toolbox};
use noetl_types::{Json, JsonMap, TaskErrorKind};

use crate::house::until;

/// Long enough that it never decides a test that passes.
const LONG: Duration = Duration::from_mins(2);

/// Tries everything, and tells what it got away with.
const PROBE: &str = r#"#!PYTHON
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
    # What would change this process changes another one.
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
    # Refused as such, and not only unknown to this kernel.
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

/// A worker's tools behind walls, with something outside that code may want.
struct Prison {
    _folder: tempfile::TempDir,
    sandbox: Sandbox,
    settings: Settings,
}

impl Prison {
    fn new(mode: SandboxMode, is_offline: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Tasks may be another user, who has to get to the folders that are made below.
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open).unwrap();
        let scratch = folder.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o755)).unwrap();
        let data = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let data = tempfile::tempdir_in(data).unwrap().keep();
        fs::write(data.join("noetl.db"), "the platform's").unwrap();
        let sandbox = Sandbox {
            mode,
            is_offline,
            launcher: Some(env!("CARGO_BIN_EXE_noetl").into()),
            hidden: vec![data],
            writable: vec![],
        };
        let mut settings = Settings {
            sandbox: sandbox.clone(),
            scratch: Some(scratch),
            ..Settings::default()
        };
        // One that another user can run, too.
        let of_machine = Path::new("/usr/bin/python3");
        if of_machine.is_file() {
            settings.python.interpreter = of_machine.display().to_string();
        }
        let settings = settings.with_environment(std::env::vars(), &[]);
        Self {
            _folder: folder,
            sandbox,
            settings,
        }
    }

    fn database(&self) -> std::path::PathBuf {
        self.sandbox.hidden[0].join("noetl.db")
    }

    async fn call(&self, kind: ToolKind, config: Json, timeout: Duration) -> Outcome {
        let toolbox = Toolbox::new(self.settings.clone());
        let call = call(kind, &config, timeout);
        let outcome = toolbox.call(call, CancellationToken::new()).await;
        toolbox.shutdown().await;
        outcome
    }

    async fn shell(&self, command: &str) -> Outcome {
        let config = Json::object([("command", Json::from(command))]);
        self.call(ToolKind::Shell, config, LONG).await
    }
}

impl Drop for Prison {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.sandbox.hidden[0]);
    }
}

fn call(kind: ToolKind, config: &Json, timeout: Duration) -> Call {
    Call {
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

/// A number of seconds that no other process sleeps.
fn odd_seconds(tail: u32) -> String {
    format!("98765.{}{tail}", std::process::id())
}

/// The processes that sleep so long.
fn sleepers(seconds: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let sleeps = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(seconds) && line.starts_with(b"sleep")
    };
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(sleeps)
        .collect()
}

fn end(pids: &[i32]) {
    for pid in pids {
        let pid = pid.to_string();
        let killed = std::process::Command::new("kill")
            .args(["-9", &pid])
            .status();
        killed.unwrap();
    }
}

/// The walls that can be missing.
const ALL: [Wall; 9] = [
    Wall::UserNamespace,
    Wall::PidNamespace,
    Wall::MountNamespace,
    Wall::IpcNamespace,
    Wall::NoNetwork,
    Wall::ReadOnlyRoot,
    Wall::NoNewPrivileges,
    Wall::Seccomp,
    Wall::OwnUser,
];

/// The walls that do not stand.
async fn missing(sandbox: &Sandbox) -> Vec<Wall> {
    if sandbox.mode == SandboxMode::Off {
        return ALL.to_vec();
    }
    let standing = Standing::of(sandbox).await;
    let missing = standing.missing.expect("the launcher answers");
    missing.iter().map(|missing| missing.wall).collect()
}

/// What each attempt would have to get through; those without walls here fail always.
fn walls_of(attempt: &str) -> &'static [Wall] {
    match attempt {
        "environment_of_others" | "orphan" => &[Wall::PidNamespace],
        "database" | "write" => &[Wall::ReadOnlyRoot],
        "network" | "metadata" => &[Wall::NoNetwork],
        "ptrace" | "new_user_namespace" | "second_call_table" => &[Wall::Seccomp],
        "setuid" => &[Wall::NoNewPrivileges],
        "fork_bomb" => &[Wall::UserNamespace, Wall::OwnUser],
        _ => &[],
    }
}

async fn probe(mode: SandboxMode, is_offline: bool, tail: u32) {
    let prison = Prison::new(mode, is_offline);
    let mut lacking = missing(&prison.sandbox).await;
    if !is_offline {
        lacking.push(Wall::NoNetwork);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let outside = prison.database().with_file_name("outside");
    let orphan = odd_seconds(tail);
    let script = PROBE
        .replace("PYTHON", &prison.settings.python.interpreter)
        .replace("DATABASE", &prison.database().display().to_string())
        .replace("OUTSIDE", &outside.display().to_string())
        .replace("PORT", &listener.local_addr().unwrap().port().to_string())
        .replace("ORPHAN", &orphan);
    let script = Json::object([("content", Json::from(script))]);
    let config = Json::object([("script", script)]);
    let outcome = prison.call(ToolKind::Script, config, LONG).await;
    if mode == SandboxMode::Strict && !lacking.is_empty() {
        let error = outcome.error.expect("a wall is missing");
        let said = format!("{} {:?}", error.message, outcome.data);
        assert!(said.contains("NOETL_SANDBOX=strict"), "{said}");
        return;
    }
    assert_eq!(outcome.error, None, "{:?}", outcome.data);
    let printed = outcome.data.get("output").and_then(Json::as_str).unwrap();
    let got = noetl_types::json::parse(printed.trim().as_bytes());
    let got = got.unwrap_or_else(|error| panic!("{error}: {printed}"));
    for (attempt, got) in got.as_map().unwrap() {
        let stands = |wall: &Wall| !lacking.contains(wall);
        let has_got = got.as_bool() == Some(true);
        let must_fail = walls_of(attempt).iter().all(stands);
        // An orphan can be had; it just does not live on.
        assert!(
            !has_got || !must_fail || &**attempt == "orphan",
            "{attempt} was possible behind {:?}, though only {lacking:?} are missing: {printed}",
            walls_of(attempt)
        );
    }
    if lacking.contains(&Wall::PidNamespace) {
        end(&sleepers(&orphan));
    } else {
        until("the orphan ends", || sleepers(&orphan).is_empty()).await;
    }
    let left = fs::read_dir(prison.settings.scratch.as_ref().unwrap()).unwrap();
    assert_eq!(left.count(), 0, "private folders go away");
}

#[tokio::test]
async fn what_the_operator_names_can_be_written_to() {
    let mut prison = Prison::new(SandboxMode::BestEffort, false);
    let beside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let named = [beside.path(), temporary.path()];
    prison.settings.sandbox.writable = named.map(Path::to_owned).to_vec();
    let is_closed = has_closed_files(&prison).await;
    for folder in named {
        let file = folder.join("kept");
        let wrote = prison
            .shell(&format!("echo here > {}", file.display()))
            .await;
        assert!(wrote.error.is_none(), "{:?}", wrote.error);
        assert_eq!(fs::read_to_string(file).unwrap(), "here\n");
    }
    let file = other.path().join("kept");
    let wrote = prison
        .shell(&format!("echo here > {}", file.display()))
        .await;
    assert_eq!(wrote.error.is_some(), is_closed);
    assert_eq!(file.exists(), !is_closed);
}

/// Whether the wall around files stands.
async fn has_closed_files(prison: &Prison) -> bool {
    let lacking = missing(&prison.settings.sandbox).await;
    !lacking.contains(&Wall::ReadOnlyRoot)
}

#[tokio::test]
async fn a_folder_that_can_be_written_to_brings_nothing_hidden_back() {
    let mut prison = Prison::new(SandboxMode::BestEffort, false);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("data/out/inner")).unwrap();
    for name in ["key", "data/noetl.db", "data/out/inner/key"] {
        fs::write(path(name), "the platform's").unwrap();
    }
    let sandbox = &mut prison.settings.sandbox;
    sandbox.hidden = ["key", "data", "data/out/inner"].map(path).to_vec();
    sandbox.writable = ["data/out", ""].map(path).to_vec();
    if !has_closed_files(&prison).await {
        return;
    }
    let look = format!(
        "cd {}; cat key data/noetl.db data/out/inner/key; ls data data/out/inner; \
         echo x > kept; echo x > data/out/kept; \
         echo x > data/lost; echo x > data/out/inner/lost; true",
        folder.path().display()
    );
    let outcome = prison.shell(&look).await;
    assert_eq!(outcome.error, None, "{:?}", outcome.data);
    let seen = outcome.data.get("stdout").and_then(Json::as_str).unwrap();
    assert!(!seen.contains("the platform's"), "{seen}");
    assert!(
        !seen.contains("noetl.db") && !seen.contains("key"),
        "{seen}"
    );
    for kept in ["kept", "data/out/kept"] {
        assert!(path(kept).exists(), "{kept}: {:?}", outcome.data);
    }
    for lost in ["data/lost", "data/out/inner/lost"] {
        assert!(!path(lost).exists(), "{lost}");
    }
}

#[tokio::test]
async fn a_folder_by_another_name_can_be_written_to() {
    let mut prison = Prison::new(SandboxMode::BestEffort, false);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    prison.settings.sandbox.writable = vec![link.clone()];
    for (number, folder) in [link, real.clone()].iter().enumerate() {
        let file = folder.join(number.to_string());
        let outcome = prison.shell(&format!("echo x > {}", file.display())).await;
        assert_eq!(outcome.error, None, "{:?}", outcome.data);
        assert!(real.join(number.to_string()).exists());
    }
}

#[tokio::test]
async fn behind_strict_walls_nothing_works() {
    probe(SandboxMode::Strict, true, 1).await;
}

#[tokio::test]
async fn what_stands_keeps_and_the_minimum_always_does() {
    probe(SandboxMode::BestEffort, false, 2).await;
    probe(SandboxMode::Off, false, 3).await;
}

#[tokio::test]
async fn an_orphan_does_not_outlive_the_deadline() {
    let prison = Prison::new(SandboxMode::BestEffort, false);
    let orphan = odd_seconds(4);
    let command = format!("setsid sleep {orphan} & sleep 1000");
    let config = Json::object([("command", Json::from(command))]);
    let outcome = prison
        .call(ToolKind::Shell, config, Duration::from_secs(3))
        .await;
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Timeout);
    if missing(&prison.sandbox).await.contains(&Wall::PidNamespace) {
        end(&sleepers(&orphan));
    } else {
        until("the orphan ends", || sleepers(&orphan).is_empty()).await;
    }
}

/// What a task is and gets does not change with the walls around it.
#[tokio::test]
async fn tasks_behind_walls_are_tasks_as_ever() {
    let prison = Prison::new(SandboxMode::BestEffort, false);
    let outcome = prison
        .shell("pwd > here; cat here; echo oh >&2; exit 7")
        .await;
    let error = outcome.error.expect("it failed");
    assert_eq!(error.code, Some(Json::from(7)), "{:?}", outcome.data);
    let said = outcome.data.get("stdout").and_then(Json::as_str).unwrap();
    let scratch = prison.settings.scratch.as_ref().unwrap();
    assert!(said.starts_with(&scratch.display().to_string()), "{said}");
    assert_eq!(outcome.data.get("stderr"), Some(&Json::from("oh\n")));

    let toolbox = Toolbox::new(prison.settings.clone());
    let code = |code: &str| {
        let env = Json::object([("GREETING", Json::from("hello"))]);
        let config = Json::object([("code", Json::from(code)), ("env", env)]);
        call(ToolKind::Python, &config, LONG)
    };
    let work =
        "import os\nopen('x', 'w').write('y')\nresult = [os.getpid(), os.environ['GREETING']]";
    let mut pids = Vec::new();
    for _ in 0..2 {
        let outcome = toolbox.call(code(work), CancellationToken::new()).await;
        assert_eq!(outcome.error, None, "{:?}", outcome.data);
        let told = outcome.data.as_list().unwrap();
        assert_eq!(told[1], Json::from("hello"));
        pids.push(told[0].clone());
    }
    assert_eq!(pids[0], pids[1], "the interpreter stays warm");
    toolbox.shutdown().await;
}

/// An order to stop reaches the task, which may say its last.
#[tokio::test]
async fn a_cancelled_task_behind_walls_is_asked_first() {
    let prison = Prison::new(SandboxMode::BestEffort, false);
    let toolbox = Toolbox::new(prison.settings.clone());
    let seconds = odd_seconds(5);
    let command = format!("trap 'echo bye; exit 0' TERM; sleep {seconds} & wait");
    let config = Json::object([("command", Json::from(command))]);
    let cancel = CancellationToken::new();
    let work = toolbox.call(call(ToolKind::Shell, &config, LONG), cancel.clone());
    let stop = async {
        until("the task is there", || !sleepers(&seconds).is_empty()).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(work, stop);
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Cancelled);
    assert_eq!(outcome.data.get("stdout"), Some(&Json::from("bye\n")));
    until("the sleeper ends", || sleepers(&seconds).is_empty()).await;
}
