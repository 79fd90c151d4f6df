//! Remembers every run that was started, and checks the log for them.
//!
//! The check reads the store after the system has stopped, so it sees what is on the disk and not
//! what a process believes.

use std::sync::{Mutex, PoisonError};

use noetl_store::{Execution, ExecutionFilter, LogPage, Store};
use noetl_types::limits::PageLimit;
use noetl_types::record::ChainCheck;
use noetl_types::{EventName, EventType, ExecutionId, ExecutionStatus, TenantId, Version};

use crate::error::{BenchError, LogProblem};

/// The runs of one system.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    runs: Mutex<Vec<Entry>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    execution_id: ExecutionId,
    commands: u64,
}

impl Ledger {
    /// Notes a run that was answered, and how many commands it must complete.
    pub(crate) fn note(&self, execution_id: ExecutionId, commands: u64) {
        let entry = Entry {
            execution_id,
            commands,
        };
        self.lock().push(entry);
    }

    /// How many runs there are.
    pub(crate) fn count(&self) -> u64 {
        count(self.lock().len())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store holds these runs, whole and well, and no others.
    pub(crate) async fn check(&self, store: &dyn Store) -> Result<(), BenchError> {
        let entries = self.lock().clone();
        for entry in &entries {
            check_run(store, *entry).await?;
        }
        let (found, wanted) = (stored_runs(store).await?, count(entries.len()));
        if found != wanted {
            return Err(LogProblem::Strays { found, wanted }.into());
        }
        Ok(())
    }
}

/// How often what matters happened in a log.
#[derive(Debug, Default)]
struct Tally {
    events: u64,
    ends: u64,
    completed: u64,
}

async fn check_run(store: &dyn Store, entry: Entry) -> Result<(), BenchError> {
    let execution_id = entry.execution_id;
    let execution = store.execution(execution_id).await?;
    let execution = execution.ok_or(LogProblem::Missing(execution_id))?;
    let status = execution.view.status;
    if status != ExecutionStatus::Completed {
        return Err(LogProblem::Status {
            execution_id,
            status,
        }
        .into());
    }
    let (chain, tally) = read_log(store, execution_id).await?;
    let counts = [
        ("that end it", tally.ends, 1),
        ("that complete a command", tally.completed, entry.commands),
    ];
    for (what, found, wanted) in counts {
        if found != wanted {
            return Err(LogProblem::Count {
                execution_id,
                what,
                found,
                wanted,
            }
            .into());
        }
    }
    let is_whole = u64::try_from(execution.head.version.get()).is_ok_and(|it| it == tally.events);
    if !is_whole || execution.head.chain != chain.head() {
        return Err(LogProblem::Head(execution_id).into());
    }
    Ok(())
}

/// Walks along the whole log; every place and every link must be right.
async fn read_log(
    store: &dyn Store,
    execution_id: ExecutionId,
) -> Result<(ChainCheck, Tally), BenchError> {
    let mut chain = ChainCheck::default();
    let mut tally = Tally::default();
    let mut after = Version::EMPTY;
    loop {
        let page = store.events(execution_id, after, LogPage::MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.record.seq.into();
        for stored in &page {
            chain.check(stored).map_err(|broken| LogProblem::Chain {
                execution_id,
                broken,
            })?;
            tally.take(&stored.record.event.event_type);
        }
        if count(page.len()) < u64::from(LogPage::MAX.get()) {
            break;
        }
    }
    Ok((chain, tally))
}

impl Tally {
    fn take(&mut self, name: &EventName) {
        self.events += 1;
        match name {
            EventName::Known(EventType::CommandCompleted) => self.completed += 1,
            EventName::Known(known) => self.ends += u64::from(known.is_terminal()),
            EventName::Other(_) => {}
        }
    }
}

async fn stored_runs(store: &dyn Store) -> Result<u64, BenchError> {
    let mut found = 0;
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
        let page = store.executions(filter).await?;
        let own = page.executions.iter().filter(|it| !is_of_platform(it));
        found += count(own.count());
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Whether it is a run that the product starts for itself.
fn is_of_platform(execution: &Execution) -> bool {
    let path = execution.facts.path.as_ref();
    path.is_some_and(|path| path.as_str().starts_with("system/"))
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{Site, StoreKind};
    use crate::system::{Shape, launch};

    /// What a check says of a store with one good run, by a ledger that expects something else.
    async fn refused(expect: impl FnOnce(&Ledger, ExecutionId)) -> LogProblem {
        let site = Site::new(StoreKind::Sqlite).unwrap();
        let truth = Ledger::default();
        let launched = launch(&Shape::Embedded, &site, None, &truth).await.unwrap();
        launched.system.stop().await.unwrap();
        let opened = site.open().await.unwrap();
        truth.check(&*opened.store).await.unwrap();
        let good = truth.lock()[0].execution_id;
        let other = Ledger::default();
        expect(&other, good);
        match other.check(&*opened.store).await {
            Err(BenchError::Log(problem)) => problem,
            unexpected => panic!("{unexpected:?}"),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_run_that_is_not_there_is_missed() {
        let nobody = ExecutionId::new(1).unwrap();
        let problem = refused(|ledger, _| ledger.note(nobody, 1)).await;
        assert_eq!(problem, LogProblem::Missing(nobody));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_command_that_was_not_completed_is_missed() {
        let problem = refused(|ledger, good| ledger.note(good, 2)).await;
        assert!(
            matches!(
                problem,
                LogProblem::Count {
                    found: 1,
                    wanted: 2,
                    ..
                }
            ),
            "{problem}"
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_run_that_nobody_started_is_found() {
        let problem = refused(|_, _| {}).await;
        assert_eq!(
            problem,
            LogProblem::Strays {
                found: 1,
                wanted: 0
            }
        );
    }
}
