//! What is done to secrets: told by whoever does it, kept in the trail, and read from there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_api::credential::{CredentialView, CredentialWish};
use noetl_api::secret_audit::{SecretAuditQuery, SecretAuditRow, SecretAuditRows};
use noetl_store::{AuditEntry, SecretAct, SecretActFilter};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, SecretOperation, Text};

use super::credentials::MAX_NAME;
use super::{Act, Runtime, RuntimeError};

/// What is known of an act on a secret while it is done. Whoever writes the trail has another handle
/// of the same.
#[derive(Debug, Clone)]
pub(crate) struct SecretNote(Arc<Mutex<SecretAct>>);

impl SecretNote {
    /// A note of which as much is known.
    pub(crate) fn new(operation: SecretOperation, credential: Option<&str>) -> Self {
        Self(Arc::new(Mutex::new(SecretAct {
            credential: credential.map(told_name),
            ..SecretAct::new(operation)
        })))
    }

    /// What it says by now.
    pub(crate) fn told(&self) -> SecretAct {
        self.act().clone()
    }

    fn act(&self) -> MutexGuard<'_, SecretAct> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    /// The same handle for calls that are noted.
    #[must_use]
    pub(crate) fn noting(self, note: Option<SecretNote>) -> Self {
        Self { note, ..self }
    }

    /// Notes more of what is done to a secret, where somebody wants to know.
    pub(crate) fn jot(&self, jot: impl FnOnce(&mut SecretAct)) {
        if let Some(note) = &self.note {
            jot(&mut note.act());
        }
    }

    /// Lends to a worker of this process, whose wish comes through no door that would note it.
    pub(super) async fn lend_inside(
        &self,
        wish: CredentialWish,
    ) -> Result<CredentialView, RuntimeError> {
        let note = SecretNote::new(SecretOperation::Lend, Some(&wish.name));
        let noting = self.clone().noting(Some(note.clone()));
        let lent = noting.lend_credential(wish).await;
        let code = |error: &RuntimeError| error.code().unwrap_or(ErrorCode::StoreUnavailable);
        self.note(Act {
            actor: "worker".into(),
            token_id: None,
            what: "lend".into(),
            target: None,
            address: None,
            outcome: lent
                .as_ref()
                .map_or_else(|error| code(error).as_str(), |_| Act::OK)
                .into(),
            secret: Some(note.told()),
        })
        .await?;
        lent
    }

    /// What was done to secrets of all tenants, newest first.
    pub(crate) async fn secret_audit(
        &self,
        query: SecretAuditQuery,
    ) -> Result<SecretAuditRows, RuntimeError> {
        let mut filter = SecretActFilter {
            credential: query.credential,
            execution_id: query.execution_id,
            from: query.from,
            to: query.to,
            before: None,
        };
        let mut rows = Vec::new();
        let mut left = query.limit;
        // The list is one answer, whatever the pages of the store.
        while left > 0 {
            let limit = PageLimit::clamped(left.into());
            let page = self.store().secret_acts(filter.clone(), limit).await?;
            let Some(last) = page.last() else { break };
            filter.before = Some((last.act.occurred_at, last.act.audit_id));
            left -= limit.get();
            rows.extend(page.into_iter().filter_map(row));
        }
        Ok(SecretAuditRows { rows })
    }
}

/// A name as the trail tells it: whoever is refused may have sent one of any length.
pub(super) fn told_name(name: &str) -> Text {
    let end = name.floor_char_boundary(MAX_NAME);
    name.get(..end).unwrap_or_default().into()
}

fn row(entry: AuditEntry) -> Option<SecretAuditRow> {
    let act = entry.act;
    let secret = act.secret?;
    Some(SecretAuditRow {
        audit_id: act.audit_id,
        occurred_at: act.occurred_at,
        tenant_id: act.tenant_id,
        actor: act.actor,
        credential: secret.credential,
        operation: secret.operation,
        outcome: act.outcome,
        worker_id: secret.worker_id,
        execution_id: secret.execution_id,
        parent_execution_id: secret.parent_execution_id,
        kek_version: secret.key_id,
        address: act.address,
        notes: act.detail,
        seq: entry.seq,
        chain: entry.chain.to_string().into(),
    })
}
