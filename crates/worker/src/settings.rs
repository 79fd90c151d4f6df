//! What the operator decides about a worker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use noetl_api::ApiError;
use noetl_playbook::model::ToolKind;
use noetl_playbook::shift::MAX_DATA;
use noetl_types::{ByteSize, Json, Millis, PoolName, Text, Timestamp, WorkerId};

/// Secrets that a worker has from its operator, by the names that keychains have for them.
#[derive(Clone, Default)]
pub struct OwnSecrets(Arc<BTreeMap<Text, Json>>);

impl OwnSecrets {
    /// One secret with its fields.
    pub fn of(name: &str, fields: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let fields = fields.into_iter();
        let fields = Json::object(fields.map(|(field, value)| (field, Json::from(value))));
        Self(Arc::new(BTreeMap::from([(name.into(), fields)])))
    }

    /// A secret.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name)
    }
}

/// Secrets do not print.
impl fmt::Debug for OwnSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// What time it is.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of the machine.
#[expect(
    clippy::disallowed_methods,
    reason = "the worker takes the time from here only"
)]
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since.map_or(0, |since| since.as_micros());
        let micros = i64::try_from(micros).unwrap_or(i64::MAX);
        Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
    })
}

/// How a worker works.
#[derive(Clone)]
pub struct Settings {
    /// Its name, different from that of every other worker.
    pub worker_id: WorkerId,
    /// The pool that it works for.
    pub pool: PoolName,
    /// The machine, where that is to be known.
    pub hostname: Option<Text>,
    /// Commands at once.
    pub max_concurrent: u32,
    /// The kinds that it asks for; `None` is all. A kind that it does not have then fails as
    /// unsupported, where else it would wait for a worker that has it.
    pub kinds: Option<Vec<ToolKind>>,
    /// How long a lease lasts unless it is renewed, which happens at a third of it, and every ten
    /// seconds at least.
    pub lease: Millis,
    /// How long a poll waits for work.
    pub poll_wait: Millis,
    /// How often it tells that it lives.
    pub pool_heartbeat: Millis,
    /// How long commands under way may take after the order to stop.
    pub drain: Millis,
    /// How long a report that does not get through is sent again. That outlasts the lease: until
    /// somebody else has the command, the result is still taken.
    pub report_patience: Millis,
    /// The largest data of a task.
    pub result_max: ByteSize,
    /// Memory for payloads that may be read again.
    pub payload_cache: ByteSize,
    /// What it knows for the playbooks of the platform, and for no others.
    pub secrets: OwnSecrets,
    /// What it tells of the walls around its tasks, where there is something to tell.
    pub sandbox: Option<Json>,
    /// What time it is.
    pub clock: Clock,
}

impl Settings {
    /// The usual settings of a worker.
    pub fn new(worker_id: WorkerId, pool: PoolName) -> Self {
        Self {
            worker_id,
            pool,
            hostname: None,
            max_concurrent: 32,
            kinds: None,
            lease: Millis::from_secs(30),
            poll_wait: Millis::from_secs(25),
            pool_heartbeat: Millis::from_secs(15),
            drain: Millis::from_secs(30),
            report_patience: Millis::from_minutes(10),
            result_max: MAX_DATA,
            payload_cache: ByteSize::from_mib(64),
            secrets: OwnSecrets::default(),
            sandbox: None,
            clock: system_clock(),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("worker_id", &self.worker_id)
            .field("pool", &self.pool)
            .field("max_concurrent", &self.max_concurrent)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

/// Why a worker ends before it is told to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// The server does not want it.
    #[error("the server refused the worker: {0}")]
    Refused(#[source] ApiError),
}
