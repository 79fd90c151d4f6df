//! The queue, page by page.

use noetl_api::classic::{CommandLine, CommandList};
use noetl_api::query::CommandsQuery;
use noetl_store::{Command, CommandChoice, CommandFilter};
use noetl_types::{CommandId, ErrorCode, TenantId, Text};

use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// A page of the commands, oldest first.
    pub async fn commands(&self, query: CommandsQuery) -> Result<CommandList, RuntimeError> {
        let after = match &query.cursor {
            None => None,
            Some(cursor) => Some(cursor.parse::<CommandId>().map_err(|_| {
                let text = "the cursor is not one that this list gave";
                RuntimeError::refused(ErrorCode::BadQuery, text)
            })?),
        };
        let filter = CommandFilter {
            tenant_id: self.tenant().clone(),
            choice: query.status.map_or(CommandChoice::All, CommandChoice::Only),
            execution_id: query.execution_id,
            pool: query.pool.map(|pool| pool.within(self.tenant())),
            worker: query.worker_id,
            after,
            limit: query.limit,
        };
        let page = self.store().commands(filter).await?;
        Ok(CommandList {
            commands: page
                .commands
                .into_iter()
                .map(|command| line(command, self.tenant()))
                .collect(),
            next_cursor: page.next.map(|next| next.to_string().into()),
        })
    }
}

fn line(command: Command, tenant_id: &TenantId) -> CommandLine {
    let pool = command.pool.of_tenant(tenant_id).unwrap_or(command.pool);
    CommandLine {
        command_id: command.command_id,
        execution_id: command.execution_id,
        step: command.instance.step_name,
        run: command.instance.run,
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
