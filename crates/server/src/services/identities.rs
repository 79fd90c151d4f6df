//! API tokens: creation, authentication, revocation.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::tokens::{CreateTokenRequest, CreatedToken, TokenList, TokenView};
use noetl_store::{ApiToken, TenantTable};
use noetl_types::limits::PageLimit;
use noetl_types::{
    ErrorCode, Millis, OrganizationId, Scope, ScopeSet, TenantId, Text, Timestamp, TokenId, sha256,
};
use tokio::time::Instant;

use crate::access::{CallContext, validate_globs};
use crate::crypto::HmacSigner;
use crate::error::{Result, RuntimeError, error_chain, parse_cursor};
use crate::rng;
use crate::services::Infrastructure;
use crate::services::lru::SharedLru;
use crate::services::token_seals::TokenSealer;

/// Prefix of all tokens.
const TOKEN_MARKER: &str = "noetl_";
/// Maximum age of a cached token, and so the time for which a token stays valid here after another
/// server revoked it.
const TOKEN_CACHE_TTL: Duration = Duration::from_secs(2);
/// Time for which an unknown token prefix is cached.
const UNKNOWN_PREFIX_TTL: Duration = Duration::from_secs(1);
/// Maximum cached prefixes.
const MAX_CACHED_TOKENS: usize = 10_000;
/// Interval at which the last use of a token is recorded.
const LAST_USED_UPDATE_INTERVAL: Millis = Millis::from_secs(60);
const MAX_TOKEN_NAME_BYTES: usize = 100;
/// Maximum pools that a token may be restricted to.
const MAX_TOKEN_POOLS: usize = 100;
const MAX_TOKEN_TTL_DAYS: u32 = 3650;
/// Minimum length of a secret that an operator supplies: 256 bits in hexadecimal.
const MIN_SECRET_CHARS: usize = 64;

/// A recently used prefix.
struct CachedToken {
    /// The token, or `None` if no token has that prefix.
    token: Option<Arc<ApiToken>>,
    loaded_at: Instant,
    /// Last recorded use.
    touched_at: Option<Timestamp>,
}

/// Reference to a token that was presented earlier. It contains no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenReference {
    pub(crate) token_id: TokenId,
    prefix: Text,
}

impl TokenReference {
    pub(crate) fn from_token(token: &ApiToken) -> Self {
        Self { token_id: token.token_id, prefix: token.prefix.clone() }
    }
}

impl CachedToken {
    fn is_fresh(&self) -> bool {
        let ttl = if self.token.is_some() { TOKEN_CACHE_TTL } else { UNKNOWN_PREFIX_TTL };
        self.loaded_at.elapsed() < ttl
    }

    /// True if the last use of the token must be recorded now. The caller must then record it.
    fn take_due_update(&mut self, now: Timestamp) -> bool {
        let is_recent = |last| now.duration_since(last) < LAST_USED_UPDATE_INTERVAL;
        if self.touched_at.is_some_and(is_recent) {
            return false;
        }
        self.touched_at = Some(now);
        true
    }
}

/// Splits a token into its prefix and its secret.
fn split_token(token: &str) -> Option<(Text, &str)> {
    let (prefix, secret) = token.strip_prefix(TOKEN_MARKER)?.split_once('_')?;
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    (prefix.len() <= 64 && secret.len() <= 256 && is_plain(prefix) && is_plain(secret))
        .then(|| (Text::from(prefix), secret))
}

fn invalid_token() -> RuntimeError {
    let text = "the token is not valid: it is wrong, or was revoked";
    RuntimeError::refused(ErrorCode::Unauthenticated, text)
}

/// Refuses a revoked or expired token.
fn check_token_active(token: &ApiToken, now: Timestamp) -> Result<()> {
    if token.revoked_at.is_some() {
        return Err(invalid_token());
    }
    if token.expires_at.is_some_and(|expires_at| expires_at <= now) {
        let text = "the token has expired; ask for a new one";
        return Err(RuntimeError::refused(ErrorCode::TokenExpired, text));
    }
    Ok(())
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Identities of callers: API tokens and command tokens.
pub struct Identities {
    pub(crate) infra: Arc<Infrastructure>,
    token_cache: SharedLru<Text, CachedToken>,
    /// Signs the command tokens in notifications, if these are enabled.
    pub(crate) signer: Option<HmacSigner>,
    /// Seals tokens, if the server has a key.
    pub(crate) sealer: Option<TokenSealer>,
}

impl Identities {
    pub(crate) fn new(infra: &Arc<Infrastructure>, signer: Option<HmacSigner>) -> Self {
        let keys = infra.settings.keys.as_deref();
        Self {
            infra: Arc::clone(infra),
            token_cache: SharedLru::with_capacity(MAX_CACHED_TOKENS),
            signer,
            sealer: keys.and_then(TokenSealer::from_keys),
        }
    }

    /// Returns the token that a caller presents, if it is valid.
    pub(crate) async fn authenticate_token(
        self: &Arc<Self>,
        presented: &str,
    ) -> Result<Arc<ApiToken>> {
        let (prefix, secret) = split_token(presented).ok_or_else(invalid_token)?;
        let token = self.load_token(&prefix).await?.ok_or_else(invalid_token)?;
        // Digests are compared in constant time, so the response time reveals nothing about the
        // right secret.
        if !sha256(secret).constant_time_eq(&token.sha256) {
            return Err(invalid_token());
        }
        let now = self.infra.now();
        check_token_active(&token, now)?;
        let mut tokens = self.token_cache.lock();
        let is_due = tokens.get_mut(&prefix).is_some_and(|cached| cached.take_due_update(now));
        drop(tokens);
        if is_due {
            let (this, token_id) = (Arc::clone(self), token.token_id);
            self.infra.tasks.spawn(async move {
                if let Err(error) = this.infra.store.record_token_use(token_id, now).await {
                    tracing::debug!(error = %error_chain(&error), "the use of a token was not recorded");
                }
            });
        }
        Ok(token)
    }

    /// Checks that a token that was presented earlier is still valid.
    pub(crate) async fn recheck_token(&self, reference: &TokenReference) -> Result<()> {
        let token = self.load_token(&reference.prefix).await?;
        let token = token.filter(|token| token.token_id == reference.token_id);
        let token = token.ok_or_else(invalid_token)?;
        check_token_active(&token, self.infra.now())
    }

    /// Creates a token. Its secret is returned only by this call.
    pub async fn create_token(
        &self,
        ctx: &CallContext,
        request: CreateTokenRequest,
        actor: &Text,
    ) -> Result<CreatedToken> {
        if ctx.auth.is_path_restricted() || ctx.auth.pools.is_some() {
            let text = "a token that is restricted to paths or pools cannot create tokens";
            return Err(RuntimeError::forbidden(text));
        }
        let now = self.infra.now();
        let (tenant_id, organization_id) = new_token_owner(ctx, &request)?;
        validate_new_token(&request, is_operator_tenant(ctx))?;
        self.infra.check_row_limit(&tenant_id, TenantTable::Tokens).await?;
        let ttl = request.ttl_days.map(|days| u64::from(days) * 24 * 3600);
        let token = ApiToken {
            token_id: self.infra.mint_id()?,
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
            seal: None,
        };
        // A prefix conflict is so rare that a second attempt resolves it.
        for _ in 0..4 {
            let rng = &*self.infra.rng;
            let prefix = to_hex(&rng::random_bytes::<6>(rng));
            let secret = to_hex(&rng::random_bytes::<32>(rng));
            let token = ApiToken {
                prefix: prefix.as_str().into(),
                sha256: sha256(&secret),
                ..token.clone()
            };
            let token = self.with_seal(token);
            if self.infra.store().put_token(token.clone()).await? {
                return Ok(CreatedToken {
                    token: format!("{TOKEN_MARKER}{prefix}_{secret}").into(),
                    view: token_view(token),
                });
            }
        }
        let text = "no token prefix was free; try again";
        Err(RuntimeError::refused(ErrorCode::IdConflict, text))
    }

    /// Lists the tokens of the tenant.
    pub async fn list_tokens(
        &self,
        ctx: &CallContext,
        limit: PageLimit,
        cursor: Option<Text>,
    ) -> Result<TokenList> {
        let after = parse_cursor(cursor)?;
        let tokens = self.infra.store().list_tokens(ctx.tenant(), after, limit).await?;
        let is_full = tokens.len() >= usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let last = tokens.last().filter(|_| is_full);
        let next_cursor = last.map(|last| last.token_id.to_string().into());
        Ok(TokenList { tokens: tokens.into_iter().map(token_view).collect(), next_cursor })
    }

    pub async fn revoke_token(&self, ctx: &CallContext, token_id: TokenId) -> Result<TokenView> {
        let unknown = || RuntimeError::not_found("there is no such token");
        let (store, now) = (self.infra.store(), self.infra.now());
        let before = TokenId::new(token_id.get() - 1).ok();
        let found = store.list_tokens(ctx.tenant(), before, PageLimit::MIN).await?;
        let found = found.into_iter().find(|found| found.token_id == token_id);
        let found = found.ok_or_else(unknown)?;
        // The seal of a token that was changed must not become valid.
        let is_sealed = self.sealer.as_ref().is_none_or(|sealer| sealer.is_valid(&found));
        let revoked = ApiToken { revoked_at: Some(now), seal: None, ..found };
        let seal = self.with_seal(revoked).seal.filter(|_| is_sealed);
        let revoked = store.revoke_token(ctx.tenant(), token_id, now, seal).await?;
        let token = revoked.ok_or_else(unknown)?;
        self.token_cache.lock().remove(&token.prefix);
        Ok(token_view(token))
    }

    /// Creates the first admin token if there is no token at all, from a supplied text or a
    /// generated one. Returns a generated text, which must be shown once.
    pub async fn bootstrap_admin_token(&self, supplied: Option<&str>) -> Result<Option<Text>> {
        let generated = supplied.is_none().then(|| {
            let rng = &*self.infra.rng;
            let (prefix, secret) = (rng::random_bytes::<6>(rng), rng::random_bytes::<32>(rng));
            format!("{TOKEN_MARKER}{}_{}", to_hex(&prefix), to_hex(&secret))
        });
        let presented = supplied.or(generated.as_deref()).unwrap_or_default();
        let (prefix, secret) = split_token(presented)
            .filter(|(_, secret)| secret.len() >= MIN_SECRET_CHARS)
            .ok_or_else(|| {
                let text = format!(
                    "the first token must have the form {TOKEN_MARKER}<prefix>_<secret> with a random \
                        secret of at least {MIN_SECRET_CHARS} characters"
                );
                RuntimeError::invalid(text)
            })?;
        let token = ApiToken {
            token_id: self.infra.mint_id()?,
            tenant_id: TenantId::default(),
            organization_id: OrganizationId::default(),
            prefix,
            sha256: sha256(secret),
            name: "admin".into(),
            scopes: ScopeSet::NONE.with_scope(Scope::Admin),
            pools: None,
            path_globs: None,
            created_at: self.infra.now(),
            created_by: "bootstrap".into(),
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
            seal: None,
        };
        let token = self.with_seal(token);
        let is_first = self.infra.store().put_first_token(token).await?;
        Ok(generated.filter(|_| is_first).map(Text::from))
    }

    /// Seals a token, if this server has a key.
    fn with_seal(&self, token: ApiToken) -> ApiToken {
        let seal = self.sealer.as_ref().map(|sealer| sealer.seal(&token));
        ApiToken { seal, ..token }
    }

    /// True unless the token was written or changed without the key of this server.
    fn is_genuine(&self, token: &ApiToken) -> bool {
        let is_genuine = self.sealer.as_ref().is_none_or(|sealer| sealer.is_valid(token));
        if !is_genuine {
            let (token_id, tenant_id) = (token.token_id, &token.tenant_id);
            tracing::error!(%token_id, %tenant_id, "an API token was changed in the database and is refused");
        }
        is_genuine
    }

    async fn load_token(&self, prefix: &Text) -> Result<Option<Arc<ApiToken>>> {
        if let Some(cached) = self.token_cache.lock().get(prefix)
            && cached.is_fresh()
        {
            return Ok(cached.token.clone());
        }
        let token = self.infra.store.find_token(prefix).await?;
        let token = token.filter(|token| self.is_genuine(token)).map(Arc::new);
        let mut tokens = self.token_cache.lock();
        let touched_at = tokens.get(prefix).and_then(|cached| cached.touched_at);
        let cached = CachedToken {
            touched_at: touched_at.or(token.as_ref().and_then(|token| token.last_used_at)),
            token: token.clone(),
            loaded_at: Instant::now(),
        };
        tokens.insert(prefix.clone(), cached);
        Ok(token)
    }
}

/// Refuses an invalid token request.
fn validate_new_token(request: &CreateTokenRequest, is_operator: bool) -> Result<()> {
    let refuse = |code, text: String| Err(RuntimeError::refused(code, text));
    if request.name.trim().is_empty() || request.name.len() > MAX_TOKEN_NAME_BYTES {
        let text = format!("the name of a token must have 1 to {MAX_TOKEN_NAME_BYTES} bytes");
        return refuse(ErrorCode::Validation, text);
    }
    if request.scopes.is_empty() {
        let names: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        let text = format!("a token needs at least one scope; the scopes are {}", names.join(", "));
        return refuse(ErrorCode::Validation, text);
    }
    if request.scopes.iter().any(|scope| scope.is_internal()) && !is_operator {
        let text = "only the tenant that operates the installation may grant internal scopes";
        return refuse(ErrorCode::Forbidden, text.to_owned());
    }
    let pools = request.pools.as_ref();
    if pools.is_some_and(|pools| pools.is_empty() || pools.len() > MAX_TOKEN_POOLS) {
        let text = format!("pools must have 1 to {MAX_TOKEN_POOLS} entries");
        return refuse(ErrorCode::Validation, text);
    }
    if let Some(Err(text)) = request.path_globs.as_deref().map(validate_globs) {
        return refuse(ErrorCode::Validation, text);
    }
    match request.ttl_days {
        Some(days) if !(1..=MAX_TOKEN_TTL_DAYS).contains(&days) => {
            let text = format!("ttl_days = {days} is out of range 1..{MAX_TOKEN_TTL_DAYS}");
            refuse(ErrorCode::OutOfRange, text)
        }
        Some(_) | None => Ok(()),
    }
}

fn token_view(token: ApiToken) -> TokenView {
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

/// True if the caller belongs to the tenant that operates the installation.
fn is_operator_tenant(ctx: &CallContext) -> bool {
    *ctx.tenant() == TenantId::default()
}

/// Returns the owner of a new token. Only the operator's tenant may create tokens of other
/// tenants.
fn new_token_owner(
    ctx: &CallContext,
    request: &CreateTokenRequest,
) -> Result<(TenantId, OrganizationId)> {
    let auth = &ctx.auth;
    let tenant_id = request.tenant_id.as_ref().unwrap_or(&auth.tenant_id);
    if *tenant_id != auth.tenant_id && !is_operator_tenant(ctx) {
        return Err(RuntimeError::not_found("there is no such tenant"));
    }
    let organization_id = request.organization_id.as_ref();
    let organization_id = organization_id.unwrap_or(&auth.organization_id);
    Ok((tenant_id.clone(), organization_id.clone()))
}

#[cfg(test)]
mod tests;
