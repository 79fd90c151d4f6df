//! The kind `python`: code in a pool of warm interpreters.
//!
//! Owns the request that goes to an interpreter and what its reply means. The semantics inside of
//! the interpreter (names, result, failures) are those of the files in `driver/`.

mod interpreter;
mod pool;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use tokio::sync::Semaphore;

use self::interpreter::Lost;
use self::pool::{Key, Pool, TakeError};
use crate::call::{Call, Outcome};
use crate::config::{Config, missing};
use crate::lenient::lenient_json;
use crate::process::Written;
use crate::program::{is_variable, not_a_variable, private_folder};
use crate::settings::Settings;
use crate::source::Sources;
use crate::tool::{Scope, Tool};

/// Runs python code.
#[derive(Debug)]
pub(crate) struct Python {
    settings: Arc<Settings>,
    sources: Arc<Sources>,
    pool: Arc<Pool>,
}

impl Python {
    pub(crate) fn new(settings: Arc<Settings>, sources: Arc<Sources>) -> Self {
        Self {
            pool: Arc::new(Pool::new(Arc::clone(&settings))),
            settings,
            sources,
        }
    }

    async fn work(&self, call: &Call, scope: &Scope) -> Result<Outcome, TaskError> {
        let config = Config(&call.config);
        let (key, environment) = self.key(config)?;
        let request = self.request(call, environment).await?;
        let folder = || private_folder(&self.settings);
        let mut interpreter = self
            .pool
            .take(&key, &folder)
            .await
            .map_err(|error| match error {
                TakeError::NoFolder(error) => error,
                TakeError::Lost(lost) => not_there(&key.program, &lost),
            })?;
        scope.enter_group(interpreter.group());
        let replied = interpreter.call(&request).await;
        scope.leave_group();
        let (reply, written) = match replied {
            Ok(replied) => replied,
            Err(lost) => return Ok(self.settings.told(crashed(lost))),
        };
        let reply = match lenient_json(&reply) {
            Ok(reply) => reply,
            Err(why) => {
                self.pool.put(key, interpreter);
                return Err(TaskError::new(
                    TaskErrorKind::Limit,
                    format!("the result cannot be kept: {why}"),
                ));
            }
        };
        match reply.get("dirty").and_then(Json::as_str) {
            None => self.pool.put(key, interpreter),
            Some(reason) => {
                tracing::debug!(reason, step = call.step, "a python interpreter is replaced");
            }
        }
        let outcome = self.outcome(&reply, &written);
        Ok(self.settings.told(outcome))
    }

    /// Which interpreters can take the call, and the variables that are set for the call alone.
    fn key(&self, config: Config<'_>) -> Result<(Key, BTreeMap<String, String>), TaskError> {
        let default = self.settings.python.interpreter.as_str();
        let program = config.text("python")?.unwrap_or(default).to_owned();
        let variables = config.texts("env")?;
        if let Some((name, _)) = variables
            .iter()
            .find(|(name, value)| !is_variable(name, value))
        {
            return Err(not_a_variable(name));
        }
        let (at_start, of_call) = variables
            .into_iter()
            .partition(|(name, _)| matters_at_start(name));
        let key = Key {
            program,
            environment: at_start,
        };
        Ok((key, of_call))
    }

    async fn request(
        &self,
        call: &Call,
        environment: BTreeMap<String, String>,
    ) -> Result<Json, TaskError> {
        let config = Config(&call.config);
        let code = self.code(config).await?;
        let environment = environment
            .into_iter()
            .map(|(name, value)| (name, Json::from(value)));
        Ok(Json::object([
            ("code", Json::from(code)),
            ("file", Json::from(format!("<{}>", call.label))),
            ("input", Json::from(call.input.clone())),
            ("context", call.context.clone()),
            ("variables", call.variables.clone()),
            ("execution_id", Json::from(&*call.execution_id)),
            ("step", Json::from(&*call.step)),
            ("libs", config.get("libs").cloned().unwrap_or_default()),
            ("env", Json::object(environment)),
            ("cwd", Json::from(config.text("cwd")?)),
            (
                "cpu_seconds",
                Json::from(self.settings.walls.cpu_seconds_within(call.timeout)),
            ),
        ]))
    }

    /// The code that the config names.
    async fn code(&self, config: Config<'_>) -> Result<String, TaskError> {
        if let Some(code) = config.text("code")? {
            return Ok(code.to_owned());
        }
        if let Some(code) = config.base64_text("code_b64")? {
            return Ok(code);
        }
        match config.map("script")? {
            Some(script) => Ok(self.sources.read(Config(script)).await?.text),
            None => Err(missing("'code', 'code_b64' or 'script'")),
        }
    }

    fn outcome(&self, reply: &Json, written: &Written) -> Outcome {
        match reply.get("status").and_then(Json::as_str) {
            Some("value") => {
                let mut extras = JsonMap::new();
                if !written.is_empty() {
                    let mut py = JsonMap::new();
                    written.put_into(&mut py);
                    extras.insert("py".into(), py.into());
                }
                Outcome {
                    data: reply.get("value").cloned().unwrap_or_default(),
                    extras,
                    ..Outcome::default()
                }
            }
            Some("nothing") => {
                let mut data = JsonMap::new();
                written.put_into(&mut data);
                Outcome::ok(data)
            }
            Some("raised" | "exited") => failed(TaskErrorKind::Transform, reply, written),
            Some("unreadable") => failed(TaskErrorKind::Parse, reply, written),
            Some("too_large") => {
                let bytes = reply.get("bytes").and_then(Json::as_u64).unwrap_or(0);
                let most = self.settings.payload_cap;
                let message = format!("the result has {bytes} bytes, {most} are allowed");
                Outcome::error(TaskErrorKind::Limit, message)
            }
            Some("no_folder") => {
                let why = reply.get("message").and_then(Json::as_str).unwrap_or("?");
                let message = format!("'cwd' cannot be entered: {why}");
                Outcome::error(TaskErrorKind::Transform, message)
            }
            Some(_) | None => Outcome::error(
                TaskErrorKind::Unknown,
                "the interpreter gave a reply that is not known",
            ),
        }
    }
}

#[async_trait]
impl Tool for Python {
    async fn run(&self, call: &Call, scope: &Scope) -> Outcome {
        match self.work(call, scope).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }

    fn places(&self) -> Option<&Semaphore> {
        Some(self.pool.places())
    }

    async fn shutdown(&self) {
        self.pool.close();
    }
}

/// Variables that an interpreter or its loader reads once, when it starts.
fn matters_at_start(name: &str) -> bool {
    ["PYTHON", "LD_", "DYLD_", "MALLOC_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The outcome of code that raised, left or could not be compiled.
fn failed(kind: TaskErrorKind, reply: &Json, written: &Written) -> Outcome {
    let report = reply.get("error").cloned().unwrap_or_default();
    let field = |name: &str| report.get(name).cloned().unwrap_or_default();
    let last = field("last");
    let last = last.as_str().unwrap_or("the code failed");
    let message = match report.get("line").and_then(Json::as_u64) {
        Some(line) => format!("{last} (line {line})"),
        None => last.to_owned(),
    };
    let mut data = JsonMap::from([("error".into(), Json::from(&*message))]);
    written.put_into(&mut data);
    let py = ["type", "message", "traceback"].map(|name| (name, field(name)));
    Outcome {
        data: data.into(),
        error: Some(TaskError {
            code: reply.get("code").or(report.get("type")).cloned(),
            details: Some(Json::object([
                ("type", field("type")),
                ("line", field("line")),
            ])),
            ..TaskError::new(kind, message)
        }),
        extras: JsonMap::from([("py".into(), Json::object(py))]),
        retry_after: None,
    }
}

/// The outcome of code that took its interpreter down.
fn crashed(lost: Lost) -> Outcome {
    let message = lost.to_string();
    let mut data = JsonMap::from([("error".into(), Json::from(&*message))]);
    let mut error = TaskError::new(TaskErrorKind::Transform, message);
    if let Lost::Ended { status, written } = lost {
        written.put_into(&mut data);
        error.code = status.code().map(Json::from);
    }
    Outcome {
        data: data.into(),
        ..error.into()
    }
}

/// The error of an interpreter that does not start.
fn not_there(program: &str, lost: &Lost) -> TaskError {
    TaskError::new(
        TaskErrorKind::Unsupported,
        format!(
            "python steps need Python 3.8 or newer on the worker, but '{program}' cannot be started \
             ({lost}); install it, or name another interpreter with 'python'"
        ),
    )
}
