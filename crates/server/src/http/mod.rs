//! The routes in front of the runtime.
//!
//! Owns what a request must look like before it is believed: how large and how slow it may be, who
//! may make it, how its parts are read, and how each failure is told. A handler reads, calls the
//! runtime once, and answers.
//!
//! Must not: decide anything about executions, or touch the store.

mod access;
mod acting;
mod answer;
mod body;
mod capability;
mod certified;
mod cors;
mod door;
mod failure;
mod front;
mod handlers;
mod identity;
mod internal;
mod live;
mod once;
mod openapi;
mod paged;
mod params;
mod part;
mod peer;
mod rates;
mod request_id;
mod routes;
mod routing;
mod scrape;
mod serve;
mod settings;
mod stall;
#[cfg(test)]
mod tests;
mod tls;

pub use certified::CertifiedNames;
pub use cors::Origins;
pub use internal::InternalToken;
pub use scrape::{Scraped, serve_scrapes};
pub use serve::{Listeners, ServeError, serve};
pub use settings::HttpSettings;
pub use tls::{Tls, TlsRefused};
