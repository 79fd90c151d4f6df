//! Protections of the log that the database enforces, in addition to the code.

use std::fmt;

use noetl_types::Text;

/// A protection of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivilegeCheck {
    /// The server's role can append to the log but not change it.
    AppendOnly,
    /// Reads for a tenant return only rows of that tenant, for every query.
    RowSecurity,
}

impl PrivilegeCheck {
    /// Returns a readable name.
    pub fn description(self) -> &'static str {
        match self {
            Self::AppendOnly => "append-only log",
            Self::RowSecurity => "row-level security of reads",
        }
    }
}

/// A protection that is not in effect, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedPrivilegeCheck {
    pub check: PrivilegeCheck,
    pub reason: Text,
}

impl fmt::Display for FailedPrivilegeCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.check.description(), self.reason)
    }
}
