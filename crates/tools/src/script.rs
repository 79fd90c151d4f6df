//! The kind `script`: a script from the playbook, a file or the web, run by the interpreter that it
//! names.

use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::json::to_canonical;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use tokio::time::Instant;

use crate::call::{ToolCall, ToolOutcome};
use crate::command_line::read_args;
use crate::config::{Config, missing_key, schema_error};
use crate::program::{
    CapturedOutput, OutputMode, Program, create_private_dir, exit_code, exit_error,
    task_environment,
};
use crate::script_source::{LoadedScript, ScriptLoader};
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

/// Environment variable with the path of the script's input.
const INPUT_FILE_VARIABLE: &str = "NOETL_INPUT_FILE";

#[derive(Debug)]
pub(crate) struct ScriptTool {
    settings: Arc<Settings>,
    sources: Arc<ScriptLoader>,
}

impl ScriptTool {
    pub(crate) fn new(settings: &Arc<Settings>, sources: &Arc<ScriptLoader>) -> Self {
        Self { settings: Arc::clone(settings), sources: Arc::clone(sources) }
    }
}

#[async_trait]
impl Tool for ScriptTool {
    async fn run(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        if config.get("job").is_some() {
            return Err(TaskError::new(
                TaskErrorKind::Unsupported,
                "a script with 'job' runs on Kubernetes, which this worker does not support; leave \
                 'job' out to run it on the worker",
            ));
        }
        let script = config.map("script")?.ok_or_else(|| missing_key("'script'"))?;
        let source = self.sources.load_script(Config(script)).await?;
        let mut environment = task_environment(call, &self.settings)?;
        let scratch = create_private_dir(&self.settings)?;
        let file = scratch.path().join("script");
        write_script_file(&file, source.text.as_bytes()).await?;
        if !call.input.is_empty() {
            let input = scratch.path().join("input.json");
            write_script_file(&input, &to_canonical(&Json::from(call.input.clone()))).await?;
            let input = input.to_string_lossy().into_owned();
            environment.push((INPUT_FILE_VARIABLE.into(), input));
        }
        let mut argv = find_interpreter(&source, &self.settings)?;
        argv.push(file.to_string_lossy().into_owned());
        argv.extend(read_args(config, "args")?);
        // The script is stored outside its working directory, which starts empty.
        let work_dir = scratch.path().join("work");
        tokio::fs::create_dir(&work_dir).await.map_err(|error| script_write_error(&error))?;
        let working_dir = work_dir.join(config.text("cwd")?.unwrap_or("."));
        let program = Program {
            argv,
            environment: &environment,
            working_dir: &working_dir,
            private_dir: Some(scratch.path()),
            output_mode: OutputMode::Merged,
            timeout: call.timeout,
        };
        let started = Instant::now();
        let (status, output) = program.run(&self.settings, context).await?;
        let outcome = script_outcome(status, &output, started.elapsed());
        Ok(self.settings.add_limit_hint(outcome))
    }
}

async fn write_script_file(file: &Path, content: &[u8]) -> Result<(), TaskError> {
    let result = tokio::fs::write(file, content).await;
    result.map_err(|error| script_write_error(&error))
}

fn script_write_error(error: &std::io::Error) -> TaskError {
    TaskError::new(
        TaskErrorKind::StorageAccess,
        format!("the script cannot be written to its private folder: {error}"),
    )
}

/// Finds the interpreter of a script: from its first line, else from the extension of its file
/// name.
///
/// The first line is parsed as the kernel does: a program, and the rest as one argument. The file
/// is not executed directly, since its directory may forbid that.
fn find_interpreter(source: &LoadedScript, settings: &Settings) -> Result<Vec<String>, TaskError> {
    if let Some(rest) = source.text.strip_prefix("#!") {
        let line = rest.lines().next().unwrap_or("").trim();
        let (program, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        if program.is_empty() {
            return Err(unknown_interpreter("its first line is '#!' without a program"));
        }
        let argv = [program, argument.trim()].into_iter();
        let argv = argv.filter(|part| !part.is_empty());
        return Ok(argv.map(str::to_owned).collect());
    }
    let uri = source.uri.as_deref().unwrap_or("");
    let path = uri.split(['?', '#']).next().unwrap_or("");
    let name = path.rsplit('/').next().unwrap_or("");
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        None | Some("sh") => Ok(vec!["sh".to_owned()]),
        Some("bash") => Ok(vec!["bash".to_owned()]),
        Some("py") => Ok(vec![settings.python.interpreter.clone()]),
        Some(other) => Err(unknown_interpreter(&format!("the extension '.{other}' is unknown"))),
    }
}

fn unknown_interpreter(reason: &str) -> TaskError {
    schema_error(format!(
        "no interpreter is known for the script: {reason}; begin it with a line such as \
         '#!/usr/bin/env python3'"
    ))
}

fn script_outcome(status: ExitStatus, output: &CapturedOutput, elapsed: Duration) -> ToolOutcome {
    let status_text = if status.success() { "completed" } else { "failed" };
    let elapsed = Json::from_f64(elapsed.as_secs_f64()).unwrap_or_default();
    let mut data = JsonMap::from([
        ("status".into(), Json::from(status_text)),
        ("output".into(), output.stdout()),
        ("exit_code".into(), Json::from(exit_code(status))),
        ("execution_time".into(), elapsed),
    ]);
    if output.is_truncated() {
        data.insert("truncated".into(), Json::from(true));
    }
    let last_line = output.last_line();
    let error = (!status.success()).then(|| exit_error("the script", status, last_line.as_deref()));
    ToolOutcome { data: data.into(), error, ..ToolOutcome::default() }
}

#[cfg(test)]
mod tests;
