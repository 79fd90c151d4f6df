//! The kind `nats`: key-value buckets, object buckets and streams of a NATS server.
//!
//! Owns the connections, which later calls reuse, and the conversion of values in both directions.
//! Servers are reached through the same egress guard as those of `http`.

mod connections;
mod error;
mod key_value;
mod objects;
mod streams;
mod target;
mod value;

use std::sync::Arc;

use async_nats::jetstream::Context;
use async_trait::async_trait;
use noetl_types::{Json, TaskError, TaskErrorKind};

pub(crate) use self::connections::Connections;
pub(crate) use self::error::nats_error;
pub(crate) use self::streams::{FetchRequest, acknowledge_all, fetch_messages, read_wait_time};
pub(crate) use self::target::NatsTarget;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, missing_key, scalar_text, wrong_type};
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

/// Runs operations on NATS servers.
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
    pub(crate) fn new(settings: Arc<Settings>, connections: Arc<Connections>) -> Self {
        Self { settings, connections }
    }

    async fn run_operation(&self, call: &ToolCall) -> Result<Json, TaskError> {
        let config = Config(&call.config);
        let operation = required_text(config, "operation")?;
        let target = NatsTarget::from_config(config, &self.settings)?;
        let jetstream = self.connections.open(&target, &self.settings).await?;
        let request = NatsRequest { jetstream, call, config, settings: &self.settings };
        match operation {
            "kv_get" => request.kv_get().await,
            "kv_put" => request.kv_put().await,
            "kv_delete" => request.kv_delete().await,
            "kv_purge" => request.kv_purge().await,
            "kv_keys" => request.kv_keys().await,
            "object_get" => request.object_get().await,
            "object_put" => request.object_put().await,
            "object_delete" => request.object_delete().await,
            "object_list" => request.object_list().await,
            "object_info" => request.object_info().await,
            "js_publish" => request.js_publish().await,
            "js_consume" => request.js_consume().await,
            "js_get_msg" => request.js_get_msg().await,
            "js_stream_info" => request.js_stream_info().await,
            other => Err(TaskError::new(
                TaskErrorKind::Schema,
                format!("'{other}' is not a NATS operation"),
            )),
        }
    }
}

#[async_trait]
impl Tool for NatsTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> ToolOutcome {
        match self.run_operation(call).await {
            Ok(data) => ToolOutcome::ok(data),
            Err(error) => error.into(),
        }
    }

    async fn shutdown(&self) {
        self.connections.close();
    }
}

/// Returns a required, non-empty text.
pub(crate) fn required_text<'c>(config: Config<'c>, key: &str) -> Result<&'c str, TaskError> {
    let text = config.text(key)?.filter(|text| !text.is_empty());
    text.ok_or_else(|| missing_key(&format!("'{key}'")))
}

/// Returns an integer within bounds. Also accepts a number that a template rendered as text.
pub(crate) fn read_number(
    config: Config<'_>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, TaskError> {
    let Some(value) = config.get(key) else {
        return Ok(None);
    };
    let number = scalar_text(value).and_then(|text| text.trim().parse().ok());
    let number = number.filter(|number| bounds.contains(number));
    number.map(Some).ok_or_else(|| {
        let expected = format!("a number from {} to {}", bounds.start(), bounds.end());
        wrong_type(key, &expected, value)
    })
}

/// Result of a successful operation, beginning with its status.
fn success_result<const N: usize>(fields: [(&'static str, Json); N]) -> Json {
    let status = ("status", Json::from("success"));
    Json::object(std::iter::once(status).chain(fields))
}
