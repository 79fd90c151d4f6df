//! Listing of the command queue.

use noetl_api::classic::{CommandList, CommandSummary};
use noetl_api::query::CommandsQuery;
use noetl_store::{Command, CommandFilter, CommandStatusFilter};
use noetl_types::{TenantId, Text};

use crate::access::{CallContext, ExecutionVisibility};
use crate::error::{Result, parse_cursor};
use crate::services::Queries;

impl Queries {
    /// Returns a page of commands, oldest first.
    pub async fn list_commands(
        &self,
        ctx: &CallContext,
        query: CommandsQuery,
    ) -> Result<CommandList> {
        let after = parse_cursor(query.cursor)?;
        let mut filter = CommandFilter {
            tenant_id: ctx.tenant().clone(),
            status: query.status.map_or(CommandStatusFilter::All, CommandStatusFilter::Only),
            execution_id: query.execution_id,
            pool: query.pool.map(|pool| pool.tenant_queue(ctx.tenant())),
            worker: query.worker_id,
            after,
            limit: query.limit,
        };
        let limit = usize::try_from(query.limit.get()).unwrap_or(usize::MAX);
        let (mut visibility, mut visible, mut scanned) =
            (ExecutionVisibility::new(&self.infra, ctx), Vec::new(), 0);
        let next = loop {
            let page = self.infra.store().list_commands(filter.clone()).await?;
            scanned += page.commands.len();
            for command in page.commands {
                if visibility.is_visible(command.execution_id).await? {
                    visible.push(command);
                }
            }
            // A store page never exceeds the requested size, so surplus commands start the next
            // page.
            if visible.len() > limit {
                visible.truncate(limit);
                break visible.last().map(|last| last.command_id);
            }
            if visible.len() == limit || page.next.is_none() || scanned >= MAX_SCANNED_COMMANDS {
                break page.next;
            }
            filter.after = page.next;
        };
        let summary = |command| to_command_summary(command, ctx.tenant());
        Ok(CommandList {
            commands: visible.into_iter().map(summary).collect(),
            next_cursor: next.map(|next| next.to_string().into()),
        })
    }
}

/// Maximum commands that one page scans for a caller with few visible ones. The cursor continues
/// after them.
const MAX_SCANNED_COMMANDS: usize = 20_000;

fn to_command_summary(command: Command, tenant_id: &TenantId) -> CommandSummary {
    let pool = command.pool.pool_for_tenant(tenant_id).unwrap_or(command.pool);
    CommandSummary {
        command_id: command.command_id,
        execution_id: command.execution_id,
        step: command.instance.step_name,
        run: command.instance.step_pass,
        index: command.instance.iter_index,
        tool_kind: command.tool_kind,
        pool: Text::from(&pool),
        priority: command.priority.get(),
        status: command.status.as_str().into(),
        held: command.held,
        attempt: command.attempt,
        max_attempts: command.max_attempts.get(),
        worker_id: command.worker,
        lease_until: command.lease.map(|lease| lease.until),
        not_before: command.not_before,
        claimed_at: command.claimed_at,
        started_at: command.started_at,
        completed_at: command.completed_at,
        error: command.error,
    }
}
