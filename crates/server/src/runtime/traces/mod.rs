//! Traces of runs, for a collector of OpenTelemetry.
//!
//! Owns what is sent of a run when it has ended: one trace, made of its log, with a span for the run,
//! for each run of a step and for each attempt at a command. Nothing waits for it: ids of ended runs
//! wait in a queue of a bounded length, and what does not fit or does not arrive is dropped and
//! counted. Must not: decide anything, or be asked on the way of an append.

mod otlp;
mod spans;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_api::Client;
use noetl_api::client::ClientSettings;
use noetl_engine::decode;
use noetl_engine::event::Event;
use noetl_store::LogPage;
use noetl_types::{ExecutionId, Millis, Text, Version};
use tokio::sync::mpsc;

use super::Core;
use super::error::{RuntimeError, causes};
use spans::Span;

/// Ended runs that may wait to be sent.
const MOST_WAITING: usize = 4096;
/// Runs that are sent together at most.
const MOST_RUNS: usize = 64;
/// Spans after which no further run is taken into the same message.
const MANY_SPANS: usize = 2_000;
/// Events of a run that are looked at; what comes behind is not in its trace.
const MOST_EVENTS: usize = 50_000;
/// How long a collector may take.
const PATIENCE: Millis = Millis::from_secs(10);
/// Where a collector takes traces.
const PATH: &str = "/v1/traces";

/// The queue of ended runs.
#[derive(Debug, Default)]
pub(super) struct Traces {
    sender: Option<mpsc::Sender<ExecutionId>>,
    /// Until somebody begins to send.
    receiver: Mutex<Option<mpsc::Receiver<ExecutionId>>>,
}

impl Traces {
    /// A queue where there is a collector, and none else.
    pub(super) fn new(endpoint: Option<&Text>) -> Self {
        if endpoint.is_none() {
            return Self::default();
        }
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        Self {
            sender: Some(sender),
            receiver: Mutex::new(Some(receiver)),
        }
    }

    /// Whether there is a collector.
    pub(super) fn is_on(&self) -> bool {
        self.sender.is_some()
    }
}

impl Core {
    /// Notes that a run has ended.
    pub(super) fn trace(&self, execution_id: ExecutionId) {
        if let Some(sender) = &self.traces.sender
            && sender.try_send(execution_id).is_err()
        {
            self.metrics.traces_dropped(1);
        }
    }

    /// Sends what waits until the process ends, and what is left then once more.
    pub(super) async fn trace_for_ever(self: Arc<Self>) {
        let receiver = self.traces.receiver.lock();
        let waiting = receiver.unwrap_or_else(PoisonError::into_inner).take();
        let (Some(mut waiting), Some(endpoint)) = (waiting, &self.settings.traces) else {
            return;
        };
        let settings = ClientSettings {
            timeout: PATIENCE,
            ..ClientSettings::default()
        };
        let client = match Client::new(endpoint, settings) {
            Ok(client) => client,
            Err(error) => {
                tracing::error!("traces are not sent: {error}");
                return;
            }
        };
        loop {
            let mut runs = Vec::new();
            let received = waiting.recv_many(&mut runs, MOST_RUNS);
            let is_over = self.shutdown.run_until_cancelled(received).await.is_none();
            while is_over && runs.len() < MOST_WAITING {
                match waiting.try_recv() {
                    Ok(run) => runs.push(run),
                    Err(_) => break,
                }
            }
            self.send_traces(&client, &runs).await;
            if is_over {
                return;
            }
        }
    }

    async fn send_traces(&self, client: &Client, runs: &[ExecutionId]) {
        let mut spans = Vec::new();
        let mut count = 0;
        for run in runs {
            match self.spans_of(*run).await {
                Ok(more) => {
                    spans.extend(more);
                    count += 1;
                }
                Err(error) => {
                    self.metrics.traces_dropped(1);
                    tracing::warn!(execution_id = %run, error = %causes(&error), "no trace");
                }
            }
            if spans.len() >= MANY_SPANS {
                self.send_spans(client, std::mem::take(&mut spans), count)
                    .await;
                count = 0;
            }
        }
        if !spans.is_empty() {
            self.send_spans(client, spans, count).await;
        }
    }

    async fn send_spans(&self, client: &Client, spans: Vec<Span>, runs: u64) {
        let body = otlp::body(&self.settings.server_name, &spans);
        match client.deliver(PATH, body).await {
            Ok(200..300) => self.metrics.traces_sent(runs),
            Ok(status) => {
                self.metrics.traces_dropped(runs);
                tracing::warn!(status, "the collector refused traces");
            }
            Err(error) => {
                self.metrics.traces_dropped(runs);
                tracing::warn!("the collector cannot be reached: {error}");
                // Whoever is away is not asked again at once.
                self.pause(Duration::from_secs(1)).await;
            }
        }
    }

    async fn spans_of(&self, run: ExecutionId) -> Result<Vec<Span>, RuntimeError> {
        let mut events: Vec<Event> = Vec::new();
        let mut after = Version::EMPTY;
        while events.len() < MOST_EVENTS {
            let page = self.store.events(run, after, LogPage::MAX).await?;
            let Some(last) = page.last() else { break };
            after = Version::from(last.record.seq);
            events.extend(page.iter().filter_map(|stored| decode(&stored.record).ok()));
        }
        let parent = match spans::parent_of(&events) {
            Some(parent) => {
                let first = LogPage::clamped(1);
                let first = self.store.events(parent, Version::EMPTY, first).await?;
                let first = first.first().and_then(|stored| decode(&stored.record).ok());
                Some(spans::root(parent, first.as_ref()))
            }
            None => None,
        };
        Ok(spans::of(run, &events, parent))
    }
}
