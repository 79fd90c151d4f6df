//! The kind `shell`: runs commands in order until one fails.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError};

use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, missing_key, wrong_type};
use crate::process::CapturedOutput;
use crate::program::{
    OutputMode, Program, create_private_dir, exit_code, exit_error, task_environment,
};
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

/// Runs shell commands.
#[derive(Debug)]
pub(crate) struct ShellTool {
    settings: Arc<Settings>,
}

impl ShellTool {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }
}

#[async_trait]
impl Tool for ShellTool {
    async fn run(&self, call: &ToolCall, context: &CallContext) -> ToolOutcome {
        match self.run_commands(call, context).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }
}

/// Job that a config describes.
struct ShellJob {
    commands: Vec<String>,
    shell: String,
    cwd: Option<PathBuf>,
    outputs: OutputMode,
    environment: Vec<(String, String)>,
}

/// Directories of a job.
struct JobDirs {
    private: PathBuf,
    cwd: PathBuf,
}

impl ShellJob {
    fn from_call(call: &ToolCall, settings: &Settings) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let outputs = match config.flag("capture")? {
            Some(false) => OutputMode::Discarded,
            Some(true) | None => OutputMode::Separate,
        };
        Ok(Self {
            environment: task_environment(call, settings)?,
            commands: read_commands(config)?,
            shell: config.text("shell")?.unwrap_or("sh").to_owned(),
            cwd: config.text("cwd")?.map(PathBuf::from),
            outputs,
        })
    }

    fn to_program<'j>(&'j self, text: &str, dirs: &'j JobDirs, call: &ToolCall) -> Program<'j> {
        Program {
            argv: vec![self.shell.clone(), "-c".into(), text.into()],
            environment: &self.environment,
            working_dir: &dirs.cwd,
            private_dir: Some(&dirs.private),
            output_mode: self.outputs,
            timeout: call.timeout,
        }
    }
}

fn read_commands(config: Config<'_>) -> Result<Vec<String>, TaskError> {
    if let Some(command) = config.text("command")? {
        return Ok(vec![command.to_owned()]);
    }
    let Some(list) = config.get("cmds") else {
        return Err(missing_key("'command' or 'cmds'"));
    };
    let items = list.as_list().ok_or_else(|| wrong_type("cmds", "a list", list))?;
    let command = |item: &Json| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong_type("cmds", "a list of texts", item))
    };
    items.iter().map(command).collect()
}

impl ShellTool {
    async fn run_commands(
        &self,
        call: &ToolCall,
        context: &CallContext,
    ) -> Result<ToolOutcome, TaskError> {
        let job = ShellJob::from_call(call, &self.settings)?;
        let scratch = create_private_dir(&self.settings)?;
        let dirs = JobDirs {
            cwd: match &job.cwd {
                // An absolute path replaces the private directory.
                Some(cwd) => scratch.path().join(cwd),
                None => scratch.path().to_owned(),
            },
            private: scratch.path().to_owned(),
        };
        let mut output = CapturedOutput::default();
        let mut code = 0;
        let mut failed_status = None;
        for text in &job.commands {
            let program = job.to_program(text, &dirs, call);
            let (status, command_output) = program.run(&self.settings, context).await?;
            output.append(&command_output, self.settings.output_cap);
            code = exit_code(status);
            if code != 0 {
                failed_status = Some(status);
                break;
            }
        }
        let mut data = JsonMap::from([("exit_code".into(), Json::from(code))]);
        output.insert_into(&mut data);
        Ok(self.settings.add_limit_hint(ToolOutcome {
            data: data.into(),
            error: failed_status.map(|status| command_error(status, &output)),
            ..ToolOutcome::default()
        }))
    }
}

fn command_error(status: ExitStatus, output: &CapturedOutput) -> TaskError {
    exit_error("the command", status, output.last_error_line().as_deref())
}
