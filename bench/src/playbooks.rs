//! The playbooks of the workloads, made from nothing but their counts.

use noetl_types::PlaybookPath;

use crate::error::BenchError;

/// A playbook, and how many commands a run of it completes.
#[derive(Debug, Clone)]
pub(crate) struct Playbook {
    pub(crate) path: PlaybookPath,
    pub(crate) text: String,
    pub(crate) commands: u64,
}

/// How many steps a sequence has.
const SEQUENCE: u32 = 10;

/// Python steps that may be under way at once: as many as a worker runs.
const PYTHON_IN_FLIGHT: u32 = 32;

/// One step that does nothing.
pub(crate) fn one_step() -> Result<Playbook, BenchError> {
    playbook("one", "  - { step: start, tool: { kind: noop } }\n", 1)
}

/// Ten steps that do nothing, one after the other.
pub(crate) fn sequence() -> Result<Playbook, BenchError> {
    let steps: String = (1..=SEQUENCE)
        .map(|number| {
            let next = if number < SEQUENCE {
                format!(", next: {{ arcs: [{{ step: s{} }}] }}", number + 1)
            } else {
                String::new()
            };
            format!("  - {{ step: s{number}, tool: {{ kind: noop }}{next} }}\n")
        })
        .collect();
    playbook("sequence", &steps, u64::from(SEQUENCE))
}

/// Many tasks at once that do nothing, and their join.
pub(crate) fn fan_out(tasks: u32, in_flight: u32) -> Result<Playbook, BenchError> {
    let step = format!(
        "  - step: each\n    tool: {{ kind: noop }}\n    loop:\n      in: {tasks}\n      \
         iterator: n\n      spec: {{ mode: parallel, max_in_flight: {in_flight} }}\n"
    );
    playbook(&format!("fan_out_{tasks}"), &step, u64::from(tasks))
}

/// Many python steps that add one.
pub(crate) fn python(steps: u32) -> Result<Playbook, BenchError> {
    let step = format!(
        "  - step: each\n    tool:\n      kind: python\n      input: {{ n: \"{{{{ n }}}}\" }}\n      \
         code: result = n + 1\n    loop:\n      in: {steps}\n      iterator: n\n      \
         spec: {{ mode: parallel, max_in_flight: {PYTHON_IN_FLIGHT} }}\n"
    );
    playbook(&format!("python_{steps}"), &step, u64::from(steps))
}

fn playbook(name: &str, steps: &str, commands: u64) -> Result<Playbook, BenchError> {
    let path = format!("bench/{name}");
    let text = format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: {path} }}\n\
         workflow:\n{steps}"
    );
    let path = PlaybookPath::new(path).map_err(|error| BenchError::Harness(error.to_string()))?;
    Ok(Playbook {
        path,
        text,
        commands,
    })
}
