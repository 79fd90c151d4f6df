//! The program of a parsed template. It has flat lists where the grammar has chains, so its depth
//! is the depth of the brackets in the text and evaluating it never needs a deep stack.

use std::sync::Arc;

use noetl_types::Json;

use super::eval::vocabulary::{Filter, Function, Method, Test};
use super::lexer::ByteSpan;

/// An expression and its location.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) span: ByteSpan,
    pub(super) kind: ExprKind,
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Const(Json),
    Name(NameExpr),
    /// A value followed by lookups, calls, filters and tests.
    Chain(Box<Expr>, Vec<ChainLink>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    /// Operators of one precedence, from left to right.
    Math(Box<Expr>, Vec<(MathOp, Expr)>),
    /// `a < b < c` holds if each adjacent pair does.
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Conditional(Box<ConditionalExpr>),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Call(&'static Function, Vec<CallArg>),
}

/// A name, and the slots of the template variables that may hold it, innermost first.
#[derive(Debug)]
pub(super) struct NameExpr {
    pub(super) text: Arc<str>,
    pub(super) slots: Box<[usize]>,
}

/// `yes if test else no`
#[derive(Debug)]
pub(super) struct ConditionalExpr {
    pub(super) test: Expr,
    pub(super) yes: Expr,
    pub(super) no: Option<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MathOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Rem,
    Pow,
    Concat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
}

/// One element of an [`ExprKind::Chain`].
#[derive(Debug)]
pub(super) struct ChainLink {
    pub(super) span: ByteSpan,
    pub(super) kind: LinkKind,
}

#[derive(Debug)]
pub(super) enum LinkKind {
    Attribute(Arc<str>),
    Index(Expr),
    Slice(Box<SliceExpr>),
    Method(&'static Method, Params),
    Filter(&'static Filter, Params),
    ItemFilter(Box<ItemFilter>),
    Test { test: &'static Test, params: Params, negated: bool },
    LoopCycle(Vec<Expr>),
    LoopChanged(Vec<Expr>),
}

#[derive(Debug)]
pub(super) struct SliceExpr {
    pub(super) start: Option<Expr>,
    pub(super) stop: Option<Expr>,
    pub(super) step: Option<Expr>,
}

/// Arguments bound to the parameters of a filter, test or method, in the order of its signature.
pub(super) type Params = Vec<Option<Expr>>;

/// A filter that is applied to every item.
#[derive(Debug)]
pub(super) enum ItemFilter {
    MapAttribute {
        path: Expr,
        default: Option<Expr>,
    },
    MapFilter(&'static Filter, Params),
    /// Keeps the items whose value, or attribute, passes the test (or is true, without a test).
    Keep {
        attribute: Option<Expr>,
        test: Option<(&'static Test, Params)>,
        when: bool,
    },
}

/// An argument of a function with a variable number of arguments.
#[derive(Debug)]
pub(super) enum CallArg {
    Positional(Expr),
    Named(Arc<str>, Expr),
    /// `*list`
    Spread(Expr),
    /// `**map`
    SpreadNamed(Expr),
}

impl CallArg {
    pub(super) fn value(&self) -> &Expr {
        match self {
            Self::Positional(expr)
            | Self::Named(_, expr)
            | Self::Spread(expr)
            | Self::SpreadNamed(expr) => expr,
        }
    }
}

/// A piece of a template that yields text.
#[derive(Debug)]
pub(super) enum TemplateNode {
    Text(Box<str>),
    Output(Expr),
    If(Vec<(Expr, Vec<TemplateNode>)>, Vec<TemplateNode>),
    For(Box<ForBlock>),
    Set(Box<(AssignTarget, Expr)>),
    SetBlock(Box<SetBlock>),
}

/// `{% set target | filters %}body{% endset %}`
#[derive(Debug)]
pub(super) struct SetBlock {
    pub(super) target: AssignTarget,
    pub(super) filters: Vec<ChainLink>,
    pub(super) body: Vec<TemplateNode>,
}

#[derive(Debug)]
pub(super) struct ForBlock {
    pub(super) target: AssignTarget,
    pub(super) items: Expr,
    pub(super) filter: Option<Expr>,
    pub(super) body: Vec<TemplateNode>,
    pub(super) else_body: Vec<TemplateNode>,
    /// Slot of the variable `loop`.
    pub(super) loop_slot: usize,
    /// Slots of the variables of one iteration.
    pub(super) slots: std::ops::Range<usize>,
}

/// The target of an assignment.
#[derive(Debug)]
pub(super) enum AssignTarget {
    Slot(usize),
    /// `a, b`
    Several(Vec<AssignTarget>, ByteSpan),
    /// `namespace.key`
    Member {
        namespace: Expr,
        key: Arc<str>,
    },
}

/// A whole template.
#[derive(Debug)]
pub(super) enum TemplateBody {
    /// Text without tags.
    Literal(Json),
    /// Exactly one `{{ }}`: the value keeps its type.
    Value(Expr),
    /// Anything else is text.
    Text(Vec<TemplateNode>),
}
