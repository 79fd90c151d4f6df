//! Parsing of text, outputs and the statements `if`, `for` and `set`.

use super::expression::RESERVED_WORDS;
use super::{ParseResult, Parser, UNSHADOWABLE_NAMES};
use crate::diag::nearest_name;
use crate::template::error::TemplateErrorKind;
use crate::template::lexer::{ByteSpan, Token};
use crate::template::program::{
    AssignTarget, Expr, ExprKind, ForBlock, NameExpr, SetBlock, TemplateNode,
};

/// Jinja statements that are not supported, each with the word that ends its block.
const FORBIDDEN_STATEMENTS: [(&str, Option<&str>); 14] = [
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

/// Supported statements.
const ALLOWED_STATEMENTS: [&str; 9] =
    ["if", "elif", "else", "endif", "for", "endfor", "set", "endset", "raw"];

impl<'t> Parser<'t, '_> {
    /// Parses nodes up to a statement in `end_words`, which is not consumed.
    pub(super) fn parse_nodes(&mut self, end_words: &[&str]) -> ParseResult<Vec<TemplateNode>> {
        let mut nodes = Vec::new();
        loop {
            match self.token {
                Token::Text(text) => {
                    nodes.push(TemplateNode::Text(text.into()));
                    self.advance()?;
                }
                Token::OpenOutput => nodes.push(self.parse_output()?),
                Token::OpenBlock => {
                    self.advance()?;
                    let Token::Word(word) = self.token else {
                        return self.unexpected_token("a statement");
                    };
                    if end_words.contains(&word) {
                        return Ok(nodes);
                    }
                    nodes.extend(self.parse_statement(word)?);
                }
                Token::End if end_words.is_empty() => return Ok(nodes),
                _ => {
                    let expected: Vec<_> =
                        end_words.iter().map(|end| format!("`{{% {end} %}}`")).collect();
                    return self.unexpected_token(&expected.join(" or "));
                }
            }
        }
    }

    fn parse_output(&mut self) -> ParseResult<TemplateNode> {
        let open = self.span;
        self.advance()?;
        let value = self.parse_expression()?;
        self.expect_token(&Token::CloseOutput)?;
        self.facts.outputs.push(open.extend_to(self.previous_span).range());
        Ok(TemplateNode::Output(value))
    }

    fn parse_statement(&mut self, word: &'t str) -> ParseResult<Option<TemplateNode>> {
        let span = self.span;
        self.advance()?;
        match word {
            "if" => self.with_nesting(Self::parse_if).map(Some),
            "for" => self.with_nesting(Self::parse_for).map(Some),
            "set" => self.with_nesting(Self::parse_set).map(Some),
            _ => self.reject_statement(word, span).map(|()| None),
        }
    }

    /// Rejects an unsupported statement. If Jinja has it, the error is recorded and parsing
    /// continues after it. Otherwise parsing ends.
    fn reject_statement(&mut self, word: &'t str, span: ByteSpan) -> ParseResult<()> {
        if self.skipped.last() == Some(&word) {
            self.skipped.pop();
            return self.skip_block();
        }
        if let Some((statement, end)) = FORBIDDEN_STATEMENTS.iter().find(|(name, _)| *name == word)
        {
            self.record_error(span, TemplateErrorKind::Statement { name: (*statement).to_owned() });
            self.skipped.extend(*end);
            return self.skip_block();
        }
        let reason = if ALLOWED_STATEMENTS.contains(&word) {
            format!("`{word}` has no matching statement to end or continue")
        } else if let Some(nearest) = nearest_name(word, ALLOWED_STATEMENTS) {
            format!("unknown statement '{word}'; did you mean '{nearest}'")
        } else {
            format!("unknown statement '{word}'")
        };
        self.syntax_error(span, reason)
    }

    fn skip_block(&mut self) -> ParseResult<()> {
        while !matches!(self.token, Token::CloseBlock | Token::End) {
            self.advance()?;
        }
        self.expect_token(&Token::CloseBlock)
    }

    /// Consumes `word %}`.
    fn end_block(&mut self) -> ParseResult<()> {
        self.advance()?;
        self.expect_token(&Token::CloseBlock)
    }

    fn parse_if(&mut self) -> ParseResult<TemplateNode> {
        let mut branches = Vec::new();
        let mut outcomes = Vec::new();
        let before = self.names.certain_variables();
        loop {
            let test = self.parse_expression()?;
            self.expect_token(&Token::CloseBlock)?;
            let body = self.parse_nodes(&["elif", "else", "endif"])?;
            branches.push((test, body));
            outcomes.push(self.names.certain_variables());
            self.names.restore_certain(&before);
            if self.at_word("elif") {
                self.advance()?;
                continue;
            }
            let mut otherwise = Vec::new();
            if self.at_word("else") {
                self.end_block()?;
                otherwise = self.parse_nodes(&["endif"])?;
            }
            outcomes.push(self.names.certain_variables());
            self.end_block()?;
            self.names.join_branches(&outcomes);
            return Ok(TemplateNode::If(branches, otherwise));
        }
    }

    fn parse_for(&mut self) -> ParseResult<TemplateNode> {
        let targets = self.parse_targets()?;
        if !self.eat_word("in")? {
            return self.unexpected_token("`in`");
        }
        let items = self.parse_or()?;
        let first_slot = self.names.slots;
        self.names.open_scope();
        let target = self.declare_targets(&targets)?;
        let filter = if self.eat_word("if")? { Some(self.parse_expression()?) } else { None };
        if self.at_word("recursive") {
            let name = "for … recursive".to_owned();
            self.record_error(self.span, TemplateErrorKind::Statement { name });
            self.advance()?;
        }
        self.expect_token(&Token::CloseBlock)?;
        let loop_slot = self.names.declare_variable("loop");
        let body = self.parse_nodes(&["else", "endfor"])?;
        self.names.close_scope();
        let slots = first_slot..self.names.slots;
        let mut else_body = Vec::new();
        if self.at_word("else") {
            self.end_block()?;
            self.names.open_scope();
            else_body = self.parse_nodes(&["endfor"])?;
            self.names.close_scope();
        }
        self.end_block()?;
        let block = ForBlock { target, items, filter, body, else_body, loop_slot, slots };
        Ok(TemplateNode::For(Box::new(block)))
    }

    fn parse_set(&mut self) -> ParseResult<TemplateNode> {
        let targets = self.parse_targets()?;
        if self.eat_mark("=")? {
            let value = self.parse_expression_or_list()?;
            self.expect_token(&Token::CloseBlock)?;
            // Declared only now, because the value may read an outer variable of the same name.
            return Ok(TemplateNode::Set(Box::new((self.declare_targets(&targets)?, value))));
        }
        let mut filters = Vec::new();
        while self.at_mark("|") {
            filters.extend(self.parse_filter()?);
        }
        self.expect_token(&Token::CloseBlock)?;
        let body = self.parse_nodes(&["endset"])?;
        self.end_block()?;
        let target = self.declare_targets(&targets)?;
        Ok(TemplateNode::SetBlock(Box::new(SetBlock { target, filters, body })))
    }

    /// Parses `a`, `a, b`, `(a, b), c` or `namespace.key`.
    fn parse_targets(&mut self) -> ParseResult<TargetNames<'t>> {
        let start = self.span;
        let first = self.parse_target()?;
        if !self.at_mark(",") {
            return Ok(first);
        }
        let mut targets = vec![first];
        while self.eat_mark(",")? {
            if !matches!(self.token, Token::Word(_) | Token::Mark("(")) || self.at_word("in") {
                break;
            }
            targets.push(self.parse_target()?);
        }
        Ok(TargetNames::Several(targets, start.extend_to(self.previous_span)))
    }

    fn parse_target(&mut self) -> ParseResult<TargetNames<'t>> {
        if self.eat_mark("(")? {
            let names = self.with_nesting(Self::parse_targets)?;
            self.expect_mark(")")?;
            return Ok(names);
        }
        let Token::Word(name) = self.token else {
            return self.unexpected_token("a name");
        };
        let span = self.span;
        self.advance()?;
        if self.eat_mark(".")? {
            let Token::Word(key) = self.token else {
                return self.unexpected_token("a name");
            };
            self.advance()?;
            return Ok(TargetNames::Member(name, key, span));
        }
        let is_constant = ["true", "True", "false", "False", "none", "None"].contains(&name);
        if is_constant
            || name == "loop"
            || RESERVED_WORDS.contains(&name)
            || UNSHADOWABLE_NAMES.contains(&name)
        {
            return self.syntax_error(span, format!("`{name}` cannot be assigned"));
        }
        Ok(TargetNames::One(name))
    }

    fn declare_targets(&mut self, names: &TargetNames<'t>) -> ParseResult<AssignTarget> {
        Ok(match names {
            TargetNames::One(name) => AssignTarget::Slot(self.names.declare_variable(name)),
            TargetNames::Several(names, span) => {
                let targets = names.iter().map(|name| self.declare_targets(name));
                AssignTarget::Several(targets.collect::<ParseResult<_>>()?, *span)
            }
            TargetNames::Member(name, key, span) => {
                let (slots, _) = self.names.resolve_variable(name);
                if slots.is_empty() {
                    return self.syntax_error(*span, format!("`{name}` is not a namespace"));
                }
                let kind = ExprKind::Name(NameExpr { text: self.intern_word(name), slots });
                let namespace = Expr { span: *span, kind };
                AssignTarget::Member { namespace, key: self.intern_word(key) }
            }
        })
    }
}

/// The names of an assignment before they are declared.
enum TargetNames<'t> {
    One(&'t str),
    Several(Vec<TargetNames<'t>>, ByteSpan),
    Member(&'t str, &'t str, ByteSpan),
}
