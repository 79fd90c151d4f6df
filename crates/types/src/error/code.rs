//! Error codes of API responses, and of events that are rejected while the rest of their batch is
//! stored.

use crate::string_enum::string_enum;

/// Declares the codes with their properties, and includes the documentation page of each. A code
/// without a page does not compile.
macro_rules! error_codes {
    ($(
        $variant:ident = $text:literal: $status:literal, $title:literal, $retry:ident, $effects:ident;
    )+) => {
        string_enum! {
            /// Code of a failed request. The same in the API, the CLI and the documentation.
            pub enum ErrorCode("an error code") {
                $( $variant = $text, )+
            }
        }

        impl ErrorCode {
            /// Returns the documentation page of the code, as Markdown.
            pub const fn page(self) -> &'static str {
                match self {
                    $( Self::$variant => include_str!(
                        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors/", $text, ".md")
                    ), )+
                }
            }

            /// Returns the `type` URI of a problem document.
            pub const fn type_uri(self) -> &'static str {
                match self {
                    $( Self::$variant => concat!("urn:noetl:error:", $text), )+
                }
            }

            /// HTTP status, title, retry advice and side effects.
            const fn error_properties(self) -> (u16, &'static str, RetryAdvice, SideEffects) {
                match self {
                    $( Self::$variant =>
                        ($status, $title, RetryAdvice::$retry, SideEffects::$effects), )+
                }
            }
        }
    };
}

error_codes! {
    BadJson = "bad_json": 400, "Body is not valid JSON", Never, None;
    BadQuery = "bad_query": 400, "Bad query parameter", Never, None;
    BadId = "bad_id": 400, "Invalid id", Never, None;
    YamlSyntax = "yaml_syntax": 400, "Document is not valid YAML", Never, None;
    OutOfRange = "out_of_range": 400, "Value out of range", Never, None;
    Unauthenticated = "unauthenticated": 401, "Authentication required", Never, None;
    TokenExpired = "token_expired": 401, "Token has expired", Never, None;
    Forbidden = "forbidden": 403, "Not allowed", Never, None;
    NotLeaseHolder = "not_lease_holder": 403, "Not the holder of the lease", Never, None;
    WrongRegion = "wrong_region": 403, "Secret may not leave its region", Never, None;
    NotFound = "not_found": 404, "Not found", Never, None;
    MethodNotAllowed = "method_not_allowed": 405, "Method not allowed", Never, None;
    VersionConflict = "version_conflict": 409, "Execution was modified concurrently", Never, None;
    AlreadyTerminal = "already_terminal": 409, "Already ended", Never, None;
    AlreadyDecided = "already_decided": 409, "Already decided", Never, None;
    ActiveClaim = "active_claim": 409, "Claimed by another worker", Never, None;
    StaleAttempt = "stale_attempt": 409, "Attempt is out of date", Never, None;
    IdConflict = "id_conflict": 409, "Id is already in use", Never, None;
    InFlight = "in_flight": 409, "First request is still running", Later, None;
    OwnedByOther = "owned_by_other": 409, "Owned by another holder", Later, None;
    DigestMismatch = "digest_mismatch": 409, "Content differs", Never, None;
    Paused = "paused": 409, "Execution is paused", Never, None;
    RetentionDropped = "retention_dropped": 410, "Deleted by retention", Never, None;
    TooLarge = "too_large": 413, "Too large", Never, None;
    UnsupportedMedia = "unsupported_media": 415, "Unsupported media type", Never, None;
    Validation = "validation": 422, "Request is not valid", Never, None;
    IdempotencyMismatch = "idempotency_mismatch": 422, "Idempotency key was used for another request", Never, None;
    DedupMismatch = "dedup_mismatch": 422, "Dedup key was used for another message", Never, None;
    IllegalTransition = "illegal_transition": 422, "Not possible in this state", Never, None;
    RateLimited = "rate_limited": 429, "Too many requests", Later, None;
    QuotaExceeded = "quota_exceeded": 429, "Quota exceeded", Later, None;
    Internal = "internal": 500, "Internal error", Never, Unknown;
    NotSupported = "not_supported": 501, "Not supported", Never, None;
    UpstreamFailed = "upstream_failed": 502, "Upstream system failed", Later, Unknown;
    // The connection can break between the commit and its response.
    StoreUnavailable = "store_unavailable": 503, "Store is not available", Later, Unknown;
    PoolSaturated = "pool_saturated": 503, "Server is at capacity", Later, None;
    DiskFull = "disk_full": 503, "Disk is full", Later, None;
    NotReady = "not_ready": 503, "Server is not ready", Later, None;
    Timeout = "timeout": 504, "Request timed out", Later, Unknown;
}

/// Retry advice for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryAdvice {
    /// The request cannot succeed unless something changes.
    Never,
    /// The request may succeed later.
    Later,
}

/// Side effects of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SideEffects {
    /// The request changed nothing.
    None,
    /// The request may have taken effect.
    Unknown,
}

impl ErrorCode {
    /// Returns the HTTP status of the response.
    pub const fn http_status(self) -> u16 {
        self.error_properties().0
    }

    /// Returns a short title of the error.
    pub const fn title(self) -> &'static str {
        self.error_properties().1
    }

    /// True if the same request can succeed when it is sent again later.
    pub const fn is_retryable(self) -> bool {
        matches!(self.error_properties().2, RetryAdvice::Later)
    }

    /// True if the failed request certainly changed nothing.
    pub const fn has_no_side_effects(self) -> bool {
        matches!(self.error_properties().3, SideEffects::None)
    }

    /// True if the response carries a `Retry-After` header.
    pub const fn has_retry_after(self) -> bool {
        matches!(self, Self::InFlight) || matches!(self.http_status(), 429 | 503)
    }
}

string_enum! {
    /// Reason why one event of a batch was not stored.
    pub enum RejectCode("a rejection code") {
        MissingExecutionId = "missing_execution_id",
        BadValue = "bad_value",
        IdInFuture = "id_in_future",
        /// The id is already in use by an event with a different body.
        IdConflict = "id_conflict",
        TenantMismatch = "tenant_mismatch",
        RetentionDropped = "retention_dropped",
    }
}

#[cfg(test)]
mod tests;
