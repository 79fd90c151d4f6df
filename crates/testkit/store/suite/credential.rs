//! Storage of credentials.

use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, Json, TenantId, Timestamp};

use super::StoreFixture;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};

fn test_credential(id: i64, tenant: &str, name: &str) -> Credential {
    Credential {
        credential_id: CredentialId::new(id).unwrap(),
        tenant_id: TenantId::new(tenant).unwrap(),
        name: name.into(),
        kind: "postgres".into(),
        version: 1,
        sealed: Json::object([("ct", Json::from("x"))]),
        kid: "k1".into(),
        meta: Some(Json::object([("owner", Json::from("ada"))])),
        tags: Json::list([Json::from("prod")]),
        description: Some("the main one".into()),
        created_at: Timestamp::from_unix_ms(1_000).unwrap(),
        updated_at: Timestamp::from_unix_ms(2_000).unwrap(),
    }
}

fn credential_put(credential: Credential) -> CredentialPut {
    CredentialPut { credential, replaces: None }
}

pub(crate) async fn credential_replace_requires_current_version(fixture: &StoreFixture) {
    let store = &fixture.store;
    let first = test_credential(7, "default", "pg_main");
    assert!(store.put_credential(credential_put(first.clone())).await.unwrap());
    for conflicting in
        [test_credential(8, "default", "pg_main"), test_credential(7, "default", "other")]
    {
        assert!(!store.put_credential(credential_put(conflicting)).await.unwrap());
    }
    let tenant = TenantId::default();
    for key in [CredentialKey::Id(first.credential_id), CredentialKey::Name("pg_main".into())] {
        let found = store.find_credential(&tenant, &key).await.unwrap();
        assert_eq!(found.as_ref(), Some(&first));
        let other_tenant = TenantId::new("other").unwrap();
        assert_eq!(store.find_credential(&other_tenant, &key).await.unwrap(), None);
    }
    let second = Credential { version: 2, kind: "bearer".into(), meta: None, ..first.clone() };
    let replace = |replaces| CredentialPut { credential: second.clone(), replaces: Some(replaces) };
    assert!(!store.put_credential(replace(3)).await.unwrap());
    assert!(store.put_credential(replace(1)).await.unwrap());
    assert!(!store.put_credential(replace(1)).await.unwrap());
    let key = CredentialKey::Name("pg_main".into());
    assert_eq!(store.find_credential(&tenant, &key).await.unwrap(), Some(second));
}

pub(crate) async fn credentials_are_listed_and_deleted(fixture: &StoreFixture) {
    let store = &fixture.store;
    let mut other_kid = test_credential(3, "default", "mail");
    other_kid.kid = "k2".into();
    for credential in [
        test_credential(1, "default", "pg_main"),
        test_credential(2, "other", "pg_main"),
        other_kid,
    ] {
        assert!(store.put_credential(credential_put(credential)).await.unwrap());
    }
    let ids = async |filter: CredentialFilter, limit: u32| {
        let limit = PageLimit::clamped(i64::from(limit));
        let found = store.list_credentials(filter, limit).await.unwrap();
        let ids = found.iter().map(|found| found.credential_id.get());
        ids.collect::<Vec<_>>()
    };
    let base = || CredentialFilter::for_tenant(TenantId::default());
    assert_eq!(ids(base(), 10).await, [1, 3]);
    assert_eq!(ids(base(), 1).await, [1]);
    let after = CredentialId::new(1).ok();
    assert_eq!(ids(CredentialFilter { after, ..base() }, 10).await, [3]);
    let text = Some("mai".into());
    assert_eq!(ids(CredentialFilter { text, ..base() }, 10).await, [1, 3]);
    let text = Some("pg_".into());
    assert_eq!(ids(CredentialFilter { text, ..base() }, 10).await, [1]);
    let kind = Some("bearer".into());
    assert!(ids(CredentialFilter { kind, ..base() }, 10).await.is_empty());
    let all_tenants =
        CredentialFilter { tenant_id: None, excluded_kid: Some("k2".into()), ..base() };
    assert_eq!(ids(all_tenants, 10).await, [1, 2]);
    let (tenant, id) = (TenantId::default(), |id| CredentialId::new(id).unwrap());
    assert!(!store.delete_credential(&tenant, id(2)).await.unwrap());
    assert!(store.delete_credential(&tenant, id(1)).await.unwrap());
    assert!(!store.delete_credential(&tenant, id(1)).await.unwrap());
    assert_eq!(ids(base(), 10).await, [3]);
}
