//! Errors in the text of a template that are found without rendering.

use std::fmt;
use std::ops::Range;

/// An error in the text of a template, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    /// Kind of the error.
    pub kind: TemplateErrorKind,
    /// Byte range in the text.
    pub range: Range<usize>,
}

/// The kinds of template errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateErrorKind {
    /// The text violates the grammar, or exceeds the limits on size or depth.
    Syntax {
        /// The expected and the found syntax.
        reason: String,
    },
    /// A filter, test, function or method that does not exist.
    UnknownName {
        /// The vocabulary in which the name was looked up.
        vocabulary: VocabularyKind,
        /// The name as written.
        name: String,
        /// A similar known name.
        suggestion: Option<&'static str>,
    },
    /// A Jinja statement that playbooks do not support.
    Statement {
        /// Its keyword.
        name: String,
    },
    /// A function that is only available in `workload`, when an execution starts.
    StartOnly {
        /// Its name.
        name: &'static str,
    },
}

/// The vocabularies of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VocabularyKind {
    /// `value | filter`
    Filter,
    /// `value is test`
    Test,
    /// `function()`
    Function,
    /// `value.method()`
    Method,
}

impl VocabularyKind {
    /// User-facing name of the vocabulary.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Test => "test",
            Self::Function => "function",
            Self::Method => "method",
        }
    }
}

impl fmt::Display for VocabularyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for TemplateErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { reason } => f.write_str(reason),
            Self::UnknownName { vocabulary, name, suggestion } => {
                write!(f, "unknown {vocabulary} '{name}'")?;
                suggestion.map_or(Ok(()), |suggestion| write!(f, "; did you mean '{suggestion}'"))
            }
            Self::Statement { name } => write!(f, "statement '{name}' is not allowed"),
            Self::StartOnly { name } => write!(f, "'{name}' may only be used in workload"),
        }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.kind, f)
    }
}

impl std::error::Error for TemplateError {}
