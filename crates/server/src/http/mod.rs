//! The HTTP API of the services.
//!
//! Owns the limits on size and duration of requests, authentication and authorization, the parsing
//! of requests, and the format of errors. A handler parses its request, calls a service once, and
//! writes the response.
//!
//! Must not decide anything about executions or access the store.

mod body;
mod http_error;
mod json_response;
mod listener_kind;
mod live_stream;
mod metrics_listener;
mod middleware;
mod mtls;
mod openapi_page;
mod params;
mod request_context;
mod routes;
mod serve;
mod settings;
#[cfg(test)]
mod tests;
mod tls;
mod write_timeout;

pub use metrics_listener::{MetricsRenderer, serve_metrics};
pub use middleware::cors::AllowedOrigins;
pub use middleware::internal_token::InternalToken;
pub use mtls::CertificateIdentities;
pub use serve::{HttpListeners, ServeError, serve_http, serve_owner};
pub use settings::HttpSettings;
pub use tls::{ListenerTls, ListenerTlsError};
