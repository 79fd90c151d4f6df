//! Parsing of arguments, and of the filters, tests and functions that take them.

use std::sync::Arc;

use noetl_types::Json;

use super::state::{ParseResult, Parser};
use crate::template::lexer::{ByteSpan, Token};
use crate::template::program::{CallArg, ChainLink, Expr, ExprKind, ItemFilter, LinkKind, Params};
use crate::template::template_error::{TemplateErrorKind, VocabularyKind};
use crate::template::vocabulary::{CallSignature, Filter, Function, ItemFilterName, Test};

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
            match arg {
                CallArg::Positional(value) => values.push(value),
                CallArg::Named(..) | CallArg::Spread(_) | CallArg::SpreadNamed(_) => {
                    self.record_call_error(
                        span,
                        format!("`{name}` takes only positional arguments"),
                    );
                }
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
                    self.record_call_error(
                        span,
                        format!("unexpected argument; `{name}` takes {parameters}"),
                    );
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
        name: &str,
        function: Function,
        args: Vec<SpannedArg>,
        call_span: ByteSpan,
    ) -> Vec<CallArg> {
        match function {
            // These accept arguments of any name.
            Function::Dict | Function::Namespace => args.into_iter().map(|arg| arg.arg).collect(),
            Function::Now | Function::Range | Function::Random | Function::Uuid => {
                let params = self.bind_arguments(name, function.signature(), args, call_span);
                let given_count = params.iter().flatten().count();
                let args: Vec<_> =
                    params.into_iter().map_while(|value| value.map(CallArg::Positional)).collect();
                if args.len() < given_count {
                    self.record_call_error(
                        call_span,
                        format!("`{name}` is missing an argument before a later one"),
                    );
                }
                args
            }
        }
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
        let kind = if let Some(item_filter) = ItemFilterName::parse(name) {
            self.bind_item_filter(name, item_filter, args, span)
                .map(|item_filter| LinkKind::ItemFilter(Box::new(item_filter)))
        } else if let Some(filter) = Filter::parse(name) {
            Some(LinkKind::Filter(
                filter,
                self.bind_arguments(name, filter.signature(), args, span),
            ))
        } else {
            self.record_unknown(VocabularyKind::Filter, name, span);
            None
        };
        Ok(kind.map(|kind| ChainLink { span: span.extend_to(self.previous_span), kind }))
    }

    fn bind_item_filter(
        &mut self,
        name: &str,
        item_filter: ItemFilterName,
        args: Vec<SpannedArg>,
        call_span: ByteSpan,
    ) -> Option<ItemFilter> {
        let mut args = args.into_iter();
        match item_filter {
            ItemFilterName::Map => self.bind_map_filter(name, args, call_span),
            ItemFilterName::Select | ItemFilterName::Reject => {
                let test = self.bind_item_test(name, args, call_span)?;
                let when = item_filter == ItemFilterName::Select;
                Some(ItemFilter::Keep { attribute: None, test, when })
            }
            ItemFilterName::SelectAttr | ItemFilterName::RejectAttr => {
                let Some(SpannedArg { arg: CallArg::Positional(attribute), .. }) = args.next()
                else {
                    self.record_call_error(call_span, format!("`{name}` needs an attribute"));
                    return None;
                };
                let test = self.bind_item_test(name, args, call_span)?;
                let when = item_filter == ItemFilterName::SelectAttr;
                Some(ItemFilter::Keep { attribute: Some(attribute), test, when })
            }
        }
    }

    /// Binds the arguments of `map`: an attribute, or a filter with its arguments.
    fn bind_map_filter(
        &mut self,
        name: &str,
        mut args: std::vec::IntoIter<SpannedArg>,
        call_span: ByteSpan,
    ) -> Option<ItemFilter> {
        let has_attribute = args
            .as_slice()
            .iter()
            .any(|arg| matches!(&arg.arg, CallArg::Named(name, _) if &**name == "attribute"));
        if has_attribute {
            let signature = CallSignature { required: 1, params: &["attribute", "default"] };
            let mut params =
                self.bind_arguments(name, signature, args.collect(), call_span).into_iter();
            let path = params.next().flatten()?;
            return Some(ItemFilter::MapAttribute { path, default: params.next().flatten() });
        }
        let Some((filter_name, span)) = args.next().and_then(|arg| quoted_name(&arg)) else {
            self.record_call_error(
                call_span,
                format!("`{name}` needs the name of a filter or `attribute=`"),
            );
            return None;
        };
        let Some(filter) = Filter::parse(&filter_name) else {
            if ItemFilterName::parse(&filter_name).is_some() {
                self.record_call_error(span, format!("`{name}` cannot apply `{filter_name}`"));
            } else {
                self.record_unknown(VocabularyKind::Filter, &filter_name, span);
            }
            return None;
        };
        let params =
            self.bind_arguments(&filter_name, filter.signature(), args.collect(), call_span);
        Some(ItemFilter::MapFilter(filter, params))
    }

    /// Binds the test of a selecting filter with its arguments. `Some(None)` means that there is no
    /// test and that items are kept if they are true.
    #[expect(
        clippy::option_option,
        reason = "the outer None is an error, the inner None is the absence of a test"
    )]
    fn bind_item_test(
        &mut self,
        name: &str,
        mut args: std::vec::IntoIter<SpannedArg>,
        call_span: ByteSpan,
    ) -> Option<Option<(Test, Params)>> {
        let Some(arg) = args.next() else {
            return Some(None);
        };
        let Some((test_name, span)) = quoted_name(&arg) else {
            self.record_call_error(
                arg.span,
                format!("`{name}` needs the name of a test in quotes"),
            );
            return None;
        };
        let Some(test) = Test::parse(&test_name) else {
            self.record_unknown(VocabularyKind::Test, &test_name, span);
            return None;
        };
        let params = self.bind_arguments(&test_name, test.signature(), args.collect(), call_span);
        Some(Some((test, params)))
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
