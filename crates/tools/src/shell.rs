//! The kind `shell`: runs commands in order until one fails.

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError};

use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, missing_key, wrong_type};
use crate::program::{
    CapturedOutput, OutputMode, Program, create_private_dir, exit_code, exit_error,
    task_environment,
};
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

/// Variable that passes a command to its shell. A command may contain secrets, and every user of the
/// machine can read the arguments of a process.
const COMMAND_VARIABLE: &str = "NOETL_TASK_COMMAND";

/// Runs the command in the variable, which the programs of the command do not get.
const EVALUATE_COMMAND: &str =
    "noetl_command=$NOETL_TASK_COMMAND; unset NOETL_TASK_COMMAND; eval \"$noetl_command\"";

/// Shells that understand [`EVALUATE_COMMAND`].
const POSIX_SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"];

#[derive(Debug)]
pub(crate) struct ShellTool {
    settings: Arc<Settings>,
}

impl ShellTool {
    pub(crate) fn new(settings: &Arc<Settings>) -> Self {
        Self { settings: Arc::clone(settings) }
    }
}

#[async_trait]
impl Tool for ShellTool {
    async fn run(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        let output_mode = match config.flag("capture")? {
            Some(false) => OutputMode::Discarded,
            Some(true) | None => OutputMode::Separate,
        };
        let mut environment = task_environment(call, &self.settings)?;
        let commands = read_commands(config)?;
        let shell = config.text("shell")?.unwrap_or("sh");
        let cwd = config.text("cwd")?;
        let scratch = create_private_dir(&self.settings)?;
        let working_dir = match cwd {
            // An absolute path replaces the private directory.
            Some(cwd) => scratch.path().join(cwd),
            None => scratch.path().to_owned(),
        };
        let mut output = CapturedOutput::default();
        let mut code = 0;
        let mut error = None;
        let hides_command = is_posix_shell(shell);
        for command in commands {
            let mut argument = command;
            if hides_command {
                environment.retain(|(name, _)| name != COMMAND_VARIABLE);
                environment.push((COMMAND_VARIABLE.into(), argument));
                argument = EVALUATE_COMMAND.into();
            }
            let program = Program {
                argv: vec![shell.to_owned(), "-c".to_owned(), argument],
                environment: &environment,
                working_dir: &working_dir,
                private_dir: Some(scratch.path()),
                output_mode,
                timeout: call.timeout,
            };
            let (status, command_output) = program.run(&self.settings, context).await?;
            output.append(&command_output, self.settings.output_cap);
            code = exit_code(status);
            if code != 0 {
                let last_line = output.last_error_line();
                error = Some(exit_error("the command", status, last_line.as_deref()));
                break;
            }
        }
        let mut data = JsonMap::from([("exit_code".into(), Json::from(code))]);
        output.insert_into(&mut data);
        let outcome = ToolOutcome { data: data.into(), error, ..ToolOutcome::default() };
        Ok(self.settings.add_limit_hint(outcome))
    }
}

fn is_posix_shell(shell: &str) -> bool {
    POSIX_SHELLS.contains(&shell.rsplit('/').next().unwrap_or(shell))
}

fn read_commands(config: Config<'_>) -> Result<Vec<String>, TaskError> {
    if let Some(command) = config.text("command")? {
        return Ok(vec![command.to_owned()]);
    }
    if config.get("cmds").is_none() {
        return Err(missing_key("'command' or 'cmds'"));
    }
    let command = |item: &Json| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong_type("cmds", "a list of texts", item))
    };
    config.list("cmds")?.iter().map(command).collect()
}
