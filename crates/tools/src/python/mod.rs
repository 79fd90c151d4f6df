//! The kind `python`: runs code in a pool of warm interpreters.
//!
//! Owns the request to an interpreter and the interpretation of its reply. The files in `driver/`
//! define the semantics inside the interpreter (names, result, failures).

mod interpreter;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use tokio::sync::Semaphore;

use self::interpreter::{InterpreterError, InterpreterKey, InterpreterPool};
use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, decode_base64_text, missing_key};
use crate::lenient::lenient_json;
use crate::program::{CapturedOutput, check_variables};
use crate::script_source::ScriptLoader;
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

#[derive(Debug)]
pub(crate) struct PythonTool {
    settings: Arc<Settings>,
    sources: Arc<ScriptLoader>,
    pool: InterpreterPool,
}

impl PythonTool {
    pub(crate) fn new(settings: &Arc<Settings>, sources: &Arc<ScriptLoader>) -> Self {
        Self {
            pool: InterpreterPool::new(Arc::clone(settings)),
            settings: Arc::clone(settings),
            sources: Arc::clone(sources),
        }
    }

    /// Returns the key of the interpreters that can run the call, and the variables that are set
    /// for the call alone.
    fn interpreter_key(
        &self,
        config: Config<'_>,
    ) -> Result<(InterpreterKey, BTreeMap<String, String>), TaskError> {
        let default = self.settings.python.interpreter.as_str();
        let program = config.text("python")?.unwrap_or(default).to_owned();
        let variables = config.text_map("env")?;
        check_variables(&variables)?;
        let (startup_variables, call_variables) =
            variables.into_iter().partition(|(name, _)| is_startup_variable(name));
        let key = InterpreterKey { program, environment: startup_variables };
        Ok((key, call_variables))
    }

    async fn build_request(
        &self,
        call: &ToolCall,
        environment: BTreeMap<String, String>,
    ) -> Result<Json, TaskError> {
        let config = Config(&call.config);
        let code = self.read_code(config).await?;
        let environment = environment.into_iter().map(|(name, value)| (name, Json::from(value)));
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
            ("cpu_seconds", Json::from(self.settings.process_limits.cpu_seconds_for(call.timeout))),
        ]))
    }

    async fn read_code(&self, config: Config<'_>) -> Result<String, TaskError> {
        if let Some(code) = config.text("code")? {
            return Ok(code.to_owned());
        }
        if let Some(encoded) = config.text("code_b64")? {
            return decode_base64_text("code_b64", encoded);
        }
        match config.map("script")? {
            Some(script) => Ok(self.sources.load_script(Config(script)).await?.text),
            None => Err(missing_key("'code', 'code_b64' or 'script'")),
        }
    }

    fn reply_to_outcome(&self, reply: &Json, output: &CapturedOutput) -> ToolOutcome {
        match reply.get("status").and_then(Json::as_str) {
            Some("value") => {
                let mut extras = JsonMap::new();
                if !output.is_empty() {
                    let mut py = JsonMap::new();
                    output.insert_into(&mut py);
                    extras.insert("py".into(), py.into());
                }
                ToolOutcome {
                    data: reply.get("value").cloned().unwrap_or_default(),
                    extras,
                    ..ToolOutcome::default()
                }
            }
            Some("nothing") => {
                let mut data = JsonMap::new();
                output.insert_into(&mut data);
                ToolOutcome::ok(data)
            }
            Some("raised" | "exited") => failed_outcome(TaskErrorKind::Transform, reply, output),
            Some("unreadable") => failed_outcome(TaskErrorKind::Parse, reply, output),
            Some("too_large") => {
                let bytes = reply.get("bytes").and_then(Json::as_u64).unwrap_or(0);
                let limit = self.settings.payload_cap;
                let message = format!("the result has {bytes} bytes; at most {limit} is allowed");
                ToolOutcome::error(TaskErrorKind::Limit, message)
            }
            Some("no_folder") => {
                let reason = reply.get("message").and_then(Json::as_str).unwrap_or("?");
                let message = format!("the working directory 'cwd' cannot be used: {reason}");
                ToolOutcome::error(TaskErrorKind::Transform, message)
            }
            Some(_) | None => {
                ToolOutcome::error(TaskErrorKind::Unknown, "the interpreter sent an unknown reply")
            }
        }
    }
}

#[async_trait]
impl Tool for PythonTool {
    async fn run(&self, call: &ToolCall, context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        let (key, environment) = self.interpreter_key(config)?;
        let request = self.build_request(call, environment).await?;
        let mut interpreter = self.pool.acquire(&key).await?;
        context.set_process_group(Some(interpreter.group()));
        let result = interpreter.call(&request).await;
        context.set_process_group(None);
        let (reply, output) = match result {
            Ok(result) => result,
            Err(error) => return Ok(self.settings.add_limit_hint(crash_outcome(error))),
        };
        let reply = match lenient_json(&reply) {
            Ok(reply) => reply,
            Err(reason) => {
                self.pool.release(key, interpreter);
                return Err(TaskError::new(
                    TaskErrorKind::Limit,
                    format!("the result cannot be stored: {reason}"),
                ));
            }
        };
        match reply.get("dirty").and_then(Json::as_str) {
            None => self.pool.release(key, interpreter),
            Some(reason) => {
                tracing::debug!(reason, step = call.step, "a python interpreter was replaced");
            }
        }
        let outcome = self.reply_to_outcome(&reply, &output);
        Ok(self.settings.add_limit_hint(outcome))
    }

    fn call_permits(&self) -> Option<&Semaphore> {
        Some(&self.pool.permits)
    }

    async fn shutdown(&self) {
        self.pool.close();
    }
}

/// True for variables that an interpreter or its loader reads once, at startup.
fn is_startup_variable(name: &str) -> bool {
    ["PYTHON", "LD_", "DYLD_", "MALLOC_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Outcome of code that raised an exception, exited or could not be compiled.
fn failed_outcome(kind: TaskErrorKind, reply: &Json, output: &CapturedOutput) -> ToolOutcome {
    let report = reply.get("error").cloned().unwrap_or_default();
    let field = |name: &str| report.get(name).cloned().unwrap_or_default();
    let last = field("last");
    let last = last.as_str().unwrap_or("the code failed");
    let message = match report.get("line").and_then(Json::as_u64) {
        Some(line) => format!("{last} (line {line})"),
        None => last.to_owned(),
    };
    let mut data = JsonMap::from([("error".into(), Json::from(&*message))]);
    output.insert_into(&mut data);
    let py = ["type", "message", "traceback"].map(|name| (name, field(name)));
    ToolOutcome {
        data: data.into(),
        error: Some(TaskError {
            code: reply.get("code").or(report.get("type")).cloned(),
            details: Some(Json::object([("type", field("type")), ("line", field("line"))])),
            ..TaskError::new(kind, message)
        }),
        extras: JsonMap::from([("py".into(), Json::object(py))]),
        retry_after: None,
    }
}

/// Outcome of code that crashed its interpreter.
fn crash_outcome(crash: InterpreterError) -> ToolOutcome {
    let message = crash.to_string();
    let mut data = JsonMap::from([("error".into(), Json::from(&*message))]);
    let mut error = TaskError::new(TaskErrorKind::Transform, message);
    if let InterpreterError::Ended { status, output } = crash {
        output.insert_into(&mut data);
        error.code = status.code().map(Json::from);
    }
    ToolOutcome { data: data.into(), ..error.into() }
}
