//! Check that a process has the encryption key of its database.
//!
//! The database holds a known value, sealed with the encryption key. A process that cannot open it
//! would store secrets that the other servers cannot read, so it does not start.

use noetl_store::Store;
use noetl_types::{ErrorCode, TenantId, Text};

use super::crypto_failure;
use crate::crypto::{CryptoError, KeyRing, RecordBinding, WrappedSecret};
use crate::error::{Result, RuntimeError};

const KNOWN_VALUE: &[u8] = b"noetl key check";

/// Verifies that the keys open the key check of the database, and seals it with the current key.
/// The first process that has a key writes the key check, if it has the keys of all stored secrets.
pub(crate) async fn verify_encryption_key(store: &dyn Store, keys: Option<&KeyRing>) -> Result<()> {
    let tenant_id = TenantId::default();
    let binding = key_check_binding(&tenant_id);
    let failure = |error: CryptoError| crypto_failure(&error);
    let fresh = match keys {
        Some(keys) => {
            let sealed = keys.wrap_secret(&binding, KNOWN_VALUE).map_err(failure)?;
            Some(to_text(&sealed)?)
        }
        None => None,
    };
    let mut stored = store.get_or_init_key_check(None).await?;
    if stored.is_none() {
        check_stored_secrets(store, keys).await?;
        stored = store.get_or_init_key_check(fresh).await?;
    }
    let Some(stored) = stored else {
        return Ok(());
    };
    let sealed = parse_key_check(&stored)?;
    let keys = keys.ok_or_else(|| no_key(sealed.kid()))?;
    keys.unwrap_secret(&binding, &sealed).map_err(|error| wrong_key(keys, &error))?;
    if let Some(resealed) = keys.rewrap_secret(&binding, &sealed).map_err(failure)? {
        // If another process replaced it meanwhile, both sealed the same value.
        store.replace_key_check(stored, to_text(&resealed)?).await?;
    }
    Ok(())
}

/// Verifies that the keys include those of all secrets in a database without a key check.
async fn check_stored_secrets(store: &dyn Store, keys: Option<&KeyRing>) -> Result<()> {
    let counts = store.count_secrets_by_key().await?;
    for kid in counts.credentials.keys().chain(counts.keychain.keys()) {
        let keys = keys.ok_or_else(|| no_key(kid))?;
        if keys.find_key(kid).is_none() {
            return Err(wrong_key(keys, &CryptoError::MissingKey(kid.clone())));
        }
    }
    Ok(())
}

/// Verifies without a write that the keys open the key check of the database, if there is one.
pub(crate) async fn check_encryption_key(store: &dyn Store, keys: &KeyRing) -> Result<()> {
    let Some(stored) = store.get_or_init_key_check(None).await? else {
        return Ok(());
    };
    let tenant_id = TenantId::default();
    let opened = keys.unwrap_secret(&key_check_binding(&tenant_id), &parse_key_check(&stored)?);
    opened.map(drop).map_err(|error| wrong_key(keys, &error))
}

fn key_check_binding(tenant_id: &TenantId) -> RecordBinding<'_> {
    RecordBinding {
        tenant_id,
        table: "meta",
        record: 0,
        columns: Some("key_check".into()),
        version: 0,
    }
}

fn parse_key_check(stored: &Text) -> Result<WrappedSecret> {
    serde_json::from_str(stored).map_err(|_| crypto_failure(&CryptoError::UnknownFormat))
}

fn to_text(sealed: &WrappedSecret) -> Result<Text> {
    let text = serde_json::to_string(sealed);
    text.map(Text::from).map_err(|_| crypto_failure(&CryptoError::EncryptFailed))
}

fn no_key(kid: &str) -> RuntimeError {
    let text = format!(
        "the secrets of this database are encrypted with the key {kid}, and this process has no \
         encryption key; set NOETL_ENCRYPTION_KEY to that key"
    );
    RuntimeError::refused(ErrorCode::NotReady, text)
}

fn wrong_key(keys: &KeyRing, error: &CryptoError) -> RuntimeError {
    let current = keys.current().kid();
    let text = match error {
        CryptoError::MissingKey(kid) => format!(
            "the secrets of this database are encrypted with the key {kid}, but this process has \
             the key {current}; set NOETL_ENCRYPTION_KEY (for a database file: the file with the \
             extension .key next to it) to that key, or add it to NOETL_ENCRYPTION_KEYS_OLD"
        ),
        error => format!("the key check of this database cannot be opened: {error}"),
    };
    RuntimeError::refused(ErrorCode::NotReady, text)
}

#[cfg(test)]
mod tests;
