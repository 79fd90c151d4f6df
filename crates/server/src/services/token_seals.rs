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
mod tests;
