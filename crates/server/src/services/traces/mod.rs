//! Traces of executions, for an OpenTelemetry collector.
//!
//! Owns the export of ended executions: one trace per execution, built from its log, with a span
//! for the execution, for each pass through a step and for each attempt at a command. Nothing waits
//! for it: ids of ended executions wait in a bounded queue, and traces that do not fit or cannot be
//! delivered are dropped and counted. Must not make decisions, or be called on the append path.

mod otlp;
mod spans;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_api::Client;
use noetl_api::client::ClientSettings;
use noetl_engine::decode_record;
use noetl_engine::event::Event;
use noetl_store::LogPageLimit;
use noetl_types::{ExecutionId, ExecutionVersion, Millis};
use tokio::sync::mpsc;

use crate::error::{Result, error_chain};
use crate::services::Infrastructure;
use spans::Span;

/// Maximum ended executions in the queue.
const MAX_QUEUED_TRACES: usize = 4096;
/// Maximum executions per message.
const MAX_EXECUTIONS_PER_MESSAGE: usize = 64;
/// Number of spans after which a message takes no further execution.
const TARGET_SPANS_PER_MESSAGE: usize = 2_000;
/// Maximum events per trace. Later events are not in it.
const MAX_EVENTS_PER_TRACE: usize = 50_000;
const COLLECTOR_TIMEOUT: Millis = Millis::from_secs(10);
const COLLECTOR_PATH: &str = "/v1/traces";

/// Exports the traces of ended executions.
pub(crate) struct Traces {
    infra: Arc<Infrastructure>,
    /// Queue of ended executions, if there is a collector.
    sender: Option<mpsc::Sender<ExecutionId>>,
    /// Taken by the task that sends the traces.
    receiver: Mutex<Option<mpsc::Receiver<ExecutionId>>>,
}

impl Traces {
    pub(crate) fn new(infra: &Arc<Infrastructure>) -> Self {
        let queue =
            infra.settings.trace_endpoint.as_ref().map(|_| mpsc::channel(MAX_QUEUED_TRACES));
        let (sender, receiver) = queue.unzip();
        Self { infra: Arc::clone(infra), sender, receiver: Mutex::new(receiver) }
    }

    /// True if there is a collector.
    pub(crate) fn is_enabled(&self) -> bool {
        self.sender.is_some()
    }

    /// Queues an ended execution.
    pub(crate) fn queue_trace(&self, execution_id: ExecutionId) {
        if let Some(sender) = &self.sender
            && sender.try_send(execution_id).is_err()
        {
            self.infra.metrics.server.traces_dropped.inc();
        }
    }

    /// Sends queued traces until shutdown, and then the rest of the queue once.
    pub(crate) async fn trace_loop(self: Arc<Self>) {
        let receiver = self.receiver.lock();
        let queue = receiver.unwrap_or_else(PoisonError::into_inner).take();
        let (Some(mut queue), Some(endpoint)) = (queue, &self.infra.settings.trace_endpoint) else {
            return;
        };
        let settings = ClientSettings { timeout: COLLECTOR_TIMEOUT, ..ClientSettings::default() };
        let client = match Client::new(endpoint, settings) {
            Ok(client) => client,
            Err(error) => {
                tracing::error!("traces are not sent: {error}");
                return;
            }
        };
        loop {
            let mut execution_ids = Vec::new();
            let received = queue.recv_many(&mut execution_ids, MAX_EXECUTIONS_PER_MESSAGE);
            let is_shutdown = self.infra.shutdown.run_until_cancelled(received).await.is_none();
            while is_shutdown && execution_ids.len() < MAX_QUEUED_TRACES {
                match queue.try_recv() {
                    Ok(execution_id) => execution_ids.push(execution_id),
                    Err(_) => break,
                }
            }
            self.send_traces(&client, &execution_ids).await;
            if is_shutdown {
                return;
            }
        }
    }

    async fn send_traces(&self, client: &Client, execution_ids: &[ExecutionId]) {
        let mut spans = Vec::new();
        let mut count = 0;
        for execution_id in execution_ids {
            match self.load_spans(*execution_id).await {
                Ok(execution_spans) => {
                    spans.extend(execution_spans);
                    count += 1;
                }
                Err(error) => {
                    self.infra.metrics.server.traces_dropped.inc();
                    tracing::warn!(%execution_id, error = %error_chain(&error), "building a trace failed");
                }
            }
            if spans.len() >= TARGET_SPANS_PER_MESSAGE {
                self.send_spans(client, std::mem::take(&mut spans), count).await;
                count = 0;
            }
        }
        if !spans.is_empty() {
            self.send_spans(client, spans, count).await;
        }
    }

    async fn send_spans(&self, client: &Client, spans: Vec<Span>, execution_count: u64) {
        let body = otlp::export_request_body(&self.infra.settings.server_name, &spans);
        match client.post_json(COLLECTOR_PATH, body).await {
            Ok(200..300) => {
                self.infra.metrics.server.traces_sent.inc_by(execution_count);
            }
            Ok(status) => {
                self.infra.metrics.server.traces_dropped.inc_by(execution_count);
                tracing::warn!(status, "the collector refused traces");
            }
            Err(error) => {
                self.infra.metrics.server.traces_dropped.inc_by(execution_count);
                tracing::warn!("the collector cannot be reached: {error}");
                // An unreachable collector is not called again at once.
                self.infra.sleep_unless_shutdown(Duration::from_secs(1)).await;
            }
        }
    }

    async fn load_spans(&self, execution_id: ExecutionId) -> Result<Vec<Span>> {
        let mut events: Vec<Event> = Vec::new();
        let mut after = ExecutionVersion::EMPTY;
        while events.len() < MAX_EVENTS_PER_TRACE {
            let page = self.infra.store.read_events(execution_id, after, LogPageLimit::MAX).await?;
            let Some(last) = page.last() else { break };
            after = ExecutionVersion::from(last.record.seq);
            events.extend(page.iter().filter_map(|stored| decode_record(&stored.record).ok()));
        }
        let parent = match spans::parent_execution(&events) {
            Some(parent) => {
                let limit = LogPageLimit::clamped(1);
                let first =
                    self.infra.store.read_events(parent, ExecutionVersion::EMPTY, limit).await?;
                let first = first.first().and_then(|stored| decode_record(&stored.record).ok());
                Some(spans::root_context(parent, first.as_ref()))
            }
            None => None,
        };
        Ok(spans::build_spans(execution_id, &events, parent))
    }
}
