use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::tokens::CreateTokenRequest;
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{PostgresStore, SqliteStore, Store};
use noetl_testkit::postgres::TestDatabase;
use noetl_types::Scope;

use super::*;
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::{EncryptionKey, KeyRing};
use crate::services::ControlPlane;
use crate::services::verification::{OutsideAnchor, ProblemKind, VerifyScope};
use crate::settings::Settings;

async fn open_server(store: &Arc<dyn Store>) -> ControlPlane {
    let key = EncryptionKey::from_base64("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=").unwrap();
    let keys = Some(Arc::new(KeyRing::new(key, Vec::new())));
    let settings = Settings { keys, ..Settings::default() };
    ControlPlane::open(Arc::clone(store), Arc::new(SystemClock), settings).await.unwrap()
}

async fn changed_credentials_are_refused_and_named(store: Arc<dyn Store>, attack: impl Fn(&str)) {
    let services = open_server(&store).await;
    let ctx = CallContext::server();
    for name in ["plain", "kind", "tags", "name", "first", "second"] {
        let request = CredentialPutRequest {
            name: name.into(),
            kind: "bearer".into(),
            data: Json::object([("token", Json::from(format!("sesame-{name}")))]),
            meta: Some(Json::object([("owner", Json::from("a"))])),
            tags: vec!["prod".into()],
            description: Some("for tests".into()),
        };
        services.credentials.put_credential(ctx, request).await.unwrap();
    }
    let token = CreateTokenRequest {
        name: "ci".into(),
        scopes: vec![Scope::ExecRead],
        ..CreateTokenRequest::default()
    };
    services.identities.create_token(ctx, token, &"admin".into()).await.unwrap();
    let verify = async || {
        let (mut problems, outside) = (Vec::new(), OutsideAnchor::None);
        let verified =
            services.verification.verify_store(VerifyScope::All, &outside, &mut problems);
        verified.await.unwrap();
        problems
    };
    assert_eq!(verify().await, []);
    for sql in [
        "UPDATE credential SET kind = 'postgres' WHERE name = 'kind'",
        "UPDATE credential SET tags = '[\"test\"]' WHERE name = 'tags'",
        "UPDATE credential SET name = 'renamed' WHERE name = 'name'",
        "UPDATE credential SET sealed = (SELECT sealed FROM credential WHERE name = 'first')
         WHERE name = 'second'",
    ] {
        attack(sql);
    }
    let problems = verify().await;
    let expected = ["(kind)", "(tags)", "(renamed)", "(second)"];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, name) in problems.iter().zip(expected) {
        assert_eq!(problem.kind, ProblemKind::ModifiedCredential);
        assert!(problem.message.contains(name), "{problem:?}");
    }
    for (name, is_genuine) in [
        ("plain", true),
        ("first", true),
        ("kind", false),
        ("tags", false),
        ("renamed", false),
        ("second", false),
    ] {
        let revealed = services.credentials.reveal_credential(ctx, name).await;
        assert_eq!(revealed.is_ok(), is_genuine, "{name}");
    }
    // A row that cannot be read is named too, and does not end the verification.
    attack("UPDATE credential SET tags = '7' WHERE name = 'plain'");
    attack("UPDATE api_token SET scopes = '7'");
    let problems = verify().await;
    let has = |kind: ProblemKind| problems.iter().any(|problem| problem.kind == kind);
    assert!(has(ProblemKind::ModifiedCredential), "{problems:#?}");
    assert!(has(ProblemKind::ModifiedToken), "{problems:#?}");
    services.close(Duration::from_mins(1)).await;
}

fn attack_file(file: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn changed_credentials_are_refused_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("noetl.db");
    let store = SqliteStore::open(&SqliteOptions::new(&file)).unwrap();
    changed_credentials_are_refused_and_named(Arc::new(store), |sql| attack_file(&file, sql)).await;
}

#[tokio::test]
async fn changed_credentials_are_refused_on_postgres() {
    let database = TestDatabase::new().unwrap();
    let options = PostgresOptions::new(database.connection_config(), SystemClock.now());
    let store = PostgresStore::open(&options).await.unwrap();
    let attack = |sql: &str| {
        database.run_statement(&format!("SET search_path TO noetl; {sql}")).unwrap();
    };
    changed_credentials_are_refused_and_named(Arc::new(store), attack).await;
}
