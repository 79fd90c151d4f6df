//! Credentials are kept.

use noetl_types::limits::PageLimit;
use noetl_types::{CredentialId, Json, TenantId, Timestamp};

use super::Bench;
use crate::model::{Credential, CredentialFilter, CredentialKey, CredentialPut};

fn credential(id: i64, tenant: &str, name: &str) -> Credential {
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

fn new(credential: Credential) -> CredentialPut {
    CredentialPut {
        credential,
        replaces: None,
    }
}

pub(crate) async fn a_credential_is_kept_and_replaced_by_who_knows_it(bench: &Bench) {
    let store = &bench.store;
    let first = credential(7, "default", "pg_main");
    assert!(store.put_credential(new(first.clone())).await.unwrap());
    for taken in [
        credential(8, "default", "pg_main"),
        credential(7, "default", "other"),
    ] {
        assert!(!store.put_credential(new(taken)).await.unwrap());
    }
    let tenant = TenantId::default();
    for key in [
        CredentialKey::Id(first.credential_id),
        CredentialKey::Name("pg_main".into()),
    ] {
        let found = store.credential(&tenant, &key).await.unwrap();
        assert_eq!(found.as_ref(), Some(&first));
        let stranger = TenantId::new("other").unwrap();
        assert_eq!(store.credential(&stranger, &key).await.unwrap(), None);
    }
    let second = Credential {
        version: 2,
        kind: "bearer".into(),
        meta: None,
        ..first.clone()
    };
    let replace = |replaces| CredentialPut {
        credential: second.clone(),
        replaces: Some(replaces),
    };
    assert!(!store.put_credential(replace(3)).await.unwrap());
    assert!(store.put_credential(replace(1)).await.unwrap());
    assert!(!store.put_credential(replace(1)).await.unwrap());
    let key = CredentialKey::Name("pg_main".into());
    assert_eq!(store.credential(&tenant, &key).await.unwrap(), Some(second));
}

pub(crate) async fn credentials_are_listed_and_forgotten(bench: &Bench) {
    let store = &bench.store;
    let mut others_key = credential(3, "default", "mail");
    others_key.kid = "k2".into();
    for kept in [
        credential(1, "default", "pg_main"),
        credential(2, "other", "pg_main"),
        others_key,
    ] {
        assert!(store.put_credential(new(kept)).await.unwrap());
    }
    let ids = async |filter: CredentialFilter, limit: u32| {
        let limit = PageLimit::clamped(i64::from(limit));
        let found = store.credentials(filter, limit).await.unwrap();
        let ids = found.iter().map(|found| found.credential_id.get());
        ids.collect::<Vec<_>>()
    };
    let mine = || CredentialFilter::of(TenantId::default());
    assert_eq!(ids(mine(), 10).await, [1, 3]);
    assert_eq!(ids(mine(), 1).await, [1]);
    let after = CredentialId::new(1).ok();
    assert_eq!(ids(CredentialFilter { after, ..mine() }, 10).await, [3]);
    let text = Some("mai".into());
    assert_eq!(ids(CredentialFilter { text, ..mine() }, 10).await, [1, 3]);
    let text = Some("pg_".into());
    assert_eq!(ids(CredentialFilter { text, ..mine() }, 10).await, [1]);
    let kind = Some("bearer".into());
    assert!(
        ids(CredentialFilter { kind, ..mine() }, 10)
            .await
            .is_empty()
    );
    let anybodys = CredentialFilter {
        tenant_id: None,
        not_under: Some("k2".into()),
        ..mine()
    };
    assert_eq!(ids(anybodys, 10).await, [1, 2]);
    let (tenant, id) = (TenantId::default(), |id| CredentialId::new(id).unwrap());
    assert!(!store.delete_credential(&tenant, id(2)).await.unwrap());
    assert!(store.delete_credential(&tenant, id(1)).await.unwrap());
    assert!(!store.delete_credential(&tenant, id(1)).await.unwrap());
    assert_eq!(ids(mine(), 10).await, [3]);
}
