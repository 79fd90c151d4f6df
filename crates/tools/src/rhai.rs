//! The kind `rhai`: a script in the Rhai language, with resource limits.
//!
//! A script runs on a dedicated thread, in a separate engine. It has its input and the names of its
//! step, reaches the network only through the egress guard of http tasks, and has no file access.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_playbook::model::ToolKind;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind, Timestamp};
use parking_lot::Mutex;
use rhai::{Array, Blob, Dynamic, Engine, EvalAltResult, FLOAT, INT, Map, Position, Scope};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, missing_key};
use crate::http::HttpTool;
use crate::lenient::lenient_json;
use crate::settings::Settings;
use crate::tool::{CallContext, Tool, run_blocking};

const MAX_OPERATIONS: u64 = 200_000_000;
const MAX_CALL_DEPTH: usize = 64;
/// Maximum nesting of expressions, outside and inside of functions.
const MAX_EXPRESSION_DEPTHS: (usize, usize) = (64, 32);
const MAX_ITEMS: usize = 1_000_000;
/// Maximum size of the log of a script, in bytes.
const MAX_LOG_BYTES: usize = 64 * 1024;

type RhaiError = Box<EvalAltResult>;

pub(crate) struct RhaiTool {
    settings: Arc<Settings>,
    http: Arc<HttpTool>,
}

impl RhaiTool {
    pub(crate) fn new(settings: &Arc<Settings>, http: &Arc<HttpTool>) -> Self {
        Self { settings: Arc::clone(settings), http: Arc::clone(http) }
    }
}

#[async_trait]
impl Tool for RhaiTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let code = Config(&call.config).text("code")?;
        let code = code.ok_or_else(|| missing_key("'code'"))?.to_owned();
        let stop = CancellationToken::new();
        let _stop_guard = stop.clone().drop_guard();
        let context = ScriptContext {
            call: call.clone(),
            http: Arc::clone(&self.http),
            runtime: Handle::current(),
            stop,
            log: Arc::default(),
        };
        let text_cap = usize::try_from(self.settings.payload_cap.as_bytes()).unwrap_or(usize::MAX);
        run_blocking("script", move || context.run(&code, text_cap)).await
    }
}

#[derive(Clone)]
struct ScriptContext {
    call: ToolCall,
    http: Arc<HttpTool>,
    runtime: Handle,
    stop: CancellationToken,
    log: Arc<Mutex<String>>,
}

impl ScriptContext {
    fn run(&self, code: &str, text_cap: usize) -> ToolOutcome {
        let engine = self.build_engine(text_cap);
        let result = match engine.compile(code) {
            Ok(script) => {
                let mut scope = self.script_variables();
                let value = engine.eval_ast_with_scope::<Dynamic>(&mut scope, &script);
                value.map(|value| from_dynamic(&value)).map_err(|error| script_error(&error))
            }
            Err(error) => Err(TaskError {
                details: Some(position_to_json(error.position())),
                ..TaskError::new(TaskErrorKind::Parse, error.to_string())
            }),
        };
        let mut outcome = match result {
            Ok(value) => ToolOutcome::ok(value),
            Err(error) => ToolOutcome {
                data: Json::object([("error", Json::from(&error.message))]),
                ..error.into()
            },
        };
        let log = self.log.lock();
        if !log.is_empty() {
            let log = Json::object([("log", Json::from(log.as_str()))]);
            outcome.extras.insert("rhai".into(), log);
        }
        outcome
    }

    fn build_engine(&self, text_cap: usize) -> Engine {
        let mut engine = Engine::new();
        engine
            .set_max_operations(MAX_OPERATIONS)
            .set_max_call_levels(MAX_CALL_DEPTH)
            .set_max_expr_depths(MAX_EXPRESSION_DEPTHS.0, MAX_EXPRESSION_DEPTHS.1)
            .set_max_array_size(MAX_ITEMS)
            .set_max_map_size(MAX_ITEMS)
            .set_max_string_size(text_cap);
        let stop = self.stop.clone();
        engine.on_progress(move |_| stop.is_cancelled().then_some(Dynamic::UNIT));
        let context = self.clone();
        engine.on_print(move |text| context.append_log(text));
        let context = self.clone();
        engine.on_debug(move |text, _, _| context.append_log(text));
        self.register_functions(&mut engine);
        self.register_http(&mut engine);
        engine
    }

    /// Variables of a script: those of its step, overridden by its input, and `args`.
    fn script_variables(&self) -> Scope<'static> {
        let mut scope = Scope::new();
        let context = self.call.context.as_map().into_iter().flatten();
        for (name, value) in context.chain(&self.call.input) {
            scope.push_dynamic(name.to_string(), to_dynamic(value));
        }
        scope.push_dynamic("args", to_dynamic(&Json::from(self.call.input.clone())));
        scope
    }

    fn register_functions(&self, engine: &mut Engine) {
        let context = self.clone();
        engine.register_fn("log", move |value: Dynamic| {
            context.append_log(&value.to_string());
        });
        engine.register_fn("parse_json", |text: &str| -> Result<Dynamic, RhaiError> {
            let value = lenient_json(text.as_bytes());
            value.map(|value| to_dynamic(&value)).map_err(RhaiError::from)
        });
        engine.register_fn("to_json", |value: Dynamic| from_dynamic(&value).to_string());
        engine.register_fn("timestamp", current_time);
        let context = self.clone();
        engine.register_fn("sleep", move |seconds: i64| {
            context.sleep_for(Duration::from_secs(seconds.try_into().unwrap_or(0)));
        });
        let context = self.clone();
        engine.register_fn("sleep", move |seconds: f64| {
            context.sleep_for(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        });
    }

    fn register_http(&self, engine: &mut Engine) {
        for (name, method) in [("http_get", "GET"), ("http_delete", "DELETE")] {
            let context = self.clone();
            engine.register_fn(name, move |url: &str| context.send_http(method, url, None, None));
            let context = self.clone();
            engine.register_fn(name, move |url: &str, headers: Map| {
                context.send_http(method, url, None, Some(headers))
            });
        }
        let context = self.clone();
        engine.register_fn("http_post", move |url: &str, body: Dynamic| {
            context.send_http("POST", url, Some(body), None)
        });
        let context = self.clone();
        engine.register_fn("http_post", move |url: &str, body: Dynamic, headers: Map| {
            context.send_http("POST", url, Some(body), Some(headers))
        });
    }

    /// Sends a request as an http task does. A response with any status is a value. Only a missing
    /// response is thrown.
    fn send_http(
        &self,
        method: &str,
        url: &str,
        body: Option<Dynamic>,
        headers: Option<Map>,
    ) -> Result<Dynamic, RhaiError> {
        let mut config =
            JsonMap::from([("method".into(), Json::from(method)), ("url".into(), Json::from(url))]);
        if let Some(body) = body {
            config.insert("body".into(), from_dynamic(&body));
        }
        if let Some(headers) = headers {
            config.insert("headers".into(), from_dynamic(&Dynamic::from(headers)));
        }
        let request = ToolCall { kind: ToolKind::Http, config, ..self.call.clone() };
        let context = CallContext::default();
        let response = self.stop.run_until_cancelled(self.http.run(&request, &context));
        let outcome = match self.runtime.block_on(response) {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => return Err(error.message.as_str().into()),
            None => return Err("the task was stopped".into()),
        };
        match outcome.error {
            Some(error) if outcome.data.is_null() => Err(error.message.as_str().into()),
            Some(_) | None => Ok(to_dynamic(&outcome.data)),
        }
    }

    fn sleep_for(&self, duration: Duration) {
        let sleep = self.stop.run_until_cancelled(tokio::time::sleep(duration));
        self.runtime.block_on(sleep);
    }

    fn append_log(&self, text: &str) {
        let mut log = self.log.lock();
        if log.len() + text.len() < MAX_LOG_BYTES {
            log.push_str(text);
            log.push('\n');
        }
    }
}

/// Time of the machine, which a script may read like any other program of a task.
fn current_time() -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "a script is user code, and its clock is not part of the event log"
    )]
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_epoch.map_or(0, |since_epoch| since_epoch.as_micros());
    let time = i64::try_from(micros).ok().and_then(|micros| Timestamp::from_micros(micros).ok());
    time.map_or_else(String::new, |time| time.to_string())
}

fn script_error(error: &EvalAltResult) -> TaskError {
    let kind = match error {
        EvalAltResult::ErrorTooManyOperations(_)
        | EvalAltResult::ErrorDataTooLarge(..)
        | EvalAltResult::ErrorStackOverflow(_) => TaskErrorKind::Limit,
        EvalAltResult::ErrorTerminated(..) => TaskErrorKind::Cancelled,
        EvalAltResult::ErrorParsing(..) => TaskErrorKind::Parse,
        // Every other error is caused by the script.
        _ => TaskErrorKind::Transform,
    };
    TaskError {
        details: Some(position_to_json(error.position())),
        ..TaskError::new(kind, error.to_string())
    }
}

fn position_to_json(position: Position) -> Json {
    let number = |number: Option<usize>| number.map_or(Json::Null, Json::from);
    Json::object([("line", number(position.line())), ("column", number(position.position()))])
}

/// Converts JSON to a script value. Integers outside the range of the language become floats.
fn to_dynamic(value: &Json) -> Dynamic {
    match value {
        Json::Null => Dynamic::UNIT,
        Json::Bool(value) => Dynamic::from(*value),
        Json::Int(number) => Dynamic::from(*number),
        Json::UInt(_) | Json::Float(_) => Dynamic::from(value.as_f64().unwrap_or_default()),
        Json::Str(text) => Dynamic::from(text.to_string()),
        Json::List(items) => Dynamic::from(items.iter().map(to_dynamic).collect::<Array>()),
        Json::Map(entries) => {
            let entries = entries.iter();
            let map: Map =
                entries.map(|(key, value)| ((&**key).into(), to_dynamic(value))).collect();
            Dynamic::from(map)
        }
    }
}

/// Converts a script value to JSON. A value that JSON lacks becomes the text that the script would
/// print.
fn from_dynamic(value: &Dynamic) -> Json {
    if value.is_unit() {
        return Json::Null;
    }
    if let Ok(value) = value.as_bool() {
        return Json::from(value);
    }
    if let Some(number) = value.clone().try_cast::<INT>() {
        return Json::from(number);
    }
    if let Some(number) = value.clone().try_cast::<FLOAT>() {
        return Json::from_f64(number).unwrap_or_else(|_| Json::from(number.to_string()));
    }
    if let Some(items) = value.read_lock::<Array>() {
        return Json::list(items.iter().map(from_dynamic));
    }
    if let Some(entries) = value.read_lock::<Map>() {
        return Json::object(
            entries.iter().map(|(key, value)| (key.as_str(), from_dynamic(value))),
        );
    }
    if let Some(bytes) = value.read_lock::<Blob>() {
        return Json::from(STANDARD.encode(&*bytes));
    }
    Json::from(value.to_string())
}
