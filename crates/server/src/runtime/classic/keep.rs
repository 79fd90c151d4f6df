//! Claims that last as long as their worker is heard of, and not for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use noetl_store::{Command, Extension, Fence, Holder};
use noetl_types::{CommandId, CommandStatus, Text, Timestamp, WorkerId};

use super::stored_token;
use crate::runtime::{Core, Runtime, RuntimeError};

/// Which worker, by the name that it is kept under, claimed what by name, as far as this process
/// knows: a hint about whom to tell that
/// nobody wants a result any more. Who forgets it asks whether the execution was cancelled.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<BTreeMap<Text, BTreeSet<CommandId>>>);

/// Claims of one worker that are kept in mind.
const MOST: usize = 10_000;

impl Claims {
    pub(super) fn note(&self, worker: &Text, command: CommandId) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_worker = claims.entry(worker.clone()).or_default();
        if of_worker.len() < MOST {
            of_worker.insert(command);
        }
    }

    /// A worker has told what came of a command.
    pub(super) fn settle(&self, worker: &Text, command: CommandId) {
        self.forget(worker, &[command]);
    }

    fn of(&self, worker: &Text) -> Vec<CommandId> {
        let claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_worker = claims.get(worker).into_iter().flatten();
        of_worker.copied().collect()
    }

    fn forget(&self, worker: &Text, commands: &[CommandId]) {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_worker) = claims.get_mut(worker) {
            for command in commands {
                of_worker.remove(command);
            }
            if of_worker.is_empty() {
                claims.remove(worker);
            }
        }
    }
}

impl Core {
    /// Until when a claim lasts that is kept at a time: as long as its worker may be silent, and not
    /// beyond what any claim may take.
    pub(super) fn claimed_until(&self, claimed_at: Timestamp, now: Timestamp) -> Timestamp {
        let latest = claimed_at.saturating_add(self.settings.classic_claim_max);
        now.saturating_add(self.settings.worker_offline).min(latest)
    }

    /// Keeps one claim; says until when.
    pub(super) async fn renew(
        &self,
        command: &Command,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RuntimeError> {
        let known = command.lease.map(|lease| lease.until);
        let claimed_at = command.claimed_at.unwrap_or(now);
        let until = self.claimed_until(claimed_at, now);
        if known.is_some_and(|known| known >= until) || !is_by_name(command, worker) {
            return Ok(known);
        }
        let kept = self.store.extend(vec![fence(command, worker)], until);
        let kept = kept.await?;
        Ok(match kept.first() {
            Some(Extension::Until(until)) => Some(*until),
            Some(Extension::Lost) | None => known,
        })
    }
}

fn fence(command: &Command, worker: &WorkerId) -> Fence {
    Fence {
        command_id: command.command_id,
        attempt: command.attempt,
        holder: Holder::Token(stored_token(command.command_id, worker)),
    }
}

/// Whether a worker claimed a command by name. Others keep their leases one by one.
fn is_by_name(command: &Command, worker: &WorkerId) -> bool {
    let token = stored_token(command.command_id, worker);
    command.lease.is_some_and(|lease| lease.token == token)
}

impl Runtime {
    /// Keeps what a worker claimed by name, since it was heard of; gives the commands that nobody
    /// wants any more. All that is of a pool which the caller does not work for is passed by: the name
    /// of a worker is no secret.
    pub(crate) async fn keep_claims(
        &self,
        worker: &WorkerId,
    ) -> Result<Vec<CommandId>, RuntimeError> {
        let now = self.now();
        let mut holdings = self.holdings(worker);
        while let Some(commands) = holdings.next(self.store()).await? {
            self.keep_all(&commands, worker, now).await?;
        }
        self.unwanted(worker).await
    }

    /// Whether the caller works for the pool of a command.
    fn works_on(&self, command: &Command) -> bool {
        let checked = self.behalf().check(self.tenant(), &command.pool);
        checked.is_ok()
    }

    async fn keep_all(
        &self,
        commands: &[Command],
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<(), RuntimeError> {
        let mut by_end: BTreeMap<Timestamp, Vec<Fence>> = BTreeMap::new();
        for command in commands
            .iter()
            .filter(|command| is_by_name(command, worker) && self.works_on(command))
        {
            let until = self
                .core
                .claimed_until(command.claimed_at.unwrap_or(now), now);
            // What has had all its time is left to run out.
            if command.lease.is_some_and(|lease| lease.until < until) {
                by_end
                    .entry(until)
                    .or_default()
                    .push(fence(command, worker));
            }
        }
        for (until, fences) in by_end {
            self.store().extend(fences, until).await?;
        }
        Ok(())
    }

    async fn unwanted(&self, worker: &WorkerId) -> Result<Vec<CommandId>, RuntimeError> {
        let (mut over, mut unwanted) = (Vec::new(), Vec::new());
        let kept_name = self.kept_name(worker);
        for command_id in self.core.claims.of(&kept_name) {
            let command = self.store().command(command_id).await?;
            let command = command.filter(|command| command.worker.as_ref() == Some(worker));
            if command.as_ref().is_some_and(|known| !self.works_on(known)) {
                continue;
            }
            match command.map(|command| command.status) {
                Some(CommandStatus::Claimed | CommandStatus::Running) => {}
                Some(CommandStatus::Cancelled) => {
                    unwanted.push(command_id);
                    over.push(command_id);
                }
                Some(CommandStatus::Pending | CommandStatus::Completed | CommandStatus::Failed)
                | None => over.push(command_id),
            }
        }
        self.core.claims.forget(&kept_name, &over);
        Ok(unwanted)
    }
}
