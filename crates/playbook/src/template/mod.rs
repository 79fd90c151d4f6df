//! Templates: texts with `{{ }}` and `{% %}` that are rendered against a scope.
//!
//! Owns the syntax (that of Jinja, less everything that reaches out of the template), the
//! vocabulary, and what both mean. A template is read once, into a program without deep nesting;
//! rendering walks it against a [`Scope`] and yields a canonical [`Json`](noetl_types::Json) value.
//!
//! - Rendering is pure. It has no clock, chance, environment, file or network of its own: the same
//!   scope gives the same bytes.
//! - A rendered value is never rendered again: it is data, and there is no way from data to a
//!   template but [`Template::parse`].
//! - Everything has a bound, see [`TemplateLimits`], and the bound is asked before the cost is
//!   incurred.
//! - A value that was made from a secret is known to be one, see [`Rendered`]; and no message
//!   holds a value.

mod compiled;
mod dynamic;
mod error;
mod eval;
mod facts;
mod fault;
mod items;
mod lexer;
mod limits;
mod meter;
mod number;
mod order;
mod parser;
mod print;
mod program;
mod rendered;
mod scope;
mod view;
mod vocabulary;

pub use compiled::{ParseOptions, Template, truthy};
pub use dynamic::{Dynamic, Key, Leaf};
pub use error::{Limit, Need, RenderError, RenderErrorKind};
pub use facts::{EventName, Facts, Mismatch, Read};
pub use fault::{Fault, FaultKind, Word};
pub use items::{LoopItemsError, MAX_LOOP_ITEMS, loop_items};
pub use limits::TemplateLimits;
pub use parser::Place;
pub use rendered::{REDACTED, Rendered, Segment, ValuePath};
pub use scope::{Binding, MapScope, Scope, StartScope};
pub use view::{Data, External, Output, OutputPlace, Overlay, StepData};
