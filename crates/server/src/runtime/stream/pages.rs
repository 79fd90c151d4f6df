//! The feed is read ahead of its publisher, who never waits for the store while there is a backlog.

use std::sync::Arc;
use std::time::Duration;

use noetl_store::{FeedItem, FeedLimit, Store, StoreError};
use noetl_types::FeedPosition;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// What comes behind a place, page by page. Reading ends with its reader.
pub(super) struct Pages {
    pages: mpsc::Receiver<Result<Vec<FeedItem>, StoreError>>,
    _task: JoinSet<()>,
}

/// What is read, and how often.
pub(super) struct Plan {
    pub(super) after: FeedPosition,
    pub(super) limit: FeedLimit,
    /// How often the log is looked at when nobody says that it has grown.
    pub(super) poll: Duration,
}

impl Pages {
    pub(super) fn read(store: Arc<dyn Store>, grown: watch::Receiver<u64>, plan: Plan) -> Self {
        // One page is ready, or being read, while its publisher has the one before it.
        let (sender, pages) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(read_on(store, grown, plan, sender));
        Self { pages, _task: task }
    }

    /// The next page, which is not empty, once there is one; nothing when reading broke off. Whoever
    /// stops waiting loses none.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<FeedItem>, StoreError>> {
        self.pages.recv().await
    }
}

async fn read_on(
    store: Arc<dyn Store>,
    mut grown: watch::Receiver<u64>,
    mut plan: Plan,
    pages: mpsc::Sender<Result<Vec<FeedItem>, StoreError>>,
) {
    // No page is read before there is a place for it: they may be large.
    while let Ok(place) = pages.reserve().await {
        // Before the feed is read: what comes later wakes.
        grown.mark_unchanged();
        match store.messages(plan.after, plan.limit).await {
            Ok(batch) if batch.events.is_empty() => {
                drop(place);
                tokio::select! {
                    biased;
                    changed = grown.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(plan.poll) => {}
                }
            }
            Ok(batch) => {
                plan.after = batch.next;
                place.send(Ok(batch.events));
            }
            Err(error) => return place.send(Err(error)),
        }
    }
}
