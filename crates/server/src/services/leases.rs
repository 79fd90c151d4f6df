//! Leasing of commands to workers, and renewal of leases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_api::command::{
    HeartbeatRequest, HeartbeatResponse, HeldLease, LeaseRenewal, LeaseRequest, LeaseResponse,
    LeasedCommand,
};
use noetl_engine::decode_record;
use noetl_messaging::{Poller, WakeReason};
use noetl_store::{Fence, LeaseCondition, LeaseExtension, LeaseTerms};
use noetl_types::limits::LeaseBatchSize;
use noetl_types::{ErrorCode, LeaseToken, Millis, PoolName, Timestamp};

use crate::access::CallContext;
use crate::driver::{Driver, LeaseGrant, build_leased_command};
use crate::error::{Result, RuntimeError};
use crate::rng;
use crate::services::Infrastructure;
use crate::services::executions::wait::check_long_poll_wait;

/// Maximum leases per heartbeat.
const MAX_HEARTBEAT_LEASES: usize = 1_024;
/// Range of lease durations that a worker may request, in milliseconds.
const LEASE_MS_RANGE: std::ops::RangeInclusive<u64> = 5_000..=MAX_LEASE_DURATION.as_ms();
pub(crate) const MAX_LEASE_DURATION: Millis = Millis::from_hours(1);

/// Pools without a lease query whose locks are kept.
const MAX_IDLE_GRANT_LOCKS: usize = 1_000;

/// One lock per pool, held while its commands are leased from the store.
#[derive(Default)]
struct GrantLocks(Mutex<HashMap<PoolName, Arc<tokio::sync::Mutex<()>>>>);

impl GrantLocks {
    fn lock_for_pool(&self, pool: &PoolName) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.len() >= MAX_IDLE_GRANT_LOCKS && !locks.contains_key(pool) {
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(locks.entry(pool.clone()).or_default())
    }
}

/// Leases commands to workers.
pub struct Leases {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) driver: Arc<Driver>,
    grant_locks: GrantLocks,
}

impl Leases {
    pub(crate) fn new(infra: &Arc<Infrastructure>, driver: &Arc<Driver>) -> Self {
        Self {
            infra: Arc::clone(infra),
            driver: Arc::clone(driver),
            grant_locks: GrantLocks::default(),
        }
    }

    /// Leases commands to a worker. If there are none, waits for the time the worker requested.
    pub async fn lease_commands(
        &self,
        ctx: &CallContext,
        request: LeaseRequest,
    ) -> Result<LeaseResponse> {
        let max_wait = check_long_poll_wait(request.wait_ms)?;
        let queue = ctx.auth.leasable_queue(&request.pool)?;
        let poller = Poller {
            worker: request.worker_id,
            kinds: request.kinds,
            max: usize::try_from(request.max.get()).unwrap_or(1),
            lease: self.check_lease_duration(request.lease_ms)?,
        };
        let received = tokio::time::Instant::now();
        let commands = self.wait_for_commands(&queue, poller, max_wait).await?;
        let now = self.infra.now();
        let ages = commands.iter().map(|command| now.duration_since(command.claimed_at));
        let age = ages.max().unwrap_or_default().into();
        let waited_ms = Millis::from(received.elapsed().saturating_sub(age)).as_ms();
        Ok(LeaseResponse { commands, poll_after_ms: 0, waited_ms })
    }

    /// Renews the leases of a heartbeat. If the request has a wait time, the answer is held until a
    /// command of it is stopped.
    pub async fn renew_leases(
        &self,
        ctx: &CallContext,
        request: HeartbeatRequest,
    ) -> Result<HeartbeatResponse> {
        let max_wait = check_long_poll_wait(request.wait_ms)?;
        if max_wait.is_zero() {
            return self.renew_now(ctx, &request).await;
        }
        let commands = request.leases.iter().map(|lease| lease.command_id).collect();
        // Started before the renewal, so that no end is missed.
        let watch = self.driver.waiters.command_watches.watch_commands(commands);
        let response = self.renew_now(ctx, &request).await?;
        if response.leases.iter().any(|renewal| !renewal.ok) {
            return Ok(response);
        }
        tokio::select! {
            () = watch.wait_for_end() => self.renew_now(ctx, &request).await,
            () = tokio::time::sleep(max_wait) => Ok(response),
            () = self.infra.shutdown.cancelled() => Ok(response),
        }
    }

    async fn renew_now(
        &self,
        ctx: &CallContext,
        request: &HeartbeatRequest,
    ) -> Result<HeartbeatResponse> {
        if request.leases.len() > MAX_HEARTBEAT_LEASES {
            let text = format!("a heartbeat may name at most {MAX_HEARTBEAT_LEASES} leases");
            return Err(RuntimeError::invalid(text));
        }
        let duration = self.check_lease_duration(request.extend_ms)?;
        let until = self.infra.now().saturating_add(duration);
        // The token of a lease that was claimed by name is not secret, so the tenant is checked
        // too.
        let mut ownership = Vec::with_capacity(request.leases.len());
        for lease in &request.leases {
            ownership.push(self.owns_lease(ctx, lease).await?);
        }
        let fences = request.leases.iter().zip(&ownership);
        let fences = fences.filter(|(_, is_own)| **is_own);
        let fences = fences.map(|(lease, _)| lease_fence(lease));
        let mut renewed =
            self.infra.store.extend_leases(fences.collect(), until).await?.into_iter();
        let mut leases = Vec::with_capacity(request.leases.len());
        for (lease, is_own) in request.leases.iter().zip(ownership) {
            let renewed = if is_own { renewed.next() } else { None };
            leases.push(
                self.lease_renewal_answer(ctx, lease, renewed.unwrap_or(LeaseExtension::Lost))
                    .await?,
            );
        }
        Ok(HeartbeatResponse { leases })
    }

    /// True if a lease belongs to the caller's tenant.
    pub(crate) async fn owns_lease(&self, ctx: &CallContext, lease: &HeldLease) -> Result<bool> {
        if let Some(owner) = self.driver.cached_command_tenant(lease.execution_id, lease.command_id)
        {
            return Ok(owner == *ctx.tenant());
        }
        match ctx.visible_command(self.infra.store(), lease.command_id).await {
            Ok(_) => Ok(true),
            Err(RuntimeError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the answer for one lease of a heartbeat.
    async fn lease_renewal_answer(
        &self,
        ctx: &CallContext,
        lease: &HeldLease,
        extension: LeaseExtension,
    ) -> Result<LeaseRenewal> {
        let answer = LeaseRenewal {
            command_id: lease.command_id,
            ok: false,
            lease_until: None,
            cancel: None,
            code: None,
        };
        let until = match extension {
            LeaseExtension::Until(until) => until,
            LeaseExtension::Lost => {
                // A command of another tenant is treated as not found.
                let is_over = match ctx.visible_command(self.infra.store(), lease.command_id).await
                {
                    Ok(command) => command.status.is_terminal(),
                    Err(error @ (RuntimeError::Store(_) | RuntimeError::Machine(_))) => {
                        return Err(error);
                    }
                    Err(RuntimeError::Refused(_)) => true,
                };
                return Ok(LeaseRenewal {
                    cancel: Some(true),
                    code: Some(if is_over {
                        ErrorCode::AlreadyTerminal
                    } else {
                        ErrorCode::NotLeaseHolder
                    }),
                    ..answer
                });
            }
        };
        Ok(LeaseRenewal { ok: true, lease_until: Some(until), ..answer })
    }

    pub(crate) fn check_lease_duration(&self, requested_ms: Option<u64>) -> Result<Millis> {
        match requested_ms {
            None => Ok(self.infra.settings.lease_duration),
            Some(ms) if LEASE_MS_RANGE.contains(&ms) => Ok(Millis::from_ms(ms)),
            Some(ms) => {
                let (min, max) = (LEASE_MS_RANGE.start(), LEASE_MS_RANGE.end());
                let text = format!("a lease of {ms} ms is out of range {min}..{max}");
                Err(RuntimeError::out_of_range(text))
            }
        }
    }

    /// Returns commands for a worker: from the store, or those that are issued while it waits.
    async fn wait_for_commands(
        &self,
        pool: &PoolName,
        poller: Poller,
        max_wait: Duration,
    ) -> Result<Vec<LeasedCommand>> {
        let deadline = tokio::time::Instant::now() + max_wait;
        loop {
            self.infra.clock.check_may_grant()?;
            let mark = self.driver.waiters.matcher.backlog_mark(pool);
            if mark.has_backlog {
                let commands = self.grant_leases(pool, &poller, poller.max).await?;
                if !commands.is_empty() {
                    return Ok(commands);
                }
            }
            let remaining = deadline.saturating_duration_since(tokio::time::Instant::now());
            if remaining.is_zero() || self.infra.shutdown.is_cancelled() {
                return Ok(Vec::new());
            }
            let Some(wait) = self.driver.waiters.matcher.start_wait(pool, poller.clone(), mark)
            else {
                continue;
            };
            match wait.wait_for_wake(remaining).await {
                Some(WakeReason::Work(commands)) => return Ok(commands),
                Some(WakeReason::Recheck) => {}
                None => return Ok(Vec::new()),
            }
        }
    }

    /// Leases pending commands of the store.
    ///
    /// Calls for the same pool are serialized: two concurrent queries skip the rows that the other has locked, and
    /// both would conclude that the queue is empty.
    pub(crate) async fn grant_leases(
        &self,
        pool: &PoolName,
        poller: &Poller,
        max: usize,
    ) -> Result<Vec<LeasedCommand>> {
        let lock = self.grant_locks.lock_for_pool(pool);
        let _guard = lock.lock().await;
        let mark = self.driver.waiters.matcher.backlog_mark(pool);
        if !mark.has_backlog {
            return Ok(Vec::new());
        }
        let now = self.infra.now();
        let token = rng::random_lease_token(&*self.infra.rng);
        let request = noetl_store::LeaseRequest {
            pool: pool.clone(),
            kinds: poller.kinds.clone(),
            max_commands: LeaseBatchSize::clamped(i64::try_from(max).unwrap_or(i64::MAX)),
            terms: LeaseTerms {
                worker: poller.worker.clone(),
                token,
                lease_until: now.saturating_add(poller.lease),
                now,
            },
        };
        let leased = self.infra.store.lease_commands(request).await?;
        // Commands that a worker with limited tool kinds leaves may suit another worker.
        if leased.len() < max && poller.kinds.is_none() {
            self.driver.waiters.matcher.clear_backlog(pool, mark);
        }
        Ok(leased
            .into_iter()
            .inspect(|leased| {
                let issued_at = leased.issued.event.created_at;
                self.infra.metrics.record_lease_wait(now.duration_since(issued_at));
            })
            .filter_map(|leased| to_leased_command(&leased, token, now))
            .collect())
    }
}

/// Returns the fence that a lease must pass.
pub(crate) fn lease_fence(lease: &HeldLease) -> Fence {
    Fence {
        command_id: lease.command_id,
        attempt: lease.attempt,
        condition: LeaseCondition::Token(lease.lease_token),
    }
}

/// Converts a command of the store to the form that its worker gets.
fn to_leased_command(
    leased: &noetl_store::LeasedCommand,
    token: LeaseToken,
    now: Timestamp,
) -> Option<LeasedCommand> {
    let command = &leased.command;
    let event = decode_record(&leased.issued)
        .inspect_err(|error| tracing::error!(%error, "a command cannot be decoded"))
        .ok()?;
    let grant = LeaseGrant {
        attempt: command.attempt,
        token,
        claimed_at: now,
        lease_until: command.lease?.until,
    };
    let catalog_id = leased.issued.event.catalog_id?;
    build_leased_command(command.execution_id, catalog_id, &event, &grant)
}

#[cfg(test)]
mod tests;
