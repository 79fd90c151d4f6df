//! Authorization of a runtime handle: the tenant, pools, paths and scopes it may use.

use std::sync::Arc;

use noetl_types::{
    CommandId, ExecutionId, OrganizationId, PlaybookPath, PoolName, Scope, ScopeSet, TenantId,
    Text, Timestamp,
};

use crate::access::path_globs;
use crate::error::{Result, RuntimeError};
use crate::services::command_token::{CommandToken, command_token_expired};

/// Authorization context of calls.
///
/// It is derived from an identity, never from the content of a request. Data of another tenant is
/// reported as not found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthContext {
    /// Tenant whose data is read and written.
    pub tenant_id: TenantId,
    /// Organization inside the tenant.
    pub organization_id: OrganizationId,
    /// Pools the caller may serve. `None` means all pools of the tenant.
    pub pools: Option<Arc<[PoolName]>>,
    /// Patterns of the paths whose definitions and executions are visible. `None` means all paths
    /// of the tenant.
    pub path_globs: Option<Arc<[Text]>>,
    /// Token that restricts the caller to one command. `None` means no such restriction.
    pub command_token: Option<CommandToken>,
    /// Granted scopes. `None` means all scopes, which the server itself has.
    pub scopes: Option<ScopeSet>,
}

impl AuthContext {
    /// True if the scope is granted.
    pub(crate) fn allows_scope(&self, scope: Scope) -> bool {
        self.scopes.is_none_or(|scopes| scopes.allows(scope))
    }

    /// True if the caller is restricted to some paths.
    pub(crate) fn is_path_restricted(&self) -> bool {
        self.path_globs.is_some()
    }

    /// True if the caller can see the path. Without a path (`None`), only callers without path
    /// restriction can see the object.
    pub(crate) fn can_see_path(&self, path: Option<&PlaybookPath>) -> bool {
        let Some(globs) = &self.path_globs else {
            return true;
        };
        let covers = |path: &PlaybookPath| {
            let mut globs = globs.iter();
            globs.any(|glob| path_globs::glob_matches(glob, path.as_str()))
        };
        path.is_some_and(covers)
    }

    /// Refuses a write at a path outside the caller's path restriction.
    pub(crate) fn check_path_access(&self, path: &PlaybookPath) -> Result<()> {
        if self.can_see_path(Some(path)) {
            return Ok(());
        }
        Err(RuntimeError::forbidden(format!("the token does not allow the path `{path}`")))
    }

    /// Refuses to change a definition at a path outside the caller's path restriction. Only an
    /// admin may change the platform's own paths.
    pub(crate) fn check_path_change(&self, path: &PlaybookPath) -> Result<()> {
        self.check_path_access(path)?;
        if !path.is_system() || self.allows_scope(Scope::Admin) {
            return Ok(());
        }
        let text =
            format!("only an admin may change definitions under `{}`", PlaybookPath::SYSTEM_PREFIX);
        Err(RuntimeError::forbidden(text))
    }

    /// Refuses every execution except the one of the command token.
    pub(crate) fn check_token_execution(&self, execution_id: ExecutionId) -> Result<()> {
        match &self.command_token {
            Some(token) if token.execution_id != execution_id => Err(command_token_mismatch()),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses every command except the one of the command token.
    pub(crate) fn check_token_command(&self, command_id: CommandId) -> Result<()> {
        match &self.command_token {
            Some(token) if token.command_id != command_id => Err(command_token_mismatch()),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a claim after the claim deadline of the command token.
    pub(crate) fn check_claim_deadline(&self, now: Timestamp) -> Result<()> {
        match &self.command_token {
            Some(token) if token.claim_by <= now => Err(command_token_expired()),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses callers other than those of the tenant that operates the server, for figures and
    /// operations that concern all tenants.
    pub(crate) fn check_operator(&self) -> Result<()> {
        if self.tenant_id == TenantId::default() && !self.is_path_restricted() {
            return Ok(());
        }
        let text = "this is only available to the tenant that operates the server, with a token \
            without path_globs";
        Err(RuntimeError::forbidden(text))
    }

    /// Refuses callers that are restricted to paths. Workers run commands of all paths.
    pub(crate) fn check_worker_access(&self) -> Result<()> {
        if !self.is_path_restricted() {
            return Ok(());
        }
        let text = "the token is restricted to paths, but the commands of a pool can have any \
            path; use a token without path_globs for workers";
        Err(RuntimeError::forbidden(text))
    }

    /// True if the caller may serve the pool.
    pub(crate) fn can_serve_pool(&self, pool: &PoolName) -> bool {
        self.pools.as_ref().is_none_or(|pools| pools.contains(pool))
    }

    /// Returns the queue of a pool that the caller may serve.
    pub(crate) fn served_queue(&self, pool: &PoolName) -> Result<PoolName> {
        if !self.can_serve_pool(pool) {
            return Err(pool_not_served());
        }
        Ok(pool.tenant_queue(&self.tenant_id))
    }

    /// Returns the queue of a pool that the caller may lease commands from. Callers restricted to
    /// paths are refused, because a queue holds commands of all paths.
    pub(crate) fn leasable_queue(&self, pool: &PoolName) -> Result<PoolName> {
        self.check_worker_access()?;
        self.served_queue(pool)
    }

    /// Refuses access to an execution of another tenant, or of a pool that the caller may not
    /// serve.
    pub(crate) fn check_execution_access(
        &self,
        tenant_id: &TenantId,
        queue: &PoolName,
    ) -> Result<()> {
        if *tenant_id != self.tenant_id {
            return Err(RuntimeError::no_execution());
        }
        let pool = queue.pool_for_tenant(tenant_id);
        if pool.is_some_and(|pool| self.can_serve_pool(&pool)) {
            Ok(())
        } else {
            Err(pool_not_served())
        }
    }
}

fn command_token_mismatch() -> RuntimeError {
    let text = "the command token in the URL is for another command";
    RuntimeError::forbidden(text)
}

fn pool_not_served() -> RuntimeError {
    let text = "the token does not allow this pool";
    RuntimeError::forbidden(text)
}

#[cfg(test)]
mod tests;
