//! Parses tokens into a program.
//!
//! Owns the grammar: expressions, statements, and which names are template variables. Nesting is
//! counted in one place, so no text can exhaust the stack of the parser or of anything that walks
//! its program.

mod arguments;
mod expression;
mod statement;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::error::{TemplateError, TemplateErrorKind, VocabularyKind};
use super::eval::vocabulary::suggest_name;
use super::facts::TemplateFacts;
use super::lexer::{ByteSpan, Lexer, Token};
use super::meter::TemplateLimits;
use super::program::{Expr, ExprKind, TemplateBody, TemplateNode};

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
pub(super) struct ParsedTemplate {
    pub(super) body: TemplateBody,
    pub(super) facts: TemplateFacts,
    pub(super) slots: usize,
}

/// Parses a text with tags.
pub(super) fn parse_template(
    text: &str,
    place: TemplatePlace,
    limits: &TemplateLimits,
) -> Result<ParsedTemplate, Vec<TemplateError>> {
    let mut parser = Parser::new(Lexer::for_template(text, limits), place, limits);
    let nodes = parser.advance().and_then(|_| parser.parse_nodes(&[]));
    parser.into_parsed(nodes.map(body_from_nodes))
}

/// Parses an expression without tags.
pub(super) fn parse_bare_expression(
    text: &str,
    place: TemplatePlace,
    limits: &TemplateLimits,
) -> Result<ParsedTemplate, Vec<TemplateError>> {
    let mut parser = Parser::new(Lexer::for_expression(text, limits), place, limits);
    let body = parser.advance().and_then(|_| {
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
struct ParseStopped;

type ParseResult<T> = Result<T, ParseStopped>;

struct Parser<'t, 'l> {
    lexer: Lexer<'t>,
    /// The current token.
    token: Token<'t>,
    span: ByteSpan,
    /// Span of the previous token.
    previous_span: ByteSpan,
    place: TemplatePlace,
    limits: &'l TemplateLimits,
    depth: usize,
    names: VariableTable,
    facts: TemplateFacts,
    errors: Vec<TemplateError>,
    /// Interned names and keys.
    words: BTreeMap<&'t str, Arc<str>>,
    /// Open forbidden statements that are being skipped, innermost last.
    skipped: Vec<&'t str>,
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

    fn into_parsed(
        mut self,
        body: ParseResult<TemplateBody>,
    ) -> Result<ParsedTemplate, Vec<TemplateError>> {
        self.facts.reads.shrink_to_fit();
        self.facts.outputs.shrink_to_fit();
        match body {
            Ok(body) if self.errors.is_empty() => {
                Ok(ParsedTemplate { body, facts: self.facts, slots: self.names.slots })
            }
            Ok(_) | Err(ParseStopped) => Err(self.errors),
        }
    }

    /// Interns a name or key.
    fn intern_word(&mut self, word: &'t str) -> Arc<str> {
        Arc::clone(self.words.entry(word).or_insert_with(|| Arc::from(word)))
    }

    /// Returns the current token and advances to the next one.
    fn advance(&mut self) -> ParseResult<Token<'t>> {
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

    fn at_mark(&self, mark: &str) -> bool {
        matches!(self.token, Token::Mark(found) if found == mark)
    }

    fn at_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Word(found) if found == word)
    }

    /// Consumes a mark if it is the current token.
    fn eat_mark(&mut self, mark: &str) -> ParseResult<bool> {
        if self.at_mark(mark) { self.advance().map(|_| true) } else { Ok(false) }
    }

    /// Consumes a word if it is the current token.
    fn eat_word(&mut self, word: &str) -> ParseResult<bool> {
        if self.at_word(word) { self.advance().map(|_| true) } else { Ok(false) }
    }

    fn expect_mark(&mut self, mark: &'static str) -> ParseResult<()> {
        if self.eat_mark(mark)? { Ok(()) } else { self.unexpected_token(&format!("`{mark}`")) }
    }

    fn expect_token(&mut self, token: &Token<'static>) -> ParseResult<()> {
        if self.token != *token {
            return self.unexpected_token(&token.to_string());
        }
        self.advance().map(drop)
    }

    fn unexpected_token<T>(&mut self, expected: &str) -> ParseResult<T> {
        let reason = format!("expected {expected}, found {}", self.token);
        self.syntax_error(self.span, reason)
    }

    /// Records an error after which parsing cannot continue.
    fn syntax_error<T>(&mut self, span: ByteSpan, reason: impl Into<String>) -> ParseResult<T> {
        self.record_error(span, TemplateErrorKind::Syntax { reason: reason.into() });
        Err(ParseStopped)
    }

    /// Records an error and continues.
    fn record_error(&mut self, span: ByteSpan, kind: TemplateErrorKind) {
        if self.errors.len() < MAX_TEMPLATE_ERRORS {
            self.errors.push(TemplateError { kind, range: span.range() });
        }
    }

    /// Records an unknown name.
    fn record_unknown(&mut self, vocabulary: VocabularyKind, name: &str, span: ByteSpan) {
        // Searching for similar names costs more than parsing the text.
        if self.errors.len() < MAX_TEMPLATE_ERRORS {
            let suggestion = suggest_name(vocabulary, name);
            let name = name.to_owned();
            let kind = TemplateErrorKind::UnknownName { vocabulary, name, suggestion };
            self.record_error(span, kind);
        }
    }

    /// Parses one nesting level deeper.
    fn with_nesting<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        if self.depth >= self.limits.max_depth() {
            let reason = format!("nested deeper than {} levels", self.limits.max_depth());
            return self.syntax_error(self.span, reason);
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// An expression from a location to the previous token.
    fn expr_from(&self, start: ByteSpan, kind: ExprKind) -> Expr {
        Expr { span: start.extend_to(self.previous_span), kind }
    }
}

/// Names that a template variable must not shadow.
const UNSHADOWABLE_NAMES: [&str; 5] = ["execution_id", "workload", "ctx", "steps", "keychain"];

/// Resolves names to template variables.
///
/// A `for` opens a scope for each iteration. A `set` defines a variable in the scope that contains
/// it. A `set` inside an `if` may or may not have run: reading the name then yields the variable if
/// it did, or else the previous meaning of the name.
#[derive(Debug, Default)]
struct VariableTable {
    scopes: Vec<VariableScope>,
    outermost: VariableScope,
    /// Number of variables in total.
    slots: usize,
}

type VariableScope = BTreeMap<String, TemplateVariable>;

#[derive(Debug, Clone, Copy)]
struct TemplateVariable {
    slot: usize,
    is_certain: bool,
}

/// The variables of the innermost scope that certainly have a value.
type CertainVariables = BTreeSet<String>;

impl VariableTable {
    fn open_scope(&mut self) {
        self.scopes.push(VariableScope::new());
    }

    fn close_scope(&mut self) {
        self.scopes.pop();
    }

    fn innermost_scope(&mut self) -> &mut VariableScope {
        self.scopes.last_mut().unwrap_or(&mut self.outermost)
    }

    /// Declares a variable in the innermost scope, or returns the existing one.
    fn declare_variable(&mut self, name: &str) -> usize {
        let next = self.slots;
        let variable = self
            .innermost_scope()
            .entry(name.to_owned())
            .or_insert(TemplateVariable { slot: next, is_certain: true });
        variable.is_certain = true;
        let slot = variable.slot;
        self.slots = self.slots.max(slot + 1);
        slot
    }

    /// The variables that a name may refer to, innermost first. The bool is true if one of them
    /// certainly has a value.
    fn resolve_variable(&self, name: &str) -> (Box<[usize]>, bool) {
        let mut slots = Vec::new();
        for scope in self.scopes.iter().rev().chain([&self.outermost]) {
            if let Some(variable) = scope.get(name) {
                slots.push(variable.slot);
                if variable.is_certain {
                    return (slots.into(), true);
                }
            }
        }
        (slots.into(), false)
    }

    /// The certain variables, before a branch.
    fn certain_variables(&mut self) -> CertainVariables {
        let certain = self.innermost_scope().iter().filter(|(_, variable)| variable.is_certain);
        certain.map(|(name, _)| name.clone()).collect()
    }

    /// Resets certainty to the state before a branch.
    fn restore_certain(&mut self, before: &CertainVariables) {
        for (name, variable) in self.innermost_scope() {
            variable.is_certain = before.contains(name);
        }
    }

    /// After all branches: a variable is certain if every branch made it certain.
    fn join_branches(&mut self, branches: &[CertainVariables]) {
        for (name, variable) in self.innermost_scope() {
            variable.is_certain = branches.iter().all(|branch| branch.contains(name));
        }
    }
}
