//! Forgetting what is old, and checking what is kept.

use noetl_types::limits::PageLimit;
use noetl_types::record::{ChainBroken, ChainCheck};
use noetl_types::{ExecutionId, Millis, Timestamp, Version};

use crate::error::StoreError;
use crate::model::{LogPage, MAX_CLOCK_DIFFERENCE, OldPart, Purge, Purged};
use crate::store::Store;

/// Forgets what is old, or says what would go.
///
/// What cannot go is told and stays; the rest goes on. It works in small steps, so that whoever
/// appends never waits for long.
pub async fn purge(store: &dyn Store, purge: &Purge) -> Result<Purged, StoreError> {
    let mut purged = Purged::default();
    if let Some(before) = purge.commands_before {
        purged.commands = if purge.dry_run {
            store.old_commands(before).await?
        } else {
            repeat(|limit| store.purge_commands(before, limit)).await?
        };
    }
    if let Some(before) = purge.runtimes_before {
        purged.runtimes = if purge.dry_run {
            store.old_runtimes(before).await?
        } else {
            repeat(|limit| store.purge_runtimes(before, limit)).await?
        };
    }
    if let Some(before) = purge.outbox_before {
        purged.outbox = if purge.dry_run {
            store.old_outbox(before).await?
        } else {
            repeat(|limit| store.purge_outbox(before, limit)).await?
        };
    }
    if let Some(before) = purge.events_before {
        purge_events(store, purge, before, &mut purged).await?;
    }
    Ok(purged)
}

/// Repeats a step until it finds nothing more to do.
async fn repeat<F>(step: impl Fn(PageLimit) -> F) -> Result<u64, StoreError>
where
    F: Future<Output = Result<u64, StoreError>>,
{
    let mut all = 0_u64;
    loop {
        let done = step(PageLimit::MAX).await?;
        all = all.saturating_add(done);
        if done == 0 {
            return Ok(all);
        }
        // Others get their turn between two steps.
        tokio::task::yield_now().await;
    }
}

async fn purge_events(
    store: &dyn Store,
    purge: &Purge,
    before: Timestamp,
    purged: &mut Purged,
) -> Result<(), StoreError> {
    if let Some(apart) = clocks_apart(store, purge.now).await? {
        purged.clocks_apart = Some(apart);
        return Ok(());
    }
    for old in store.old_parts(before, &purge.outlets).await? {
        let pinned = match (&old.pinned, purge.dry_run) {
            (Some(pinned), _) => Some(pinned.clone()),
            (None, true) => None,
            (None, false) => {
                let drop = store.drop_part(&old.part, &purge.outlets, purge.now);
                drop.await?
            }
        };
        let list = match pinned {
            Some(_) => &mut purged.skipped,
            None => &mut purged.dropped,
        };
        list.push(OldPart { pinned, ..old });
    }
    if !purge.dry_run {
        repeat(|limit| store.clean_dropped(purge.now, limit)).await?;
    }
    Ok(())
}

/// How far the clocks of server and store are apart, if that is too far to drop anything by them.
async fn clocks_apart(store: &dyn Store, now: Timestamp) -> Result<Option<Millis>, StoreError> {
    let Some(clock) = store.clock().await? else {
        return Ok(None);
    };
    let apart = clock.max(now).since(clock.min(now));
    Ok(Some(apart).filter(|apart| *apart > MAX_CLOCK_DIFFERENCE))
}

/// A log that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogDamage {
    /// An event is missing, or was changed.
    #[error("execution {execution_id}: {broken}")]
    Broken {
        /// The execution.
        execution_id: ExecutionId,
        /// Where.
        #[source]
        broken: ChainBroken,
    },
    /// The row of the execution names another end.
    #[error("execution {execution_id}: the log does not end where its row says")]
    End {
        /// The execution.
        execution_id: ExecutionId,
    },
}

/// Checks the hash chain of an execution, event by event.
pub async fn verify_log(
    store: &dyn Store,
    execution_id: ExecutionId,
) -> Result<Option<LogDamage>, StoreError> {
    let Some(execution) = store.execution(execution_id).await? else {
        return Ok(None);
    };
    let mut check = ChainCheck::default();
    let mut version = Version::EMPTY;
    // Events that come meanwhile are behind the end that the row names.
    while version < execution.head.version {
        let events = store.events(execution_id, version, LogPage::MAX).await?;
        for event in &events {
            if version >= execution.head.version {
                break;
            }
            if let Err(broken) = check.check(event) {
                return Ok(Some(LogDamage::Broken {
                    execution_id,
                    broken,
                }));
            }
            version = event.record.seq.into();
        }
        if events.is_empty() {
            return Ok(Some(LogDamage::End { execution_id }));
        }
    }
    let is_the_end = check.head() == execution.head.chain;
    Ok((!is_the_end).then_some(LogDamage::End { execution_id }))
}

/// Checks the logs of a page of executions: what is damaged, and where the next page begins.
pub async fn verify_logs(
    store: &dyn Store,
    after: Option<ExecutionId>,
    limit: PageLimit,
) -> Result<(Vec<LogDamage>, Option<ExecutionId>), StoreError> {
    let page = store.execution_ids(after, limit).await?;
    let mut damaged = Vec::new();
    for execution_id in &page {
        damaged.extend(verify_log(store, *execution_id).await?);
    }
    Ok((damaged, page.last().copied()))
}
