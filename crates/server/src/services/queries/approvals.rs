//! Open approvals.

use noetl_api::query::ApprovalsQuery;
use noetl_api::signal::{ApprovalList, ApprovalView};
use noetl_store::{OpenWait, WaitFilter, WaitPosition, WaitSelector};
use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, ExecutionId, Json, TenantId, Text};

use crate::access::{CallContext, ExecutionVisibility};
use crate::error::{Result, RuntimeError};
use crate::services::Queries;
use crate::services::queries::cursor;

/// Maximum pages of waits that are scanned for a caller with few visible ones.
const MAX_SCANNED_PAGES: usize = 40;

impl Queries {
    /// Returns a page of open approvals.
    pub async fn list_approvals(
        &self,
        ctx: &CallContext,
        query: ApprovalsQuery,
    ) -> Result<ApprovalList> {
        let filter = approvals_cursor_filter(&query, ctx.tenant());
        let decode = |text: &Text| {
            cursor::decode_wait_cursor(text, &filter).ok_or_else(RuntimeError::invalid_cursor)
        };
        let mut after = query.cursor.as_ref().map(decode).transpose()?;
        if let Some(execution_id) = query.execution_id {
            ctx.visible_execution(self.infra.store(), execution_id).await?;
            after = after.max(position_before_waits(execution_id));
        }
        let limit = query.limit.unwrap_or(PageLimit::MAX).get();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (page, next) = self.visible_approvals(ctx, after, limit, query.execution_id).await?;
        let view = |wait: OpenWait| {
            let detail = |key: &str| {
                let detail = wait.detail.as_ref()?;
                detail.get(key).filter(|value| !value.is_null()).cloned()
            };
            ApprovalView {
                execution_id: wait.position.execution_id,
                step: wait.step.clone(),
                index: wait.index,
                title: detail("title"),
                message: detail("message"),
                form: detail("form"),
                approvers: detail("approvers").unwrap_or_else(|| Json::from(Vec::new())),
                quorum: detail("quorum"),
                since: wait.since,
                until: wait.until,
            }
        };
        Ok(ApprovalList {
            approvals: page.into_iter().map(view).collect(),
            next_cursor: next.map(|position| cursor::encode_wait_cursor(position, &filter)),
        })
    }

    /// Returns up to `limit` approval waits after a position that the caller can see, optionally
    /// of one execution, and the position after which there may be more.
    async fn visible_approvals(
        &self,
        ctx: &CallContext,
        mut after: Option<WaitPosition>,
        limit: usize,
        only_execution: Option<ExecutionId>,
    ) -> Result<(Vec<OpenWait>, Option<WaitPosition>)> {
        let page_size = usize::try_from(PageLimit::MAX.get()).unwrap_or(usize::MAX);
        let (mut visibility, mut visible) =
            (ExecutionVisibility::new(&self.infra, ctx), Vec::new());
        for _ in 0..MAX_SCANNED_PAGES {
            let page = self.list_open_waits(ctx, WaitSelector::Approvals, after).await?;
            let is_last = page.len() < page_size;
            for wait in page {
                let execution_id = wait.position.execution_id;
                // The waits of an execution are adjacent.
                if only_execution.is_some_and(|only| only != execution_id) {
                    return Ok((visible, None));
                }
                if visible.len() == limit {
                    return Ok((visible, after));
                }
                after = Some(wait.position);
                if visibility.is_visible(execution_id).await? {
                    visible.push(wait);
                }
            }
            if is_last {
                return Ok((visible, None));
            }
        }
        Ok((visible, after))
    }

    /// Returns a page of open waits of the tenant.
    pub(crate) async fn list_open_waits(
        &self,
        ctx: &CallContext,
        selector: WaitSelector,
        after: Option<WaitPosition>,
    ) -> Result<Vec<OpenWait>> {
        let filter =
            WaitFilter { tenant_id: ctx.tenant().clone(), selector, after, limit: PageLimit::MAX };
        Ok(self.infra.store().list_waits(filter).await?)
    }
}

/// Position before all waits of an execution. No command has such a low id.
fn position_before_waits(execution_id: ExecutionId) -> Option<WaitPosition> {
    let command_id = CommandId::new(1).ok()?;
    Some(WaitPosition { execution_id, command_id, number: 0 })
}

/// Returns the list that a cursor belongs to: that of a tenant, or of one of its executions.
fn approvals_cursor_filter(query: &ApprovalsQuery, tenant_id: &TenantId) -> String {
    let execution_id = query.execution_id.map(|id| id.to_string());
    format!("{tenant_id}\n{}", execution_id.unwrap_or_default())
}
