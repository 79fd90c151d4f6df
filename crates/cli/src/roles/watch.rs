//! Follows the events of a run.
//!
//! A server pushes events over a connection that is re-established after errors. A database file is
//! polled.

use std::time::Duration;

use noetl_api::client::StreamUpdate;
use noetl_api::execution::EventView;
use noetl_api::query::EventsQuery;
use noetl_api::{ApiError, Client};
use noetl_server::{CallContext, ControlPlane};
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, ExecutionVersion, Seq};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::target::Target;
use crate::error::{Error, Result};

/// Maximum time that a poll of a database waits for new events.
const POLL_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum batches of events waiting for display. A slow terminal only slows down reading.
const MAX_PENDING_BATCHES: usize = 16;
/// Minimum and maximum delay before reconnecting.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(100);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(3);
/// Maximum time that a server can be unavailable.
const MAX_SERVER_OUTAGE: Duration = Duration::from_secs(30);

/// Stream of the events of a run.
pub(crate) struct ExecutionWatch {
    batches: mpsc::Receiver<Result<Vec<EventView>>>,
    /// The reader task ends when this is dropped.
    _reader: JoinSet<()>,
}

impl ExecutionWatch {
    /// Follows a run from after an event.
    pub(crate) fn new(target: &Target, execution_id: ExecutionId, after: Option<Seq>) -> Self {
        let (sender, batches) = mpsc::channel(MAX_PENDING_BATCHES);
        let mut tasks = JoinSet::new();
        let reader = EventReader { execution_id, after, sender };
        match target.clone() {
            Target::Local(runtime) => tasks.spawn(reader.poll_runtime(runtime)),
            Target::Remote(client) | Target::File(client) => {
                tasks.spawn(reader.follow_server(client))
            }
        };
        Self { batches, _reader: tasks }
    }

    /// Waits for the next events. Returns `None` when the run has ended and all events were
    /// delivered. Cancel-safe.
    pub(crate) async fn next_batch(&mut self) -> Result<Option<Vec<EventView>>> {
        self.batches.recv().await.transpose()
    }
}

/// Reads the log of a run.
struct EventReader {
    execution_id: ExecutionId,
    after: Option<Seq>,
    sender: mpsc::Sender<Result<Vec<EventView>>>,
}

impl EventReader {
    async fn poll_runtime(mut self, runtime: ControlPlane) {
        loop {
            let query = EventsQuery {
                after_seq: self.after,
                limit: PageLimit::MAX,
                ..EventsQuery::default()
            };
            let page =
                runtime.queries.list_events(CallContext::server(), self.execution_id, query).await;
            let is_error = page.is_err();
            let is_drained = page.as_ref().is_ok_and(|page| page.events.is_empty());
            let events = page.map(|page| page.events).map_err(Error::from);
            if !self.send_batch(events).await || is_error {
                return;
            }
            if is_drained {
                let version = self.after.map_or(ExecutionVersion::EMPTY, ExecutionVersion::from);
                runtime.executions.wait_for_events(self.execution_id, version, POLL_TIMEOUT).await;
            }
        }
    }

    async fn follow_server(mut self, client: Client) {
        let mut down_since: Option<Instant> = None;
        let mut delay = MIN_RECONNECT_DELAY;
        loop {
            let mut was_connected = false;
            let error = match self.follow_connection(&client, &mut was_connected).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if was_connected {
                (down_since, delay) = (None, MIN_RECONNECT_DELAY);
            }
            let outage_start = *down_since.get_or_insert_with(Instant::now);
            if !error.is_retryable() || outage_start.elapsed() > MAX_SERVER_OUTAGE {
                // The receiver may be closed.
                drop(self.sender.send(Err(error.into())).await);
                return;
            }
            sleep(delay).await;
            delay = (delay * 2).min(MAX_RECONNECT_DELAY);
        }
    }

    /// Follows one connection until the run ends or the receiver is closed. Fails if the connection
    /// ends. Sets `was_connected` once the server has responded.
    async fn follow_connection(
        &mut self,
        client: &Client,
        was_connected: &mut bool,
    ) -> Result<(), ApiError> {
        let mut stream = client.follow_execution(self.execution_id, self.after).await?;
        *was_connected = true;
        loop {
            match stream.next().await? {
                StreamUpdate::End => return Ok(()),
                StreamUpdate::Events(events) => {
                    if !self.send_batch(Ok(events)).await {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Sends events to the receiver. Returns false if it is closed.
    async fn send_batch(&mut self, batch: Result<Vec<EventView>>) -> bool {
        if let Ok(events) = &batch {
            self.after = events.last().map(|event| event.seq).or(self.after);
            if events.is_empty() {
                return !self.sender.is_closed();
            }
        }
        self.sender.send(batch).await.is_ok()
    }
}
