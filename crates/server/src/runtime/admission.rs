//! Which runs a caller may begin, and whether there is room for them.

use noetl_store::{DedupClaim, ExecutionFacts};
use noetl_types::{ErrorCode, Json, JsonMap, PlaybookPath, PoolName, Scope, TenantId};

use super::claim::Once;
use super::error::RuntimeError;
use super::quota::Admission;
use super::{Definition, Runtime};

/// A run that is to begin.
pub(super) struct Candidate<'c> {
    pub(super) definition: &'c Definition,
    pub(super) facts: &'c ExecutionFacts,
    pub(super) payload: Option<&'c Json>,
    /// Whether it happens under a run that goes on.
    pub(super) is_child: bool,
    /// What it is known by, where it begins at most once.
    pub(super) once: Option<&'c Once>,
    /// The message that starts it.
    pub(super) dedup: Option<&'c DedupClaim>,
}

impl Candidate<'_> {
    fn path(&self) -> &PlaybookPath {
        &self.definition.entry.path
    }
}

impl Runtime {
    /// Refuses a run that is not the caller's to begin, and one for which there is no room; gives its place
    /// among those that go on, unless it needs none.
    pub(super) async fn admission(
        &self,
        candidate: &Candidate<'_>,
    ) -> Result<Option<Admission>, RuntimeError> {
        self.check_platform(candidate)?;
        if self.is_free(candidate) {
            return Ok(None);
        }
        let refused = match self.core.admitted(self.tenant()).await {
            Ok(admission) => return Ok(Some(admission)),
            Err(refused) => refused,
        };
        // Whoever asks once more is told what began, and begins nothing.
        if self.has_begun(candidate).await? {
            Ok(None)
        } else {
            Err(refused)
        }
    }

    /// Workers of pool `system` reach what no others do, and what runs there as it ships has the rights of
    /// the platform. So only an admin says what else runs there, with which input, and under which of the keys
    /// that servers agree by.
    fn check_platform(&self, candidate: &Candidate<'_>) -> Result<(), RuntimeError> {
        let is_shipped = candidate.path().is_of_platform();
        let is_of_users = !is_shipped && candidate.facts.pool != PoolName::system();
        if is_of_users || self.behalf().may(Scope::Admin) {
            return Ok(());
        }
        if !is_shipped {
            let text = "pool `system` is for the platform's own playbooks: only an admin runs others there";
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        if candidate.payload.is_none_or(is_empty) && candidate.dedup.is_none() {
            return Ok(());
        }
        Err(with_input())
    }

    /// Whether a run begins however many go on: nobody may stand in the way of what keeps the platform
    /// going, and a child that is refused to a worker would fail its parent, which has begun.
    fn is_free(&self, candidate: &Candidate<'_>) -> bool {
        let behalf = self.behalf();
        let is_operator = *self.tenant() == TenantId::default() && behalf.may(Scope::Admin);
        candidate.is_child && behalf.may(Scope::Worker)
            || is_operator && candidate.path().is_of_platform()
    }

    /// Whether a run began before under the same key, or for the same message.
    async fn has_begun(&self, candidate: &Candidate<'_>) -> Result<bool, RuntimeError> {
        if let Some(once) = candidate.once
            && self.core.has_begun(self.tenant(), once).await?
        {
            return Ok(true);
        }
        match candidate.dedup {
            Some(message) => Ok(self.store().has_seen(message.clone()).await?),
            None => Ok(false),
        }
    }
}

/// Refuses a run of the platform's own playbooks that a run of somebody else's starts with input. Whoever
/// wrote that playbook need not be an admin, whoever started it.
pub(super) fn check_platform_child(
    parent: Option<&PlaybookPath>,
    child: &PlaybookPath,
    payload: Option<&Json>,
) -> Result<(), RuntimeError> {
    let is_of_users = !parent.is_some_and(PlaybookPath::is_of_platform);
    if is_of_users && child.is_of_platform() && !payload.is_none_or(is_empty) {
        return Err(with_input());
    }
    Ok(())
}

fn is_empty(payload: &Json) -> bool {
    payload.as_map().is_some_and(JsonMap::is_empty)
}

fn with_input() -> RuntimeError {
    let text = "only an admin says with which input, and for which message, the platform's own playbooks run";
    RuntimeError::refused(ErrorCode::Forbidden, text)
}
