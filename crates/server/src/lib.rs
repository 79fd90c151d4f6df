//! The control plane.
//!
//! Owns [`Runtime`], which drives executions on a store, and `http`, the HTTP API of the runtime.
//!
//! Must not contain rules of the playbook language (these belong to the engine) or SQL (this
//! belongs to the store).

pub mod clock;
pub mod crypto;
pub mod http;
mod metrics;
pub mod random_source;
mod read;
pub mod runtime;

pub use clock::{Clock, SystemClock};
pub use noetl_messaging::nats::NatsConnectionSettings;
pub use random_source::{RandomSource, SystemRandom};
pub use read::replay;
pub use runtime::{
    AuthContext, CommandToken, NatsSettings, Runtime, RuntimeError, Settings, StreamSettings,
};
