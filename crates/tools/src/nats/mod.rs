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
use noetl_types::{Json, TaskError};

pub(crate) use self::connections::Connections;
pub(crate) use self::error::nats_error;
pub(crate) use self::streams::{FetchRequest, acknowledge_all, fetch_messages, read_wait_time};
pub(crate) use self::target::NatsTarget;
use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, schema_error};
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
