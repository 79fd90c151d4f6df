//! What is kept for a while, and swept when its time is over.

/// A kind of rows, or files, that a sweep forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swept {
    /// Cached results that are not taken over any more.
    Cache,
    /// Messages whose window is over.
    Dedup,
    /// Requests whose keys may be used again.
    Idempotency,
    /// Signals that nobody looks back at.
    Broadcasts,
    /// Results whose time to live is over.
    Results,
    /// Entries of the cache of the keychain.
    Keychain,
    /// Files of large results that no row names any more.
    Blobs,
}

impl Swept {
    /// Everything that is swept. Files come last, since they are left over by the others.
    pub const ALL: &'static [Self] = &[
        Self::Cache,
        Self::Dedup,
        Self::Idempotency,
        Self::Broadcasts,
        Self::Results,
        Self::Keychain,
        Self::Blobs,
    ];
}
