//! What an identity may do.
//!
//! Owns the words and sets of them. Which route asks for which is the server's business.

use std::fmt;

use crate::words::words;

words! {
    /// Something that an identity may do.
    pub enum Scope("a scope") {
        /// Read executions.
        ExecRead = "exec:read",
        /// Start and steer executions.
        ExecRun = "exec:run",
        /// Decide what waits for a person.
        ExecApprove = "exec:approve",
        /// Read definitions.
        CatalogRead = "catalog:read",
        /// Write definitions.
        CatalogWrite = "catalog:write",
        /// Write subscriptions and steer them.
        SubWrite = "sub:write",
        /// List credentials and use them.
        CredUse = "cred:use",
        /// Write credentials, reveal them and rotate their keys.
        CredAdmin = "cred:admin",
        /// Lease commands and report on them.
        Worker = "worker",
        /// Take rows out of the outbox.
        InternalOutbox = "internal:outbox",
        /// Write copies of events.
        InternalProject = "internal:project",
        /// Drop what is old.
        InternalRetention = "internal:retention",
        /// Read measurements.
        MetricsRead = "metrics:read",
        /// Everything of its tenant but what is internal.
        Admin = "admin",
    }
}

impl Scope {
    /// Whether it is for the parts of the system itself, which no other scope stands in for.
    pub const fn is_internal(self) -> bool {
        matches!(
            self,
            Self::InternalOutbox | Self::InternalProject | Self::InternalRetention
        )
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of scopes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u16);

impl Scopes {
    /// No scope at all.
    pub const NONE: Self = Self(0);

    /// The set with one more.
    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | scope.bit())
    }

    /// Whether a scope is in it, as it was given.
    pub const fn holds(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Whether it allows what a scope is for: the scope itself does, and admin does all that is not
    /// internal.
    pub const fn allow(self, scope: Scope) -> bool {
        self.holds(scope) || (self.holds(Scope::Admin) && !scope.is_internal())
    }

    /// Whether there is none in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes in it, in the order of their declaration.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL
            .iter()
            .copied()
            .filter(move |scope| self.holds(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_into_it() {
        for scope in Scope::ALL {
            let alone = Scopes::NONE.with(*scope);
            assert_eq!(alone.iter().collect::<Vec<_>>(), [*scope]);
            assert!(alone.allow(*scope));
            assert!(!Scopes::NONE.allow(*scope));
        }
        let all: Scopes = Scope::ALL.iter().copied().collect();
        assert_eq!(all.iter().count(), Scope::ALL.len());
    }

    #[test]
    fn admin_is_everything_but_internal() {
        let admin = Scopes::NONE.with(Scope::Admin);
        for scope in Scope::ALL {
            assert_eq!(admin.allow(*scope), !scope.is_internal(), "{scope}");
        }
    }
}
