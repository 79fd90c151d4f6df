//! One text that may be a template: parsing, inspecting and rendering it.

use std::fmt;
use std::sync::Arc;

use noetl_types::Json;

use super::environment::TemplateEnvironment;
use super::error::{RenderError, TemplateError};
use super::eval::{evaluate_body, is_true};
use super::facts::{NameRead, TemplateFacts, yields_plain_text};
use super::lexer::ByteSpan;
use super::meter::TemplateLimits;
use super::parser::{self, ParsedTemplate, TemplatePlace};
use super::program::{ExprKind, TemplateBody};
use super::rendered::RenderedValue;

/// A text that is rendered against an environment. Clones share the program.
#[derive(Clone)]
pub struct Template {
    inner: Arc<CompiledTemplate>,
}

struct CompiledTemplate {
    source: Arc<str>,
    parsed: ParsedTemplate,
    one_expression: bool,
}

/// Options for parsing a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParseOptions {
    /// The kind of place that holds the text.
    pub place: TemplatePlace,
    /// Limits on the size and depth of the text.
    pub limits: TemplateLimits,
}

/// Words that authors write for a bool where an expression is expected.
const BOOL_WORDS: [&str; 5] = ["yes", "no", "on", "off", "null"];

impl Template {
    /// Returns true if the text has tags, that is, if it is a template and not a literal.
    pub fn has_markers(text: &str) -> bool {
        text.contains("{{") || text.contains("{%")
    }

    /// Parses a text with the default limits.
    pub fn parse(text: &str, place: TemplatePlace) -> Result<Self, Vec<TemplateError>> {
        Self::parse_with(text, &ParseOptions { place, ..ParseOptions::default() })
    }

    /// Parses a text. Reports as many errors as possible, but a syntax error hides everything after
    /// it.
    pub fn parse_with(text: &str, options: &ParseOptions) -> Result<Self, Vec<TemplateError>> {
        reject_nul(text)?;
        if !Self::has_markers(text) {
            return Ok(Self::from_literal(text, text));
        }
        let parsed = parser::parse_template(text, options.place, &options.limits)?;
        let one_expression = matches!(parsed.body, TemplateBody::Value(_));
        Ok(Self::new(text, parsed, one_expression))
    }

    /// Parses a condition: a template, or a bare expression.
    pub fn parse_condition(text: &str) -> Result<Self, Vec<TemplateError>> {
        Self::parse_condition_with(text, &ParseOptions::default())
    }

    /// Parses a condition with the given options.
    pub fn parse_condition_with(
        text: &str,
        options: &ParseOptions,
    ) -> Result<Self, Vec<TemplateError>> {
        if Self::has_markers(text) {
            return Self::parse_with(text, options);
        }
        reject_nul(text)?;
        let trimmed = text.trim();
        if BOOL_WORDS.iter().any(|word| trimmed.eq_ignore_ascii_case(word)) {
            return Ok(Self::from_literal(text, trimmed));
        }
        let parsed = parser::parse_bare_expression(text, options.place, &options.limits)?;
        // A quoted text is constant, so it cannot decide a condition.
        let constant_text = matches!(
            &parsed.body,
            TemplateBody::Value(value) if matches!(value.kind, ExprKind::Const(Json::Str(_)))
        );
        Ok(Self::new(text, parsed, !constant_text))
    }

    fn new(source: &str, parsed: ParsedTemplate, one_expression: bool) -> Self {
        let inner = CompiledTemplate { source: source.into(), parsed, one_expression };
        Self { inner: Arc::new(inner) }
    }

    fn from_literal(source: &str, value: &str) -> Self {
        let body = TemplateBody::Literal(Json::from(value));
        let parsed = ParsedTemplate { body, facts: TemplateFacts::default(), slots: 0 };
        Self::new(source, parsed, false)
    }

    /// The text as written.
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// Returns true if the text has no tags and renders to itself.
    pub fn is_literal(&self) -> bool {
        matches!(self.inner.parsed.body, TemplateBody::Literal(_))
    }

    /// Returns true if the whole text is one expression, whose value keeps its type.
    pub fn is_one_expression(&self) -> bool {
        self.inner.one_expression
    }

    /// Properties of the template that are known without rendering.
    pub fn facts(&self) -> &TemplateFacts {
        &self.inner.parsed.facts
    }

    /// All reads of environment names, in order.
    pub fn reads(&self) -> &[NameRead] {
        &self.inner.parsed.facts.reads
    }

    /// Returns true if the template reads the environment name.
    pub fn reads_name(&self, root: &str) -> bool {
        self.reads().iter().any(|read| read.root() == root)
    }

    /// Returns true if the template is one expression whose value prints without quotes.
    pub(crate) fn yields_plain_text(&self) -> bool {
        match &self.inner.parsed.body {
            TemplateBody::Value(expr) => yields_plain_text(expr),
            TemplateBody::Literal(_) | TemplateBody::Text(_) => false,
        }
    }

    /// Renders the text. The result is a value and never a template: text that came from data and
    /// looks like a template stays as it is.
    pub fn render(
        &self,
        environment: &dyn TemplateEnvironment,
    ) -> Result<RenderedValue, RenderError> {
        let ParsedTemplate { body, slots, .. } = &self.inner.parsed;
        evaluate_body(body, *slots, environment)
            .map(RenderedValue::from_outcome)
            .map_err(|error| error.into_render_error(self.source()))
    }

    /// Renders the text as a condition, see [`is_truthy`].
    pub fn render_condition(
        &self,
        environment: &dyn TemplateEnvironment,
    ) -> Result<bool, RenderError> {
        self.render(environment).map(|rendered| is_truthy(&rendered.value))
    }
}

/// Texts that count as false in a condition.
const FALSE_TEXTS: [&str; 9] = ["", "false", "0", "no", "none", "null", "off", "{}", "[]"];

/// Returns true if a value counts as true in a condition.
///
/// These values count as false: null, false, 0, the empty list, map and text, and the texts for
/// false, such as `no`.
pub fn is_truthy(value: &Json) -> bool {
    let Json::Str(text) = value else {
        return is_true(value);
    };
    let text = text.trim();
    // The longest of them has five characters.
    text.len() > 5 || !FALSE_TEXTS.iter().any(|false_text| text.eq_ignore_ascii_case(false_text))
}

fn reject_nul(text: &str) -> Result<(), Vec<TemplateError>> {
    let Some(offset) = text.find('\0') else {
        return Ok(());
    };
    let span = ByteSpan::new(offset, offset + 1);
    Err(vec![TemplateError::syntax(span, "text contains a NUL character")])
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source()).finish()
    }
}

/// Templates are equal if their source texts are equal.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Template {}
