//! The kind `shell`: commands in order, until the first that fails.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError};

use crate::call::{Call, Outcome};
use crate::config::{Config, missing, wrong};
use crate::process::Written;
use crate::program::{Outputs, Program, environment, exit_code, failure, private_folder};
use crate::settings::Settings;
use crate::tool::{Scope, Tool};

/// Runs shell commands.
#[derive(Debug)]
pub(crate) struct Shell {
    settings: Arc<Settings>,
}

impl Shell {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }
}

#[async_trait]
impl Tool for Shell {
    async fn run(&self, call: &Call, scope: &Scope) -> Outcome {
        match self.work(call, scope).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }
}

/// What the config asks for.
struct Job {
    commands: Vec<String>,
    shell: String,
    cwd: Option<PathBuf>,
    outputs: Outputs,
    environment: Vec<(String, String)>,
}

/// Where its commands are at home.
struct Folders {
    private: PathBuf,
    cwd: PathBuf,
}

impl Job {
    fn read(call: &Call, settings: &Settings) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let outputs = match config.flag("capture")? {
            Some(false) => Outputs::Dropped,
            Some(true) | None => Outputs::Apart,
        };
        Ok(Self {
            environment: environment(call, settings)?,
            commands: commands(config)?,
            shell: config.text("shell")?.unwrap_or("sh").to_owned(),
            cwd: config.text("cwd")?.map(PathBuf::from),
            outputs,
        })
    }

    fn program<'j>(&'j self, text: &str, folders: &'j Folders, call: &Call) -> Program<'j> {
        Program {
            words: vec![self.shell.clone(), "-c".into(), text.into()],
            environment: &self.environment,
            folder: &folders.cwd,
            private: Some(&folders.private),
            outputs: self.outputs,
            timeout: call.timeout,
        }
    }
}

fn commands(config: Config<'_>) -> Result<Vec<String>, TaskError> {
    if let Some(command) = config.text("command")? {
        return Ok(vec![command.to_owned()]);
    }
    let Some(list) = config.get("cmds") else {
        return Err(missing("'command' or 'cmds'"));
    };
    let items = list
        .as_list()
        .ok_or_else(|| wrong("cmds", "a list", list))?;
    let command = |item: &Json| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| wrong("cmds", "a list of texts", item))
    };
    items.iter().map(command).collect()
}

impl Shell {
    async fn work(&self, call: &Call, scope: &Scope) -> Result<Outcome, TaskError> {
        let job = Job::read(call, &self.settings)?;
        let scratch = private_folder(&self.settings)?;
        let folders = Folders {
            cwd: match &job.cwd {
                // An absolute folder replaces the private one.
                Some(cwd) => scratch.path().join(cwd),
                None => scratch.path().to_owned(),
            },
            private: scratch.path().to_owned(),
        };
        let mut written = Written::default();
        let mut code = 0;
        let mut end = None;
        for text in &job.commands {
            let program = job.program(text, &folders, call);
            let (status, more) = program.run(&self.settings, scope).await?;
            written.append(&more, self.settings.output_cap);
            code = exit_code(status);
            if code != 0 {
                end = Some(status);
                break;
            }
        }
        let mut data = JsonMap::from([("exit_code".into(), Json::from(code))]);
        written.put_into(&mut data);
        Ok(self.settings.told(Outcome {
            data: data.into(),
            error: end.map(|status| failed(status, &written)),
            ..Outcome::default()
        }))
    }
}

fn failed(status: ExitStatus, written: &Written) -> TaskError {
    failure("the command", status, written.last_error_line().as_deref())
}
