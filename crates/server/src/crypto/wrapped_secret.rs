//! Envelope encryption: each secret is encrypted with its data key, which is wrapped with a key of
//! the key ring.
//!
//! Both layers are bound to their record, so a wrapped secret whose row was changed, or that was
//! moved to another row, tenant or version, cannot be decrypted.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{TenantId, Text};
use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::keys::{EncryptionKey, KEY_BYTES, KeyRing};

const WRAPPED_SECRET_VERSION: u32 = 2;
const ALGORITHM: &str = "AES-256-GCM";
/// Provider of the wrapping keys.
const LOCAL_PROVIDER: &str = "local";

/// Record that a secret belongs to.
#[derive(Debug, Clone)]
pub struct RecordBinding<'a> {
    pub tenant_id: &'a TenantId,
    pub table: &'static str,
    /// Id of the row.
    pub record: i64,
    /// Further columns of the row that the secret is bound to.
    pub columns: Option<Cow<'a, str>>,
    /// Version of the row.
    pub version: i64,
}

impl RecordBinding<'_> {
    /// Associated data of both layers. Texts are prefixed with their lengths, so that different
    /// records have different bytes.
    fn associated_data(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let columns = self.columns.as_deref();
        for text in [self.tenant_id.as_str(), self.table].into_iter().chain(columns) {
            bytes.extend(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(self.record.to_be_bytes());
        bytes.extend(self.version.to_be_bytes());
        bytes
    }
}

/// A secret in its stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrappedSecret {
    v: u32,
    alg: Text,
    /// Ciphertext of the secret.
    ct: Text,
    dek: WrappedKey,
}

/// Wrapped data key of one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrappedKey {
    p: Text,
    kid: Text,
    kv: u32,
    ct: Text,
}

/// A decrypted secret. Its bytes are zeroed on drop.
pub struct DecryptedSecret(Zeroizing<Vec<u8>>);

impl DecryptedSecret {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Reason why a secret cannot be encrypted or decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// Unknown version, algorithm or provider.
    #[error("the secret is encrypted in a format that this build does not support")]
    UnknownFormat,
    /// The wrapping key is not in the key ring.
    #[error("the secret is encrypted with the key {0}, which this server does not have")]
    MissingKey(Text),
    /// The secret was modified, or belongs to another record.
    #[error("the secret cannot be decrypted: it was changed, or belongs to another record")]
    Damaged,
    /// The system provided no random bytes, or the cipher failed.
    #[error("the secret cannot be encrypted")]
    EncryptFailed,
}

impl WrappedSecret {
    /// Id of the key that wraps the data key.
    pub const fn kid(&self) -> &Text {
        &self.dek.kid
    }
}

impl KeyRing {
    /// Encrypts a secret with a new data key.
    pub fn wrap_secret(
        &self,
        binding: &RecordBinding<'_>,
        secret: &[u8],
    ) -> Result<WrappedSecret, CryptoError> {
        let random = SystemRandom::new();
        let mut key = Zeroizing::new([0_u8; KEY_BYTES]);
        random.fill(key.as_mut_slice()).map_err(|_| CryptoError::EncryptFailed)?;
        let cipher = EncryptionKey::from_bytes(key.as_slice())
            .map_err(|_| CryptoError::EncryptFailed)?
            .cipher;
        let associated_data = binding.associated_data();
        Ok(WrappedSecret {
            v: WRAPPED_SECRET_VERSION,
            alg: ALGORITHM.into(),
            ct: encrypt_to_base64(&cipher, &random, &associated_data, secret)?,
            dek: self.wrap_data_key(&random, &associated_data, key.as_slice())?,
        })
    }

    /// Decrypts a secret.
    pub fn unwrap_secret(
        &self,
        binding: &RecordBinding<'_>,
        wrapped: &WrappedSecret,
    ) -> Result<DecryptedSecret, CryptoError> {
        let associated_data = binding.associated_data();
        let key = self.unwrap_data_key(&associated_data, wrapped)?;
        let cipher = EncryptionKey::from_bytes(&key).map_err(|_| CryptoError::Damaged)?.cipher;
        decrypt_base64(&cipher, &associated_data, &wrapped.ct).map(DecryptedSecret)
    }

    /// Rewraps the data key under the current key. Returns `None` if it is already under that key.
    /// The secret itself is not decrypted.
    pub fn rewrap_secret(
        &self,
        binding: &RecordBinding<'_>,
        wrapped: &WrappedSecret,
    ) -> Result<Option<WrappedSecret>, CryptoError> {
        if wrapped.dek.kid == *self.current().kid() {
            return Ok(None);
        }
        let associated_data = binding.associated_data();
        let key = self.unwrap_data_key(&associated_data, wrapped)?;
        Ok(Some(WrappedSecret {
            dek: self.wrap_data_key(&SystemRandom::new(), &associated_data, &key)?,
            ..wrapped.clone()
        }))
    }

    fn wrap_data_key(
        &self,
        random: &SystemRandom,
        associated_data: &[u8],
        key: &[u8],
    ) -> Result<WrappedKey, CryptoError> {
        let current = self.current();
        Ok(WrappedKey {
            p: LOCAL_PROVIDER.into(),
            kid: current.kid().clone(),
            kv: 1,
            ct: encrypt_to_base64(&current.cipher, random, associated_data, key)?,
        })
    }

    fn unwrap_data_key(
        &self,
        associated_data: &[u8],
        wrapped: &WrappedSecret,
    ) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        if (wrapped.v, &*wrapped.alg, &*wrapped.dek.p)
            != (WRAPPED_SECRET_VERSION, ALGORITHM, LOCAL_PROVIDER)
        {
            return Err(CryptoError::UnknownFormat);
        }
        let kid = &wrapped.dek.kid;
        let key = self.find_key(kid).ok_or_else(|| CryptoError::MissingKey(kid.clone()))?;
        decrypt_base64(&key.cipher, associated_data, &wrapped.dek.ct)
    }
}

/// Returns nonce, ciphertext and tag in base64.
pub(super) fn encrypt_to_base64(
    cipher: &LessSafeKey,
    random: &SystemRandom,
    associated_data: &[u8],
    plaintext: &[u8],
) -> Result<Text, CryptoError> {
    let mut nonce = [0_u8; NONCE_LEN];
    random.fill(&mut nonce).map_err(|_| CryptoError::EncryptFailed)?;
    // The full capacity is reserved up front, because a growing vector would leave copies of the
    // plaintext in memory.
    let mut body = Vec::with_capacity(plaintext.len() + cipher.algorithm().tag_len());
    body.extend_from_slice(plaintext);
    cipher
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(associated_data),
            &mut body,
        )
        .map_err(|_| CryptoError::EncryptFailed)?;
    let mut bytes = nonce.to_vec();
    bytes.append(&mut body);
    Ok(STANDARD.encode(bytes).into())
}

fn decrypt_base64(
    cipher: &LessSafeKey,
    associated_data: &[u8],
    text: &str,
) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
    let bytes = STANDARD.decode(text).map_err(|_| CryptoError::Damaged)?;
    let (nonce, body) = bytes.split_first_chunk::<NONCE_LEN>().ok_or(CryptoError::Damaged)?;
    let mut body = Zeroizing::new(body.to_vec());
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let plaintext = cipher
        .open_in_place(nonce, Aad::from(associated_data), &mut body)
        .map_err(|_| CryptoError::Damaged)?;
    let length = plaintext.len();
    body.truncate(length);
    Ok(body)
}

#[cfg(test)]
mod tests;
