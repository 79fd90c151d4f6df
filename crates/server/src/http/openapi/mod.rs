//! The OpenAPI 3.1 document of the HTTP API, and its HTML page.
//!
//! A test generates the document from the route table, the types of the handlers and the texts in
//! `operations`, and compares it with `docs/openapi.json`. The server embeds that file, so the
//! generator is compiled for tests only.

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
pub(super) use describe::HandlerShape;
pub(super) use page::PAGE;

/// The OpenAPI document as JSON text.
pub(super) const DOCUMENT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json"));
