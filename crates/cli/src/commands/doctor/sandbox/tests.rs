use noetl_tools::sandbox::{InactiveLayer, Layer};

use super::super::CheckState;
use super::*;

const PROBE_OUTPUT: &str = "group 12\nmode 700\nmemory 33554432\nfiles 4096\nsize 8388608\ncpu 40\n\
        var PATH\n";

fn sandbox_status(missing: &[Layer]) -> SandboxStatus {
    let missing =
        missing.iter().map(|layer| InactiveLayer { wall: *layer, why: "EPERM".to_owned() });
    SandboxStatus {
        mode: SandboxMode::BestEffort,
        is_offline: false,
        missing: Ok(missing.collect()),
    }
}

fn evaluate_output(output: &str, env: &[(&str, &str)]) -> (CheckState, String) {
    let status = sandbox_status(&[Layer::Seccomp, Layer::PidNamespace]);
    let finding = evaluate_probe(output, &status, "7", &env.iter().copied().collect());
    (finding.state, finding.detail)
}

#[test]
fn missing_layers_are_named() {
    let (state, text) = evaluate_output(PROBE_OUTPUT, &[]);
    assert_eq!(state, CheckState::Note, "{text}");
    assert!(text.contains(": 32GiB of memory (NOETL_TASK_MEMORY) and files of 4GiB; "), "{text}");
    let inactive = "not active: isolation of tasks, seccomp (EPERM), pid namespace (EPERM)";
    assert!(text.ends_with(inactive), "{text}");
    for (active_line, inactive_line, layer) in [
        ("group 12", "group 7", "a separate process group"),
        ("mode 700", "mode 755", "a private directory"),
        ("memory 33554432", "memory unlimited", "a memory limit"),
        ("files 4096", "files unlimited", "an open file limit"),
        ("cpu 40", "cpu", "a CPU time limit"),
    ] {
        let (state, text) = evaluate_output(&PROBE_OUTPUT.replace(active_line, inactive_line), &[]);
        assert_eq!(state, CheckState::Failed);
        assert!(text.contains(&format!("a task lacks {layer}")), "{text}");
    }
    let leaking = format!("{PROBE_OUTPUT}var NOETL_DSN\n");
    let (state, text) = evaluate_output(&leaking, &[("NOETL_DSN", "postgres://…")]);
    assert_eq!(state, CheckState::Failed);
    assert!(text.contains("a cleared environment"), "{text}");
}
