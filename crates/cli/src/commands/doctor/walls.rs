//! The walls around tasks, as a task finds them.
//!
//! What stands there is not what somebody once wrote down: a task is run as a worker runs it, and
//! looks around.

use std::fs;
use std::time::Duration;

use noetl_playbook::model::ToolKind;
use noetl_tools::egress::EgressPolicy;
use noetl_tools::{Call, CancellationToken};
use noetl_types::{Json, JsonMap};

use super::{Finding, State};
use crate::config::Config;
use crate::io::{Env, Io};
use crate::roles::{self, OfPlatform};

/// How long the task may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Says one fact a line.
const LOOK: &str = "echo group $(cut -d' ' -f5 /proc/$$/stat)
echo mode $(stat -c %a .)
echo memory $(ulimit -v)
echo files $(ulimit -n)
echo size $(ulimit -f)
echo cpu $(ulimit -t)
echo seccomp $(grep ^Seccomp: /proc/$$/status | cut -f2)
echo pidns $(readlink /proc/$$/ns/pid)
env | cut -d= -f1 | sed 's/^/var /'";

/// Runs a task that looks around, and tells what it found.
pub(super) fn walls(config: &Config, io: &Io<'_>) -> Finding {
    match look(config, &io.env) {
        Ok(seen) => judged(&seen, &own(), &io.env),
        Err(why) => {
            let text = format!("a task that would look at them cannot be run: {why}");
            Finding::new("walls", State::Warning, text)
        }
    }
}

fn look(config: &Config, env: &Env) -> Result<String, String> {
    let public = EgressPolicy::Public { allow: Vec::new() };
    let toolbox = roles::toolbox(config, env, public, OfPlatform::default());
    let toolbox = toolbox.map_err(|error| error.to_string())?;
    let threads = roles::threads(config, 1).map_err(|error| error.to_string())?;
    let outcome = threads.block_on(async {
        let outcome = toolbox.call(call(), CancellationToken::new()).await;
        toolbox.shutdown().await;
        outcome
    });
    if let Some(error) = outcome.error {
        return Err(error.message.to_string());
    }
    let said = outcome.data.get("stdout").and_then(Json::as_str);
    said.map(str::to_owned)
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

/// What this process is in.
struct Own {
    group: String,
    pidns: String,
}

fn own() -> Own {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in brackets, and may hold blanks.
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    Own {
        group: rest
            .split_whitespace()
            .nth(2)
            .unwrap_or_default()
            .to_owned(),
        pidns: link.display().to_string(),
    }
}

fn judged(seen: &str, own: &Own, env: &Env) -> Finding {
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
            !fact("group").is_empty() && fact("group") != own.group,
        ),
        ("a private folder", fact("mode") == "700"),
        ("a cleared environment", !leaks),
        ("a limit of memory", is_bounded("memory")),
        ("a limit of open files", is_bounded("files")),
        ("a limit of file sizes", is_bounded("size")),
        ("a limit of processor time", is_bounded("cpu")),
    ];
    let perhaps = [
        ("seccomp", !matches!(fact("seccomp"), "" | "0")),
        (
            "a pid namespace",
            !fact("pidns").is_empty() && fact("pidns") != own.pidns,
        ),
    ];
    let names = |walls: &[(&'static str, bool)], wanted: bool| {
        let walls = walls.iter().filter(|(_, is_up)| *is_up == wanted);
        walls.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let (up, missing) = (names(&always, true), names(&always, false));
    let not_raised = names(&perhaps, false);
    if !missing.is_empty() {
        let text = format!("a task lacks {missing}; it has {up}");
        return Finding::new("walls", State::Failed, text)
            .fix("run workers on Linux with a shell that knows ulimit");
    }
    let mut text = format!("a task found {up}");
    if !not_raised.is_empty() {
        text.push_str(&format!("; not raised: {not_raised}"));
    }
    Finding::new("walls", State::Ok, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: &str = "group 12\nmode 700\nmemory 33554432\nfiles 4096\nsize 8388608\ncpu 40\n\
        seccomp 0\npidns pid:[1]\nvar PATH\n";

    fn own() -> Own {
        Own {
            group: "7".to_owned(),
            pidns: "pid:[1]".to_owned(),
        }
    }

    fn finding(seen: &str, env: &[(&str, &str)]) -> (State, String) {
        let finding = judged(seen, &own(), &env.iter().copied().collect());
        (finding.state, finding.detail)
    }

    #[test]
    fn each_wall_that_is_not_there_is_named() {
        let (state, text) = finding(SEEN, &[]);
        assert_eq!(state, State::Ok, "{text}");
        assert!(
            text.ends_with("not raised: seccomp, a pid namespace"),
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
