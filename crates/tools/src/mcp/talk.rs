//! A conversation with a server: one greeting, some requests, one goodbye.

use std::time::Duration;

use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use tokio::time::timeout;

use super::Wish;
use super::answer::{Answered, answer};
use crate::http::{IDEMPOTENCY_KEY, Request, Web, refusal};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Time for a goodbye, which nobody waits for on the other side.
const GOODBYE: Duration = Duration::from_secs(2);

/// What a server says that does not know a method.
const METHOD_NOT_FOUND: i64 = -32601;

/// A conversation.
pub(super) struct Talk<'t> {
    web: &'t Web,
    endpoint: &'t Url,
    headers: HeaderMap,
    largest: ByteSize,
    last_id: u32,
}

impl<'t> Talk<'t> {
    /// A conversation that has not begun.
    pub(super) fn new(web: &'t Web, wish: &'t Wish, largest: ByteSize) -> Self {
        let mut headers = wish.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
        Self {
            web,
            endpoint: &wish.endpoint,
            headers,
            largest,
            last_id: 0,
        }
    }

    /// Agrees on a version of the protocol and takes the session that the server gives. A server
    /// that knows no greeting is called without.
    pub(super) async fn greet(&mut self, protocol_version: &str) -> Result<(), TaskError> {
        let client = Json::object([
            ("name", Json::from("noetl")),
            ("version", Json::from(env!("CARGO_PKG_VERSION"))),
        ]);
        let params = Json::object([
            ("protocolVersion", Json::from(protocol_version)),
            ("capabilities", Json::empty_map()),
            ("clientInfo", client),
        ]);
        let agreed = match self.ask("initialize", &params, None).await? {
            Ok(agreed) => agreed,
            Err(refused) if refused.code == Some(Json::from(METHOD_NOT_FOUND)) => return Ok(()),
            Err(refused) => return Err(refused),
        };
        let version = agreed.get("protocolVersion").and_then(Json::as_str);
        let version = HeaderValue::from_str(version.unwrap_or(protocol_version));
        if let Ok(version) = version {
            self.headers.insert(VERSION, version);
        }
        let ready = Json::object([
            ("jsonrpc", Json::from("2.0")),
            ("method", Json::from("notifications/initialized")),
        ]);
        let incoming = self.web.open(&self.request(&ready, None)).await?;
        refusal(incoming.status()).map_or(Ok(()), Err)
    }

    /// Makes a request. What the server itself refuses is the inner error.
    pub(super) async fn ask(
        &mut self,
        method: &str,
        params: &Json,
        key: Option<HeaderValue>,
    ) -> Result<Answered, TaskError> {
        self.last_id += 1;
        let id = Json::from(self.last_id);
        let message = Json::object([
            ("jsonrpc", Json::from("2.0")),
            ("id", id.clone()),
            ("method", Json::from(method)),
            ("params", params.clone()),
        ]);
        let incoming = self.web.open(&self.request(&message, key)).await?;
        if let Some(session) = incoming.headers().get(SESSION) {
            let mut session = session.clone();
            session.set_sensitive(true);
            self.headers.insert(SESSION, session);
        }
        if let Some(mut refused) = refusal(incoming.status()) {
            // A session that the server has forgotten can be begun anew.
            if refused.status == Some(404) && self.headers.contains_key(SESSION) {
                refused = TaskError {
                    status: refused.status,
                    code: refused.code,
                    ..TaskError::new(
                        TaskErrorKind::Connection,
                        "the MCP server ended the session",
                    )
                };
            }
            return Err(refused);
        }
        answer(incoming, &id, self.largest).await
    }

    /// Ends the session, if there is one. Whether the server hears it changes nothing.
    pub(super) async fn leave(self) {
        if !self.headers.contains_key(SESSION) {
            return;
        }
        let request = Request::new(Method::DELETE, self.endpoint.clone(), self.headers, None);
        timeout(GOODBYE, self.web.open(&request)).await.ok();
    }

    fn request(&self, message: &Json, key: Option<HeaderValue>) -> Request {
        let mut headers = self.headers.clone();
        if let Some(key) = key {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let body = Some(to_canonical(message));
        Request::new(Method::POST, self.endpoint.clone(), headers, body)
    }
}
