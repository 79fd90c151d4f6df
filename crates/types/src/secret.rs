//! Operations on secrets, as recorded in the audit log.

use crate::string_enum::string_enum;

string_enum! {
    /// Operation on a secret.
    pub enum SecretOperation("a secret operation") {
        /// The secret is stored or replaced.
        Set = "set",
        /// Metadata is read, without the secret.
        Inspect = "inspect",
        /// A credential administrator reads the secret.
        Read = "read",
        /// A worker receives the secret for an execution.
        Issue = "issue",
        /// A worker receives the secret, encrypted with a key that only the worker has.
        IssueSealed = "issue_sealed",
        /// The secret is deleted.
        Delete = "delete",
        /// The data key of the secret is wrapped with another key.
        Rotate = "rotate",
        /// A value that a worker resolved is cached.
        KeychainPut = "keychain.put",
        /// A cached value is read.
        KeychainGet = "keychain.get",
        /// A cached value is deleted.
        KeychainDelete = "keychain.delete",
    }
}

impl SecretOperation {
    /// True if the operation reveals a secret to the caller.
    pub const fn reveals_secret(self) -> bool {
        matches!(self, Self::Read | Self::Issue | Self::IssueSealed | Self::KeychainGet)
    }
}

#[cfg(test)]
mod tests;
