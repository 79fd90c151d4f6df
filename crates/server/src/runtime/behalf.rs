//! Whose data a handle of the runtime reads and writes.

use std::sync::Arc;

use noetl_types::{
    CommandId, ErrorCode, ExecutionId, OrganizationId, PlaybookPath, PoolName, Scope, Scopes,
    TenantId, Text,
};

use super::capability::Capability;
use super::error::RuntimeError;
use super::globs;

/// Whom calls are made for.
///
/// It comes from an identity, never from what a request says. What belongs to another tenant is as
/// good as not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behalf {
    /// Whose data it is.
    pub tenant_id: TenantId,
    /// The organization inside of the tenant.
    pub organization_id: OrganizationId,
    /// The pools that may be worked for; `None` means all of the tenant.
    pub pools: Option<Arc<[PoolName]>>,
    /// Patterns of the paths whose definitions and executions there are; `None` means all of the tenant.
    pub path_globs: Option<Arc<[Text]>>,
    /// The one command that may be worked on; `None` means all that the above leaves.
    pub capability: Option<Capability>,
    /// What may be done; `None` means everything, which is what the server itself may.
    pub scopes: Option<Scopes>,
}

impl Behalf {
    /// Whether what a scope is for may be done.
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.is_none_or(|scopes| scopes.allow(scope))
    }

    /// Whether some paths are all that there is.
    pub(crate) fn is_bound(&self) -> bool {
        self.path_globs.is_some()
    }

    /// Whether what lies at a path is there. What has none is there for those who are bound to none.
    pub(crate) fn sees(&self, path: Option<&PlaybookPath>) -> bool {
        let Some(globs) = &self.path_globs else {
            return true;
        };
        let covers = |path: &PlaybookPath| {
            let mut globs = globs.iter();
            globs.any(|glob| globs::matches(glob, path.as_str()))
        };
        path.is_some_and(covers)
    }

    /// Refuses to write at a path that the caller is not bound to.
    pub(crate) fn check_path(&self, path: &PlaybookPath) -> Result<(), RuntimeError> {
        if self.sees(Some(path)) {
            return Ok(());
        }
        let text = format!("the token is not for the path `{path}`");
        Err(RuntimeError::refused(ErrorCode::Forbidden, text))
    }

    /// Refuses to change what lies at a path: one that the caller is not bound to, or, to all but an admin,
    /// one of the platform's own.
    pub(crate) fn check_change(&self, path: &PlaybookPath) -> Result<(), RuntimeError> {
        self.check_path(path)?;
        if !path.is_of_platform() || self.may(Scope::Admin) {
            return Ok(());
        }
        let text = format!(
            "only an admin may change what is under `{}`",
            PlaybookPath::PLATFORM
        );
        Err(RuntimeError::refused(ErrorCode::Forbidden, text))
    }

    /// Refuses any run but that of the one command.
    pub(crate) fn check_run(&self, execution_id: ExecutionId) -> Result<(), RuntimeError> {
        match &self.capability {
            Some(only) if only.execution_id != execution_id => Err(other_command()),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses any command but the one.
    pub(crate) fn check_command(&self, command_id: CommandId) -> Result<(), RuntimeError> {
        match &self.capability {
            Some(only) if only.command_id != command_id => Err(other_command()),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a pool may be worked for.
    pub(crate) fn may_work_for(&self, pool: &PoolName) -> bool {
        self.pools.as_ref().is_none_or(|pools| pools.contains(pool))
    }

    /// The queue of a pool, if it may be worked for.
    pub(crate) fn queue_of(&self, pool: &PoolName) -> Result<PoolName, RuntimeError> {
        if !self.may_work_for(pool) {
            return Err(other_pool());
        }
        Ok(pool.within(&self.tenant_id))
    }

    /// The same, if the commands in it may be handed out to the caller, of whatever path they are.
    pub(crate) fn queue_to_lease_from(&self, pool: &PoolName) -> Result<PoolName, RuntimeError> {
        if self.is_bound() {
            let text = "the token is bound to paths, and the commands of a pool are of all paths: a \
                worker needs one that is bound to pools at most";
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        self.queue_of(pool)
    }

    /// Refuses what happens to an execution that is not the caller's: of another tenant, or of a pool
    /// that the caller does not work for.
    pub(crate) fn check(&self, tenant_id: &TenantId, queue: &PoolName) -> Result<(), RuntimeError> {
        if *tenant_id != self.tenant_id {
            return Err(RuntimeError::no_execution());
        }
        let pool = queue.of_tenant(tenant_id);
        if pool.is_some_and(|pool| self.may_work_for(&pool)) {
            Ok(())
        } else {
            Err(other_pool())
        }
    }
}

fn other_command() -> RuntimeError {
    let text = "the capability in the address is for one command, and this is about another";
    RuntimeError::refused(ErrorCode::Forbidden, text)
}

fn other_pool() -> RuntimeError {
    let text = "the token does not work for this pool";
    RuntimeError::refused(ErrorCode::Forbidden, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_foreign_is_not_there_and_another_pool_is_forbidden() {
        let acme = TenantId::new("acme").unwrap();
        let gpu = PoolName::new("gpu").unwrap();
        let bound = Behalf {
            tenant_id: acme.clone(),
            pools: Some([gpu.clone()].into()),
            ..Behalf::default()
        };
        let code = |tenant: &TenantId, queue: &PoolName| {
            bound
                .check(tenant, queue)
                .err()
                .and_then(|error| error.code())
        };
        assert_eq!(code(&acme, &gpu.within(&acme)), None);
        let shared = PoolName::shared();
        assert_eq!(
            code(&acme, &shared.within(&acme)),
            Some(ErrorCode::Forbidden)
        );
        let default = TenantId::default();
        assert_eq!(code(&default, &gpu), Some(ErrorCode::NotFound));
        assert_eq!(bound.queue_of(&gpu).unwrap(), "acme.gpu");
        assert!(bound.queue_of(&shared).is_err());
    }
}
