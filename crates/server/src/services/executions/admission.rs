//! Admission of new executions: the caller's rights and the quotas.

use noetl_store::{DedupReservation, ExecutionFacts};
use noetl_types::{ExecutionId, Json, JsonMap, PlaybookPath, PoolName, Scope, TenantId};

use crate::access::CallContext;
use crate::error::{Result, RuntimeError};
use crate::services::Executions;
use crate::services::catalog::Definition;
use crate::services::executions::dedup_keys::IdempotencyKey;
use crate::services::quotas::{QuotaGroup, StartAdmission};

/// An execution that is about to start.
pub(crate) struct StartCandidate<'c> {
    pub(crate) definition: &'c Definition,
    pub(crate) facts: &'c ExecutionFacts,
    pub(crate) payload: Option<&'c Json>,
    /// Id of the execution, if a step of its parent starts it.
    pub(crate) child_id: Option<ExecutionId>,
    /// Idempotency key, if the execution may start at most once.
    pub(crate) idempotency_key: Option<&'c IdempotencyKey>,
    /// Dedup reservation of the message that starts the execution.
    pub(crate) dedup: Option<&'c DedupReservation>,
}

impl StartCandidate<'_> {
    fn playbook_path(&self) -> &PlaybookPath {
        &self.definition.entry.path
    }
}

impl Executions {
    /// Checks that the caller may start the execution and that the quotas of the tenant and of the
    /// root execution allow it. Returns its admissions.
    pub(crate) async fn admit_execution(
        &self,
        ctx: &CallContext,
        candidate: &StartCandidate<'_>,
    ) -> Result<Vec<StartAdmission>> {
        check_platform_rights(ctx, candidate)?;
        let tenant = QuotaGroup::Tenant(ctx.tenant().clone());
        let tenant = (!is_quota_exempt(ctx, candidate)).then_some(tenant);
        let root = candidate.facts.root_execution_id.map(QuotaGroup::Descendants);
        let mut admissions = Vec::new();
        for group in tenant.into_iter().chain(root) {
            let refused = match self.quotas.admit_within_quota(group).await {
                Ok(admission) => {
                    admissions.push(admission);
                    continue;
                }
                Err(refused) => refused,
            };
            // A repeated request gets the answer of the first one and starts nothing, so the quota
            // does not refuse it.
            let is_repeated = self.has_started_before(ctx, candidate).await?;
            return if is_repeated { Ok(Vec::new()) } else { Err(refused) };
        }
        Ok(admissions)
    }

    /// True if the execution was already started with the same id or idempotency key, or for the
    /// same message.
    async fn has_started_before(
        &self,
        ctx: &CallContext,
        candidate: &StartCandidate<'_>,
    ) -> Result<bool> {
        if let Some(child_id) = candidate.child_id
            && self.infra.store().find_execution(child_id).await?.is_some()
        {
            return Ok(true);
        }
        if let Some(key) = candidate.idempotency_key
            && self.is_idempotency_key_used(ctx.tenant(), key).await?
        {
            return Ok(true);
        }
        match candidate.dedup {
            Some(reservation) => {
                Ok(self.infra.store().has_seen_message(reservation.clone()).await?)
            }
            None => Ok(false),
        }
    }
}

/// Refuses input for a shipped playbook that a user's playbook starts as a child. The author of the
/// user's playbook is not necessarily an admin, even if an admin started it.
pub(crate) fn check_platform_child(
    parent: Option<&PlaybookPath>,
    child: &PlaybookPath,
    payload: Option<&Json>,
) -> Result<()> {
    let is_user_parent = !parent.is_some_and(PlaybookPath::is_system);
    if is_user_parent && child.is_system() && !payload.is_none_or(is_empty_payload) {
        return Err(platform_input_forbidden());
    }
    Ok(())
}

fn is_empty_payload(payload: &Json) -> bool {
    payload.as_map().is_some_and(JsonMap::is_empty)
}

fn platform_input_forbidden() -> RuntimeError {
    let text =
        "only an admin may start the platform's own playbooks with input or with a dedup key";
    RuntimeError::forbidden(text)
}

/// Checks the right to start an execution in pool `system`.
///
/// Workers of this pool can reach systems that other workers cannot, and the shipped playbooks
/// run there with the rights of the platform. So only an admin may run other playbooks there,
/// give a shipped playbook input, or use a dedup key, because servers use these keys to agree
/// on a start.
fn check_platform_rights(ctx: &CallContext, candidate: &StartCandidate<'_>) -> Result<()> {
    let is_shipped = candidate.playbook_path().is_system();
    let is_user_start = !is_shipped && candidate.facts.pool != PoolName::system();
    if is_user_start || ctx.auth.allows_scope(Scope::Admin) {
        return Ok(());
    }
    if !is_shipped {
        let text = "pool `system` is reserved for the platform's own playbooks; only an admin may run others there";
        return Err(RuntimeError::forbidden(text));
    }
    if candidate.payload.is_none_or(is_empty_payload) && candidate.dedup.is_none() {
        return Ok(());
    }
    Err(platform_input_forbidden())
}

/// True if the quota of the tenant does not apply: to the platform's own playbooks when an operator
/// starts them.
fn is_quota_exempt(ctx: &CallContext, candidate: &StartCandidate<'_>) -> bool {
    let auth = &ctx.auth;
    let is_operator = *ctx.tenant() == TenantId::default() && auth.allows_scope(Scope::Admin);
    is_operator && candidate.playbook_path().is_system()
}
