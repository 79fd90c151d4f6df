//! Audit log of the actions of callers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_api::secret_audit::{SecretAuditQuery, SecretAuditResponse, SecretAuditRow};
use noetl_api::tokens::{AuditEntryView, AuditPage, SecretOperationView};
use noetl_store::{AuditEntry, NewAuditEntry, SecretAuditDetails, SecretAuditFilter};
use noetl_types::limits::PageLimit;
use noetl_types::{ErrorCode, Json, Millis, TenantId, Text, Timestamp, TokenId};
use tokio::sync::oneshot;

use crate::access::CallContext;
use crate::error::{Result, RuntimeError, error_chain, parse_cursor};
use crate::services::Infrastructure;

/// Maximum audit entries in the write queue. Further ones are only written to the process log.
const MAX_PENDING_AUDITS: usize = 10_000;
/// Time for which refusals with the same key are counted before their number is written.
const REFUSAL_WINDOW: Millis = Millis::from_secs(300);
/// Maximum distinct refusal keys per window. All further refusals share one key.
const MAX_REFUSAL_KEYS: usize = 64;

/// An action, or an attempted one, to be recorded in the audit log.
#[derive(Debug, Clone)]
pub(crate) struct AuditRecord {
    pub(crate) actor: Text,
    /// Token that the actor used.
    pub(crate) token_id: Option<TokenId>,
    pub(crate) action: Text,
    /// Object of the action.
    pub(crate) target: Option<Text>,
    /// Network address of the caller.
    pub(crate) address: Option<Text>,
    pub(crate) outcome: Text,
    /// Facts about an operation on a secret.
    pub(crate) secret: Option<SecretAuditDetails>,
}

impl AuditRecord {
    /// Outcome of a successful action.
    pub(crate) const OK: &str = "ok";

    /// True if the action reveals a secret to the caller.
    fn reveals_secret(&self) -> bool {
        let secret = self.secret.as_ref();
        self.outcome == Self::OK && secret.is_some_and(|secret| secret.operation.reveals_secret())
    }
}

/// The audit log, with its write queue.
pub struct AuditLog {
    infra: Arc<Infrastructure>,
    pending: Mutex<Vec<PendingAudit>>,
    /// Held while writing.
    write_lock: tokio::sync::Mutex<()>,
    refusals: Mutex<RefusalCounter>,
}

/// An audit entry in the write queue.
#[derive(Debug)]
struct PendingAudit {
    audit: NewAuditEntry,
    /// Notified when the entry is written, and dropped if that fails for now.
    written_ack: Option<oneshot::Sender<()>>,
}

impl PendingAudit {
    /// Creates an entry whose write is not awaited.
    fn without_ack(audit: NewAuditEntry) -> Self {
        Self { audit, written_ack: None }
    }
}

/// Refusals of the current window. Callers can cause refusals at any rate, so the number of entries
/// is bounded: the first refusal of each key is written, and later the number of the others.
#[derive(Debug, Default)]
struct RefusalCounter {
    since: Option<Timestamp>,
    by_key: BTreeMap<RefusalKey, (u64, NewAuditEntry)>,
}

/// Key by which refusals are counted: tenant, actor, address and outcome.
type RefusalKey = (TenantId, Text, Option<Text>, Text);

impl AuditLog {
    pub(crate) fn new(infra: &Arc<Infrastructure>) -> Self {
        Self {
            infra: Arc::clone(infra),
            pending: Mutex::default(),
            write_lock: tokio::sync::Mutex::default(),
            refusals: Mutex::default(),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Vec<PendingAudit>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, RefusalCounter> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue_audit(&self, audit: PendingAudit) {
        let mut pending = self.pending();
        if pending.len() < MAX_PENDING_AUDITS {
            pending.push(audit);
        } else {
            let NewAuditEntry { action, actor, .. } = audit.audit;
            tracing::error!(%action, %actor, "an audit entry was dropped: the write queue is full");
        }
    }

    /// Records an action durably. If that fails, it is written later. Only an action that would
    /// reveal a secret without an audit entry is refused.
    pub(crate) async fn record_audit(
        self: &Arc<Self>,
        ctx: &CallContext,
        record: AuditRecord,
    ) -> Result<()> {
        let must_be_written = record.reveals_secret() && self.infra.settings.secret_audit_required;
        let operation = record.secret.as_ref().map(|secret| secret.operation);
        let outcome = record.outcome.clone();
        let is_refused = !self.write_audit(ctx, record).await && must_be_written;
        // An action that is refused here was not done, so it is counted as failed.
        let outcome =
            if is_refused { ErrorCode::StoreUnavailable.as_str().into() } else { outcome };
        if let Some(operation) = operation {
            let outcome = (outcome == AuditRecord::OK).then_some(()).ok_or(&*outcome);
            self.infra.metrics.secrets.count_operation(operation, outcome);
        }
        if !is_refused {
            return Ok(());
        }
        let text = "the audit log cannot be written, and no secret is returned without an audit \
            entry; try again later";
        Err(RuntimeError::refused(ErrorCode::StoreUnavailable, text))
    }

    /// Writes an audit entry. Returns true if it was written. Concurrent entries are written
    /// together.
    async fn write_audit(self: &Arc<Self>, ctx: &CallContext, record: AuditRecord) -> bool {
        let Some(audit) = self.to_new_audit(ctx, record) else {
            return false;
        };
        let (ack, written) = oneshot::channel();
        self.enqueue_audit(PendingAudit { audit, written_ack: Some(ack) });
        let this = Arc::clone(self);
        // A separate task, so that the write completes even if the caller disconnects.
        self.infra.tasks.spawn(async move { this.flush_pending_audits().await });
        written.await.is_ok()
    }

    /// Records a refusal: the first one immediately, later ones as a count.
    pub(crate) fn record_refusal(self: &Arc<Self>, ctx: &CallContext, record: AuditRecord) {
        let Some(record) = self.to_new_audit(ctx, record) else {
            return;
        };
        let first = self.refusals().count_refusal(record);
        if let Some(first) = first {
            self.enqueue_audit(PendingAudit::without_ack(first));
            let this = Arc::clone(self);
            self.infra.tasks.spawn(async move { this.flush_pending_audits().await });
        }
    }

    fn to_new_audit(&self, ctx: &CallContext, record: AuditRecord) -> Option<NewAuditEntry> {
        let audit_id = self.infra.mint_id()
            .inspect_err(|error| tracing::error!(%error, action = %record.action, "an audit entry was dropped: no id could be allocated"))
            .ok()?;
        let token = |id: TokenId| Json::object([("token_id", Json::from(id.to_string()))]);
        Some(NewAuditEntry {
            audit_id,
            tenant_id: ctx.tenant().clone(),
            occurred_at: self.infra.now(),
            actor: record.actor,
            action: record.action,
            target: record.target,
            address: record.address,
            outcome: record.outcome,
            detail: record.token_id.map_or(Json::Null, token),
            secret: record.secret,
        })
    }

    /// Returns a page of the tenant's audit log, newest first.
    pub async fn audit_page(
        &self,
        ctx: &CallContext,
        limit: PageLimit,
        cursor: Option<Text>,
    ) -> Result<AuditPage> {
        let before = parse_cursor(cursor)?;
        let entries = self.infra.store().list_audit_entries(ctx.tenant(), before, limit).await?;
        let last = entries.last().map(|last| last.seq);
        // The entry before the oldest one of the page is required to verify its chain link.
        let previous = match last {
            Some(seq) if seq > 1 => {
                let store = self.infra.store();
                let page = store.list_audit_entries(ctx.tenant(), Some(seq), PageLimit::MIN);
                page.await?.into_iter().next()
            }
            Some(_) | None => None,
        };
        let predecessors = entries.iter().skip(1).chain(&previous).map(Some);
        let predecessors = predecessors.chain(std::iter::once(None));
        let intact =
            entries.iter().zip(predecessors).all(|(entry, before)| entry.is_next_after(before));
        Ok(AuditPage {
            next_cursor: previous.and(last).map(|last| last.to_string().into()),
            entries: entries.into_iter().map(to_audit_view).collect(),
            intact,
        })
    }

    /// Writes the counts of refusals whose window has ended.
    pub(crate) async fn flush_refusals(&self, at_once: bool) {
        let now = self.infra.now();
        let ended = self.refusals().take_window(now, at_once);
        for (count, audit) in ended {
            let Ok(audit_id) = self.infra.ids.mint_id(now) else {
                return;
            };
            self.enqueue_audit(PendingAudit::without_ack(NewAuditEntry {
                audit_id,
                occurred_at: now,
                detail: Json::object([
                    ("count", Json::from(count)),
                    ("since", Json::from(audit.occurred_at.to_string())),
                ]),
                ..audit
            }));
        }
        self.flush_pending_audits().await;
    }

    /// Writes the queued entries. If the queue is empty, another call has written them.
    async fn flush_pending_audits(&self) {
        let _guard = self.write_lock.lock().await;
        let pending = std::mem::take(&mut *self.pending());
        if pending.is_empty() {
            return;
        }
        let audits = pending.iter().map(|pending| pending.audit.clone()).collect();
        let Err(error) = self.infra.store.append_audit_log(audits).await else {
            for ack in pending.into_iter().filter_map(|pending| pending.written_ack) {
                // The caller may have disconnected.
                let _ = ack.send(());
            }
            return;
        };
        let count = pending.len();
        tracing::error!(error = %error_chain(&error), count, "the audit log was not written; trying again later");
        // The entries are written with the next ones. An entry that was stored despite the error is
        // not stored twice.
        for PendingAudit { audit, .. } in pending {
            self.enqueue_audit(PendingAudit::without_ack(audit));
        }
    }

    /// Lists operations on secrets of all tenants, newest first.
    pub(crate) async fn list_secret_audit(
        &self,
        query: SecretAuditQuery,
    ) -> Result<SecretAuditResponse> {
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
            let page = self.infra.store().list_secret_audit_entries(filter.clone(), limit).await?;
            let Some(last) = page.last() else { break };
            filter.before = Some((last.content.occurred_at, last.content.audit_id));
            remaining -= limit.get();
            rows.extend(page.into_iter().filter_map(to_secret_audit_row));
        }
        Ok(SecretAuditResponse { rows })
    }
}

impl RefusalCounter {
    /// Counts a refusal. Returns it if it is the first one with its key.
    fn count_refusal(&mut self, audit: NewAuditEntry) -> Option<NewAuditEntry> {
        self.since.get_or_insert(audit.occurred_at);
        let key = (
            audit.tenant_id.clone(),
            audit.actor.clone(),
            audit.address.clone(),
            audit.outcome.clone(),
        );
        let is_counted = self.by_key.contains_key(&key);
        let key = if is_counted || self.by_key.len() < MAX_REFUSAL_KEYS {
            key
        } else {
            (TenantId::default(), "many".into(), None, "refused".into())
        };
        let entry = self.by_key.entry(key);
        let mut first = None;
        let (count, _) = entry.or_insert_with(|| {
            first = Some(audit.clone());
            (0, audit)
        });
        *count += 1;
        first
    }

    /// Returns the counted refusals if the window has ended.
    fn take_window(&mut self, now: Timestamp, at_once: bool) -> Vec<(u64, NewAuditEntry)> {
        let is_over = self.since.is_some_and(|since| now.duration_since(since) >= REFUSAL_WINDOW);
        if !is_over && !at_once {
            return Vec::new();
        }
        self.since = None;
        let by_key = std::mem::take(&mut self.by_key);
        by_key.into_values().filter(|(count, _)| *count > 1).collect()
    }
}

fn to_audit_view(entry: AuditEntry) -> AuditEntryView {
    let audit = entry.content;
    AuditEntryView {
        id: audit.audit_id,
        seq: entry.seq,
        occurred_at: audit.occurred_at,
        actor: audit.actor,
        action: audit.action,
        target: audit.target,
        address: audit.address,
        outcome: audit.outcome,
        detail: audit.detail,
        secret: audit.secret.map(|secret| SecretOperationView {
            operation: secret.operation,
            credential: secret.credential,
            worker_id: secret.worker_id,
            execution_id: secret.execution_id,
            parent_execution_id: secret.parent_execution_id,
            key_id: secret.key_id,
        }),
        chain: entry.chain.to_string().into(),
    }
}

fn to_secret_audit_row(entry: AuditEntry) -> Option<SecretAuditRow> {
    let audit = entry.content;
    let secret = audit.secret?;
    Some(SecretAuditRow {
        audit_id: audit.audit_id.into(),
        occurred_at: audit.occurred_at,
        tenant_id: audit.tenant_id,
        actor: audit.actor,
        credential: secret.credential,
        operation: secret.operation,
        outcome: audit.outcome,
        worker_id: secret.worker_id,
        execution_id: secret.execution_id.map(Into::into),
        parent_execution_id: secret.parent_execution_id.map(Into::into),
        kek_version: secret.key_id,
        address: audit.address,
        notes: audit.detail,
        seq: entry.seq,
        chain: entry.chain.to_string().into(),
    })
}

#[cfg(test)]
mod tests;
