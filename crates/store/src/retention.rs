//! Purging of old data, and verification of the log.

use noetl_types::limits::PageLimit;
use noetl_types::record::{ChainError, ChainVerifier};
use noetl_types::{ExecutionId, ExecutionVersion, Millis, Timestamp};

use crate::error::StoreError;
use crate::model::{LogPageLimit, MAX_CLOCK_DIFFERENCE, OldPartition, PurgePlan, PurgeReport};
use crate::store::Store;

/// Purges old data, or reports what would be purged.
///
/// Pinned data is reported and skipped. The work is done in small steps, so that appends are never
/// blocked for long.
pub async fn purge_old_data(
    store: &dyn Store,
    plan: &PurgePlan,
) -> Result<PurgeReport, StoreError> {
    let mut report = PurgeReport::default();
    if let Some(before) = plan.commands_before {
        report.commands = if plan.dry_run {
            store.count_old_commands(before).await?
        } else {
            repeat_until_zero(|limit| store.purge_commands(before, limit)).await?
        };
    }
    if let Some(before) = plan.runtimes_before {
        report.runtimes = if plan.dry_run {
            store.count_old_runtimes(before).await?
        } else {
            repeat_until_zero(|limit| store.purge_runtimes(before, limit)).await?
        };
    }
    if let Some(before) = plan.outbox_before {
        report.outbox = if plan.dry_run {
            store.count_old_outbox_rows(before).await?
        } else {
            repeat_until_zero(|limit| store.purge_outbox_rows(before, limit)).await?
        };
    }
    if let Some(before) = plan.events_before {
        purge_events(store, plan, before, &mut report).await?;
    }
    Ok(report)
}

/// Repeats a step until it has nothing left to do.
async fn repeat_until_zero<F>(step: impl Fn(PageLimit) -> F) -> Result<u64, StoreError>
where
    F: Future<Output = Result<u64, StoreError>>,
{
    let mut total = 0_u64;
    loop {
        let count = step(PageLimit::MAX).await?;
        total = total.saturating_add(count);
        if count == 0 {
            return Ok(total);
        }
        // Other tasks may run between two steps.
        tokio::task::yield_now().await;
    }
}

async fn purge_events(
    store: &dyn Store,
    plan: &PurgePlan,
    before: Timestamp,
    report: &mut PurgeReport,
) -> Result<(), StoreError> {
    if let Some(skew) = excessive_clock_skew(store, plan.now).await? {
        report.clock_skew = Some(skew);
        return Ok(());
    }
    for old in store.list_old_partitions(before, &plan.publishers).await? {
        let pin_reason = match (&old.pin_reason, plan.dry_run) {
            (Some(pin_reason), _) => Some(pin_reason.clone()),
            (None, true) => None,
            (None, false) => {
                let drop = store.drop_partition(&old.partition, &plan.publishers, plan.now);
                drop.await?
            }
        };
        let list = match pin_reason {
            Some(_) => &mut report.skipped,
            None => &mut report.dropped,
        };
        list.push(OldPartition { pin_reason, ..old });
    }
    if !plan.dry_run {
        repeat_until_zero(|limit| store.purge_dropped_executions(plan.now, limit)).await?;
    }
    Ok(())
}

/// Returns the clock skew between server and store if it is too large to drop anything.
async fn excessive_clock_skew(
    store: &dyn Store,
    now: Timestamp,
) -> Result<Option<Millis>, StoreError> {
    let Some(clock) = store.database_clock().await? else {
        return Ok(None);
    };
    let skew = clock.max(now).duration_since(clock.min(now));
    Ok(Some(skew).filter(|skew| *skew > MAX_CLOCK_DIFFERENCE))
}

/// Damage of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogDamage {
    /// An event is missing or was modified.
    #[error("execution {execution_id}: {broken}")]
    Broken {
        execution_id: ExecutionId,
        #[source]
        broken: ChainError,
    },
    /// The head in the execution's row does not match the log.
    #[error("execution {execution_id}: the log does not end where its row says")]
    HeadMismatch { execution_id: ExecutionId },
}

/// Verifies the hash chain of an execution, event by event.
pub async fn verify_log(
    store: &dyn Store,
    execution_id: ExecutionId,
) -> Result<Option<LogDamage>, StoreError> {
    let Some(execution) = store.find_execution(execution_id).await? else {
        return Ok(None);
    };
    let mut verifier = ChainVerifier::default();
    let mut version = ExecutionVersion::EMPTY;
    // Events appended meanwhile lie after the head of the row.
    while version < execution.head.version {
        let events = store.read_events(execution_id, version, LogPageLimit::MAX).await?;
        for event in &events {
            if version >= execution.head.version {
                break;
            }
            if let Err(broken) = verifier.verify_event(event) {
                return Ok(Some(LogDamage::Broken { execution_id, broken }));
            }
            version = event.record.seq.into();
        }
        if events.is_empty() {
            return Ok(Some(LogDamage::HeadMismatch { execution_id }));
        }
    }
    let is_head = verifier.head() == execution.head.chain;
    Ok((!is_head).then_some(LogDamage::HeadMismatch { execution_id }))
}

/// Verifies the logs of a page of executions. Returns the damage found and the cursor of the next
/// page.
pub async fn verify_logs(
    store: &dyn Store,
    after: Option<ExecutionId>,
    limit: PageLimit,
) -> Result<(Vec<LogDamage>, Option<ExecutionId>), StoreError> {
    let page = store.list_execution_ids(after, limit).await?;
    let mut damaged = Vec::new();
    for execution_id in &page {
        damaged.extend(verify_log(store, *execution_id).await?);
    }
    Ok((damaged, page.last().copied()))
}
