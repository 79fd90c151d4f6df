//! Static analysis: properties of a template that are known without rendering.

use std::ops::Range;
use std::sync::Arc;

use noetl_types::Json;

use super::program::{CompareOp, Expr, ExprKind, LinkKind, MathOp};
use super::vocabulary::{Filter, Function, Method};

/// The names a template reads, its comparisons and its outputs, with byte ranges in its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateFacts {
    /// All reads of names that the environment provides, in order.
    pub reads: Vec<NameRead>,
    /// Comparisons of types that are never equal and have no meaningful order.
    pub mismatches: Vec<TypeMismatch>,
    /// Constant texts that `event.name` is compared with.
    pub event_names: Vec<EventName>,
    /// Byte range of each `{{ }}`, including the delimiters.
    pub outputs: Vec<Range<usize>>,
}

/// A read of a name from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRead {
    /// The name, followed by the constant keys after it: `['steps', 'a', 'data']`.
    pub path: Vec<Arc<str>>,
    /// Byte range of the path.
    pub range: Range<usize>,
    /// True if a conditional `set` may have defined a variable of this name, so that the
    /// environment need not provide it.
    pub maybe_local: bool,
}

impl NameRead {
    /// The name that is looked up in the environment.
    pub fn root(&self) -> &str {
        self.path.first().map_or("", |root| root)
    }
}

/// A comparison whose sides always have different types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeMismatch {
    /// User-facing type of the left side.
    pub left: &'static str,
    /// User-facing type of the right side.
    pub right: &'static str,
    /// Byte range from the left side to the right side.
    pub range: Range<usize>,
}

/// A constant text that `event.name` is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventName {
    /// The text.
    pub name: Arc<str>,
    /// Byte range of the text, including the quotes.
    pub range: Range<usize>,
}

impl TemplateFacts {
    /// Records the facts of one comparison.
    pub(super) fn record_comparison(&mut self, left: &Expr, op: CompareOp, right: &Expr) {
        let membership = matches!(op, CompareOp::In | CompareOp::NotIn);
        if is_event_name_lookup(left) {
            self.record_event_names(right);
        } else if is_event_name_lookup(right) && !membership {
            self.record_event_names(left);
        }
        if membership {
            return;
        }
        let (Some(left_type), Some(right_type)) = (static_type(left), static_type(right)) else {
            return;
        };
        // Comparing with null is the way to test for null.
        if left_type != right_type && left_type != "null" && right_type != "null" {
            self.mismatches.push(TypeMismatch {
                left: left_type,
                right: right_type,
                range: left.span.start()..right.span.end(),
            });
        }
    }

    fn record_event_names(&mut self, constant: &Expr) {
        match &constant.kind {
            ExprKind::Const(Json::Str(name)) => self
                .event_names
                .push(EventName { name: Arc::clone(name), range: constant.span.range() }),
            ExprKind::List(items) => {
                for item in items {
                    if matches!(item.kind, ExprKind::Const(Json::Str(_))) {
                        self.record_event_names(item);
                    }
                }
            }
            ExprKind::Const(_)
            | ExprKind::Name(_)
            | ExprKind::Chain(..)
            | ExprKind::Not(_)
            | ExprKind::Negate(_)
            | ExprKind::Math(..)
            | ExprKind::Compare(..)
            | ExprKind::And(_)
            | ExprKind::Or(_)
            | ExprKind::Conditional(_)
            | ExprKind::Map(_)
            | ExprKind::Call(..) => {}
        }
    }
}

/// `event.name` or `event['name']`.
fn is_event_name_lookup(expr: &Expr) -> bool {
    let ExprKind::Chain(base, links) = &expr.kind else {
        return false;
    };
    let ExprKind::Name(root) = &base.kind else {
        return false;
    };
    let [link] = links.as_slice() else {
        return false;
    };
    &*root.text == "event" && static_key(&link.kind).is_some_and(|key| &**key == "name")
}

/// The key of a lookup, if it is constant.
pub(super) fn static_key(link: &LinkKind) -> Option<&Arc<str>> {
    match link {
        LinkKind::Attribute(key) => Some(key),
        LinkKind::Index(index) => match &index.kind {
            ExprKind::Const(Json::Str(key)) => Some(key),
            _ => None,
        },
        LinkKind::Slice(_)
        | LinkKind::Method(..)
        | LinkKind::Filter(..)
        | LinkKind::ItemFilter(_)
        | LinkKind::Test { .. }
        | LinkKind::LoopCycle(_)
        | LinkKind::LoopChanged(_) => None,
    }
}

/// The type of an expression, if it is the same for all data.
fn static_type(expr: &Expr) -> Option<&'static str> {
    match &expr.kind {
        ExprKind::Const(value) => Some(value.type_name()),
        ExprKind::Not(_) | ExprKind::Compare(..) => Some("bool"),
        ExprKind::Negate(_) => Some("number"),
        ExprKind::Math(_, rest) => match rest.first()?.0 {
            MathOp::Concat => Some("text"),
            MathOp::Sub | MathOp::Div | MathOp::FloorDiv | MathOp::Rem | MathOp::Pow => {
                Some("number")
            }
            // These operators also concatenate and repeat texts and lists.
            MathOp::Add | MathOp::Mul => None,
        },
        ExprKind::List(_) => Some("list"),
        ExprKind::Map(_) => Some("map"),
        ExprKind::Call(function, _) => function_type(*function),
        ExprKind::Chain(_, links) => links.last().and_then(|link| link_type(&link.kind)),
        ExprKind::Name(_) | ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Conditional(_) => None,
    }
}

fn function_type(function: Function) -> Option<&'static str> {
    match function {
        Function::Now | Function::Uuid => Some("text"),
        Function::Range => Some("list"),
        Function::Dict => Some("map"),
        Function::Random => Some("number"),
        Function::Namespace => None,
    }
}

fn link_type(link: &LinkKind) -> Option<&'static str> {
    match link {
        LinkKind::Test { .. } | LinkKind::LoopChanged(_) => Some("bool"),
        LinkKind::ItemFilter(_) => Some("list"),
        LinkKind::Filter(filter, params) => filter_type(*filter, params.first()),
        LinkKind::Method(method, _) => match method {
            Method::Lower
            | Method::Upper
            | Method::Strip
            | Method::Join
            | Method::Replace
            | Method::IsoFormat => Some("text"),
            Method::StartsWith | Method::EndsWith => Some("bool"),
            Method::Keys | Method::Values | Method::Items | Method::Split => Some("list"),
            Method::Get => None,
        },
        LinkKind::Attribute(_)
        | LinkKind::Index(_)
        | LinkKind::Slice(_)
        | LinkKind::LoopCycle(_) => None,
    }
}

fn filter_type(filter: Filter, first: Option<&Option<Expr>>) -> Option<&'static str> {
    match filter {
        // A default of another type may replace the number.
        Filter::Int | Filter::Float => match first {
            Some(Some(default)) => static_type(default).filter(|found| *found == "number"),
            Some(None) | None => Some("number"),
        },
        Filter::Length | Filter::Abs | Filter::Round => Some("number"),
        Filter::Bool => Some("bool"),
        Filter::String
        | Filter::Lower
        | Filter::Upper
        | Filter::Title
        | Filter::Trim
        | Filter::Replace
        | Filter::Join
        | Filter::ToJson
        | Filter::B64Encode
        | Filter::B64Decode
        | Filter::UrlEncode
        | Filter::Sha256 => Some("text"),
        Filter::Split
        | Filter::Keys
        | Filter::Values
        | Filter::Items
        | Filter::Sort
        | Filter::Unique
        | Filter::GroupBy
        | Filter::List => Some("list"),
        Filter::Default
        | Filter::First
        | Filter::Last
        | Filter::Get
        | Filter::FromJson
        | Filter::Reverse
        | Filter::Sum
        | Filter::Min
        | Filter::Max
        | Filter::Safe => None,
    }
}
