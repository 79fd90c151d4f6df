//! What every part of the grammar shares: the token that is looked at, the faults so far, the way
//! down and up.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::Names;
use crate::template::facts::Facts;
use crate::template::fault::{Fault, FaultKind, Word};
use crate::template::lexer::{Lexer, Span, Token};
use crate::template::limits::TemplateLimits;
use crate::template::program::{Body, Expr, ExprKind, Node};
use crate::template::vocabulary::nearest;

/// Where a template stands, as far as its vocabulary depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// Defaults of the input, rendered once when a run starts: chance is allowed here, since what
    /// comes out is recorded.
    Start,
    /// Everywhere else.
    #[default]
    Run,
}

/// A program, what is known of it, and how many variables it has.
#[derive(Debug)]
pub(in crate::template) struct Parsed {
    pub(in crate::template) body: Body,
    pub(in crate::template) facts: Facts,
    pub(in crate::template) slots: usize,
}

/// Reads a text with tags.
pub(in crate::template) fn template(
    text: &str,
    place: Place,
    limits: &TemplateLimits,
) -> Result<Parsed, Vec<Fault>> {
    let mut parser = Parser::new(Lexer::template(text, limits), place, limits);
    let read = parser.start().and_then(|()| parser.nodes(&[]));
    parser.finish(read.map(body_of))
}

/// Reads an expression without tags.
pub(in crate::template) fn bare(
    text: &str,
    place: Place,
    limits: &TemplateLimits,
) -> Result<Parsed, Vec<Fault>> {
    let mut parser = Parser::new(Lexer::bare(text, limits), place, limits);
    let read = parser.start().and_then(|()| {
        let value = parser.expression()?;
        match parser.token {
            Token::End => Ok(Body::Value(value)),
            _ => parser.unexpected("an operator or the end"),
        }
    });
    parser.finish(read)
}

/// A template that is one output with blanks around it keeps the type of its value.
fn body_of(mut nodes: Vec<Node>) -> Body {
    let is_blank = |node: &Node| matches!(node, Node::Text(text) if text.trim().is_empty());
    let is_output = |node: &Node| matches!(node, Node::Output(_));
    let outputs = nodes.iter().filter(|node| is_output(node)).count();
    if outputs == 1 && nodes.iter().all(|node| is_blank(node) || is_output(node)) {
        nodes.retain(is_output);
        if let Some(Node::Output(value)) = nodes.pop() {
            return Body::Value(value);
        }
    }
    Body::Text(nodes)
}

/// No text earns more faults than this.
const MAX_FAULTS: usize = 100;

/// A syntax error ends the reading; what it says is already among the faults.
pub(super) struct Stopped;

pub(super) type Read<T> = Result<T, Stopped>;

pub(super) struct Parser<'t, 'l> {
    lexer: Lexer<'t>,
    /// The token that is looked at.
    pub(super) token: Token<'t>,
    pub(super) span: Span,
    /// The token before it.
    pub(super) last: Span,
    pub(super) place: Place,
    limits: &'l TemplateLimits,
    depth: usize,
    pub(super) names: Names,
    pub(super) facts: Facts,
    faults: Vec<Fault>,
    /// Names and keys that were seen; each is kept once.
    words: BTreeMap<&'t str, Arc<str>>,
    /// Forbidden statements that were opened and are skipped over, innermost last.
    pub(super) skipped: Vec<&'t str>,
}

impl<'t, 'l> Parser<'t, 'l> {
    fn new(lexer: Lexer<'t>, place: Place, limits: &'l TemplateLimits) -> Self {
        Self {
            lexer,
            token: Token::End,
            span: Span::default(),
            last: Span::default(),
            place,
            limits,
            depth: 0,
            names: Names::default(),
            facts: Facts::default(),
            faults: Vec::new(),
            words: BTreeMap::new(),
            skipped: Vec::new(),
        }
    }

    fn start(&mut self) -> Read<()> {
        self.advance().map(drop)
    }

    fn finish(mut self, read: Read<Body>) -> Result<Parsed, Vec<Fault>> {
        self.facts.reads.shrink_to_fit();
        self.facts.outputs.shrink_to_fit();
        match read {
            Ok(body) if self.faults.is_empty() => Ok(Parsed {
                body,
                facts: self.facts,
                slots: self.names.slots(),
            }),
            Ok(_) | Err(Stopped) => Err(self.faults),
        }
    }

    /// A name or key, shared with every other place that has it.
    pub(super) fn word(&mut self, word: &'t str) -> Arc<str> {
        Arc::clone(self.words.entry(word).or_insert_with(|| Arc::from(word)))
    }

    /// Takes the token and looks at the next one.
    pub(super) fn advance(&mut self) -> Read<Token<'t>> {
        match self.lexer.next() {
            Ok((token, span)) => {
                self.last = std::mem::replace(&mut self.span, span);
                Ok(std::mem::replace(&mut self.token, token))
            }
            Err(fault) => {
                self.faults.push(fault);
                Err(Stopped)
            }
        }
    }

    pub(super) fn at_mark(&self, mark: &str) -> bool {
        matches!(self.token, Token::Mark(found) if found == mark)
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Word(found) if found == word)
    }

    /// Steps over a mark if it is the next token.
    pub(super) fn eat_mark(&mut self, mark: &str) -> Read<bool> {
        let found = self.at_mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Steps over a word if it is the next token.
    pub(super) fn eat_word(&mut self, word: &str) -> Read<bool> {
        let found = self.at_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect_mark(&mut self, mark: &'static str) -> Read<()> {
        if self.eat_mark(mark)? {
            return Ok(());
        }
        self.unexpected(&format!("`{mark}`"))
    }

    pub(super) fn expect(&mut self, token: &Token<'static>) -> Read<()> {
        if self.token == *token {
            self.advance()?;
            return Ok(());
        }
        self.unexpected(&token.to_string())
    }

    pub(super) fn unexpected<T>(&mut self, wanted: &str) -> Read<T> {
        let reason = format!("expected {wanted}, found {}", self.token);
        self.syntax(self.span, reason)
    }

    /// Notes a fault after which reading cannot go on.
    pub(super) fn syntax<T>(&mut self, span: Span, reason: impl Into<String>) -> Read<T> {
        self.note(
            span,
            FaultKind::Syntax {
                reason: reason.into(),
            },
        );
        Err(Stopped)
    }

    /// Notes a fault and goes on.
    pub(super) fn note(&mut self, span: Span, kind: FaultKind) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault {
                kind,
                range: span.range(),
            });
        }
    }

    /// Notes a word that does not exist.
    pub(super) fn note_unknown(&mut self, what: Word, name: &str, span: Span) {
        // Looking for likely words costs more than reading the text.
        if self.faults.len() < MAX_FAULTS {
            let near = nearest(what, name);
            let name = name.to_owned();
            self.note(span, FaultKind::UnknownName { what, name, near });
        }
    }

    /// Reads something one level deeper.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= self.limits.depth() {
            let reason = format!("nested deeper than {} levels", self.limits.depth());
            self.note(self.span, FaultKind::Syntax { reason });
            return Err(Stopped);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }
}

/// What stands in for an expression that has a fault.
pub(super) fn placeholder(span: Span) -> Expr {
    Expr {
        span,
        kind: ExprKind::Const(noetl_types::Json::Null),
    }
}
