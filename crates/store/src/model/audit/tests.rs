use super::*;

/// Audit logs outlive releases, so the digest of an entry must never change.
#[test]
fn chain_digest_of_plain_entry_is_stable() {
    let content = NewAuditEntry {
        audit_id: AuditId::new(7).unwrap(),
        tenant_id: TenantId::default(),
        occurred_at: Timestamp::UNIX_EPOCH,
        actor: "ci".into(),
        action: "POST /api/tokens".into(),
        target: None,
        address: None,
        outcome: "ok".into(),
        detail: Json::Null,
        secret: None,
    };
    let entry = AuditEntry::chain_after(None, content);
    let link = "f3994916a6298880de3ae3414605bafa7317388c08d28de0f18430301cf07665";
    assert_eq!(entry.chain.to_string(), link);
}
