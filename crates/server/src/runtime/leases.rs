//! Commands go out to workers, and leases are kept.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::LeaseToken;
use noetl_api::command::{
    HeartbeatAnswer, HeartbeatRequest, HeldLease, KeptLease, LeaseAnswer, LeaseRequest,
    LeasedCommand,
};
use noetl_bus::{Taker, Wake};
use noetl_engine::decode;
use noetl_store::{Claim, Extension, Fence, Holder};
use noetl_types::limits::LeaseBatch;
use noetl_types::{ErrorCode, Millis, PoolName, Timestamp};

use super::driver::{Granted, compose};
use super::entropy;
use super::error::RuntimeError;
use super::start::within_long_poll;
use super::{Core, Runtime};

/// Leases that a heartbeat may name.
const MOST_LEASES: usize = 1_024;
/// The shortest and the longest lease that a worker may ask for.
const LEASES: std::ops::RangeInclusive<u64> = 5_000..=3_600_000;

impl Runtime {
    /// Hands out commands, waiting for them as long as the worker says.
    pub async fn lease(&self, request: LeaseRequest) -> Result<LeaseAnswer, RuntimeError> {
        let patience = within_long_poll(request.wait_ms)?;
        let queue = self.behalf().queue_to_lease_from(&request.pool)?;
        let taker = Taker {
            worker: request.worker_id,
            kinds: request.kinds,
            max: usize::try_from(request.max.get()).unwrap_or(1),
            lease: self.core.lease_length(request.lease_ms)?,
        };
        let commands = self.core.work_for(&queue, taker, patience).await?;
        Ok(LeaseAnswer {
            commands,
            poll_after_ms: 0,
        })
    }

    /// Keeps leases.
    pub async fn keep(&self, request: HeartbeatRequest) -> Result<HeartbeatAnswer, RuntimeError> {
        if request.leases.len() > MOST_LEASES {
            let text = format!("a heartbeat names at most {MOST_LEASES} leases");
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        let length = self.core.lease_length(request.extend_ms)?;
        let until = self.now().saturating_add(length);
        // The token of a lease that was claimed by name is no secret, so it is not enough.
        let mut own = Vec::with_capacity(request.leases.len());
        for lease in &request.leases {
            own.push(self.owns(lease).await?);
        }
        let fences = request.leases.iter().zip(&own);
        let fences = fences.filter(|(_, is_own)| **is_own);
        let fences = fences.map(|(lease, _)| fence_of(lease));
        let mut kept = self
            .core
            .store
            .extend(fences.collect(), until)
            .await?
            .into_iter();
        let mut leases = Vec::with_capacity(request.leases.len());
        for (lease, is_own) in request.leases.iter().zip(own) {
            let kept = if is_own { kept.next() } else { None };
            leases.push(self.kept(lease, kept.unwrap_or(Extension::Lost)).await?);
        }
        Ok(HeartbeatAnswer { leases })
    }

    /// Whether a lease is of the caller's tenant.
    async fn owns(&self, lease: &HeldLease) -> Result<bool, RuntimeError> {
        if let Some(owner) = self.core.owner_of(lease.execution_id, lease.command_id) {
            return Ok(owner == *self.tenant());
        }
        match self.command_row(lease.command_id).await {
            Ok(_) => Ok(true),
            Err(RuntimeError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What became of the wish to keep a lease, as the worker is told.
    async fn kept(&self, lease: &HeldLease, kept: Extension) -> Result<KeptLease, RuntimeError> {
        let told = KeptLease {
            command_id: lease.command_id,
            ok: false,
            lease_until: None,
            cancel: None,
            code: None,
        };
        let until = match kept {
            Extension::Until(until) => until,
            Extension::Lost => {
                // One of another tenant is as good as none.
                let is_over = match self.command_row(lease.command_id).await {
                    Ok(command) => command.status.is_terminal(),
                    Err(error @ (RuntimeError::Store(_) | RuntimeError::Machine(_))) => {
                        return Err(error);
                    }
                    Err(RuntimeError::Refused(_)) => true,
                };
                return Ok(KeptLease {
                    cancel: Some(true),
                    code: Some(if is_over {
                        ErrorCode::AlreadyTerminal
                    } else {
                        ErrorCode::NotLeaseHolder
                    }),
                    ..told
                });
            }
        };
        Ok(KeptLease {
            ok: true,
            lease_until: Some(until),
            ..told
        })
    }
}

/// What must be true for a lease to be somebody's.
pub(super) fn fence_of(lease: &HeldLease) -> Fence {
    Fence {
        command_id: lease.command_id,
        attempt: lease.attempt,
        holder: Holder::Token(noetl_store::LeaseToken::from_bytes(
            *lease.lease_token.as_bytes(),
        )),
    }
}

impl Core {
    pub(super) fn lease_length(&self, wanted: Option<u64>) -> Result<Millis, RuntimeError> {
        match wanted {
            None => Ok(self.settings.lease),
            Some(ms) if LEASES.contains(&ms) => Ok(Millis::from_ms(ms)),
            Some(ms) => {
                let (least, most) = (LEASES.start(), LEASES.end());
                let text = format!("a lease of {ms} ms is out of range {least}..{most}");
                Err(RuntimeError::refused(ErrorCode::OutOfRange, text))
            }
        }
    }

    /// Finds work for a worker: what lies in the store, or else what is issued while it waits.
    async fn work_for(
        self: &Arc<Self>,
        pool: &PoolName,
        taker: Taker,
        patience: Duration,
    ) -> Result<Vec<LeasedCommand>, RuntimeError> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let mark = self.desk.mark(pool);
            if mark.has_backlog {
                let found = self.grant(pool, &taker, taker.max).await?;
                if !found.is_empty() {
                    return Ok(found);
                }
            }
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() || self.shutdown.is_cancelled() {
                return Ok(Vec::new());
            }
            let Some(wait) = self.desk.wait(pool, taker.clone(), mark) else {
                continue;
            };
            match wait.woken(left).await {
                Some(Wake::Work(commands)) => return Ok(commands),
                Some(Wake::Look) => {}
                None => return Ok(Vec::new()),
            }
        }
    }

    /// Grants commands that lie in the store.
    ///
    /// One call at a time: two that look at once pass over what the other has its hands on, and
    /// would both believe that nothing is left.
    pub(super) async fn grant(
        &self,
        pool: &PoolName,
        taker: &Taker,
        max: usize,
    ) -> Result<Vec<LeasedCommand>, RuntimeError> {
        let _turn = self.granting.lock().await;
        let mark = self.desk.mark(pool);
        if !mark.has_backlog {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let token = entropy::token(&*self.chance);
        let request = noetl_store::LeaseRequest {
            pool: pool.clone(),
            kinds: taker.kinds.clone(),
            max: LeaseBatch::clamped(i64::try_from(max).unwrap_or(i64::MAX)),
            claim: Claim {
                worker: taker.worker.clone(),
                token: noetl_store::LeaseToken::from_bytes(*token.as_bytes()),
                lease_until: now.saturating_add(taker.lease),
                now,
            },
        };
        let leased = self.store.lease(request).await?;
        // What a worker without some tools leaves may be for another.
        if leased.len() < max && taker.kinds.is_none() {
            self.desk.emptied(pool, mark);
        }
        Ok(leased
            .into_iter()
            .inspect(|leased| {
                let issued_at = leased.issued.event.created_at;
                self.metrics.granted(now.since(issued_at));
            })
            .filter_map(|leased| handed(&leased, token, now))
            .collect())
    }
}

/// A command of the store as its worker gets it.
fn handed(
    leased: &noetl_store::LeasedCommand,
    token: LeaseToken,
    now: Timestamp,
) -> Option<LeasedCommand> {
    let command = &leased.command;
    let event = decode(&leased.issued)
        .inspect_err(|error| tracing::error!(%error, "a command cannot be read"))
        .ok()?;
    let granted = Granted {
        attempt: command.attempt,
        token,
        claimed_at: now,
        lease_until: command.lease?.until,
    };
    let catalog_id = leased.issued.event.catalog_id?;
    compose(command.execution_id, catalog_id, &event, &granted)
}
