//! The queue: leases and what becomes of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, CommandStatus, PoolName, TenantId, Timestamp, WorkerId};

use super::state::{State, many};
use crate::fair::{self, Waiting};
use crate::model::{
    Claim, ClaimedCommand, Command, CommandFilter, CommandPage, Extension, Fence, LeaseRequest,
    LeasedCommand, MAX_POOLS, PoolCount, Release,
};

impl State {
    pub(super) fn lease(&mut self, request: &LeaseRequest) -> Vec<LeasedCommand> {
        let now = request.claim.now;
        let mut waiting: Vec<Waiting> = self
            .commands
            .values()
            .filter(|command| {
                command.pool == request.pool
                    && command.is_free(now)
                    && request
                        .kinds
                        .as_ref()
                        .is_none_or(|kinds| kinds.contains(&command.tool_kind))
            })
            .map(|command| Waiting {
                command_id: command.command_id,
                execution_id: command.execution_id,
                priority: command.priority,
            })
            .collect();
        waiting.sort_by_key(|waiting| (Reverse(waiting.priority), waiting.command_id));
        waiting.truncate(many(fair::window(request.max)));
        fair::choose(&waiting, request.max)
            .into_iter()
            .filter_map(|command_id| self.claim(command_id, &request.claim))
            .map(|claimed| claimed.leased)
            .collect()
    }

    pub(super) fn claim(&mut self, command_id: CommandId, claim: &Claim) -> Option<ClaimedCommand> {
        let execution_id = self.commands.get(&command_id)?.execution_id;
        let issued = self.event(execution_id, command_id.into())?.record.clone();
        let command = self.commands.get_mut(&command_id)?;
        let is_granted = command.is_free(claim.now);
        if is_granted {
            command.grant(claim);
        }
        Some(ClaimedCommand {
            leased: LeasedCommand {
                command: command.clone(),
                issued,
            },
            is_granted,
        })
    }

    pub(super) fn extend(&mut self, fence: &Fence, until: Timestamp) -> Extension {
        let command = self.commands.get_mut(&fence.command_id);
        let Some(command) = command.filter(|command| fence.holds(command)) else {
            return Extension::Lost;
        };
        let until = command.within_deadline(until);
        if let Some(lease) = &mut command.lease {
            lease.until = until;
        }
        Extension::Until(until)
    }

    pub(super) fn release(&mut self, release: &Release) -> bool {
        let command = self.commands.get_mut(&release.fence.command_id);
        let Some(command) = command.filter(|command| release.fence.holds(command)) else {
            return false;
        };
        command.status = CommandStatus::Pending;
        command.lease = None;
        command.attempt = command.attempt.saturating_sub(1);
        command.not_before = release.not_before;
        true
    }

    pub(super) fn expired(&self, now: Timestamp, limit: PageLimit) -> Vec<Command> {
        let mut expired: Vec<_> = self
            .commands
            .values()
            .filter_map(|command| Some((command.lease?.until, command.command_id, command)))
            .filter(|(until, _, _)| *until <= now)
            .collect();
        expired.sort_by_key(|(until, command_id, _)| (*until, *command_id));
        expired
            .into_iter()
            .take(many(limit.get()))
            .map(|(_, _, command)| command.clone())
            .collect()
    }

    pub(super) fn list_commands(&self, filter: &CommandFilter) -> CommandPage {
        let is_of_tenant = |command: &Command| {
            let execution = self.executions.get(&command.execution_id);
            execution.is_some_and(|it| it.facts.tenant_id == filter.tenant_id)
        };
        let is_asked_for = |command: &&Command| {
            filter.choice.includes(command.status)
                && filter
                    .execution_id
                    .is_none_or(|id| command.execution_id == id)
                && filter
                    .pool
                    .as_ref()
                    .is_none_or(|pool| command.pool == *pool)
                && (filter.worker.is_none() || command.worker == filter.worker)
                && filter.after.is_none_or(|after| command.command_id > after)
                && is_of_tenant(command)
        };
        let commands = self.commands.values().filter(is_asked_for);
        let page = commands.take(many(filter.limit.get())).cloned().collect();
        CommandPage::of(page, filter.limit)
    }

    pub(super) fn release_worker(
        &mut self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> u64 {
        let mut ended = 0;
        for command in self.commands.values_mut() {
            let execution = self.executions.get(&command.execution_id);
            let is_theirs = command.worker.as_ref() == Some(worker)
                && execution.is_some_and(|execution| execution.facts.tenant_id == *tenant_id);
            if let Some(lease) = command
                .lease
                .as_mut()
                .filter(|it| is_theirs && it.until > now)
            {
                lease.until = now;
                ended += 1;
            }
        }
        ended
    }

    pub(super) fn pool_counts(&self) -> Vec<PoolCount> {
        let mut counts: BTreeMap<&PoolName, PoolCount> = BTreeMap::new();
        for command in self.commands.values() {
            let waits = command.status == CommandStatus::Pending && !command.held;
            if !waits && command.lease.is_none() {
                continue;
            }
            let count = counts.entry(&command.pool).or_insert_with(|| PoolCount {
                pool: command.pool.clone(),
                pending: 0,
                leased: 0,
                oldest_lease: None,
            });
            count.pending += u64::from(waits);
            if command.lease.is_some() {
                count.leased += 1;
                let oldest = count
                    .oldest_lease
                    .into_iter()
                    .chain(command.claimed_at)
                    .min();
                count.oldest_lease = oldest;
            }
        }
        counts.into_values().take(many(MAX_POOLS)).collect()
    }
}
