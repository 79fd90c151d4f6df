//! State that all parts of the grammar share: the current token, the errors so far and the nesting
//! depth.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::variables::VariableTable;
use crate::template::facts::TemplateFacts;
use crate::template::lexer::{ByteSpan, Lexer, Token};
use crate::template::limits::TemplateLimits;
use crate::template::program::{Expr, ExprKind, TemplateBody, TemplateNode};
use crate::template::template_error::{TemplateError, TemplateErrorKind, VocabularyKind};
use crate::template::vocabulary::suggest_name;

/// The kind of place that holds a template. The vocabulary depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TemplatePlace {
    /// Defaults of the input, rendered once when an execution starts. Random functions are allowed
    /// here, because the result is recorded.
    Start,
    /// Everywhere else.
    #[default]
    Run,
}

/// A program, its static facts, and its number of variable slots.
#[derive(Debug)]
pub(in crate::template) struct ParsedTemplate {
    pub(in crate::template) body: TemplateBody,
    pub(in crate::template) facts: TemplateFacts,
    pub(in crate::template) slots: usize,
}

/// Parses a text with tags.
pub(in crate::template) fn parse_template(
    text: &str,
    place: TemplatePlace,
    limits: &TemplateLimits,
) -> Result<ParsedTemplate, Vec<TemplateError>> {
    let mut parser = Parser::new(Lexer::for_template(text, limits), place, limits);
    let nodes = parser.read_first_token().and_then(|()| parser.parse_nodes(&[]));
    parser.into_parsed(nodes.map(body_from_nodes))
}

/// Parses an expression without tags.
pub(in crate::template) fn parse_bare_expression(
    text: &str,
    place: TemplatePlace,
    limits: &TemplateLimits,
) -> Result<ParsedTemplate, Vec<TemplateError>> {
    let mut parser = Parser::new(Lexer::for_expression(text, limits), place, limits);
    let body = parser.read_first_token().and_then(|()| {
        let value = parser.parse_expression()?;
        match parser.token {
            Token::End => Ok(TemplateBody::Value(value)),
            _ => parser.unexpected_token("an operator or the end"),
        }
    });
    parser.into_parsed(body)
}

/// A template that is one output surrounded by whitespace keeps the type of its value.
fn body_from_nodes(mut nodes: Vec<TemplateNode>) -> TemplateBody {
    let is_blank =
        |node: &TemplateNode| matches!(node, TemplateNode::Text(text) if text.trim().is_empty());
    let is_output = |node: &TemplateNode| matches!(node, TemplateNode::Output(_));
    let outputs = nodes.iter().filter(|node| is_output(node)).count();
    if outputs == 1 && nodes.iter().all(|node| is_blank(node) || is_output(node)) {
        nodes.retain(is_output);
        if let Some(TemplateNode::Output(value)) = nodes.pop() {
            return TemplateBody::Value(value);
        }
    }
    TemplateBody::Text(nodes)
}

/// Maximum number of errors per text.
const MAX_TEMPLATE_ERRORS: usize = 100;

/// Marker of a syntax error that ended parsing. The error itself is already recorded.
pub(super) struct ParseStopped;

pub(super) type ParseResult<T> = Result<T, ParseStopped>;

pub(super) struct Parser<'t, 'l> {
    lexer: Lexer<'t>,
    /// The current token.
    pub(super) token: Token<'t>,
    pub(super) span: ByteSpan,
    /// Span of the previous token.
    pub(super) previous_span: ByteSpan,
    pub(super) place: TemplatePlace,
    limits: &'l TemplateLimits,
    depth: usize,
    pub(super) names: VariableTable,
    pub(super) facts: TemplateFacts,
    errors: Vec<TemplateError>,
    /// Interned names and keys.
    words: BTreeMap<&'t str, Arc<str>>,
    /// Open forbidden statements that are being skipped, innermost last.
    pub(super) skipped: Vec<&'t str>,
}

impl<'t, 'l> Parser<'t, 'l> {
    fn new(lexer: Lexer<'t>, place: TemplatePlace, limits: &'l TemplateLimits) -> Self {
        Self {
            lexer,
            token: Token::End,
            span: ByteSpan::default(),
            previous_span: ByteSpan::default(),
            place,
            limits,
            depth: 0,
            names: VariableTable::default(),
            facts: TemplateFacts::default(),
            errors: Vec::new(),
            words: BTreeMap::new(),
            skipped: Vec::new(),
        }
    }

    fn read_first_token(&mut self) -> ParseResult<()> {
        self.advance().map(drop)
    }

    fn into_parsed(
        mut self,
        body: ParseResult<TemplateBody>,
    ) -> Result<ParsedTemplate, Vec<TemplateError>> {
        self.facts.reads.shrink_to_fit();
        self.facts.outputs.shrink_to_fit();
        match body {
            Ok(body) if self.errors.is_empty() => {
                Ok(ParsedTemplate { body, facts: self.facts, slots: self.names.slots() })
            }
            Ok(_) | Err(ParseStopped) => Err(self.errors),
        }
    }

    /// Interns a name or key.
    pub(super) fn intern_word(&mut self, word: &'t str) -> Arc<str> {
        Arc::clone(self.words.entry(word).or_insert_with(|| Arc::from(word)))
    }

    /// Returns the current token and advances to the next one.
    pub(super) fn advance(&mut self) -> ParseResult<Token<'t>> {
        match self.lexer.next() {
            Ok((token, span)) => {
                self.previous_span = std::mem::replace(&mut self.span, span);
                Ok(std::mem::replace(&mut self.token, token))
            }
            Err(error) => {
                self.errors.push(error);
                Err(ParseStopped)
            }
        }
    }

    pub(super) fn at_mark(&self, mark: &str) -> bool {
        matches!(self.token, Token::Mark(found) if found == mark)
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Word(found) if found == word)
    }

    /// Consumes a mark if it is the current token.
    pub(super) fn eat_mark(&mut self, mark: &str) -> ParseResult<bool> {
        let found = self.at_mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Consumes a word if it is the current token.
    pub(super) fn eat_word(&mut self, word: &str) -> ParseResult<bool> {
        let found = self.at_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect_mark(&mut self, mark: &'static str) -> ParseResult<()> {
        if self.eat_mark(mark)? {
            return Ok(());
        }
        self.unexpected_token(&format!("`{mark}`"))
    }

    pub(super) fn expect_token(&mut self, token: &Token<'static>) -> ParseResult<()> {
        if self.token == *token {
            self.advance()?;
            return Ok(());
        }
        self.unexpected_token(&token.to_string())
    }

    pub(super) fn unexpected_token<T>(&mut self, expected: &str) -> ParseResult<T> {
        let reason = format!("expected {expected}, found {}", self.token);
        self.syntax_error(self.span, reason)
    }

    /// Records an error after which parsing cannot continue.
    pub(super) fn syntax_error<T>(
        &mut self,
        span: ByteSpan,
        reason: impl Into<String>,
    ) -> ParseResult<T> {
        self.record_error(span, TemplateErrorKind::Syntax { reason: reason.into() });
        Err(ParseStopped)
    }

    /// Records an error and continues.
    pub(super) fn record_error(&mut self, span: ByteSpan, kind: TemplateErrorKind) {
        if self.errors.len() < MAX_TEMPLATE_ERRORS {
            self.errors.push(TemplateError { kind, range: span.range() });
        }
    }

    /// Records an unknown name.
    pub(super) fn record_unknown(
        &mut self,
        vocabulary: VocabularyKind,
        name: &str,
        span: ByteSpan,
    ) {
        // Searching for similar names costs more than parsing the text.
        if self.errors.len() < MAX_TEMPLATE_ERRORS {
            let suggestion = suggest_name(vocabulary, name);
            let name = name.to_owned();
            self.record_error(
                span,
                TemplateErrorKind::UnknownName { vocabulary, name, suggestion },
            );
        }
    }

    /// Parses one nesting level deeper.
    pub(super) fn with_nesting<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        if self.depth >= self.limits.max_depth() {
            let reason = format!("nested deeper than {} levels", self.limits.max_depth());
            self.record_error(self.span, TemplateErrorKind::Syntax { reason });
            return Err(ParseStopped);
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }
}

/// Placeholder for an expression that has an error.
pub(super) fn placeholder_expr(span: ByteSpan) -> Expr {
    Expr { span, kind: ExprKind::Const(noetl_types::Json::Null) }
}
