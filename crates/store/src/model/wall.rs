//! Walls that the database itself stands for, beyond what the code keeps to.

use std::fmt;

use noetl_types::Text;

/// A wall around the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogWall {
    /// Whoever works with the store can add to the log, and not change what is in it.
    AppendOnly,
    /// What is read for a tenant is of that tenant, whatever the query says.
    RowSecurity,
}

impl LogWall {
    /// Its name, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::AppendOnly => "a log that the server cannot change",
            Self::RowSecurity => "row-level security of reads",
        }
    }
}

/// A wall that does not stand, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingWall {
    /// Which one.
    pub wall: LogWall,
    /// What keeps it from standing.
    pub why: Text,
}

impl fmt::Display for MissingWall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.wall.words(), self.why)
    }
}
