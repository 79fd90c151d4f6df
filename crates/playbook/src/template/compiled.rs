//! One text that may be a template: reading it, asking about it, rendering it.

use std::fmt;
use std::sync::Arc;

use noetl_types::Json;

use super::error::{RenderError, Stop};
use super::eval::{evaluate, truthy_text};
use super::facts::{Facts, Read};
use super::fault::{Fault, FaultKind};
use super::limits::TemplateLimits;
use super::parser::{self, Parsed, Place};
use super::program::{Body, ExprKind};
use super::rendered::Rendered;
use super::scope::Scope;

/// A text that is rendered against a scope. Clones share the program.
#[derive(Clone)]
pub struct Template {
    inner: Arc<Inner>,
}

struct Inner {
    source: Arc<str>,
    body: Body,
    facts: Facts,
    slots: usize,
    one_expression: bool,
}

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParseOptions {
    /// Where the text stands.
    pub place: Place,
    /// How large and deep it may be.
    pub limits: TemplateLimits,
}

/// Words that people write for a bool where an expression is expected.
const BOOL_WORDS: [&str; 5] = ["yes", "no", "on", "off", "null"];

impl Template {
    /// Whether a text has tags, so that it is a template and not itself.
    pub fn has_markers(text: &str) -> bool {
        text.contains("{{") || text.contains("{%")
    }

    /// Reads a text with the usual limits.
    pub fn parse(text: &str, place: Place) -> Result<Self, Vec<Fault>> {
        Self::parse_with(
            text,
            &ParseOptions {
                place,
                ..ParseOptions::default()
            },
        )
    }

    /// Reads a text. Every fault that can be found is reported; a syntax error hides what follows.
    pub fn parse_with(text: &str, options: &ParseOptions) -> Result<Self, Vec<Fault>> {
        refuse_nul(text)?;
        if !Self::has_markers(text) {
            let body = Body::Literal(Json::from(text));
            return Ok(Self::new(
                text,
                Parsed {
                    body,
                    facts: Facts::default(),
                    slots: 0,
                },
                false,
            ));
        }
        let parsed = parser::template(text, options.place, &options.limits)?;
        let one_expression = matches!(parsed.body, Body::Value(_));
        Ok(Self::new(text, parsed, one_expression))
    }

    /// Reads a condition: a template, or a bare expression.
    pub fn condition(text: &str) -> Result<Self, Vec<Fault>> {
        Self::condition_with(text, &ParseOptions::default())
    }

    /// The same with given limits.
    pub fn condition_with(text: &str, options: &ParseOptions) -> Result<Self, Vec<Fault>> {
        if Self::has_markers(text) {
            return Self::parse_with(text, options);
        }
        refuse_nul(text)?;
        let word = text.trim();
        if BOOL_WORDS
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known))
        {
            let body = Body::Literal(Json::from(word));
            return Ok(Self::new(
                text,
                Parsed {
                    body,
                    facts: Facts::default(),
                    slots: 0,
                },
                false,
            ));
        }
        let parsed = parser::bare(text, options.place, &options.limits)?;
        // A quoted text is the same every time, so it decides nothing.
        let constant_text = matches!(
            &parsed.body,
            Body::Value(value) if matches!(value.kind, ExprKind::Const(Json::Str(_)))
        );
        Ok(Self::new(text, parsed, !constant_text))
    }

    fn new(source: &str, parsed: Parsed, one_expression: bool) -> Self {
        let Parsed { body, facts, slots } = parsed;
        let inner = Inner {
            source: source.into(),
            body,
            facts,
            slots,
            one_expression,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The text as written.
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// Whether the text has no tags and renders to itself.
    pub fn is_literal(&self) -> bool {
        matches!(self.inner.body, Body::Literal(_))
    }

    /// Whether the whole text is one expression, whose value keeps its type.
    pub fn is_one_expression(&self) -> bool {
        self.inner.one_expression
    }

    /// What can be said of it without rendering it.
    pub fn facts(&self) -> &Facts {
        &self.inner.facts
    }

    /// Every read of a name of the scope, in order.
    pub fn reads(&self) -> &[Read] {
        &self.inner.facts.reads
    }

    /// Whether a name of the scope is read.
    pub fn mentions(&self, root: &str) -> bool {
        self.reads().iter().any(|read| read.root() == root)
    }

    /// Renders the text. The outcome is a value and never a template: text that came from data
    /// and looks like one stays as it is.
    pub fn render(&self, scope: &dyn Scope) -> Result<Rendered, RenderError> {
        let inner = &*self.inner;
        match evaluate(&inner.body, inner.slots, scope) {
            Ok(done) => Ok(Rendered::of(done)),
            Err(stop) => Err(self.located(stop)),
        }
    }

    /// Renders the text and decides by the outcome.
    pub fn test(&self, scope: &dyn Scope) -> Result<bool, RenderError> {
        self.render(scope).map(|rendered| truthy(&rendered.value))
    }

    fn located(&self, stop: Stop) -> RenderError {
        stop.located(&self.inner.source)
    }
}

/// Whether a value decides a condition in its favour.
///
/// Not so are null, false, 0, the empty list, map and text, and texts that say so, like `no`.
pub fn truthy(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Int(value) => *value != 0,
        Json::UInt(_) | Json::Float(_) => true,
        Json::Str(text) => truthy_text(text),
        Json::List(items) => !items.is_empty(),
        Json::Map(map) => !map.is_empty(),
    }
}

fn refuse_nul(text: &str) -> Result<(), Vec<Fault>> {
    match text.find('\0') {
        Some(at) => {
            let kind = FaultKind::Syntax {
                reason: "text contains a NUL character".to_owned(),
            };
            Err(vec![Fault {
                kind,
                range: at..at + 1,
            }])
        }
        None => Ok(()),
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source()).finish()
    }
}

/// Two templates are equal when they are written alike.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Template {}
