//! Parsing of expressions, from the loosest operator to the tightest.

use std::sync::Arc;

use noetl_types::Json;

use super::{ParseResult, Parser, TemplatePlace};
use crate::template::error::{TemplateErrorKind, VocabularyKind};
use crate::template::eval::FunctionFn;
use crate::template::eval::vocabulary::{FUNCTIONS, METHODS, TESTS, find};
use crate::template::facts::{NameRead, static_key};
use crate::template::lexer::{ByteSpan, Token};
use crate::template::number;
use crate::template::program::{
    ChainLink, CompareOp, ConditionalExpr, Expr, ExprKind, LinkKind, MathOp, NameExpr, SliceExpr,
};

/// Keywords, which are never names.
pub(super) const RESERVED_WORDS: [&str; 7] = ["and", "or", "not", "if", "else", "in", "is"];

/// Arithmetic operators, from the loosest precedence to the tightest.
const MATH_OPERATORS: [&[(&str, MathOp)]; 4] = [
    &[("+", MathOp::Add), ("-", MathOp::Sub)],
    &[("~", MathOp::Concat)],
    &[("*", MathOp::Mul), ("/", MathOp::Div), ("//", MathOp::FloorDiv), ("%", MathOp::Rem)],
    &[("**", MathOp::Pow)],
];

impl<'t> Parser<'t, '_> {
    /// Parses `a if b else c`, or anything tighter.
    pub(super) fn parse_expression(&mut self) -> ParseResult<Expr> {
        self.with_nesting(Self::parse_conditional)
    }

    fn parse_conditional(&mut self) -> ParseResult<Expr> {
        let yes = self.parse_or()?;
        if !self.eat_word("if")? {
            return Ok(yes);
        }
        let test = self.parse_or()?;
        let no = if self.eat_word("else")? { Some(self.parse_expression()?) } else { None };
        let choice = ConditionalExpr { test, yes, no };
        Ok(self.expr_from(choice.yes.span, ExprKind::Conditional(Box::new(choice))))
    }

    /// Parses one value, or a list of values separated by commas.
    pub(super) fn parse_expression_or_list(&mut self) -> ParseResult<Expr> {
        let first = self.parse_expression()?;
        if !self.at_mark(",") {
            return Ok(first);
        }
        let span = first.span;
        let mut items = vec![first];
        while self.eat_mark(",")? && !matches!(self.token, Token::CloseBlock) {
            items.push(self.parse_expression()?);
        }
        Ok(fold_constants(self.expr_from(span, ExprKind::List(items))))
    }

    /// Parses `a or b`, in places where a following `if` belongs to something else.
    pub(super) fn parse_or(&mut self) -> ParseResult<Expr> {
        self.parse_operands("or", Self::parse_and, ExprKind::Or)
    }

    fn parse_and(&mut self) -> ParseResult<Expr> {
        self.parse_operands("and", Self::parse_not, ExprKind::And)
    }

    /// Parses one operand, or several with a word between them.
    fn parse_operands(
        &mut self,
        word: &str,
        parse: fn(&mut Self) -> ParseResult<Expr>,
        combine: fn(Vec<Expr>) -> ExprKind,
    ) -> ParseResult<Expr> {
        let first = parse(self)?;
        if !self.at_word(word) {
            return Ok(first);
        }
        let span = first.span;
        let mut operands = vec![first];
        while self.eat_word(word)? {
            operands.push(parse(self)?);
        }
        Ok(self.expr_from(span, combine(operands)))
    }

    fn parse_not(&mut self) -> ParseResult<Expr> {
        let span = self.span;
        if !self.eat_word("not")? {
            return self.parse_comparison();
        }
        let inner = self.with_nesting(Self::parse_not)?;
        Ok(Expr { span: span.extend_to(inner.span), kind: ExprKind::Not(Box::new(inner)) })
    }

    fn parse_comparison(&mut self) -> ParseResult<Expr> {
        let mut first = self.parse_math(0)?;
        let mut rest: Vec<(CompareOp, Expr)> = Vec::new();
        while let Some(op) = self.parse_compare_op()? {
            let right = self.parse_math(0)?;
            let left = rest.last().map_or(&first, |(_, left)| left);
            self.facts.record_comparison(left, op, &right);
            rest.push((op, right));
        }
        // Lists are folded only here, after the facts have recorded the location of each item.
        first = fold_constants(first);
        if rest.is_empty() {
            return Ok(first);
        }
        let rest = rest.into_iter().map(|(op, operand)| (op, fold_constants(operand))).collect();
        Ok(self.expr_from(first.span, ExprKind::Compare(Box::new(first), rest)))
    }

    fn parse_compare_op(&mut self) -> ParseResult<Option<CompareOp>> {
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
                    return self.unexpected_token("`in`");
                }
                CompareOp::NotIn
            }
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(op))
    }

    fn parse_math(&mut self, level: usize) -> ParseResult<Expr> {
        let Some(ops) = MATH_OPERATORS.get(level) else {
            return self.parse_operand();
        };
        let first = self.parse_math(level + 1)?;
        let mut rest = Vec::new();
        while let Some((_, op)) = ops.iter().find(|(mark, _)| self.at_mark(mark)) {
            self.advance()?;
            rest.push((*op, self.parse_math(level + 1)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(self.expr_from(first.span, ExprKind::Math(Box::new(first), rest)))
    }

    /// Parses a value with its filters and tests, which apply to a negated value as a whole.
    fn parse_operand(&mut self) -> ParseResult<Expr> {
        let value = self.parse_unary()?;
        let mut links = Vec::new();
        loop {
            if self.at_mark("|") {
                links.extend(self.parse_filter()?);
            } else if self.eat_word("is")? {
                links.extend(self.parse_test()?);
            } else {
                self.facts.record_optional(&value, &links);
                return Ok(append_links(value, links, self.previous_span));
            }
        }
    }

    /// Parses a value with its sign and lookups.
    pub(super) fn parse_unary(&mut self) -> ParseResult<Expr> {
        let span = self.span;
        if self.eat_mark("+")? {
            return self.with_nesting(Self::parse_unary);
        }
        if self.eat_mark("-")? {
            let inner = self.with_nesting(Self::parse_unary)?;
            let span = span.extend_to(inner.span);
            let kind = match &inner.kind {
                ExprKind::Const(value) => number::negate_number(value).map(ExprKind::Const).ok(),
                _ => None,
            };
            let kind = kind.unwrap_or_else(|| ExprKind::Negate(Box::new(inner)));
            return Ok(Expr { span, kind });
        }
        let base = self.parse_primary()?;
        let links = self.parse_lookups(&base)?;
        self.record_read(&base, &links);
        Ok(append_links(base, links, self.previous_span))
    }

    /// Records a read from the environment: the name and the constant keys after it.
    fn record_read(&mut self, base: &Expr, links: &[ChainLink]) {
        let ExprKind::Name(name) = &base.kind else {
            return;
        };
        if self.names.resolve_variable(&name.text).1 {
            return;
        }
        let keys = links.iter().map_while(|link| Some((link.span, static_key(&link.kind)?)));
        let mut path = vec![Arc::clone(&name.text)];
        let mut end = base.span.end();
        for (span, key) in keys {
            path.push(Arc::clone(key));
            end = span.end();
        }
        self.facts.reads.push(NameRead {
            path,
            range: base.span.start()..end,
            maybe_local: !name.slots.is_empty(),
        });
    }

    fn parse_lookups(&mut self, base: &Expr) -> ParseResult<Vec<ChainLink>> {
        let mut links = Vec::new();
        loop {
            let start = self.span;
            let kind = if self.eat_mark(".")? {
                self.parse_after_dot(base, links.is_empty())?
            } else if self.eat_mark("[")? {
                Some(self.parse_subscript()?)
            } else if self.at_mark("(") {
                return self.syntax_error(start, "only functions and methods can be called");
            } else {
                return Ok(links);
            };
            let span = start.extend_to(self.previous_span);
            links.extend(kind.map(|kind| ChainLink { span, kind }));
        }
    }

    /// Parses a key, an index or a method call.
    fn parse_after_dot(&mut self, base: &Expr, is_first: bool) -> ParseResult<Option<LinkKind>> {
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
                    return Ok(Some(LinkKind::Attribute(self.intern_word(name))));
                }
                if is_first && is_loop_variable(base) && matches!(name, "cycle" | "changed") {
                    let items = self.parse_positional_arguments(name)?;
                    return Ok(Some(if name == "cycle" {
                        LinkKind::LoopCycle(items)
                    } else {
                        LinkKind::LoopChanged(items)
                    }));
                }
                let args = self.parse_arguments()?;
                let Some(method) = find(METHODS, name) else {
                    self.record_unknown(VocabularyKind::Method, name, span);
                    return Ok(None);
                };
                let params = self.bind_arguments(name, method.signature, args, span);
                Ok(Some(LinkKind::Method(method, params)))
            }
            _ => self.unexpected_token("a name or an index"),
        }
    }

    /// Parses the rest of `[`: an index or a slice.
    fn parse_subscript(&mut self) -> ParseResult<LinkKind> {
        let mut slice = SliceExpr { start: None, stop: None, step: None };
        if !self.at_mark(":") {
            let index = self.parse_expression()?;
            if self.eat_mark("]")? {
                return Ok(LinkKind::Index(index));
            }
            slice.start = Some(index);
        }
        if !self.eat_mark(":")? {
            return self.unexpected_token("`]` or `:`");
        }
        if !self.at_mark(":") && !self.at_mark("]") {
            slice.stop = Some(self.parse_expression()?);
        }
        if self.eat_mark(":")? && !self.at_mark("]") {
            slice.step = Some(self.parse_expression()?);
        }
        self.expect_mark("]")?;
        Ok(LinkKind::Slice(Box::new(slice)))
    }

    fn parse_test(&mut self) -> ParseResult<Option<ChainLink>> {
        let negated = self.eat_word("not")?;
        let span = self.span;
        let Token::Word(name) = self.token else {
            return self.unexpected_token("the name of a test");
        };
        self.advance()?;
        let test = find(TESTS, name);
        let takes_one = test.is_none_or(|test| test.signature.required == 1);
        let args = if self.at_mark("(") {
            self.parse_arguments()?
        } else if takes_one && self.is_at_value() {
            // Jinja allows the only argument of a test without parentheses.
            vec![self.parse_bare_argument()?]
        } else {
            Vec::new()
        };
        let Some(test) = test else {
            self.record_unknown(VocabularyKind::Test, name, span);
            return Ok(None);
        };
        let params = self.bind_arguments(name, test.signature, args, span);
        let span = span.extend_to(self.previous_span);
        Ok(Some(ChainLink { span, kind: LinkKind::Test { test, params, negated } }))
    }

    fn is_at_value(&self) -> bool {
        match &self.token {
            Token::Word(word) => !RESERVED_WORDS.contains(word),
            Token::Quoted(_) | Token::Int(_) | Token::Float(_) => true,
            Token::Mark(mark) => matches!(*mark, "[" | "{" | "-" | "+"),
            _ => false,
        }
    }

    fn parse_primary(&mut self) -> ParseResult<Expr> {
        let span = self.span;
        let constant = match &self.token {
            Token::Word("true" | "True") => Json::Bool(true),
            Token::Word("false" | "False") => Json::Bool(false),
            Token::Word("none" | "None") => Json::Null,
            Token::Int(value) => Json::from(*value),
            // The lexer accepts only finite numbers.
            Token::Float(value) => Json::from_f64(*value).unwrap_or_default(),
            Token::Word(word) if !RESERVED_WORDS.contains(word) => {
                let word = *word;
                return self.parse_name_or_call(word);
            }
            Token::Quoted(_) => return self.parse_quoted(),
            Token::Mark("(") => return self.parse_parenthesized(),
            Token::Mark("[") => {
                self.advance()?;
                let items = self.parse_items("]")?;
                return Ok(self.expr_from(span, ExprKind::List(items)));
            }
            Token::Mark("{") => return self.parse_map(),
            _ => return self.unexpected_token("a value"),
        };
        self.advance()?;
        Ok(Expr { span, kind: ExprKind::Const(constant) })
    }

    /// Parses adjacent quoted texts as one text.
    fn parse_quoted(&mut self) -> ParseResult<Expr> {
        let span = self.span;
        let mut text = String::new();
        while let Token::Quoted(part) = &self.token {
            text.push_str(part);
            self.advance()?;
        }
        Ok(self.expr_from(span, ExprKind::Const(Json::from(text))))
    }

    fn parse_name_or_call(&mut self, word: &'t str) -> ParseResult<Expr> {
        let span = self.span;
        self.advance()?;
        if !self.at_mark("(") {
            let (slots, _) = self.names.resolve_variable(word);
            let kind = ExprKind::Name(NameExpr { text: self.intern_word(word), slots });
            return Ok(Expr { span, kind });
        }
        let args = self.parse_arguments()?;
        let Some(function) = find(FUNCTIONS, word) else {
            self.record_unknown(VocabularyKind::Function, word, span);
            // A placeholder: the error keeps the program from being used.
            return Ok(self.expr_from(span, ExprKind::Const(Json::Null)));
        };
        if matches!(function.apply, FunctionFn::StartInput(_)) && self.place != TemplatePlace::Start
        {
            self.record_error(span, TemplateErrorKind::StartOnly { name: function.name() });
        }
        let args = self.check_call_arguments(function, args, span);
        Ok(self.expr_from(span, ExprKind::Call(function, args)))
    }

    /// Parses a value in parentheses, or a tuple, which becomes a list.
    fn parse_parenthesized(&mut self) -> ParseResult<Expr> {
        let span = self.span;
        self.advance()?;
        if self.eat_mark(")")? {
            return Ok(self.expr_from(span, ExprKind::List(Vec::new())));
        }
        let first = self.parse_expression()?;
        if self.eat_mark(")")? {
            return Ok(self.expr_from(span, first.kind));
        }
        self.expect_mark(",")?;
        let mut items = vec![first];
        items.extend(self.parse_items(")")?);
        Ok(self.expr_from(span, ExprKind::List(items)))
    }

    /// Parses values separated by commas, up to a closing mark.
    fn parse_items(&mut self, close: &'static str) -> ParseResult<Vec<Expr>> {
        let mut items = Vec::new();
        while !self.eat_mark(close)? {
            items.push(self.parse_expression()?);
            if !self.at_mark(close) {
                self.expect_mark(",")?;
            }
        }
        Ok(items)
    }

    fn parse_map(&mut self) -> ParseResult<Expr> {
        let span = self.span;
        self.advance()?;
        let mut entries = Vec::new();
        while !self.eat_mark("}")? {
            let key = self.parse_expression()?;
            self.expect_mark(":")?;
            entries.push((key, self.parse_expression()?));
            if !self.at_mark("}") {
                self.expect_mark(",")?;
            }
        }
        Ok(fold_constants(self.expr_from(span, ExprKind::Map(entries))))
    }
}

/// Returns true if the expression is the variable `loop` of a `for`.
fn is_loop_variable(base: &Expr) -> bool {
    matches!(&base.kind, ExprKind::Name(name) if &*name.text == "loop" && !name.slots.is_empty())
}

/// Appends links to a value.
fn append_links(value: Expr, links: Vec<ChainLink>, last: ByteSpan) -> Expr {
    if links.is_empty() {
        return value;
    }
    let span = value.span.extend_to(last);
    let kind = match value.kind {
        ExprKind::Chain(base, mut chain) => {
            chain.extend(links);
            ExprKind::Chain(base, chain)
        }
        kind => ExprKind::Chain(Box::new(fold_constants(Expr { span: value.span, kind })), links),
    };
    Expr { span, kind }
}

/// Folds a list or map of constants into a constant.
fn fold_constants(expr: Expr) -> Expr {
    let constant = |expr: &Expr| match &expr.kind {
        ExprKind::Const(value) => Some(value.clone()),
        _ => None,
    };
    let value = match &expr.kind {
        ExprKind::List(items) => {
            items.iter().map(constant).collect::<Option<Vec<_>>>().map(Json::from)
        }
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
        Some(value) => Expr { span: expr.span, kind: ExprKind::Const(value) },
        None => expr,
    }
}
