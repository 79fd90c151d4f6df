//! The kind `rhai`: a script in the Rhai language, within bounds.
//!
//! A script runs on a thread of its own, in an engine of its own. It sees its input and the names of
//! its step, reaches the network only through the guard of http tasks, and touches no file.

mod value;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use noetl_playbook::model::ToolKind;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind, Timestamp};
use rhai::{Dynamic, Engine, EvalAltResult, Map, Position, Scope as Names};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use self::value::{dynamic, json};
use crate::call::{Call, Outcome};
use crate::config::{Config, missing};
use crate::http::{Http, Web};
use crate::lenient::lenient_json;
use crate::settings::Settings;
use crate::tool::{Scope, Tool};

/// Steps that a script may take.
const FUEL: u64 = 200_000_000;
/// Calls of functions within functions.
const CALL_DEPTH: usize = 64;
/// Nesting of expressions, outside and inside of functions.
const EXPRESSION_DEPTH: (usize, usize) = (64, 32);
/// Items of a list or a map.
const MOST_ITEMS: usize = 1_000_000;
/// What is kept of the log of a script.
const MOST_LOG: usize = 64 * 1024;

type Thrown = Box<EvalAltResult>;

/// Runs Rhai scripts.
pub(crate) struct Rhai {
    settings: Arc<Settings>,
    http: Arc<Http>,
}

impl Rhai {
    pub(crate) fn new(settings: Arc<Settings>, web: Arc<Web>) -> Self {
        Self {
            http: Arc::new(Http::new(web, settings.payload_cap)),
            settings,
        }
    }

    async fn work(&self, call: &Call) -> Result<Outcome, TaskError> {
        let code = Config(&call.config).text("code")?;
        let code = code.ok_or_else(|| missing("'code'"))?.to_owned();
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        let surroundings = Surroundings {
            call: call.clone(),
            http: Arc::clone(&self.http),
            runtime: Handle::current(),
            stop,
            log: Arc::default(),
        };
        let text_cap = usize::try_from(self.settings.payload_cap.as_bytes()).unwrap_or(usize::MAX);
        let ran = tokio::task::spawn_blocking(move || surroundings.run(&code, text_cap));
        ran.await.map_err(|error| {
            let message = format!("the script's thread ended: {error}");
            TaskError::new(TaskErrorKind::Unknown, message)
        })
    }
}

#[async_trait]
impl Tool for Rhai {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        match self.work(call).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }
}

/// What a script has around it.
#[derive(Clone)]
struct Surroundings {
    call: Call,
    http: Arc<Http>,
    runtime: Handle,
    stop: CancellationToken,
    log: Arc<Mutex<String>>,
}

impl Surroundings {
    fn run(&self, code: &str, text_cap: usize) -> Outcome {
        let engine = self.engine(text_cap);
        let result = match engine.compile(code) {
            Ok(script) => {
                let mut names = self.names();
                let value = engine.eval_ast_with_scope::<Dynamic>(&mut names, &script);
                value
                    .map(|value| json(&value))
                    .map_err(|error| thrown(&error))
            }
            Err(error) => Err(TaskError {
                details: Some(place(error.position())),
                ..TaskError::new(TaskErrorKind::Parse, error.to_string())
            }),
        };
        let mut outcome = match result {
            Ok(value) => Outcome::ok(value),
            Err(error) => Outcome {
                data: Json::object([("error", Json::from(&error.message))]),
                ..error.into()
            },
        };
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if !log.is_empty() {
            let log = Json::object([("log", Json::from(log.as_str()))]);
            outcome.extras.insert("rhai".into(), log);
        }
        outcome
    }

    fn engine(&self, text_cap: usize) -> Engine {
        let mut engine = Engine::new();
        engine
            .set_max_operations(FUEL)
            .set_max_call_levels(CALL_DEPTH)
            .set_max_expr_depths(EXPRESSION_DEPTH.0, EXPRESSION_DEPTH.1)
            .set_max_array_size(MOST_ITEMS)
            .set_max_map_size(MOST_ITEMS)
            .set_max_string_size(text_cap);
        let stop = self.stop.clone();
        engine.on_progress(move |_| stop.is_cancelled().then_some(Dynamic::UNIT));
        let around = self.clone();
        engine.on_print(move |text| around.note(text));
        let around = self.clone();
        engine.on_debug(move |text, _, _| around.note(text));
        self.add_values(&mut engine);
        self.add_http(&mut engine);
        engine
    }

    /// The names that a script sees: those of its step, its input over them, and `args`.
    fn names(&self) -> Names<'static> {
        let mut names = Names::new();
        let context = self.call.context.as_map().into_iter().flatten();
        for (name, value) in context.chain(&self.call.input) {
            names.push_dynamic(name.to_string(), dynamic(value));
        }
        names.push_dynamic("args", dynamic(&Json::from(self.call.input.clone())));
        names
    }

    fn add_values(&self, engine: &mut Engine) {
        let around = self.clone();
        engine.register_fn("log", move |value: Dynamic| around.note(&value.to_string()));
        engine.register_fn("parse_json", |text: &str| -> Result<Dynamic, Thrown> {
            let value = lenient_json(text.as_bytes());
            value.map(|value| dynamic(&value)).map_err(Thrown::from)
        });
        engine.register_fn("to_json", |value: Dynamic| json(&value).to_string());
        engine.register_fn("timestamp", now);
        let around = self.clone();
        engine.register_fn("sleep", move |seconds: i64| {
            around.pause(Duration::from_secs(seconds.try_into().unwrap_or(0)));
        });
        let around = self.clone();
        engine.register_fn("sleep", move |seconds: f64| {
            around.pause(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        });
    }

    fn add_http(&self, engine: &mut Engine) {
        for (name, method) in [("http_get", "GET"), ("http_delete", "DELETE")] {
            let around = self.clone();
            engine.register_fn(name, move |url: &str| {
                around.request(method, url, None, None)
            });
            let around = self.clone();
            engine.register_fn(name, move |url: &str, headers: Map| {
                around.request(method, url, None, Some(headers))
            });
        }
        let around = self.clone();
        engine.register_fn("http_post", move |url: &str, body: Dynamic| {
            around.request("POST", url, Some(body), None)
        });
        let around = self.clone();
        engine.register_fn(
            "http_post",
            move |url: &str, body: Dynamic, headers: Map| {
                around.request("POST", url, Some(body), Some(headers))
            },
        );
    }

    /// Sends a request as an http task does. An answer of any status is a value; only no answer is
    /// thrown.
    fn request(
        &self,
        method: &str,
        url: &str,
        body: Option<Dynamic>,
        headers: Option<Map>,
    ) -> Result<Dynamic, Thrown> {
        let mut config = JsonMap::from([
            ("method".into(), Json::from(method)),
            ("url".into(), Json::from(url)),
        ]);
        if let Some(body) = body {
            config.insert("body".into(), json(&body));
        }
        if let Some(headers) = headers {
            config.insert("headers".into(), json(&Dynamic::from(headers)));
        }
        let request = Call {
            kind: ToolKind::Http,
            config,
            ..self.call.clone()
        };
        let scope = Scope::default();
        let answered = self
            .stop
            .run_until_cancelled(self.http.run(&request, &scope));
        let Some(outcome) = self.runtime.block_on(answered) else {
            return Err("the task was stopped".into());
        };
        match outcome.error {
            Some(error) if outcome.data.is_null() => Err(error.message.as_str().into()),
            Some(_) | None => Ok(dynamic(&outcome.data)),
        }
    }

    fn pause(&self, time: Duration) {
        let slept = self.stop.run_until_cancelled(tokio::time::sleep(time));
        self.runtime.block_on(slept);
    }

    fn note(&self, text: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() + text.len() < MOST_LOG {
            log.push_str(text);
            log.push('\n');
        }
    }
}

/// The time of the machine, which a script may ask for like any other program that a task starts.
fn now() -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "a script is user code: its clock is that of the machine, and no part of the log"
    )]
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    let time = i64::try_from(micros)
        .ok()
        .and_then(|micros| Timestamp::from_micros(micros).ok());
    time.map_or_else(String::new, |time| time.to_string())
}

/// Why a script ended early.
fn thrown(error: &EvalAltResult) -> TaskError {
    let kind = match error {
        EvalAltResult::ErrorTooManyOperations(_)
        | EvalAltResult::ErrorDataTooLarge(..)
        | EvalAltResult::ErrorStackOverflow(_) => TaskErrorKind::Limit,
        EvalAltResult::ErrorTerminated(..) => TaskErrorKind::Cancelled,
        EvalAltResult::ErrorParsing(..) => TaskErrorKind::Parse,
        // Whatever else there is, the script brought it about.
        _ => TaskErrorKind::Transform,
    };
    TaskError {
        details: Some(place(error.position())),
        ..TaskError::new(kind, error.to_string())
    }
}

fn place(position: Position) -> Json {
    let number = |number: Option<usize>| number.map_or(Json::Null, Json::from);
    Json::object([
        ("line", number(position.line())),
        ("column", number(position.position())),
    ])
}
