//! Parses tokens into a program.
//!
//! Owns the grammar: expressions, statements, and which names are template variables. Nesting is
//! counted in one place, so no text can exhaust the stack of the parser or of anything that walks
//! its program.

mod arguments;
mod expression;
mod state;
mod statement;
mod variables;

pub use state::TemplatePlace;
pub(super) use state::{ParsedTemplate, parse_bare_expression, parse_template};
