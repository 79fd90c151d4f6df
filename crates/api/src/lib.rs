//! Wire types and HTTP client of the NoETL API.
//!
//! Owns the request and response types, the paths, the error body, and the client. Classic bodies
//! ignore unknown fields, new bodies reject them. Ids are strings, because browsers round large
//! numbers, except in [`classic`], [`internal`] and [`secret_audit`].
//!
//! Must not contain logic: a type here defines what may be sent, not its effect.

#![warn(missing_docs)]

/// Implements `Debug` for bodies with a secret in `data`. Only the listed fields are printed.
macro_rules! debug_without_secret {
    ($($name:ident { $($field:ident),+ }),+) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter
                    .debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))+
                    .field("data", &noetl_types::redact::REDACTED)
                    .finish_non_exhaustive()
            }
        }
    )+};
}

pub mod catalog;
pub mod classic;
pub mod client;
pub mod command;
pub mod credential;
pub mod error;
pub mod execute;
pub mod execution;
pub mod explain;
pub mod health;
mod integer;
pub mod internal;
pub mod keychain;
pub mod output;
pub mod paths;
pub mod problem;
pub mod query;
pub mod replay;
pub mod result;
pub mod runtime;
pub mod secret_audit;
pub mod session;
pub mod signal;
pub mod stream;
pub mod system;
pub mod tokens;
pub mod vars;
pub mod worker_api;

pub use client::{Client, ClientSettings};
pub use error::ApiError;
pub use problem::Problem;
pub use worker_api::WorkerApi;

/// True for a default value, which the wire format omits.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
