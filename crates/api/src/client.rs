//! The client over HTTP.

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {}
