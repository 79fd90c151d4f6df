//! The document of the HTTP API, OpenAPI 3.1, and the page that shows it.
//!
//! The document is made from the table of routes, the types of their handlers and a few words about
//! each (`operations`), by a test that compares it with `docs/openapi.json`. The server carries that
//! file, so none of the making is in the product.

mod describe;
#[cfg(test)]
mod document;
#[cfg(test)]
mod operations;
mod page;
#[cfg(test)]
mod tests;

pub(super) use describe::Described;
#[cfg(test)]
pub(super) use describe::Shape;
pub(super) use page::PAGE;

/// The document.
pub(super) const DOCUMENT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/openapi.json"
));
