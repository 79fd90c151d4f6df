//! The wire of NoETL.
//!
//! Owns what a request and an answer look like, the paths they go by, the body of an error, and the
//! client that speaks them. Classic bodies ignore fields that they do not know, those that are new
//! here refuse them. Ids travel as texts, since a browser rounds numbers, but for [`classic`],
//! [`internal`] and [`secret_audit`].
//!
//! Must not: decide anything. A type here says what may be written, not what follows from it.

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
pub mod internal;
pub mod keychain;
pub mod paths;
pub mod problem;
pub mod query;
pub mod replay;
pub mod result;
pub mod runtime;
pub mod secret_audit;
pub mod signal;
pub mod stream;
pub mod system;
pub mod token;
pub mod tokens;
pub mod vars;
pub mod worker_api;

pub use client::{Client, ClientSettings};
pub use error::ApiError;
pub use problem::Problem;
pub use token::LeaseToken;
pub use worker_api::WorkerApi;
