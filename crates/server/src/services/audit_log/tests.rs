use noetl_types::AuditId;

use super::*;

fn refusal_from(address: u32) -> NewAuditEntry {
    NewAuditEntry {
        audit_id: AuditId::new(1).unwrap(),
        tenant_id: TenantId::default(),
        occurred_at: Timestamp::UNIX_EPOCH,
        actor: "anonymous".into(),
        action: "access".into(),
        target: None,
        address: Some(format!("10.0.0.{address}").into()),
        outcome: "unauthenticated".into(),
        detail: Json::Null,
        secret: None,
    }
}

#[test]
fn number_of_refusal_entries_is_bounded() {
    let mut refusals = RefusalCounter::default();
    let firsts = (0..100_000_u32)
        .filter_map(|number| refusals.count_refusal(refusal_from(number % 1_000)))
        .count();
    assert_eq!(firsts, MAX_REFUSAL_KEYS + 1);
    assert!(refusals.take_window(Timestamp::UNIX_EPOCH, false).is_empty());
    let later = Timestamp::UNIX_EPOCH.saturating_add(REFUSAL_WINDOW);
    let counted = refusals.take_window(later, false);
    assert_eq!(counted.len(), MAX_REFUSAL_KEYS + 1);
    assert_eq!(counted.iter().map(|(count, _)| count).sum::<u64>(), 100_000);
    assert!(refusals.take_window(later, true).is_empty());
    assert!(refusals.count_refusal(refusal_from(1)).is_some(), "a new window");
}
