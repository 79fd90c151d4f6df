//! Handlers: each parses its request, calls the runtime once, and writes the response.

pub(super) mod audit;
pub(super) mod catalog;
pub(super) mod classic;
pub(super) mod commands;
pub(super) mod credentials;
pub(super) mod event_stream;
pub(super) mod execute;
pub(super) mod executions;
pub(super) mod health;
pub(super) mod internal;
pub(super) mod keychain;
pub(super) mod live_events;
pub(super) mod openapi;
pub(super) mod outbox;
pub(super) mod replay;
pub(super) mod results;
pub(super) mod signals;
pub(super) mod system;
pub(super) mod tokens;
pub(super) mod vars;
pub(super) mod workers;
