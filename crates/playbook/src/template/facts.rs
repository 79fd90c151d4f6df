//! What can be said of a template without rendering it.

use std::ops::Range;
use std::sync::Arc;

use noetl_types::Json;

use super::program::{CompareOp, Expr, ExprKind, LinkKind, MathOp};
use super::vocabulary::{Filter, Function, Method};

/// What a template reads, compares and prints, with places in bytes of its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Every read of a name that the scope provides, in order.
    pub reads: Vec<Read>,
    /// Comparisons of types that are never equal and have no meaningful order.
    pub mismatches: Vec<Mismatch>,
    /// Constant texts that `event.name` is compared with.
    pub event_names: Vec<EventName>,
    /// Each `{{ }}`, marks included.
    pub outputs: Vec<Range<usize>>,
}

/// A name that is looked up in the scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The name itself, then the keys that are written out after it: `['steps', 'a', 'data']`.
    pub path: Vec<Arc<str>>,
    /// Where the path stands.
    pub range: Range<usize>,
    /// A `set` under a condition may have made a variable of this name, so that the scope need
    /// not know it.
    pub maybe_local: bool,
}

impl Read {
    /// The name that the scope is asked for.
    pub fn root(&self) -> &str {
        self.path.first().map_or("", |root| root)
    }
}

/// A comparison whose sides have different types, whatever the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Type of the left side, as a person calls it.
    pub left: &'static str,
    /// Type of the right side.
    pub right: &'static str,
    /// Both sides and what is between them.
    pub range: Range<usize>,
}

/// A text that `event.name` is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventName {
    /// The text.
    pub name: Arc<str>,
    /// Where it stands, quotes included.
    pub range: Range<usize>,
}

impl Facts {
    /// Notes what one comparison tells.
    pub(super) fn note_comparison(&mut self, left: &Expr, op: CompareOp, right: &Expr) {
        let membership = matches!(op, CompareOp::In | CompareOp::NotIn);
        if is_event_name(left) {
            self.note_event_names(right);
        } else if is_event_name(right) && !membership {
            self.note_event_names(left);
        }
        if membership {
            return;
        }
        let (Some(left_type), Some(right_type)) = (static_type(left), static_type(right)) else {
            return;
        };
        // Comparing with null is how one asks for null.
        if left_type != right_type && left_type != "null" && right_type != "null" {
            self.mismatches.push(Mismatch {
                left: left_type,
                right: right_type,
                range: left.span.start()..right.span.end(),
            });
        }
    }

    fn note_event_names(&mut self, constant: &Expr) {
        match &constant.kind {
            ExprKind::Const(Json::Str(name)) => self.event_names.push(EventName {
                name: Arc::clone(name),
                range: constant.span.range(),
            }),
            ExprKind::List(items) => {
                for item in items {
                    if matches!(item.kind, ExprKind::Const(Json::Str(_))) {
                        self.note_event_names(item);
                    }
                }
            }
            ExprKind::Const(_)
            | ExprKind::Name(_)
            | ExprKind::Chain(..)
            | ExprKind::Not(_)
            | ExprKind::Negative(_)
            | ExprKind::Math(..)
            | ExprKind::Compare(..)
            | ExprKind::And(_)
            | ExprKind::Or(_)
            | ExprKind::Choose(_)
            | ExprKind::Map(_)
            | ExprKind::Call(..) => {}
        }
    }
}

/// `event.name` or `event['name']`.
fn is_event_name(expr: &Expr) -> bool {
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

/// The key of a lookup that is written out.
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
        | LinkKind::Each(_)
        | LinkKind::Test { .. }
        | LinkKind::LoopCycle(_)
        | LinkKind::LoopChanged(_) => None,
    }
}

/// The type that an expression has whatever the data, if that can be seen.
fn static_type(expr: &Expr) -> Option<&'static str> {
    match &expr.kind {
        ExprKind::Const(value) => Some(value.type_name()),
        ExprKind::Not(_) | ExprKind::Compare(..) => Some("bool"),
        ExprKind::Negative(_) => Some("number"),
        ExprKind::Math(_, rest) => match rest.first()?.0 {
            MathOp::Concat => Some("text"),
            MathOp::Sub | MathOp::Div | MathOp::FloorDiv | MathOp::Rem | MathOp::Pow => {
                Some("number")
            }
            // These also join and repeat texts and lists.
            MathOp::Add | MathOp::Mul => None,
        },
        ExprKind::List(_) => Some("list"),
        ExprKind::Map(_) => Some("map"),
        ExprKind::Call(function, _) => function_type(*function),
        ExprKind::Chain(_, links) => links.last().and_then(|link| link_type(&link.kind)),
        ExprKind::Name(_) | ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Choose(_) => None,
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
        LinkKind::Each(_) => Some("list"),
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
        // A default of another type may come out in place of the number.
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
