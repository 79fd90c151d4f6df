//! Parsing of arguments, and of the filters, tests and functions that take them.

use std::sync::Arc;

use noetl_types::Json;

use super::{ParseResult, Parser};
use crate::template::error::{TemplateErrorKind, VocabularyKind};
use crate::template::eval::FunctionFn;
use crate::template::eval::vocabulary::{
    CallSignature, FILTERS, Function, ITEM_FILTERS, TESTS, Test, find,
};
use crate::template::lexer::{ByteSpan, Token};
use crate::template::program::{CallArg, ChainLink, Expr, ExprKind, ItemFilter, LinkKind, Params};

/// An argument as written, with its location.
pub(super) struct SpannedArg {
    arg: CallArg,
    span: ByteSpan,
}

impl Parser<'_, '_> {
    /// Parses `(a, b, name=c)`.
    pub(super) fn parse_arguments(&mut self) -> ParseResult<Vec<SpannedArg>> {
        self.expect_mark("(")?;
        let mut args = Vec::new();
        while !self.eat_mark(")")? {
            args.push(self.parse_argument()?);
            if !self.at_mark(")") {
                self.expect_mark(",")?;
            }
        }
        Ok(args)
    }

    fn parse_argument(&mut self) -> ParseResult<SpannedArg> {
        let span = self.span;
        if self.eat_mark("**")? {
            return Ok(SpannedArg { arg: CallArg::SpreadNamed(self.parse_expression()?), span });
        }
        if self.eat_mark("*")? {
            return Ok(SpannedArg { arg: CallArg::Spread(self.parse_expression()?), span });
        }
        let reads = self.facts.reads.len();
        let value = self.parse_expression()?;
        if let ExprKind::Name(name) = &value.kind
            && self.at_mark("=")
        {
            // The parsed name is not a read but the name of a parameter.
            self.facts.reads.truncate(reads);
            self.advance()?;
            let name = Arc::clone(&name.text);
            return Ok(SpannedArg { arg: CallArg::Named(name, self.parse_expression()?), span });
        }
        Ok(SpannedArg { arg: CallArg::Positional(value), span })
    }

    /// Parses the argument of a test that is written without parentheses.
    pub(super) fn parse_bare_argument(&mut self) -> ParseResult<SpannedArg> {
        let span = self.span;
        Ok(SpannedArg { arg: CallArg::Positional(self.parse_unary()?), span })
    }

    /// Parses arguments that can only be given by position.
    pub(super) fn parse_positional_arguments(&mut self, name: &str) -> ParseResult<Vec<Expr>> {
        let args = self.parse_arguments()?;
        let mut values = Vec::new();
        for SpannedArg { arg, span } in args {
            if let CallArg::Positional(value) = arg {
                values.push(value);
            } else {
                let reason = format!("`{name}` takes only positional arguments");
                self.record_call_error(span, reason);
            }
        }
        Ok(values)
    }

    /// Assigns arguments to the parameters of a signature.
    pub(super) fn bind_arguments(
        &mut self,
        name: &str,
        signature: CallSignature,
        args: Vec<SpannedArg>,
        call_span: ByteSpan,
    ) -> Params {
        let mut params: Params = signature.params.iter().map(|_| None).collect();
        let mut position = 0;
        for SpannedArg { arg, span } in args {
            let (index, value) = match arg {
                CallArg::Positional(value) => {
                    position += 1;
                    (Some(position - 1), value)
                }
                CallArg::Named(param, value) => {
                    (signature.params.iter().position(|name| **name == *param), value)
                }
                CallArg::Spread(value) | CallArg::SpreadNamed(value) => (None, value),
            };
            match index.and_then(|index| params.get_mut(index)) {
                Some(param @ None) => *param = Some(value),
                Some(Some(_)) => {
                    self.record_call_error(span, format!("argument of `{name}` is given twice"));
                }
                None => {
                    let parameters = match signature.params {
                        [] => "no argument".to_owned(),
                        params => params.join(", "),
                    };
                    let reason = format!("unexpected argument; `{name}` takes {parameters}");
                    self.record_call_error(span, reason);
                }
            }
        }
        if let Some(missing) = params.iter().take(signature.required).position(Option::is_none) {
            let param = signature.params[missing];
            self.record_call_error(call_span, format!("`{name}` needs the argument `{param}`"));
        }
        params
    }

    fn record_call_error(&mut self, span: ByteSpan, reason: String) {
        self.record_error(span, TemplateErrorKind::Syntax { reason });
    }

    /// Checks the arguments of a function and puts them in order.
    pub(super) fn check_call_arguments(
        &mut self,
        function: &Function,
        args: Vec<SpannedArg>,
        call_span: ByteSpan,
    ) -> Vec<CallArg> {
        if let FunctionFn::Entries(_) = function.apply {
            return args.into_iter().map(|arg| arg.arg).collect();
        }
        let name = function.name();
        let params = self.bind_arguments(name, function.signature, args, call_span);
        let given_count = params.iter().flatten().count();
        let args: Vec<_> =
            params.into_iter().map_while(|value| value.map(CallArg::Positional)).collect();
        if args.len() < given_count {
            let reason = format!("`{name}` is missing an argument before a later one");
            self.record_call_error(call_span, reason);
        }
        args
    }

    /// Parses `| name(…)`.
    pub(super) fn parse_filter(&mut self) -> ParseResult<Option<ChainLink>> {
        self.expect_mark("|")?;
        let span = self.span;
        let Token::Word(name) = self.token else {
            return self.unexpected_token("the name of a filter");
        };
        self.advance()?;
        let args = if self.at_mark("(") { self.parse_arguments()? } else { Vec::new() };
        let kind = if ITEM_FILTERS.contains(&name) {
            self.bind_item_filter(name, args, span)
                .map(|item_filter| LinkKind::ItemFilter(Box::new(item_filter)))
        } else if let Some(filter) = find(FILTERS, name) {
            let params = self.bind_arguments(name, filter.signature, args, span);
            Some(LinkKind::Filter(filter, params))
        } else {
            self.record_unknown(VocabularyKind::Filter, name, span);
            None
        };
        Ok(kind.map(|kind| ChainLink { span: span.extend_to(self.previous_span), kind }))
    }

    fn bind_item_filter(
        &mut self,
        name: &str,
        args: Vec<SpannedArg>,
        call_span: ByteSpan,
    ) -> Option<ItemFilter> {
        let mut args = args.into_iter();
        if name == "map" {
            return self.bind_map_filter(args, call_span);
        }
        let mut attribute = None;
        if name.ends_with("attr") {
            let Some(SpannedArg { arg: CallArg::Positional(path), .. }) = args.next() else {
                self.record_call_error(call_span, format!("`{name}` needs an attribute"));
                return None;
            };
            attribute = Some(path);
        }
        let test = match args.next() {
            Some(test) => Some(self.bind_item_test(name, &test, args.collect(), call_span)?),
            None => None,
        };
        Some(ItemFilter::Keep { attribute, test, when: name.starts_with("select") })
    }

    /// Binds the arguments of `map`: an attribute, or a filter with its arguments.
    fn bind_map_filter(
        &mut self,
        mut args: std::vec::IntoIter<SpannedArg>,
        call_span: ByteSpan,
    ) -> Option<ItemFilter> {
        let has_attribute = args
            .as_slice()
            .iter()
            .any(|arg| matches!(&arg.arg, CallArg::Named(name, _) if &**name == "attribute"));
        if has_attribute {
            let signature = CallSignature { required: 1, params: &["attribute", "default"] };
            let params = self.bind_arguments("map", signature, args.collect(), call_span);
            let mut params = params.into_iter();
            let path = params.next().flatten()?;
            return Some(ItemFilter::MapAttribute { path, default: params.next().flatten() });
        }
        let Some((filter_name, span)) = args.next().and_then(|arg| quoted_name(&arg)) else {
            let reason = "`map` needs the name of a filter or `attribute=`";
            self.record_call_error(call_span, reason.to_owned());
            return None;
        };
        let Some(filter) = find(FILTERS, &filter_name) else {
            if ITEM_FILTERS.contains(&&*filter_name) {
                self.record_call_error(span, format!("`map` cannot apply `{filter_name}`"));
            } else {
                self.record_unknown(VocabularyKind::Filter, &filter_name, span);
            }
            return None;
        };
        let params = self.bind_arguments(&filter_name, filter.signature, args.collect(), call_span);
        Some(ItemFilter::MapFilter(filter, params))
    }

    /// Binds the test of a selecting filter with its arguments.
    fn bind_item_test(
        &mut self,
        name: &str,
        test: &SpannedArg,
        args: Vec<SpannedArg>,
        call_span: ByteSpan,
    ) -> Option<(&'static Test, Params)> {
        let Some((test_name, span)) = quoted_name(test) else {
            let reason = format!("`{name}` needs the name of a test in quotes");
            self.record_call_error(test.span, reason);
            return None;
        };
        let Some(test) = find(TESTS, &test_name) else {
            self.record_unknown(VocabularyKind::Test, &test_name, span);
            return None;
        };
        Some((test, self.bind_arguments(&test_name, test.signature, args, call_span)))
    }
}

/// A name that is given as a quoted text, with its location without the quotes.
fn quoted_name(arg: &SpannedArg) -> Option<(Arc<str>, ByteSpan)> {
    let CallArg::Positional(Expr { span, kind: ExprKind::Const(Json::Str(name)) }) = &arg.arg
    else {
        return None;
    };
    let start = span.start() + 1;
    let inner = ByteSpan::new(start, (span.end() - 1).max(start));
    Some((Arc::clone(name), inner))
}
