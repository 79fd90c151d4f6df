//! The kind `nats`: key-value buckets, object buckets and streams of a NATS server.
//!
//! Owns the connections, which later calls reuse, and the conversion of values in both directions.
//! Servers are reached through the same egress guard as those of `http`.

mod buckets;
mod connections;
mod streams;

use std::error::Error;
use std::sync::Arc;

use async_nats::jetstream::Context;
use async_nats::{HeaderMap, jetstream};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use noetl_types::json::to_canonical;
use noetl_types::{ByteSize, Json, TaskError, TaskErrorKind};

pub(crate) use self::connections::{Connections, NatsTarget};
pub(crate) use self::streams::{FetchRequest, acknowledge_all, fetch_messages, read_wait_time};
use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, schema_error};
use crate::lenient::lenient_json;
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

pub(crate) struct NatsTool {
    settings: Arc<Settings>,
    connections: Arc<Connections>,
}

/// One call with its connection.
struct NatsRequest<'t> {
    jetstream: Context,
    call: &'t ToolCall,
    config: Config<'t>,
    settings: &'t Settings,
}

impl NatsTool {
    pub(crate) fn new(settings: &Arc<Settings>, connections: &Arc<Connections>) -> Self {
        Self { settings: Arc::clone(settings), connections: Arc::clone(connections) }
    }
}

#[async_trait]
impl Tool for NatsTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        let config = Config(&call.config);
        let operation = config.required_text("operation")?;
        let target = NatsTarget::from_config(config, &self.settings)?;
        let jetstream = self.connections.open(&target, &self.settings).await?;
        let request = NatsRequest { jetstream, call, config, settings: &self.settings };
        let data = match operation {
            "kv_get" => request.kv_get().await?,
            "kv_put" => request.kv_put().await?,
            "kv_delete" => request.kv_delete().await?,
            "kv_purge" => request.kv_purge().await?,
            "kv_keys" => request.kv_keys().await?,
            "object_get" => request.object_get().await?,
            "object_put" => request.object_put().await?,
            "object_delete" => request.object_delete().await?,
            "object_list" => request.object_list().await?,
            "object_info" => request.object_info().await?,
            "js_publish" => request.js_publish().await?,
            "js_consume" => request.js_consume().await?,
            "js_get_msg" => request.js_get_msg().await?,
            "js_stream_info" => request.js_stream_info().await?,
            other => return Err(schema_error(format!("'{other}' is not a NATS operation"))),
        };
        Ok(ToolOutcome::ok(data))
    }

    async fn shutdown(&self) {
        self.connections.close();
    }
}

/// Result of a successful operation, beginning with its status.
fn success_result(fields: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    let status = ("status", Json::from("success"));
    Json::object(std::iter::once(status).chain(fields))
}

/// Error of a failed operation, with its causes.
pub(crate) fn nats_error(summary: &str, error: &dyn Error) -> TaskError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        // Some errors repeat their cause.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        cause = error.source();
    }
    let kind = if text.contains("timed out") {
        TaskErrorKind::Timeout
    } else if text.contains("uthorization") || text.contains("ermissions") {
        TaskErrorKind::Auth
    } else {
        TaskErrorKind::Connection
    };
    TaskError::new(kind, format!("{summary}: {text}"))
}

/// Converts the errors of NATS operations.
trait NatsResult<T> {
    /// Converts an error to a task error that begins with a summary.
    fn or_fail(self, summary: &str) -> Result<T, TaskError>;
}

impl<T, E: Error> NatsResult<T> for Result<T, E> {
    fn or_fail(self, summary: &str) -> Result<T, TaskError> {
        self.map_err(|error| nats_error(summary, &error))
    }
}

fn not_found(kind: &str, name: &str) -> TaskError {
    TaskError::new(TaskErrorKind::NotFound, format!("there is no {kind} '{name}'"))
}

/// Error for a name that the server does not accept.
fn invalid_name(key: &str, name: &str) -> TaskError {
    schema_error(format!("'{name}' is not a valid {key} name"))
}

/// True if the server reports that an item does not exist.
fn is_not_found(error: &jetstream::Error) -> bool {
    use jetstream::ErrorCode as Code;
    [Code::STREAM_NOT_FOUND, Code::CONSUMER_NOT_FOUND, Code::NO_MESSAGE_FOUND]
        .contains(&error.error_code())
}

/// Encodes a value: a text as is, any other value as JSON.
fn encode_payload(value: &Json) -> Bytes {
    match value {
        Json::Str(text) => Bytes::copy_from_slice(text.as_bytes()),
        other => Bytes::from(to_canonical(other)),
    }
}

/// Decodes bytes: as JSON if they are JSON, else as text, else as base64.
fn decode_payload(bytes: &[u8]) -> Json {
    if let Ok(value) = lenient_json(bytes) {
        return value;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::from(text.replace('\0', "\u{FFFD}")),
        Err(_) => Json::object([
            ("base64", Json::from(STANDARD.encode(bytes))),
            ("bytes", Json::from(u64::try_from(bytes.len()).unwrap_or(u64::MAX))),
        ]),
    }
}

/// Converts headers to JSON. If a name has several values, the last one is used.
fn headers_to_json(headers: Option<&HeaderMap>) -> Json {
    let headers = headers.into_iter().flat_map(HeaderMap::iter);
    let fields = headers.filter_map(|(name, values)| {
        let last = values.last()?.as_str().replace('\0', "\u{FFFD}");
        Some((name.to_string(), Json::from(last)))
    });
    Json::object(fields)
}

/// Rejects payloads that are larger than a tool accepts.
fn check_payload_size(bytes: usize, max_size: ByteSize) -> Result<(), TaskError> {
    if u64::try_from(bytes).unwrap_or(u64::MAX) <= max_size.as_bytes() {
        return Ok(());
    }
    let message = format!("the payload has {bytes} bytes; a task accepts at most {max_size}");
    Err(TaskError::new(TaskErrorKind::Limit, message))
}
