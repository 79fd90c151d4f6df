//! Verification of the audit log.

use noetl_store::AuditEntry;
use noetl_types::TenantId;
use noetl_types::limits::PageLimit;

use super::{Pass, Problem, ProblemKind, Verification, VerifyObserver};
use crate::error::Result;

impl Verification {
    /// Verifies the hash chains of all tenants' audit logs.
    pub(super) async fn verify_audit_log(
        &self,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let store = &self.infra.store;
            let page = store.list_audit_heads(after.as_ref(), PageLimit::MAX).await?;
            for head in &page {
                self.verify_audit_chain(&head.tenant_id, head.seq, pass).await?;
            }
            match page.into_iter().next_back() {
                Some(last) => after = Some(last.tenant_id),
                None => return Ok(()),
            }
        }
    }

    /// Verifies the entries of a tenant, newest first, as they are listed.
    async fn verify_audit_chain(
        &self,
        tenant_id: &TenantId,
        last: i64,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<()> {
        let mut report = |seq: i64, what: &str| {
            let text = format!("entry {seq} of the audit log of tenant {tenant_id} {what}");
            pass.report(Problem::of_store(ProblemKind::ModifiedAuditLog, text));
        };
        let mut next: Option<AuditEntry> = None;
        loop {
            let before = next.as_ref().map_or(last.saturating_add(1), |next| next.seq);
            let store = &self.infra.store;
            let page = store.list_audit_entries(tenant_id, Some(before), PageLimit::MAX).await?;
            if page.is_empty() {
                break;
            }
            for entry in page {
                if let Some(next) = &next
                    && !next.is_next_after(Some(&entry))
                {
                    if next.seq == entry.seq + 1 {
                        report(next.seq, "or the one before it was changed");
                    } else {
                        report(next.seq - 1, "is missing");
                    }
                }
                next = Some(entry);
            }
        }
        if let Some(first) = next
            && !first.is_next_after(None)
        {
            match first.seq {
                1 => report(1, "was changed"),
                seq => report(seq - 1, "is missing"),
            }
        }
        Ok(())
    }
}
