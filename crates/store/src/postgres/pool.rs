//! Connections: how one is made, and the few that calls share.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use noetl_tls::{Connector, Dsn, Trust};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, IsolationLevel, NoTls, Notification, Row, Statement,
};

use super::PostgresOptions;
use super::bind::failure;
use crate::error::{Saturated, StoreError};

/// Makes connections.
#[derive(Debug)]
pub(super) struct Pool {
    config: Config,
    /// How connections are encrypted, where they are.
    tls: Option<Connector>,
    /// What every session begins with.
    set_up: String,
    places: Semaphore,
    /// How long one waits for a place, and for the server.
    patience: Duration,
    idle: Mutex<Vec<Session>>,
    /// Whether a connection that nobody needs stays open for the next who does.
    keeps: bool,
    /// How many statements a connection keeps prepared.
    prepared: usize,
}

/// When the server plans the statements of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plans {
    /// Once: the plan does not depend on the parameters, and making one takes longer than the
    /// statement itself.
    Once,
    /// As the server thinks best: lists with filters have many plans.
    AsNeeded,
}

impl Plans {
    /// The settings of a session. A plan that is made once is made while tables may be empty, and
    /// must be right when they are not: a few rows by their keys, never a walk through a table.
    fn settings(self) -> &'static str {
        match self {
            Self::Once => {
                "SET plan_cache_mode = force_generic_plan;
                 SET enable_hashjoin = off;
                 SET enable_mergejoin = off"
            }
            Self::AsNeeded => "SET plan_cache_mode = auto",
        }
    }

    /// How many of the connections are for sessions of this kind: most of them are for the short
    /// statements that everything waits for.
    fn share(self, connections: usize) -> usize {
        let for_lists = (connections / 4).max(1);
        match self {
            Self::Once => connections.saturating_sub(for_lists).max(1),
            Self::AsNeeded => for_lists,
        }
    }
}

/// A connection with the statements that it has prepared. There is one for each of the constants in
/// this crate at most.
#[derive(Debug)]
struct Session {
    client: Client,
    prepared: BTreeMap<&'static str, Statement>,
    /// How many of them are kept.
    most: usize,
    /// Whether something may be under way that nobody has the answer to yet.
    is_busy: bool,
}

/// One of this crate's statements with its parameters.
pub(super) type Query<'q> = (&'static str, &'q [&'q (dyn ToSql + Sync)]);

impl Session {
    async fn prepare(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.prepared.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await.map_err(not_connected)?;
        if self.prepared.len() < self.most {
            self.prepared.insert(sql, statement.clone());
        }
        Ok(statement)
    }

    async fn rows(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(sql).await?;
        let rows = self.client.query(&statement, params).await;
        rows.map_err(failure)
    }

    async fn each(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
        mut look: impl FnMut(&Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let statement = self.prepare(sql).await?;
        let params = params.iter().map(|param| *param as &dyn ToSql);
        let rows = self.client.query_raw(&statement, params).await;
        let mut rows = pin!(rows.map_err(failure)?);
        let mut goes_on = Ok(true);
        // What comes behind the last that is looked at comes all the same.
        while let Some(row) = rows.try_next().await.map_err(failure)? {
            if matches!(goes_on, Ok(true)) {
                goes_on = look(&row);
            }
        }
        goes_on.map(drop)
    }

    async fn two(
        &mut self,
        first: Query<'_>,
        second: Query<'_>,
    ) -> Result<(Vec<Row>, Vec<Row>), StoreError> {
        let statements = (self.prepare(first.0).await?, self.prepare(second.0).await?);
        // The second is sent before the first is answered.
        let (first, second) = tokio::join!(
            self.client.query(&statements.0, first.1),
            self.client.query(&statements.1, second.1),
        );
        Ok((first.map_err(failure)?, second.map_err(failure)?))
    }
}

/// A connection that goes back to the pool, unless it broke, or whoever had it left before an answer:
/// the next one would wait for what nobody waits for any more.
pub(super) struct Pooled<'p> {
    pool: &'p Pool,
    /// Present until it is dropped.
    session: Option<Session>,
    _place: SemaphorePermit<'p>,
}

/// Why a name cannot be that of a schema here.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a schema: lower-case letters, digits and underscores are, from a letter on")]
struct OddSchema(String);

impl Pool {
    pub(super) fn new(options: &PostgresOptions, plans: Plans) -> Result<Self, StoreError> {
        let schema = &options.schema;
        let is_name = schema.starts_with(|first: char| first.is_ascii_lowercase())
            && schema
                .chars()
                .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
        if !is_name || schema.len() > 63 {
            return Err(StoreError::fatal(OddSchema(schema.clone())));
        }
        let set_up = format!(
            "SET TIME ZONE '{}';
             SET synchronous_commit = {};
             SET default_transaction_isolation = 'read committed';
             {}
             SET statement_timeout = '30s';
             SET idle_in_transaction_session_timeout = '10s';
             SET jit = off;
             SET enable_seqscan = off;
             SET search_path = {schema};
             {}",
            options.time_zone,
            options.synchronous_commit,
            if options.is_read_only {
                "SET default_transaction_read_only = on;"
            } else {
                ""
            },
            plans.settings()
        );
        let (config, tls) = address(options)?;
        Ok(Self {
            config,
            tls,
            set_up,
            places: Semaphore::new(plans.share(options.connections)),
            patience: options.acquire_timeout,
            idle: Mutex::new(Vec::new()),
            keeps: true,
            prepared: options.prepared,
        })
    }

    /// The same with one connection at a time, which lives no longer than it is needed.
    pub(super) fn for_one_at_a_time(self) -> Self {
        Self {
            places: Semaphore::new(1),
            keeps: false,
            ..self
        }
    }

    /// A new connection, with its session set up. A server that takes it and says nothing is as good
    /// as away.
    pub(super) async fn connect(&self) -> Result<Client, StoreError> {
        // A session that listens to nothing is told nothing.
        self.connect_to_hear(Box::new(drop)).await
    }

    /// The same with somebody who hears what the server tells without being asked. The ear is dropped
    /// when the connection is gone.
    pub(super) async fn connect_to_hear(&self, ear: Ear) -> Result<Client, StoreError> {
        let silent = |_| StoreError::retry("the PostgreSQL server does not answer");
        let connected = timeout(self.patience, self.connect_patiently(ear)).await;
        connected.map_err(silent)?
    }

    async fn connect_patiently(&self, ear: Ear) -> Result<Client, StoreError> {
        let client = if let Some(tls) = &self.tls {
            let connected = self.config.connect(tls.clone()).await;
            let (client, connection) = connected.map_err(not_connected)?;
            tokio::spawn(drive(connection, ear));
            client
        } else {
            let connected = self.config.connect(NoTls).await;
            let (client, connection) = connected.map_err(not_connected)?;
            tokio::spawn(drive(connection, ear));
            client
        };
        client
            .batch_execute(&self.set_up)
            .await
            .map_err(not_connected)?;
        Ok(client)
    }

    pub(super) async fn get(&self) -> Result<Pooled<'_>, StoreError> {
        let saturated = |_| StoreError::retry(Saturated(self.patience));
        let place = timeout(self.patience, self.places.acquire()).await;
        let place = place.map_err(saturated)?.map_err(StoreError::fatal)?;
        let session = match self.take() {
            Some(session) => session,
            None => Session {
                client: self.connect().await?,
                prepared: BTreeMap::new(),
                most: self.prepared,
                is_busy: false,
            },
        };
        Ok(Pooled {
            pool: self,
            session: Some(session),
            _place: place,
        })
    }

    /// Opens so many connections before anybody needs them, as far as there are places.
    pub(super) async fn warm_up(&self, count: usize) -> Result<(), StoreError> {
        let mut opened = Vec::new();
        for _ in 0..count.min(self.places.available_permits()) {
            opened.push(self.get().await?);
        }
        Ok(())
    }

    /// How many statements each connection has prepared that nobody uses.
    #[cfg(test)]
    pub(super) fn idle_sessions(&self) -> Vec<usize> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.iter().map(|session| session.prepared.len()).collect()
    }

    fn take(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|session| !session.client.is_closed());
        idle.pop()
    }

    fn put_back(&self, session: Session) {
        if session.is_busy {
            self.give_up(&session.client);
        } else if self.keeps && !session.client.is_closed() {
            let idle = self.idle.lock();
            idle.unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }

    /// Has the server end what a connection was asked: without a word it goes on with it to its end, also
    /// when nobody is there any more.
    fn give_up(&self, client: &Client) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (cancel, tls, patience) = (client.cancel_token(), self.tls.clone(), self.patience);
        runtime.spawn(async move {
            // Where the server does not hear of it, the statement ends by its own limit of time.
            let _ = timeout(patience, async {
                match tls {
                    Some(tls) => cancel.cancel_query(tls).await,
                    None => cancel.cancel_query(NoTls).await,
                }
            })
            .await;
        });
    }
}

/// Hears notifications.
pub(super) type Ear = Box<dyn FnMut(Notification) + Send>;

/// Ends with the client; whatever goes wrong is told to the client's calls.
async fn drive<S, T>(mut connection: Connection<S, T>, mut ear: Ear)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            ear(notification);
        }
    }
}

/// How long a machine may take to answer at all, where the address does not say.
const CONNECT: Duration = Duration::from_secs(10);
/// How long what was sent may stay without a sign that it came, where the address does not say.
const UNHEARD: Duration = Duration::from_secs(30);

/// Gives an address limits of time where it names none: of itself nothing ends a wait for a machine
/// that is gone.
fn with_limits(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNHEARD);
    }
    // Who waits for an answer has sent nothing that could stay unheard; only a probe tells.
    if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
        config.keepalives_idle(UNHEARD);
    }
}

/// The largest file of certificates that is read.
const LARGEST_ROOTS: u64 = 1024 * 1024;

/// Where the database is, and how connections to it are encrypted.
fn address(options: &PostgresOptions) -> Result<(Config, Option<Connector>), StoreError> {
    let Dsn {
        login: mut config,
        mode,
        root,
    } = Dsn::read(&options.config).map_err(StoreError::fatal)?;
    let told = mode.as_deref().map(Trust::read).transpose();
    let told = told.map_err(StoreError::fatal)?.or(options.trust);
    let hosts = config.get_hosts();
    let is_socket = |host: &Host| !matches!(host, Host::Tcp(_));
    let trust = if !hosts.is_empty() && hosts.iter().all(is_socket) {
        // A socket of this machine needs no encryption, whatever is asked for.
        Trust::Plain
    } else {
        told.unwrap_or_else(|| Trust::usual(hosts))
    };
    let roots = match root
        .map(PathBuf::from)
        .or(options.root_certificates.clone())
    {
        Some(file) if matches!(trust, Trust::Authority | Trust::Full) => {
            Some(certificates(&file).map_err(StoreError::fatal)?)
        }
        Some(_) | None => None,
    };
    config.ssl_mode(trust.mode());
    with_limits(&mut config);
    let tls = Connector::new(trust, roots.as_deref()).map_err(StoreError::fatal)?;
    Ok((config, tls))
}

/// Why there are no authorities.
#[derive(Debug, thiserror::Error)]
#[error("the certificates in '{}' cannot be read: {source}", file.display())]
struct NoRoots {
    file: PathBuf,
    source: std::io::Error,
}

fn certificates(file: &Path) -> Result<Vec<u8>, NoRoots> {
    let refused = |source| NoRoots {
        file: file.to_owned(),
        source,
    };
    let size = std::fs::metadata(file).map_err(refused)?.len();
    if size > LARGEST_ROOTS {
        return Err(refused(std::io::Error::other("the file is too large")));
    }
    std::fs::read(file).map_err(refused)
}

/// Nothing was asked yet, so nothing can have happened.
fn not_connected(error: tokio_postgres::Error) -> StoreError {
    match failure(error) {
        StoreError::Retry { cause, .. } => StoreError::Retry {
            outcome_unknown: false,
            cause,
        },
        fatal @ StoreError::Fatal { .. } => fatal,
    }
}

impl Pooled<'_> {
    /// Runs one of this crate's statements, which is prepared once: then it is one round trip.
    pub(super) async fn rows(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let rows = self.session()?.rows(sql, params).await;
        self.done();
        rows
    }

    /// The same with the rows as they come, as long as whoever looks at them goes on.
    pub(super) async fn each(
        &mut self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
        look: impl FnMut(&Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let looked = self.session()?.each(sql, params, look).await;
        self.done();
        looked
    }

    /// Runs two statements one behind the other, in one round trip.
    pub(super) async fn two(
        &mut self,
        first: Query<'_>,
        second: Query<'_>,
    ) -> Result<(Vec<Row>, Vec<Row>), StoreError> {
        let rows = self.session()?.two(first, second).await;
        self.done();
        rows
    }

    /// A transaction of several statements.
    pub(super) async fn transaction(&mut self) -> Result<Transaction<'_>, StoreError> {
        let Session {
            client, is_busy, ..
        } = self.session()?;
        let own = client.transaction().await.map_err(not_connected)?;
        Ok(Transaction { own, is_busy })
    }

    /// A transaction that only reads, all of it as it is at one moment.
    pub(super) async fn moment(&mut self) -> Result<Transaction<'_>, StoreError> {
        let Session {
            client, is_busy, ..
        } = self.session()?;
        let begun = client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .read_only(true)
            .start();
        let own = begun.await.map_err(not_connected)?;
        Ok(Transaction { own, is_busy })
    }

    /// The connection itself. It only goes back once it is said that all that it was asked is
    /// [done](Self::done).
    pub(super) fn client(&mut self) -> Result<&mut Client, StoreError> {
        Ok(&mut self.session()?.client)
    }

    /// Says that nothing is under way.
    pub(super) fn done(&mut self) {
        if let Some(session) = &mut self.session {
            session.is_busy = false;
        }
    }

    /// Whoever gets the session is about to ask something.
    fn session(&mut self) -> Result<&mut Session, StoreError> {
        let given_back = || StoreError::fatal("the connection was given back");
        let session = self.session.as_mut().ok_or_else(given_back)?;
        session.is_busy = true;
        Ok(session)
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.pool.put_back(session);
        }
    }
}

/// A transaction whose connection goes back to the pool once it has ended one way or the other. One that
/// is merely dropped takes its connection with it.
pub(super) struct Transaction<'p> {
    own: tokio_postgres::Transaction<'p>,
    is_busy: &'p mut bool,
}

impl Transaction<'_> {
    pub(super) async fn commit(self) -> Result<(), tokio_postgres::Error> {
        let ended = self.own.commit().await;
        *self.is_busy = false;
        ended
    }

    pub(super) async fn rollback(self) -> Result<(), tokio_postgres::Error> {
        let ended = self.own.rollback().await;
        *self.is_busy = false;
        ended
    }
}

impl<'p> Deref for Transaction<'p> {
    type Target = tokio_postgres::Transaction<'p>;

    fn deref(&self) -> &Self::Target {
        &self.own
    }
}
