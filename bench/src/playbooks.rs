//! Playbooks of the workloads, generated from their counts.

use noetl_types::PlaybookPath;

use crate::error::BenchError;

/// A playbook, and the number of commands that a run of it completes.
#[derive(Debug, Clone)]
pub(crate) struct BenchPlaybook {
    pub(crate) path: PlaybookPath,
    pub(crate) text: String,
    pub(crate) commands: u64,
}

/// Number of steps in a sequence.
const SEQUENCE_STEPS: u32 = 10;

/// Maximum concurrent Python steps: as many as a worker runs.
const PYTHON_IN_FLIGHT: u32 = 32;

/// Creates a playbook with one step that does nothing.
pub(crate) fn one_step_playbook() -> Result<BenchPlaybook, BenchError> {
    build_playbook("one", "  - { step: start, tool: { kind: noop } }\n", 1)
}

/// Creates a playbook with ten steps in sequence that do nothing.
pub(crate) fn sequence_playbook() -> Result<BenchPlaybook, BenchError> {
    let steps: String = (1..=SEQUENCE_STEPS)
        .map(|number| {
            let next = if number < SEQUENCE_STEPS {
                format!(", next: {{ arcs: [{{ step: s{} }}] }}", number + 1)
            } else {
                String::new()
            };
            format!("  - {{ step: s{number}, tool: {{ kind: noop }}{next} }}\n")
        })
        .collect();
    build_playbook("sequence", &steps, u64::from(SEQUENCE_STEPS))
}

/// Creates a playbook with many concurrent tasks that do nothing, and their join.
pub(crate) fn fan_out_playbook(tasks: u32, in_flight: u32) -> Result<BenchPlaybook, BenchError> {
    let step = format!(
        "  - step: each\n    tool: {{ kind: noop }}\n    loop:\n      in: {tasks}\n      \
         iterator: n\n      spec: {{ mode: parallel, max_in_flight: {in_flight} }}\n"
    );
    build_playbook(&format!("fan_out_{tasks}"), &step, u64::from(tasks))
}

/// Creates a playbook with many Python steps that add one.
pub(crate) fn python_playbook(steps: u32) -> Result<BenchPlaybook, BenchError> {
    let step = format!(
        "  - step: each\n    tool:\n      kind: python\n      input: {{ n: \"{{{{ n }}}}\" }}\n      \
         code: result = n + 1\n    loop:\n      in: {steps}\n      iterator: n\n      \
         spec: {{ mode: parallel, max_in_flight: {PYTHON_IN_FLIGHT} }}\n"
    );
    build_playbook(&format!("python_{steps}"), &step, u64::from(steps))
}

fn build_playbook(name: &str, steps: &str, commands: u64) -> Result<BenchPlaybook, BenchError> {
    let path = format!("bench/{name}");
    let text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: {path} }}\n\
         workflow:\n{steps}"
    );
    let path = PlaybookPath::new(path).map_err(|error| BenchError::Harness(error.to_string()))?;
    Ok(BenchPlaybook { path, text, commands })
}
