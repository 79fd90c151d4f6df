//! Claims of classic workers: commands that they read and claim by id, and hold while they send
//! heartbeats.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use noetl_api::classic::{ClaimRequest, ClaimResponse, ClassicCommand};
use noetl_engine::EngineInput;
use noetl_store::{
    Command, Fence, LeaseCondition, LeaseExtension, LeaseOutcome, LeaseRelease, LeaseTerms,
};
use noetl_types::{CommandId, CommandStatus, ErrorCode, EventId, Text, Timestamp, WorkerId};

use super::derive_lease_token;
use crate::access::CallContext;
use crate::classic::ClassicApi;
use crate::classic::context::{IssuedCommand, to_classic_command};
use crate::driver::Message;
use crate::error::{Result, RuntimeError};
use crate::services::Infrastructure;
use crate::services::workers::{WorkerCommandPages, stored_worker_name};

impl ClassicApi {
    /// Returns a command by the event that issued it.
    pub async fn classic_command(
        &self,
        ctx: &CallContext,
        event_id: EventId,
    ) -> Result<ClassicCommand> {
        let command = ctx.visible_command(self.infra.store(), event_id.into()).await?;
        let mut issued = self.load_issued_command(&command).await?;
        self.load_referenced_values(&mut issued.context).await?;
        to_classic_command(&issued, &command)
    }

    /// Loads an issued command with its definition.
    pub(crate) async fn load_issued_command(&self, command: &Command) -> Result<IssuedCommand> {
        let event_id = command.command_id.into();
        let issued = self.infra.store().find_event(command.execution_id, event_id).await?;
        let issued = issued.ok_or_else(RuntimeError::no_command)?;
        self.load_issued(&issued.record).await
    }

    /// Leases a command to a worker that names it. A worker that already holds it gets it again.
    pub async fn claim_command(
        &self,
        ctx: &CallContext,
        event_id: EventId,
        request: ClaimRequest,
    ) -> Result<ClaimResponse> {
        let command_id = CommandId::from(event_id);
        let worker = request.worker_id;
        ctx.auth.check_claim_deadline(self.infra.now())?;
        ctx.visible_command(self.infra.store(), command_id).await?;
        self.infra.clock.check_may_grant()?;
        let now = self.infra.now();
        let claim = LeaseTerms {
            worker: worker.clone(),
            token: derive_lease_token(command_id, &worker),
            lease_until: self.claims.claim_expiry(now, now),
            now,
        };
        let claimed = self.infra.store().try_lease_command(command_id, claim).await?;
        let claimed = claimed.ok_or_else(RuntimeError::no_command)?;
        let lease_until = if claimed.is_granted {
            self.record_claim(&claimed, &worker).await?;
            claimed.leased.command.lease.map(|lease| lease.until)
        } else {
            self.renew_held_claim(&claimed.leased.command, &worker, now).await?
        };
        self.claims.add_claim(ctx, &worker, command_id);
        let mut issued = self.load_issued(&claimed.leased.issued).await?;
        self.load_referenced_values(&mut issued.context).await?;
        let command = &claimed.leased.command;
        Ok(ClaimResponse {
            status: "ok".into(),
            event_id: event_id.into(),
            command: to_classic_command(&issued, command)?,
            lease_token: command
                .lease
                .map_or_else(|| derive_lease_token(command_id, &worker), |lease| lease.token),
            lease_until: lease_until.unwrap_or(now),
            attempt: command.attempt,
        })
    }

    /// Records the claim in the log. From now on its worker is identified by name alone.
    async fn record_claim(&self, claimed: &LeaseOutcome, worker: &WorkerId) -> Result<()> {
        let command = &claimed.leased.command;
        let fence = Fence {
            command_id: command.command_id,
            attempt: command.attempt,
            condition: LeaseCondition::Worker(worker.clone()),
        };
        let (message, answer) = Message::new(EngineInput::Claim(noetl_engine::CommandClaim {
            command: command.command_id,
            attempt: command.attempt,
            worker: worker.clone(),
            lease_until: command.lease.map(|lease| lease.until),
        }));
        let message = message.with_fence(fence.clone());
        let recorded = self.driver.send_and_wait(command.execution_id, message, answer).await;
        let Err(error) = recorded else {
            return Ok(());
        };
        // The execution was paused or ended in between: releases the claim.
        let release = LeaseRelease { fence, not_before: command.not_before };
        if let Err(release_error) = self.infra.store().release_leases(vec![release]).await {
            tracing::debug!(%release_error, "releasing an unrecorded claim failed; it will expire");
        }
        Err(match error.code() {
            Some(ErrorCode::NotFound) => command_closed(),
            Some(ErrorCode::IllegalTransition) => command_not_ready(),
            _ => error,
        })
    }

    /// Renews the claim of a worker that already holds the command, or returns why it cannot be
    /// claimed.
    async fn renew_held_claim(
        &self,
        command: &Command,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let Some(lease) = command.lease else {
            return Err(match command.status {
                CommandStatus::Completed | CommandStatus::Failed | CommandStatus::Cancelled => {
                    command_closed()
                }
                CommandStatus::Pending | CommandStatus::Claimed | CommandStatus::Running
                    if command.held =>
                {
                    RuntimeError::refused(ErrorCode::Paused, "the execution is paused")
                }
                CommandStatus::Pending | CommandStatus::Claimed | CommandStatus::Running => {
                    command_not_ready()
                }
            });
        };
        if command.worker.as_ref() != Some(worker) {
            let (id, until) = (command.command_id, lease.until);
            let text = format!("command {id} is leased until {until}");
            return Err(RuntimeError::refused(ErrorCode::ActiveClaim, text));
        }
        self.claims.renew_claim(command, worker, now).await
    }
}

fn command_closed() -> RuntimeError {
    RuntimeError::refused(ErrorCode::AlreadyTerminal, "the command is already closed")
}

fn command_not_ready() -> RuntimeError {
    let text = "the command cannot be claimed yet; try again later";
    RuntimeError::refused(ErrorCode::NotReady, text)
}

/// Commands claimed by name, by the stored name of the worker, as far as this process knows. Used
/// as a hint to report cancelled commands in heartbeat answers. A worker whose claims are not
/// listed here asks whether its execution was cancelled.
#[derive(Debug, Default)]
struct KnownClaims(Mutex<BTreeMap<Text, BTreeSet<CommandId>>>);

/// Commands that classic workers claimed by name.
pub(crate) struct ClassicClaims {
    infra: Arc<Infrastructure>,
    known: KnownClaims,
}

/// Maximum remembered claims per worker.
const MAX_CLAIMS_PER_WORKER: usize = 10_000;

impl KnownClaims {
    fn add_claim(&self, worker: &Text, command: CommandId) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let worker_claims = claims.entry(worker.clone()).or_default();
        if worker_claims.len() < MAX_CLAIMS_PER_WORKER {
            worker_claims.insert(command);
        }
    }

    fn claims_of(&self, worker: &Text) -> Vec<CommandId> {
        let claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let worker_claims = claims.get(worker).into_iter().flatten();
        worker_claims.copied().collect()
    }

    fn remove_claims(&self, worker: &Text, commands: &[CommandId]) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker_claims) = claims.get_mut(worker) {
            for command in commands {
                worker_claims.remove(command);
            }
            if worker_claims.is_empty() {
                claims.remove(worker);
            }
        }
    }
}

impl ClassicClaims {
    pub(crate) fn new(infra: &Arc<Infrastructure>) -> Self {
        Self { infra: Arc::clone(infra), known: KnownClaims::default() }
    }

    /// Records that a worker has claimed a command.
    pub(crate) fn add_claim(&self, ctx: &CallContext, worker: &WorkerId, command: CommandId) {
        self.known.add_claim(&stored_worker_name(ctx.tenant(), worker), command);
    }

    /// Removes a command whose result the worker has reported.
    pub(crate) fn remove_claim(&self, ctx: &CallContext, worker: &WorkerId, command: CommandId) {
        self.known.remove_claims(&stored_worker_name(ctx.tenant(), worker), &[command]);
    }

    /// Expiry of a claim renewed at `now`: the time that its worker may be silent, limited by the
    /// maximum duration of a claim.
    pub(crate) fn claim_expiry(&self, claimed_at: Timestamp, now: Timestamp) -> Timestamp {
        let latest = claimed_at.saturating_add(self.infra.settings.max_classic_claim);
        now.saturating_add(self.infra.settings.worker_offline_after).min(latest)
    }

    /// Renews one claim. Returns its expiry.
    pub(crate) async fn renew_claim(
        &self,
        command: &Command,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let current = command.lease.map(|lease| lease.until);
        let claimed_at = command.claimed_at.unwrap_or(now);
        let until = self.claim_expiry(claimed_at, now);
        if current.is_some_and(|current| current >= until) || !is_claimed_by_name(command, worker) {
            return Ok(current);
        }
        let extended = self.infra.store.extend_leases(vec![claim_fence(command, worker)], until);
        let extended = extended.await?;
        Ok(match extended.first() {
            Some(LeaseExtension::Until(until)) => Some(*until),
            Some(LeaseExtension::Lost) | None => current,
        })
    }

    /// Renews the claims of a worker after a heartbeat. Returns its commands that were cancelled.
    /// Skips commands of pools that the caller has no access to, since the name of a worker is not
    /// secret.
    pub(crate) async fn renew_claims(
        &self,
        ctx: &CallContext,
        worker: &WorkerId,
    ) -> Result<Vec<CommandId>> {
        let now = self.infra.now();
        let mut pages = WorkerCommandPages::new(ctx, worker);
        while let Some(commands) = pages.next_page(self.infra.store()).await? {
            self.extend_claims(ctx, &commands, worker, now).await?;
        }
        self.take_cancelled_claims(ctx, worker).await
    }

    async fn extend_claims(
        &self,
        ctx: &CallContext,
        commands: &[Command],
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<()> {
        let mut by_expiry: BTreeMap<Timestamp, Vec<Fence>> = BTreeMap::new();
        for command in commands
            .iter()
            .filter(|command| is_claimed_by_name(command, worker) && can_access_pool(ctx, command))
        {
            let until = self.claim_expiry(command.claimed_at.unwrap_or(now), now);
            // A claim at its maximum duration is left to expire.
            if command.lease.is_some_and(|lease| lease.until < until) {
                by_expiry.entry(until).or_default().push(claim_fence(command, worker));
            }
        }
        for (until, fences) in by_expiry {
            self.infra.store().extend_leases(fences, until).await?;
        }
        Ok(())
    }

    async fn take_cancelled_claims(
        &self,
        ctx: &CallContext,
        worker: &WorkerId,
    ) -> Result<Vec<CommandId>> {
        let (mut closed, mut cancelled) = (Vec::new(), Vec::new());
        let stored_name = stored_worker_name(ctx.tenant(), worker);
        for command_id in self.known.claims_of(&stored_name) {
            let command = self.infra.store().find_command(command_id).await?;
            let command = command.filter(|command| command.worker.as_ref() == Some(worker));
            if command.as_ref().is_some_and(|command| !can_access_pool(ctx, command)) {
                continue;
            }
            match command.map(|command| command.status) {
                Some(CommandStatus::Claimed | CommandStatus::Running) => {}
                Some(CommandStatus::Cancelled) => {
                    cancelled.push(command_id);
                    closed.push(command_id);
                }
                Some(CommandStatus::Pending | CommandStatus::Completed | CommandStatus::Failed)
                | None => closed.push(command_id),
            }
        }
        self.known.remove_claims(&stored_name, &closed);
        Ok(cancelled)
    }
}

fn claim_fence(command: &Command, worker: &WorkerId) -> Fence {
    Fence {
        command_id: command.command_id,
        attempt: command.attempt,
        condition: LeaseCondition::Token(derive_lease_token(command.command_id, worker)),
    }
}

/// True if the worker claimed the command by name. Other leases are renewed one by one.
fn is_claimed_by_name(command: &Command, worker: &WorkerId) -> bool {
    let token = derive_lease_token(command.command_id, worker);
    command.lease.is_some_and(|lease| lease.token == token)
}

/// True if the caller has access to the pool of a command.
fn can_access_pool(ctx: &CallContext, command: &Command) -> bool {
    let access = ctx.auth.check_execution_access(ctx.tenant(), &command.pool);
    access.is_ok()
}
