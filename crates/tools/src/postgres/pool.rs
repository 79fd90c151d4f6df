//! The connections of a worker: how many there are to one database, which one a task gets, and what
//! happens to one between two tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use noetl_types::{Digest, Json, TaskError, TaskErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::Client;

use super::link::Link;
use super::target::Target;
use crate::config::{Config, wrong};
use crate::settings::Settings;

/// How long a connection may take to become as new.
const RESET_TIME: Duration = Duration::from_secs(5);

/// A connection that rested for longer is asked whether it still lives.
const FRESH: Duration = Duration::from_secs(1);

/// What `DISCARD ALL` does, but for the statements that the driver itself has prepared. Whoever
/// prepares some by name does not get to give the connection back.
const RESET: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
     SELECT pg_advisory_unlock_all(); DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES";

/// With whom a task shares connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// With nobody.
    Own,
    /// With tasks that ask for the same number of connections at most.
    Pool(usize),
}

impl Sharing {
    /// Reads `pool`: a bool, a number, or a map with `max_size`.
    pub(super) fn read(config: Config<'_>, settings: &Settings) -> Result<Self, TaskError> {
        let most = settings.postgres.pool_size.max(1);
        let Some(pool) = config.get("pool") else {
            return Ok(Self::Pool(most));
        };
        let wanted = match pool {
            Json::Bool(false) => return Ok(Self::Own),
            Json::Bool(true) | Json::Str(_) => None,
            Json::Map(fields) => ["max_size", "size"]
                .into_iter()
                .find_map(|key| fields.get(key)),
            other => Some(other),
        };
        let Some(wanted) = wanted else {
            return Ok(Self::Pool(most));
        };
        let size = wanted.as_u64().filter(|size| *size > 0);
        let size = size.ok_or_else(|| wrong("pool", "true, false or a number above 0", wanted))?;
        // The operator's number is the most that a task gets.
        Ok(Self::Pool(
            usize::try_from(size).map_or(most, |size| size.min(most)),
        ))
    }
}

/// All pools of a toolbox.
pub(super) struct Pools {
    settings: Arc<Settings>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pools: BTreeMap<(Digest, usize), Arc<Pool>>,
    /// Whether a task looks after connections that rest too long.
    watched: bool,
    closed: bool,
}

/// The connections to one database.
struct Pool {
    places: Arc<Semaphore>,
    /// Oldest first, so that the one used last is used next.
    resting: Mutex<Vec<Link>>,
}

impl Pool {
    fn resting(&self) -> MutexGuard<'_, Vec<Link>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use. Dropped as it is, it is cancelled and closed.
pub(crate) struct Session {
    link: Link,
    home: Option<Home>,
}

/// Where a connection goes back to.
struct Home {
    pools: Arc<Pools>,
    pool: Arc<Pool>,
    place: OwnedSemaphorePermit,
}

impl Session {
    /// A connection that nobody else gets.
    pub(super) fn own(link: Link) -> Self {
        Self { link, home: None }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.link.client
    }

    /// Closes the connection in peace.
    pub(crate) fn close(mut self) {
        self.link.busy = false;
    }

    /// Gives the connection back. Its place stays taken until it is as new, so that there are never
    /// more connections than places.
    pub(super) fn give_back(self) {
        let Self { mut link, home } = self;
        let Some(home) = home else {
            link.busy = false;
            return;
        };
        tokio::spawn(async move {
            if !matches!(timeout(RESET_TIME, reset(&link.client)).await, Ok(Ok(()))) {
                return;
            }
            link.busy = false;
            link.since = Instant::now();
            if home.pools.watch() {
                home.pool.resting().push(link);
            }
            drop(home.place);
        });
    }
}

async fn reset(client: &Client) -> Result<(), tokio_postgres::Error> {
    // The second does not wait for the answer to the first. Without a transaction the first does
    // nothing.
    let (ended, cleaned) = tokio::join!(
        client.batch_execute("ROLLBACK"),
        client.batch_execute(RESET)
    );
    ended.and(cleaned)
}

impl Pools {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            state: Mutex::default(),
        }
    }

    /// A connection for a task. Waits while all places are taken.
    pub(super) async fn take(
        self: &Arc<Self>,
        target: &Target,
        sharing: Sharing,
    ) -> Result<Session, TaskError> {
        let Sharing::Pool(size) = sharing else {
            return Ok(Session::own(Link::open(target, &self.settings).await?));
        };
        let pool = self.pool(target.identity, size);
        let places = Arc::clone(&pool.places);
        let place = places
            .acquire_owned()
            .await
            .map_err(|_| TaskError::new(TaskErrorKind::Cancelled, "the worker is shutting down"))?;
        let link = match rested(&pool).await {
            Some(link) => link,
            None => Link::open(target, &self.settings).await?,
        };
        let home = Home {
            pools: Arc::clone(self),
            pool,
            place,
        };
        Ok(Session {
            link,
            home: Some(home),
        })
    }

    /// Closes connections that rest, and all others when their tasks end.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for pool in std::mem::take(&mut state.pools).into_values() {
            pool.places.close();
            pool.resting().clear();
        }
    }

    fn pool(&self, identity: Digest, size: usize) -> Arc<Pool> {
        let mut state = self.lock();
        let pool = state.pools.entry((identity, size)).or_insert_with(|| {
            Arc::new(Pool {
                places: Arc::new(Semaphore::new(size)),
                resting: Mutex::default(),
            })
        });
        Arc::clone(pool)
    }

    /// Sees to it that resting connections are looked after; tells whether any may rest at all.
    fn watch(self: &Arc<Self>) -> bool {
        let mut state = self.lock();
        if !state.closed && !std::mem::replace(&mut state.watched, true) {
            tokio::spawn(close_the_idle(Arc::downgrade(self)));
        }
        !state.closed
    }

    /// Closes connections that rested too long and forgets pools that nobody uses; tells whether
    /// there are any left.
    fn reap(&self) -> bool {
        let limit = self.settings.postgres.idle;
        let mut state = self.lock();
        state.pools.retain(|(_, size), pool| {
            let mut resting = pool.resting();
            resting.retain(|link| link.since.elapsed() < limit && !link.client.is_closed());
            let unused = Arc::strong_count(pool) == 1 && pool.places.available_permits() == *size;
            !(resting.is_empty() && unused)
        });
        state.watched = !state.pools.is_empty();
        state.watched
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that rests and still lives.
async fn rested(pool: &Pool) -> Option<Link> {
    loop {
        let mut link = pool.resting().pop()?;
        if link.client.is_closed() {
            continue;
        }
        let fresh = link.since.elapsed() < FRESH;
        link.busy = true;
        if fresh
            || matches!(
                timeout(RESET_TIME, link.client.check_connection()).await,
                Ok(Ok(()))
            )
        {
            return Some(link);
        }
    }
}

async fn close_the_idle(pools: Weak<Pools>) {
    loop {
        let Some(pause) = pools
            .upgrade()
            .map(|pools| pools.settings.postgres.idle / 2)
        else {
            return;
        };
        sleep(pause).await;
        let Some(pools) = pools.upgrade() else { return };
        if !pools.reap() {
            return;
        }
    }
}
