//! Kinds of listeners and the routes that each serves.

use noetl_api::paths;

use super::middleware::access::RouteAccess;

/// Path prefix of internal routes.
const INTERNAL_PREFIX: &str = "/api/internal/";

/// The set of routes that a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenerKind {
    /// All routes.
    All,
    /// All routes except the internal API, which has a separate listener.
    Public,
    /// The internal API and the health probes.
    Internal,
    /// Metrics and the health probes.
    Metrics,
}

impl ListenerKind {
    /// True if the listener serves a route.
    pub(super) fn serves_path(self, path: &str) -> bool {
        let is_internal = path.starts_with(INTERNAL_PREFIX);
        let is_probe = [paths::LIVEZ, paths::READYZ].contains(&path);
        match self {
            Self::All => true,
            Self::Public => !is_internal,
            Self::Internal => is_internal || is_probe,
            Self::Metrics => path == paths::METRICS || is_probe,
        }
    }

    /// Access rule of a route on this listener. The metrics listener requires no authentication.
    pub(super) fn effective_access(self, declared: RouteAccess) -> RouteAccess {
        match self {
            Self::Metrics => RouteAccess::Open,
            Self::All | Self::Public | Self::Internal => declared,
        }
    }
}
