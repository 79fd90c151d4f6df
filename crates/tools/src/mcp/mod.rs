//! The kind `mcp`: one call of a server that implements the Model Context Protocol over HTTP.
//!
//! Owns the session: initialization, the call, and its end. Requests go through the same egress
//! guard as those of `http`. [`response`] finds the reply to a request in the server's output.

mod session;

use std::sync::Arc;

use async_trait::async_trait;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use reqwest::Url;
use reqwest::header::HeaderMap;

use self::session::McpSession;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, missing_key};
use crate::http::{
    HttpClient, idempotency_header, parse_http_url, read_headers, strip_credentials,
    strip_credentials_and_query,
};
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

/// Protocol version that is requested unless the task names another.
const PROTOCOL_VERSION: &str = "2025-06-18";

#[derive(Debug)]
pub(crate) struct McpTool {
    settings: Arc<Settings>,
    client: Arc<HttpClient>,
}

struct McpRequest {
    server: Option<String>,
    endpoint: Url,
    /// Endpoint as shown in the result.
    display_url: String,
    headers: HeaderMap,
    protocol_version: String,
    method: String,
    tool: Option<String>,
    arguments: Json,
    params: Json,
}

impl McpTool {
    pub(crate) fn new(settings: &Arc<Settings>, client: &Arc<HttpClient>) -> Self {
        Self { settings: Arc::clone(settings), client: Arc::clone(client) }
    }
}

#[async_trait]
impl Tool for McpTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let request = McpRequest::from_call(call, &self.settings)?;
        let mut session = McpSession::new(&self.client, &request, self.settings.payload_cap);
        session.initialize(&request.protocol_version).await?;
        let key = Some(idempotency_header(call)?);
        let result = session.send_request(&request.method, &request.params, key).await;
        session.end_session().await;
        Ok(match result? {
            Ok(result) => request.to_outcome(result),
            Err(error) => ToolOutcome {
                data: request.to_data("error", &error.message, Json::Null),
                ..error.into()
            },
        })
    }
}

impl McpRequest {
    fn from_call(call: &ToolCall, settings: &Settings) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let method = config.text("method")?.unwrap_or("tools/call").to_owned();
        let tool = config.text("tool")?.map(str::to_owned);
        // `arguments` of the task takes precedence over its input.
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
            return Err(missing_key("'tool'"));
        }
        let (endpoint, display_url) = find_endpoint(config, settings)?;
        Ok(Self {
            server: config.text("server")?.map(str::to_owned),
            endpoint,
            display_url,
            headers: read_headers(config)?,
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

    /// Converts the result of the call. A tool may report its own failure in a result.
    fn to_outcome(&self, result: Json) -> ToolOutcome {
        let text = join_text_parts(&result);
        let is_error = result.get("isError").and_then(Json::as_bool) == Some(true);
        if !is_error {
            return ToolOutcome::ok(self.to_data("success", &text, result));
        }
        let tool = self.tool.as_deref().unwrap_or(&self.method);
        let message = match text.lines().find(|line| !line.trim().is_empty()) {
            Some(line) => format!("'{tool}' reported an error: {}", line.trim()),
            None => format!("'{tool}' reported an error"),
        };
        ToolOutcome {
            data: self.to_data("error", &text, result),
            ..ToolOutcome::error(TaskErrorKind::Transform, message)
        }
    }

    fn to_data(&self, status: &str, text: &str, result: Json) -> Json {
        Json::object([
            ("status", Json::from(status)),
            ("server", Json::from(self.server.as_deref())),
            ("endpoint", Json::from(&*self.display_url)),
            ("method", Json::from(&*self.method)),
            ("tool", Json::from(self.tool.as_deref())),
            ("arguments", self.arguments.clone()),
            ("text", Json::from(text)),
            ("result", result),
        ])
    }
}

/// Finds the endpoint: from the task, or by name from the operator's settings. Also returns its
/// display form.
fn find_endpoint(config: Config<'_>, settings: &Settings) -> Result<(Url, String), TaskError> {
    let task_endpoint = |key: &str, text: &str| -> Result<(Url, String), TaskError> {
        let url = parse_http_url(key, text)?;
        let display_url = strip_credentials(&url);
        Ok((url, display_url))
    };
    for key in ["endpoint", "url"] {
        if let Some(url) = config.text(key)? {
            return task_endpoint(key, url);
        }
    }
    let server = config.text("server")?;
    let server = server.ok_or_else(|| missing_key("'endpoint' or 'server'"))?;
    if server.contains("://") {
        return task_endpoint("server", server);
    }
    match settings.mcp_servers.get(server) {
        Some(url) => operator_endpoint(server, url),
        None => Err(TaskError::new(
            TaskErrorKind::NotFound,
            format!(
                "the MCP server '{server}' is not configured on this worker; set 'endpoint', or \
                 ask the operator to add it to NOETL_MCP_SERVERS"
            ),
        )),
    }
}

/// Endpoint that the operator configured for a name. Results are visible to others, so the display
/// form omits the query, which may hold a key.
fn operator_endpoint(server: &str, text: &str) -> Result<(Url, String), TaskError> {
    let url = parse_http_url("server", text).map_err(|_| {
        let message = format!(
            "the address of '{server}' in NOETL_MCP_SERVERS is not a valid http or https URL"
        );
        TaskError::new(TaskErrorKind::Parse, message)
    })?;
    let display_url = strip_credentials_and_query(&url);
    Ok((url, display_url))
}

fn join_text_parts(result: &Json) -> String {
    let parts = result.get("content").and_then(Json::as_list);
    let texts: Vec<&str> = parts
        .unwrap_or_default()
        .iter()
        .filter_map(|part| part.get("text").and_then(Json::as_str))
        .collect();
    texts.join("\n")
}
