//! W6: Python steps per second, compared with the start of a bare interpreter at the same time.

use std::process::Stdio;

use tokio::process::Command;
use tokio::time::Instant;

use super::{Figures, WorkloadContext, require_percentile};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::python_playbook;
use crate::stats::to_ms;

/// Default interpreter of steps.
const DEFAULT_INTERPRETER: &str = "python3";

pub(super) async fn measure_python_steps(
    context: &WorkloadContext<'_>,
) -> Result<Figures, BenchError> {
    let playbook = python_playbook(context.scale.w6_steps)?;
    context.system.register_playbook(&playbook).await?;
    // The first loop starts the interpreters, so they are warm for the second.
    context.run_sequentially(&playbook, 1).await?;
    let times = context.run_sequentially(&playbook, 1).await?;
    let rate = f64::from(context.scale.w6_steps) * 1e3 / require_percentile(&times, 50)?;
    let start_ms = median_interpreter_start_ms(context.scale.w6_starts).await?;
    Ok(Figures::from([
        (Metric::PythonStepsPerS, rate),
        (Metric::InterpreterMs, start_ms),
        (Metric::StepsPerInterpreter, rate * start_ms / 1e3),
    ]))
}

/// Returns the median start time of an interpreter that does nothing.
async fn median_interpreter_start_ms(starts: u32) -> Result<f64, BenchError> {
    // The name may be a script that searches the interpreter, which must not be measured.
    let program = run_python(DEFAULT_INTERPRETER, "import sys; print(sys.executable)").await?;
    let mut times = Vec::new();
    for _ in 0..starts {
        let started = Instant::now();
        run_python(&program, "pass").await?;
        times.push(to_ms(started.elapsed()));
    }
    require_percentile(&times, 50)
}

/// Runs code in an interpreter, and returns its output.
async fn run_python(program: &str, code: &str) -> Result<String, BenchError> {
    let output = Command::new(program)
        .args(["-c", code])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(BenchError::io_error(program))?;
    if !output.status.success() {
        let text = format!("{program} ended with {}", output.status);
        return Err(BenchError::Harness(text));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
