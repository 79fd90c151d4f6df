//! Tokens, and the trail of acts.

use std::sync::Arc;

use noetl_types::limits::PageLimit;
use noetl_types::{
    AuditId, ExecutionId, Json, OrganizationId, PoolName, Scope, SecretOperation, TenantId, Text,
    Timestamp, TokenId, WorkerId, json, sha256,
};
use tokio::task::JoinSet;

use super::Bench;
use super::fixture::at;
use crate::{ApiToken, AuditEntry, NewAudit, SecretAct, SecretActFilter, Store};

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

fn id(number: i64) -> TokenId {
    TokenId::new(number).unwrap()
}

pub(crate) fn token(number: i64, tenant_id: &TenantId) -> ApiToken {
    ApiToken {
        token_id: id(number),
        tenant_id: tenant_id.clone(),
        organization_id: OrganizationId::default(),
        prefix: Text::from(format!("prefix{number}")),
        sha256: sha256(format!("secret {number}")),
        name: "ci".into(),
        scopes: [Scope::ExecRead, Scope::Worker].into_iter().collect(),
        pools: Some(vec![PoolName::shared(), PoolName::new("gpu").unwrap()]),
        path_globs: Some(vec!["etl/*".into()]),
        created_at: at("12:00:00"),
        created_by: "ädmin".into(),
        expires_at: Some(at("13:00:00")),
        last_used_at: None,
        revoked_at: None,
    }
}

pub(crate) async fn tokens_are_found_by_their_prefix(bench: &Bench) {
    let store = &*bench.store;
    let (acme, other) = (tenant("acme"), TenantId::default());
    let bare = ApiToken {
        scopes: [].into_iter().collect(),
        pools: None,
        path_globs: None,
        expires_at: None,
        ..token(2, &acme)
    };
    assert!(store.put_token(token(1, &acme)).await.unwrap());
    assert!(store.put_token(bare.clone()).await.unwrap());
    assert!(store.put_token(token(3, &other)).await.unwrap());
    for number in [1, 3] {
        let found = store.token(&format!("prefix{number}").into()).await;
        let tenant_id = if number == 1 { &acme } else { &other };
        assert_eq!(found.unwrap(), Some(token(number, tenant_id)));
    }
    assert_eq!(store.token(&"prefix2".into()).await.unwrap(), Some(bare));
    assert_eq!(store.token(&"prefix".into()).await.unwrap(), None);

    // Neither an id nor a prefix is taken over by another one.
    let same_id = ApiToken {
        prefix: "fresh".into(),
        ..token(1, &other)
    };
    let same_prefix = ApiToken {
        prefix: "prefix1".into(),
        ..token(9, &other)
    };
    assert!(!store.put_token(same_id).await.unwrap());
    assert!(!store.put_token(same_prefix).await.unwrap());
    let found = store.token(&"prefix1".into()).await.unwrap();
    assert_eq!(found, Some(token(1, &acme)));

    let page = PageLimit::clamped(1);
    let first = store.tokens(&acme, None, page).await.unwrap();
    assert_eq!(first, [token(1, &acme)]);
    let rest = store.tokens(&acme, Some(id(1)), PageLimit::MAX).await;
    let rest: Vec<TokenId> = rest.unwrap().iter().map(|it| it.token_id).collect();
    assert_eq!(rest, [id(2)]);
}

pub(crate) async fn a_token_is_revoked_once_and_by_its_tenant(bench: &Bench) {
    let store = &*bench.store;
    let (acme, other) = (tenant("acme"), TenantId::default());
    store.put_token(token(1, &acme)).await.unwrap();
    let revoke = |tenant_id: TenantId, number, time: &'static str| async move {
        let revoked = store.revoke_token(&tenant_id, id(number), at(time)).await;
        revoked.unwrap().map(|token| token.revoked_at)
    };
    assert_eq!(revoke(other, 1, "12:01:00").await, None);
    assert_eq!(revoke(acme.clone(), 7, "12:01:00").await, None);
    let since = Some(Some(at("12:02:00")));
    assert_eq!(revoke(acme.clone(), 1, "12:02:00").await, since);
    assert_eq!(revoke(acme.clone(), 1, "12:03:00").await, since);
    store.touch_token(id(1), at("12:05:00")).await.unwrap();
    store.touch_token(id(1), at("12:04:00")).await.unwrap();
    store.touch_token(id(8), at("12:04:00")).await.unwrap();
    let expected = ApiToken {
        revoked_at: Some(at("12:02:00")),
        last_used_at: Some(at("12:05:00")),
        ..token(1, &acme)
    };
    let found = store.token(&"prefix1".into()).await.unwrap();
    assert_eq!(found, Some(expected));
}

pub(crate) async fn there_is_one_first_token(bench: &Bench) {
    let acme = tenant("acme");
    let mut racing = JoinSet::new();
    for number in 1..=16 {
        let (store, token) = (Arc::clone(&bench.store), token(number, &acme));
        racing.spawn(async move { store.put_first_token(token).await.unwrap() });
    }
    let won = racing.join_all().await;
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
    let kept = bench.store.tokens(&acme, None, PageLimit::MAX).await;
    assert_eq!(kept.unwrap().len(), 1);
}

pub(crate) async fn all_servers_share_one_secret(bench: &Bench) {
    let mut racing = JoinSet::new();
    for number in 1..=16 {
        let store = Arc::clone(&bench.store);
        let fresh = Text::from(format!("secret {number}"));
        racing.spawn(async move { store.common_secret(fresh).await.unwrap() });
    }
    let got = racing.join_all().await;
    assert!(got.iter().all(|secret| *secret == got[0]), "{got:?}");
    let later = bench.store.common_secret("another one".into()).await;
    assert_eq!(later.unwrap(), got[0]);
}

pub(crate) fn act(number: i64, tenant_id: &TenantId) -> NewAudit {
    NewAudit {
        audit_id: AuditId::new(number).unwrap(),
        tenant_id: tenant_id.clone(),
        occurred_at: at("12:00:00"),
        actor: "token:ci".into(),
        act: "token.create".into(),
        target: Some("token:7".into()),
        address: Some("127.0.0.1".into()),
        outcome: "ok".into(),
        detail: json::parse(br#"{"scopes":["worker"]}"#).unwrap(),
        secret: None,
    }
}

fn secret_act(number: i64, tenant_id: &TenantId, credential: &str, run: i64) -> NewAudit {
    NewAudit {
        occurred_at: Timestamp::from_unix_ms(number * 1_000).unwrap(),
        secret: Some(SecretAct {
            credential: Some(credential.into()),
            worker_id: WorkerId::new("w1").ok(),
            execution_id: ExecutionId::new(run).ok(),
            parent_execution_id: ExecutionId::new(run + 1).ok(),
            key_id: Some("k1".into()),
            ..SecretAct::new(SecretOperation::Lend)
        }),
        ..act(number, tenant_id)
    }
}

async fn trail(store: &dyn Store, tenant_id: &TenantId) -> Vec<AuditEntry> {
    let mut entries = store.audits(tenant_id, None, PageLimit::MAX).await.unwrap();
    entries.reverse();
    entries
}

fn is_whole(trail: &[AuditEntry]) -> bool {
    let before = std::iter::once(None).chain(trail.iter().map(Some));
    trail.iter().zip(before).all(|(it, last)| it.follows(last))
}

pub(crate) async fn a_trail_is_linked(bench: &Bench) {
    let store = &*bench.store;
    let (acme, other) = (tenant("acme"), TenantId::default());
    let bare = NewAudit {
        target: None,
        address: None,
        detail: Json::Null,
        secret: Some(SecretAct::new(SecretOperation::Rotate)),
        ..act(2, &acme)
    };
    let first = vec![act(1, &acme), act(5, &other), bare.clone()];
    store.audit(first.clone()).await.unwrap();
    // Whoever does not know whether it worked says it again.
    store.audit(first).await.unwrap();
    store.audit(vec![act(3, &acme)]).await.unwrap();
    store.audit(Vec::new()).await.unwrap();
    let entries = trail(store, &acme).await;
    let acts: Vec<_> = entries.iter().map(|it| (it.seq, it.act.clone())).collect();
    assert_eq!(acts, [(1, act(1, &acme)), (2, bare), (3, act(3, &acme))]);
    assert!(is_whole(&entries));
    assert!(is_whole(&trail(store, &other).await));

    // What is changed, left out or put in shows.
    let changes: [fn(&mut NewAudit); 3] = [
        |act| act.outcome = "denied".into(),
        |act| act.secret = None,
        |act| act.secret.as_mut().unwrap().credential = Some("x".into()),
    ];
    for change in changes {
        let mut changed = entries.clone();
        change(&mut changed[1].act);
        assert!(!is_whole(&changed));
    }
    assert!(!is_whole(&[entries[0].clone(), entries[2].clone()]));
    assert!(!is_whole(&entries[1..]));

    let limit = PageLimit::clamped(2);
    let newest = store.audits(&acme, None, limit).await.unwrap();
    assert_eq!(newest.iter().map(|it| it.seq).collect::<Vec<_>>(), [3, 2]);
    let older = store.audits(&acme, Some(2), limit).await.unwrap();
    assert_eq!(older.iter().map(|it| it.seq).collect::<Vec<_>>(), [1]);
}

pub(crate) async fn racing_acts_leave_one_trail(bench: &Bench) {
    let tenants = [tenant("acme"), TenantId::default()];
    let mut racing = JoinSet::new();
    for number in 1..=32_i64 {
        let store = Arc::clone(&bench.store);
        let acts: Vec<_> = (1..)
            .zip(&tenants)
            .map(|(place, tenant_id)| act(number * 10 + place, tenant_id))
            .collect();
        racing.spawn(async move { store.audit(acts).await.unwrap() });
    }
    racing.join_all().await;
    for tenant_id in &tenants {
        let entries = trail(&*bench.store, tenant_id).await;
        assert_eq!(entries.len(), 32);
        assert!(is_whole(&entries));
    }
}

pub(crate) async fn acts_on_secrets_are_found_newest_first(bench: &Bench) {
    let store = &*bench.store;
    let (acme, other) = (tenant("acme"), TenantId::default());
    let rotated = NewAudit {
        occurred_at: Timestamp::from_unix_ms(4_000).unwrap(),
        secret: Some(SecretAct::new(SecretOperation::Rotate)),
        ..act(4, &other)
    };
    let acts = vec![
        secret_act(3, &acme, "api", 9),
        act(9, &acme),
        secret_act(1, &acme, "api", 8),
        secret_act(2, &other, "pg", 9),
        rotated.clone(),
    ];
    store.audit(acts).await.unwrap();
    let found = async |filter: SecretActFilter, limit: u32| {
        let limit = PageLimit::clamped(limit.into());
        let found = store.secret_acts(filter, limit).await.unwrap();
        let ids = found.iter().map(|it| it.act.audit_id.get());
        (ids.collect::<Vec<_>>(), found)
    };
    let all = SecretActFilter::default;
    let (ids, entries) = found(all(), 10).await;
    assert_eq!(ids, [4, 3, 2, 1]);
    assert_eq!(entries[0].act, rotated);
    assert_eq!(entries[1].act, secret_act(3, &acme, "api", 9));
    assert_eq!(found(all(), 2).await.0, [4, 3]);
    let second = |number: i64| Timestamp::from_unix_ms(number * 1_000).unwrap();
    let of = |credential: &str| SecretActFilter {
        credential: Some(credential.into()),
        ..all()
    };
    let run = SecretActFilter {
        execution_id: ExecutionId::new(9).ok(),
        ..all()
    };
    let both = SecretActFilter {
        execution_id: ExecutionId::new(9).ok(),
        ..of("api")
    };
    let middle = SecretActFilter {
        from: Some(second(2)),
        to: Some(second(3)),
        ..all()
    };
    let rest = SecretActFilter {
        before: Some((second(3), AuditId::new(3).unwrap())),
        ..middle.clone()
    };
    for (filter, ids) in [
        (of("api"), vec![3, 1]),
        (of("nobody"), vec![]),
        (run, vec![3, 2]),
        (both, vec![3]),
        (middle, vec![3, 2]),
        (rest, vec![2]),
    ] {
        assert_eq!(found(filter.clone(), 10).await.0, ids, "{filter:?}");
    }
}
