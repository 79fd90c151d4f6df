//! Records every started run, and checks the log for them.
//!
//! The check reads the store after the system has stopped, so it sees the data on disk and not the
//! state of a process.

use std::sync::{Mutex, PoisonError};

use noetl_store::{Execution, ExecutionFilter, LogPageLimit, Store};
use noetl_types::limits::PageLimit;
use noetl_types::record::ChainVerifier;
use noetl_types::{EventName, EventType, ExecutionId, ExecutionStatus, ExecutionVersion, TenantId};

use crate::error::{BenchError, LogProblem};

/// Started runs of one system.
#[derive(Debug, Default)]
pub(crate) struct RunLedger {
    runs: Mutex<Vec<StartedRun>>,
}

#[derive(Debug, Clone, Copy)]
struct StartedRun {
    execution_id: ExecutionId,
    commands: u64,
}

impl RunLedger {
    /// Records a run that was started, with the number of commands that it must complete.
    pub(crate) fn record_run(&self, execution_id: ExecutionId, commands: u64) {
        let entry = StartedRun { execution_id, commands };
        self.lock_runs().push(entry);
    }

    pub(crate) fn run_count(&self) -> u64 {
        to_u64(self.lock_runs().len())
    }

    fn lock_runs(&self) -> std::sync::MutexGuard<'_, Vec<StartedRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the store contains these runs, complete and successful, and no others.
    pub(crate) async fn check_log(&self, store: &dyn Store) -> Result<(), BenchError> {
        let entries = self.lock_runs().clone();
        for entry in &entries {
            check_run(store, *entry).await?;
        }
        let (found, wanted) = (stored_runs(store).await?, to_u64(entries.len()));
        if found != wanted {
            return Err(LogProblem::UnexpectedRuns { found, wanted }.into());
        }
        Ok(())
    }
}

/// Numbers of relevant events in a log.
#[derive(Debug, Default)]
struct EventCounts {
    events: u64,
    terminal: u64,
    completed: u64,
}

async fn check_run(store: &dyn Store, entry: StartedRun) -> Result<(), BenchError> {
    let execution_id = entry.execution_id;
    let execution = store.find_execution(execution_id).await?;
    let execution = execution.ok_or(LogProblem::Missing(execution_id))?;
    let status = execution.view.status;
    if status != ExecutionStatus::Completed {
        return Err(LogProblem::Status { execution_id, status }.into());
    }
    let (chain, counts) = read_log(store, execution_id).await?;
    let checks = [
        ("that end the run", counts.terminal, 1),
        ("that complete a command", counts.completed, entry.commands),
    ];
    for (what, found, wanted) in checks {
        if found != wanted {
            return Err(LogProblem::Count { execution_id, what, found, wanted }.into());
        }
    }
    let is_complete =
        u64::try_from(execution.head.version.get()).is_ok_and(|version| version == counts.events);
    if !is_complete || execution.head.chain != chain.head() {
        return Err(LogProblem::Head(execution_id).into());
    }
    Ok(())
}

/// Reads the whole log and checks every seq and every chain link.
async fn read_log(
    store: &dyn Store,
    execution_id: ExecutionId,
) -> Result<(ChainVerifier, EventCounts), BenchError> {
    let mut chain = ChainVerifier::default();
    let mut counts = EventCounts::default();
    let mut after = ExecutionVersion::EMPTY;
    loop {
        let page = store.read_events(execution_id, after, LogPageLimit::MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.record.seq.into();
        for stored in &page {
            chain
                .verify_event(stored)
                .map_err(|broken| LogProblem::Chain { execution_id, broken })?;
            counts.count_event(&stored.record.event.event_type);
        }
        if to_u64(page.len()) < u64::from(LogPageLimit::MAX.get()) {
            break;
        }
    }
    Ok((chain, counts))
}

impl EventCounts {
    fn count_event(&mut self, name: &EventName) {
        self.events += 1;
        match name {
            EventName::Known(EventType::CommandCompleted) => self.completed += 1,
            EventName::Known(event_type) => self.terminal += u64::from(event_type.is_terminal()),
            EventName::Other(_) => {}
        }
    }
}

async fn stored_runs(store: &dyn Store) -> Result<u64, BenchError> {
    let mut count = 0;
    let mut after = None;
    loop {
        let filter = ExecutionFilter {
            tenant_id: TenantId::default(),
            status: None,
            path: None,
            parent_execution_id: None,
            after,
            limit: PageLimit::MAX,
        };
        let page = store.list_executions(filter).await?;
        let user_runs = page.executions.iter().filter(|execution| !is_platform_run(execution));
        count += to_u64(user_runs.count());
        after = page.next;
        if after.is_none() {
            return Ok(count);
        }
    }
}

/// True for a run that the product starts by itself.
fn is_platform_run(execution: &Execution) -> bool {
    let path = execution.facts.path.as_ref();
    path.is_some_and(|path| path.as_str().starts_with("system/"))
}

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_site::{StoreKind, StoreSite};
    use crate::system::{SystemShape, launch_system};

    /// Returns the problem that a check finds in a store with one good run, for a ledger with other
    /// expectations.
    async fn find_log_problem(expect: impl FnOnce(&RunLedger, ExecutionId)) -> LogProblem {
        let site = StoreSite::new(StoreKind::Sqlite).unwrap();
        let actual = RunLedger::default();
        let launched = launch_system(&SystemShape::Embedded, &site, None, &actual).await.unwrap();
        launched.system.stop().await.unwrap();
        let opened = site.open().await.unwrap();
        actual.check_log(&*opened.store).await.unwrap();
        let good = actual.lock_runs()[0].execution_id;
        let other = RunLedger::default();
        expect(&other, good);
        match other.check_log(&*opened.store).await {
            Err(BenchError::Log(problem)) => problem,
            unexpected => panic!("{unexpected:?}"),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn detects_missing_run() {
        let missing = ExecutionId::new(1).unwrap();
        let problem = find_log_problem(|ledger, _| ledger.record_run(missing, 1)).await;
        assert_eq!(problem, LogProblem::Missing(missing));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn detects_incomplete_command() {
        let problem = find_log_problem(|ledger, good| ledger.record_run(good, 2)).await;
        assert!(matches!(problem, LogProblem::Count { found: 1, wanted: 2, .. }), "{problem}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn detects_unexpected_run() {
        let problem = find_log_problem(|_, _| {}).await;
        assert_eq!(problem, LogProblem::UnexpectedRuns { found: 1, wanted: 0 });
    }
}
