//! Leasing of commands to workers, and renewal of leases.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::LeaseToken;
use noetl_api::command::{
    HeartbeatRequest, HeartbeatResponse, HeldLease, LeaseRenewal, LeaseRequest, LeaseResponse,
    LeasedCommand,
};
use noetl_engine::decode_record;
use noetl_messaging::{Poller, WakeReason};
use noetl_store::{Fence, LeaseCondition, LeaseExtension, LeaseTerms};
use noetl_types::limits::LeaseBatchSize;
use noetl_types::{ErrorCode, Millis, PoolName, Timestamp};

use super::driver::{LeaseGrant, build_leased_command};
use super::error::RuntimeError;
use super::rng;
use super::start::check_long_poll_wait;
use super::{Core, Runtime};

/// Maximum leases per heartbeat.
const MAX_HEARTBEAT_LEASES: usize = 1_024;
/// Range of lease durations that a worker may request, in milliseconds.
const LEASE_MS_RANGE: std::ops::RangeInclusive<u64> = 5_000..=3_600_000;

impl Runtime {
    /// Leases commands to a worker. If there are none, waits for the time the worker requested.
    pub async fn lease_commands(
        &self,
        request: LeaseRequest,
    ) -> Result<LeaseResponse, RuntimeError> {
        let max_wait = check_long_poll_wait(request.wait_ms)?;
        let queue = self.auth_context().leasable_queue(&request.pool)?;
        let poller = Poller {
            worker: request.worker_id,
            kinds: request.kinds,
            max: usize::try_from(request.max.get()).unwrap_or(1),
            lease: self.core.check_lease_duration(request.lease_ms)?,
        };
        let commands = self.core.wait_for_commands(&queue, poller, max_wait).await?;
        Ok(LeaseResponse { commands, poll_after_ms: 0 })
    }

    /// Renews the leases of a heartbeat.
    pub async fn renew_leases(
        &self,
        request: HeartbeatRequest,
    ) -> Result<HeartbeatResponse, RuntimeError> {
        if request.leases.len() > MAX_HEARTBEAT_LEASES {
            let text = format!("a heartbeat may name at most {MAX_HEARTBEAT_LEASES} leases");
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        let duration = self.core.check_lease_duration(request.extend_ms)?;
        let until = self.now().saturating_add(duration);
        // The token of a lease that was claimed by name is not secret, so the tenant is checked
        // too.
        let mut ownership = Vec::with_capacity(request.leases.len());
        for lease in &request.leases {
            ownership.push(self.owns_lease(lease).await?);
        }
        let fences = request.leases.iter().zip(&ownership);
        let fences = fences.filter(|(_, is_own)| **is_own);
        let fences = fences.map(|(lease, _)| lease_fence(lease));
        let mut renewed = self.core.store.extend_leases(fences.collect(), until).await?.into_iter();
        let mut leases = Vec::with_capacity(request.leases.len());
        for (lease, is_own) in request.leases.iter().zip(ownership) {
            let renewed = if is_own { renewed.next() } else { None };
            leases.push(
                self.lease_renewal_answer(lease, renewed.unwrap_or(LeaseExtension::Lost)).await?,
            );
        }
        Ok(HeartbeatResponse { leases })
    }

    /// True if a lease belongs to the caller's tenant.
    async fn owns_lease(&self, lease: &HeldLease) -> Result<bool, RuntimeError> {
        if let Some(owner) = self.core.cached_command_tenant(lease.execution_id, lease.command_id) {
            return Ok(owner == *self.tenant());
        }
        match self.command_row(lease.command_id).await {
            Ok(_) => Ok(true),
            Err(RuntimeError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the answer for one lease of a heartbeat.
    async fn lease_renewal_answer(
        &self,
        lease: &HeldLease,
        extension: LeaseExtension,
    ) -> Result<LeaseRenewal, RuntimeError> {
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
                let is_over = match self.command_row(lease.command_id).await {
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
}

/// Returns the fence that a lease must pass.
pub(super) fn lease_fence(lease: &HeldLease) -> Fence {
    Fence {
        command_id: lease.command_id,
        attempt: lease.attempt,
        condition: LeaseCondition::Token(noetl_store::LeaseToken::from_bytes(
            *lease.lease_token.as_bytes(),
        )),
    }
}

impl Core {
    pub(super) fn check_lease_duration(
        &self,
        requested_ms: Option<u64>,
    ) -> Result<Millis, RuntimeError> {
        match requested_ms {
            None => Ok(self.settings.lease_duration),
            Some(ms) if LEASE_MS_RANGE.contains(&ms) => Ok(Millis::from_ms(ms)),
            Some(ms) => {
                let (min, max) = (LEASE_MS_RANGE.start(), LEASE_MS_RANGE.end());
                let text = format!("a lease of {ms} ms is out of range {min}..{max}");
                Err(RuntimeError::refused(ErrorCode::OutOfRange, text))
            }
        }
    }

    /// Returns commands for a worker: from the store, or those that are issued while it waits.
    async fn wait_for_commands(
        self: &Arc<Self>,
        pool: &PoolName,
        poller: Poller,
        max_wait: Duration,
    ) -> Result<Vec<LeasedCommand>, RuntimeError> {
        let deadline = tokio::time::Instant::now() + max_wait;
        loop {
            let mark = self.matcher.backlog_mark(pool);
            if mark.has_backlog {
                let commands = self.grant_leases(pool, &poller, poller.max).await?;
                if !commands.is_empty() {
                    return Ok(commands);
                }
            }
            let remaining = deadline.saturating_duration_since(tokio::time::Instant::now());
            if remaining.is_zero() || self.shutdown.is_cancelled() {
                return Ok(Vec::new());
            }
            let Some(wait) = self.matcher.start_wait(pool, poller.clone(), mark) else {
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
    /// Calls are serialized: two concurrent queries skip the rows that the other has locked, and
    /// both would conclude that the queue is empty.
    pub(super) async fn grant_leases(
        &self,
        pool: &PoolName,
        poller: &Poller,
        max: usize,
    ) -> Result<Vec<LeasedCommand>, RuntimeError> {
        let _guard = self.grant_lock.lock().await;
        let mark = self.matcher.backlog_mark(pool);
        if !mark.has_backlog {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let token = rng::random_lease_token(&*self.rng);
        let request = noetl_store::LeaseRequest {
            pool: pool.clone(),
            kinds: poller.kinds.clone(),
            max_commands: LeaseBatchSize::clamped(i64::try_from(max).unwrap_or(i64::MAX)),
            terms: LeaseTerms {
                worker: poller.worker.clone(),
                token: noetl_store::LeaseToken::from_bytes(*token.as_bytes()),
                lease_until: now.saturating_add(poller.lease),
                now,
            },
        };
        let leased = self.store.lease_commands(request).await?;
        // Commands that a worker with limited tool kinds leaves may suit another worker.
        if leased.len() < max && poller.kinds.is_none() {
            self.matcher.clear_backlog(pool, mark);
        }
        Ok(leased
            .into_iter()
            .inspect(|leased| {
                let issued_at = leased.issued.event.created_at;
                self.metrics.record_lease_wait(now.duration_since(issued_at));
            })
            .filter_map(|leased| to_leased_command(&leased, token, now))
            .collect())
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
