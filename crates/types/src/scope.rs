//! Permissions of an identity.
//!
//! Owns the scopes and sets of scopes. The server defines which route requires which scope.

use std::fmt;

use crate::string_enum::string_enum;

string_enum! {
    /// Permission of an identity.
    pub enum Scope("a scope") {
        /// Read executions.
        ExecRead = "exec:read",
        /// Start and control executions.
        ExecRun = "exec:run",
        /// Decide approvals.
        ExecApprove = "exec:approve",
        /// Read definitions.
        CatalogRead = "catalog:read",
        /// Write definitions.
        CatalogWrite = "catalog:write",
        /// Write and control subscriptions.
        SubWrite = "sub:write",
        /// List credentials and use them.
        CredUse = "cred:use",
        /// Write credentials, reveal them and rotate their keys.
        CredAdmin = "cred:admin",
        /// Lease commands and report on them.
        Worker = "worker",
        /// Claim rows of the outbox.
        InternalOutbox = "internal:outbox",
        /// Project events into the log.
        InternalProject = "internal:project",
        /// Delete expired data.
        InternalRetention = "internal:retention",
        /// Read metrics.
        MetricsRead = "metrics:read",
        /// All permissions within its tenant except the internal ones.
        Admin = "admin",
    }
}

impl Scope {
    /// True if the scope is for components of the platform itself. No other scope implies an
    /// internal scope.
    pub const fn is_internal(self) -> bool {
        matches!(self, Self::InternalOutbox | Self::InternalProject | Self::InternalRetention)
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of scopes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct ScopeSet(u16);

impl ScopeSet {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set with one more scope.
    #[must_use]
    pub const fn with_scope(self, scope: Scope) -> Self {
        Self(self.0 | scope.bit())
    }

    /// True if the set itself contains the scope.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// True if the set grants the scope. `admin` grants every scope that is not internal.
    pub const fn allows(self, scope: Scope) -> bool {
        self.contains(scope) || (self.contains(Scope::Admin) && !scope.is_internal())
    }

    /// True if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the scopes in the order of declaration.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::NONE, Self::with_scope)
    }
}

impl fmt::Debug for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
