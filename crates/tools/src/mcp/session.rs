//! A session with a server: initialization, requests, their responses as separate bodies or as
//! messages of a stream, and its end.

use std::time::Duration;

use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use tokio::time::timeout;

use super::McpRequest;
use crate::http::{
    HttpClient, HttpRequest, IDEMPOTENCY_KEY_HEADER, IncomingResponse, body_too_large,
    error_from_status,
};
use crate::lenient::lenient_json;

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Timeout of the request that ends a session. The server does not depend on it.
const END_SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// JSON-RPC error code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32601;

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

/// Result or error that the server returns for a request.
pub(super) type RpcResult = Result<Json, TaskError>;

/// Reads until the response to the request with this id arrives. Then stops reading a stream, since
/// the server may keep it open.
pub(super) async fn read_response(
    mut incoming: IncomingResponse,
    id: &Json,
    max_size: ByteSize,
) -> Result<RpcResult, TaskError> {
    let content_type = incoming.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let is_stream = content_type.is_some_and(|text| text.starts_with("text/event-stream"));
    if !is_stream {
        let body = incoming.read_body(max_size).await?.into_body();
        return match parse_messages(&body)?.iter().find_map(|message| match_response(message, id)) {
            Some(result) => Ok(result),
            None => Err(unparseable_response("it contains no response to the request")),
        };
    }
    let mut parser = EventStreamParser::default();
    let mut read_bytes = 0;
    while let Some(chunk) = incoming.next_chunk().await? {
        let chunk = chunk.as_ref();
        read_bytes += chunk.len();
        if max_size.is_exceeded_by(read_bytes) {
            return Err(body_too_large(max_size));
        }
        for data in parser.parse_chunk(chunk) {
            let messages = parse_messages(data.as_bytes())?;
            if let Some(result) = messages.iter().find_map(|message| match_response(message, id)) {
                return Ok(result);
            }
        }
    }
    Err(TaskError::new(
        TaskErrorKind::Connection,
        "the MCP server ended its stream without a response",
    ))
}

/// Parses the messages of a body: one, or a list of them.
fn parse_messages(body: &[u8]) -> Result<Vec<Json>, TaskError> {
    let body = lenient_json(body).map_err(|reason| unparseable_response(&reason))?;
    Ok(match body {
        Json::List(messages) => messages.as_ref().clone(),
        message => vec![message],
    })
}

/// Returns the result of a message if it is the response to the request with this id.
fn match_response(message: &Json, id: &Json) -> Option<RpcResult> {
    if message.get("id") != Some(id) {
        return None;
    }
    if let Some(error) = message.get("error") {
        let text = error.get("message").and_then(Json::as_str);
        let text = text.unwrap_or("the MCP server rejected the request");
        return Some(Err(TaskError {
            code: error.get("code").cloned(),
            details: error.get("data").cloned(),
            ..TaskError::new(TaskErrorKind::Transform, text)
        }));
    }
    // A message with this id that has neither is a request from the server.
    message.get("result").map(|result| Ok(result.clone()))
}

fn unparseable_response(reason: &str) -> TaskError {
    TaskError::new(
        TaskErrorKind::Parse,
        format!("the MCP server's response cannot be parsed: {reason}"),
    )
}

/// Incremental parser of an event stream.
#[derive(Debug, Default)]
pub(super) struct EventStreamParser {
    /// Bytes of an incomplete line.
    line: Vec<u8>,
    /// True if the last line ended with a carriage return, so that a following line feed belongs to
    /// it.
    after_return: bool,
    /// Data of an incomplete event.
    data: Option<String>,
}

impl EventStreamParser {
    /// Parses bytes and returns the data of the events that end in them.
    pub(super) fn parse_chunk(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        for byte in bytes {
            let was_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if was_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.finish_line(&line));
                }
                byte => self.line.push(*byte),
            }
        }
        events
    }

    fn finish_line(&mut self, line: &[u8]) -> Option<String> {
        if line.is_empty() {
            return self.data.take();
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => *data += &format!("\n{value}"),
                None => self.data = Some(value.to_owned()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
