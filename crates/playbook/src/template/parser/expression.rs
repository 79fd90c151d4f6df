//! Expressions, from the loosest operator to the tightest.

use std::sync::Arc;

use noetl_types::Json;

use super::reader::{Parser, Read, placeholder};
use crate::template::facts::{self, static_key};
use crate::template::fault::{FaultKind, Word};
use crate::template::lexer::{Span, Token};
use crate::template::number;
use crate::template::parser::Place;
use crate::template::program::{
    Choice, CompareOp, Expr, ExprKind, Link, LinkKind, MathOp, Name, Slice,
};
use crate::template::vocabulary::{Function, Method, Test};

/// Words that are part of the grammar and never names.
const RESERVED: [&str; 7] = ["and", "or", "not", "if", "else", "in", "is"];

/// Operators on values, from the loosest precedence to the tightest.
const MATH: [&[(&str, MathOp)]; 4] = [
    &[("+", MathOp::Add), ("-", MathOp::Sub)],
    &[("~", MathOp::Concat)],
    &[
        ("*", MathOp::Mul),
        ("/", MathOp::Div),
        ("//", MathOp::FloorDiv),
        ("%", MathOp::Rem),
    ],
    &[("**", MathOp::Pow)],
];

impl<'t> Parser<'t, '_> {
    /// `a if b else c`, or anything tighter.
    pub(super) fn expression(&mut self) -> Read<Expr> {
        self.deeper(Self::choice)
    }

    fn choice(&mut self) -> Read<Expr> {
        let yes = self.without_choice()?;
        if !self.eat_word("if")? {
            return Ok(yes);
        }
        let test = self.without_choice()?;
        let no = if self.eat_word("else")? {
            Some(self.expression()?)
        } else {
            None
        };
        let span = yes.span.to(self.last);
        Ok(Expr {
            span,
            kind: ExprKind::Choose(Box::new(Choice { test, yes, no })),
        })
    }

    /// One value, or several with commas between them, which make a list.
    pub(super) fn expression_or_list(&mut self) -> Read<Expr> {
        let first = self.expression()?;
        if !self.at_mark(",") {
            return Ok(first);
        }
        let span = first.span;
        let mut items = vec![first];
        while self.eat_mark(",")? && !matches!(self.token, Token::CloseBlock) {
            items.push(self.expression()?);
        }
        Ok(folded(Expr {
            span: span.to(self.last),
            kind: ExprKind::List(items),
        }))
    }

    /// `a or b`: where a following `if` belongs to something else.
    pub(super) fn without_choice(&mut self) -> Read<Expr> {
        let first = self.conjunction()?;
        if !self.at_word("or") {
            return Ok(first);
        }
        let span = first.span;
        let mut operands = vec![first];
        while self.eat_word("or")? {
            operands.push(self.conjunction()?);
        }
        Ok(Expr {
            span: span.to(self.last),
            kind: ExprKind::Or(operands),
        })
    }

    fn conjunction(&mut self) -> Read<Expr> {
        let first = self.negation()?;
        if !self.at_word("and") {
            return Ok(first);
        }
        let span = first.span;
        let mut operands = vec![first];
        while self.eat_word("and")? {
            operands.push(self.negation()?);
        }
        Ok(Expr {
            span: span.to(self.last),
            kind: ExprKind::And(operands),
        })
    }

    fn negation(&mut self) -> Read<Expr> {
        let span = self.span;
        if !self.eat_word("not")? {
            return self.comparison();
        }
        let inner = self.deeper(Self::negation)?;
        Ok(Expr {
            span: span.to(inner.span),
            kind: ExprKind::Not(Box::new(inner)),
        })
    }

    fn comparison(&mut self) -> Read<Expr> {
        let mut first = self.math(0)?;
        let mut rest: Vec<(CompareOp, Expr)> = Vec::new();
        while let Some(op) = self.compare_op()? {
            let right = self.math(0)?;
            let left = rest.last().map_or(&first, |(_, left)| left);
            self.facts.note_comparison(left, op, &right);
            rest.push((op, right));
        }
        // Lists fold only here, after the facts have seen the place of each of their items.
        first = folded(first);
        if rest.is_empty() {
            return Ok(first);
        }
        let rest = rest
            .into_iter()
            .map(|(op, operand)| (op, folded(operand)))
            .collect();
        let span = first.span.to(self.last);
        Ok(Expr {
            span,
            kind: ExprKind::Compare(Box::new(first), rest),
        })
    }

    fn compare_op(&mut self) -> Read<Option<CompareOp>> {
        let op = match self.token {
            Token::Mark("==") => CompareOp::Eq,
            Token::Mark("!=") => CompareOp::Ne,
            Token::Mark("<") => CompareOp::Lt,
            Token::Mark("<=") => CompareOp::Le,
            Token::Mark(">") => CompareOp::Gt,
            Token::Mark(">=") => CompareOp::Ge,
            Token::Word("in") => CompareOp::In,
            Token::Word("not") => {
                self.advance()?;
                if !self.at_word("in") {
                    return self.unexpected("`in`");
                }
                CompareOp::NotIn
            }
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(op))
    }

    fn math(&mut self, level: usize) -> Read<Expr> {
        let Some(ops) = MATH.get(level) else {
            return self.operand();
        };
        let first = self.math(level + 1)?;
        let mut rest = Vec::new();
        while let Some((_, op)) = ops.iter().find(|(mark, _)| self.at_mark(mark)) {
            self.advance()?;
            rest.push((*op, self.math(level + 1)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let span = first.span.to(self.last);
        Ok(Expr {
            span,
            kind: ExprKind::Math(Box::new(first), rest),
        })
    }

    /// A value with its filters and tests, which also apply to a negative value as a whole.
    fn operand(&mut self) -> Read<Expr> {
        let value = self.signed()?;
        let mut links = Vec::new();
        loop {
            if self.at_mark("|") {
                links.extend(self.filter()?);
            } else if self.eat_word("is")? {
                links.extend(self.test()?);
            } else {
                return Ok(chained(value, links, self.last));
            }
        }
    }

    /// A value with its sign and lookups.
    pub(super) fn signed(&mut self) -> Read<Expr> {
        let span = self.span;
        if self.eat_mark("+")? {
            return self.deeper(Self::signed);
        }
        if self.eat_mark("-")? {
            let inner = self.deeper(Self::signed)?;
            let span = span.to(inner.span);
            let kind = match &inner.kind {
                ExprKind::Const(value) => number::negative(value).map(ExprKind::Const).ok(),
                _ => None,
            };
            let kind = kind.unwrap_or_else(|| ExprKind::Negative(Box::new(inner)));
            return Ok(Expr { span, kind });
        }
        let base = self.primary()?;
        let links = self.lookups(&base)?;
        self.note_read(&base, &links);
        Ok(chained(base, links, self.last))
    }

    /// Notes what is read from the scope: the name and the keys that are written out after it.
    fn note_read(&mut self, base: &Expr, links: &[Link]) {
        let ExprKind::Name(name) = &base.kind else {
            return;
        };
        if self.names.resolve(&name.text).1 {
            return;
        }
        let keys = links
            .iter()
            .map_while(|link| Some((link.span, static_key(&link.kind)?)));
        let mut path = vec![Arc::clone(&name.text)];
        let mut end = base.span.end();
        for (span, key) in keys {
            path.push(Arc::clone(key));
            end = span.end();
        }
        self.facts.reads.push(facts::Read {
            path,
            range: base.span.start()..end,
            maybe_local: !name.slots.is_empty(),
        });
    }

    fn lookups(&mut self, base: &Expr) -> Read<Vec<Link>> {
        let mut links = Vec::new();
        loop {
            let start = self.span;
            let kind = if self.eat_mark(".")? {
                self.after_dot(base, links.is_empty())?
            } else if self.eat_mark("[")? {
                Some(self.subscript()?)
            } else if self.at_mark("(") {
                return self.syntax(start, "only functions and methods can be called");
            } else {
                return Ok(links);
            };
            let span = start.to(self.last);
            links.extend(kind.map(|kind| Link { span, kind }));
        }
    }

    /// A key, an index or a method.
    fn after_dot(&mut self, base: &Expr, first: bool) -> Read<Option<LinkKind>> {
        let span = self.span;
        match self.token {
            Token::Int(index) => {
                self.advance()?;
                let kind = ExprKind::Const(Json::from(index));
                Ok(Some(LinkKind::Index(Expr { span, kind })))
            }
            Token::Word(name) => {
                self.advance()?;
                if !self.at_mark("(") {
                    return Ok(Some(LinkKind::Attribute(self.word(name))));
                }
                if first && is_loop(base) && matches!(name, "cycle" | "changed") {
                    let items = self.plain_arguments(name)?;
                    return Ok(Some(if name == "cycle" {
                        LinkKind::LoopCycle(items)
                    } else {
                        LinkKind::LoopChanged(items)
                    }));
                }
                let args = self.arguments()?;
                let Some(method) = Method::parse(name) else {
                    self.note_unknown(Word::Method, name, span);
                    return Ok(None);
                };
                let params = self.bind(name, method.signature(), args, span);
                Ok(Some(LinkKind::Method(method, params)))
            }
            _ => self.unexpected("a name or an index"),
        }
    }

    /// What follows `[`: an index or a slice.
    fn subscript(&mut self) -> Read<LinkKind> {
        let start = if self.at_mark(":") {
            None
        } else {
            Some(self.expression()?)
        };
        if let Some(index) = start {
            if self.eat_mark("]")? {
                return Ok(LinkKind::Index(index));
            }
            return self.slice(Some(index));
        }
        self.slice(None)
    }

    fn slice(&mut self, start: Option<Expr>) -> Read<LinkKind> {
        let mut slice = Slice {
            start,
            stop: None,
            step: None,
        };
        if !self.eat_mark(":")? {
            return self.unexpected("`]` or `:`");
        }
        if !self.at_mark(":") && !self.at_mark("]") {
            slice.stop = Some(self.expression()?);
        }
        if self.eat_mark(":")? && !self.at_mark("]") {
            slice.step = Some(self.expression()?);
        }
        self.expect_mark("]")?;
        Ok(LinkKind::Slice(Box::new(slice)))
    }

    fn test(&mut self) -> Read<Option<Link>> {
        let negated = self.eat_word("not")?;
        let span = self.span;
        let Token::Word(name) = self.token else {
            return self.unexpected("the name of a test");
        };
        self.advance()?;
        let test = Test::parse(name);
        let takes_one = test.is_none_or(|test| test.signature().required == 1);
        let args = if self.at_mark("(") {
            self.arguments()?
        } else if takes_one && self.starts_value() {
            // Jinja lets the only argument of a test stand without brackets.
            vec![self.only_argument()?]
        } else {
            Vec::new()
        };
        let Some(test) = test else {
            self.note_unknown(Word::Test, name, span);
            return Ok(None);
        };
        let params = self.bind(name, test.signature(), args, span);
        let span = span.to(self.last);
        Ok(Some(Link {
            span,
            kind: LinkKind::Test {
                test,
                params,
                negated,
            },
        }))
    }

    fn starts_value(&self) -> bool {
        match &self.token {
            Token::Word(word) => !RESERVED.contains(word),
            Token::Quoted(_) | Token::Int(_) | Token::Float(_) => true,
            Token::Mark(mark) => matches!(*mark, "[" | "{" | "-" | "+"),
            Token::Text(_)
            | Token::OpenOutput
            | Token::CloseOutput
            | Token::OpenBlock
            | Token::CloseBlock
            | Token::End => false,
        }
    }

    fn primary(&mut self) -> Read<Expr> {
        let span = self.span;
        let constant = match &self.token {
            Token::Word("true" | "True") => Json::Bool(true),
            Token::Word("false" | "False") => Json::Bool(false),
            Token::Word("none" | "None") => Json::Null,
            Token::Int(value) => Json::from(*value),
            // The lexer lets only finite numbers through.
            Token::Float(value) => Json::from_f64(*value).unwrap_or_default(),
            Token::Word(word) if !RESERVED.contains(word) => {
                let word = *word;
                return self.name_or_call(word);
            }
            Token::Quoted(_) => return self.quoted(),
            Token::Mark("(") => return self.brackets(),
            Token::Mark("[") => {
                self.advance()?;
                let items = self.items("]")?;
                return Ok(Expr {
                    span: span.to(self.last),
                    kind: ExprKind::List(items),
                });
            }
            Token::Mark("{") => return self.map(),
            _ => return self.unexpected("a value"),
        };
        self.advance()?;
        Ok(Expr {
            span,
            kind: ExprKind::Const(constant),
        })
    }

    /// Quoted texts that stand side by side are one.
    fn quoted(&mut self) -> Read<Expr> {
        let span = self.span;
        let mut text = String::new();
        while let Token::Quoted(part) = &self.token {
            text.push_str(part);
            self.advance()?;
        }
        let kind = ExprKind::Const(Json::from(text));
        Ok(Expr {
            span: span.to(self.last),
            kind,
        })
    }

    fn name_or_call(&mut self, word: &'t str) -> Read<Expr> {
        let span = self.span;
        self.advance()?;
        if !self.at_mark("(") {
            let (slots, _) = self.names.resolve(word);
            let kind = ExprKind::Name(Name {
                text: self.word(word),
                slots,
            });
            return Ok(Expr { span, kind });
        }
        let args = self.arguments()?;
        let whole = span.to(self.last);
        let Some(function) = Function::parse(word) else {
            self.note_unknown(Word::Function, word, span);
            return Ok(placeholder(whole));
        };
        let only_at_start = match function {
            Function::Random => Some("random"),
            Function::Uuid => Some("uuid"),
            Function::Now | Function::Range | Function::Dict | Function::Namespace => None,
        };
        if let Some(name) = only_at_start.filter(|_| self.place != Place::Start) {
            self.note(span, FaultKind::StartOnly { name });
        }
        let args = self.check_call(word, function, args, span);
        Ok(Expr {
            span: whole,
            kind: ExprKind::Call(function, args),
        })
    }

    /// A value in brackets, or a tuple, which is a list here.
    fn brackets(&mut self) -> Read<Expr> {
        let span = self.span;
        self.advance()?;
        if self.eat_mark(")")? {
            return Ok(Expr {
                span: span.to(self.last),
                kind: ExprKind::List(Vec::new()),
            });
        }
        let first = self.expression()?;
        if self.eat_mark(")")? {
            return Ok(Expr {
                span: span.to(self.last),
                ..first
            });
        }
        self.expect_mark(",")?;
        let mut items = vec![first];
        items.extend(self.items(")")?);
        Ok(Expr {
            span: span.to(self.last),
            kind: ExprKind::List(items),
        })
    }

    /// Values with commas between them, up to a closing mark.
    fn items(&mut self, close: &'static str) -> Read<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.eat_mark(close)? {
            items.push(self.expression()?);
            if !self.at_mark(close) {
                self.expect_mark(",")?;
            }
        }
        Ok(items)
    }

    fn map(&mut self) -> Read<Expr> {
        let span = self.span;
        self.advance()?;
        let mut entries = Vec::new();
        while !self.eat_mark("}")? {
            let key = self.expression()?;
            self.expect_mark(":")?;
            entries.push((key, self.expression()?));
            if !self.at_mark("}") {
                self.expect_mark(",")?;
            }
        }
        Ok(folded(Expr {
            span: span.to(self.last),
            kind: ExprKind::Map(entries),
        }))
    }
}

/// Whether this is the variable `loop` of a `for`.
fn is_loop(base: &Expr) -> bool {
    matches!(&base.kind, ExprKind::Name(name) if &*name.text == "loop" && !name.slots.is_empty())
}

/// A value with what follows it.
fn chained(value: Expr, links: Vec<Link>, last: Span) -> Expr {
    if links.is_empty() {
        return value;
    }
    let span = value.span.to(last);
    let kind = match value.kind {
        ExprKind::Chain(base, mut before) => {
            before.extend(links);
            ExprKind::Chain(base, before)
        }
        kind => ExprKind::Chain(
            Box::new(folded(Expr {
                span: value.span,
                kind,
            })),
            links,
        ),
    };
    Expr { span, kind }
}

/// A list or map of constants is a constant.
fn folded(expr: Expr) -> Expr {
    let constant = |expr: &Expr| match &expr.kind {
        ExprKind::Const(value) => Some(value.clone()),
        _ => None,
    };
    let value = match &expr.kind {
        ExprKind::List(items) => items
            .iter()
            .map(constant)
            .collect::<Option<Vec<_>>>()
            .map(Json::from),
        ExprKind::Map(entries) => entries
            .iter()
            .map(|(key, value)| match constant(key)? {
                Json::Str(key) => Some((key, constant(value)?)),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(Json::object),
        _ => None,
    };
    match value {
        Some(value) => Expr {
            span: expr.span,
            kind: ExprKind::Const(value),
        },
        None => expr,
    }
}
