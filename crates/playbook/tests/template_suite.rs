//! Semantics of the template language.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test helper fails by panicking"
)]
#![expect(clippy::too_many_lines, reason = "a table is easier to read in one piece")]

#[path = "template_suite/conditions.rs"]
mod conditions;
#[path = "template_suite/dynamic.rs"]
mod dynamic;
#[path = "template_suite/facts.rs"]
mod facts;
#[path = "template_suite/faults.rs"]
mod faults;
#[path = "template_suite/names.rs"]
mod names;
#[path = "template_suite/oracle.rs"]
mod oracle;
#[path = "template_suite/properties.rs"]
mod properties;
#[path = "template_suite/secrets.rs"]
mod secrets;
#[path = "template_suite/statements.rs"]
mod statements;
#[path = "template_suite/support.rs"]
mod support;
#[path = "template_suite/values.rs"]
mod values;
#[path = "template_suite/vocabulary.rs"]
mod vocabulary;
