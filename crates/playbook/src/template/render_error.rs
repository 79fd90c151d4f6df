//! Errors that end a render.
//!
//! Messages name types and locations, never values, because the values may be secret.

use std::fmt;
use std::sync::Arc;

use noetl_types::json::JsonValueError;

use crate::source::Span;

/// An error that ended a render.
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl RenderLimit {
    /// Name of the limited quantity.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fuel => "fuel",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::Range => "range",
            Self::Nesting => "nesting",
        }
    }
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

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.message, self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, " of {}", self.path)?;
        }
        Ok(())
    }
}

impl std::error::Error for RenderError {}

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
    pub(super) fn operation_failed(message: impl Into<String>) -> Self {
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

    /// The error of an input that must be fetched first.
    pub(super) fn input_needed(need: FetchNeed) -> Self {
        let message = match &need {
            FetchNeed::Payload { .. } => "data in the result store must be fetched first",
            FetchNeed::Secret { .. } => "a secret must be resolved first",
        };
        Self::new(RenderErrorKind::Needs(need), message.to_owned())
    }

    /// Sets the byte offset, unless a more precise one is set.
    pub(super) fn at_offset(mut self, offset: usize) -> Self {
        self.0.offset.get_or_insert(offset);
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

impl From<JsonValueError> for EvalError {
    fn from(error: JsonValueError) -> Self {
        Self::operation_failed(error.to_string())
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
