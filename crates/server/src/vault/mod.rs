//! Secrets at rest.
//!
//! Owns how a secret is sealed before it reaches the store and opened after it left it. Nothing
//! here can be printed or serialised by accident: keys and opened secrets have no `Debug`.
//!
//! Must not: know where secrets are kept or who may read them.

mod envelope;
mod keys;
mod sign;

pub use envelope::{About, Opened, Sealed, VaultError};
pub use keys::{BadKey, Key, KeyRing, NoChance};
pub(crate) use sign::{Signer, TAG_BYTES};
