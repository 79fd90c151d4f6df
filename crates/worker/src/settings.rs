//! Settings of a worker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use noetl_api::ApiError;
use noetl_playbook::command_machine::MAX_TASK_DATA;
use noetl_playbook::model::ToolKind;
use noetl_types::{ByteSize, Json, Millis, PoolName, Text, Timestamp, WorkerId};

/// Secrets that the operator gives to the worker, by their keychain names.
#[derive(Clone, Default)]
pub struct WorkerSecrets(Arc<BTreeMap<Text, Json>>);

impl WorkerSecrets {
    /// A single secret with its fields.
    pub fn single_secret(
        name: &str,
        fields: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Self {
        let fields = fields.into_iter();
        let fields = Json::object(fields.map(|(field, value)| (field, Json::from(value))));
        Self(Arc::new(BTreeMap::from([(name.into(), fields)])))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name)
    }
}

/// Secrets are not printed.
impl fmt::Debug for WorkerSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of the machine.
#[expect(clippy::disallowed_methods, reason = "the worker takes the time from here only")]
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since_epoch.map_or(0, |since_epoch| since_epoch.as_micros());
        let micros = i64::try_from(micros).unwrap_or(i64::MAX);
        Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
    })
}

/// Settings of a worker.
#[derive(Clone)]
pub struct WorkerSettings {
    /// Unique name of the worker.
    pub worker_id: WorkerId,
    /// The pool of the worker.
    pub pool: PoolName,
    /// Host name, if it is to be reported.
    pub hostname: Option<Text>,
    /// Maximum number of concurrent commands.
    pub max_concurrent: u32,
    /// The tool kinds to lease. `None` leases all: a kind that the worker does not have then fails
    /// as unsupported instead of waiting for a worker that has it.
    pub kinds: Option<Vec<ToolKind>>,
    /// Duration of a lease. If absent, the server decides. A lease is renewed after a third of it,
    /// and at least every ten seconds.
    pub lease_duration: Option<Millis>,
    /// Wait time of a poll.
    pub poll_wait: Millis,
    /// Interval of pool heartbeats.
    pub pool_heartbeat_interval: Millis,
    /// Time that running commands have to finish after a shutdown request.
    pub drain_timeout: Millis,
    /// Maximum duration of report retries. It is longer than a lease: the server accepts the result
    /// until another worker has the command.
    pub report_retry_duration: Millis,
    /// Maximum size of the data of a task.
    pub max_result_size: ByteSize,
    /// Maximum size of cached payloads.
    pub payload_cache: ByteSize,
    /// Secrets for the playbooks of the platform, and for no others.
    pub secrets: WorkerSecrets,
    /// Status of the sandbox to report, if any.
    pub sandbox: Option<Json>,
    /// Source of the current time.
    pub clock: Clock,
}

impl WorkerSettings {
    /// Default settings of a worker.
    pub fn new(worker_id: WorkerId, pool: PoolName) -> Self {
        Self {
            worker_id,
            pool,
            hostname: None,
            max_concurrent: 32,
            kinds: None,
            lease_duration: None,
            poll_wait: Millis::from_secs(25),
            pool_heartbeat_interval: Millis::from_secs(15),
            drain_timeout: Millis::from_secs(30),
            report_retry_duration: Millis::from_minutes(10),
            max_result_size: MAX_TASK_DATA,
            payload_cache: ByteSize::from_mib(64),
            secrets: WorkerSecrets::default(),
            sandbox: None,
            clock: system_clock(),
        }
    }
}

impl fmt::Debug for WorkerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSettings")
            .field("worker_id", &self.worker_id)
            .field("pool", &self.pool)
            .field("max_concurrent", &self.max_concurrent)
            .field("lease", &self.lease_duration)
            .finish_non_exhaustive()
    }
}

/// Errors that end a worker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// The server refused the registration.
    #[error("the server refused the worker: {0}")]
    Refused(#[source] ApiError),
}
