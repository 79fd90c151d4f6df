//! A session with a server: initialization, requests, and its end.

use std::time::Duration;

use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use tokio::time::timeout;

use super::McpRequest;
use super::response::{RpcResult, read_response};
use crate::http::{HttpClient, HttpRequest, IDEMPOTENCY_KEY_HEADER, error_from_status};

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Timeout of the request that ends a session. The server does not depend on it.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// JSON-RPC error code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;

/// A session.
pub(super) struct McpSession<'t> {
    client: &'t HttpClient,
    endpoint: &'t Url,
    headers: HeaderMap,
    max_body_size: ByteSize,
    last_id: u32,
}

impl<'t> McpSession<'t> {
    /// Creates a session that has not been initialized.
    pub(super) fn new(
        client: &'t HttpClient,
        request: &'t McpRequest,
        max_body_size: ByteSize,
    ) -> Self {
        let mut headers = request.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, accept);
        Self { client, endpoint: &request.endpoint, headers, max_body_size, last_id: 0 }
    }

    /// Negotiates the protocol version and adopts the session that the server assigns. A server
    /// without an `initialize` method is called without a session.
    pub(super) async fn initialize(&mut self, protocol_version: &str) -> Result<(), TaskError> {
        let client = Json::object([
            ("name", Json::from("noetl")),
            ("version", Json::from(env!("CARGO_PKG_VERSION"))),
        ]);
        let params = Json::object([
            ("protocolVersion", Json::from(protocol_version)),
            ("capabilities", Json::empty_map()),
            ("clientInfo", client),
        ]);
        let result = match self.send_request("initialize", &params, None).await? {
            Ok(result) => result,
            Err(error) if error.code == Some(Json::from(METHOD_NOT_FOUND)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let version = result.get("protocolVersion").and_then(Json::as_str);
        let version = HeaderValue::from_str(version.unwrap_or(protocol_version));
        if let Ok(version) = version {
            self.headers.insert(PROTOCOL_VERSION_HEADER, version);
        }
        let initialized = Json::object([
            ("jsonrpc", Json::from("2.0")),
            ("method", Json::from("notifications/initialized")),
        ]);
        let incoming = self.client.send_request(&self.build_request(&initialized, None)).await?;
        error_from_status(incoming.status()).map_or(Ok(()), Err)
    }

    /// Sends a request. An error that the server itself returns is the inner error.
    pub(super) async fn send_request(
        &mut self,
        method: &str,
        params: &Json,
        idempotency_key: Option<HeaderValue>,
    ) -> Result<RpcResult, TaskError> {
        self.last_id += 1;
        let id = Json::from(self.last_id);
        let message = Json::object([
            ("jsonrpc", Json::from("2.0")),
            ("id", id.clone()),
            ("method", Json::from(method)),
            ("params", params.clone()),
        ]);
        let incoming =
            self.client.send_request(&self.build_request(&message, idempotency_key)).await?;
        if let Some(session) = incoming.headers().get(SESSION_HEADER) {
            let mut session = session.clone();
            session.set_sensitive(true);
            self.headers.insert(SESSION_HEADER, session);
        }
        if let Some(mut error) = error_from_status(incoming.status()) {
            // A session that the server has dropped can be started again.
            if error.status == Some(404) && self.headers.contains_key(SESSION_HEADER) {
                error = TaskError {
                    status: error.status,
                    code: error.code,
                    ..TaskError::new(TaskErrorKind::Connection, "the MCP server ended the session")
                };
            }
            return Err(error);
        }
        read_response(incoming, &id, self.max_body_size).await
    }

    /// Ends the session, if there is one. Ignores errors.
    pub(super) async fn end_session(self) {
        if !self.headers.contains_key(SESSION_HEADER) {
            return;
        }
        let request = HttpRequest::new(Method::DELETE, self.endpoint.clone(), self.headers, None);
        timeout(END_SESSION_TIMEOUT, self.client.send_request(&request)).await.ok();
    }

    fn build_request(&self, message: &Json, idempotency_key: Option<HeaderValue>) -> HttpRequest {
        let mut headers = self.headers.clone();
        if let Some(idempotency_key) = idempotency_key {
            headers.insert(IDEMPOTENCY_KEY_HEADER, idempotency_key);
        }
        let body = Some(to_canonical(message));
        HttpRequest::new(Method::POST, self.endpoint.clone(), headers, body)
    }
}
