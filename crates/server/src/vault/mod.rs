//! Secrets at rest, and on their way to a worker.
//!
//! Owns how a secret is sealed before it reaches the store and opened after it left it, and how it is
//! sealed for one reader. Nothing
//! here can be printed or serialised by accident: keys and opened secrets have no `Debug`.
//!
//! Must not: know where secrets are kept or who may read them.

mod envelope;
mod keys;
mod letter;
mod sign;

pub use envelope::{About, Opened, Sealed, VaultError};
pub use keys::{BadKey, Key, KeyRing, NoChance};
#[cfg(test)]
pub(crate) use letter::tests::Reader;
pub use letter::{Addressee, LETTER_ALGORITHM, LETTER_VERSION, Letter};
pub(crate) use sign::{Signer, TAG_BYTES};
