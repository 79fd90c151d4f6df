//! W6: python steps per second, against the start of a bare interpreter in the same minute.

use std::process::Stdio;

use tokio::process::Command;
use tokio::time::Instant;

use super::{Figures, Lab, at};
use crate::error::BenchError;
use crate::metric::Metric;
use crate::playbooks::python;
use crate::stats::ms;

/// The interpreter that steps use which name none.
const INTERPRETER: &str = "python3";

pub(super) async fn measure(lab: &Lab<'_>) -> Result<Figures, BenchError> {
    let playbook = python(lab.scale.w6_steps)?;
    lab.system.register(&playbook).await?;
    // The first loop starts the interpreters that the second one finds warm.
    lab.one_by_one(&playbook, 1).await?;
    let times = lab.one_by_one(&playbook, 1).await?;
    let rate = f64::from(lab.scale.w6_steps) * 1e3 / at(&times, 50)?;
    let start_ms = interpreter_ms(lab.scale.w6_starts).await?;
    Ok(Figures::from([
        (Metric::PythonStepsPerS, rate),
        (Metric::InterpreterMs, start_ms),
        (Metric::StepsPerInterpreter, rate * start_ms / 1e3),
    ]))
}

/// The median time of starts of an interpreter that does nothing.
async fn interpreter_ms(starts: u32) -> Result<f64, BenchError> {
    // The name may lead to a script that looks for the interpreter, which is not what is measured.
    let program = said(INTERPRETER, "import sys; print(sys.executable)").await?;
    let mut times = Vec::new();
    for _ in 0..starts {
        let began = Instant::now();
        said(&program, "pass").await?;
        times.push(ms(began.elapsed()));
    }
    at(&times, 50)
}

/// What an interpreter prints that runs some code.
async fn said(program: &str, code: &str) -> Result<String, BenchError> {
    let output = Command::new(program)
        .args(["-c", code])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(BenchError::io(program))?;
    if !output.status.success() {
        let text = format!("{program} ended with {}", output.status);
        return Err(BenchError::Harness(text));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
