//! Semantics of the template language.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test helper fails by panicking"
)]

mod conditions;
mod dynamic;
mod facts;
mod faults;
mod names;
mod oracle;
mod properties;
mod secrets;
mod statements;
mod support;
mod values;
mod vocabulary;
