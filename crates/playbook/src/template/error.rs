//! Errors in the text of a template, and errors that end a render.
//!
//! Messages of render errors name types and locations, never values, because the values may be
//! secret.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use noetl_types::json::JsonValueError;

use super::lexer::ByteSpan;
use crate::source::Span;

/// An error in the text of a template, with its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct TemplateError {
    /// Kind of the error.
    pub kind: TemplateErrorKind,
    /// Byte range in the text.
    pub range: Range<usize>,
}

impl TemplateError {
    pub(super) fn syntax(span: ByteSpan, reason: impl Into<String>) -> Self {
        Self { kind: TemplateErrorKind::Syntax { reason: reason.into() }, range: span.range() }
    }
}

/// The kinds of template errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateErrorKind {
    /// The text violates the grammar, or exceeds the limits on size or depth.
    #[error("{reason}")]
    Syntax {
        /// The expected and the found syntax.
        reason: String,
    },
    /// A filter, test, function or method that does not exist.
    #[error(
        "unknown {vocabulary} '{name}'{}",
        suggestion.map_or_else(String::new, |name| format!("; did you mean '{name}'"))
    )]
    UnknownName {
        /// The vocabulary in which the name was looked up.
        vocabulary: VocabularyKind,
        /// The name as written.
        name: String,
        /// A similar known name.
        suggestion: Option<&'static str>,
    },
    /// A Jinja statement that playbooks do not support.
    #[error("statement '{name}' is not allowed")]
    Statement {
        /// Its keyword.
        name: String,
    },
    /// A function that is only available in `workload`, when an execution starts.
    #[error("'{name}' may only be used in workload")]
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

impl fmt::Display for VocabularyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Filter => "filter",
            Self::Test => "test",
            Self::Function => "function",
            Self::Method => "method",
        })
    }
}

/// An error that ended a render.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line} column {column}{}{path}", if path.is_empty() { "" } else { " of " })]
pub struct RenderError {
    /// Kind of the error. It determines what the caller can do.
    pub kind: RenderErrorKind,
    /// Description of the error, without values.
    pub message: String,
    /// Line in the text of the template, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The line of the template in which the error occurred.
    pub excerpt: String,
    /// Path inside a structured value, such as `headers.accept`. Empty for a single text.
    pub path: String,
    /// Location of the template's text in its document.
    pub document: Option<Span>,
}

/// The kinds of render errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderErrorKind {
    /// An operation failed. Rendering again with the same environment fails again.
    Failed,
    /// A limit was exceeded.
    Limit(RenderLimit),
    /// Not a failure: rendering succeeds once the environment provides the needed input.
    Needs(FetchNeed),
}

/// The limits of a render.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderLimit {
    /// Units of work.
    Fuel,
    /// Bytes of values.
    Memory,
    /// Bytes of the output.
    Output,
    /// Numbers of a `range()`.
    Range,
    /// Levels of lists and maps.
    Nesting,
}

/// An input that must be fetched before the render can continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchNeed {
    /// A payload in the result store.
    Payload {
        /// The `ref` of the data.
        reference: Arc<str>,
    },
    /// A keychain entry that is not resolved yet.
    Secret {
        /// Its name.
        name: Arc<str>,
    },
}

/// An evaluation error whose location is still a byte offset.
///
/// Boxed, because results are passed up through every level of an expression.
#[derive(Debug)]
pub(super) struct EvalError(Box<EvalErrorInner>);

#[derive(Debug)]
struct EvalErrorInner {
    kind: RenderErrorKind,
    message: String,
    offset: Option<usize>,
}

/// Result of an evaluation.
pub(super) type EvalResult<T> = Result<T, EvalError>;

impl EvalError {
    fn new(kind: RenderErrorKind, message: String) -> Self {
        Self(Box::new(EvalErrorInner { kind, message, offset: None }))
    }

    /// The error of a failed operation.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(RenderErrorKind::Failed, message.into())
    }

    /// The error of an exceeded limit.
    pub(super) fn limit_exceeded(limit: RenderLimit, bound: impl fmt::Display) -> Self {
        let message = match limit {
            RenderLimit::Fuel => format!("template needs more than {bound} units of work"),
            RenderLimit::Memory => format!("template needs more than {bound} bytes of memory"),
            RenderLimit::Output => format!("template output is larger than {bound} bytes"),
            RenderLimit::Range => format!("range has more than {bound} numbers"),
            RenderLimit::Nesting => format!("value is nested deeper than {bound} levels"),
        };
        Self::new(RenderErrorKind::Limit(limit), message)
    }

    /// The error of a template that has used up the fuel that it shares with others.
    pub(super) fn budget_exhausted() -> Self {
        let message = "the templates that are rendered together need too many units of work; \
            render large data in a task of a worker, or in several steps";
        Self::new(RenderErrorKind::Limit(RenderLimit::Fuel), message.to_owned())
    }

    /// Sets the location, unless a more precise one is set.
    pub(super) fn at(mut self, span: ByteSpan) -> Self {
        self.0.offset.get_or_insert(span.start());
        self
    }

    /// Converts the error, with line and column in the text.
    pub(super) fn into_render_error(self, text: &str) -> RenderError {
        let EvalErrorInner { kind, message, offset } = *self.0;
        let before = text.get(..offset.unwrap_or_default()).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[line_start..].lines().next().unwrap_or_default();
        RenderError {
            kind,
            message,
            line: one_based(before.matches('\n').count()),
            column: one_based(before[line_start..].chars().count()),
            excerpt: shorten_line(line),
            path: String::new(),
            document: None,
        }
    }
}

/// Sets the location of the error of a result.
pub(super) trait ErrorLocation {
    /// Sets the location, unless a more precise one is set.
    fn at(self, span: ByteSpan) -> Self;
}

impl<T> ErrorLocation for EvalResult<T> {
    fn at(self, span: ByteSpan) -> Self {
        self.map_err(|error| error.at(span))
    }
}

impl From<FetchNeed> for EvalError {
    fn from(need: FetchNeed) -> Self {
        let message = match &need {
            FetchNeed::Payload { .. } => "data in the result store must be fetched first",
            FetchNeed::Secret { .. } => "a secret must be resolved first",
        };
        Self::new(RenderErrorKind::Needs(need), message.to_owned())
    }
}

impl From<JsonValueError> for EvalError {
    fn from(error: JsonValueError) -> Self {
        Self::failed(error.to_string())
    }
}

fn one_based(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1)
}

/// At most 120 characters of a line.
fn shorten_line(line: &str) -> String {
    const MAX_EXCERPT_CHARS: usize = 120;
    match line.char_indices().nth(MAX_EXCERPT_CHARS) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}
