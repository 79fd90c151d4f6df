//! API tokens and the audit log.

use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{
    AuditId, ExecutionId, Json, OrganizationId, PoolName, Scope, SecretOperation, TenantId, Text,
    Timestamp, TokenId, WorkerId, json, sha256,
};
use tokio::task::JoinSet;

use super::StoreFixture;
use super::fixture::test_time;
use crate::{ApiToken, AuditEntry, NewAuditEntry, SecretAuditDetails, SecretAuditFilter, Store};

fn parse_tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

fn token_id(number: i64) -> TokenId {
    TokenId::new(number).unwrap()
}

pub(crate) fn api_token(number: i64, tenant_id: &TenantId) -> ApiToken {
    ApiToken {
        token_id: token_id(number),
        tenant_id: tenant_id.clone(),
        organization_id: OrganizationId::default(),
        prefix: Text::from(format!("prefix{number}")),
        sha256: sha256(format!("secret {number}")),
        name: "ci".into(),
        scopes: [Scope::ExecRead, Scope::Worker].into_iter().collect(),
        pools: Some(vec![PoolName::shared(), PoolName::new("gpu").unwrap()]),
        path_globs: Some(vec!["etl/*".into()]),
        created_at: test_time("12:00:00"),
        created_by: "ädmin".into(),
        expires_at: Some(test_time("13:00:00")),
        last_used_at: None,
        revoked_at: None,
        seal: Some(sha256("seal")),
    }
}

pub(crate) async fn tokens_are_found_by_prefix(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (parse_tenant("acme"), TenantId::default());
    let bare = ApiToken {
        scopes: [].into_iter().collect(),
        pools: None,
        path_globs: None,
        expires_at: None,
        ..api_token(2, &acme)
    };
    assert!(store.put_token(api_token(1, &acme)).await.unwrap());
    assert!(store.put_token(bare.clone()).await.unwrap());
    assert!(store.put_token(api_token(3, &other)).await.unwrap());
    for number in [1, 3] {
        let found = store.find_token(&format!("prefix{number}").into()).await;
        let tenant_id = if number == 1 { &acme } else { &other };
        assert_eq!(found.unwrap(), Some(api_token(number, tenant_id)));
    }
    assert_eq!(store.find_token(&"prefix2".into()).await.unwrap(), Some(bare));
    assert_eq!(store.find_token(&"prefix".into()).await.unwrap(), None);

    // A taken id or prefix is refused.
    let same_id = ApiToken { prefix: "fresh".into(), ..api_token(1, &other) };
    let same_prefix = ApiToken { prefix: "prefix1".into(), ..api_token(9, &other) };
    assert!(!store.put_token(same_id).await.unwrap());
    assert!(!store.put_token(same_prefix).await.unwrap());
    let found = store.find_token(&"prefix1".into()).await.unwrap();
    assert_eq!(found, Some(api_token(1, &acme)));

    let page = PageLimit::clamped(1);
    let first = store.list_tokens(&acme, None, page).await.unwrap();
    assert_eq!(first, [api_token(1, &acme)]);
    let rest = store.list_tokens(&acme, Some(token_id(1)), PageLimit::MAX).await;
    let rest: Vec<TokenId> = rest.unwrap().iter().map(|it| it.token_id).collect();
    assert_eq!(rest, [token_id(2)]);
}

pub(crate) async fn token_is_revoked_once_by_its_tenant(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (parse_tenant("acme"), TenantId::default());
    store.put_token(api_token(1, &acme)).await.unwrap();
    let revoke = |tenant_id: TenantId, number, time: &'static str| async move {
        let revoked = store
            .revoke_token(&tenant_id, token_id(number), test_time(time), Some(sha256("seal")))
            .await;
        revoked.unwrap().map(|token| token.revoked_at)
    };
    assert_eq!(revoke(other, 1, "12:01:00").await, None);
    assert_eq!(revoke(acme.clone(), 7, "12:01:00").await, None);
    let since = Some(Some(test_time("12:02:00")));
    assert_eq!(revoke(acme.clone(), 1, "12:02:00").await, since);
    assert_eq!(revoke(acme.clone(), 1, "12:03:00").await, since);
    store.record_token_use(token_id(1), test_time("12:05:00")).await.unwrap();
    store.record_token_use(token_id(1), test_time("12:04:00")).await.unwrap();
    store.record_token_use(token_id(8), test_time("12:04:00")).await.unwrap();
    let expected = ApiToken {
        revoked_at: Some(test_time("12:02:00")),
        last_used_at: Some(test_time("12:05:00")),
        ..api_token(1, &acme)
    };
    let found = store.find_token(&"prefix1".into()).await.unwrap();
    assert_eq!(found, Some(expected));
}

pub(crate) async fn only_one_first_token_is_created(fixture: &StoreFixture) {
    let acme = parse_tenant("acme");
    let mut tasks = JoinSet::new();
    for number in 1..=16 {
        let (store, token) = (Arc::clone(&fixture.store), api_token(number, &acme));
        tasks.spawn(async move { store.put_first_token(token).await.unwrap() });
    }
    let results = tasks.join_all().await;
    assert_eq!(results.iter().filter(|created| **created).count(), 1);
    let tokens = fixture.store.list_tokens(&acme, None, PageLimit::MAX).await;
    assert_eq!(tokens.unwrap().len(), 1);
}

pub(crate) async fn servers_share_one_secret(fixture: &StoreFixture) {
    let mut tasks = JoinSet::new();
    for number in 1..=16 {
        let store = Arc::clone(&fixture.store);
        let fresh = Text::from(format!("secret {number}"));
        tasks.spawn(async move { store.get_or_init_shared_secret(fresh).await.unwrap() });
    }
    let secrets = tasks.join_all().await;
    assert!(secrets.iter().all(|secret| *secret == secrets[0]), "{secrets:?}");
    let later = fixture.store.get_or_init_shared_secret("another one".into()).await;
    assert_eq!(later.unwrap(), secrets[0]);
}

pub(crate) fn new_audit_entry(number: i64, tenant_id: &TenantId) -> NewAuditEntry {
    NewAuditEntry {
        audit_id: AuditId::new(number).unwrap(),
        tenant_id: tenant_id.clone(),
        occurred_at: test_time("12:00:00"),
        actor: "token:ci".into(),
        action: "token.create".into(),
        target: Some("token:7".into()),
        address: Some("127.0.0.1".into()),
        outcome: "ok".into(),
        detail: json::parse(br#"{"scopes":["worker"]}"#).unwrap(),
        secret: None,
    }
}

fn new_secret_audit_entry(
    number: i64,
    tenant_id: &TenantId,
    credential: &str,
    execution: i64,
) -> NewAuditEntry {
    NewAuditEntry {
        occurred_at: Timestamp::from_unix_ms(number * 1_000).unwrap(),
        secret: Some(SecretAuditDetails {
            credential: Some(credential.into()),
            worker_id: WorkerId::new("w1").ok(),
            execution_id: ExecutionId::new(execution).ok(),
            parent_execution_id: ExecutionId::new(execution + 1).ok(),
            key_id: Some("k1".into()),
            ..SecretAuditDetails::new(SecretOperation::Issue)
        }),
        ..new_audit_entry(number, tenant_id)
    }
}

async fn read_audit_log(store: &dyn Store, tenant_id: &TenantId) -> Vec<AuditEntry> {
    let mut entries = store.list_audit_entries(tenant_id, None, PageLimit::MAX).await.unwrap();
    entries.reverse();
    entries
}

fn is_chain_intact(entries: &[AuditEntry]) -> bool {
    let previous = std::iter::once(None).chain(entries.iter().map(Some));
    entries.iter().zip(previous).all(|(entry, previous_entry)| entry.is_next_after(previous_entry))
}

pub(crate) async fn audit_log_is_hash_chained(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (parse_tenant("acme"), TenantId::default());
    let bare = NewAuditEntry {
        target: None,
        address: None,
        detail: Json::Null,
        secret: Some(SecretAuditDetails::new(SecretOperation::Rotate)),
        ..new_audit_entry(2, &acme)
    };
    let first = vec![new_audit_entry(1, &acme), new_audit_entry(5, &other), bare.clone()];
    store.append_audit_log(first.clone()).await.unwrap();
    // A caller that does not know the outcome sends the entries again.
    store.append_audit_log(first).await.unwrap();
    store.append_audit_log(vec![new_audit_entry(3, &acme)]).await.unwrap();
    store.append_audit_log(Vec::new()).await.unwrap();
    let entries = read_audit_log(store, &acme).await;
    let numbered: Vec<_> = entries.iter().map(|it| (it.seq, it.content.clone())).collect();
    assert_eq!(
        numbered,
        [(1, new_audit_entry(1, &acme)), (2, bare), (3, new_audit_entry(3, &acme))]
    );
    assert!(is_chain_intact(&entries));
    assert!(is_chain_intact(&read_audit_log(store, &other).await));

    // A changed, removed or inserted entry breaks the chain.
    let changes: [fn(&mut NewAuditEntry); 3] = [
        |entry| entry.outcome = "denied".into(),
        |entry| entry.secret = None,
        |entry| entry.secret.as_mut().unwrap().credential = Some("x".into()),
    ];
    for change in changes {
        let mut changed = entries.clone();
        change(&mut changed[1].content);
        assert!(!is_chain_intact(&changed));
    }
    assert!(!is_chain_intact(&[entries[0].clone(), entries[2].clone()]));
    assert!(!is_chain_intact(&entries[1..]));

    let limit = PageLimit::clamped(2);
    let newest = store.list_audit_entries(&acme, None, limit).await.unwrap();
    assert_eq!(newest.iter().map(|it| it.seq).collect::<Vec<_>>(), [3, 2]);
    let older = store.list_audit_entries(&acme, Some(2), limit).await.unwrap();
    assert_eq!(older.iter().map(|it| it.seq).collect::<Vec<_>>(), [1]);
}

pub(crate) async fn racing_audit_entries_form_one_chain(fixture: &StoreFixture) {
    let tenants = [parse_tenant("acme"), TenantId::default()];
    let mut tasks = JoinSet::new();
    for number in 1..=32_i64 {
        let store = Arc::clone(&fixture.store);
        let entries: Vec<_> = (1..)
            .zip(&tenants)
            .map(|(index, tenant_id)| new_audit_entry(number * 10 + index, tenant_id))
            .collect();
        tasks.spawn(async move { store.append_audit_log(entries).await.unwrap() });
    }
    tasks.join_all().await;
    for tenant_id in &tenants {
        let entries = read_audit_log(&*fixture.store, tenant_id).await;
        assert_eq!(entries.len(), 32);
        assert!(is_chain_intact(&entries));
    }
}

pub(crate) async fn secret_audit_entries_are_listed_newest_first(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (parse_tenant("acme"), TenantId::default());
    let rotated = NewAuditEntry {
        occurred_at: Timestamp::from_unix_ms(4_000).unwrap(),
        secret: Some(SecretAuditDetails::new(SecretOperation::Rotate)),
        ..new_audit_entry(4, &other)
    };
    let entries = vec![
        new_secret_audit_entry(3, &acme, "api", 9),
        new_audit_entry(9, &acme),
        new_secret_audit_entry(1, &acme, "api", 8),
        new_secret_audit_entry(2, &other, "pg", 9),
        rotated.clone(),
    ];
    store.append_audit_log(entries).await.unwrap();
    let list = async |filter: SecretAuditFilter, limit: u32| {
        let limit = PageLimit::clamped(limit.into());
        let found = store.list_secret_audit_entries(filter, limit).await.unwrap();
        let ids = found.iter().map(|it| it.content.audit_id.get());
        (ids.collect::<Vec<_>>(), found)
    };
    let all = SecretAuditFilter::default;
    let (ids, entries) = list(all(), 10).await;
    assert_eq!(ids, [4, 3, 2, 1]);
    assert_eq!(entries[0].content, rotated);
    assert_eq!(entries[1].content, new_secret_audit_entry(3, &acme, "api", 9));
    assert_eq!(list(all(), 2).await.0, [4, 3]);
    let second = |number: i64| Timestamp::from_unix_ms(number * 1_000).unwrap();
    let for_credential =
        |credential: &str| SecretAuditFilter { credential: Some(credential.into()), ..all() };
    let by_execution = SecretAuditFilter { execution_id: ExecutionId::new(9).ok(), ..all() };
    let both =
        SecretAuditFilter { execution_id: ExecutionId::new(9).ok(), ..for_credential("api") };
    let middle = SecretAuditFilter { from: Some(second(2)), to: Some(second(3)), ..all() };
    let rest =
        SecretAuditFilter { before: Some((second(3), AuditId::new(3).unwrap())), ..middle.clone() };
    for (filter, ids) in [
        (for_credential("api"), vec![3, 1]),
        (for_credential("nobody"), vec![]),
        (by_execution, vec![3, 2]),
        (both, vec![3]),
        (middle, vec![3, 2]),
        (rest, vec![2]),
    ] {
        assert_eq!(list(filter.clone(), 10).await.0, ids, "{filter:?}");
    }
}
