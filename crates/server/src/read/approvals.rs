//! What waits for people.

use noetl_api::query::ApprovalsQuery;
use noetl_api::signal::{ApprovalList, ApprovalView};
use noetl_store::{OpenWait, WaitChoice, WaitPlace};
use noetl_types::limits::PageLimit;
use noetl_types::{CommandId, ErrorCode, ExecutionId, Json, TenantId, Text};

use super::cursor;
use crate::runtime::{Runtime, RuntimeError};

/// Pages of waits that are looked at for a caller who has few of them.
const MOST_PAGES: usize = 40;

impl Runtime {
    /// A page of what waits for a person.
    pub async fn approvals(&self, query: ApprovalsQuery) -> Result<ApprovalList, RuntimeError> {
        let filter = filter_of(&query, self.tenant());
        let read = |text: &Text| cursor::read_wait(text, &filter).ok_or_else(not_ours);
        let mut after = query.cursor.as_ref().map(read).transpose()?;
        if let Some(only) = query.execution_id {
            self.execution_row(only).await?;
            after = after.max(before(only));
        }
        let wanted = query.limit.unwrap_or(PageLimit::MAX).get();
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let (page, next) = self
            .own_approvals(after, wanted, query.execution_id)
            .await?;
        let view = |wait: OpenWait| {
            let detail = |key: &str| {
                let detail = wait.detail.as_ref()?;
                detail.get(key).filter(|value| !value.is_null()).cloned()
            };
            ApprovalView {
                execution_id: wait.place.execution_id,
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
            next_cursor: next.map(|place| cursor::write_wait(place, &filter)),
        })
    }

    /// So many waits for people behind a place that are there for the caller, perhaps of one run alone, and
    /// the place behind which others may be.
    async fn own_approvals(
        &self,
        mut after: Option<WaitPlace>,
        wanted: usize,
        only: Option<ExecutionId>,
    ) -> Result<(Vec<OpenWait>, Option<WaitPlace>), RuntimeError> {
        let most = usize::try_from(PageLimit::MAX.get()).unwrap_or(usize::MAX);
        let (mut sight, mut own) = (self.sight(), Vec::new());
        for _ in 0..MOST_PAGES {
            let page = self.waits(WaitChoice::Approvals, after).await?;
            let is_last = page.len() < most;
            for wait in page {
                let run = wait.place.execution_id;
                // The waits of a run follow each other.
                if only.is_some_and(|only| only != run) {
                    return Ok((own, None));
                }
                if own.len() == wanted {
                    return Ok((own, after));
                }
                after = Some(wait.place);
                if sight.has(run).await? {
                    own.push(wait);
                }
            }
            if is_last {
                return Ok((own, None));
            }
        }
        Ok((own, after))
    }
}

/// The place before all waits of a run: no command has so low an id.
fn before(execution_id: ExecutionId) -> Option<WaitPlace> {
    let command_id = CommandId::new(1).ok()?;
    Some(WaitPlace {
        execution_id,
        command_id,
        number: 0,
    })
}

/// What a cursor belongs to: the list of a tenant, or of one of its runs.
fn filter_of(query: &ApprovalsQuery, tenant_id: &TenantId) -> String {
    let only = query.execution_id.map(|id| id.to_string());
    format!("{tenant_id}\n{}", only.unwrap_or_default())
}

fn not_ours() -> RuntimeError {
    let text = "the cursor is not one that this list gave";
    RuntimeError::refused(ErrorCode::BadQuery, text)
}
