//! Which routes a listener has.

use noetl_api::paths;

use super::access::Access;

/// What the path of an internal route begins with.
const INTERNAL: &str = "/api/internal/";

/// The part of all routes that a listener answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of them.
    All,
    /// All but the internal API, which has a listener of its own.
    Public,
    /// The internal API, and what asks whether the server lives.
    Internal,
    /// What Prometheus asks, and what asks whether the server lives.
    Metrics,
}

impl Part {
    /// Whether a route belongs to it.
    pub(super) fn has(self, path: &str) -> bool {
        let is_internal = path.starts_with(INTERNAL);
        let is_of_life = [paths::LIVEZ, paths::READYZ].contains(&path);
        match self {
            Self::All => true,
            Self::Public => !is_internal,
            Self::Internal => is_internal || is_of_life,
            Self::Metrics => path == paths::METRICS || is_of_life,
        }
    }

    /// What it takes to call a route there. Whoever reaches the listener of the metrics may read them.
    pub(super) fn access(self, declared: Access) -> Access {
        match self {
            Self::Metrics => Access::Open,
            Self::All | Self::Public | Self::Internal => declared,
        }
    }
}
