//! Evaluates a program to its value.
//!
//! Owns the meaning of all operators, filters, tests, functions and methods. It has no clock, no
//! randomness, no environment variables and no I/O: all inputs come from the template environment,
//! and all costs are charged to the meter first.

mod attribute_path;
mod collection;
mod context;
mod encode;
mod evaluator;
mod expression;
mod filter;
mod function;
mod method;
mod sorting;
mod statement;
mod test;
mod text;
mod value;

pub(super) use evaluator::{RenderOutcome, evaluate_body};
pub(super) use text::is_truthy_text;
