//! Limits on the live executions of a tenant, and on the live descendants of an execution.
//!
//! A start does not count executions. It uses a recent count plus the starts of this server since
//! then. Other servers start and end executions too, so the count is refreshed in the background at
//! most once a second while there are starts. It is also refreshed before a start is refused, so
//! that ended executions do not cause a refusal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use noetl_types::{ErrorCode, ExecutionId, TenantId};
use tokio::time::Instant;

use crate::error::{Result, RuntimeError, error_chain};
use crate::services::Infrastructure;

/// Age up to which a count is used without a refresh.
const MAX_COUNT_AGE: Duration = Duration::from_secs(1);

/// Pause after a count, as a multiple of its duration. A group at its limit that keeps sending
/// starts uses at most a tenth of the store's time.
const RECOUNT_PAUSE_FACTOR: u32 = 9;

/// Maximum cached groups. Inactive groups are evicted first and need a new count later.
const MAX_CACHED_GROUPS: usize = 10_000;

/// A group of executions whose live members are limited.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum QuotaGroup {
    /// The executions of a tenant.
    Tenant(TenantId),
    /// The descendants of an execution that no other execution started.
    Descendants(ExecutionId),
}

/// Limits the live executions of each group.
pub(crate) struct Quotas {
    infra: Arc<Infrastructure>,
    /// Usage of the groups in which executions start.
    groups: Mutex<HashMap<QuotaGroup, Arc<GroupQuota>>>,
}

/// Usage of one group.
#[derive(Debug, Default)]
struct GroupQuota {
    usage: Mutex<GroupUsage>,
    /// Held while counting.
    count_lock: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct GroupUsage {
    live_count: Option<LiveCount>,
    /// Admitted starts that are not committed yet and so are in no count.
    pending_starts: u64,
    /// Executions started by this server since it booted.
    started: u64,
}

/// Number of live executions at some time.
#[derive(Debug, Clone, Copy)]
struct LiveCount {
    live: u64,
    /// Value of the start counter when the count began. Later starts may or may not be included in
    /// the count.
    started: u64,
    /// Time of the last count, or of the last one that was begun.
    counted_at: Instant,
    /// Earliest time of the next forced count.
    recount_after: Instant,
}

/// Decision about a start, based on the cached usage.
enum QuotaDecision {
    /// Admitted.
    Admit(StartAdmission),
    /// Admitted by a stale count.
    AdmitStale(StartAdmission),
    /// There is no count, or the limit seems to be reached: a new count is required.
    NeedsCount,
}

/// An admitted start. If it is dropped without a commit, it no longer counts.
#[derive(Debug)]
pub(crate) struct StartAdmission {
    group: Arc<GroupQuota>,
    is_committed: bool,
}

impl StartAdmission {
    /// Marks the start as committed, so that counts include it from now on.
    pub(crate) fn commit_start(mut self) {
        self.is_committed = true;
    }
}

impl Drop for StartAdmission {
    fn drop(&mut self) {
        let mut usage = self.group.usage();
        usage.pending_starts = usage.pending_starts.saturating_sub(1);
        usage.started += u64::from(self.is_committed);
    }
}

impl Quotas {
    pub(crate) fn new(infra: &Arc<Infrastructure>) -> Self {
        Self { infra: Arc::clone(infra), groups: Mutex::default() }
    }

    fn group_quota(&self, group: &QuotaGroup) -> Arc<GroupQuota> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.len() >= MAX_CACHED_GROUPS && !groups.contains_key(group) {
            groups.retain(|_, quota| Arc::strong_count(quota) > 1);
        }
        Arc::clone(groups.entry(group.clone()).or_default())
    }

    fn limit(&self, group: &QuotaGroup) -> u32 {
        match group {
            QuotaGroup::Tenant(_) => self.infra.settings.max_live_executions,
            QuotaGroup::Descendants(_) => self.infra.settings.max_live_descendants,
        }
    }

    /// Admits an execution to a group unless its limit is reached.
    pub(crate) async fn admit_within_quota(
        self: &Arc<Self>,
        group: QuotaGroup,
    ) -> Result<StartAdmission> {
        let (quota, limit) = (self.group_quota(&group), self.limit(&group));
        let now = Instant::now();
        match quota.try_admit(limit, now) {
            QuotaDecision::Admit(admission) => return Ok(admission),
            QuotaDecision::AdmitStale(admission) => {
                self.recount_in_background(group, quota);
                return Ok(admission);
            }
            QuotaDecision::NeedsCount => {}
        }
        {
            let _guard = quota.count_lock.lock().await;
            if !quota.has_recent_count(now, Instant::now()) {
                self.count_live_executions(&group, &quota).await?;
            }
        }
        match quota.try_admit(limit, Instant::now()) {
            QuotaDecision::Admit(admission) | QuotaDecision::AdmitStale(admission) => Ok(admission),
            QuotaDecision::NeedsCount => Err(quota_exceeded(&group, limit)),
        }
    }

    fn recount_in_background(self: &Arc<Self>, group: QuotaGroup, quota: Arc<GroupQuota>) {
        let this = Arc::clone(self);
        self.infra.tasks.spawn(async move {
            let Ok(_guard) = quota.count_lock.try_lock() else {
                return;
            };
            if let Err(error) = this.count_live_executions(&group, &quota).await {
                tracing::warn!(error = %error_chain(&error), "live executions could not be counted");
            }
        });
    }

    async fn count_live_executions(&self, group: &QuotaGroup, quota: &GroupQuota) -> Result<()> {
        let (started, count_started) = (quota.usage().started, Instant::now());
        let (store, limit) = (&self.infra.store, self.limit(group));
        let live = match group {
            QuotaGroup::Tenant(tenant_id) => store.count_live_executions(tenant_id, limit).await?,
            QuotaGroup::Descendants(root) => store.count_live_descendants(*root, limit).await?,
        };
        let now = Instant::now();
        quota.usage().live_count = Some(LiveCount {
            live: live.into(),
            started,
            counted_at: now,
            recount_after: now
                + now.saturating_duration_since(count_started) * RECOUNT_PAUSE_FACTOR,
        });
        Ok(())
    }
}

impl GroupQuota {
    fn usage(&self) -> MutexGuard<'_, GroupUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a start if the cached usage is below the limit.
    fn try_admit(self: &Arc<Self>, limit: u32, now: Instant) -> QuotaDecision {
        let mut usage = self.usage();
        let Some(count) = usage.live_count else {
            return QuotaDecision::NeedsCount;
        };
        let started_since = usage.started.saturating_sub(count.started);
        if count.live + started_since + usage.pending_starts >= u64::from(limit) {
            return QuotaDecision::NeedsCount;
        }
        usage.pending_starts += 1;
        let admission = StartAdmission { group: Arc::clone(self), is_committed: false };
        if now.saturating_duration_since(count.counted_at) < MAX_COUNT_AGE {
            return QuotaDecision::Admit(admission);
        }
        // Prevents the next starts from refreshing the count too.
        usage.live_count = Some(LiveCount { counted_at: now, ..count });
        QuotaDecision::AdmitStale(admission)
    }

    /// True if a count was made after `since`, or so recently that a new one is not due.
    fn has_recent_count(&self, since: Instant, now: Instant) -> bool {
        let is_recent = |count: LiveCount| count.counted_at > since || now < count.recount_after;
        self.usage().live_count.is_some_and(is_recent)
    }
}

fn quota_exceeded(group: &QuotaGroup, limit: u32) -> RuntimeError {
    let text = match group {
        QuotaGroup::Tenant(tenant_id) => format!(
            "tenant `{tenant_id}` has reached its limit of {limit} live executions; wait until some \
                have ended, or cancel some"
        ),
        QuotaGroup::Descendants(root) => format!(
            "execution {root} has reached its limit of {limit} live descendants; start fewer \
                children at a time, or raise NOETL_MAX_LIVE_DESCENDANTS"
        ),
    };
    RuntimeError::refused(ErrorCode::QuotaExceeded, text)
}

#[cfg(test)]
mod tests;
