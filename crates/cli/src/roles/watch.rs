//! A run, followed: what happens to it, as it happens.
//!
//! A server tells by itself, over one connection that is made anew where it breaks. A database file
//! is looked at.

use std::time::Duration;

use noetl_api::client::News;
use noetl_api::execution::EventView;
use noetl_api::query::EventsQuery;
use noetl_api::{ApiError, Client};
use noetl_server::Runtime;
use noetl_types::limits::PageLimit;
use noetl_types::{ExecutionId, Seq, Version};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::host::{Host, HostError};

/// How long a look at a database waits for something new.
const PATIENCE: Duration = Duration::from_millis(250);
/// News that wait to be shown, at most; a screen that is slower than a run slows the reading only.
const MAX_WAITING: usize = 16;
/// The first wait before a connection is made anew, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(3);
/// How long a server may be away.
const AWAY: Duration = Duration::from_secs(30);

/// What happens to a run.
pub(crate) struct Watch {
    news: mpsc::Receiver<Result<Vec<EventView>, HostError>>,
    /// Ends with this.
    _reading: JoinSet<()>,
}

impl Watch {
    /// Follows a run behind an event.
    pub(crate) fn new(host: &Host, execution_id: ExecutionId, after: Option<Seq>) -> Self {
        let (tell, news) = mpsc::channel(MAX_WAITING);
        let mut reading = JoinSet::new();
        let reader = Reader {
            execution_id,
            after,
            tell,
        };
        match host.clone() {
            Host::Here(runtime) => reading.spawn(reader.look_at(runtime)),
            Host::There(client) => reading.spawn(reader.listen_to(client)),
        };
        Self {
            news,
            _reading: reading,
        }
    }

    /// What happened since; nothing once the run has ended and everything was told. A call that is
    /// given up loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<EventView>>, HostError> {
        self.news.recv().await.transpose()
    }
}

/// Reads the log of a run.
struct Reader {
    execution_id: ExecutionId,
    after: Option<Seq>,
    tell: mpsc::Sender<Result<Vec<EventView>, HostError>>,
}

impl Reader {
    async fn look_at(mut self, runtime: Runtime) {
        loop {
            let query = EventsQuery {
                after_seq: self.after,
                limit: PageLimit::MAX,
                ..EventsQuery::default()
            };
            let page = runtime.events(self.execution_id, query).await;
            let is_over = page.is_err();
            let is_all = page.as_ref().is_ok_and(|page| page.events.is_empty());
            let events = page.map(|page| page.events).map_err(HostError::from);
            if !self.told(events).await || is_over {
                return;
            }
            if is_all {
                let version = self.after.map_or(Version::EMPTY, Version::from);
                runtime
                    .wait_for_events(self.execution_id, version, PATIENCE)
                    .await;
            }
        }
    }

    async fn listen_to(mut self, client: Client) {
        let mut away_since: Option<Instant> = None;
        let mut wait = FIRST_WAIT;
        loop {
            let mut was_there = false;
            let error = match self.listen_once(&client, &mut was_there).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if was_there {
                (away_since, wait) = (None, FIRST_WAIT);
            }
            let since = *away_since.get_or_insert_with(Instant::now);
            if !error.is_retryable() || since.elapsed() > AWAY {
                // Nobody may listen any more.
                drop(self.tell.send(Err(error.into())).await);
                return;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Listens until the run ends or nobody wants to know; an error is the end of the connection.
    /// Notes whether the server was there.
    async fn listen_once(&mut self, client: &Client, was_there: &mut bool) -> Result<(), ApiError> {
        let mut live = client.follow(self.execution_id, self.after).await?;
        *was_there = true;
        loop {
            match live.next().await? {
                News::End => return Ok(()),
                News::Events(events) => {
                    if !self.told(Ok(events)).await {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Tells news; `false` once nobody wants to know.
    async fn told(&mut self, news: Result<Vec<EventView>, HostError>) -> bool {
        if let Ok(events) = &news {
            self.after = events.last().map(|event| event.seq).or(self.after);
            if events.is_empty() {
                return !self.tell.is_closed();
            }
        }
        self.tell.send(news).await.is_ok()
    }
}
