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
        let mut filter = CommandFilter {
            tenant_id: self.tenant().clone(),
            choice: query.status.map_or(CommandChoice::All, CommandChoice::Only),
            execution_id: query.execution_id,
            pool: query.pool.map(|pool| pool.within(self.tenant())),
            worker: query.worker_id,
            after,
            limit: query.limit,
        };
        let wanted = usize::try_from(query.limit.get()).unwrap_or(usize::MAX);
        let (mut sight, mut found, mut scanned) = (self.sight(), Vec::new(), 0);
        let next = loop {
            let page = self.store().commands(filter.clone()).await?;
            scanned += page.commands.len();
            for command in page.commands {
                if sight.has(command.execution_id).await? {
                    found.push(command);
                }
            }
            // A page never holds more than is wanted, so what is too much begins the next one.
            if found.len() > wanted {
                found.truncate(wanted);
                break found.last().map(|last| last.command_id);
            }
            if found.len() == wanted || page.next.is_none() || scanned >= MAX_SCANNED {
                break page.next;
            }
            filter.after = page.next;
        };
        let line = |command| line(command, self.tenant());
        Ok(CommandList {
            commands: found.into_iter().map(line).collect(),
            next_cursor: next.map(|next| next.to_string().into()),
        })
    }
}

/// Commands that one page looks at for a caller who has few of them. The cursor goes on behind them.
const MAX_SCANNED: usize = 20_000;

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
