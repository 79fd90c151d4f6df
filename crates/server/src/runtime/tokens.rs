//! Tokens: made, known again, and taken back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_api::tokens::{CreatedToken, NewToken, TokenList, TokenView};
use noetl_store::ApiToken;
use noetl_types::limits::PageLimit;
use noetl_types::{
    ErrorCode, Millis, OrganizationId, Scope, Scopes, TenantId, Text, Timestamp, TokenId, sha256,
};
use tokio::time::Instant;

use super::error::{RuntimeError, causes};
use super::{Core, Runtime, entropy, globs};

/// What every token begins with.
const MARK: &str = "noetl_";
/// How long what is known of a token may be old: so long does one live after it was revoked elsewhere.
const KNOWN_FOR: Duration = Duration::from_secs(2);
/// How long it is remembered that a prefix is nobody's.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);
/// Prefixes that are remembered.
const MOST: usize = 10_000;
/// How often it is noted that a token is in use.
const TOUCH_EVERY: Millis = Millis::from_secs(60);
/// The longest name.
const MAX_NAME: usize = 100;
/// Pools that a token may be bound to.
const MAX_POOLS: usize = 100;
/// Days that a token may live.
const MAX_DAYS: u32 = 3650;
/// Characters of a secret that an operator brings along: 256 bits in hexadecimal.
const SECRET: usize = 64;

/// Tokens that were asked about lately.
#[derive(Debug, Default)]
pub(super) struct Tokens(Mutex<HashMap<Text, Remembered>>);

#[derive(Debug)]
struct Remembered {
    /// The token; `None` if there is none of that prefix.
    token: Option<Arc<ApiToken>>,
    looked_at: Instant,
    /// When its use was noted last.
    touched_at: Option<Timestamp>,
}

/// What a token that was shown is found by again. It is no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenName {
    pub(crate) token_id: TokenId,
    prefix: Text,
}

impl TokenName {
    pub(crate) fn of(token: &ApiToken) -> Self {
        Self {
            token_id: token.token_id,
            prefix: token.prefix.clone(),
        }
    }
}

/// Nothing is known, or nothing that is fresh.
struct AskTheStore;

impl Tokens {
    /// What is known of a prefix; `Err` where the store has to be asked.
    fn get(&self, prefix: &Text) -> Result<Option<Arc<ApiToken>>, AskTheStore> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tokens.get(prefix).filter(|known| known.is_fresh());
        known.map(|known| known.token.clone()).ok_or(AskTheStore)
    }

    fn keep(&self, prefix: Text, token: Option<Arc<ApiToken>>) {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MOST {
            tokens.retain(|_, known| known.is_fresh());
        }
        if tokens.len() >= MOST {
            tokens.clear();
        }
        let touched_at = tokens.get(&prefix).and_then(|known| known.touched_at);
        let known = Remembered {
            touched_at: touched_at.or(token.as_ref().and_then(|token| token.last_used_at)),
            token,
            looked_at: Instant::now(),
        };
        tokens.insert(prefix, known);
    }

    fn forget(&self, prefix: &Text) {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.remove(prefix);
    }

    /// Whether the use of a token is to be noted again; whoever asks does so.
    fn is_to_be_touched(&self, prefix: &Text, now: Timestamp) -> bool {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = tokens.get_mut(prefix) else {
            return false;
        };
        let is_due = known
            .touched_at
            .is_none_or(|last| now.since(last) >= TOUCH_EVERY);
        if is_due {
            known.touched_at = Some(now);
        }
        is_due
    }
}

impl Remembered {
    fn is_fresh(&self) -> bool {
        let longest = if self.token.is_some() {
            KNOWN_FOR
        } else {
            UNKNOWN_FOR
        };
        self.looked_at.elapsed() < longest
    }
}

/// The parts of a token: what it is found by, and its secret.
fn parts(shown: &str) -> Option<(Text, &str)> {
    let (prefix, secret) = shown.strip_prefix(MARK)?.split_once('_')?;
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    (prefix.len() <= 64 && secret.len() <= 256 && is_plain(prefix) && is_plain(secret))
        .then(|| (Text::from(prefix), secret))
}

fn not_valid() -> RuntimeError {
    let text = "the token is not valid: it is wrong, or was revoked";
    RuntimeError::refused(ErrorCode::Unauthenticated, text)
}

/// Refuses a token that was taken back, or whose time is over.
fn is_good(token: &ApiToken, now: Timestamp) -> Result<(), RuntimeError> {
    if token.revoked_at.is_some() {
        return Err(not_valid());
    }
    if token.expires_at.is_some_and(|end| end <= now) {
        let text = "the token has expired; ask for a new one";
        return Err(RuntimeError::refused(ErrorCode::TokenExpired, text));
    }
    Ok(())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Runtime {
    /// The token that somebody shows, if it is good.
    pub(crate) async fn identify(&self, shown: &str) -> Result<Arc<ApiToken>, RuntimeError> {
        let (prefix, secret) = parts(shown).ok_or_else(not_valid)?;
        let token = self.core.token(&prefix).await?.ok_or_else(not_valid)?;
        // Digests are compared, and in a time that does not depend on them, so nothing about the
        // right secret shows in how long a wrong one takes.
        if !sha256(secret).is_same_as_secret(&token.sha256) {
            return Err(not_valid());
        }
        let now = self.now();
        is_good(&token, now)?;
        if self.core.tokens.is_to_be_touched(&prefix, now) {
            let (core, token_id) = (Arc::clone(&self.core), token.token_id);
            self.core.tasks.spawn(async move {
                if let Err(error) = core.store.touch_token(token_id, now).await {
                    tracing::debug!(error = %causes(&error), "the use of a token is not noted");
                }
            });
        }
        Ok(token)
    }

    /// Whether a token that was shown a while ago is still good.
    pub(crate) async fn still_stands(&self, name: &TokenName) -> Result<(), RuntimeError> {
        let token = self.core.token(&name.prefix).await?;
        let token = token.filter(|token| token.token_id == name.token_id);
        let token = token.ok_or_else(not_valid)?;
        is_good(&token, self.now())
    }

    /// Makes a token. What is shown now is shown to nobody again.
    pub async fn create_token(
        &self,
        request: NewToken,
        actor: &Text,
    ) -> Result<CreatedToken, RuntimeError> {
        if self.behalf().is_bound() || self.behalf().pools.is_some() {
            let text = "a token that is bound to paths or pools makes no others";
            return Err(RuntimeError::refused(ErrorCode::Forbidden, text));
        }
        let now = self.now();
        let (tenant_id, organization_id) = self.owner_of(&request)?;
        check(&request, self.is_operator())?;
        let ttl = request.ttl_days.map(|days| u64::from(days) * 24 * 3600);
        let token = ApiToken {
            token_id: self.mint()?,
            tenant_id,
            organization_id,
            prefix: Text::default(),
            sha256: sha256(""),
            name: request.name,
            scopes: request.scopes.into_iter().collect(),
            pools: request.pools,
            path_globs: request.path_globs,
            created_at: now,
            created_by: actor.clone(),
            expires_at: ttl.map(|secs| now.saturating_add(Millis::from_secs(secs))),
            last_used_at: None,
            revoked_at: None,
        };
        // A prefix that is taken is so rare that a second one settles it.
        for _ in 0..4 {
            let chance = &*self.core.chance;
            let prefix = hex(&entropy::bytes::<6>(chance));
            let secret = hex(&entropy::bytes::<32>(chance));
            let token = ApiToken {
                prefix: prefix.as_str().into(),
                sha256: sha256(&secret),
                ..token.clone()
            };
            if self.store().put_token(token.clone()).await? {
                return Ok(CreatedToken {
                    token: format!("{MARK}{prefix}_{secret}").into(),
                    view: view(token),
                });
            }
        }
        let text = "no prefix was free; try again";
        Err(RuntimeError::refused(ErrorCode::IdConflict, text))
    }

    /// Whom a new token is for: the caller's own tenant, or, where the caller runs the installation,
    /// any.
    fn owner_of(&self, request: &NewToken) -> Result<(TenantId, OrganizationId), RuntimeError> {
        let own = self.behalf();
        let tenant_id = request.tenant_id.as_ref().unwrap_or(&own.tenant_id);
        if *tenant_id != own.tenant_id && !self.is_operator() {
            let text = "there is no such tenant";
            return Err(RuntimeError::refused(ErrorCode::NotFound, text));
        }
        let organization_id = request.organization_id.as_ref();
        let organization_id = organization_id.unwrap_or(&own.organization_id);
        Ok((tenant_id.clone(), organization_id.clone()))
    }

    /// Whether the caller's tenant is the one that runs the installation.
    fn is_operator(&self) -> bool {
        *self.tenant() == TenantId::default()
    }

    /// The tokens of the tenant.
    pub async fn tokens(
        &self,
        limit: PageLimit,
        cursor: Option<Text>,
    ) -> Result<TokenList, RuntimeError> {
        let after = cursor.map(|cursor| cursor.parse::<TokenId>()).transpose();
        let after = after.map_err(|_| {
            let text = "the cursor is not one that this list gave";
            RuntimeError::refused(ErrorCode::BadQuery, text)
        })?;
        let found = self.store().tokens(self.tenant(), after, limit).await?;
        let is_full = found.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let last = found.last().filter(|_| is_full);
        let next_cursor = last.map(|last| last.token_id.to_string().into());
        Ok(TokenList {
            tokens: found.into_iter().map(view).collect(),
            next_cursor,
        })
    }

    /// Takes a token back.
    pub async fn revoke_token(&self, token_id: TokenId) -> Result<TokenView, RuntimeError> {
        let revoked = self
            .store()
            .revoke_token(self.tenant(), token_id, self.now())
            .await?;
        let token = revoked
            .ok_or_else(|| RuntimeError::refused(ErrorCode::NotFound, "there is no such token"))?;
        self.core.tokens.forget(&token.prefix);
        Ok(view(token))
    }

    /// Sees to it that somebody can come in: where there is no token at all, one that may do
    /// everything is made, from a given one or anew. Gives the text of one that was made anew, which
    /// is to be shown once.
    pub async fn bootstrap(&self, given: Option<&str>) -> Result<Option<Text>, RuntimeError> {
        let made = given.is_none().then(|| {
            let chance = &*self.core.chance;
            let (prefix, secret) = (entropy::bytes::<6>(chance), entropy::bytes::<32>(chance));
            format!("{MARK}{}_{}", hex(&prefix), hex(&secret))
        });
        let shown = given.or(made.as_deref()).unwrap_or_default();
        let (prefix, secret) = parts(shown)
            .filter(|(_, secret)| secret.len() >= SECRET)
            .ok_or_else(|| {
                let text = format!(
                    "the first token has to be of the form {MARK}<prefix>_<secret>, its secret of \
                     {SECRET} characters or more that nobody can guess"
                );
                RuntimeError::refused(ErrorCode::Validation, text)
            })?;
        let token = ApiToken {
            token_id: self.mint()?,
            tenant_id: TenantId::default(),
            organization_id: OrganizationId::default(),
            prefix,
            sha256: sha256(secret),
            name: "admin".into(),
            scopes: Scopes::NONE.with(Scope::Admin),
            pools: None,
            path_globs: None,
            created_at: self.now(),
            created_by: "bootstrap".into(),
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
        };
        let is_first = self.store().put_first_token(token).await?;
        Ok(made.filter(|_| is_first).map(Text::from))
    }
}

impl Core {
    async fn token(&self, prefix: &Text) -> Result<Option<Arc<ApiToken>>, RuntimeError> {
        if let Ok(known) = self.tokens.get(prefix) {
            return Ok(known);
        }
        let token = self.store.token(prefix).await?.map(Arc::new);
        self.tokens.keep(prefix.clone(), token.clone());
        Ok(token)
    }
}

/// Refuses a token that should not be.
fn check(request: &NewToken, is_operator: bool) -> Result<(), RuntimeError> {
    let refused = |code, text: String| Err(RuntimeError::refused(code, text));
    if request.name.trim().is_empty() || request.name.len() > MAX_NAME {
        let text = format!("the name of a token has 1 to {MAX_NAME} bytes");
        return refused(ErrorCode::Validation, text);
    }
    if request.scopes.is_empty() {
        let words: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        let text = format!("a token needs a scope; there are {}", words.join(", "));
        return refused(ErrorCode::Validation, text);
    }
    if request.scopes.iter().any(|scope| scope.is_internal()) && !is_operator {
        let text = "only the tenant that runs the installation may give internal scopes";
        return refused(ErrorCode::Forbidden, text.to_owned());
    }
    let pools = request.pools.as_ref();
    if pools.is_some_and(|pools| pools.is_empty() || pools.len() > MAX_POOLS) {
        let text = format!("pools, where given, are 1 to {MAX_POOLS}");
        return refused(ErrorCode::Validation, text);
    }
    if let Some(Err(text)) = request.path_globs.as_deref().map(globs::check) {
        return refused(ErrorCode::Validation, text);
    }
    match request.ttl_days {
        Some(days) if !(1..=MAX_DAYS).contains(&days) => {
            let text = format!("ttl_days = {days} is out of range 1..{MAX_DAYS}");
            refused(ErrorCode::OutOfRange, text)
        }
        Some(_) | None => Ok(()),
    }
}

fn view(token: ApiToken) -> TokenView {
    TokenView {
        id: token.token_id,
        name: token.name,
        prefix: token.prefix,
        tenant_id: Text::from(&token.tenant_id),
        organization_id: Text::from(&token.organization_id),
        scopes: token.scopes.iter().collect(),
        pools: token.pools,
        path_globs: token.path_globs,
        created_at: token.created_at,
        created_by: token.created_by,
        expires_at: token.expires_at,
        last_used_at: token.last_used_at,
        revoked_at: token.revoked_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_prefix_and_a_secret() {
        let (prefix, secret) = parts("noetl_ab12_s_e-c").unwrap();
        assert_eq!((prefix.as_str(), secret), ("ab12", "s_e-c"));
        for wrong in [
            "",
            "noetl_",
            "noetl_a",
            "noetl__b",
            "noetl_a_",
            "x_a_b",
            "noetl_a b_c",
        ] {
            assert!(parts(wrong).is_none(), "{wrong}");
        }
    }
}
