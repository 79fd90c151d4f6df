//! What a template is once it is read: flat lists where the grammar has chains, so that its depth
//! is the depth of its brackets and walking it never needs much stack.

use std::sync::Arc;

use noetl_types::Json;

use super::lexer::Span;
use super::vocabulary::{Filter, Function, Method, Test};

/// An expression and where it stands.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) span: Span,
    pub(super) kind: ExprKind,
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Const(Json),
    Name(Name),
    /// A value followed by lookups, calls, filters and tests.
    Chain(Box<Expr>, Vec<Link>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    /// Operators of one precedence, from left to right.
    Math(Box<Expr>, Vec<(MathOp, Expr)>),
    /// `a < b < c` holds when each neighbouring pair does.
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Choose(Box<Choice>),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Call(Function, Vec<Arg>),
}

/// A name, and the variables of the template that may hold it, innermost first.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) text: Arc<str>,
    pub(super) slots: Box<[usize]>,
}

/// `yes if test else no`
#[derive(Debug)]
pub(super) struct Choice {
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

/// One step of a [`ExprKind::Chain`].
#[derive(Debug)]
pub(super) struct Link {
    pub(super) span: Span,
    pub(super) kind: LinkKind,
}

#[derive(Debug)]
pub(super) enum LinkKind {
    Attribute(Arc<str>),
    Index(Expr),
    Slice(Box<Slice>),
    Method(Method, Params),
    Filter(Filter, Params),
    Each(Box<Each>),
    Test {
        test: Test,
        params: Params,
        negated: bool,
    },
    LoopCycle(Vec<Expr>),
    LoopChanged(Vec<Expr>),
}

#[derive(Debug)]
pub(super) struct Slice {
    pub(super) start: Option<Expr>,
    pub(super) stop: Option<Expr>,
    pub(super) step: Option<Expr>,
}

/// Arguments bound to the parameters of a word, in the order of its signature.
pub(super) type Params = Vec<Option<Expr>>;

/// A filter that does something to every item.
#[derive(Debug)]
pub(super) enum Each {
    MapAttribute {
        path: Expr,
        default: Option<Expr>,
    },
    MapFilter(Filter, Params),
    /// Keeps the items whose value, or attribute, passes the test or is true.
    Keep {
        attribute: Option<Expr>,
        test: Option<(Test, Params)>,
        when: bool,
    },
}

/// An argument of a function that takes any number of them.
#[derive(Debug)]
pub(super) enum Arg {
    Positional(Expr),
    Named(Arc<str>, Expr),
    /// `*list`
    Spread(Expr),
    /// `**map`
    SpreadNamed(Expr),
}

/// A piece of a template that yields text.
#[derive(Debug)]
pub(super) enum Node {
    Text(Box<str>),
    Output(Expr),
    If(Vec<(Expr, Vec<Node>)>, Vec<Node>),
    For(Box<For>),
    Set(Box<(Target, Expr)>),
    SetBlock(Box<SetBlock>),
}

/// `{% set target | filters %}body{% endset %}`
#[derive(Debug)]
pub(super) struct SetBlock {
    pub(super) target: Target,
    pub(super) filters: Vec<Link>,
    pub(super) body: Vec<Node>,
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) items: Expr,
    pub(super) keep: Option<Expr>,
    pub(super) body: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
    /// The variable that holds `loop`.
    pub(super) loop_slot: usize,
    /// Variables that live for one iteration.
    pub(super) slots: std::ops::Range<usize>,
}

/// Where an assignment goes.
#[derive(Debug)]
pub(super) enum Target {
    Slot(usize),
    /// `a, b`
    Several(Vec<Target>, Span),
    /// `namespace.key`
    Member {
        namespace: Expr,
        key: Arc<str>,
    },
}

/// A whole template.
#[derive(Debug)]
pub(super) enum Body {
    /// Text without tags.
    Literal(Json),
    /// Exactly one `{{ }}`: the value keeps its type.
    Value(Expr),
    /// Anything else is text.
    Text(Vec<Node>),
}
