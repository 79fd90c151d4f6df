//! Envelope encryption: each secret is encrypted with its data key, which is wrapped with a key of
//! the key ring.
//!
//! Both layers are bound to their record, so a wrapped secret that is moved to another row, tenant
//! or version cannot be decrypted.

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
#[derive(Debug, Clone, Copy)]
pub struct RecordBinding<'a> {
    pub tenant_id: &'a TenantId,
    pub table: &'static str,
    /// Id of the row.
    pub record: i64,
    /// Additional key of the record, if it has one.
    pub key: Option<&'a str>,
    /// Version of the row.
    pub version: i64,
}

impl RecordBinding<'_> {
    /// Associated data of both layers. Texts are prefixed with their lengths, so that different
    /// records have different bytes.
    fn associated_data(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for text in [self.tenant_id.as_str(), self.table].into_iter().chain(self.key) {
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
mod tests {
    use super::*;
    use crate::crypto::InvalidKey;

    fn key(byte: u8) -> EncryptionKey {
        EncryptionKey::from_bytes(&[byte; KEY_BYTES]).unwrap()
    }

    fn binding(tenant_id: &TenantId) -> RecordBinding<'_> {
        RecordBinding { tenant_id, table: "credential", record: 7, key: None, version: 1 }
    }

    #[test]
    fn wrapped_secret_is_bound_to_its_record() {
        let ring = KeyRing::new(key(1), Vec::new());
        let (mine, theirs) = (TenantId::default(), TenantId::new("other").unwrap());
        let wrapped = ring.wrap_secret(&binding(&mine), b"hunter22").unwrap();
        assert_eq!(ring.unwrap_secret(&binding(&mine), &wrapped).unwrap().as_bytes(), b"hunter22");
        let others = [
            binding(&theirs),
            RecordBinding { record: 8, ..binding(&mine) },
            RecordBinding { version: 2, ..binding(&mine) },
            RecordBinding { table: "keychain", ..binding(&mine) },
            RecordBinding { key: Some("api:5:global"), ..binding(&mine) },
        ];
        for other in others {
            let error = ring.unwrap_secret(&other, &wrapped).err();
            assert_eq!(error, Some(CryptoError::Damaged), "{other:?}");
        }
        let text = serde_json::to_string(&wrapped).unwrap();
        assert!(!text.contains("hunter22") && !text.contains(&STANDARD.encode("hunter22")));
        assert_eq!(serde_json::from_str::<WrappedSecret>(&text).unwrap(), wrapped);
    }

    #[test]
    fn same_secret_is_wrapped_differently_each_time() {
        let (ring, tenant) = (KeyRing::new(key(1), Vec::new()), TenantId::default());
        let wrap = || ring.wrap_secret(&binding(&tenant), b"same").unwrap();
        assert_ne!(wrap(), wrap());
    }

    #[test]
    fn rejects_mixed_parts_of_two_secrets() {
        let (ring, tenant) = (KeyRing::new(key(1), Vec::new()), TenantId::default());
        let one = ring.wrap_secret(&binding(&tenant), b"one").unwrap();
        let two = ring.wrap_secret(&binding(&tenant), b"two").unwrap();
        let mixed = WrappedSecret { ct: two.ct, ..one };
        assert_eq!(ring.unwrap_secret(&binding(&tenant), &mixed).err(), Some(CryptoError::Damaged));
    }

    #[test]
    fn rewrapped_secret_does_not_need_old_key() {
        let tenant = TenantId::default();
        let before = KeyRing::new(key(1), Vec::new());
        let wrapped = before.wrap_secret(&binding(&tenant), b"hunter22").unwrap();
        let both = KeyRing::new(key(2), vec![key(1)]);
        assert_eq!(
            both.unwrap_secret(&binding(&tenant), &wrapped).unwrap().as_bytes(),
            b"hunter22"
        );
        let rewrapped = both.rewrap_secret(&binding(&tenant), &wrapped).unwrap().unwrap();
        assert_eq!(rewrapped.ct, wrapped.ct);
        assert_eq!(both.rewrap_secret(&binding(&tenant), &rewrapped).unwrap(), None);
        let after = KeyRing::new(key(2), Vec::new());
        assert_eq!(
            after.unwrap_secret(&binding(&tenant), &rewrapped).unwrap().as_bytes(),
            b"hunter22"
        );
        let error = after.unwrap_secret(&binding(&tenant), &wrapped).err();
        assert_eq!(error, Some(CryptoError::MissingKey(key(1).kid().clone())));
    }

    #[test]
    fn rejects_damaged_and_unknown_secrets() {
        let (ring, tenant) = (KeyRing::new(key(1), Vec::new()), TenantId::default());
        let wrapped = ring.wrap_secret(&binding(&tenant), b"hunter22").unwrap();
        for ct in ["", "!", "AAAA", &"A".repeat(64)] {
            let damaged = WrappedSecret { ct: ct.into(), ..wrapped.clone() };
            assert_eq!(
                ring.unwrap_secret(&binding(&tenant), &damaged).err(),
                Some(CryptoError::Damaged)
            );
        }
        let old = WrappedSecret { v: 1, ..wrapped };
        assert_eq!(
            ring.unwrap_secret(&binding(&tenant), &old).err(),
            Some(CryptoError::UnknownFormat)
        );
    }

    #[test]
    fn parses_or_rejects_encryption_keys() {
        assert_eq!(EncryptionKey::from_base64("x y").err(), Some(InvalidKey::NotBase64));
        assert_eq!(EncryptionKey::from_base64("AAAA").err(), Some(InvalidKey::Length(3)));
        let text = STANDARD.encode([1; KEY_BYTES]);
        assert_eq!(EncryptionKey::from_base64(&text).unwrap().kid(), key(1).kid());
    }
}
