//! Kinds of stored data that expire.

/// A kind of rows or files that garbage collection deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcTarget {
    /// Cached results that have expired.
    Cache,
    /// Messages whose dedup window is over.
    Dedup,
    /// Requests whose idempotency keys have expired.
    Idempotency,
    /// Broadcast signals that have expired.
    Broadcasts,
    /// Results that have expired.
    Results,
    /// Entries of the keychain cache.
    Keychain,
    /// Files of large results that no row references.
    Blobs,
}

impl GcTarget {
    /// All kinds. Files come last, because deleting the other kinds leaves files unreferenced.
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
