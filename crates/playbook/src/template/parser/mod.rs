//! From tokens to a program.
//!
//! Owns the grammar: expressions, statements, and which names are variables of the template. Nesting
//! is counted in one place, so no text can make the parser, or anything that walks its program,
//! run out of stack.

mod arguments;
mod expression;
mod names;
mod reader;
mod statement;

pub use reader::Place;
pub(super) use reader::{Parsed, bare, template};
