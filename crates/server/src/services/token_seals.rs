//! Seals of API tokens: a token that was written or changed without the server's key is refused.

use noetl_store::{ApiToken, Store};
use noetl_types::json::to_canonical;
use noetl_types::limits::PageLimit;
use noetl_types::{Digest, Json, Text, Timestamp};

use crate::crypto::{HmacSigner, KeyRing};
use crate::error::Result;

/// Purpose that the key of the seals is derived for.
const SEAL_PURPOSE: &str = "api_token";

/// Creates and verifies the seals of tokens.
pub(crate) struct TokenSealer(HmacSigner);

impl TokenSealer {
    pub(crate) fn from_keys(keys: &KeyRing) -> Option<Self> {
        HmacSigner::from_key_ring(keys, SEAL_PURPOSE).ok().map(Self)
    }

    /// Returns the seal of a token under the current key.
    pub(crate) fn seal(&self, token: &ApiToken) -> Digest {
        Digest::from_bytes(self.0.sign_bytes(&sealed_bytes(token)))
    }

    pub(crate) fn is_valid(&self, token: &ApiToken) -> bool {
        let seal = token.seal.as_ref();
        seal.is_some_and(|seal| self.0.verify_signature(&sealed_bytes(token), seal.as_bytes()))
    }

    /// Seals tokens that were sealed under an earlier key, and, if `may_seal_all`, those that have
    /// no seal. Returns the number of newly sealed tokens.
    pub(crate) async fn update_seals(&self, store: &dyn Store, may_seal_all: bool) -> Result<u64> {
        let (mut sealed, mut after) = (0, None);
        loop {
            let page = store.list_all_tokens(after, PageLimit::MAX).await?;
            let Some(last) = page.last() else {
                return Ok(sealed);
            };
            after = Some(last.token_id);
            for token in page {
                let seal = self.seal(&token);
                let is_own = (token.seal.is_none() && may_seal_all) || self.is_valid(&token);
                if is_own && token.seal != Some(seal) {
                    let is_sealed =
                        store.seal_token(token.token_id, token.revoked_at, seal).await?;
                    sealed += u64::from(is_sealed);
                }
            }
        }
    }
}

/// Returns everything that a token means. The time of its last use has no meaning.
fn sealed_bytes(token: &ApiToken) -> Vec<u8> {
    let time = |time: Option<Timestamp>| time.map_or(Json::Null, |it| Json::from(it.as_micros()));
    let list = |texts: Option<Vec<Text>>| {
        texts.map_or(Json::Null, |texts| Json::list(texts.into_iter().map(Json::from)))
    };
    let pools = token.pools.as_ref().map(|pools| pools.iter().map(|it| Text::from(it.as_str())));
    let scopes = token.scopes.iter().map(|scope| Json::from(scope.as_str()));
    to_canonical(&Json::object([
        ("token_id", Json::from(token.token_id.get())),
        ("tenant_id", Json::from(token.tenant_id.as_str())),
        ("organization_id", Json::from(token.organization_id.as_str())),
        ("prefix", Json::from(token.prefix.clone())),
        ("sha256", Json::from(token.sha256.to_string())),
        ("name", Json::from(token.name.clone())),
        ("scopes", Json::list(scopes)),
        ("pools", list(pools.map(Iterator::collect))),
        ("path_globs", list(token.path_globs.clone())),
        ("created_at", time(Some(token.created_at))),
        ("created_by", Json::from(token.created_by.clone())),
        ("expires_at", time(token.expires_at)),
        ("revoked_at", time(token.revoked_at)),
    ]))
}

#[cfg(test)]
mod tests {
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
        services.close(Duration::from_secs(60)).await;
        (problems, accepted)
    }

    async fn changed_tokens_are_refused_and_named(store: Arc<dyn Store>, attack: impl Fn(&str)) {
        // Tokens of a release without seals, and of a server without a key.
        let services = open_server(&store, &[]).await;
        let (_, old) = create_token(&services, "old").await;
        services.close(Duration::from_secs(60)).await;
        // The first start with a key seals them.
        let services = open_server(&store, &[ONE_KEY]).await;
        let (widened, widened_text) = create_token(&services, "widened").await;
        let (revoked, revoked_text) = create_token(&services, "revoked").await;
        services.identities.revoke_token(CallContext::server(), revoked).await.unwrap();
        services.close(Duration::from_secs(60)).await;
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
        services.close(Duration::from_secs(60)).await;
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
        services.close(Duration::from_secs(60)).await;
        let row = AnchorRow { anchor_id: 1, content: "{}".into() };
        assert!(store.append_anchor(row).await.unwrap());
        let services = open_server(&store, &[ONE_KEY]).await;
        assert!(services.identities.authenticate_token(&token).await.is_err());
        services.close(Duration::from_secs(60)).await;
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
}
