use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::tokens::CreateTokenRequest;
use noetl_store::postgres::PostgresOptions;
use noetl_store::sqlite::SqliteOptions;
use noetl_store::{AnchorRow, DropJournal as _, DroppedRange, PostgresStore, SqliteStore};
use noetl_testkit::postgres::TestDatabase;
use noetl_types::Scope;

use super::*;
use crate::access::CallContext;
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::EncryptionKey;
use crate::services::ControlPlane;
use crate::services::anchors::SealedAnchor;
use crate::services::verification::{OutsideAnchor, Problem, ProblemKind, VerifyScope};
use crate::settings::Settings;

const ONE_KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const OTHER_KEY: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

async fn open_server(store: &Arc<dyn Store>, keys: &[&str]) -> ControlPlane {
    let mut keys = keys.iter().map(|key| EncryptionKey::from_base64(key).unwrap());
    let keys = keys.next().map(|current| Arc::new(KeyRing::new(current, keys.collect())));
    let settings = Settings { keys, ..Settings::default() };
    ControlPlane::open(Arc::clone(store), Arc::new(SystemClock), settings).await.unwrap()
}

async fn create_token(services: &ControlPlane, name: &str) -> (noetl_types::TokenId, Text) {
    let request = CreateTokenRequest {
        name: name.into(),
        scopes: vec![Scope::ExecRead],
        ..CreateTokenRequest::default()
    };
    let created = services
        .identities
        .create_token(CallContext::server(), request, &"admin".into())
        .await
        .unwrap();
    (created.view.id, created.token)
}

/// Problems that a server finds, and whether it accepts each token.
async fn inspect(
    store: &Arc<dyn Store>,
    keys: &[&str],
    tokens: &[&Text],
) -> (Vec<Problem>, Vec<bool>) {
    let services = open_server(store, keys).await;
    let mut accepted = Vec::new();
    for token in tokens {
        accepted.push(services.identities.authenticate_token(token).await.is_ok());
    }
    let mut problems = Vec::new();
    let outside = OutsideAnchor::None;
    let verified =
        services.verification.verify_store(VerifyScope::All, &outside, &mut problems).await;
    verified.unwrap();
    services.close(Duration::from_mins(1)).await;
    (problems, accepted)
}

async fn changed_tokens_are_refused_and_named(store: Arc<dyn Store>, attack: impl Fn(&str)) {
    // Tokens of a release without seals, and of a server without a key.
    let services = open_server(&store, &[]).await;
    let (_, old) = create_token(&services, "old").await;
    services.close(Duration::from_mins(1)).await;
    // The first start with a key seals them.
    let services = open_server(&store, &[ONE_KEY]).await;
    let (widened, widened_text) = create_token(&services, "widened").await;
    let (revoked, revoked_text) = create_token(&services, "revoked").await;
    services.identities.revoke_token(CallContext::server(), revoked).await.unwrap();
    services.close(Duration::from_mins(1)).await;
    let tokens = [&old, &widened_text, &revoked_text];
    let (problems, accepted) = inspect(&store, &[ONE_KEY], &tokens).await;
    assert_eq!((problems, accepted), (vec![], vec![true, true, false]));
    // Another key verifies the seals as long as it knows the old one, and replaces them.
    let (problems, accepted) = inspect(&store, &[OTHER_KEY, ONE_KEY], &tokens).await;
    assert_eq!((problems, accepted), (vec![], vec![true, true, false]));

    attack(&format!("UPDATE api_token SET scopes = '[\"admin\"]' WHERE token_id = {widened}"));
    attack(&format!("UPDATE api_token SET revoked_at = NULL WHERE token_id = {revoked}"));
    let (problems, accepted) = inspect(&store, &[OTHER_KEY], &tokens).await;
    assert_eq!(accepted, [true, false, false]);
    let kinds: Vec<_> = problems.iter().map(|problem| problem.kind).collect();
    assert_eq!(kinds, [ProblemKind::ModifiedToken; 2], "{problems:#?}");
    for (problem, name) in problems.iter().zip(["(widened)", "(revoked)"]) {
        assert!(problem.message.contains(name), "{problem:?}");
    }
    // A token without a seal is not sealed at a later start.
    attack("UPDATE api_token SET seal = NULL");
    let (problems, accepted) = inspect(&store, &[OTHER_KEY], &tokens).await;
    assert_eq!((problems.len(), accepted), (3, vec![false; 3]));
}

/// An installation gets its first key after its servers anchored logs without seals.
#[tokio::test]
async fn first_key_continues_chain_without_seals() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let services = open_server(&store, &[]).await;
    let (_, token) = create_token(&services, "old").await;
    let range = DroppedRange { first_id: 1, end_id: 2 };
    services.anchors.record_drop(range).await.unwrap();
    services.close(Duration::from_mins(1)).await;
    let (problems, accepted) = inspect(&store, &[ONE_KEY], &[&token]).await;
    assert_eq!((problems, accepted), (vec![], vec![true]));
    let newest = store.newest_anchor().await.unwrap().unwrap();
    assert_eq!(newest.anchor_id, 2);
    // An anchor without a seal does not undo that tokens must have seals.
    let mut forged = SealedAnchor::from_row(&newest).unwrap();
    forged.anchor.previous = forged.anchor.head().digest;
    forged.anchor.anchor_id = 3;
    forged.anchor.sealed = false;
    forged.seal = None;
    let content = Text::from(serde_json::to_string(&forged).unwrap());
    let row = AnchorRow { anchor_id: 3, content };
    assert!(store.append_anchor(row).await.unwrap());
    let (problems, _) = inspect(&store, &[ONE_KEY], &[&token]).await;
    let kinds: Vec<_> = problems.iter().map(|problem| problem.kind).collect();
    assert!(kinds.contains(&ProblemKind::ModifiedAnchor), "{problems:#?}");
}

/// If the newest anchor cannot be read, tokens without a seal are not sealed.
#[tokio::test]
async fn tokens_are_not_sealed_if_chain_is_damaged() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    let services = open_server(&store, &[]).await;
    let (_, token) = create_token(&services, "inserted").await;
    services.close(Duration::from_mins(1)).await;
    let row = AnchorRow { anchor_id: 1, content: "{}".into() };
    assert!(store.append_anchor(row).await.unwrap());
    let services = open_server(&store, &[ONE_KEY]).await;
    assert!(services.identities.authenticate_token(&token).await.is_err());
    services.close(Duration::from_mins(1)).await;
}

fn attack_file(file: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn changed_tokens_are_refused_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("noetl.db");
    let store = SqliteStore::open(&SqliteOptions::new(&file)).unwrap();
    changed_tokens_are_refused_and_named(Arc::new(store), |sql| attack_file(&file, sql)).await;
}

#[tokio::test]
async fn changed_tokens_are_refused_on_postgres() {
    let database = TestDatabase::new().unwrap();
    let options = PostgresOptions::new(database.connection_config(), SystemClock.now());
    let store = PostgresStore::open(&options).await.unwrap();
    let attack = |sql: &str| {
        database.run_statement(&format!("SET search_path TO noetl; {sql}")).unwrap();
    };
    changed_tokens_are_refused_and_named(Arc::new(store), attack).await;
}
