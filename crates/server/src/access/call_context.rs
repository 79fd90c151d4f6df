//! Context of a call: the rights of its caller, and what the call records about itself.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use noetl_store::SecretAuditDetails;
use noetl_types::{EventId, ExecutionVersion, SecretOperation, TenantId, Text};

use super::auth_context::AuthContext;

/// Maximum bytes of a name in the audit log. A refused request may contain a name of any length.
const MAX_AUDIT_NAME_BYTES: usize = 255;

/// Context of a call. The default is the server itself: the default tenant without restrictions.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// Rights of the caller.
    pub auth: AuthContext,
    /// Authenticated caller, if known. It is recorded for the executions that the call starts.
    pub actor: Option<Text>,
    /// Id of the idempotent request that the call works for. Its effects are deduplicated by it.
    pub(crate) work_id: Option<EventId>,
    /// Collects facts about operations on secrets, if these are audited.
    pub(crate) secret_audit: Option<SecretAuditContext>,
    /// Receives the log position that reads observe.
    pub(crate) observed_seq: Option<ObservedSeq>,
}

impl From<AuthContext> for CallContext {
    fn from(auth: AuthContext) -> Self {
        Self { auth, ..Self::default() }
    }
}

impl CallContext {
    /// Context of the server itself: the default tenant without restrictions.
    pub fn server() -> &'static Self {
        static SERVER: LazyLock<CallContext> = LazyLock::new(CallContext::default);
        &SERVER
    }

    /// Tenant whose data is read and written.
    pub fn tenant(&self) -> &TenantId {
        &self.auth.tenant_id
    }

    /// Returns a context that records the log position of the execution it reads, and the recorded
    /// position.
    pub(crate) fn observe_seq(&self) -> (Self, ObservedSeq) {
        let observed = ObservedSeq::default();
        (Self { observed_seq: Some(observed.clone()), ..self.clone() }, observed)
    }

    /// Adds facts about the operation on a secret, if it is audited.
    pub(crate) fn add_secret_facts(&self, update: impl FnOnce(&mut SecretAuditDetails)) {
        if let Some(context) = &self.secret_audit {
            update(&mut context.lock_facts());
        }
    }
}

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

/// Truncates a name for the audit log.
pub(crate) fn truncate_audit_name(name: &str) -> Text {
    let end = name.floor_char_boundary(MAX_AUDIT_NAME_BYTES);
    name.get(..end).unwrap_or_default().into()
}

/// Log position of the execution that a request is about, once its row was read. Clones share the
/// value, so the middleware that writes the response sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedSeq(Arc<AtomicI64>);

impl ObservedSeq {
    /// Returns the position, if one was recorded.
    pub(crate) fn get(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|seq| *seq > 0)
    }

    /// Records the end of the log. The first call counts, because later reads see at least the same
    /// events.
    pub(crate) fn record_end(&self, version: ExecutionVersion) {
        if self.get().is_none() {
            self.record_requested(version);
        }
    }

    /// Records the earlier position that a caller requested.
    pub(crate) fn record_requested(&self, version: ExecutionVersion) {
        self.0.store(version.get(), Ordering::Relaxed);
    }
}
