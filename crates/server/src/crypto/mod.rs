//! Encryption of secrets at rest and in transit to a worker.
//!
//! Owns the encryption of secrets before they reach the store, their decryption, and their
//! encryption for one recipient. Keys and decrypted secrets have no `Debug`, so they cannot be
//! printed or serialized by accident.
//!
//! Must not: depend on where secrets are stored or who may read them.

mod keys;
mod sealed_box;
mod signing;
mod wrapped_secret;

pub use keys::{EncryptionKey, InvalidKey, KeyRing, RandomUnavailable};
#[cfg(test)]
pub(crate) use sealed_box::tests::BoxRecipient;
pub use sealed_box::{RecipientKey, SEALED_BOX_ALGORITHM, SEALED_BOX_VERSION, SealedBox};
pub(crate) use signing::{HmacSigner, SIGNATURE_BYTES};
pub use wrapped_secret::{CryptoError, DecryptedSecret, RecordBinding, WrappedSecret};
