//! Reads the feed ahead of the publisher, so that it never waits for the store while there is a
//! backlog.

use std::sync::Arc;
use std::time::Duration;

use noetl_store::{FeedItem, FeedLimit, Store, StoreError};
use noetl_types::FeedPosition;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Pages of the feed after a position. Dropping the reader stops the task.
pub(crate) struct FeedReader {
    pages: mpsc::Receiver<Result<Vec<FeedItem>, StoreError>>,
    _task: JoinSet<()>,
}

/// Parameters of a feed reader.
pub(crate) struct FeedReadPlan {
    pub(crate) after: FeedPosition,
    pub(crate) limit: FeedLimit,
    /// Poll interval of the log without notifications.
    pub(crate) poll_interval: Duration,
}

impl FeedReader {
    pub(crate) fn spawn_reader(
        store: Arc<dyn Store>,
        append_count: watch::Receiver<u64>,
        plan: FeedReadPlan,
    ) -> Self {
        // One page is ready or being read while the publisher handles the one before it.
        let (sender, pages) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(read_loop(store, append_count, plan, sender));
        Self { pages, _task: task }
    }

    /// Waits for the next non-empty page. Returns `None` if the task has stopped. Cancel-safe.
    pub(crate) async fn next_page(&mut self) -> Option<Result<Vec<FeedItem>, StoreError>> {
        self.pages.recv().await
    }
}

async fn read_loop(
    store: Arc<dyn Store>,
    mut append_count: watch::Receiver<u64>,
    mut plan: FeedReadPlan,
    pages: mpsc::Sender<Result<Vec<FeedItem>, StoreError>>,
) {
    // Reserves the slot before reading a page, since pages may be large.
    while let Ok(permit) = pages.reserve().await {
        // Marked before the read, so that later appends wake the task.
        append_count.mark_unchanged();
        match store.read_feed_messages(plan.after, plan.limit).await {
            Ok(batch) if batch.events.is_empty() => {
                drop(permit);
                tokio::select! {
                    biased;
                    changed = append_count.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(plan.poll_interval) => {}
                }
            }
            Ok(batch) => {
                plan.after = batch.next;
                permit.send(Ok(batch.events));
            }
            Err(error) => return permit.send(Err(error)),
        }
    }
}
