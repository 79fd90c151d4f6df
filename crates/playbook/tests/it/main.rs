//! Integration tests of the language, in one binary.

mod corpus;
mod pages;
mod robustness;
mod template_limits;
mod template_suite;
