//! The kind `mcp`: one call of a server that speaks the Model Context Protocol over HTTP.
//!
//! Owns the conversation: greeting, the call, goodbye. Requests go through the same guard as those
//! of `http`; how an answer is found in what comes back is said in [`answer`].

mod answer;
mod events;
mod talk;

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use reqwest::Url;
use reqwest::header::HeaderMap;

use self::talk::Talk;
use crate::call::{Call, Outcome};
use crate::config::{Config, missing};
use crate::http::{Web, headers, idempotency_key, read_url, shown, shown_bare};
use crate::settings::Settings;
use crate::tool::{Scope, Tool};

/// The version of the protocol that is asked for unless the task names another.
const PROTOCOL_VERSION: &str = "2025-06-18";

/// Calls MCP servers.
#[derive(Debug)]
pub(crate) struct Mcp {
    settings: Arc<Settings>,
    web: Arc<Web>,
}

/// What the config asks for.
struct Wish {
    server: Option<String>,
    endpoint: Url,
    /// How the result tells it.
    shown: String,
    headers: HeaderMap,
    protocol_version: String,
    method: String,
    tool: Option<String>,
    arguments: Json,
    params: Json,
}

impl Mcp {
    pub(crate) fn new(settings: Arc<Settings>, web: Arc<Web>) -> Self {
        Self { settings, web }
    }

    async fn work(&self, call: &Call) -> Result<Outcome, TaskError> {
        let wish = Wish::read(call, &self.settings)?;
        let mut talk = Talk::new(&self.web, &wish, self.settings.payload_cap);
        talk.greet(&wish.protocol_version).await?;
        let result = talk
            .ask(&wish.method, &wish.params, Some(idempotency_key(call)?))
            .await;
        talk.leave().await;
        match result? {
            Ok(result) => Ok(wish.outcome(result)),
            Err(refused) => Ok(Outcome {
                data: wish.data("error", &refused.message, Json::Null),
                ..refused.into()
            }),
        }
    }
}

#[async_trait]
impl Tool for Mcp {
    async fn run(&self, call: &Call, _scope: &Scope) -> Outcome {
        match self.work(call).await {
            Ok(outcome) => outcome,
            Err(error) => error.into(),
        }
    }
}

impl Wish {
    fn read(call: &Call, settings: &Settings) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let method = config.text("method")?.unwrap_or("tools/call").to_owned();
        let tool = config.text("tool")?.map(str::to_owned);
        // The input of the task is what its tool gets, unless the task says it by its own key.
        let arguments = config.map("arguments")?.unwrap_or(&call.input).clone();
        let mut params = JsonMap::new();
        if method == "tools/call" {
            params.insert("arguments".into(), arguments.clone().into());
            if let Some(tool) = &tool {
                params.insert("name".into(), Json::from(&**tool));
            }
        }
        params.extend(config.map("params")?.cloned().unwrap_or_default());
        if method == "tools/call" && !params.contains_key("name") {
            return Err(missing("'tool'"));
        }
        let (endpoint, shown) = endpoint(config, settings)?;
        Ok(Self {
            server: config.text("server")?.map(str::to_owned),
            endpoint,
            shown,
            headers: headers(config)?,
            protocol_version: config
                .text("protocol_version")?
                .unwrap_or(PROTOCOL_VERSION)
                .to_owned(),
            method,
            tool,
            arguments: arguments.into(),
            params: params.into(),
        })
    }

    /// What came of the call; a tool may report its own failure in a result.
    fn outcome(&self, result: Json) -> Outcome {
        let text = text_of(&result);
        let is_error = result.get("isError").and_then(Json::as_bool) == Some(true);
        if !is_error {
            return Outcome::ok(self.data("success", &text, result));
        }
        let tool = self.tool.as_deref().unwrap_or(&self.method);
        let message = match text.lines().find(|line| !line.trim().is_empty()) {
            Some(line) => format!("'{tool}' reported an error: {}", line.trim()),
            None => format!("'{tool}' reported an error"),
        };
        Outcome {
            data: self.data("error", &text, result),
            ..Outcome::error(TaskErrorKind::Transform, message)
        }
    }

    fn data(&self, status: &str, text: &str, result: Json) -> Json {
        Json::object([
            ("status", Json::from(status)),
            ("server", Json::from(self.server.as_deref())),
            ("endpoint", Json::from(&*self.shown)),
            ("method", Json::from(&*self.method)),
            ("tool", Json::from(self.tool.as_deref())),
            ("arguments", self.arguments.clone()),
            ("text", Json::from(text)),
            ("result", result),
        ])
    }
}

/// Where the server is, said by the task or known by its name to the operator, and how that is told.
fn endpoint(config: Config<'_>, settings: &Settings) -> Result<(Url, String), TaskError> {
    let of_task = |key: &str, text: &str| -> Result<(Url, String), TaskError> {
        let url = read_url(key, text)?;
        let shown = shown(&url);
        Ok((url, shown))
    };
    for key in ["endpoint", "url"] {
        if let Some(url) = config.text(key)? {
            return of_task(key, url);
        }
    }
    let server = config.text("server")?;
    let server = server.ok_or_else(|| missing("'endpoint' or 'server'"))?;
    if server.contains("://") {
        return of_task("server", server);
    }
    match settings.mcp_servers.get(server) {
        Some(url) => of_operator(server, url),
        None => Err(TaskError::new(
            TaskErrorKind::NotFound,
            format!(
                "this worker knows no MCP server '{server}'; give its address as 'endpoint', or have \
                 the operator name it in NOETL_MCP_SERVERS"
            ),
        )),
    }
}

/// The address that the operator gave a name. Tasks and their results are for others, so no key in it is
/// told to them.
fn of_operator(server: &str, text: &str) -> Result<(Url, String), TaskError> {
    let url = read_url("server", text).map_err(|_| {
        let message = format!(
            "the address that the operator gave '{server}' in NOETL_MCP_SERVERS cannot be used"
        );
        TaskError::new(TaskErrorKind::Parse, message)
    })?;
    let shown = shown_bare(&url);
    Ok((url, shown))
}

/// The texts of a result, one after another.
fn text_of(result: &Json) -> String {
    let parts = result.get("content").and_then(Json::as_list);
    let texts: Vec<&str> = parts
        .unwrap_or_default()
        .iter()
        .filter_map(|part| part.get("text").and_then(Json::as_str))
        .collect();
    texts.join("\n")
}
