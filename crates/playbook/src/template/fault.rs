//! What is wrong with the text of a template, found without rendering it.

use std::fmt;
use std::ops::Range;

/// One finding about a text, with its place in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub kind: FaultKind,
    /// Where, in bytes of the text.
    pub range: Range<usize>,
}

/// The kinds of findings that make a text unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// The text does not follow the grammar, or is larger or deeper than a template may be.
    Syntax {
        /// What was found and what was expected.
        reason: String,
    },
    /// A filter, test, function or method that does not exist.
    UnknownName {
        /// In which vocabulary it was looked for.
        what: Word,
        /// The name as written.
        name: String,
        /// The name that may have been meant.
        near: Option<&'static str>,
    },
    /// A statement of Jinja that playbooks do not have.
    Statement {
        /// Its keyword.
        name: String,
    },
    /// A function that exists only where a run starts.
    StartOnly {
        /// Its name.
        name: &'static str,
    },
}

/// The vocabularies of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// `value | filter`
    Filter,
    /// `value is test`
    Test,
    /// `function()`
    Function,
    /// `value.method()`
    Method,
}

impl Word {
    /// What a person calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Test => "test",
            Self::Function => "function",
            Self::Method => "method",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { reason } => f.write_str(reason),
            Self::UnknownName { what, name, near } => {
                write!(f, "unknown {what} '{name}'")?;
                near.map_or(Ok(()), |near| write!(f, "; did you mean '{near}'"))
            }
            Self::Statement { name } => write!(f, "statement '{name}' is not allowed"),
            Self::StartOnly { name } => write!(f, "'{name}' may only be used in workload"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.kind, f)
    }
}

impl std::error::Error for Fault {}
