//! Why a render stops.
//!
//! Messages name types and places, never values: what a template works on may be a secret.

use std::fmt;
use std::sync::Arc;

use noetl_types::json::JsonRefused;

use crate::source::Span;

/// A render that yielded nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderError {
    /// What the caller can do about it.
    pub kind: RenderErrorKind,
    /// What went wrong, without values.
    pub message: String,
    /// Line in the text of the template, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The line of the template that it happened in.
    pub excerpt: String,
    /// The place inside of a structured value, like `headers.accept`; empty for a single text.
    pub path: String,
    /// Where the text of the template stands in its document.
    pub document: Option<Span>,
}

/// What kind of end it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderErrorKind {
    /// An operation failed; the same scope fails again.
    Failed,
    /// A bound was passed.
    Limit(Limit),
    /// Not a failure: rendering again works once the scope has what is needed.
    Needs(Need),
}

/// The bounds of a render.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Units of work.
    Fuel,
    /// Bytes of values.
    Memory,
    /// Bytes of the outcome.
    Output,
    /// Numbers of a `range()`.
    Range,
    /// Levels of lists and maps.
    Nesting,
}

impl Limit {
    /// What the bound is on.
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

/// Something that has to be fetched before the render can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
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
        write!(
            f,
            "{} at line {} column {}",
            self.message, self.line, self.column
        )?;
        if !self.path.is_empty() {
            write!(f, " of {}", self.path)?;
        }
        Ok(())
    }
}

impl std::error::Error for RenderError {}

/// A render that stops, before the place of it is worked out.
///
/// Boxed: results are passed up through every level of an expression.
#[derive(Debug)]
pub(super) struct Stop(Box<Reason>);

#[derive(Debug)]
struct Reason {
    kind: RenderErrorKind,
    message: String,
    at: Option<usize>,
}

/// What evaluating something yields.
pub(super) type Outcome<T> = Result<T, Stop>;

impl Stop {
    fn new(kind: RenderErrorKind, message: String) -> Self {
        Self(Box::new(Reason {
            kind,
            message,
            at: None,
        }))
    }

    /// An operation failed.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(RenderErrorKind::Failed, message.into())
    }

    /// A bound was passed.
    pub(super) fn limit(limit: Limit, bound: impl fmt::Display) -> Self {
        let message = match limit {
            Limit::Fuel => format!("template takes more than {bound} units of work"),
            Limit::Memory => format!("template needs more than {bound} bytes of memory"),
            Limit::Output => format!("template yields more than {bound} bytes"),
            Limit::Range => format!("range has more than {bound} numbers"),
            Limit::Nesting => format!("value is nested deeper than {bound} levels"),
        };
        Self::new(RenderErrorKind::Limit(limit), message)
    }

    /// Something has to be fetched first.
    pub(super) fn needs(need: Need) -> Self {
        let message = match &need {
            Need::Payload { .. } => "data in the result store has to be fetched",
            Need::Secret { .. } => "a secret has to be resolved",
        };
        Self::new(RenderErrorKind::Needs(need), message.to_owned())
    }

    /// Notes the place, unless a more precise one is known.
    pub(super) fn at(mut self, offset: usize) -> Self {
        self.0.at.get_or_insert(offset);
        self
    }

    /// The error with its place in the text.
    pub(super) fn located(self, text: &str) -> RenderError {
        let Reason { kind, message, at } = *self.0;
        let before = text.get(..at.unwrap_or_default()).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[line_start..].lines().next().unwrap_or_default();
        RenderError {
            kind,
            message,
            line: one_based(before.matches('\n').count()),
            column: one_based(before[line_start..].chars().count()),
            excerpt: shortened(line),
            path: String::new(),
            document: None,
        }
    }
}

impl From<JsonRefused> for Stop {
    fn from(refused: JsonRefused) -> Self {
        Self::failed(refused.to_string())
    }
}

fn one_based(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX).saturating_add(1)
}

/// At most 120 characters of a line.
fn shortened(line: &str) -> String {
    const LONGEST: usize = 120;
    match line.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}
