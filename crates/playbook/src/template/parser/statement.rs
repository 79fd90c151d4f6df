//! Text, outputs and the statements `if`, `for` and `set`.

use super::names::UNSHADOWED;
use super::reader::{Parser, Read};
use crate::diag::near;
use crate::template::fault::FaultKind;
use crate::template::lexer::{Span, Token};
use crate::template::program::{Expr, ExprKind, For, Name, Node, SetBlock, Target};

/// Statements that exist in Jinja and not here, each with the word that ends its block.
const FORBIDDEN: [(&str, Option<&str>); 14] = [
    ("include", None),
    ("import", None),
    ("from", None),
    ("extends", None),
    ("do", None),
    ("break", None),
    ("continue", None),
    ("macro", Some("endmacro")),
    ("call", Some("endcall")),
    ("block", Some("endblock")),
    ("with", Some("endwith")),
    ("filter", Some("endfilter")),
    ("autoescape", Some("endautoescape")),
    ("trans", Some("endtrans")),
];

/// Statements that exist.
const ALLOWED: [&str; 9] = [
    "if", "elif", "else", "endif", "for", "endfor", "set", "endset", "raw",
];

impl<'t> Parser<'t, '_> {
    /// Reads nodes up to a statement that `ends` them, which is left to be read.
    pub(super) fn nodes(&mut self, ends: &[&str]) -> Read<Vec<Node>> {
        let mut nodes = Vec::new();
        loop {
            match self.token {
                Token::Text(text) => {
                    nodes.push(Node::Text(text.into()));
                    self.advance()?;
                }
                Token::OpenOutput => nodes.push(self.output()?),
                Token::OpenBlock => {
                    self.advance()?;
                    let Token::Word(word) = self.token else {
                        return self.unexpected("a statement");
                    };
                    if ends.contains(&word) {
                        return Ok(nodes);
                    }
                    nodes.extend(self.statement(word)?);
                }
                Token::End if ends.is_empty() => return Ok(nodes),
                _ => {
                    let wanted: Vec<_> =
                        ends.iter().map(|end| format!("`{{% {end} %}}`")).collect();
                    return self.unexpected(&wanted.join(" or "));
                }
            }
        }
    }

    fn output(&mut self) -> Read<Node> {
        let open = self.span;
        self.advance()?;
        let value = self.expression()?;
        self.expect(&Token::CloseOutput)?;
        self.facts.outputs.push(open.to(self.last).range());
        Ok(Node::Output(value))
    }

    fn statement(&mut self, word: &'t str) -> Read<Option<Node>> {
        let span = self.span;
        self.advance()?;
        match word {
            "if" => self.deeper(Self::if_block).map(Some),
            "for" => self.deeper(Self::for_block).map(Some),
            "set" => self.deeper(Self::set).map(Some),
            _ => self.no_statement(word, span).map(|()| None),
        }
    }

    /// A statement that is not ours: noted and skipped when Jinja has it, else the end.
    fn no_statement(&mut self, word: &'t str, span: Span) -> Read<()> {
        if self.skipped.last() == Some(&word) {
            self.skipped.pop();
            return self.skip_block();
        }
        if let Some((statement, end)) = FORBIDDEN.iter().find(|(name, _)| *name == word) {
            self.note(
                span,
                FaultKind::Statement {
                    name: (*statement).to_owned(),
                },
            );
            self.skipped.extend(*end);
            return self.skip_block();
        }
        let reason = if ALLOWED.contains(&word) {
            format!("`{word}` has nothing to end or continue")
        } else if let Some(near) = near(word, ALLOWED) {
            format!("unknown statement '{word}'; did you mean '{near}'")
        } else {
            format!("unknown statement '{word}'")
        };
        self.syntax(span, reason)
    }

    fn skip_block(&mut self) -> Read<()> {
        while !matches!(self.token, Token::CloseBlock | Token::End) {
            self.advance()?;
        }
        self.expect(&Token::CloseBlock)
    }

    /// Steps over `word %}`.
    fn end_block(&mut self) -> Read<()> {
        self.advance()?;
        self.expect(&Token::CloseBlock)
    }

    fn if_block(&mut self) -> Read<Node> {
        let mut branches = Vec::new();
        let mut outcomes = Vec::new();
        let before = self.names.certain();
        loop {
            let test = self.expression()?;
            self.expect(&Token::CloseBlock)?;
            let body = self.nodes(&["elif", "else", "endif"])?;
            branches.push((test, body));
            outcomes.push(self.names.certain());
            self.names.forget(&before);
            if self.at_word("elif") {
                self.advance()?;
                continue;
            }
            let mut otherwise = Vec::new();
            if self.at_word("else") {
                self.end_block()?;
                otherwise = self.nodes(&["endif"])?;
            }
            outcomes.push(self.names.certain());
            self.end_block()?;
            self.names.join(&outcomes);
            return Ok(Node::If(branches, otherwise));
        }
    }

    fn for_block(&mut self) -> Read<Node> {
        let targets = self.target_names()?;
        if !self.eat_word("in")? {
            return self.unexpected("`in`");
        }
        let items = self.without_choice()?;
        let first_slot = self.names.slots();
        self.names.open();
        let target = self.declare(&targets)?;
        let keep = if self.eat_word("if")? {
            Some(self.expression()?)
        } else {
            None
        };
        if self.at_word("recursive") {
            let name = "for … recursive".to_owned();
            self.note(self.span, FaultKind::Statement { name });
            self.advance()?;
        }
        self.expect(&Token::CloseBlock)?;
        let loop_slot = self.names.declare("loop");
        let body = self.nodes(&["else", "endfor"])?;
        self.names.close();
        let slots = first_slot..self.names.slots();
        let mut otherwise = Vec::new();
        if self.at_word("else") {
            self.end_block()?;
            self.names.open();
            otherwise = self.nodes(&["endfor"])?;
            self.names.close();
        }
        self.end_block()?;
        Ok(Node::For(Box::new(For {
            target,
            items,
            keep,
            body,
            otherwise,
            loop_slot,
            slots,
        })))
    }

    fn set(&mut self) -> Read<Node> {
        let targets = self.target_names()?;
        if self.eat_mark("=")? {
            let value = self.expression_or_list()?;
            self.expect(&Token::CloseBlock)?;
            // Declared only now: the value may read an outer variable of the same name.
            return Ok(Node::Set(Box::new((self.declare(&targets)?, value))));
        }
        let mut filters = Vec::new();
        while self.at_mark("|") {
            filters.extend(self.filter()?);
        }
        self.expect(&Token::CloseBlock)?;
        let body = self.nodes(&["endset"])?;
        self.end_block()?;
        let target = self.declare(&targets)?;
        Ok(Node::SetBlock(Box::new(SetBlock {
            target,
            filters,
            body,
        })))
    }

    /// `a`, `a, b`, `(a, b), c` or `namespace.key`.
    fn target_names(&mut self) -> Read<Names<'t>> {
        let start = self.span;
        let first = self.target_name()?;
        if !self.at_mark(",") {
            return Ok(first);
        }
        let mut several = vec![first];
        while self.eat_mark(",")? {
            if !matches!(self.token, Token::Word(_) | Token::Mark("(")) || self.at_word("in") {
                break;
            }
            several.push(self.target_name()?);
        }
        Ok(Names::Several(several, start.to(self.last)))
    }

    fn target_name(&mut self) -> Read<Names<'t>> {
        if self.eat_mark("(")? {
            let names = self.deeper(Self::target_names)?;
            self.expect_mark(")")?;
            return Ok(names);
        }
        let Token::Word(name) = self.token else {
            return self.unexpected("a name");
        };
        let span = self.span;
        self.advance()?;
        if self.eat_mark(".")? {
            let Token::Word(key) = self.token else {
                return self.unexpected("a name");
            };
            self.advance()?;
            return Ok(Names::Member(name, key, span));
        }
        let constant = matches!(
            name,
            "true"
                | "True"
                | "false"
                | "False"
                | "none"
                | "None"
                | "loop"
                | "not"
                | "in"
                | "and"
                | "or"
                | "if"
                | "else"
                | "is"
        );
        if constant || UNSHADOWED.contains(&name) {
            return self.syntax(span, format!("`{name}` cannot be assigned"));
        }
        Ok(Names::One(name))
    }

    fn declare(&mut self, names: &Names<'t>) -> Read<Target> {
        Ok(match names {
            Names::One(name) => Target::Slot(self.names.declare(name)),
            Names::Several(names, span) => {
                let targets = names.iter().map(|name| self.declare(name));
                Target::Several(targets.collect::<Read<_>>()?, *span)
            }
            Names::Member(name, key, span) => {
                let (slots, _) = self.names.resolve(name);
                if slots.is_empty() {
                    return self.syntax(*span, format!("`{name}` is not a namespace"));
                }
                let kind = ExprKind::Name(Name {
                    text: self.word(name),
                    slots,
                });
                let namespace = Expr { span: *span, kind };
                Target::Member {
                    namespace,
                    key: self.word(key),
                }
            }
        })
    }
}

/// The names of an assignment before they are variables.
enum Names<'t> {
    One(&'t str),
    Several(Vec<Names<'t>>, Span),
    Member(&'t str, &'t str, Span),
}
