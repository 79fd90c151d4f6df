//! Infrastructure that every service may use: store, time, randomness, ids, settings, metrics,
//! tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_store::{Store, TenantTable};
use noetl_types::id::TypedId;
use noetl_types::{ErrorCode, TenantId, Text, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ids::IdAllocator;
use super::store_clock::StoreClock;
use crate::error::{Result, RuntimeError};
use crate::metrics::Metrics;
use crate::random_source::RandomSource;
use crate::settings::{OutboxSetting, Settings};

/// Age up to which a count of rows is used. Rows that other servers add meanwhile are not in it.
const MAX_ROW_COUNT_AGE: Duration = Duration::from_mins(1);

/// Rows of a tenant in a table: the last count, and the rows added by this server since.
#[derive(Debug)]
struct RowCount {
    rows: u32,
    counted_at: Instant,
}

/// Infrastructure of one server process. It knows nothing of executions or callers.
pub struct Infrastructure {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: StoreClock,
    pub(crate) rng: Arc<dyn RandomSource>,
    pub(crate) ids: IdAllocator,
    pub(crate) settings: Settings,
    /// True if each event gets an outbox row.
    pub(crate) outbox: bool,
    pub(crate) metrics: Arc<Metrics>,
    /// Tasks that [`super::ControlPlane::close`] waits for.
    pub(crate) tasks: TaskTracker,
    pub(crate) shutdown: CancellationToken,
    pub(crate) opened_at: Timestamp,
    row_counts: Mutex<BTreeMap<(TenantId, TenantTable), RowCount>>,
}

impl Infrastructure {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: StoreClock,
        rng: Arc<dyn RandomSource>,
        ids: IdAllocator,
        settings: Settings,
    ) -> Self {
        Self {
            opened_at: clock.now(),
            store,
            clock,
            rng,
            ids,
            outbox: settings.outbox == OutboxSetting::Enabled,
            settings,
            metrics: Arc::default(),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            row_counts: Mutex::default(),
        }
    }

    /// Name of this process among the servers.
    pub(crate) fn instance(&self) -> &Text {
        self.ids.owner()
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns the time of the store.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn mint_id<T: TypedId>(&self) -> Result<T> {
        Ok(self.ids.mint_id(self.now())?)
    }

    /// Refuses to add a row to a table of a tenant that has reached its limit. Concurrent calls may
    /// exceed the limit by their number.
    pub(crate) async fn check_row_limit(
        &self,
        tenant_id: &TenantId,
        table: TenantTable,
    ) -> Result<()> {
        let settings = &self.settings;
        let (limit, rows, remedy) = match table {
            TenantTable::Tokens => (
                settings.max_tokens,
                "tokens, including those that ended in the last 30 days",
                "raise NOETL_MAX_TOKENS",
            ),
            TenantTable::Definitions => (
                settings.max_definitions,
                "versions of definitions",
                "register less often, or raise NOETL_MAX_DEFINITIONS",
            ),
            TenantTable::Broadcasts => (
                settings.max_broadcasts,
                "broadcast signals, which are kept for 30 days",
                "send signals to single executions, or raise NOETL_MAX_BROADCASTS",
            ),
        };
        let key = (tenant_id.clone(), table);
        if let Some(count) = self.row_counts().get_mut(&key)
            && count.rows < limit
            && count.counted_at.elapsed() < MAX_ROW_COUNT_AGE
        {
            count.rows += 1;
            return Ok(());
        }
        let rows_before = self.store.count_tenant_rows(tenant_id, table, limit).await?;
        let count = RowCount { rows: rows_before + 1, counted_at: Instant::now() };
        self.row_counts().insert(key, count);
        if rows_before < limit {
            return Ok(());
        }
        let text =
            format!("tenant `{tenant_id}` has reached its limit of {limit} {rows}; {remedy}");
        Err(RuntimeError::refused(ErrorCode::QuotaExceeded, text))
    }

    fn row_counts(&self) -> MutexGuard<'_, BTreeMap<(TenantId, TenantTable), RowCount>> {
        self.row_counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for a time. Returns false if the process is shutting down.
    pub(crate) async fn sleep_unless_shutdown(&self, time: Duration) -> bool {
        tokio::select! {
            // Biased, so that the same seed leads to the same run.
            biased;
            () = tokio::time::sleep(time) => true,
            () = self.shutdown.cancelled() => false,
        }
    }
}
