//! The codes that the API answers with.

use crate::words::words;

/// Declares the codes, each with its page in the documentation: a code without one does not
/// compile.
macro_rules! error_codes {
    ($( $variant:ident = $text:literal, )+) => {
        words! {
            /// Code of a failed request, the same in the API, the CLI and the documentation.
            pub enum ErrorCode("an error code") {
                $( $variant = $text, )+
            }
        }

        impl ErrorCode {
            /// The page that explains the code, as Markdown.
            pub const fn page(self) -> &'static str {
                match self {
                    $( Self::$variant => include_str!(
                        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors/", $text, ".md")
                    ), )+
                }
            }

            /// Names the kind of problem in a problem document.
            pub const fn type_uri(self) -> &'static str {
                match self {
                    $( Self::$variant => concat!("urn:noetl:error:", $text), )+
                }
            }
        }
    };
}

error_codes! {
    BadJson = "bad_json",
    BadQuery = "bad_query",
    BadId = "bad_id",
    YamlSyntax = "yaml_syntax",
    OutOfRange = "out_of_range",
    Unauthenticated = "unauthenticated",
    TokenExpired = "token_expired",
    Forbidden = "forbidden",
    NotLeaseHolder = "not_lease_holder",
    Residency = "residency",
    NotFound = "not_found",
    MethodNotAllowed = "method_not_allowed",
    VersionConflict = "version_conflict",
    AlreadyTerminal = "already_terminal",
    AlreadyDecided = "already_decided",
    ActiveClaim = "active_claim",
    StaleAttempt = "stale_attempt",
    IdConflict = "id_conflict",
    InFlight = "in_flight",
    OwnedByOther = "owned_by_other",
    DigestMismatch = "digest_mismatch",
    Paused = "paused",
    RetentionDropped = "retention_dropped",
    TooLarge = "too_large",
    UnsupportedMedia = "unsupported_media",
    Validation = "validation",
    IdempotencyMismatch = "idempotency_mismatch",
    DedupMismatch = "dedup_mismatch",
    IllegalTransition = "illegal_transition",
    RateLimited = "rate_limited",
    Quota = "quota",
    Internal = "internal",
    NotSupported = "not_supported",
    Upstream = "upstream",
    StoreUnavailable = "store_unavailable",
    PoolSaturated = "pool_saturated",
    DiskFull = "disk_full",
    NotReady = "not_ready",
    Timeout = "timeout",
}

/// What a client may do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    /// The same request cannot succeed unless something changes.
    Never,
    /// Time alone may help.
    Later,
}

/// What a failed request leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing at all.
    None,
    /// It may have taken effect; nobody can say.
    Unknown,
}

impl ErrorCode {
    /// The status of the answer.
    pub const fn status(self) -> u16 {
        self.facts().0
    }

    /// The code in words.
    pub const fn title(self) -> &'static str {
        self.facts().1
    }

    /// Whether the same request, sent again later, can succeed.
    pub const fn is_retryable(self) -> bool {
        matches!(self.facts().2, Retry::Later)
    }

    /// Whether the failed request certainly changed nothing.
    pub const fn has_no_side_effects(self) -> bool {
        matches!(self.facts().3, Effect::None)
    }

    /// Whether the answer says how long to wait.
    pub const fn wants_retry_after(self) -> bool {
        matches!(self, Self::InFlight) || matches!(self.status(), 429 | 503)
    }

    const fn facts(self) -> (u16, &'static str, Retry, Effect) {
        use Effect::{None, Unknown};
        use Retry::{Later, Never};
        match self {
            Self::BadJson => (400, "Body is not valid JSON", Never, None),
            Self::BadQuery => (400, "Bad query parameter", Never, None),
            Self::BadId => (400, "Not an id", Never, None),
            Self::YamlSyntax => (400, "Document is not valid YAML", Never, None),
            Self::OutOfRange => (400, "Value out of range", Never, None),
            Self::Unauthenticated => (401, "No identity", Never, None),
            Self::TokenExpired => (401, "Token has expired", Never, None),
            Self::Forbidden => (403, "Not allowed", Never, None),
            Self::NotLeaseHolder => (403, "Not the holder of the lease", Never, None),
            Self::Residency => (403, "Secret may not leave its region", Never, None),
            Self::NotFound => (404, "Not found", Never, None),
            Self::MethodNotAllowed => (405, "Method not allowed", Never, None),
            Self::VersionConflict => (409, "Execution has moved on", Never, None),
            Self::AlreadyTerminal => (409, "Already ended", Never, None),
            Self::AlreadyDecided => (409, "Already decided", Never, None),
            Self::ActiveClaim => (409, "Claimed by another worker", Never, None),
            Self::StaleAttempt => (409, "Attempt is out of date", Never, None),
            Self::IdConflict => (409, "Id is taken", Never, None),
            Self::InFlight => (409, "First request is still running", Later, None),
            Self::OwnedByOther => (409, "Owned by another", Later, None),
            Self::DigestMismatch => (409, "Content differs", Never, None),
            Self::Paused => (409, "Execution is paused", Never, None),
            Self::RetentionDropped => (410, "Dropped by retention", Never, None),
            Self::TooLarge => (413, "Too large", Never, None),
            Self::UnsupportedMedia => (415, "Unsupported media type", Never, None),
            Self::Validation => (422, "Request is not valid", Never, None),
            Self::IdempotencyMismatch => (
                422,
                "Idempotency key was used for another request",
                Never,
                None,
            ),
            Self::DedupMismatch => (422, "Dedup key was used for another message", Never, None),
            Self::IllegalTransition => (422, "Not possible in this state", Never, None),
            Self::RateLimited => (429, "Too many requests", Later, None),
            Self::Quota => (429, "Quota used up", Later, None),
            Self::Internal => (500, "Internal error", Never, Unknown),
            Self::NotSupported => (501, "Not supported", Never, None),
            Self::Upstream => (502, "Another system failed", Later, Unknown),
            // A connection can break between a commit and its answer.
            Self::StoreUnavailable => (503, "Store is not available", Later, Unknown),
            Self::PoolSaturated => (503, "Server is at capacity", Later, None),
            Self::DiskFull => (503, "Disk is full", Later, None),
            Self::NotReady => (503, "Server is not ready", Later, None),
            Self::Timeout => (504, "Took too long", Later, Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::json::{self, Json};

    /// Clients act on these facts: a change of the table is a change of the API.
    #[test]
    fn the_whole_table() {
        let rows: Vec<String> = ErrorCode::ALL
            .iter()
            .map(|code| {
                let (status, title, retry, effect) = code.facts();
                format!("{status} {code:<20} retry {retry:?}, effect {effect:?}: {title}")
            })
            .collect();
        insta::assert_snapshot!(rows.join("\n"));
    }

    #[test]
    fn codes_are_distinct_and_read_back() {
        let words: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Ok(*code));
        }
    }

    #[test]
    fn what_asks_to_wait_can_succeed_later() {
        for code in ErrorCode::ALL {
            assert!(!code.wants_retry_after() || code.is_retryable(), "{code}");
        }
        assert!(ErrorCode::InFlight.wants_retry_after());
        assert!(!ErrorCode::OwnedByOther.wants_retry_after());
    }

    #[test]
    fn refusals_change_nothing() {
        for code in ErrorCode::ALL {
            assert!(code.status() >= 500 || code.has_no_side_effects(), "{code}");
        }
    }

    #[test]
    fn pages_tell_what_the_code_says() {
        for code in ErrorCode::ALL {
            let page = code.page();
            let mut lines = page.lines();
            assert_eq!(lines.next(), Some(format!("# {code}").as_str()));
            let facts = lines.nth(1).unwrap();
            assert!(
                facts.starts_with(&format!("{}. **{} ", code.title(), code.status())),
                "{code}"
            );
            assert_eq!(
                facts.contains("can succeed later"),
                code.is_retryable(),
                "{code}"
            );
            assert_eq!(
                facts.contains("nothing was changed"),
                code.has_no_side_effects(),
                "{code}"
            );
            for section in ["## Why it happens", "## What to do", "## Example"] {
                assert!(page.contains(section), "{code} lacks {section}");
            }
        }
    }

    #[test]
    fn pages_show_a_true_example() {
        for code in ErrorCode::ALL {
            let (_, rest) = code.page().split_once("```json\n").unwrap();
            let (example, _) = rest.split_once("```").unwrap();
            let problem = json::parse(example.as_bytes()).unwrap();
            let field = |name| problem.get(name).and_then(Json::as_str);
            assert_eq!(field("code"), Some(code.as_str()));
            assert_eq!(field("type"), Some(code.type_uri()));
            assert_eq!(field("title"), Some(code.title()));
            assert_eq!(field("error"), field("detail"));
            assert!(field("request_id").is_some());
            assert_eq!(
                problem.get("status").and_then(Json::as_u64),
                Some(code.status().into())
            );
        }
    }
}
