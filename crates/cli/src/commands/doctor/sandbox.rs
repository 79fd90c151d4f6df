//! The task sandbox, as a task observes it.
//!
//! The check does not rely on the settings: it runs a probe task in the way a worker does, and the
//! task reports its environment.

use std::fs;
use std::time::Duration;

use noetl_playbook::model::ToolKind;
use noetl_tools::sandbox::{SandboxMode, SandboxStatus};
use noetl_tools::{CancellationToken, ToolCall, Toolbox};
use noetl_types::{ByteSize, Json, JsonMap};

use super::{CheckFinding, failed, note, ok, warning};
use crate::config::Config;
use crate::io::{Env, Io};
use crate::roles::{self, CodeTrust, PlatformToolSettings};

/// Timeout of the probe task.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Units in which a shell reports memory and file limits.
const BYTES_PER_KIB: u64 = 1024;
const BYTES_PER_BLOCK: u64 = 512;

/// Script of the probe task. Prints one fact per line.
const PROBE_SCRIPT: &str = "echo group $(cut -d' ' -f5 /proc/$$/stat)
echo mode $(stat -c %a .)
echo memory $(ulimit -v)
echo files $(ulimit -n)
echo size $(ulimit -f)
echo cpu $(ulimit -t)
env | cut -d= -f1 | sed 's/^/var /'";

/// Runs the probe task and reports its findings.
pub(super) fn check_sandbox(config: &Config, io: &Io<'_>) -> CheckFinding {
    match probe_sandbox(config, &io.env) {
        Ok((_, status)) if status.refuses_tasks() => {
            let missing = status.describe_inactive().join(", ");
            let text = format!("workers refuse tasks, because not active: {missing}");
            failed("sandbox", text).fix(match status.mode {
                SandboxMode::Strict => {
                    "allow this user to create user namespaces, or set NOETL_SANDBOX=best_effort"
                }
                SandboxMode::Off | SandboxMode::BestEffort => {
                    "allow this user to create user namespaces; if you trust all authors of the \
                     playbooks that workers run here, set NOETL_SANDBOX=off"
                }
            })
        }
        Ok((output, status)) => evaluate_probe(&output, &status, &own_group(), &io.env),
        Err(reason) => {
            let text = format!("the probe task cannot be run: {reason}");
            warning("sandbox", text)
        }
    }
}

/// Runs the probe task. Returns its output and the sandbox layers that the kernel supports.
fn probe_sandbox(config: &Config, env: &Env) -> Result<(String, SandboxStatus), String> {
    let settings =
        roles::tool_settings(config, env, CodeTrust::Untrusted, PlatformToolSettings::default());
    let settings = settings.map_err(|error| error.to_string())?;
    let runtime = roles::build_tokio_runtime(config, 1).map_err(|error| error.to_string())?;
    let (outcome, status) = runtime.block_on(async {
        let status = SandboxStatus::probe(&settings).await;
        let toolbox = Toolbox::new(settings);
        let outcome = toolbox.call(probe_call(), CancellationToken::new()).await;
        toolbox.shutdown().await;
        (outcome, status)
    });
    if status.refuses_tasks() {
        return Ok((String::new(), status));
    }
    if let Some(error) = outcome.error {
        return Err(error.message.to_string());
    }
    let stdout = outcome.data.get("stdout").and_then(Json::as_str);
    stdout.map(|stdout| (stdout.to_owned(), status)).ok_or_else(|| "it printed nothing".to_owned())
}

fn probe_call() -> ToolCall {
    ToolCall {
        kind: ToolKind::Shell,
        config: JsonMap::from([("command".into(), Json::from(PROBE_SCRIPT))]),
        input: JsonMap::new(),
        execution_id: "0".to_owned(),
        command: "doctor".to_owned(),
        step: "doctor".to_owned(),
        label: "sandbox".to_owned(),
        idempotency_key: "doctor".to_owned(),
        attempt: 1,
        timeout: PROBE_TIMEOUT,
        context: Json::empty_map(),
        variables: Json::empty_map(),
    }
}

/// Process group of this process.
fn own_group() -> String {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program name is in parentheses and may contain spaces.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let group = rest.split_whitespace().nth(2);
    group.unwrap_or_default().to_owned()
}

fn evaluate_probe(
    output: &str,
    status: &SandboxStatus,
    own_group: &str,
    env: &Env,
) -> CheckFinding {
    let fact = |name: &str| {
        let lines = output.lines().filter_map(|line| line.split_once(' '));
        let mut matches = lines.filter(|(fact, _)| *fact == name);
        matches.next().map_or("", |(_, value)| value.trim())
    };
    let is_bounded = |name: &str| fact(name).parse::<u64>().is_ok();
    let leaks = output.lines().any(|line| {
        line.strip_prefix("var ")
            .is_some_and(|name| name.starts_with("NOETL_") && env.get(name).is_some())
    });
    let layers = [
        ("a separate process group", !fact("group").is_empty() && fact("group") != own_group),
        ("a private directory", fact("mode") == "700"),
        ("a cleared environment", !leaks),
        ("a memory limit", is_bounded("memory")),
        ("an open file limit", is_bounded("files")),
        ("a file size limit", is_bounded("size")),
        ("a CPU time limit", is_bounded("cpu")),
    ];
    let names = |wanted: bool| {
        let matching = layers.iter().filter(|(_, is_active)| *is_active == wanted);
        matching.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let (active, missing) = (names(true), names(false));
    if !missing.is_empty() {
        let text = format!("a task lacks {missing}; it has {active}");
        return failed("sandbox", text)
            .fix("run workers on Linux with a shell that supports ulimit");
    }
    let size = |name: &str, unit: u64| {
        let units = fact(name).parse::<u64>().unwrap_or_default();
        ByteSize::from_bytes(units.saturating_mul(unit))
    };
    let (memory, files) = (size("memory", BYTES_PER_KIB), size("size", BYTES_PER_BLOCK));
    let limits = format!("{memory} of memory (NOETL_TASK_MEMORY) and files of {files}");
    let inactive = status.describe_inactive().join(", ");
    if inactive.is_empty() {
        let text = format!("a task has {active}: {limits}; all kernel layers are active");
        return ok("sandbox", text);
    }
    let text = format!("a task has {active}: {limits}; not active: {inactive}");
    note("sandbox", text)
}

#[cfg(test)]
mod tests;
