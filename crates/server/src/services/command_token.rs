//! Command tokens: signed URLs that allow their bearer to work on one command and nothing else.
//!
//! A worker of the classic wire sends all calls about a command to the URL in its notification and
//! sends no API token. So the URL itself carries the authorization: it is signed, names one
//! command, and expires some time after the latest deadline of that command.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use noetl_store::Store;
use noetl_types::{
    CommandId, ErrorCode, ExecutionId, Millis, Scope, ScopeSet, TenantId, Text, Timestamp,
};

use crate::access::AuthContext;
use crate::crypto::{HmacSigner, SIGNATURE_BYTES};
use crate::error::{Result, RuntimeError};
use crate::random_source::RandomSource;
use crate::rng;
use crate::services::Identities;
use crate::services::identities::to_hex;
use crate::services::notifications::CommandNotification;
use crate::settings::Settings;

/// Purpose that the signing key is derived for.
const SIGNING_PURPOSE: &str = "capability";
/// Version of the signed format.
const COMMAND_TOKEN_VERSION: u8 = 1;
/// Minimum time between sending a notification and the claim of its command. It is longer than the
/// longest interval between two notifications of a command, so that one of them is always valid.
const MIN_CLAIM_WINDOW: Millis = Millis::from_secs(120);
/// Maximum length of an encoded command token.
const MAX_TOKEN_CHARS: usize = 512;

/// Authorization to work on one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandToken {
    pub tenant_id: TenantId,
    pub execution_id: ExecutionId,
    pub command_id: CommandId,
    /// Latest time to claim the command. After a later claim the token would expire before the
    /// command's maximum run time.
    pub claim_by: Timestamp,
    /// Expiry for all other calls.
    pub expires_at: Timestamp,
}

impl CommandToken {
    /// Creates the token for a notification that is sent now.
    fn for_notification(
        notification: &CommandNotification,
        now: Timestamp,
        settings: &Settings,
    ) -> Self {
        let max_claim = settings.max_classic_claim;
        let max_hold = notification.deadline.map_or(max_claim, |deadline| deadline.min(max_claim));
        let offline_after = settings.worker_offline_after;
        let claim_by = now.saturating_add(offline_after.max(MIN_CLAIM_WINDOW));
        Self {
            tenant_id: notification.pool.split_tenant().0,
            execution_id: notification.execution_id,
            command_id: notification.command_id,
            claim_by,
            expires_at: claim_by.saturating_add(max_hold).saturating_add(offline_after),
        }
    }

    /// Converts the token to the authorization context of its bearer.
    pub(crate) fn into_auth_context(self) -> AuthContext {
        AuthContext {
            tenant_id: self.tenant_id.clone(),
            command_token: Some(self),
            scopes: Some(ScopeSet::NONE.with_scope(Scope::Worker)),
            ..AuthContext::default()
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![COMMAND_TOKEN_VERSION];
        for number in [
            self.execution_id.get(),
            self.command_id.get(),
            self.claim_by.as_unix_ms(),
            self.expires_at.as_unix_ms(),
        ] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(self.tenant_id.as_str().as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&COMMAND_TOKEN_VERSION, mut rest) = bytes.split_first()? else {
            return None;
        };
        let mut number = || {
            let (number, tail) = rest.split_first_chunk()?;
            rest = tail;
            Some(i64::from_be_bytes(*number))
        };
        let (execution_id, command_id) = (number()?, number()?);
        let (claim_by, expires_at) = (number()?, number()?);
        Some(Self {
            tenant_id: TenantId::new(str::from_utf8(rest).ok()?).ok()?,
            execution_id: ExecutionId::new(execution_id).ok()?,
            command_id: CommandId::new(command_id).ok()?,
            claim_by: Timestamp::from_unix_ms(claim_by).ok()?,
            expires_at: Timestamp::from_unix_ms(expires_at).ok()?,
        })
    }

    /// Encodes and signs the token for use in a URL.
    fn to_signed_text(&self, signer: &HmacSigner) -> String {
        let mut bytes = self.to_bytes();
        let signature = signer.sign_bytes(&bytes);
        bytes.extend(signature);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a token from a URL. Returns `None` unless one of this installation's servers signed
    /// it.
    fn from_signed_text(text: &str, signer: &HmacSigner) -> Option<Self> {
        let text = Some(text).filter(|text| text.len() <= MAX_TOKEN_CHARS)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (bytes, signature) = bytes.split_last_chunk::<SIGNATURE_BYTES>()?;
        // The signature is verified before the bytes are parsed.
        signer.verify_signature(bytes, signature).then(|| Self::from_bytes(bytes)).flatten()
    }
}

/// Returns the signer of command tokens, or `None` if they are disabled. All servers on the same
/// store derive the same key.
pub(crate) async fn load_token_signer(
    store: &dyn Store,
    rng: &dyn RandomSource,
    settings: &Settings,
) -> Result<Option<HmacSigner>> {
    if !settings.notify_with_command_token {
        return Ok(None);
    }
    let signer = if let Some(keys) = &settings.keys {
        HmacSigner::from_key_ring(keys, SIGNING_PURPOSE)
    } else {
        let new_secret = Text::from(to_hex(&rng::random_bytes::<32>(rng)));
        let secret = store.get_or_init_shared_secret(new_secret).await?;
        HmacSigner::from_secret(secret.as_bytes(), SIGNING_PURPOSE)
    };
    let to_runtime_error =
        |error: crate::crypto::CryptoError| RuntimeError::internal(error.to_string());
    signer.map(Some).map_err(to_runtime_error)
}

impl Identities {
    /// Returns the URL to which a worker sends all calls about a command.
    pub(crate) fn worker_url_for(
        &self,
        notification: &CommandNotification,
        with_token: bool,
    ) -> String {
        let url = self.infra.settings.public_url.as_deref().unwrap_or_default();
        let Some(signer) = self.signer.as_ref().filter(|_| with_token) else {
            return url.to_owned();
        };
        let token =
            CommandToken::for_notification(notification, self.infra.now(), &self.infra.settings);
        format!("{url}/w/{}", token.to_signed_text(signer))
    }

    /// Verifies a command token from a URL, including its expiry.
    pub(crate) fn verify_command_token(&self, text: &str) -> Result<CommandToken> {
        let signer = self.signer.as_ref();
        let token = signer.and_then(|signer| CommandToken::from_signed_text(text, signer));
        let token = token.ok_or_else(|| {
            let text = "the command token in the URL is not valid";
            RuntimeError::refused(ErrorCode::Unauthenticated, text)
        })?;
        if token.expires_at <= self.infra.now() {
            return Err(command_token_expired());
        }
        Ok(token)
    }

    #[cfg(test)]
    pub(crate) fn sign_command_token(&self, token: &CommandToken) -> String {
        let signer = self.signer.as_ref().unwrap();
        token.to_signed_text(signer)
    }
}

pub(crate) fn command_token_expired() -> RuntimeError {
    let text = "the command token in the URL has expired; a pending command is announced again \
        with a new one";
    RuntimeError::refused(ErrorCode::TokenExpired, text)
}

#[cfg(test)]
mod tests;
