//! Code that tries to escape from the sandbox, with the layers that this machine supports.
//!
//! The tests query the active layers first. On a machine without user namespaces they pass too, and
//! verify less.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use noetl_tools::sandbox::{Layer, SandboxMode, SandboxSettings, SandboxStatus};
use noetl_tools::{CancellationToken, Settings, ToolCall, ToolKind, ToolOutcome, Toolbox};
use noetl_types::{ByteSize, Json, JsonMap, TaskErrorKind};

use crate::system::deployment::wait_until;

/// Task timeout that no passing test reaches.
const TASK_TIMEOUT: Duration = Duration::from_mins(2);

/// Script that tries every escape and prints the ones that succeeded.
const PROBE_SCRIPT: &str = r#"#!PYTHON
import ctypes, json, os, socket, stat, subprocess, sys
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
def connect_unix(address):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(5)
    connection.connect(address)
    return True
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
@attempt("links_in_proc")
def _():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for start in ("root", "cwd" + "/.." * 30):
            try:
                if open(f"/proc/{pid}/{start}/DATABASE").read(): return True
            except OSError:
                pass
@attempt("database_of_neighbour")
def _(): return open("NEIGHBOUR").read()
@attempt("inherited_descriptor")
def _():
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if b"the platform's" in os.pread(fd, 100, 0): return True
        except OSError:
            pass
@attempt("socket_in_shared_directory")
def _(): return connect_unix("SHARED/socket")
@attempt("abstract_socket")
def _(): return connect_unix("\0ABSTRACT")
@attempt("kernel_crypto_socket")
def _(): return socket.socket(38, socket.SOCK_SEQPACKET)
@attempt("devices")
def _():
    names = ("kmsg", "mem", "kvm", "loop-control", "fuse", "net/tun", "vda", "sda", "nvme0n1")
    for name in names:
        try:
            return os.open("/dev/" + name, os.O_RDONLY)
        except OSError:
            pass
@attempt("new_device")
def _():
    # The number of /dev/null.
    os.mknod("device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    return os.open("device", os.O_RDWR)
@attempt("privileges")
def _():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(lines["CapEff"], 16) or int(lines["CapPrm"], 16)
@attempt("root_user")
def _(): return os.getuid() == 0
@attempt("signal_to_others")
def _(): return os.kill(STRANGER, 0) is None
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

/// Attempts that succeed without a sandbox, so that their failure shows that a layer blocks them.
const POSSIBLE_WITHOUT_SANDBOX: [&str; 12] = [
    "database", "write", "network", "links_in_proc", "database_of_neighbour",
    "inherited_descriptor", "socket_in_shared_directory", "abstract_socket", "ptrace", "fork_bomb",
    "orphan", "signal_to_others",
];

/// The same for tasks that run as root.
const POSSIBLE_FOR_ROOT: [&str; 5] = ["devices", "new_device", "privileges", "root_user", "setuid"];

/// Directory outside of `/tmp`, which every task gets anew.
fn outside_dir() -> PathBuf {
    let dir = std::env::var_os(OUTSIDE_DIR_VARIABLE);
    dir.map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

/// Names a directory for tests that run as a user who may not write to the usual one.
const OUTSIDE_DIR_VARIABLE: &str = "NOETL_TEST_OUTSIDE_DIR";

fn public_dir_in(parent: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(parent).unwrap();
    make_public(dir.path());
    dir
}

/// Lets every user read and write a directory. Tasks of a worker that is root run as another user.
fn make_public(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
}

/// Tools of a worker in a sandbox, with files outside of it.
struct SandboxFixture {
    _scratch: tempfile::TempDir,
    /// The data folder of the platform, which the worker knows.
    data: tempfile::TempDir,
    /// The data folder of another server, which the worker does not know.
    neighbour: tempfile::TempDir,
    /// A directory that tasks can write to.
    shared: tempfile::TempDir,
    settings: Settings,
}

impl SandboxFixture {
    fn new(mode: SandboxMode, is_offline: bool) -> Self {
        let scratch = public_dir_in(&std::env::temp_dir());
        let [data, neighbour, shared] = std::array::from_fn(|_| public_dir_in(&outside_dir()));
        fs::write(data.path().join("noetl.db"), "the platform's").unwrap();
        fs::write(neighbour.path().join("noetl.db"), "the neighbour's").unwrap();
        let sandbox = SandboxSettings {
            mode,
            is_offline,
            launcher: Some(env!("CARGO_BIN_EXE_noetl").into()),
            hidden: vec![data.path().to_owned()],
            writable: vec![shared.path().to_owned()],
            ..SandboxSettings::default()
        };
        let mut settings =
            Settings { sandbox, scratch: Some(scratch.path().to_owned()), ..Settings::default() };
        // The system interpreter can be run by another user too.
        let system_python = Path::new("/usr/bin/python3");
        if system_python.is_file() {
            settings.python.interpreter = system_python.display().to_string();
        }
        let settings = settings.with_environment(std::env::vars(), &[]);
        Self { _scratch: scratch, data, neighbour, shared, settings }
    }

    fn database_file(&self) -> PathBuf {
        self.data.path().join("noetl.db")
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
fn unique_sleep_seconds() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("98765.{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
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
const ALL_LAYERS: [Layer; 10] = [
    Layer::UserNamespace,
    Layer::PidNamespace,
    Layer::MountNamespace,
    Layer::IpcNamespace,
    Layer::NoNetwork,
    Layer::ReadOnlyRoot,
    Layer::NoNewPrivileges,
    Layer::Seccomp,
    Layer::Landlock,
    Layer::OwnUser,
];

/// True if tasks run without a layer even in strict mode.
fn is_optional(layer: Layer) -> bool {
    [Layer::NoNetwork, Layer::Landlock].contains(&layer)
}

/// Returns the layers that are not active.
async fn missing_layers(settings: &Settings) -> Vec<Layer> {
    if settings.sandbox.mode == SandboxMode::Off {
        return ALL_LAYERS.to_vec();
    }
    let status = SandboxStatus::probe(settings).await;
    let layers = status.missing.expect("the launcher responds");
    let mut missing: Vec<_> = layers.iter().map(|layer| layer.wall).collect();
    if !settings.sandbox.is_offline {
        missing.push(Layer::NoNetwork);
    }
    missing
}

/// Layers that block an attempt. Attempts without layers must always fail.
fn blocking_layers(attempt: &str) -> &'static [Layer] {
    match attempt {
        "environment_of_others" | "orphan" | "signal_to_others" => &[Layer::PidNamespace],
        "database" | "write" | "database_of_neighbour" | "devices" | "new_device" => {
            &[Layer::ReadOnlyRoot]
        }
        "links_in_proc" => &[Layer::ReadOnlyRoot, Layer::PidNamespace],
        "inherited_descriptor" => &[Layer::UserNamespace],
        "network" | "metadata" => &[Layer::NoNetwork],
        "abstract_socket" => &[Layer::Landlock],
        "socket_in_shared_directory" => &[Layer::NoNetwork, Layer::Seccomp],
        "ptrace" | "new_user_namespace" | "second_call_table" | "kernel_crypto_socket" => {
            &[Layer::Seccomp]
        }
        "setuid" | "privileges" => &[Layer::NoNewPrivileges],
        "root_user" => &[Layer::OwnUser],
        "fork_bomb" => &[Layer::UserNamespace, Layer::OwnUser],
        _ => &[],
    }
}

/// Without a sandbox, the attempts are possible: the probe would notice if they were not blocked.
fn check_possible_without_sandbox(attempts: &Json) {
    let is_root = rustix::process::geteuid().is_root();
    let for_root = POSSIBLE_FOR_ROOT.iter().filter(|_| is_root);
    for attempt in POSSIBLE_WITHOUT_SANDBOX.iter().chain(for_root) {
        let succeeded = attempts.get(attempt).and_then(Json::as_bool);
        assert_eq!(succeeded, Some(true), "{attempt} without a sandbox: {attempts:?}");
    }
}

async fn check_probe(kind: ToolKind, mode: SandboxMode, is_offline: bool) {
    let fixture = SandboxFixture::new(mode, is_offline);
    let missing = missing_layers(&fixture.settings).await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let unix = UnixListener::bind(fixture.shared.path().join("socket")).unwrap();
    fs::set_permissions(fixture.shared.path().join("socket"), fs::Permissions::from_mode(0o777))
        .unwrap();
    let name = format!("noetl-{}-{port}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let abstract_listener = UnixListener::bind_addr(&address).unwrap();
    // A descriptor that a program which starts workers could leave open.
    let inherited = rustix::io::dup(fs::File::open(fixture.database_file()).unwrap()).unwrap();
    let orphan = unique_sleep_seconds();
    let script = PROBE_SCRIPT
        .replace("PYTHON", &fixture.settings.python.interpreter)
        .replace("DATABASE", &fixture.database_file().display().to_string())
        .replace("NEIGHBOUR", &fixture.neighbour.path().join("noetl.db").display().to_string())
        .replace("OUTSIDE", &fixture.data.path().join("outside").display().to_string())
        .replace("SHARED", &fixture.shared.path().display().to_string())
        .replace("ABSTRACT", &name)
        .replace("PORT", &port.to_string())
        .replace("STRANGER", &std::process::id().to_string())
        .replace("ORPHAN", &orphan);
    let (config, key) = if kind == ToolKind::Python {
        (Json::object([("code", Json::from(script))]), "stdout")
    } else {
        let script = Json::object([("content", Json::from(script))]);
        (Json::object([("script", script)]), "output")
    };
    let outcome = fixture.call_tool(kind, config, TASK_TIMEOUT).await;
    drop((inherited, unix, abstract_listener));
    let is_required = |layer: &Layer| {
        !is_optional(*layer)
            && (mode == SandboxMode::Strict
                || [Layer::MountNamespace, Layer::PidNamespace, Layer::ReadOnlyRoot]
                    .contains(layer))
    };
    if mode != SandboxMode::Off && missing.iter().any(is_required) {
        let error = outcome.error.expect("a layer is missing");
        let text = format!("{} {:?}", error.message, outcome.data);
        assert!(text.contains("NOETL_SANDBOX="), "{text}");
        return;
    }
    assert_eq!(outcome.error, None, "{:?}", outcome.data);
    let output = outcome.data.get(key).and_then(Json::as_str).unwrap();
    let attempts = noetl_types::json::parse(output.trim().as_bytes());
    let attempts = attempts.unwrap_or_else(|error| panic!("{error}: {output}"));
    let is_active = |layer: &Layer| !missing.contains(layer);
    for (attempt, succeeded) in attempts.as_map().unwrap() {
        let has_succeeded = succeeded.as_bool() == Some(true);
        let must_fail = blocking_layers(attempt).iter().all(is_active);
        // An orphan can be created, but it is killed with the task.
        assert!(
            !has_succeeded || !must_fail || &**attempt == "orphan",
            "{attempt} was possible with {:?}, although only {missing:?} are missing: {output}",
            blocking_layers(attempt)
        );
    }
    if mode == SandboxMode::Off {
        check_possible_without_sandbox(&attempts);
    }
    if is_active(&Layer::PidNamespace) {
        wait_until("the orphan ends", || find_sleepers(&orphan).is_empty()).await;
    } else {
        assert!(!find_sleepers(&orphan).is_empty(), "an orphan outlives its task");
        kill_processes(&find_sleepers(&orphan));
    }
    let remaining = fs::read_dir(fixture.settings.scratch.as_ref().unwrap()).unwrap();
    assert_eq!(remaining.count(), 0, "private directories are removed");
}

#[tokio::test]
async fn operator_paths_are_writable() {
    let mut fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let target_dir = public_dir_in(&outside_dir());
    let temp_dir = public_dir_in(&std::env::temp_dir());
    let unlisted = public_dir_in(&outside_dir());
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
    let missing = missing_layers(&fixture.settings).await;
    !missing.contains(&Layer::ReadOnlyRoot)
}

#[tokio::test]
async fn writable_directory_exposes_no_hidden_path() {
    let mut fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let dir = public_dir_in(&outside_dir());
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("data/out/inner")).unwrap();
    for name in ["data", "data/out", "data/out/inner"] {
        make_public(&path(name));
    }
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
    let dir = public_dir_in(&outside_dir());
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).unwrap();
    make_public(&real);
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
    check_probe(ToolKind::Script, SandboxMode::Strict, true).await;
    check_probe(ToolKind::Python, SandboxMode::Strict, true).await;
}

#[tokio::test]
async fn default_sandbox_blocks_attempts() {
    check_probe(ToolKind::Script, SandboxMode::BestEffort, false).await;
    check_probe(ToolKind::Python, SandboxMode::BestEffort, false).await;
}

#[tokio::test]
async fn attempts_succeed_without_sandbox() {
    check_probe(ToolKind::Script, SandboxMode::Off, false).await;
    check_probe(ToolKind::Python, SandboxMode::Off, false).await;
}

/// Code that changes its driver, and leaves files, a process and a value in memory. Its own result
/// shows that the change of the driver works.
const PYTHON_TRACES: &str = r#"
import builtins, json, subprocess, sys
json.trace = builtins.trace = value
frame = sys._getframe()
while frame:
    if frame.f_globals.get("__name__") == "noetl_driver":
        frame.f_globals["encode"] = lambda value: b'"forged"'
    frame = frame.f_back
for folder in (".", "/tmp", "/var/tmp", "/dev/shm"):
    open(folder + "/trace-NAME", "w").write(value)
subprocess.Popen(["sleep", "ORPHAN"], start_new_session=True)
result = "mine"
"#;

/// Code that searches for what the code above has left.
const PYTHON_SEARCH: &str = r#"
import builtins, json, os, re
found = [name for name, module in (("json", json), ("builtins", builtins)) if hasattr(module, "trace")]
for folder in (".", "/tmp", "/var/tmp", "/dev/shm"):
    if os.path.exists(folder + "/trace-NAME"): found.append(folder)
def has_sleeper(pid):
    try: return b"ORPHAN" in open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError: return False
if any(has_sleeper(pid) for pid in os.listdir("/proc") if pid.isdigit()): found.append("process")
needle = re.compile(pattern.encode())
for line in open("/proc/self/maps"):
    span, mode = line.split()[:2]
    if "rw" in mode and "deleted" not in line:
        start, end = (int(part, 16) for part in span.split("-"))
        try:
            memory = os.pread(os.open("/proc/self/mem", os.O_RDONLY), end - start, start)
        except (OSError, OverflowError):
            continue
        if needle.search(memory): found.append("memory")
result = found
"#;

/// Results of calls that leave and search for traces.
struct Traces {
    left: Json,
    found: Json,
    /// Traces that a call finds which has the searched value itself.
    found_own: Json,
    orphan: String,
}

async fn leave_and_search(fixture: &SandboxFixture) -> Traces {
    let toolbox = Toolbox::new(fixture.settings.clone());
    let orphan = unique_sleep_seconds();
    let run = async |code: &str, input: &[(&str, &str)]| {
        let code = code.replace("ORPHAN", &orphan).replace("NAME", &orphan);
        let config = Json::object([("code", Json::from(code))]);
        let mut call = tool_call(ToolKind::Python, &config, TASK_TIMEOUT);
        let input = input.iter().map(|(name, value)| ((*name).into(), Json::from(*value)));
        call.input = input.collect();
        let outcome = toolbox.call(call, CancellationToken::new()).await;
        assert_eq!(outcome.error, None, "{:?}", outcome.data);
        outcome.data
    };
    let value = ("value", "recognizable-7301");
    let pattern = ("pattern", "recognizable-730[1]");
    let left = run(PYTHON_TRACES, &[value]).await;
    let found = run(PYTHON_SEARCH, &[pattern]).await;
    let found_own = run(PYTHON_SEARCH, &[pattern, value]).await;
    toolbox.shutdown().await;
    Traces { left, found, found_own, orphan }
}

#[tokio::test]
async fn python_call_leaves_no_traces() {
    for mode in [SandboxMode::BestEffort, SandboxMode::Strict] {
        let fixture = SandboxFixture::new(mode, mode == SandboxMode::Strict);
        let missing = missing_layers(&fixture.settings).await;
        if !missing.iter().copied().all(is_optional) {
            // Then tasks are refused, which `check_probe` verifies.
            continue;
        }
        let traces = leave_and_search(&fixture).await;
        assert_eq!(traces.left, Json::from("forged"), "code can change its own driver");
        assert_eq!(traces.found, Json::list(Vec::new()), "{mode:?}");
        assert!(traces.found_own.to_string().contains("memory"), "{}", traces.found_own);
        wait_until("the orphan ends", || find_sleepers(&traces.orphan).is_empty()).await;
    }
    // Without a sandbox, the files and the process stay. The interpreter is nevertheless another.
    let fixture = SandboxFixture::new(SandboxMode::Off, false);
    let Traces { left, found, orphan, .. } = leave_and_search(&fixture).await;
    assert_eq!(left, Json::from("forged"));
    let expected = ["/tmp", "/var/tmp", "/dev/shm", "process"].map(Json::from);
    assert_eq!(found, Json::list(expected));
    kill_processes(&find_sleepers(&orphan));
    for dir in ["/tmp", "/var/tmp", "/dev/shm"] {
        fs::remove_file(format!("{dir}/trace-{orphan}")).unwrap();
    }
}

/// Two calls that run at the same time, forked from the same interpreter.
#[tokio::test]
async fn concurrent_python_calls_are_isolated() {
    for (mode, is_isolated) in
        [(SandboxMode::BestEffort, true), (SandboxMode::Strict, true), (SandboxMode::Off, false)]
    {
        let fixture = SandboxFixture::new(mode, false);
        let missing = missing_layers(&fixture.settings).await;
        if is_isolated && !missing.iter().copied().all(is_optional) {
            continue;
        }
        let toolbox = Toolbox::new(fixture.settings.clone());
        let running = fixture.shared.path().join("running");
        let seconds = unique_sleep_seconds();
        let (first, second) = (
            format!(
                "import os, subprocess\nopen('mine', 'w').close()\nopen('/tmp/mine-{seconds}', 'w')\n\
                 subprocess.Popen(['sleep', '{seconds}'])\nopen('{}', 'w').close()\n\
                 os.wait()",
                running.display()
            ),
            format!(
                "import glob, os\nscratch = '{}'\n\
                 files = glob.glob(scratch + '/**/mine', recursive=True)\n\
                 files += glob.glob('/tmp/mine-{seconds}')\n\
                 def line(file):\n    \
                 try: return open(file, 'rb').read()\n    \
                 except OSError: return b''\n\
                 lines = map(line, glob.glob('/proc/[0-9]*/cmdline'))\n\
                 result = [len(files), sum(b'{seconds}' in line for line in lines)]",
                fixture.settings.scratch.as_ref().unwrap().display()
            ),
        );
        let call = |code: String| {
            let config = Json::object([("code", Json::from(code))]);
            tool_call(ToolKind::Python, &config, TASK_TIMEOUT)
        };
        let cancel = CancellationToken::new();
        let search = async {
            wait_until("the first call runs", || running.exists()).await;
            let outcome = toolbox.call(call(second), CancellationToken::new()).await;
            cancel.cancel();
            outcome
        };
        let (_, outcome) = tokio::join!(toolbox.call(call(first), cancel.clone()), search);
        assert_eq!(outcome.error, None, "{:?}", outcome.data);
        let expected = if is_isolated { [0, 0] } else { [2, 1] };
        assert_eq!(outcome.data, Json::list(expected.map(Json::from)), "{mode:?}");
        toolbox.shutdown().await;
        let _ = fs::remove_file(format!("/tmp/mine-{seconds}"));
    }
}

/// Tasks of a worker that is root run as another user, in all modes.
#[tokio::test]
async fn tasks_of_root_run_as_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (mode, user, expected) in [
        (SandboxMode::BestEffort, SandboxSettings::default().user, Some("64999\n")),
        (SandboxMode::Strict, Some(65_001), Some("65001\n")),
        (SandboxMode::BestEffort, None, Some("0\n")),
        (SandboxMode::Strict, None, None),
    ] {
        let mut fixture = SandboxFixture::new(mode, false);
        fixture.settings.sandbox.user = user;
        let missing = missing_layers(&fixture.settings).await;
        if !missing.iter().all(|layer| is_optional(*layer) || *layer == Layer::OwnUser) {
            continue;
        }
        let outcome = fixture.run_shell("id -u").await;
        if let Some(expected) = expected {
            assert_eq!(outcome.data.get("stdout"), Some(&Json::from(expected)), "{outcome:?}");
        } else {
            let error = outcome.error.expect("tasks would be root").message;
            assert!(error.contains("separate user (NOETL_SANDBOX_USER=worker)"), "{error}");
        }
    }
}

/// Runs `noetl doctor` where no namespaces can be created, as in most containers.
fn run_doctor_without_namespaces(sandbox: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c"])
        .arg(
            "echo 0 > /proc/sys/user/max_user_namespaces && \
             exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" doctor",
        )
        .arg(env!("CARGO_BIN_EXE_noetl"))
        .env("HOME", home.path())
        .env("NOETL_DATA_DIR", home.path())
        .env("NOETL_SANDBOX", sandbox)
        .output()
        .expect("unshare is installed");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[tokio::test]
async fn worker_without_namespaces_refuses_tasks() {
    let fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    if missing_layers(&fixture.settings).await.contains(&Layer::UserNamespace) {
        // This machine itself is one without namespaces.
        return;
    }
    let report = run_doctor_without_namespaces("best_effort");
    assert!(report.contains("workers refuse tasks"), "{report}");
    assert!(report.contains("set NOETL_SANDBOX=off"), "{report}");
    // The operator can allow it.
    let report = run_doctor_without_namespaces("off");
    assert!(!report.contains("workers refuse tasks"), "{report}");
    assert!(report.contains("isolation of tasks, sandbox off"), "{report}");
}

/// Runs the other tests as a user without privileges, if this process is root.
#[test]
fn ordinary_user_is_contained() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let outside = public_dir_in(&outside_dir());
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["sandbox::", "--skip", "ordinary_user_is_contained"])
        .env(OUTSIDE_DIR_VARIABLE, outside.path())
        .env("HOME", outside.path())
        .current_dir("/")
        .output()
        .expect("setpriv is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("running 0 tests"), "{text}");
}

#[tokio::test]
async fn orphan_is_killed_at_deadline() {
    let fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let orphan = unique_sleep_seconds();
    let command = format!("setsid sleep {orphan} & sleep 1000");
    let config = Json::object([("command", Json::from(command))]);
    let outcome = fixture.call_tool(ToolKind::Shell, config, Duration::from_secs(3)).await;
    assert_eq!(outcome.error.unwrap().kind, TaskErrorKind::Timeout);
    if missing_layers(&fixture.settings).await.contains(&Layer::PidNamespace) {
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
    let outcome = toolbox.call(code(work), CancellationToken::new()).await;
    assert_eq!(outcome.error, None, "{:?}", outcome.data);
    assert_eq!(outcome.data.as_list().unwrap()[1], Json::from("hello"));
    toolbox.shutdown().await;
}

/// The task receives SIGTERM and can still write output.
#[tokio::test]
async fn cancelled_sandboxed_task_gets_sigterm_first() {
    let fixture = SandboxFixture::new(SandboxMode::BestEffort, false);
    let toolbox = Toolbox::new(fixture.settings.clone());
    let seconds = unique_sleep_seconds();
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

/// Code that starts four processes with 100 MiB each, and ends when all have their memory.
const MEMORY_CODE: &str = "
import os, time
pids = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        data = b'x' * (100 << 20)
        open(f'FOLDER/{number}', 'w').close()
        time.sleep(1000)
    pids.append(pid)
while len(os.listdir('FOLDER')) < 4 or KEEP: time.sleep(0.05)
for pid in pids: os.kill(pid, 9)
";

/// The kernel limits only each process.
#[tokio::test]
async fn memory_of_all_processes_of_task_is_limited() {
    for mode in [SandboxMode::BestEffort, SandboxMode::Off] {
        for (kind, is_limited) in [
            (ToolKind::Script, true),
            (ToolKind::Script, false),
            (ToolKind::Python, true),
            (ToolKind::Python, false),
        ] {
            let mut fixture = SandboxFixture::new(mode, false);
            if mode != SandboxMode::Off && !has_read_only_root(&fixture).await {
                continue;
            }
            let limit = ByteSize::from_mib(if is_limited { 300 } else { 1000 });
            fixture.settings.process_limits.memory = Some(limit);
            // Without the limit, the processes get their memory.
            let code = MEMORY_CODE
                .replace("FOLDER", &fixture.shared.path().display().to_string())
                .replace("KEEP", if is_limited { "True" } else { "False" });
            let config = if kind == ToolKind::Python {
                Json::object([("code", Json::from(code))])
            } else {
                let code = format!("#!{}\n{code}", fixture.settings.python.interpreter);
                Json::object([("script", Json::object([("content", Json::from(code))]))])
            };
            let outcome = fixture.call_tool(kind, config, TASK_TIMEOUT).await;
            if is_limited {
                let error = outcome.error.expect("the task is killed");
                assert!(error.message.contains("NOETL_TASK_MEMORY"), "{mode:?}: {}", error.message);
            } else {
                assert_eq!(outcome.error, None, "{mode:?}: {:?}", outcome.data);
            }
        }
    }
}
