//! Static analysis: properties of a template that are known without rendering.

use std::ops::Range;
use std::sync::Arc;

use noetl_types::Json;

use super::program::{ChainLink, CompareOp, Expr, ExprKind, LinkKind, MathOp};

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
    /// Names that may be absent: the template tests whether they are defined, or has a default.
    pub optional_names: Vec<Arc<str>>,
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

    /// Records the name at the start of a value that may be absent.
    pub(super) fn record_optional(&mut self, value: &Expr, links: &[ChainLink]) {
        let allows_absence = links.iter().any(|link| match &link.kind {
            LinkKind::Filter(filter, _) => matches!(filter.name(), "default" | "d"),
            LinkKind::Test { test, .. } => matches!(test.name(), "defined" | "undefined" | "none"),
            _ => false,
        });
        let base = match &value.kind {
            ExprKind::Chain(base, _) => &base.kind,
            other => other,
        };
        if let (true, ExprKind::Name(name)) = (allows_absence, base) {
            self.optional_names.push(Arc::clone(&name.text));
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
            _ => {}
        }
    }
}

/// `event.name` or `event['name']`.
fn is_event_name_lookup(expr: &Expr) -> bool {
    if let ExprKind::Chain(base, links) = &expr.kind
        && let ExprKind::Name(root) = &base.kind
        && let [link] = links.as_slice()
    {
        return &*root.text == "event"
            && static_key(&link.kind).is_some_and(|key| &**key == "name");
    }
    false
}

/// The key of a lookup, if it is constant.
pub(super) fn static_key(link: &LinkKind) -> Option<&Arc<str>> {
    match link {
        LinkKind::Attribute(key) => Some(key),
        LinkKind::Index(index) => match &index.kind {
            ExprKind::Const(Json::Str(key)) => Some(key),
            _ => None,
        },
        _ => None,
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
        ExprKind::Call(function, _) => function.result,
        ExprKind::Chain(_, links) => links.last().and_then(|link| link_type(&link.kind)),
        ExprKind::Name(_) | ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Conditional(_) => None,
    }
}

/// True if the text of a value is made of letters, digits and a few symbols, without quotes.
pub(super) fn yields_plain_text(expr: &Expr) -> bool {
    let is_encoded = match &expr.kind {
        ExprKind::Chain(_, links) => links.last().is_some_and(|link| match &link.kind {
            LinkKind::Filter(filter, _) => {
                matches!(filter.name(), "urlencode" | "b64encode" | "sha256")
            }
            _ => false,
        }),
        _ => false,
    };
    is_encoded || matches!(static_type(expr), Some("number" | "bool"))
}

fn link_type(link: &LinkKind) -> Option<&'static str> {
    match link {
        LinkKind::Test { .. } | LinkKind::LoopChanged(_) => Some("bool"),
        LinkKind::ItemFilter(_) => Some("list"),
        LinkKind::Filter(filter, params) => match (filter.name(), params.first()) {
            // A default of another type may replace the number.
            ("int" | "float", Some(Some(default))) => {
                static_type(default).filter(|found| *found == "number")
            }
            _ => filter.result,
        },
        LinkKind::Method(method, _) => method.result,
        _ => None,
    }
}
