//! Purging of old data, and verification of the log.

use async_trait::async_trait;
use noetl_types::limits::PageLimit;
use noetl_types::record::{ChainError, ChainVerifier};
use noetl_types::{ExecutionId, ExecutionVersion, Millis, Timestamp};

use crate::error::StoreError;
use crate::model::{
    DroppedRange, LogPageLimit, MAX_CLOCK_DIFFERENCE, OldPartition, PurgePlan, PurgeReport,
};
use crate::store::Store;

/// Records which executions retention drops, so that they are not missed later.
#[async_trait]
pub trait DropJournal: Send + Sync {
    /// Records a range before it is dropped. It is not dropped if this fails.
    async fn record_drop(&self, range: DroppedRange) -> Result<(), StoreError>;

    /// Records that a range was not dropped after all.
    async fn record_kept(&self, range: DroppedRange) -> Result<(), StoreError>;
}

/// Records nothing.
#[async_trait]
impl DropJournal for () {
    async fn record_drop(&self, _: DroppedRange) -> Result<(), StoreError> {
        Ok(())
    }

    async fn record_kept(&self, _: DroppedRange) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Purges old data, or reports what would be purged.
///
/// Pinned data is reported and skipped. The work is done in small steps, so that appends are never
/// blocked for long.
pub async fn purge_old_data(
    store: &dyn Store,
    plan: &PurgePlan,
    journal: &dyn DropJournal,
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
        purge_events(store, plan, before, journal, &mut report).await?;
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
    journal: &dyn DropJournal,
    report: &mut PurgeReport,
) -> Result<(), StoreError> {
    if let Some(skew) = excessive_clock_skew(store, plan.server_time).await? {
        report.clock_skew = Some(skew);
        return Ok(());
    }
    for old in store.list_old_partitions(before, &plan.publishers).await? {
        let pin_reason = match (&old.pin_reason, plan.dry_run) {
            (Some(pin_reason), _) => Some(pin_reason.clone()),
            (None, true) => None,
            (None, false) => {
                let range =
                    DroppedRange { first_id: old.partition.first_id, end_id: old.partition.end_id };
                journal.record_drop(range).await?;
                let drop = store.drop_partition(&old.partition, &plan.publishers, plan.now);
                let pin_reason = drop.await?;
                if pin_reason.is_some() {
                    record_kept_range(store, range, journal).await?;
                }
                pin_reason
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

/// Records the part of a range that was not dropped. Its first executions may be dropped.
async fn record_kept_range(
    store: &dyn Store,
    range: DroppedRange,
    journal: &dyn DropJournal,
) -> Result<(), StoreError> {
    let dropped = store.list_dropped_ranges().await?;
    let dropped = dropped.iter().find(|dropped| dropped.first_id == range.first_id);
    let first_id = dropped.map_or(range.first_id, |dropped| dropped.end_id);
    if first_id < range.end_id {
        journal.record_kept(DroppedRange { first_id, ..range }).await?;
    }
    Ok(())
}

/// Returns the clock skew between server and store if it is too large to drop anything.
async fn excessive_clock_skew(
    store: &dyn Store,
    server_time: Timestamp,
) -> Result<Option<Millis>, StoreError> {
    let Some(clock) = store.database_clock().await? else {
        return Ok(None);
    };
    let skew = clock.max(server_time).duration_since(clock.min(server_time));
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
