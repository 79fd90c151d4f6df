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
    /// Tokens that were revoked or have expired.
    Tokens,
    /// Files of large results that no row references.
    Blobs,
}

/// A table whose rows are limited per tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantTable {
    /// API tokens, including ended ones.
    Tokens,
    /// Versions of definitions, including archived ones.
    Definitions,
    /// Broadcast signals.
    Broadcasts,
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
        Self::Tokens,
        Self::Blobs,
    ];
}
