//! The kind `script`: a script from the playbook, a file or the web, run by the interpreter that it
//! asks for.

use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::json::to_canonical;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use tokio::time::Instant;

use crate::call::{Call, Outcome};
use crate::config::{Config, missing};
use crate::process::Written;
use crate::program::{Outputs, Program, environment, exit_code, failure, private_folder};
use crate::settings::Settings;
use crate::source::{SourceText, Sources};
use crate::tool::{Scope, Tool};
use crate::words::words;

/// Tells a script where its input is.
const INPUT_FILE: &str = "NOETL_INPUT_FILE";

/// Runs scripts.
#[derive(Debug)]
pub(crate) struct Script {
    settings: Arc<Settings>,
    sources: Arc<Sources>,
}

impl Script {
    pub(crate) fn new(settings: Arc<Settings>, sources: Arc<Sources>) -> Self {
        Self { settings, sources }
    }

    async fn work(&self, call: &Call, scope: &Scope) -> Result<Outcome, TaskError> {
        let config = Config(&call.config);
        if config.get("job").is_some() {
            return Err(TaskError::new(
                TaskErrorKind::Unsupported,
                "a script with 'job' runs on Kubernetes, which needs a build with feature \
                 'kubernetes'; leave 'job' out to run it on the worker",
            ));
        }
        let script = config.map("script")?.ok_or_else(|| missing("'script'"))?;
        let source = self.sources.read(Config(script)).await?;
        let mut environment = environment(call, &self.settings)?;
        let scratch = private_folder(&self.settings)?;
        let file = scratch.path().join("script");
        keep(&file, source.text.as_bytes()).await?;
        if !call.input.is_empty() {
            let input = scratch.path().join("input.json");
            keep(&input, &to_canonical(&Json::from(call.input.clone()))).await?;
            let input = input.to_string_lossy().into_owned();
            environment.push((INPUT_FILE.into(), input));
        }
        let mut line = interpreter(&source, &self.settings)?;
        line.push(file.to_string_lossy().into_owned());
        line.extend(words(config, "args")?);
        // The script is not in its own way: the folder that it works in begins empty.
        let work = scratch.path().join("work");
        tokio::fs::create_dir(&work)
            .await
            .map_err(|error| not_kept(&error))?;
        let folder = work.join(config.text("cwd")?.unwrap_or("."));
        let program = Program {
            words: line,
            environment: &environment,
            folder: &folder,
            private: Some(scratch.path()),
            outputs: Outputs::Together,
            timeout: call.timeout,
        };
        let started = Instant::now();
        let (status, written) = program.run(&self.settings, scope).await?;
        let outcome = outcome(status, &written, started.elapsed());
        Ok(self.settings.told(outcome))
    }
}

#[async_trait]
impl Tool for Script {
    async fn run(&self, call: &Call, scope: &Scope) -> Outcome {
        match self.work(call, scope).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }
}

async fn keep(file: &Path, content: &[u8]) -> Result<(), TaskError> {
    let written = tokio::fs::write(file, content).await;
    written.map_err(|error| not_kept(&error))
}

fn not_kept(error: &std::io::Error) -> TaskError {
    TaskError::new(
        TaskErrorKind::StorageAccess,
        format!("the script cannot be put into its private folder: {error}"),
    )
}

/// What runs a script: what its first line asks for, else what the name of its file says.
///
/// The first line is read as the kernel reads it: a program, and all the rest as one argument. The
/// file is not run itself, since its folder may forbid that.
fn interpreter(source: &SourceText, settings: &Settings) -> Result<Vec<String>, TaskError> {
    if let Some(rest) = source.text.strip_prefix("#!") {
        let line = rest.lines().next().unwrap_or("").trim();
        let (program, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        if program.is_empty() {
            return Err(unknown_interpreter("its first line names none"));
        }
        let words = [program, argument.trim()].into_iter();
        let words = words.filter(|word| !word.is_empty());
        return Ok(words.map(str::to_owned).collect());
    }
    let uri = source.uri.as_deref().unwrap_or("");
    let path = uri.split(['?', '#']).next().unwrap_or("");
    let name = path.rsplit('/').next().unwrap_or("");
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        None | Some("sh") => Ok(vec!["sh".to_owned()]),
        Some("bash") => Ok(vec!["bash".to_owned()]),
        Some("py") => Ok(vec![settings.python.interpreter.clone()]),
        Some(other) => Err(unknown_interpreter(&format!(
            "files like '*.{other}' say none"
        ))),
    }
}

fn unknown_interpreter(why: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Schema,
        format!(
            "no interpreter is known for the script: {why}; begin it with a line such as \
             '#!/usr/bin/env python3'"
        ),
    )
}

fn outcome(status: ExitStatus, written: &Written, took: Duration) -> Outcome {
    let word = if status.success() {
        "completed"
    } else {
        "failed"
    };
    let took = Json::from_f64(took.as_secs_f64()).unwrap_or_default();
    let mut data = JsonMap::from([
        ("status".into(), Json::from(word)),
        ("output".into(), written.stdout()),
        ("exit_code".into(), Json::from(exit_code(status))),
        ("execution_time".into(), took),
    ]);
    if written.is_cut() {
        data.insert("truncated".into(), Json::from(true));
    }
    let said = written.last_line();
    let error = (!status.success()).then(|| failure("the script", status, said.as_deref()));
    Outcome {
        data: data.into(),
        error,
        ..Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_a_script() {
        let settings = Settings::default();
        let read = |text: &str, uri: Option<&str>| {
            let source = SourceText {
                text: text.into(),
                uri: uri.map(str::to_owned),
            };
            interpreter(&source, &settings).map(|words| words.join("|"))
        };
        for (text, uri, expected) in [
            ("echo", None, "sh"),
            ("echo", Some("/a/b"), "sh"),
            ("echo", Some("/a.d/b.sh"), "sh"),
            ("x", Some("b.bash"), "bash"),
            ("x", Some("https://h/b.py?v=1.js#x"), "python3"),
            (
                "#!/usr/bin/env python3\nx",
                Some("b.sh"),
                "/usr/bin/env|python3",
            ),
            ("#! /bin/awk -f  \nx", None, "/bin/awk|-f"),
            ("#!/usr/bin/env -S a b\n", None, "/usr/bin/env|-S a b"),
        ] {
            assert_eq!(read(text, uri).unwrap(), expected, "{text} {uri:?}");
        }
        for (text, uri) in [("x", Some("a.js")), ("#!\nx", None)] {
            let error = read(text, uri).unwrap_err();
            assert_eq!(error.kind, TaskErrorKind::Schema);
            assert!(
                error.message.contains("no interpreter"),
                "{}",
                error.message
            );
        }
    }
}
