//! Arguments, and the filters, tests and functions that they belong to.

use std::sync::Arc;

use noetl_types::Json;

use super::reader::{Parser, Read};
use crate::template::fault::{FaultKind, Word};
use crate::template::lexer::{Span, Token};
use crate::template::program::{Arg, Each as EachLink, Expr, ExprKind, Link, LinkKind, Params};
use crate::template::vocabulary::{Each, Filter, Function, Signature, Test};

/// An argument as written, and where.
pub(super) struct Given {
    arg: Arg,
    span: Span,
}

impl Parser<'_, '_> {
    /// Reads `(a, b, name=c)`.
    pub(super) fn arguments(&mut self) -> Read<Vec<Given>> {
        self.expect_mark("(")?;
        let mut args = Vec::new();
        while !self.eat_mark(")")? {
            args.push(self.argument()?);
            if !self.at_mark(")") {
                self.expect_mark(",")?;
            }
        }
        Ok(args)
    }

    fn argument(&mut self) -> Read<Given> {
        let span = self.span;
        if self.eat_mark("**")? {
            return Ok(Given {
                arg: Arg::SpreadNamed(self.expression()?),
                span,
            });
        }
        if self.eat_mark("*")? {
            return Ok(Given {
                arg: Arg::Spread(self.expression()?),
                span,
            });
        }
        let reads = self.facts.reads.len();
        let value = self.expression()?;
        if let ExprKind::Name(name) = &value.kind
            && self.at_mark("=")
        {
            // What looked like a read is the name of a parameter.
            self.facts.reads.truncate(reads);
            self.advance()?;
            let name = Arc::clone(&name.text);
            return Ok(Given {
                arg: Arg::Named(name, self.expression()?),
                span,
            });
        }
        Ok(Given {
            arg: Arg::Positional(value),
            span,
        })
    }

    /// The argument of a test that has no brackets.
    pub(super) fn only_argument(&mut self) -> Read<Given> {
        let span = self.span;
        Ok(Given {
            arg: Arg::Positional(self.signed()?),
            span,
        })
    }

    /// Arguments that can only be given by position.
    pub(super) fn plain_arguments(&mut self, name: &str) -> Read<Vec<Expr>> {
        let args = self.arguments()?;
        let mut values = Vec::new();
        for Given { arg, span } in args {
            match arg {
                Arg::Positional(value) => values.push(value),
                Arg::Named(..) | Arg::Spread(_) | Arg::SpreadNamed(_) => {
                    self.note_call(span, format!("`{name}` takes values only"));
                }
            }
        }
        Ok(values)
    }

    /// Gives every parameter of a word its argument.
    pub(super) fn bind(
        &mut self,
        name: &str,
        signature: Signature,
        args: Vec<Given>,
        at: Span,
    ) -> Params {
        let mut params: Params = signature.params.iter().map(|_| None).collect();
        let mut position = 0;
        for Given { arg, span } in args {
            let (index, value) = match arg {
                Arg::Positional(value) => {
                    position += 1;
                    (Some(position - 1), value)
                }
                Arg::Named(param, value) => (
                    signature.params.iter().position(|known| **known == *param),
                    value,
                ),
                Arg::Spread(value) | Arg::SpreadNamed(value) => (None, value),
            };
            match index.and_then(|index| params.get_mut(index)) {
                Some(param @ None) => *param = Some(value),
                Some(Some(_)) => {
                    self.note_call(span, format!("argument of `{name}` is given twice"));
                }
                None => {
                    let takes = match signature.params {
                        [] => "no argument".to_owned(),
                        params => params.join(", "),
                    };
                    self.note_call(span, format!("unexpected argument; `{name}` takes {takes}"));
                }
            }
        }
        if let Some(missing) = params
            .iter()
            .take(signature.required)
            .position(Option::is_none)
        {
            let param = signature.params[missing];
            self.note_call(at, format!("`{name}` needs the argument `{param}`"));
        }
        params
    }

    fn note_call(&mut self, span: Span, reason: String) {
        self.note(span, FaultKind::Syntax { reason });
    }

    /// Checks the arguments of a function and puts them in order.
    pub(super) fn check_call(
        &mut self,
        name: &str,
        function: Function,
        args: Vec<Given>,
        at: Span,
    ) -> Vec<Arg> {
        match function {
            // These take any names.
            Function::Dict | Function::Namespace => {
                args.into_iter().map(|given| given.arg).collect()
            }
            Function::Now | Function::Range | Function::Random | Function::Uuid => {
                let params = self.bind(name, function.signature(), args, at);
                let given = params.iter().flatten().count();
                let args: Vec<_> = params
                    .into_iter()
                    .map_while(|value| value.map(Arg::Positional))
                    .collect();
                if args.len() < given {
                    self.note_call(at, format!("`{name}` lacks an argument before another"));
                }
                args
            }
        }
    }

    /// Reads `| name(…)`.
    pub(super) fn filter(&mut self) -> Read<Option<Link>> {
        self.expect_mark("|")?;
        let span = self.span;
        let Token::Word(name) = self.token else {
            return self.unexpected("the name of a filter");
        };
        self.advance()?;
        let args = if self.at_mark("(") {
            self.arguments()?
        } else {
            Vec::new()
        };
        let kind = if let Some(each) = Each::parse(name) {
            self.each(name, each, args, span)
                .map(|each| LinkKind::Each(Box::new(each)))
        } else if let Some(filter) = Filter::parse(name) {
            Some(LinkKind::Filter(
                filter,
                self.bind(name, filter.signature(), args, span),
            ))
        } else {
            self.note_unknown(Word::Filter, name, span);
            None
        };
        Ok(kind.map(|kind| Link {
            span: span.to(self.last),
            kind,
        }))
    }

    fn each(&mut self, name: &str, each: Each, args: Vec<Given>, at: Span) -> Option<EachLink> {
        let mut args = args.into_iter();
        match each {
            Each::Map => {
                let attribute = args.as_slice().iter().any(
                    |given| matches!(&given.arg, Arg::Named(name, _) if &**name == "attribute"),
                );
                if attribute {
                    let signature = Signature {
                        required: 1,
                        params: &["attribute", "default"],
                    };
                    let mut params = self.bind(name, signature, args.collect(), at).into_iter();
                    let path = params.next().flatten()?;
                    return Some(EachLink::MapAttribute {
                        path,
                        default: params.next().flatten(),
                    });
                }
                let Some((filter, span)) = args.next().and_then(|given| constant_name(&given))
                else {
                    self.note_call(
                        at,
                        format!("`{name}` needs the name of a filter or `attribute=`"),
                    );
                    return None;
                };
                let Some(filter_word) = Filter::parse(&filter) else {
                    if Each::parse(&filter).is_some() {
                        self.note_call(span, format!("`{name}` cannot apply `{filter}`"));
                    } else {
                        self.note_unknown(Word::Filter, &filter, span);
                    }
                    return None;
                };
                let params = self.bind(&filter, filter_word.signature(), args.collect(), at);
                Some(EachLink::MapFilter(filter_word, params))
            }
            Each::Select | Each::Reject => {
                let test = self.item_test(name, args, at)?;
                let when = each == Each::Select;
                Some(EachLink::Keep {
                    attribute: None,
                    test,
                    when,
                })
            }
            Each::SelectAttr | Each::RejectAttr => {
                let Some(Given {
                    arg: Arg::Positional(attribute),
                    ..
                }) = args.next()
                else {
                    self.note_call(at, format!("`{name}` needs an attribute"));
                    return None;
                };
                let test = self.item_test(name, args, at)?;
                let when = each == Each::SelectAttr;
                Some(EachLink::Keep {
                    attribute: Some(attribute),
                    test,
                    when,
                })
            }
        }
    }

    /// The test of a selecting filter with its arguments; none at all asks whether a value is true.
    #[expect(
        clippy::option_option,
        reason = "outside a fault, inside the absence of a test"
    )]
    fn item_test(
        &mut self,
        name: &str,
        mut args: std::vec::IntoIter<Given>,
        at: Span,
    ) -> Option<Option<(Test, Params)>> {
        let Some(given) = args.next() else {
            return Some(None);
        };
        let Some((test, span)) = constant_name(&given) else {
            self.note_call(
                given.span,
                format!("`{name}` needs the name of a test in quotes"),
            );
            return None;
        };
        let Some(word) = Test::parse(&test) else {
            self.note_unknown(Word::Test, &test, span);
            return None;
        };
        let params = self.bind(&test, word.signature(), args.collect(), at);
        Some(Some((word, params)))
    }
}

/// A name that is given as a quoted text, and where it stands without its quotes.
fn constant_name(given: &Given) -> Option<(Arc<str>, Span)> {
    let Arg::Positional(Expr {
        span,
        kind: ExprKind::Const(Json::Str(name)),
    }) = &given.arg
    else {
        return None;
    };
    let start = span.start() + 1;
    let inner = Span::new(start, (span.end() - 1).max(start));
    Some((Arc::clone(name), inner))
}
