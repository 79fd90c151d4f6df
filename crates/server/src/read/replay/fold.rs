//! A log, folded page by page.

use noetl_api::replay::{ReplayQuery, ReplaySnapshot};
use noetl_engine::replay::{REPLAY_FOLD_VERSION, ReplayError, ReplayState};
use noetl_store::{Execution, Gists, LogPage, MAX_SNAPSHOTS, Snapshot, Store};
use noetl_types::{ErrorCode, Json, Version};

use super::{cut, snapshot_key};
use crate::runtime::{RuntimeError, causes};

/// Events that are read at once; two such pages are in memory at once.
const PAGE: i64 = 1_000;

/// Events from which on a page is folded where nobody waits for it.
const HANDED_OVER: usize = 200;

/// Bytes from which on it is, however few events they are.
const HANDED_OVER_BYTES: usize = 256 << 10;

/// Snapshots that are tried in vain before the log is folded from its first event.
const MOST_REJECTED: usize = 8;

/// Events, at least, between two places of a log that later folds can go on from.
const STRIDE: i64 = 2_000;

/// Events that an entry of the state weighs up: a place costs no more than it saves.
const EVENTS_PER_ENTRY: i64 = 4;

/// A log, folded up to where it was cut.
#[derive(Debug)]
pub struct Folded {
    /// The state.
    pub state: ReplayState,
    /// Whether a limit cut the log earlier than was asked for.
    pub truncated: bool,
    /// The snapshot that the fold went on from.
    pub seed: Option<ReplaySnapshot>,
    /// How large that snapshot is.
    pub(super) seed_bytes: usize,
    /// How many events were folded behind it.
    pub(super) tail: i64,
    /// Versions of snapshots that turned out to be of no use.
    pub(super) rejected: Vec<Version>,
    /// States on the way there, from which those who look at an earlier moment can go on.
    pub(super) passed: Vec<Passed>,
}

/// A state on the way to another one.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) state: ReplayState,
    /// How many events a reader need not fold any more who goes on from it.
    pub(super) saves: i64,
}

impl Folded {
    /// A log that was folded elsewhere, as a whole.
    pub fn of(state: ReplayState, truncated: bool) -> Self {
        Self {
            tail: state.version().get(),
            state,
            truncated,
            seed: None,
            seed_bytes: 0,
            rejected: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// Folds a page of events.
    fn apply(&mut self, page: &Gists) -> Result<(), ReplayError> {
        let before = self.state.version().get();
        match page {
            Gists::Rows(rows) => rows
                .gists()
                .try_for_each(|gist| self.state.apply_gist(&gist))?,
            Gists::Whole(events) => {
                let mut events = events.iter();
                events.try_for_each(|event| self.state.apply(&event.record))?;
            }
        }
        self.tail += self.state.version().get() - before;
        Ok(())
    }

    /// Remembers the state where it is far enough from the last one that is kept.
    fn pass(&mut self, stride: i64) {
        let before = self.passed.last().map_or(0, |it| it.state.version().get());
        let before = before.max(self.state.version().get() - self.tail);
        let entries = EVENTS_PER_ENTRY.saturating_mul(self.state.entries());
        let saves = self.state.version().get() - before;
        if saves < stride.max(entries) {
            return;
        }
        self.passed.push(Passed {
            state: self.state.clone(),
            saves,
        });
    }
}

/// Folds the log of an execution up to where the query says.
pub async fn replay(log: &dyn Store, query: &ReplayQuery) -> Result<Folded, RuntimeError> {
    let row = owned_row(log, query).await?;
    let asked = cut::version_of(log, &row, query.cut).await?;
    let most = query.limit.map_or(i64::MAX, i64::from);
    let to = asked.min(Version::new(most).unwrap_or_default());
    let mut folded = seeded(log, &row, to).await?;
    folded.truncated = to < asked;
    let most_kept = i64::try_from(MAX_SNAPSHOTS).unwrap_or(i64::MAX);
    let stride = STRIDE.max(to.get() / most_kept);
    let mut events = page(log, &row, folded.state.version(), to).await?;
    while let Some(last) = events.last() {
        // The next page is on its way while this one is folded.
        let next = page(log, &row, last.into(), to);
        let (next, applied) = tokio::join!(next, apply(folded, events));
        folded = applied?.map_err(|error| unfit(&row, &error))?;
        if folded.state.version() < to {
            folded.pass(stride);
        }
        events = next?;
    }
    Ok(folded)
}

/// Folds a page beside who reads the next one; a short one is folded sooner than handed over.
async fn apply(
    mut folded: Folded,
    page: Gists,
) -> Result<Result<Folded, ReplayError>, RuntimeError> {
    if page.len() < HANDED_OVER && page.bytes() < HANDED_OVER_BYTES {
        return Ok(folded.apply(&page).map(|()| folded));
    }
    let applied = tokio::task::spawn_blocking(move || folded.apply(&page).map(|()| folded));
    applied.await.map_err(|_| broken_off())
}

/// The next events of a log; none where it is read to the end.
async fn page(
    log: &dyn Store,
    row: &Execution,
    after: Version,
    to: Version,
) -> Result<Gists, RuntimeError> {
    if after >= to {
        return Ok(Gists::Whole(Vec::new()));
    }
    let count = PAGE.min(to.get() - after.get());
    let limit = LogPage::clamped(u32::try_from(count).unwrap_or(u32::MAX));
    let events = log.gists(row.execution_id, after, limit).await?;
    if events.is_empty() {
        // Retention may have dropped it since the execution was found.
        if log.is_gone(row.execution_id).await? {
            return Err(gone());
        }
        let text = format!("its log ends at {after}, and should go on to {to}");
        return Err(damaged(row, &text));
    }
    Ok(events)
}

/// The execution, if it is the caller's. One of somebody else is as good as none.
async fn owned_row(log: &dyn Store, query: &ReplayQuery) -> Result<Execution, RuntimeError> {
    let found = log.execution(query.execution_id).await?;
    let is_owned = |row: &Execution| {
        row.facts.tenant_id == query.tenant_id && row.facts.organization_id == query.organization_id
    };
    if let Some(row) = found.filter(is_owned) {
        return Ok(row);
    }
    if log.is_gone(query.execution_id).await? {
        return Err(gone());
    }
    Err(RuntimeError::no_execution())
}

fn gone() -> RuntimeError {
    let text = "the execution was dropped by retention";
    RuntimeError::refused(ErrorCode::RetentionDropped, text)
}

/// The fold of the newest usable snapshot, or of no events.
async fn seeded(log: &dyn Store, row: &Execution, to: Version) -> Result<Folded, RuntimeError> {
    let empty = ReplayState::new(
        row.facts.tenant_id.clone(),
        row.facts.organization_id.clone(),
        row.execution_id,
    );
    let mut folded = Folded::of(empty, false);
    if to == Version::EMPTY {
        return Ok(folded);
    }
    let (execution_id, key) = (row.execution_id, snapshot_key());
    let mut at_most = to;
    while folded.rejected.len() < MOST_REJECTED
        && let Some(snapshot) = log.snapshot(execution_id, &key, at_most).await?
    {
        let version = snapshot.head.version;
        match read(row, &snapshot) {
            Ok(state) => {
                folded.state = state;
                folded.seed_bytes = snapshot.state.len();
                folded.seed = Some(shown(&snapshot));
                break;
            }
            Err(reason) => {
                tracing::warn!(%execution_id, %version, reason, "a snapshot is of no use");
                folded.rejected.push(version);
            }
        }
        let Ok(before) = Version::new(version.get() - 1) else {
            break;
        };
        at_most = before;
    }
    Ok(folded)
}

fn read(row: &Execution, snapshot: &Snapshot) -> Result<ReplayState, String> {
    let state = ReplayState::from_snapshot(&snapshot.state, &snapshot.checksum)
        .map_err(|error| causes(&error))?;
    let replayed = state.replayed();
    let is_of_it = replayed.execution_id == row.execution_id
        && replayed.tenant_id == row.facts.tenant_id
        && replayed.organization_id == row.facts.organization_id
        && state.version() == snapshot.head.version;
    if is_of_it {
        Ok(state)
    } else {
        Err("it is of another execution, or of another version".to_owned())
    }
}

fn shown(snapshot: &Snapshot) -> ReplaySnapshot {
    ReplaySnapshot {
        aggregate_id: format!("execution/{}/all", snapshot.execution_id).into(),
        aggregate_type: snapshot.key.kind.clone(),
        version: snapshot.head.version.get(),
        checksum: snapshot.checksum,
        meta: Json::object([("fold_version", Json::from(REPLAY_FOLD_VERSION))]),
    }
}

pub(super) fn broken_off() -> RuntimeError {
    RuntimeError::refused(ErrorCode::Internal, "the replay was broken off")
}

fn unfit(row: &Execution, error: &ReplayError) -> RuntimeError {
    damaged(row, &causes(error))
}

fn damaged(row: &Execution, reason: &str) -> RuntimeError {
    let text = format!(
        "execution {} cannot be replayed: {reason}",
        row.execution_id
    );
    tracing::error!("{text}");
    RuntimeError::refused(ErrorCode::Internal, text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noetl_api::internal::{ProjectRequest, PurgeRequest};
    use noetl_store::{CopyScope, MemoryStore};
    use noetl_types::{ExecutionId, Timestamp};

    use super::*;
    use crate::clock::SystemClock;
    use crate::runtime::{Runtime, Settings};

    /// The month goes between the look at the execution and the look at its log.
    #[tokio::test]
    async fn a_log_that_retention_drops_meanwhile_is_gone_and_not_damaged() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let clock = Arc::new(SystemClock);
        let runtime = Runtime::open(Arc::clone(&store), clock, Settings::default());
        let runtime = runtime.await.unwrap();
        let made = Timestamp::parse("2025-03-10T00:00:00Z").unwrap();
        let id = (made.as_unix_ms() - 1_704_067_200_000) << 22;
        let event = |number: i64, name: &str| {
            Json::object([
                ("execution_id", Json::from(id)),
                ("event_id", Json::from(id + number)),
                ("event_type", Json::from(name)),
            ])
        };
        let events = vec![event(1, "step.enter"), event(2, "playbook.completed")];
        let copied = runtime.project(ProjectRequest { events }, CopyScope::OfExecution);
        assert_eq!(copied.await.unwrap().projected, 2);
        let query = ReplayQuery::new(ExecutionId::new(id).unwrap());
        let row = owned_row(&*store, &query).await.unwrap();
        let log = || page(&*store, &row, Version::EMPTY, row.head.version);
        assert_eq!(log().await.unwrap().len(), 2);
        let wanted = PurgeRequest {
            event_retention_days: Some(30),
            ..PurgeRequest::default()
        };
        let purged = runtime.purge(wanted).await.unwrap();
        assert_eq!(purged.events_purged, 1, "{purged:?}");
        let code = log().await.err().and_then(|error| error.code());
        assert_eq!(code, Some(ErrorCode::RetentionDropped));
    }
}
