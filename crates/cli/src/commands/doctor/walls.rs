//! The walls around tasks, as a task finds them.
//!
//! What stands there is not what somebody once wrote down: a task is run as a worker runs it, and
//! looks around.

use std::fs;
use std::time::Duration;

use noetl_playbook::model::ToolKind;
use noetl_tools::walls::{SandboxMode, Standing};
use noetl_tools::{Call, CancellationToken};
use noetl_types::{ByteSize, Json, JsonMap};

use super::{Finding, State};
use crate::config::Config;
use crate::io::{Env, Io};
use crate::roles::{self, Code, OfPlatform};

/// How long the task may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// In what a shell counts memory and files.
const KIB: u64 = 1024;
const BLOCK: u64 = 512;

/// Says one fact a line.
const LOOK: &str = "echo group $(cut -d' ' -f5 /proc/$$/stat)
echo mode $(stat -c %a .)
echo memory $(ulimit -v)
echo files $(ulimit -n)
echo size $(ulimit -f)
echo cpu $(ulimit -t)
env | cut -d= -f1 | sed 's/^/var /'";

/// Runs a task that looks around, and tells what it found.
pub(super) fn walls(config: &Config, io: &Io<'_>) -> Finding {
    match look(config, &io.env) {
        Ok((_, standing)) if is_refusing(&standing) => {
            let missing = standing.lacking().join(", ");
            let text = format!("tasks are refused, since these cannot be raised: {missing}");
            Finding::new("walls", State::Failed, text)
                .fix("let this user make user namespaces, or set NOETL_SANDBOX=best_effort")
        }
        Ok((seen, standing)) => judged(&seen, &standing, &own_group(), &io.env),
        Err(why) => {
            let text = format!("a task that would look at them cannot be run: {why}");
            Finding::new("walls", State::Warning, text)
        }
    }
}

fn is_refusing(standing: &Standing) -> bool {
    standing.mode == SandboxMode::Strict && !standing.lacking().is_empty()
}

/// What a task says that looks around, and which of the kernel's walls can be raised.
fn look(config: &Config, env: &Env) -> Result<(String, Standing), String> {
    let toolbox = roles::toolbox(config, env, Code::Others, OfPlatform::default());
    let sandbox = roles::sandbox(config, Code::Others).map_err(|error| error.to_string())?;
    let toolbox = toolbox.map_err(|error| error.to_string())?;
    let threads = roles::threads(config, 1).map_err(|error| error.to_string())?;
    let (outcome, standing) = threads.block_on(async {
        let standing = Standing::of(&sandbox).await;
        let outcome = toolbox.call(call(), CancellationToken::new()).await;
        toolbox.shutdown().await;
        (outcome, standing)
    });
    if is_refusing(&standing) {
        return Ok((String::new(), standing));
    }
    if let Some(error) = outcome.error {
        return Err(error.message.to_string());
    }
    let said = outcome.data.get("stdout").and_then(Json::as_str);
    said.map(|said| (said.to_owned(), standing))
        .ok_or_else(|| "it said nothing".to_owned())
}

fn call() -> Call {
    Call {
        kind: ToolKind::Shell,
        config: JsonMap::from([("command".into(), Json::from(LOOK))]),
        input: JsonMap::new(),
        execution_id: "0".to_owned(),
        command: "doctor".to_owned(),
        step: "doctor".to_owned(),
        label: "walls".to_owned(),
        idempotency_key: "doctor".to_owned(),
        attempt: 1,
        timeout: PATIENCE,
        context: Json::empty_map(),
        variables: Json::empty_map(),
    }
}

/// The process group of this process.
fn own_group() -> String {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in brackets, and may hold blanks.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let group = rest.split_whitespace().nth(2);
    group.unwrap_or_default().to_owned()
}

fn judged(seen: &str, standing: &Standing, own_group: &str, env: &Env) -> Finding {
    let fact = |name: &str| {
        let lines = seen.lines().filter_map(|line| line.split_once(' '));
        let mut found = lines.filter(|(fact, _)| *fact == name);
        found.next().map_or("", |(_, value)| value.trim())
    };
    let is_bounded = |name: &str| fact(name).parse::<u64>().is_ok();
    let leaks = seen.lines().any(|line| {
        line.strip_prefix("var ")
            .is_some_and(|name| name.starts_with("NOETL_") && env.get(name).is_some())
    });
    let always = [
        (
            "a process group of its own",
            !fact("group").is_empty() && fact("group") != own_group,
        ),
        ("a private folder", fact("mode") == "700"),
        ("a cleared environment", !leaks),
        ("a limit of memory", is_bounded("memory")),
        ("a limit of open files", is_bounded("files")),
        ("a limit of file sizes", is_bounded("size")),
        ("a limit of processor time", is_bounded("cpu")),
    ];
    let names = |walls: &[(&'static str, bool)], wanted: bool| {
        let walls = walls.iter().filter(|(_, is_up)| *is_up == wanted);
        walls.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let (up, missing) = (names(&always, true), names(&always, false));
    if !missing.is_empty() {
        let text = format!("a task lacks {missing}; it has {up}");
        return Finding::new("walls", State::Failed, text)
            .fix("run workers on Linux with a shell that knows ulimit");
    }
    let size = |name: &str, unit: u64| {
        let units = fact(name).parse::<u64>().unwrap_or_default();
        ByteSize::from_bytes(units.saturating_mul(unit))
    };
    let (memory, files) = (size("memory", KIB), size("size", BLOCK));
    let limits = format!("{memory} of memory (NOETL_TASK_MEMORY) and files of {files}");
    let not_raised = standing.lacking().join(", ");
    if not_raised.is_empty() {
        let text = format!("a task found {up}: {limits}; all others are raised");
        return Finding::new("walls", State::Ok, text);
    }
    let text = format!("a task found {up}: {limits}; not raised: {not_raised}");
    Finding::new("walls", State::Note, text)
}

#[cfg(test)]
mod tests {
    use noetl_tools::walls::{Missing, Wall};

    use super::*;

    const SEEN: &str = "group 12\nmode 700\nmemory 33554432\nfiles 4096\nsize 8388608\ncpu 40\n\
        var PATH\n";

    fn standing(missing: &[Wall]) -> Standing {
        let missing = missing.iter().map(|wall| Missing {
            wall: *wall,
            why: "EPERM".to_owned(),
        });
        Standing {
            mode: SandboxMode::BestEffort,
            is_offline: false,
            missing: Ok(missing.collect()),
        }
    }

    fn finding(seen: &str, env: &[(&str, &str)]) -> (State, String) {
        let standing = standing(&[Wall::Seccomp, Wall::PidNamespace]);
        let finding = judged(seen, &standing, "7", &env.iter().copied().collect());
        (finding.state, finding.detail)
    }

    #[test]
    fn each_wall_that_is_not_there_is_named() {
        let (state, text) = finding(SEEN, &[]);
        assert_eq!(state, State::Note, "{text}");
        assert!(
            text.contains(": 32GiB of memory (NOETL_TASK_MEMORY) and files of 4GiB; "),
            "{text}"
        );
        assert!(
            text.ends_with("not raised: seccomp (EPERM), a pid namespace (EPERM)"),
            "{text}"
        );
        for (there, gone, wall) in [
            ("group 12", "group 7", "a process group of its own"),
            ("mode 700", "mode 755", "a private folder"),
            ("memory 33554432", "memory unlimited", "a limit of memory"),
            ("files 4096", "files unlimited", "a limit of open files"),
            ("cpu 40", "cpu", "a limit of processor time"),
        ] {
            let (state, text) = finding(&SEEN.replace(there, gone), &[]);
            assert_eq!(state, State::Failed);
            assert!(text.contains(&format!("a task lacks {wall}")), "{text}");
        }
        let leaking = format!("{SEEN}var NOETL_DSN\n");
        let (state, text) = finding(&leaking, &[("NOETL_DSN", "postgres://…")]);
        assert_eq!(state, State::Failed);
        assert!(text.contains("a cleared environment"), "{text}");
    }
}
