//! Audit of operations on secrets: collected during the operation, stored in the audit log, and
//! read from there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_api::credential::{CredentialRequest, CredentialView};
use noetl_api::secret_audit::{SecretAuditQuery, SecretAuditResponse, SecretAuditRow};
use noetl_store::{AuditEntry, SecretAuditDetails, SecretAuditFilter};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, SecretOperation, Text};

use super::credentials::MAX_NAME_BYTES;
use super::{AuditRecord, Runtime, RuntimeError};

/// Facts about an operation on a secret, collected while it runs. Clones share the same data, so
/// the caller that writes the audit log sees them.
#[derive(Debug, Clone)]
pub(crate) struct SecretAuditContext(Arc<Mutex<SecretAuditDetails>>);

impl SecretAuditContext {
    /// Starts the collection with the facts that are known before the operation.
    pub(crate) fn new(operation: SecretOperation, credential: Option<&str>) -> Self {
        Self(Arc::new(Mutex::new(SecretAuditDetails {
            credential: credential.map(truncate_audit_name),
            ..SecretAuditDetails::new(operation)
        })))
    }

    /// Returns the facts collected so far.
    pub(crate) fn collected(&self) -> SecretAuditDetails {
        self.lock_facts().clone()
    }

    fn lock_facts(&self) -> MutexGuard<'_, SecretAuditDetails> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    /// Returns a handle whose calls add to this collection.
    #[must_use]
    pub(crate) fn with_secret_audit(self, secret_audit: Option<SecretAuditContext>) -> Self {
        Self { secret_audit, ..self }
    }

    /// Adds facts about the operation, if it is audited.
    pub(crate) fn add_secret_facts(&self, update: impl FnOnce(&mut SecretAuditDetails)) {
        if let Some(context) = &self.secret_audit {
            update(&mut context.lock_facts());
        }
    }

    /// Issues a credential to a worker in this process. Such a request does not pass through the
    /// HTTP middleware, which would audit it.
    pub(super) async fn issue_credential_in_process(
        &self,
        request: CredentialRequest,
    ) -> Result<CredentialView, RuntimeError> {
        let context = SecretAuditContext::new(SecretOperation::Issue, Some(&request.name));
        let audited = self.clone().with_secret_audit(Some(context.clone()));
        let issued = audited.issue_credential(request).await;
        let code = |error: &RuntimeError| error.code().unwrap_or(ErrorCode::StoreUnavailable);
        self.record_audit(AuditRecord {
            actor: "worker".into(),
            token_id: None,
            action: "issue".into(),
            target: None,
            address: None,
            outcome: issued
                .as_ref()
                .map_or_else(|error| code(error).as_str(), |_| AuditRecord::OK)
                .into(),
            secret: Some(context.collected()),
        })
        .await?;
        issued
    }

    /// Lists operations on secrets of all tenants, newest first.
    pub(crate) async fn list_secret_audit(
        &self,
        query: SecretAuditQuery,
    ) -> Result<SecretAuditResponse, RuntimeError> {
        let mut filter = SecretAuditFilter {
            credential: query.credential,
            execution_id: query.execution_id,
            from: query.from,
            to: query.to,
            before: None,
        };
        let mut rows = Vec::new();
        let mut remaining = query.limit;
        // The answer has a single page, so all pages of the store are read.
        while remaining > 0 {
            let limit = PageLimit::clamped(remaining.into());
            let page = self.store().list_secret_audit_entries(filter.clone(), limit).await?;
            let Some(last) = page.last() else { break };
            filter.before = Some((last.content.occurred_at, last.content.audit_id));
            remaining -= limit.get();
            rows.extend(page.into_iter().filter_map(to_secret_audit_row));
        }
        Ok(SecretAuditResponse { rows })
    }
}

/// Truncates a name for the audit log. A refused request may contain a name of any length.
pub(super) fn truncate_audit_name(name: &str) -> Text {
    let end = name.floor_char_boundary(MAX_NAME_BYTES);
    name.get(..end).unwrap_or_default().into()
}

fn to_secret_audit_row(entry: AuditEntry) -> Option<SecretAuditRow> {
    let audit = entry.content;
    let secret = audit.secret?;
    Some(SecretAuditRow {
        audit_id: audit.audit_id,
        occurred_at: audit.occurred_at,
        tenant_id: audit.tenant_id,
        actor: audit.actor,
        credential: secret.credential,
        operation: secret.operation,
        outcome: audit.outcome,
        worker_id: secret.worker_id,
        execution_id: secret.execution_id,
        parent_execution_id: secret.parent_execution_id,
        kek_version: secret.key_id,
        address: audit.address,
        notes: audit.detail,
        seq: entry.seq,
        chain: entry.chain.to_string().into(),
    })
}
