//! The kind `python`: runs code in processes that warm interpreters fork.
//!
//! Owns the request to an interpreter and the interpretation of its reply. The files in `driver/`
//! define the semantics inside the interpreter (names, result, failures).

#[cfg(test)]
mod tests;
mod zygote;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use tokio::sync::Semaphore;

use self::zygote::{InterpreterError, PoolError, ZygoteKey, ZygotePool};
use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, decode_base64_text, missing_key};
use crate::lenient::lenient_json;
use crate::program::{CapturedOutput, check_variables};
use crate::script_source::ScriptLoader;
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

/// Maximum number of modules that a zygote imports because of one call.
const MAX_MODULES_PER_CALL: usize = 32;
const MAX_MODULE_NAME_BYTES: usize = 100;

#[derive(Debug)]
pub(crate) struct PythonTool {
    settings: Arc<Settings>,
    sources: Arc<ScriptLoader>,
    pool: ZygotePool,
}

impl PythonTool {
    pub(crate) fn new(settings: &Arc<Settings>, sources: &Arc<ScriptLoader>) -> Self {
        Self {
            pool: ZygotePool::new(Arc::clone(settings)),
            settings: Arc::clone(settings),
            sources: Arc::clone(sources),
        }
    }

    /// Returns the key of the zygotes that can start the call, and the variables that are set in
    /// its process.
    fn zygote_key(
        &self,
        config: Config<'_>,
    ) -> Result<(ZygoteKey, BTreeMap<String, String>), TaskError> {
        let default = self.settings.python.interpreter.as_str();
        let program = config.text("python")?.unwrap_or(default).to_owned();
        let variables = config.text_map("env")?;
        check_variables(&variables)?;
        let (startup_variables, call_variables) =
            variables.into_iter().partition(|(name, _)| is_startup_variable(name));
        let key = ZygoteKey { program, environment: startup_variables };
        Ok((key, call_variables))
    }

    fn build_request(
        &self,
        call: &ToolCall,
        code: String,
        environment: BTreeMap<String, String>,
    ) -> Result<Json, TaskError> {
        let config = Config(&call.config);
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
            Some("no_sandbox") => {
                let reason = reply.get("message").and_then(Json::as_str).unwrap_or("?");
                let message = format!("the sandbox of the task cannot be enabled: {reason}");
                ToolOutcome::error(TaskErrorKind::Unsupported, message)
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
        let (key, environment) = self.zygote_key(config)?;
        let code = self.read_code(config).await?;
        let modules = find_modules(&code, config.get("libs"));
        let request = self.build_request(call, code, environment)?;
        let (reply, output) = match self.pool.run(&key, &request, &modules, context).await {
            Ok(result) => result,
            Err(PoolError::NotStarted(error)) => return Err(error),
            Err(PoolError::Failed(error)) => {
                return Ok(self.settings.add_limit_hint(crash_outcome(error)));
            }
        };
        let reply = lenient_json(&reply).map_err(|reason| {
            let message = format!("the result cannot be stored: {reason}");
            TaskError::new(TaskErrorKind::Limit, message)
        })?;
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

/// Finds the modules that code imports at the beginning of a line, and those of `libs`, so that its
/// zygote imports them once for all calls. Others are imported by each call.
fn find_modules(code: &str, libs: Option<&Json>) -> Vec<String> {
    let from_libs = libs.and_then(Json::as_map).into_iter().flat_map(JsonMap::values);
    let from_libs = from_libs.filter_map(|lib| lib.get("from").unwrap_or(lib).as_str());
    let from_code = code.lines().filter_map(|line| {
        let rest = line.trim_start();
        let rest = rest.strip_prefix("import ").or_else(|| rest.strip_prefix("from "))?;
        rest.split([' ', ',', ';', '\t']).next()
    });
    let asyncio = code.contains("async def ").then_some("asyncio");
    let is_module = |name: &&str| {
        let is_identifier = |part: &str| {
            part.starts_with(|first: char| first.is_ascii_alphabetic())
                && part.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
        };
        name.len() <= MAX_MODULE_NAME_BYTES && name.split('.').all(is_identifier)
    };
    let modules = from_libs.chain(from_code).chain(asyncio).filter(is_module);
    modules.take(MAX_MODULES_PER_CALL).map(str::to_owned).collect()
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
