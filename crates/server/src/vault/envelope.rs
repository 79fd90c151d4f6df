//! A sealed secret: its text under a key of its own, that key under the ring's.
//!
//! Both layers are bound to the record that they belong to, so a sealed secret that is moved to
//! another row, tenant or version does not open.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{TenantId, Text};
use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::keys::{KEY_BYTES, Key, KeyRing};

const VERSION: u32 = 2;
const ALGORITHM: &str = "AES-256-GCM";
/// Who holds the keys that wrap.
const LOCAL: &str = "local";

/// The record that a secret belongs to.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// Whose it is.
    pub tenant_id: &'a TenantId,
    /// The table that it lies in.
    pub table: &'static str,
    /// Its row.
    pub record: i64,
    /// What else names it, where it has such a key.
    pub key: Option<&'a str>,
    /// How often the row was written.
    pub version: i64,
}

impl About<'_> {
    /// What both layers are bound to. Lengths stand before texts, so no two records give the same.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for text in [self.tenant_id.as_str(), self.table]
            .into_iter()
            .chain(self.key)
        {
            bytes.extend(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(self.record.to_be_bytes());
        bytes.extend(self.version.to_be_bytes());
        bytes
    }
}

/// A secret as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    v: u32,
    alg: Text,
    /// The secret.
    ct: Text,
    dek: Wrapped,
}

/// The key of one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    p: Text,
    kid: Text,
    kv: u32,
    ct: Text,
}

/// A secret that was opened. Its bytes are wiped when it goes.
pub struct Opened(Zeroizing<Vec<u8>>);

impl Opened {
    /// The secret.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Why a secret cannot be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// Of another make.
    #[error("the secret is sealed in a way that this build does not know")]
    Unknown,
    /// Its key is not on the ring.
    #[error("the secret is sealed under the key {0}, which this server does not have")]
    NoKey(Text),
    /// It was changed, or belongs to another record.
    #[error("the secret does not open: it was changed, or belongs to another record")]
    Damaged,
    /// The system gave no random bytes, or the cipher failed.
    #[error("the secret cannot be sealed")]
    Cannot,
}

impl Sealed {
    /// The key that wraps it.
    pub const fn kid(&self) -> &Text {
        &self.dek.kid
    }
}

impl KeyRing {
    /// Seals a secret under a fresh key.
    pub fn seal(&self, about: &About<'_>, secret: &[u8]) -> Result<Sealed, VaultError> {
        let random = SystemRandom::new();
        let mut key = Zeroizing::new([0_u8; KEY_BYTES]);
        random
            .fill(key.as_mut_slice())
            .map_err(|_| VaultError::Cannot)?;
        let cipher = Key::of(key.as_slice())
            .map_err(|_| VaultError::Cannot)?
            .cipher;
        let bound = about.bytes();
        Ok(Sealed {
            v: VERSION,
            alg: ALGORITHM.into(),
            ct: encrypt(&cipher, &random, &bound, secret)?,
            dek: self.wrap(&random, &bound, key.as_slice())?,
        })
    }

    /// Opens a secret.
    pub fn open(&self, about: &About<'_>, sealed: &Sealed) -> Result<Opened, VaultError> {
        let bound = about.bytes();
        let key = self.unwrap(&bound, sealed)?;
        let cipher = Key::of(&key).map_err(|_| VaultError::Damaged)?.cipher;
        decrypt(&cipher, &bound, &sealed.ct).map(Opened)
    }

    /// The same secret with its key under the current one; nothing where it is so already. The
    /// secret itself is not opened.
    pub fn rewrap(&self, about: &About<'_>, sealed: &Sealed) -> Result<Option<Sealed>, VaultError> {
        if sealed.dek.kid == *self.current().kid() {
            return Ok(None);
        }
        let bound = about.bytes();
        let key = self.unwrap(&bound, sealed)?;
        Ok(Some(Sealed {
            dek: self.wrap(&SystemRandom::new(), &bound, &key)?,
            ..sealed.clone()
        }))
    }

    fn wrap(&self, random: &SystemRandom, bound: &[u8], key: &[u8]) -> Result<Wrapped, VaultError> {
        let current = self.current();
        Ok(Wrapped {
            p: LOCAL.into(),
            kid: current.kid().clone(),
            kv: 1,
            ct: encrypt(&current.cipher, random, bound, key)?,
        })
    }

    fn unwrap(&self, bound: &[u8], sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        if (sealed.v, &*sealed.alg, &*sealed.dek.p) != (VERSION, ALGORITHM, LOCAL) {
            return Err(VaultError::Unknown);
        }
        let kid = &sealed.dek.kid;
        let key = self
            .find(kid)
            .ok_or_else(|| VaultError::NoKey(kid.clone()))?;
        decrypt(&key.cipher, bound, &sealed.dek.ct)
    }
}

/// Nonce, ciphertext and tag in base64.
pub(super) fn encrypt(
    cipher: &LessSafeKey,
    random: &SystemRandom,
    bound: &[u8],
    plain: &[u8],
) -> Result<Text, VaultError> {
    let mut nonce = [0_u8; NONCE_LEN];
    random.fill(&mut nonce).map_err(|_| VaultError::Cannot)?;
    // Room for all of it from the start: a vector that grows leaves the plain text behind.
    let mut body = Vec::with_capacity(plain.len() + cipher.algorithm().tag_len());
    body.extend_from_slice(plain);
    cipher
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(bound),
            &mut body,
        )
        .map_err(|_| VaultError::Cannot)?;
    let mut bytes = nonce.to_vec();
    bytes.append(&mut body);
    Ok(STANDARD.encode(bytes).into())
}

fn decrypt(
    cipher: &LessSafeKey,
    bound: &[u8],
    text: &str,
) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    let bytes = STANDARD.decode(text).map_err(|_| VaultError::Damaged)?;
    let (nonce, body) = bytes
        .split_first_chunk::<NONCE_LEN>()
        .ok_or(VaultError::Damaged)?;
    let mut body = Zeroizing::new(body.to_vec());
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let plain = cipher
        .open_in_place(nonce, Aad::from(bound), &mut body)
        .map_err(|_| VaultError::Damaged)?;
    let length = plain.len();
    body.truncate(length);
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vault::BadKey;

    fn key(byte: u8) -> Key {
        Key::of(&[byte; KEY_BYTES]).unwrap()
    }

    fn about(tenant_id: &TenantId) -> About<'_> {
        About {
            tenant_id,
            table: "credential",
            record: 7,
            key: None,
            version: 1,
        }
    }

    #[test]
    fn what_is_sealed_opens_for_its_record_only() {
        let ring = KeyRing::new(key(1), Vec::new());
        let (mine, theirs) = (TenantId::default(), TenantId::new("other").unwrap());
        let sealed = ring.seal(&about(&mine), b"hunter22").unwrap();
        assert_eq!(
            ring.open(&about(&mine), &sealed).unwrap().bytes(),
            b"hunter22"
        );
        let others = [
            about(&theirs),
            About {
                record: 8,
                ..about(&mine)
            },
            About {
                version: 2,
                ..about(&mine)
            },
            About {
                table: "keychain",
                ..about(&mine)
            },
            About {
                key: Some("api:5:global"),
                ..about(&mine)
            },
        ];
        for other in others {
            let refused = ring.open(&other, &sealed).err();
            assert_eq!(refused, Some(VaultError::Damaged), "{other:?}");
        }
        let text = serde_json::to_string(&sealed).unwrap();
        assert!(!text.contains("hunter22") && !text.contains(&STANDARD.encode("hunter22")));
        assert_eq!(serde_json::from_str::<Sealed>(&text).unwrap(), sealed);
    }

    #[test]
    fn two_seals_of_one_secret_differ() {
        let (ring, tenant) = (KeyRing::new(key(1), Vec::new()), TenantId::default());
        let seal = || ring.seal(&about(&tenant), b"same").unwrap();
        assert_ne!(seal(), seal());
    }

    #[test]
    fn parts_of_two_secrets_do_not_make_one() {
        let (ring, tenant) = (KeyRing::new(key(1), Vec::new()), TenantId::default());
        let one = ring.seal(&about(&tenant), b"one").unwrap();
        let two = ring.seal(&about(&tenant), b"two").unwrap();
        let mixed = Sealed { ct: two.ct, ..one };
        assert_eq!(
            ring.open(&about(&tenant), &mixed).err(),
            Some(VaultError::Damaged)
        );
    }

    #[test]
    fn a_rotated_key_wraps_anew_and_the_old_one_may_go() {
        let tenant = TenantId::default();
        let before = KeyRing::new(key(1), Vec::new());
        let sealed = before.seal(&about(&tenant), b"hunter22").unwrap();
        let both = KeyRing::new(key(2), vec![key(1)]);
        assert_eq!(
            both.open(&about(&tenant), &sealed).unwrap().bytes(),
            b"hunter22"
        );
        let anew = both.rewrap(&about(&tenant), &sealed).unwrap().unwrap();
        assert_eq!(anew.ct, sealed.ct);
        assert_eq!(both.rewrap(&about(&tenant), &anew).unwrap(), None);
        let after = KeyRing::new(key(2), Vec::new());
        assert_eq!(
            after.open(&about(&tenant), &anew).unwrap().bytes(),
            b"hunter22"
        );
        let lost = after.open(&about(&tenant), &sealed).err();
        assert_eq!(lost, Some(VaultError::NoKey(key(1).kid().clone())));
    }

    #[test]
    fn what_was_damaged_or_is_of_another_make_is_told() {
        let (ring, tenant) = (KeyRing::new(key(1), Vec::new()), TenantId::default());
        let sealed = ring.seal(&about(&tenant), b"hunter22").unwrap();
        for ct in ["", "!", "AAAA", &"A".repeat(64)] {
            let bad = Sealed {
                ct: ct.into(),
                ..sealed.clone()
            };
            assert_eq!(
                ring.open(&about(&tenant), &bad).err(),
                Some(VaultError::Damaged)
            );
        }
        let old = Sealed { v: 1, ..sealed };
        assert_eq!(
            ring.open(&about(&tenant), &old).err(),
            Some(VaultError::Unknown)
        );
    }

    #[test]
    fn keys_are_read_or_refused() {
        assert_eq!(Key::read("x y").err(), Some(BadKey::NotBase64));
        assert_eq!(Key::read("AAAA").err(), Some(BadKey::Length(3)));
        let text = STANDARD.encode([1; KEY_BYTES]);
        assert_eq!(Key::read(&text).unwrap().kid(), key(1).kid());
    }
}
