//! Renewal of classic claims: they last while their worker sends heartbeats, up to a maximum.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use noetl_store::{Command, Fence, LeaseCondition, LeaseExtension};
use noetl_types::{CommandId, CommandStatus, Text, Timestamp, WorkerId};

use super::derive_stored_token;
use crate::runtime::{Core, Runtime, RuntimeError};

/// Commands claimed by name, by the stored name of the worker, as far as this process knows. Used
/// as a hint to report cancelled commands in heartbeat answers. A worker whose claims are not
/// listed here asks whether its execution was cancelled.
#[derive(Debug, Default)]
pub(crate) struct ClassicClaims(Mutex<BTreeMap<Text, BTreeSet<CommandId>>>);

/// Maximum remembered claims per worker.
const MAX_CLAIMS_PER_WORKER: usize = 10_000;

impl ClassicClaims {
    pub(super) fn add_claim(&self, worker: &Text, command: CommandId) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let worker_claims = claims.entry(worker.clone()).or_default();
        if worker_claims.len() < MAX_CLAIMS_PER_WORKER {
            worker_claims.insert(command);
        }
    }

    /// Removes a command whose result the worker has reported.
    pub(super) fn remove_claim(&self, worker: &Text, command: CommandId) {
        self.remove_claims(worker, &[command]);
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

impl Core {
    /// Expiry of a claim renewed at `now`: the time that its worker may be silent, limited by the
    /// maximum duration of a claim.
    pub(super) fn claim_expiry(&self, claimed_at: Timestamp, now: Timestamp) -> Timestamp {
        let latest = claimed_at.saturating_add(self.settings.max_classic_claim);
        now.saturating_add(self.settings.worker_offline_after).min(latest)
    }

    /// Renews one claim. Returns its expiry.
    pub(super) async fn renew_claim(
        &self,
        command: &Command,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RuntimeError> {
        let current = command.lease.map(|lease| lease.until);
        let claimed_at = command.claimed_at.unwrap_or(now);
        let until = self.claim_expiry(claimed_at, now);
        if current.is_some_and(|current| current >= until) || !is_claimed_by_name(command, worker) {
            return Ok(current);
        }
        let extended = self.store.extend_leases(vec![claim_fence(command, worker)], until);
        let extended = extended.await?;
        Ok(match extended.first() {
            Some(LeaseExtension::Until(until)) => Some(*until),
            Some(LeaseExtension::Lost) | None => current,
        })
    }
}

fn claim_fence(command: &Command, worker: &WorkerId) -> Fence {
    Fence {
        command_id: command.command_id,
        attempt: command.attempt,
        condition: LeaseCondition::Token(derive_stored_token(command.command_id, worker)),
    }
}

/// True if the worker claimed the command by name. Other leases are renewed one by one.
fn is_claimed_by_name(command: &Command, worker: &WorkerId) -> bool {
    let token = derive_stored_token(command.command_id, worker);
    command.lease.is_some_and(|lease| lease.token == token)
}

impl Runtime {
    /// Renews the claims of a worker after a heartbeat. Returns its commands that were cancelled.
    /// Skips commands of pools that the caller has no access to, since the name of a worker is not
    /// secret.
    pub(crate) async fn renew_claims(
        &self,
        worker: &WorkerId,
    ) -> Result<Vec<CommandId>, RuntimeError> {
        let now = self.now();
        let mut pages = self.worker_commands(worker);
        while let Some(commands) = pages.next_page(self.store()).await? {
            self.extend_claims(&commands, worker, now).await?;
        }
        self.take_cancelled_claims(worker).await
    }

    /// True if the caller has access to the pool of a command.
    fn can_access_pool(&self, command: &Command) -> bool {
        let access = self.auth_context().check_execution_access(self.tenant(), &command.pool);
        access.is_ok()
    }

    async fn extend_claims(
        &self,
        commands: &[Command],
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<(), RuntimeError> {
        let mut by_expiry: BTreeMap<Timestamp, Vec<Fence>> = BTreeMap::new();
        for command in commands
            .iter()
            .filter(|command| is_claimed_by_name(command, worker) && self.can_access_pool(command))
        {
            let until = self.core.claim_expiry(command.claimed_at.unwrap_or(now), now);
            // A claim at its maximum duration is left to expire.
            if command.lease.is_some_and(|lease| lease.until < until) {
                by_expiry.entry(until).or_default().push(claim_fence(command, worker));
            }
        }
        for (until, fences) in by_expiry {
            self.store().extend_leases(fences, until).await?;
        }
        Ok(())
    }

    async fn take_cancelled_claims(
        &self,
        worker: &WorkerId,
    ) -> Result<Vec<CommandId>, RuntimeError> {
        let (mut closed, mut cancelled) = (Vec::new(), Vec::new());
        let stored_name = self.stored_worker_name(worker);
        for command_id in self.core.classic_claims.claims_of(&stored_name) {
            let command = self.store().find_command(command_id).await?;
            let command = command.filter(|command| command.worker.as_ref() == Some(worker));
            if command.as_ref().is_some_and(|command| !self.can_access_pool(command)) {
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
        self.core.classic_claims.remove_claims(&stored_name, &closed);
        Ok(cancelled)
    }
}
