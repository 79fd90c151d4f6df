//! The command queue in memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, CommandStatus, PoolName, TenantId, Timestamp, WorkerId};

use super::state::{MemoryState, to_usize};
use crate::lease_order::{self, WaitingCommand};
use crate::model::{
    Command, CommandFilter, CommandPage, Fence, LeaseExtension, LeaseOutcome, LeaseRelease,
    LeaseRequest, LeaseTerms, LeasedCommand, MAX_POOLS, PoolCount,
};

impl MemoryState {
    pub(super) fn lease_commands(&mut self, request: &LeaseRequest) -> Vec<LeasedCommand> {
        let now = request.terms.now;
        let mut waiting: Vec<WaitingCommand> = self
            .commands
            .values()
            .filter(|command| {
                command.pool == request.pool
                    && command.is_leasable(now)
                    && request.kinds.as_ref().is_none_or(|kinds| kinds.contains(&command.tool_kind))
            })
            .map(|command| WaitingCommand {
                command_id: command.command_id,
                execution_id: command.execution_id,
                priority: command.priority,
            })
            .collect();
        waiting.sort_by_key(|waiting| (Reverse(waiting.priority), waiting.command_id));
        waiting.truncate(to_usize(lease_order::lookahead_rows(request.max_commands)));
        lease_order::choose_commands(&waiting, request.max_commands)
            .into_iter()
            .filter_map(|command_id| self.try_lease_command(command_id, &request.terms))
            .map(|outcome| outcome.leased)
            .collect()
    }

    pub(super) fn try_lease_command(
        &mut self,
        command_id: CommandId,
        terms: &LeaseTerms,
    ) -> Option<LeaseOutcome> {
        let execution_id = self.commands.get(&command_id)?.execution_id;
        let issued = self.find_event(execution_id, command_id.into())?.record.clone();
        let command = self.commands.get_mut(&command_id)?;
        let is_granted = command.is_leasable(terms.now);
        if is_granted {
            command.grant_lease(terms);
        }
        Some(LeaseOutcome {
            leased: LeasedCommand { command: command.clone(), issued },
            is_granted,
        })
    }

    pub(super) fn extend_lease(&mut self, fence: &Fence, until: Timestamp) -> LeaseExtension {
        let command = self.commands.get_mut(&fence.command_id);
        let Some(command) = command.filter(|command| fence.is_satisfied_by(command)) else {
            return LeaseExtension::Lost;
        };
        let until = command.cap_at_deadline(until);
        if let Some(lease) = &mut command.lease {
            lease.until = until;
        }
        LeaseExtension::Until(until)
    }

    pub(super) fn release_lease(&mut self, release: &LeaseRelease) -> bool {
        let command = self.commands.get_mut(&release.fence.command_id);
        let Some(command) = command.filter(|command| release.fence.is_satisfied_by(command)) else {
            return false;
        };
        command.status = CommandStatus::Pending;
        command.lease = None;
        command.attempt = command.attempt.saturating_sub(1);
        command.not_before = release.not_before;
        true
    }

    pub(super) fn list_expired_leases(&self, now: Timestamp, limit: PageLimit) -> Vec<Command> {
        let mut expired: Vec<_> = self
            .commands
            .values()
            .filter_map(|command| Some((command.lease?.until, command.command_id, command)))
            .filter(|(until, _, _)| *until <= now)
            .collect();
        expired.sort_by_key(|(until, command_id, _)| (*until, *command_id));
        expired
            .into_iter()
            .take(to_usize(limit.get()))
            .map(|(_, _, command)| command.clone())
            .collect()
    }

    pub(super) fn list_commands(&self, filter: &CommandFilter) -> CommandPage {
        let belongs_to_tenant = |command: &Command| {
            let execution = self.executions.get(&command.execution_id);
            execution.is_some_and(|it| it.facts.tenant_id == filter.tenant_id)
        };
        let is_selected = |command: &&Command| {
            filter.status.matches_status(command.status)
                && filter.execution_id.is_none_or(|id| command.execution_id == id)
                && filter.pool.as_ref().is_none_or(|pool| command.pool == *pool)
                && (filter.worker.is_none() || command.worker == filter.worker)
                && filter.after.is_none_or(|after| command.command_id > after)
                && belongs_to_tenant(command)
        };
        let commands = self.commands.values().filter(is_selected);
        let page = commands.take(to_usize(filter.limit.get())).cloned().collect();
        CommandPage::from_rows(page, filter.limit)
    }

    pub(super) fn expire_worker_leases(
        &mut self,
        tenant_id: &TenantId,
        worker: &WorkerId,
        now: Timestamp,
    ) -> u64 {
        let mut expired = 0;
        for command in self.commands.values_mut() {
            let execution = self.executions.get(&command.execution_id);
            let is_leased_by_worker = command.worker.as_ref() == Some(worker)
                && execution.is_some_and(|execution| execution.facts.tenant_id == *tenant_id);
            if let Some(lease) =
                command.lease.as_mut().filter(|it| is_leased_by_worker && it.until > now)
            {
                lease.until = now;
                expired += 1;
            }
        }
        expired
    }

    pub(super) fn pool_counts(&self) -> Vec<PoolCount> {
        let mut counts: BTreeMap<&PoolName, PoolCount> = BTreeMap::new();
        for command in self.commands.values() {
            let is_waiting = command.status == CommandStatus::Pending && !command.held;
            if !is_waiting && command.lease.is_none() {
                continue;
            }
            let count = counts.entry(&command.pool).or_insert_with(|| PoolCount {
                pool: command.pool.clone(),
                pending: 0,
                leased: 0,
                oldest_lease: None,
            });
            count.pending += u64::from(is_waiting);
            if command.lease.is_some() {
                count.leased += 1;
                let oldest = count.oldest_lease.into_iter().chain(command.claimed_at).min();
                count.oldest_lease = oldest;
            }
        }
        counts.into_values().take(to_usize(MAX_POOLS)).collect()
    }
}
