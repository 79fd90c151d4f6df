//! The kind `subscription`: polls messages from a message source and acknowledges them.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{AckKind, Context};
use async_trait::async_trait;
use bytes::Bytes;
use noetl_types::{Json, TaskError, TaskErrorKind};

use crate::call::{ToolCall, ToolOutcome};
use crate::config::{Config, missing_key, wrong_type};
use crate::nats::{
    Connections, FetchRequest, NatsTarget, acknowledge_all, fetch_messages, nats_error,
    read_wait_time,
};
use crate::settings::Settings;
use crate::tool::{CallContext, Tool};

/// Maximum and default number of messages per poll.
const MAX_POLL_MESSAGES: u64 = 1_000;
const DEFAULT_POLL_MESSAGES: u64 = 100;

/// Default wait time of a poll, in milliseconds.
const DEFAULT_POLL_WAIT_MS: u64 = 1_000;

/// Maximum redelivery delay of a message, in milliseconds.
const MAX_NACK_DELAY_MS: u64 = 86_400_000;

/// Prefix of the subjects on which messages are acknowledged.
const ACK_SUBJECT_PREFIX: &str = "$JS.ACK.";

pub(crate) struct SubscriptionTool {
    settings: Arc<Settings>,
    connections: Arc<Connections>,
}

impl SubscriptionTool {
    pub(crate) fn new(settings: &Arc<Settings>, connections: &Arc<Connections>) -> Self {
        Self { settings: Arc::clone(settings), connections: Arc::clone(connections) }
    }

    async fn run_operation(&self, call: &ToolCall) -> Result<Json, TaskError> {
        let config = Config(&call.config);
        let source = config.required_text("source")?;
        if source != "nats" {
            let message = format!("this worker does not support the source '{source}'; use nats");
            return Err(TaskError::new(TaskErrorKind::Unsupported, message));
        }
        let operation = config.text("operation")?.unwrap_or("poll");
        let target = NatsTarget::from_config(config, &self.settings)?;
        let jetstream = self.connections.open(&target, &self.settings).await?;
        match operation {
            "poll" => self.poll_messages(&jetstream, config).await,
            "ack" => send_acks(&jetstream, config, operation, AckKind::Ack).await,
            "nack" => {
                let delay = config.number("nack_delay_ms", 0..=MAX_NACK_DELAY_MS)?;
                let delay = delay.map(Duration::from_millis);
                send_acks(&jetstream, config, operation, AckKind::Nak(delay)).await
            }
            other => Err(TaskError::new(
                TaskErrorKind::Schema,
                format!("'{other}' is not an operation of a subscription; use poll, ack or nack"),
            )),
        }
    }

    async fn poll_messages(
        &self,
        jetstream: &Context,
        config: Config<'_>,
    ) -> Result<Json, TaskError> {
        let request = FetchRequest {
            stream: config.required_text("stream")?,
            consumer: config.required_text("consumer")?,
            batch: config.number("batch", 1..=MAX_POLL_MESSAGES)?.unwrap_or(DEFAULT_POLL_MESSAGES),
            max_wait: read_wait_time(config, DEFAULT_POLL_WAIT_MS)?,
            max_bytes: self.settings.payload_cap,
        };
        let mode = match config.text("ack")?.unwrap_or("on_success") {
            "on_success" | "auto" => "on_success",
            "manual" => "manual",
            "none" => "none",
            other => {
                return Err(wrong_type("ack", "on_success, manual or none", &Json::from(other)));
            }
        };
        let fetched = fetch_messages(jetstream, &request).await?;
        let acked = if mode == "on_success" { acknowledge_all(&fetched).await? } else { 0 };
        // The caller can still acknowledge the remaining messages.
        let ack_ids: Vec<Json> =
            fetched[acked..].iter().map(|message| Json::from(&*message.ack_id)).collect();
        let messages: Vec<Json> = fetched.into_iter().map(|message| message.json).collect();
        Ok(Json::object([
            ("status", Json::from("success")),
            ("source", Json::from("nats")),
            ("operation", Json::from("poll")),
            ("count", Json::from(messages.len())),
            ("messages", Json::list(messages)),
            ("acked", Json::from(acked)),
            ("ack_mode", Json::from(mode)),
            ("ack_ids", Json::list(ack_ids)),
        ]))
    }
}

/// Acknowledges or rejects messages of an earlier poll.
async fn send_acks(
    jetstream: &Context,
    config: Config<'_>,
    operation: &str,
    kind: AckKind,
) -> Result<Json, TaskError> {
    let ack_ids = config.get("ack_ids").ok_or_else(|| missing_key("'ack_ids'"))?;
    let ids = ack_ids.as_list().ok_or_else(|| wrong_type("ack_ids", "a list", ack_ids))?;
    let payload = Bytes::from(kind);
    let mut acked = 0_u64;
    for id in ids {
        let subject = id.as_str().filter(|id| id.starts_with(ACK_SUBJECT_PREFIX));
        // Any other subject would let a task publish to an arbitrary subject.
        let subject =
            subject.ok_or_else(|| wrong_type("ack_ids", "a list of ids from a poll", id))?;
        let reply = jetstream.client().request(subject.to_owned(), payload.clone()).await;
        reply
            .map_err(|error| nats_error("a message cannot be acknowledged or rejected", &error))?;
        acked += 1;
    }
    Ok(Json::object([
        ("status", Json::from("success")),
        ("source", Json::from("nats")),
        ("operation", Json::from(operation)),
        ("count", Json::from(u64::try_from(ids.len()).unwrap_or(u64::MAX))),
        ("messages", Json::list([])),
        ("acked", Json::from(acked)),
        ("ack_mode", Json::from("manual")),
        ("ack_ids", Json::list(ids.iter().cloned())),
    ]))
}

#[async_trait]
impl Tool for SubscriptionTool {
    async fn run(&self, call: &ToolCall, _context: &CallContext) -> Result<ToolOutcome, TaskError> {
        Ok(ToolOutcome::ok(self.run_operation(call).await?))
    }
}
