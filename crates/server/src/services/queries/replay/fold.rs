//! Folding of a log, page by page.

use noetl_api::replay::{ReplayQuery, ReplaySnapshot};
use noetl_engine::replay::{REPLAY_FOLD_VERSION, ReplayError, ReplayState};
use noetl_store::{Execution, LogPageLimit, MAX_SNAPSHOTS, ReplayPage, Snapshot, Store};
use noetl_types::{ExecutionVersion, Json};

use super::cut;
use crate::error::{Result, RuntimeError, error_chain};
use crate::services::queries::replay::snapshot_key;

/// Events per page. Two pages are in memory at a time.
const PAGE_EVENTS: i64 = 1_000;

/// Minimum events of a page that is folded on a blocking thread.
const MIN_BLOCKING_EVENTS: usize = 200;

/// Minimum bytes of a page that is folded on a blocking thread.
const MIN_BLOCKING_BYTES: usize = 256 << 10;

/// Maximum unusable snapshots before the log is folded from its first event.
const MAX_REJECTED_SNAPSHOTS: usize = 8;

/// Minimum events between two intermediate states that are offered as snapshots.
const MIN_STATE_STRIDE_EVENTS: i64 = 2_000;

/// Events per entry of the state that an intermediate state must save, so that it saves more than
/// it costs.
const EVENTS_PER_ENTRY: i64 = 4;

/// A log, folded up to the cut.
#[derive(Debug)]
pub struct FoldedLog {
    pub state: ReplayState,
    /// True if the limit cut the log before the requested position.
    pub truncated: bool,
    /// Snapshot that the fold started from.
    pub seed: Option<ReplaySnapshot>,
    /// Size of that snapshot.
    pub(crate) seed_bytes: usize,
    /// Number of events folded after the snapshot.
    pub(crate) tail_events: i64,
    /// Versions of unusable snapshots.
    pub(crate) rejected: Vec<ExecutionVersion>,
    /// Intermediate states, from which replays of earlier positions can start.
    pub(crate) intermediates: Vec<IntermediateState>,
}

/// An intermediate state of a fold.
#[derive(Debug)]
pub(crate) struct IntermediateState {
    pub(crate) state: ReplayState,
    /// Number of events that a replay saves if it starts from this state.
    pub(crate) saved_events: i64,
}

impl FoldedLog {
    /// Wraps a state that was folded elsewhere from the whole log.
    pub fn from_state(state: ReplayState, truncated: bool) -> Self {
        Self {
            tail_events: state.version().get(),
            state,
            truncated,
            seed: None,
            seed_bytes: 0,
            rejected: Vec::new(),
            intermediates: Vec::new(),
        }
    }

    /// Folds a page of events.
    fn apply_events(&mut self, page: &ReplayPage) -> Result<(), ReplayError> {
        let before = self.state.version().get();
        match page {
            ReplayPage::Rows(rows) => {
                rows.replay_rows().try_for_each(|row| self.state.apply_row(&row))?;
            }
            ReplayPage::Events(events) => {
                let mut events = events.iter();
                events.try_for_each(|event| self.state.apply(&event.record))?;
            }
        }
        self.tail_events += self.state.version().get() - before;
        Ok(())
    }

    /// Records the current state if it is far enough from the last recorded one.
    fn record_intermediate(&mut self, stride: i64) {
        let before =
            self.intermediates.last().map_or(0, |intermediate| intermediate.state.version().get());
        let before = before.max(self.state.version().get() - self.tail_events);
        let entries = EVENTS_PER_ENTRY.saturating_mul(self.state.entry_count());
        let saved_events = self.state.version().get() - before;
        if saved_events < stride.max(entries) {
            return;
        }
        self.intermediates.push(IntermediateState { state: self.state.clone(), saved_events });
    }
}

/// Folds the log of an execution up to the position in the query.
pub async fn replay_log(store: &dyn Store, query: &ReplayQuery) -> Result<FoldedLog> {
    let row = find_owned_execution(store, query).await?;
    let requested = cut::cut_version(store, &row, query.cutoff).await?;
    let limit = query.limit.map_or(i64::MAX, i64::from);
    let to = requested.min(ExecutionVersion::new(limit).unwrap_or_default());
    let mut folded = seed_from_snapshot(store, &row, to).await?;
    folded.truncated = to < requested;
    let max_snapshots = i64::try_from(MAX_SNAPSHOTS).unwrap_or(i64::MAX);
    let stride = MIN_STATE_STRIDE_EVENTS.max(to.get() / max_snapshots);
    let mut events = read_page(store, &row, folded.state.version(), to).await?;
    while let Some(last) = events.last_seq() {
        // The next page is read while this one is folded.
        let next = read_page(store, &row, last.into(), to);
        let (next, applied) = tokio::join!(next, apply_page(folded, events));
        folded = applied?.map_err(|error| replay_failed(&row, &error))?;
        if folded.state.version() < to {
            folded.record_intermediate(stride);
        }
        events = next?;
    }
    Ok(folded)
}

/// Folds a page on a blocking thread, concurrently with the read of the next page. A short page is
/// folded directly, which is faster.
async fn apply_page(
    mut folded: FoldedLog,
    page: ReplayPage,
) -> Result<Result<FoldedLog, ReplayError>> {
    if page.len() < MIN_BLOCKING_EVENTS && page.text_bytes() < MIN_BLOCKING_BYTES {
        return Ok(folded.apply_events(&page).map(|()| folded));
    }
    let applied = tokio::task::spawn_blocking(move || folded.apply_events(&page).map(|()| folded));
    applied.await.map_err(|_| replay_aborted())
}

/// Reads the next events of a log. Returns an empty page at the end.
async fn read_page(
    store: &dyn Store,
    row: &Execution,
    after: ExecutionVersion,
    to: ExecutionVersion,
) -> Result<ReplayPage> {
    if after >= to {
        return Ok(ReplayPage::Events(Vec::new()));
    }
    let count = PAGE_EVENTS.min(to.get() - after.get());
    let limit = LogPageLimit::clamped(u32::try_from(count).unwrap_or(u32::MAX));
    let events = store.read_replay_rows(row.execution_id, after, limit).await?;
    if events.is_empty() {
        // Retention may have deleted the log since the execution was found.
        if store.is_dropped(row.execution_id).await? {
            return Err(RuntimeError::dropped_execution());
        }
        let text = format!("its log ends at {after} but should continue to {to}");
        return Err(log_damaged(row, &text));
    }
    Ok(events)
}

/// Returns the execution if it belongs to the caller. Others are reported as not found.
async fn find_owned_execution(store: &dyn Store, query: &ReplayQuery) -> Result<Execution> {
    let found = store.find_execution(query.execution_id).await?;
    let is_owned = |row: &Execution| {
        row.facts.tenant_id == query.tenant_id && row.facts.organization_id == query.organization_id
    };
    if let Some(row) = found.filter(is_owned) {
        return Ok(row);
    }
    if store.is_dropped(query.execution_id).await? {
        return Err(RuntimeError::dropped_execution());
    }
    Err(RuntimeError::no_execution())
}

/// Returns the state of the newest usable snapshot, or an empty state.
async fn seed_from_snapshot(
    store: &dyn Store,
    row: &Execution,
    to: ExecutionVersion,
) -> Result<FoldedLog> {
    let empty = ReplayState::new(
        row.facts.tenant_id.clone(),
        row.facts.organization_id.clone(),
        row.execution_id,
    );
    let mut folded = FoldedLog::from_state(empty, false);
    if to == ExecutionVersion::EMPTY {
        return Ok(folded);
    }
    let (execution_id, key) = (row.execution_id, snapshot_key());
    let mut at_most = to;
    while folded.rejected.len() < MAX_REJECTED_SNAPSHOTS
        && let Some(snapshot) = store.find_snapshot(execution_id, &key, at_most).await?
    {
        let version = snapshot.head.version;
        match decode_snapshot(row, &snapshot) {
            Ok(state) => {
                folded.state = state;
                folded.seed_bytes = snapshot.state.len();
                folded.seed = Some(snapshot_summary(&snapshot));
                break;
            }
            Err(reason) => {
                tracing::warn!(%execution_id, %version, reason, "a snapshot is unusable");
                folded.rejected.push(version);
            }
        }
        let Ok(before) = ExecutionVersion::new(version.get() - 1) else {
            break;
        };
        at_most = before;
    }
    Ok(folded)
}

fn decode_snapshot(row: &Execution, snapshot: &Snapshot) -> Result<ReplayState, String> {
    let state = ReplayState::from_snapshot(&snapshot.state, &snapshot.checksum)
        .map_err(|error| error_chain(&error))?;
    let replayed = state.replayed();
    let is_match = replayed.execution_id.0 == row.execution_id
        && replayed.tenant_id == row.facts.tenant_id
        && replayed.organization_id == row.facts.organization_id
        && state.version() == snapshot.head.version;
    if is_match { Ok(state) } else { Err("it belongs to another execution or version".to_owned()) }
}

fn snapshot_summary(snapshot: &Snapshot) -> ReplaySnapshot {
    ReplaySnapshot {
        aggregate_id: format!("execution/{}/all", snapshot.execution_id).into(),
        aggregate_type: snapshot.key.kind.clone(),
        version: snapshot.head.version.get(),
        checksum: snapshot.checksum,
        meta: Json::object([("fold_version", Json::from(REPLAY_FOLD_VERSION))]),
    }
}

pub(crate) fn replay_aborted() -> RuntimeError {
    RuntimeError::internal("the replay was aborted")
}

fn replay_failed(row: &Execution, error: &ReplayError) -> RuntimeError {
    log_damaged(row, &error_chain(error))
}

fn log_damaged(row: &Execution, reason: &str) -> RuntimeError {
    let text = format!("execution {} cannot be replayed: {reason}", row.execution_id);
    tracing::error!("{text}");
    RuntimeError::internal(text)
}

#[cfg(test)]
mod tests;
