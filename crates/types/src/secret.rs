//! What is done to secrets, as their trail tells it.

use crate::words::words;

words! {
    /// Something that is done to a secret.
    pub enum SecretOperation("something that is done to a secret") {
        /// It is kept, or replaced.
        Set = "set",
        /// Somebody looks what there is, and is not shown the secret.
        Look = "look",
        /// An admin of secrets is shown it.
        Read = "read",
        /// A worker gets it for a run.
        Lend = "lend",
        /// The same under a key that only the worker has.
        Seal = "seal",
        /// It is forgotten.
        Delete = "delete",
        /// Its key is wrapped under another one.
        Rotate = "rotate",
        /// What a worker resolved is kept.
        KeychainPut = "keychain.put",
        /// What a worker resolved is asked for.
        KeychainGet = "keychain.get",
        /// What a worker resolved is forgotten.
        KeychainDelete = "keychain.delete",
    }
}

impl SecretOperation {
    /// Whether whoever does it gets to see a secret.
    pub const fn hands_out(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Lend | Self::Seal | Self::KeychainGet
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_in_databases_so_they_stay() {
        let words: Vec<&str> = SecretOperation::ALL.iter().map(|it| it.as_str()).collect();
        let expected =
            "set look read lend seal delete rotate keychain.put keychain.get keychain.delete";
        assert_eq!(words.join(" "), expected);
    }
}
