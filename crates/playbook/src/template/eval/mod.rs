//! Walks a program and yields its value.
//!
//! Owns what every operator, filter, test, function and method means. Has no clock, no chance, no
//! environment and no I/O: whatever it sees comes from the scope, and whatever it costs is asked
//! of the meter first.

mod collection;
mod encode;
mod expression;
mod filter;
mod function;
mod machine;
mod method;
mod path;
mod ranking;
mod run;
mod statement;
mod test;
mod text;
mod value;

pub(super) use machine::{Done, evaluate};
pub(super) use text::truthy_text;
